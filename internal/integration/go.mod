module github.com/golocker/golocker/internal/integration

go 1.26.0

require (
	github.com/golocker/golocker/conformance v0.0.0
	github.com/golocker/golocker/drivers/goredis v0.0.0
	github.com/golocker/golocker/drivers/redigo v0.0.0
	github.com/golocker/golocker/drivers/rueidis v0.0.0
	github.com/golocker/golocker/internal/servertest v0.0.0
	github.com/golocker/golocker/locker v0.0.0
	github.com/golocker/golocker/redlock v0.0.0
	github.com/golocker/golocker/rwlock v0.0.0
	github.com/gomodule/redigo v1.9.3
	github.com/redis/go-redis/v9 v9.23.0
	github.com/redis/rueidis v1.0.79
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace (
	github.com/golocker/golocker/conformance => ../../conformance
	github.com/golocker/golocker/drivers/goredis => ../../drivers/goredis
	github.com/golocker/golocker/drivers/redigo => ../../drivers/redigo
	github.com/golocker/golocker/drivers/rueidis => ../../drivers/rueidis
	github.com/golocker/golocker/internal/servertest => ../servertest
	github.com/golocker/golocker/locker => ../../locker
	github.com/golocker/golocker/redlock => ../../redlock
	github.com/golocker/golocker/rwlock => ../../rwlock
)
