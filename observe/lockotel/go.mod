module github.com/golocker/golocker/observe/lockotel

go 1.26.0

require (
	github.com/alicebob/miniredis/v2 v2.40.0
	github.com/golocker/golocker/drivers/goredis v0.0.0
	github.com/golocker/golocker/locker v0.0.0
	github.com/redis/go-redis/v9 v9.23.0
	github.com/stretchr/testify v1.12.1
	go.opentelemetry.io/otel v1.47.0
	go.opentelemetry.io/otel/metric v1.47.0
	go.opentelemetry.io/otel/sdk v1.47.0
	go.opentelemetry.io/otel/sdk/metric v1.47.0
	go.opentelemetry.io/otel/trace v1.47.0
	go.uber.org/goleak v1.3.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/go-logr/logr v1.4.4 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.opentelemetry.io/auto/sdk v1.2.1 // indirect
	go.opentelemetry.io/otel/log v1.47.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace (
	github.com/golocker/golocker/conformance => ../../conformance
	github.com/golocker/golocker/drivers/goredis => ../../drivers/goredis
	github.com/golocker/golocker/internal/servertest => ../../internal/servertest
	github.com/golocker/golocker/locker => ../../locker
)
