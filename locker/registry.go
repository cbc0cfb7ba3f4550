package locker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/golocker/golocker/locker/driver"
)

var registry = struct {
	sync.RWMutex
	drivers map[string]driver.Driver
}{drivers: map[string]driver.Driver{}}

// Register makes a driver available to [Open] under a name. Drivers call it from
// an init function. It panics if d is nil, or the name is empty or taken: mistakes
// in the program.
func Register(name string, d driver.Driver) {
	if d == nil {
		panic("locker: Register of a nil driver as " + name)
	}
	if name == "" {
		panic("locker: Register of a driver without a name")
	}
	registry.Lock()
	defer registry.Unlock()
	if _, taken := registry.drivers[name]; taken {
		panic("locker: Register called twice for driver " + name)
	}
	registry.drivers[name] = d
}

// Drivers returns the names of the registered drivers, sorted.
func Drivers() []string {
	registry.RLock()
	defer registry.RUnlock()
	return slices.Sorted(maps.Keys(registry.drivers))
}

// Open returns a client on the deployment that the data source name describes,
// through the driver registered under driverName. [driver.ParseDSN] documents the
// form of a DSN, for example
//
//	redis://user:password@localhost:6379/0
//	rediss://h1:6379,h2:6379?mode=cluster
//	unix:///run/redis.sock
//
// Open does no network I/O; a wrong address shows at the first lock. Errors are
// [ErrInvalid], and never contain the DSN. Close the client when it is no longer needed; that closes its
// connections too.
func Open(driverName, dsn string, opts ...ClientOption) (*Client, error) {
	connector, err := OpenConnector(driverName, dsn)
	if err != nil {
		return nil, err
	}
	return New(connector, opts...)
}

// OpenConnector is the part of [Open] that makes the connector, for callers that need several,
// as for [NewQuorum].
func OpenConnector(driverName, dsn string) (driver.Connector, error) {
	registry.RLock()
	d, ok := registry.drivers[driverName]
	registry.RUnlock()
	if !ok {
		if strings.ContainsAny(driverName, ":/@") { // a DSN, with a password maybe
			return nil, fmt.Errorf("%w: what was given for the driver's name looks like a DSN: the name comes first, and then the DSN", ErrInvalid)
		}
		known := "none is registered"
		if names := Drivers(); len(names) > 0 {
			known = "registered: " + strings.Join(names, ", ")
		}
		return nil, fmt.Errorf("%w: unknown driver %q (forgotten import? %s)", ErrInvalid, driverName, known)
	}
	cfg, err := driver.ParseDSN(dsn)
	if err != nil {
		return nil, failed("open "+driverName, ErrInvalid, err)
	}
	connector, err := d.OpenConnector(cfg)
	if err != nil {
		return nil, failed("open "+driverName, ErrInvalid, err)
	}
	return connector, nil
}
