package driver

import (
	"context"
	"fmt"
)

// A Driver makes connectors from a parsed data source name. It is registered
// under a name, usually in an init function, so that applications can open it
// by that name.
type Driver interface {
	// OpenConnector returns a Connector for cfg. It does no I/O: an address
	// that does not answer is Connect's or Do's business. It returns an error
	// for a cfg that this driver does not support (see [ErrUnsupported]).
	OpenConnector(cfg Config) (Connector, error)
}

// A Connector makes Conns. It stands for one deployment: a server, a master
// that Sentinels watch, or a Cluster. It must be safe for concurrent use.
type Connector interface {
	// Connect returns a Conn. It may do I/O and then honours ctx, but a client
	// that connects lazily may return at once. It may be called again after an
	// error, which leaves nothing open, and more than once; each Conn is closed on its own.
	Connect(ctx context.Context) (Conn, error)

	// Driver returns the driver that this connector belongs to. It is what a
	// wrapped client has in common with one opened by name.
	Driver() Driver
}

// NewConnector returns a [Connector] of d whose Connect calls connect, unless ctx has
// ended. It holds no more than that function, so that no way of printing it shows a
// password.
func NewConnector(d Driver, connect func(context.Context) (Conn, error)) Connector {
	return &connector{d, connect}
}

type connector struct {
	driver  Driver
	connect func(context.Context) (Conn, error)
}

func (c *connector) Driver() Driver { return c.driver }

func (c *connector) Connect(ctx context.Context) (Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, NotSent(fmt.Errorf("connect: %w", err))
	}
	return c.connect(ctx)
}

// A Conn talks to one deployment. It is not a network connection: pools,
// topology and reconnecting are inside. The package comment lists what every
// Conn guarantees.
type Conn interface {
	// Do sends cmd at most once and returns the server's reply.
	// The error tells the outcome, see [OutcomeOf].
	Do(ctx context.Context, cmd Command) (Value, error)

	// Close ends what Connect opened. It is idempotent and does not wait for
	// calls in flight to finish by themselves: it makes them return.
	Close() error
}

// A Wrapper is a Conn that forwards Do and Close and hides every optional interface of the Conn
// inside. Embed it in a tracer or fault injector and override what that is about; then no
// command can go around the wrapper. Where the wrapper has no DoBatch, Subscribe or Describe of
// its own, the core does without: see the package comment.
type Wrapper struct{ Conn }

var _ Conn = Wrapper{}
