package driver

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
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

	// TLS is nil for a plain connection. It is used for Sentinels too.
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

// WithDefaults returns c with the defaults of Network, DialTimeout and Timeout in
// the place of values that are not set.
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
	return c
}

// A DialFunc opens a network connection, as [net.Dialer.DialContext] does.
type DialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// Default timeouts of a [Config].
const (
	DefaultDialTimeout = 5 * time.Second // of [Config.DialTimeout]
	DefaultTimeout     = 5 * time.Second // of [Config.Timeout]
)

var (
	_ slog.LogValuer = Config{}
	_ slog.LogValuer = Secret("")
)
