module github.com/golocker/golocker/observe/lockprom

go 1.26.0

require (
	github.com/golocker/golocker/locker v0.0.0
	github.com/prometheus/client_golang v1.25.0
)

require (
	github.com/kylelemons/godebug v1.1.0 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)

require (
	github.com/alicebob/miniredis/v2 v2.40.0
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/golocker/golocker/drivers/goredis v0.0.0
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/prometheus/client_model v0.6.3
	github.com/prometheus/common v0.72.0
	github.com/prometheus/procfs v0.22.0 // indirect
	github.com/redis/go-redis/v9 v9.23.0
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
	golang.org/x/sys v0.49.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace (
	github.com/golocker/golocker/conformance => ../../conformance
	github.com/golocker/golocker/drivers/goredis => ../../drivers/goredis
	github.com/golocker/golocker/internal/servertest => ../../internal/servertest
	github.com/golocker/golocker/locker => ../../locker
)
