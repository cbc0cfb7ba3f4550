module github.com/golocker/golocker/bench

go 1.26.0

require (
	github.com/bsm/redislock v0.9.4
	github.com/go-redsync/redsync/v4 v4.18.1
	github.com/golocker/golocker/drivers/goredis v0.0.0
	github.com/golocker/golocker/drivers/redigo v0.0.0
	github.com/golocker/golocker/drivers/rueidis v0.0.0
	github.com/golocker/golocker/internal/servertest v0.0.0
	github.com/golocker/golocker/locker v0.0.0
	github.com/golocker/golocker/redlock v0.0.0
	github.com/gomodule/redigo v1.9.3
	github.com/redis/go-redis/v9 v9.23.0
	github.com/redis/rueidis v1.0.79
	github.com/redis/rueidis/rueidiscompat v1.0.79
	github.com/stretchr/testify v1.12.1
	golang.org/x/sys v0.49.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)

replace (
	github.com/golocker/golocker/conformance => ../conformance
	github.com/golocker/golocker/drivers/goredis => ../drivers/goredis
	github.com/golocker/golocker/drivers/redigo => ../drivers/redigo
	github.com/golocker/golocker/drivers/rueidis => ../drivers/rueidis
	github.com/golocker/golocker/internal/servertest => ../internal/servertest
	github.com/golocker/golocker/locker => ../locker
	github.com/golocker/golocker/redlock => ../redlock
)

// Not every module mirror has rueidiscompat v1.0.79, which redsync v4.18.1 asks for.
// v1.0.78 compiles against rueidis v1.0.79; it is only the adapter under redsync's
// pool of rueidis.
replace github.com/redis/rueidis/rueidiscompat => github.com/redis/rueidis/rueidiscompat v1.0.78
