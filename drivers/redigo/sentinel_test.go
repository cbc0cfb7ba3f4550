//go:build unix

package redigo_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker/driver"
)

func sentinelConfig(s *servertest.SentinelNodes) driver.Config {
	return driver.Config{
		Mode:        driver.ModeSentinel,
		Master:      servertest.MasterName,
		Addrs:       s.Addrs(),
		DialTimeout: 4 * time.Second, // not all calls are made again
		Timeout:     4 * time.Second,
	}
}

// eventually calls f until it succeeds, as a client does that rides out a
// failover.
func eventually(t *testing.T, f func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		err := f(ctx)
		if err == nil {
			return
		}
		require.NoError(t, ctx.Err(), err)
	}
}

func TestSentinelFailover(t *testing.T) {
	nodes := servertest.Sentinel(t)
	c := open(t, sentinelConfig(nodes))
	topology, err := c.(driver.Describer).Describe(t.Context())
	require.NoError(t, err)
	require.Equal(t, driver.ModeSentinel, topology.Mode)

	s, err := c.(driver.Subscriber).Subscribe(t.Context())
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.Add(t.Context(), "ch"))
	do(t, c, "SET", "before", "1")

	old := nodes.Master()
	old.Kill()
	master := nodes.MasterOtherThan(old)
	set := func(ctx context.Context) error {
		_, err := c.Do(ctx, command("SET", "after", "1"))
		return err
	}
	eventually(t, set)
	found, err := master.Do("GET", "after")
	require.NoError(t, err)
	require.Equal(t, "1", found)

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err = s.Receive(ctx)
	require.ErrorIs(t, err, driver.ErrGap)
	_, err = master.Do("PUBLISH", "ch", "hello")
	require.NoError(t, err)
	m, err := s.Receive(ctx)
	require.NoError(t, err)
	require.Equal(t, "hello", m.Payload)
}

// The former master of a failover that was asked for grants locks until the Sentinels tell it, which
// takes them some time: for ever here. It is left before, also by a subscription.
func TestSentinelFailoverThatWasAskedFor(t *testing.T) {
	servertest.SkipBefore(t, 7, 0, "Sentinels that can be slowed down")
	nodes := servertest.Sentinel(t)
	c := open(t, sentinelConfig(nodes))
	s, err := c.(driver.Subscriber).Subscribe(t.Context())
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.Add(t.Context(), "ch"))
	do(t, c, "SET", "k", "before")
	asked := nodes.Sentinels[0] // as this one is listened to
	eventually(t, func(context.Context) error {
		if clients, _ := asked.Do("CLIENT", "LIST"); !strings.Contains(fmt.Sprint(clients), " sub=1 ") {
			return errors.New("the Sentinel is not listened to")
		}
		return nil
	})
	old := nodes.Master()
	for _, sentinel := range nodes.Sentinels {
		_, err := sentinel.Do("SENTINEL", "DEBUG", "publish-period", "600000")
		require.NoError(t, err)
	}
	_, err = asked.Do("SENTINEL", "FAILOVER", servertest.MasterName)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err = s.Receive(ctx)
	require.ErrorIs(t, err, driver.ErrGap)
	role, err := old.Do("ROLE")
	require.NoError(t, err)
	require.Contains(t, role, "master")
	do(t, c, "SET", "k", "after")
	found, err := old.Do("GET", "k")
	require.NoError(t, err)
	require.Equal(t, "before", found)
}

// A master that becomes a replica keeps its connections; they are not used again.
func TestSentinelDemotedMaster(t *testing.T) {
	nodes := servertest.Sentinel(t)
	c := open(t, sentinelConfig(nodes))
	do(t, c, "SET", "k", "1")
	old := nodes.Master()
	master := nodes.Failover()
	_, err := old.Do("REPLICAOF", "127.0.0.1", master.Port()) // the Sentinels take longer
	require.NoError(t, err)
	eventually(t, func(ctx context.Context) error {
		_, err := c.Do(ctx, command("SET", "k", "2"))
		return err
	})
	found, err := master.Do("GET", "k")
	require.NoError(t, err)
	require.Equal(t, "2", found)
}

// Sentinels that are down, hang, or do not know the master do not hide the one
// that does; a Sentinel that points to a replica is not believed.
func TestSentinelsInTurn(t *testing.T) {
	nodes := servertest.Sentinel(t)
	master := nodes.Master()
	replica := nodes.Data[0]
	if replica == master {
		replica = nodes.Data[1]
	}
	astray := servertest.Single(t) // knows no Sentinel command
	cfg := sentinelConfig(nodes)
	cfg.Addrs = []string{"127.0.0.1:1", "hangs:1", astray.Addr, nodes.Sentinels[0].Addr}
	cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr == "hangs:1" {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	require.Contains(t, do(t, open(t, cfg), "ROLE"), "master")

	cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr == master.Addr {
			addr = replica.Addr // an answer that is out of date
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	cfg.Addrs = nodes.Addrs()
	_, err := open(t, cfg).Do(t.Context(), command("PING"))
	require.ErrorContains(t, err, "not a master")
	require.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))

	cfg.Dial, cfg.Master = nil, "nobody"
	_, err = open(t, cfg).Do(t.Context(), command("PING"))
	require.ErrorContains(t, err, "does not know")
	require.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
}

func TestSentinelPasswordsThatNobodyAskedFor(t *testing.T) {
	servertest.SkipBefore(t, 6, 2, "a Sentinel that lets a user without a password in with any")
	nodes := servertest.Sentinel(t)
	cfg := sentinelConfig(nodes)
	cfg.Password, cfg.SentinelPassword = password, "other"
	do(t, open(t, cfg), "PING")
}

func TestSentinelPasswords(t *testing.T) {
	nodes := servertest.Sentinel(t, servertest.Password(password), servertest.SentinelConfig("requirepass", "other"))
	cfg := sentinelConfig(nodes)
	cfg.Password, cfg.SentinelPassword = password, "other"
	require.Equal(t, "PONG", do(t, open(t, cfg), "PING"))

	cfg.SentinelPassword = password
	_, err := open(t, cfg).Do(t.Context(), command("PING"))
	reply, ok := errors.AsType[*driver.ServerError](err)
	require.True(t, ok, err)
	require.Equal(t, "WRONGPASS", reply.Code)
	require.NotContains(t, err.Error(), password)
}
