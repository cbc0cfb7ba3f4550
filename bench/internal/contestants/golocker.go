package contestants

import (
	"context"

	"github.com/golocker/golocker/drivers/goredis"
	"github.com/golocker/golocker/drivers/redigo"
	"github.com/golocker/golocker/drivers/rueidis"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/redlock"
	goredisv9 "github.com/redis/go-redis/v9"
	rue "github.com/redis/rueidis"
)

func init() {
	reg := func(client string, w wrap, suffix, note string, opts ...locker.Option) {
		name := "golocker/" + client + suffix
		note = "a wrapped client with its defaults" + note
		Register(Spec{
			Name: name, Client: client, Uses: UseFree | UseWait | UseHeld, Note: note,
			Passing: []string{"__golocker:"}, // counters of fencing tokens
			New:     func(o Options) (Locker, error) { return newGolocker(o, w, opts) },
		})
		Register(Spec{
			Name: name + "+quorum", Client: client, Uses: UseQuorum,
			Note: note + ", redlock with Bootstrap",
			New:  func(o Options) (Locker, error) { return newGolockerQuorum(o, w, opts) },
		})
	}
	fenced := locker.Fenced()
	reg(Goredis, wrapGoredis, "", "")
	reg(Goredis, wrapGoredis, "+fenced", ", Fenced", fenced)
	reg(Rueidis, wrapRueidis, "", "")
	reg(Rueidis, wrapRueidis, "+fenced", ", Fenced", fenced)
	reg(Redigo, wrapRedigo, "", "")
	reg(Redigo, wrapRedigo, "+fenced", ", Fenced", fenced)
}

// A wrap makes a connector of a client, and says how that client is closed.
type wrap func(addr string) (driver.Connector, func(), error)

func wrapGoredis(addr string) (driver.Connector, func(), error) {
	c := goredisv9.NewClient(&goredisv9.Options{Addr: addr})
	return goredis.Wrap(c), func() { c.Close() }, nil
}

func wrapRueidis(addr string) (driver.Connector, func(), error) {
	c, err := rue.NewClient(rue.ClientOption{InitAddress: []string{addr}})
	if err != nil {
		return nil, nil, err
	}
	return rueidis.Wrap(c), c.Close, nil
}

func wrapRedigo(addr string) (driver.Connector, func(), error) {
	p := redigoPool(addr)
	return redigo.Wrap(p), func() { p.Close() }, nil
}

type golocker struct {
	client *locker.Client
	opts   []locker.Option
	close  []func() // the wrapped clients
}

func newGolocker(o Options, w wrap, opts []locker.Option) (Locker, error) {
	connector, end, err := w(o.Addrs[0])
	if err != nil {
		return nil, err
	}
	client, err := locker.New(connector, locker.TTL(o.TTL))
	return &golocker{client, opts, []func(){end}}, err
}

func newGolockerQuorum(o Options, w wrap, opts []locker.Option) (Locker, error) {
	var nodes []driver.Connector
	l := &golocker{opts: opts}
	for _, addr := range o.Addrs {
		connector, end, err := w(addr)
		if err != nil {
			return nil, err
		}
		nodes, l.close = append(nodes, connector), append(l.close, end)
	}
	var err error
	l.client, err = redlock.New(nodes, redlock.Config{Bootstrap: true}, locker.TTL(o.TTL))
	return l, err
}

func (l *golocker) Lock(ctx context.Context, key string) (Unlock, error) {
	lease, err := l.client.Mutex(key, l.opts...).Lock(ctx)
	if err != nil {
		return nil, err
	}
	return func() error { return lease.Unlock(context.Background()) }, nil
}

func (l *golocker) Close() error {
	err := l.client.Close()
	for _, end := range l.close {
		end()
	}
	return err
}
