package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// What the mutants of the lock level do to commands, replies and messages.

// setWithout leaves NX, or PX and its value, out of SET.
func setWithout(word string) func(context.Context, driver.Command, do) (driver.Value, error) {
	return func(ctx context.Context, cmd driver.Command, next do) (driver.Value, error) {
		if i := slices.Index(cmd.Args, word); cmd.Name() == "SET" && i > 0 {
			n := 1
			if word == "PX" {
				n = 2
			}
			cmd.Args = slices.Delete(slices.Clone(cmd.Args), i, i+n)
		}
		return next(ctx, cmd)
	}
}

// looksBefore asks whether the key exists before a command of that name.
func looksBefore(name string) func(context.Context, driver.Command, do) (driver.Value, error) {
	return func(ctx context.Context, cmd driver.Command, next do) (driver.Value, error) {
		if cmd.Name() == name {
			_, _ = next(ctx, driver.Command{Args: []string{"EXISTS", cmd.Args[cmd.FirstKey]}, FirstKey: 1, NumKeys: 1})
		}
		return next(ctx, cmd)
	}
}

// readersAreWriters takes the lock for writing where it is wanted for reading.
func readersAreWriters(ctx context.Context, cmd driver.Command, next do) (driver.Value, error) {
	if i := cmd.FirstKey + cmd.NumKeys + 1; runs(cmd, "hold") && cmd.Args[i] == "r" {
		cmd.Args = slices.Clone(cmd.Args)
		cmd.Args[i] = "w"
	}
	return next(ctx, cmd)
}

// freshIDs gives the second request for a hold another id than the first.
func freshIDs() breaker {
	var mu sync.Mutex
	seen := map[string]bool{}
	return breaker{do: func(ctx context.Context, cmd driver.Command, next do) (driver.Value, error) {
		if runs(cmd, "hold") && cmd.Name() == "EVALSHA" {
			i := cmd.FirstKey + cmd.NumKeys
			mu.Lock()
			again := seen[cmd.Args[i]]
			seen[cmd.Args[i]] = true
			mu.Unlock()
			if again {
				cmd.Args = slices.Clone(cmd.Args)
				cmd.Args[i] = strings.Repeat("f", len(cmd.Args[i]))
			}
		}
		return next(ctx, cmd)
	}}
}

func prefixesKeys(ctx context.Context, cmd driver.Command, next do) (driver.Value, error) {
	cmd.Args = slices.Clone(cmd.Args)
	for i := range cmd.NumKeys {
		cmd.Args[cmd.FirstKey+i] = "app:" + cmd.Args[cmd.FirstKey+i]
	}
	return next(ctx, cmd)
}

// swallows answers a script with success and does not send it.
func swallows(script string) func(context.Context, driver.Command, do) (driver.Value, error) {
	return func(ctx context.Context, cmd driver.Command, next do) (driver.Value, error) {
		if runs(cmd, script) {
			return int64(1), nil
		}
		return next(ctx, cmd)
	}
}

// optimistic takes a script without a reply for a success.
func optimistic(script string) func(context.Context, driver.Command, do) (driver.Value, error) {
	return func(ctx context.Context, cmd driver.Command, next do) (driver.Value, error) {
		v, err := next(ctx, cmd)
		if err != nil && runs(cmd, script) && driver.OutcomeOf(err) != driver.OutcomeReplied {
			return int64(1), nil
		}
		return v, err
	}
}

func renewsTenfold(ctx context.Context, cmd driver.Command, next do) (driver.Value, error) {
	if runs(cmd, "renew") {
		cmd.Args = slices.Clone(cmd.Args)
		i := cmd.FirstKey + cmd.NumKeys + 1
		ms, _ := strconv.Atoi(cmd.Args[i])
		cmd.Args[i] = strconv.Itoa(10 * ms)
	}
	return next(ctx, cmd)
}

func failedRenewalIsLoss(ctx context.Context, cmd driver.Command, next do) (driver.Value, error) {
	v, err := next(ctx, cmd)
	if e, ok := errors.AsType[*driver.ServerError](err); err != nil && runs(cmd, "renew") && !(ok && e.Code == "NOSCRIPT") {
		return int64(0), nil
	}
	return v, err
}

func renewsAgainLater(ctx context.Context, cmd driver.Command, next do) (driver.Value, error) {
	if runs(cmd, "renew") {
		time.AfterFunc(500*time.Millisecond, func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_, _ = next(ctx, cmd)
		})
	}
	return next(ctx, cmd)
}

// lateYes gives the reply to an earlier renewal, if that came late, to a later one.
func lateYes() breaker {
	var mu sync.Mutex
	var pending chan driver.Result
	const patience = 20 * time.Millisecond
	return breaker{do: func(ctx context.Context, cmd driver.Command, next do) (driver.Value, error) {
		if !runs(cmd, "renew") {
			return next(ctx, cmd)
		}
		mu.Lock()
		defer mu.Unlock()
		if pending == nil {
			ch := make(chan driver.Result, 1)
			pending = ch
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), 10*patience*10)
				defer cancel()
				v, err := next(ctx, cmd)
				ch <- driver.Result{Value: v, Err: err}
			}()
		}
		select {
		case r := <-pending:
			pending = nil
			return r.Value, r.Err
		case <-time.After(patience):
			return nil, errors.New("no reply yet")
		}
	}}
}

// caches answers a request that it has seen, of the same lease or attempt, with
// the reply it had then.
func caches() breaker {
	var mu sync.Mutex
	replies := map[string]driver.Value{}
	return breaker{do: func(ctx context.Context, cmd driver.Command, next do) (driver.Value, error) {
		key := fmt.Sprintf("%s %q", scriptOf(cmd).name, cmd.Args[cmd.FirstKey:min(len(cmd.Args), cmd.FirstKey+cmd.NumKeys+1)])
		mu.Lock()
		v, known := replies[key]
		mu.Unlock()
		if known {
			return v, nil
		}
		v, err := next(ctx, cmd)
		if err == nil {
			mu.Lock()
			replies[key] = v
			mu.Unlock()
		}
		return v, err
	}}
}

// outageIsNil takes "no server" for "no value".
func outageIsNil(ctx context.Context, cmd driver.Command, next do) (driver.Value, error) {
	v, err := next(ctx, cmd)
	if err != nil && ctx.Err() == nil && driver.OutcomeOf(err) != driver.OutcomeReplied {
		return nil, nil
	}
	return v, err
}

// connectsEachTime opens a connection for every command.
func connectsEachTime(c driver.Connector, conn driver.Conn) driver.Conn {
	return eachTime{conn.(refLike), c}
}

type refLike interface {
	driver.Conn
	driver.Subscriber
	driver.Describer
}

type eachTime struct {
	refLike
	connector driver.Connector
}

func (c eachTime) Do(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	conn, err := c.connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	return conn.Do(ctx, cmd)
}

// A meanwhile opens and uses another connection beside each command.
type meanwhile struct {
	refLike
	connector driver.Connector
}

func (c meanwhile) Do(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	if conn, err := c.connector.Connect(ctx); err == nil {
		_, _ = conn.Do(ctx, driver.Command{Args: []string{"PING"}})
		defer func() { _ = conn.Close() }()
	}
	return c.refLike.Do(ctx, cmd)
}

// resubscribes makes a Subscription that fails after each message, so that the
// core has to make another one.
func resubscribes(_ driver.Connector, conn driver.Conn) driver.Conn {
	return forgetful{conn.(refLike)}
}

type forgetful struct{ refLike }

func (c forgetful) Subscribe(ctx context.Context) (driver.Subscription, error) {
	sub, err := c.refLike.Subscribe(ctx)
	return brief{sub}, err
}

type brief struct{ driver.Subscription }

func (s brief) Receive(ctx context.Context) (driver.Message, error) {
	if _, err := s.Subscription.Receive(ctx); err != nil {
		return driver.Message{}, err
	}
	return driver.Message{}, errors.New("that was enough")
}

// deaf hears nothing but gaps.
type deaf struct{ driver.Subscription }

func (s deaf) Receive(ctx context.Context) (driver.Message, error) {
	for {
		if m, err := s.Subscription.Receive(ctx); err != nil {
			return m, err
		}
	}
}

// gapStorm tells of a gap ten times a second.
type gapStorm struct{ driver.Subscription }

func (s gapStorm) Receive(ctx context.Context) (driver.Message, error) {
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	m, err := s.Subscription.Receive(short)
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return driver.Message{}, driver.ErrGap
	}
	return m, err
}
