package rueidis

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"time"

	rue "github.com/redis/rueidis"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/netdial"
)

// Sizes per connection. Lock commands and their replies are small and few; with
// these a connection takes about 0.16 MiB instead of the default's 1.4. What
// does not fit a buffer is sent in several writes, nothing is refused.
const (
	bufferSize = 32 << 10
	ringScale  = 8 // 2^8 commands in flight, see maxInFlight
)

// options makes the client's options from cfg, which has its defaults.
func options(cfg driver.Config, dialer *netdial.Dialer) rue.ClientOption {
	netDialer := net.Dialer{
		Timeout: cfg.DialTimeout, // bounds the handshake after our dial
		// How often a connection is looked at: one that brought nothing since
		// the last time is sent a PING, which has cfg.Timeout for its reply. A
		// second by default, as rueidis has it.
		KeepAlive: max(cfg.Timeout/5, 100*time.Millisecond),
	}
	opt := rue.ClientOption{
		InitAddress: slices.Clone(cfg.Addrs),
		Username:    cfg.Username,
		Password:    string(cfg.Password),
		SelectDB:    cfg.DB,
		ClientName:  cfg.ClientName,
		Dialer:      netDialer,
		// A connection is of use to all calls, so it must not end with the call
		// that needed it first.
		DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return dialer.Dial(context.WithoutCancel(ctx), cfg.Network, addr)
		},
		ConnWriteTimeout: cfg.Timeout,

		// Locks are never read from a cache, and without it servers that
		// refuse CLIENT TRACKING or RESP3 will do.
		DisableCache: true,
		// A user with no more permissions than locks need is refused it, which fills the server's ACL LOG.
		ClientSetInfo: rue.DisableClientSetInfo,
		// Never send anything twice, not even what rueidis takes for harmless.
		DisableRetry: true,
		// One connection per server: commands share it by pipelining. callContext
		// does what AlwaysPipelining would.
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
			MasterSet:  cfg.Master,
			Username:   cfg.SentinelUsername,
			Password:   string(cfg.SentinelPassword),
			ClientName: cfg.ClientName,
			Dialer:     netDialer,
			// How often the Sentinels are asked for the master. Without it one
			// missed +switch-master binds the client to a former master for ever.
			TopologyRefreshInterval: 5 * time.Second,
		}
	case driver.ModeCluster:
		opt.ClusterOption.MaxMovedRedirections = 8 // by default rueidis follows them for ever
		// With RESP3 rueidis asks servers from Redis 8 on for CLUSTER SHARDS, and believes the first
		// answer. A node that was removed from the Cluster answers, too, with a shard that has no
		// slots. To CLUSTER SLOTS it answers with nothing, which rueidis does not believe.
		opt.AlwaysRESP2 = true
		if opt.Password != "" && opt.Username == "" {
			opt.Username = "default" // as with RESP3: without a name AUTH is an error where no password is needed
		}
	}
	return opt
}
