package goredis

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/golocker/golocker/locker/driver"
)

// Wrap returns a connector around a client that the application already has, for locker.New. It
// never closes or changes the client, and shares its connections. Several connectors may wrap
// one client. A client whose connections are busy for long, by BLPOP, XREAD BLOCK or long
// pipelines, leaves none for a renewal: give the locks a client of their own, or the client a
// PoolSize that leaves some over.
//
// The client is a *redis.Client, from NewClient or NewFailoverClient, or a
// *redis.ClusterClient. Connect refuses nil and everything else, with [driver.ErrUnsupported];
// among others:
//
//   - *redis.Ring: it moves a key to another server when it believes the first one down, and a
//     lock that was held there is no longer held;
//   - *redis.AutoPipeliner: it does not tell what it has sent. Wrap the client
//     that it was made from;
//   - a ClusterClient that reads from replicas (ReadOnly, RouteByLatency or
//     RouteRandomly): they may not know of a lock yet;
//   - a ClusterClient without ReadTimeout or WriteTimeout (negative): a command
//     on a dead connection would never end. A Client without them is used with
//     [driver.DefaultTimeout].
//
// It cannot be seen whether a client of NewFailoverClient has ReplicaOnly, which
// NewUniversalClient makes of MasterName and ReadOnly. Do not pass such a client: as long as
// there are replicas, locks are refused by READONLY, and List and Inspect tell what a replica
// knows; and if replicas take writes (replica-read-only no), each grants a lock by itself.
func Wrap(client redis.UniversalClient) driver.Connector {
	return driver.NewConnector(Driver{}, func(context.Context) (driver.Conn, error) {
		switch client := client.(type) {
		case nil:
		case *redis.Client:
			if client != nil {
				return wrapClient(client), nil
			}
		case *redis.ClusterClient:
			if client != nil {
				return wrapCluster(client)
			}
		default:
			return nil, fmt.Errorf("goredis: Wrap of a %T: pass a *redis.Client or *redis.ClusterClient: %w",
				client, driver.ErrUnsupported)
		}
		return nil, fmt.Errorf("goredis: Wrap of a nil client: pass a *redis.Client or *redis.ClusterClient: %w", driver.ErrUnsupported)
	})
}

// failoverAddr is what NewFailoverClient sets in the place of an address.
const failoverAddr = "FailoverClient"

func wrapClient(client *redis.Client) *conn {
	opt := client.Options()
	mode := driver.ModeSingle
	if opt.Addr == failoverAddr {
		mode = driver.ModeSentinel
	}
	if opt.ReadTimeout <= 0 || opt.WriteTimeout <= 0 {
		client = client.WithTimeout(driver.DefaultTimeout) // on the same connections
	}
	return newConn(mode, client, nil)
}

func wrapCluster(client *redis.ClusterClient) (driver.Conn, error) {
	opt := client.Options()
	if opt.ReadOnly { // which RouteByLatency and RouteRandomly set
		return nil, fmt.Errorf("goredis: Wrap of a ClusterClient that reads from replicas: "+
			"pass one without ReadOnly, RouteByLatency and RouteRandomly: %w", driver.ErrUnsupported)
	}
	if opt.ReadTimeout <= 0 || opt.WriteTimeout <= 0 {
		return nil, fmt.Errorf("goredis: Wrap of a ClusterClient without timeouts: "+
			"set its ReadTimeout and WriteTimeout: %w", driver.ErrUnsupported)
	}
	return newConn(driver.ModeCluster, client, nil), nil
}
