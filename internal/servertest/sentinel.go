//go:build unix

package servertest

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
)

// MasterName is the name under which the Sentinels know the master.
const MasterName = "mymaster"

// SentinelNodes is a running primary with one replica, watched by three
// Sentinels. They take a server that has been silent for half a second to be down.
type SentinelNodes struct {
	// Data are the two servers that keep data, at first the primary first.
	Data []*Server
	// Sentinels are the three that watch them.
	Sentinels []*Server

	tb testing.TB
}

// Sentinel starts a primary, a replica and three Sentinels. It returns when the
// replica follows and all Sentinels know of it and of each other.
func Sentinel(tb testing.TB, opts ...Option) *SentinelNodes {
	tb.Helper()
	data := startAll(tb, 2, kindData, newSettings(opts))
	s := &SentinelNodes{Data: data, tb: tb}
	if _, err := data[1].Do("REPLICAOF", "127.0.0.1", data[0].Port()); err != nil {
		tb.Fatal(err)
	}
	// A Sentinel asks for replicas when it connects, and then every ten seconds.
	if err := s.await(func() error { return data[1].InfoSays("replication", "master_link_status:up") }); err != nil {
		tb.Fatal(err)
	}

	set := newSettings(opts)
	about := func(name string, values ...string) directive {
		return append(directive{"sentinel", name, MasterName}, values...)
	}
	monitor := []directive{
		about("monitor", "127.0.0.1", data[0].Port(), "2"),
		about("down-after-milliseconds", "1000"),
		about("failover-timeout", "3000"),
	}
	if set.password != "" {
		monitor = append(monitor, about("auth-pass", set.password))
	}
	set.sentinels = append(monitor, set.sentinels...)
	s.Sentinels = startAll(tb, 3, kindSentinel, set)
	s.hurry("100")
	if err := s.await(s.complete); err != nil {
		tb.Fatal(err)
	}
	// When a server has claimed to be the master for four of these periods, a
	// Sentinel makes it follow the master that the Sentinel believes in. A failover
	// must be over by then, and it takes more than a second.
	s.hurry("1000")
	return s
}

// hurry makes the Sentinels look around more often, and introduce themselves to
// each other every publish milliseconds instead of every two seconds. A Sentinel
// older than 7.0 cannot do that, and takes longer.
func (s *SentinelNodes) hurry(publish string) {
	for _, sentinel := range s.Sentinels {
		_, _ = sentinel.Do("SENTINEL", "DEBUG",
			"publish-period", publish, "info-period", "500")
	}
}

// Addrs returns the addresses of the Sentinels.
func (s *SentinelNodes) Addrs() []string { return addrs(s.Sentinels) }

// Master returns the server that all running Sentinels call the master and that
// says so itself. It waits until that is the case.
func (s *SentinelNodes) Master() *Server {
	s.tb.Helper()
	return s.MasterOtherThan(nil)
}

// MasterOtherThan is [SentinelNodes.Master] after a failover away from old. To
// bring one about, Kill or Pause the master, or call [SentinelNodes.Failover].
func (s *SentinelNodes) MasterOtherThan(old *Server) *Server {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), agreeTimeout)
	defer cancel()
	master, err := s.AwaitMaster(ctx, old)
	if err != nil {
		s.tb.Fatal(err)
	}
	return master
}

// AwaitMaster is [SentinelNodes.MasterOtherThan] for callers that cannot end the test.
func (s *SentinelNodes) AwaitMaster(ctx context.Context, old *Server) (*Server, error) {
	var master *Server
	err := Await(ctx, func() error {
		var err error
		master, err = s.agreed()
		if err == nil && master == old {
			err = fmt.Errorf("servertest: %s is still the master", old.Addr)
		}
		if err == nil {
			err = master.InfoSays("replication", "role:master")
		}
		return err
	})
	return master, err
}

// AwaitComplete waits until each Sentinel knows the two others and a replica that
// follows, so that there can be a failover.
func (s *SentinelNodes) AwaitComplete(ctx context.Context) error { return Await(ctx, s.complete) }

// Failover makes the Sentinels turn the replica into the master. It returns the new master when
// the old one has become its replica and takes no more writes, which would be lost.
func (s *SentinelNodes) Failover() *Server {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*agreeTimeout)
	defer cancel()
	master, err := s.Promote(ctx)
	if err != nil {
		s.tb.Fatal(err)
	}
	return master
}

// Promote is [SentinelNodes.Failover] for callers that cannot end the test.
func (s *SentinelNodes) Promote(ctx context.Context) (*Server, error) {
	old, err := s.AwaitMaster(ctx, nil)
	if err != nil {
		return nil, err
	}
	if err := s.AwaitComplete(ctx); err != nil {
		return nil, err
	}
	err = Await(ctx, func() error {
		// All in one reply. Otherwise there may be a failover between two replies, and
		// the next failover leads back to where it was.
		reply, err := s.Sentinels[0].Do("SENTINEL", "MASTER", MasterName)
		if err != nil {
			return err
		}
		if fieldsAre(reply, "port", old.Port()) != nil {
			return nil
		}
		if err := fieldsAre(reply, "flags", "master"); err != nil {
			return fmt.Errorf("servertest: sentinel %s about the master: %w", s.Sentinels[0].Addr, err)
		}
		// The command is refused until the replica follows.
		if _, err := s.Sentinels[0].Do("SENTINEL", "FAILOVER", MasterName); err != nil {
			return err
		}
		return fmt.Errorf("servertest: %s is still the master", old.Addr)
	})
	if err != nil {
		return nil, err
	}
	master, err := s.AwaitMaster(ctx, old)
	if err != nil {
		return nil, err
	}
	return master, Await(ctx, func() error { return old.InfoSays("replication", "role:slave") })
}

// agreed returns the master that all running Sentinels name.
func (s *SentinelNodes) agreed() (*Server, error) {
	var addr string
	for _, sentinel := range s.Sentinels {
		if sentinel.PID() == 0 {
			continue
		}
		reply, err := sentinel.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName)
		if err != nil {
			return nil, err
		}
		pair, ok := reply.([]any)
		if !ok || len(pair) != 2 {
			return nil, fmt.Errorf("servertest: sentinel %s knows no master: %v", sentinel.Addr, reply)
		}
		said := net.JoinHostPort(fmt.Sprint(pair[0]), fmt.Sprint(pair[1]))
		if addr != "" && said != addr {
			return nil, fmt.Errorf("servertest: the sentinels disagree: %s or %s", addr, said)
		}
		addr = said
	}
	i := slices.IndexFunc(s.Data, func(d *Server) bool { return d.Addr == addr })
	if i < 0 {
		return nil, fmt.Errorf("servertest: the sentinels know no master of ours but %q", addr)
	}
	return s.Data[i], nil
}

// complete returns nil when each Sentinel knows the two others and a replica that
// follows.
func (s *SentinelNodes) complete() error {
	for _, sentinel := range s.Sentinels {
		reply, err := sentinel.Do("SENTINEL", "MASTER", MasterName)
		if err != nil {
			return err
		}
		err = fieldsAre(reply, "flags", "master", "num-other-sentinels", "2", "num-slaves", "1")
		if err != nil {
			return fmt.Errorf("servertest: sentinel %s about the master: %w", sentinel.Addr, err)
		}
		reply, err = sentinel.Do("SENTINEL", "REPLICAS", MasterName)
		if err != nil {
			return err
		}
		replicas, _ := reply.([]any)
		if len(replicas) != 1 {
			return fmt.Errorf("servertest: sentinel %s knows %d replicas", sentinel.Addr, len(replicas))
		}
		err = fieldsAre(replicas[0], "flags", "slave", "role-reported", "slave", "master-link-status", "ok")
		if err != nil {
			return fmt.Errorf("servertest: sentinel %s about the replica: %w", sentinel.Addr, err)
		}
	}
	return nil
}

// fieldsAre returns nil if a reply of names and values has these.
func fieldsAre(reply any, want ...string) error {
	fields, _ := reply.([]any)
	for pair := range slices.Chunk(want, 2) {
		i := slices.Index(fields, any(pair[0]))
		if i < 0 || i+1 >= len(fields) || fields[i+1] != pair[1] {
			return fmt.Errorf("it does not say %s %s but %v", pair[0], pair[1], fields)
		}
	}
	return nil
}

func (s *SentinelNodes) await(check func() error) error {
	ctx, cancel := context.WithTimeout(context.Background(), agreeTimeout)
	defer cancel()
	return Await(ctx, check)
}

// InfoSays returns nil if that section of the server's INFO has that line.
func (s *Server) InfoSays(section, line string) error {
	info, err := s.text("INFO", section)
	if err == nil && !strings.Contains(info, line+"\r\n") {
		err = fmt.Errorf("servertest: %s does not say %q but:\n%s", s.Addr, line, info)
	}
	return err
}
