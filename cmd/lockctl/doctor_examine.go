package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// Facts are what one server has told.
type facts struct {
	server string
	down   error // if it is not nil, nothing else is known

	trip    time.Duration // the shortest round trip
	offset  time.Duration // of its clock from this machine's, within half of the trip
	timeErr error

	info    map[string]string
	infoErr error

	config    map[string]string
	configErr error

	subscribeErr, publishErr, scanErr error
}

// examine asks all servers, at the same time.
func (t *tool) examine(ctx context.Context, timeout time.Duration) ([]facts, error) {
	configs, err := t.target.configs()
	if err != nil {
		return nil, err
	}
	each := make([][]facts, len(configs))
	var all sync.WaitGroup
	errs := make([]error, len(configs))
	for i, cfg := range configs {
		all.Go(func() { each[i], errs[i] = t.examineTarget(ctx, timeout, cfg, t.target.urls[i]) })
	}
	all.Wait()
	return slices.Concat(each...), errors.Join(errs...)
}

// examineTarget asks the server or servers that one URL leads to. The timeout is for each server.
func (t *tool) examineTarget(ctx context.Context, timeout time.Duration, cfg driver.Config, url string) ([]facts, error) {
	connector, err := locker.OpenConnector(t.target.driver, url)
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	name := strings.Join(cfg.Addrs, ",")
	if cfg.Mode == driver.ModeSentinel {
		name = "the master " + cfg.Master + " of the Sentinels " + name
	}
	if cfg.Mode != driver.ModeCluster {
		return []facts{examineServer(ctx, timeout, connector.Driver(), cfg, name)}, nil
	}
	masters, err := mastersOf(ctx, timeout, connector.Driver(), cfg)
	if err != nil {
		return []facts{{server: "Cluster " + name, down: err}}, nil
	}
	found := make([]facts, len(masters))
	var all sync.WaitGroup
	for i, addr := range masters {
		all.Go(func() { found[i] = examineServer(ctx, timeout, connector.Driver(), nodeOf(cfg, addr), addr) })
	}
	all.Wait()
	return found, nil
}

// nodeOf is how one node of a Cluster is reached by itself.
func nodeOf(cluster driver.Config, addr string) driver.Config {
	cluster.Mode, cluster.Addrs = driver.ModeSingle, []string{addr}
	return cluster
}

// connect makes a connection within the time of ctx.
func connect(ctx context.Context, d driver.Driver, cfg driver.Config) (driver.Conn, error) {
	connector, err := d.OpenConnector(impatient(ctx, cfg))
	if err != nil {
		return nil, err
	}
	return connector.Connect(ctx)
}

// impatient returns cfg with less time for connecting than ctx has: only the dialer can tell what
// connecting has failed of, such as a TLS handshake that was not answered.
func impatient(ctx context.Context, cfg driver.Config) driver.Config {
	if end, ok := ctx.Deadline(); ok {
		cfg.DialTimeout = max(min(cfg.WithDefaults().DialTimeout, (time.Until(end)*4/5).Round(10*time.Millisecond)), time.Millisecond)
	}
	return cfg
}

// mastersOf returns the addresses of a Cluster's masters, as known to the first of the given nodes
// that answers: the node that a driver would ask may be one that hangs.
func mastersOf(ctx context.Context, timeout time.Duration, d driver.Driver, cfg driver.Config) (masters []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	type answer struct {
		masters []string
		err     error
	}
	answers := make(chan answer, len(cfg.Addrs))
	for _, seed := range cfg.Addrs {
		go func() {
			masters, err := mastersBy(ctx, d, cfg, seed)
			answers <- answer{masters, err}
		}()
	}
	for range cfg.Addrs {
		a := <-answers
		if a.err == nil {
			return a.masters, nil
		}
		err = cmp.Or(err, a.err)
	}
	return nil, err
}

// mastersBy asks one node. If that does not tell the host of a master, or its port for TLS, the master
// is taken to have the host or port of the node that was asked.
func mastersBy(ctx context.Context, d driver.Driver, cfg driver.Config, seed string) ([]string, error) {
	conn, err := connect(ctx, d, nodeOf(cfg, seed))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	reply, err := conn.Do(ctx, driver.Command{Args: []string{"CLUSTER", "SLOTS"}})
	if err != nil {
		return nil, err
	}
	var addrs []string
	ranges, _ := reply.([]any)
	for _, r := range ranges {
		fields, _ := r.([]any)
		if len(fields) < 3 {
			continue
		}
		node, _ := fields[2].([]any)
		if len(node) < 2 {
			continue
		}
		seedHost, port, _ := net.SplitHostPort(seed)
		host, _ := node[0].(string) // it may be nil, too
		if host == "" {
			host = seedHost
		}
		if n, _ := node[1].(int64); n != 0 {
			port = strconv.FormatInt(n, 10)
		}
		if addr := net.JoinHostPort(host, port); !slices.Contains(addrs, addr) {
			addrs = append(addrs, addr)
		}
	}
	if addrs == nil {
		return nil, errors.New("no master of the Cluster has any slots")
	}
	slices.Sort(addrs)
	return addrs, nil
}

// examineServer asks one server.
func examineServer(ctx context.Context, timeout time.Duration, d driver.Driver, cfg driver.Config, name string) facts {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	f := facts{server: name}
	conn, err := connect(ctx, d, cfg)
	if err != nil {
		f.down = err
		return f
	}
	defer conn.Close()
	do := func(args ...string) (driver.Value, error) { return conn.Do(ctx, driver.Command{Args: args}) }
	if _, err := do("PING"); err != nil && (driver.OutcomeOf(err) != driver.OutcomeReplied || answersNothing(err)) {
		f.down = err
		return f
	}
	f.readClock(do)
	var text driver.Value
	if text, f.infoErr = do("INFO"); f.infoErr == nil {
		f.info = parseInfo(text)
	}
	f.config = map[string]string{}
	for _, name := range []string{"maxmemory", "maxmemory-policy", "appendfsync", "save", "min-replicas-to-write", "min-replicas-max-lag"} {
		var pair driver.Value
		if pair, f.configErr = do("CONFIG", "GET", name); f.configErr != nil {
			break
		}
		if list, _ := pair.([]any); len(list) == 2 {
			f.config[name], _ = list[1].(string)
		}
	}
	_, f.scanErr = do("SCAN", "0", "COUNT", "1")
	const channel = "__golocker:c:lockctl-doctor"
	_, f.publishErr = do("PUBLISH", channel, "")
	f.subscribeErr = subscribe(ctx, conn, channel)
	return f
}

// answersNothing reports whether the server refuses whatever it is asked: without a password, while a
// script runs, or because it has too many clients. Then nothing can be learned from it, least of all
// what its ACL forbids.
func answersNothing(err error) bool {
	reply, ok := errors.AsType[*driver.ServerError](err)
	if !ok {
		return false
	}
	switch reply.Code {
	case "NOAUTH", "BUSY", "UNKILLABLE":
		return true
	}
	return strings.Contains(reply.Message, "max number of clients")
}

func subscribe(ctx context.Context, conn driver.Conn, channel string) error {
	subscriber, ok := conn.(driver.Subscriber)
	if !ok {
		return driver.ErrUnsupported
	}
	s, err := subscriber.Subscribe(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Add(ctx, channel)
}

// readClock compares the server's clock with this machine's. Of several trips the
// shortest tells most.
func (f *facts) readClock(do func(...string) (driver.Value, error)) {
	for range 5 {
		before := time.Now()
		v, err := do("TIME")
		trip := time.Since(before)
		if err != nil {
			f.timeErr = err
			return
		}
		at, err := parseTime(v)
		if err != nil {
			f.timeErr = err
			return
		}
		if f.trip == 0 || trip < f.trip {
			f.trip, f.offset = trip, at.Sub(before.Add(trip/2))
		}
	}
}

func parseTime(v driver.Value) (time.Time, error) {
	list, _ := v.([]any)
	if len(list) != 2 {
		return time.Time{}, fmt.Errorf("odd reply to TIME: %v", v)
	}
	seconds, err1 := strconv.ParseInt(fmt.Sprint(list[0]), 10, 64)
	micros, err2 := strconv.ParseInt(fmt.Sprint(list[1]), 10, 64)
	return time.Unix(seconds, micros*1000), errors.Join(err1, err2)
}

// parseInfo reads the reply to INFO.
func parseInfo(v driver.Value) map[string]string {
	text, _ := v.(string)
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && !strings.HasPrefix(line, "#") {
			info[name] = value
		}
	}
	return info
}
