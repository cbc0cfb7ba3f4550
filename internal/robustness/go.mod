module github.com/golocker/golocker/internal/robustness

go 1.26.0

require (
	github.com/HdrHistogram/hdrhistogram-go v1.4.0
	github.com/golocker/golocker/conformance v0.0.0
	github.com/golocker/golocker/internal/servertest v0.0.0
	github.com/stretchr/testify v1.12.1
	golang.org/x/sys v0.48.0
)

require (
	github.com/golocker/golocker/locker v0.0.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
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
