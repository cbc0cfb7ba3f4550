module github.com/golocker/golocker/examples

go 1.26.0

require (
	github.com/alicebob/miniredis/v2 v2.40.0
	github.com/golocker/golocker/conformance v0.0.0
	github.com/golocker/golocker/drivers/goredis v0.0.0
	github.com/golocker/golocker/drivers/redigo v0.0.0
	github.com/golocker/golocker/drivers/rueidis v0.0.0
	github.com/golocker/golocker/internal/servertest v0.0.0
	github.com/golocker/golocker/locker v0.0.0
	github.com/golocker/golocker/rwlock v0.0.0
	github.com/redis/go-redis/v9 v9.23.0
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
	modernc.org/sqlite v1.50.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/gomodule/redigo v1.9.3 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/mattn/go-isatty v0.0.20 // indirect
	github.com/ncruces/go-strftime v1.0.0 // indirect
	github.com/redis/rueidis v1.0.79 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.49.0 // indirect
	modernc.org/libc v1.72.0 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.11.0 // indirect
)

replace (
	github.com/golocker/golocker/conformance => ../conformance
	github.com/golocker/golocker/drivers/goredis => ../drivers/goredis
	github.com/golocker/golocker/drivers/redigo => ../drivers/redigo
	github.com/golocker/golocker/drivers/rueidis => ../drivers/rueidis
	github.com/golocker/golocker/internal/servertest => ../internal/servertest
	github.com/golocker/golocker/locker => ../locker
	github.com/golocker/golocker/rwlock => ../rwlock
)
