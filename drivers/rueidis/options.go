package rueidis

import (
	"net"
	"slices"
	"time"

	rue "github.com/redis/rueidis"

	"github.com/golocker/golocker/locker/driver"
)

// Sizes per connection. Lock commands and their replies are small and few; with
// these a connection takes about 0.16 MiB instead of the default's 1.4. What
// does not fit a buffer is sent in several writes, nothing is refused.
const (
	bufferSize = 32 << 10
	ringScale  = 8 // 2^8 commands in flight, see maxInFlight
)

// sentinelInterval is how often the Sentinels are asked for the master. Without
// it one missed +switch-master binds the client to a demoted master for ever.
const sentinelInterval = 5 * time.Second

// maxRedirects bounds how long a command follows MOVED and ASK. By default
// rueidis follows them for ever.
const maxRedirects = 8

// options makes the client's options from cfg.
func options(cfg *driver.Config, d *dialer) rue.ClientOption {
	netDialer := net.Dialer{
		Timeout: d.dialTimeout(), // bounds the handshake after our dial
		// How often a connection is looked at: one that brought nothing since
		// the last time is sent a PING, which has d.timeout() for its reply. A
		// second by default, as rueidis has it.
		KeepAlive: max(d.timeout()/5, 100*time.Millisecond),
	}
	opt := rue.ClientOption{
		InitAddress:      slices.Clone(cfg.Addrs),
		Username:         cfg.Username,
		Password:         string(cfg.Password),
		SelectDB:         cfg.DB,
		ClientName:       cfg.ClientName,
		Dialer:           netDialer,
		DialCtxFn:        d.dial,
		ConnWriteTimeout: d.timeout(),

		// Locks are never read from a cache, and without it servers that
		// refuse CLIENT TRACKING or RESP3 will do.
		DisableCache: true,
		// Never send anything twice, not even what rueidis takes for harmless.
		DisableRetry: true,
		// One connection per server: commands share it by pipelining. What
		// AlwaysPipelining would do comes of callContext.
		PipelineMultiplex:   -1,
		RingScaleEachConn:   ringScale,
		ReadBufferEachConn:  bufferSize,
		WriteBufferEachConn: bufferSize,
	}
	switch cfg.Mode {
	case driver.ModeSingle:
		opt.ForceSingleClient = true // do not probe for a Cluster
	case driver.ModeSentinel:
		opt.Sentinel = rue.SentinelOption{
			MasterSet:               cfg.Master,
			Username:                cfg.SentinelUsername,
			Password:                string(cfg.SentinelPassword),
			ClientName:              cfg.ClientName,
			Dialer:                  netDialer,
			TopologyRefreshInterval: sentinelInterval,
		}
	case driver.ModeCluster:
		opt.ClusterOption.MaxMovedRedirections = maxRedirects
	}
	return opt
}
