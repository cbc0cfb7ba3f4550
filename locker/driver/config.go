package driver

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"
)

// A Config says where a deployment is and how to reach it. [ParseDSN] makes one
// from a data source name; a driver turns it into its client's options. Printing
// a Config in any way shows no password.
type Config struct {
	// Mode says what Addrs are: the server, the Sentinels, or some of the
	// Cluster's nodes.
	Mode Mode
	// Network is "tcp" or "unix".
	Network string
	// Addrs holds "host:port" with IPv6 hosts in brackets, or for "unix" the
	// path of the socket. ModeSingle has exactly one.
	Addrs []string

	// Username and Password authenticate with the server; both may be empty.
	Username string
	Password Secret
	// DB is the number of the database; a Cluster only has 0.
	DB int

	// Master is the name under which the Sentinels know the master. They are
	// asked with SentinelUsername and SentinelPassword, which are not taken
	// from Username and Password.
	Master           string
	SentinelUsername string
	SentinelPassword Secret

	// TLS is nil for a plain connection. It is used for Sentinels too, and is not changed:
	// other Configs may share it. An empty ServerName means the host connected to.
	TLS *tls.Config

	// DialTimeout bounds connecting, handshakes included. 0 means 5 seconds.
	DialTimeout time.Duration
	// Timeout bounds how long a connection may stay silent while a reply is
	// due. 0 means 5 seconds. A ctx that ends earlier counts first.
	Timeout time.Duration
	// PoolSize is the greatest number of connections to one server, besides
	// those for pub/sub. 0 means the client's own default; a client that
	// pipelines everything over fixed connections ignores it.
	PoolSize int
	// ClientName, if not empty, is given to the server by CLIENT SETNAME.
	ClientName string

	// Dial, if not nil, opens every network connection, below TLS. No DSN sets
	// it; tests do.
	Dial DialFunc
}

// WithDefaults returns c with the defaults of Network, DialTimeout and Timeout in the place of
// values that are not set, or negative. A timeout of more than ten years counts as ten years,
// so that a driver can add several of them up.
func (c Config) WithDefaults() Config {
	if c.Network == "" {
		c.Network = "tcp"
	}
	if c.DialTimeout <= 0 {
		c.DialTimeout = DefaultDialTimeout
	}
	if c.Timeout <= 0 {
		c.Timeout = DefaultTimeout
	}
	c.DialTimeout = min(c.DialTimeout, longestTimeout)
	c.Timeout = min(c.Timeout, longestTimeout)
	return c
}

// Check returns an error if c contradicts itself or has a value that means nothing, and an
// error that matches [ErrUnsupported] if the driver cannot do what c asks for: modes are the
// driver's modes. Neither error shows a password.
func (c Config) Check(modes ...Mode) error {
	c.Network = cmp.Or(c.Network, "tcp")
	switch {
	case !slices.Contains(modes, c.Mode):
		return fmt.Errorf("%w: mode %v (this driver has %v)", ErrUnsupported, c.Mode, modes)
	case c.Network != "tcp" && c.Network != "unix":
		return fmt.Errorf("%w: network %q (use tcp or unix)", ErrUnsupported, c.Network)
	case c.Network == "unix" && c.Mode != ModeSingle:
		return fmt.Errorf("%w: mode %v over a unix socket (use tcp)", ErrUnsupported, c.Mode)
	case c.Mode == ModeCluster && c.DB != 0:
		return fmt.Errorf("%w: database %d of a Cluster, which has none but 0 (leave it out)", ErrUnsupported, c.DB)
	case c.DB < 0:
		return fmt.Errorf("driver: database %d: the first is 0", c.DB)
	case len(c.Addrs) == 0 || slices.Contains(c.Addrs, ""):
		return errors.New("driver: a Config without address, or with an empty one")
	case c.Mode == ModeSingle && len(c.Addrs) > 1:
		return fmt.Errorf("driver: mode single has one address, not %d (use mode sentinel or cluster)", len(c.Addrs))
	case c.Mode == ModeSentinel && c.Master == "":
		return errors.New("driver: mode sentinel needs the master's name in the Config")
	case c.DialTimeout < 0 || c.Timeout < 0 || c.PoolSize < 0:
		return errors.New("driver: a negative timeout or PoolSize (0 is the default)")
	}
	return nil
}

// A DialFunc opens a network connection, as [net.Dialer.DialContext] does.
type DialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// Default timeouts of a [Config].
const (
	DefaultDialTimeout = 5 * time.Second // of [Config.DialTimeout]
	DefaultTimeout     = 5 * time.Second // of [Config.Timeout]
)

const longestTimeout = 10 * 365 * 24 * time.Hour

var (
	_ slog.LogValuer = Config{}
	_ slog.LogValuer = Secret("")
)
