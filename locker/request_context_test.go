package locker

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

func contextPoolBubble(t *testing.T, test func(t *testing.T, p *contextPool, closeClient context.CancelFunc)) {
	synctest.Test(t, func(t *testing.T) {
		base, end := context.WithCancel(context.Background())
		defer end()
		test(t, newContextPool(base), end)
	})
}

func TestRequestContextEndsAsContextsDo(t *testing.T) {
	type key struct{}
	caller, cancel := context.WithCancel(context.WithValue(context.Background(), key{}, "value"))
	defer cancel()
	contextPoolBubble(t, func(t *testing.T, p *contextPool, _ context.CancelFunc) {
		l := p.get(context.WithoutCancel(caller), time.Second)
		assert.Equal(t, "value", l.Value(key{}))
		end, ok := l.Deadline()
		assert.True(t, ok)
		assert.Equal(t, time.Second, time.Until(end))
		derived, release := context.WithCancel(l)
		defer release()
		time.Sleep(time.Second)
		<-l.Done()
		assert.Equal(t, context.DeadlineExceeded, l.Err())
		<-derived.Done()
		assert.Equal(t, context.DeadlineExceeded, derived.Err())
		l.release(l.Err())
		assert.Equal(t, context.DeadlineExceeded, l.Err(), "it stays so")
	})
	contextPoolBubble(t, func(t *testing.T, p *contextPool, _ context.CancelFunc) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		l := p.get(ctx, time.Minute)
		end, _ := l.Deadline()
		assert.Equal(t, time.Second, time.Until(end))
		<-l.Done()
		assert.Equal(t, context.DeadlineExceeded, l.Err())
		l.release(errors.New("no reply"))
	})
	contextPoolBubble(t, func(t *testing.T, p *contextPool, _ context.CancelFunc) {
		ctx, cancel := context.WithCancel(t.Context())
		l := p.get(ctx, time.Minute)
		assert.NoError(t, l.Err())
		cancel()
		<-l.Done()
		assert.Equal(t, context.Canceled, l.Err())
		l.release(l.Err())
	})
	contextPoolBubble(t, func(t *testing.T, p *contextPool, closeClient context.CancelFunc) {
		l := p.get(t.Context(), time.Minute)
		closeClient()
		<-l.Done()
		assert.Equal(t, context.Canceled, l.Err())
		l.release(l.Err())
	})
}

// A requestContext that somebody may still heed, or that has ended, is of no more use.
func TestRequestContextServesTheNextRequest(t *testing.T) {
	contextPoolBubble(t, func(t *testing.T, p *contextPool, _ context.CancelFunc) {
		for name, err := range map[string]error{
			"answered": nil,
			"refused":  driver.NewServerError("NOPERM no"),
			"locked":   &LockedError{Name: "k"},
			"foreign":  &ForeignError{Name: "k"},
		} {
			for watchers := range 3 {
				ctx, cancel := context.WithCancel(t.Context())
				l := p.get(ctx, time.Second)
				for range watchers {
					l.Done()
				}
				l.release(err)
				l.Done() // by somebody who has kept it
				cancel()
				time.Sleep(time.Minute)
				require.NoError(t, l.Err(), "%s: neither the caller nor the time that it had ends it now", name)
			}
		}
		for name, err := range map[string]error{
			"unknown":  errors.New("no reply"),
			"not sent": driver.NotSent(errors.New("no connection")),
		} {
			l := p.get(t.Context(), time.Second)
			l.release(err)
			require.Error(t, l.Err(), name)
			next := p.get(t.Context(), time.Second)
			assert.NotSame(t, l, next, name)
			assert.NoError(t, next.Err(), name)
			next.release(err)
		}
	})
}

// Who never asks to be told sees the end all the same.
func TestRequestContextThatNobodyWatchesEndsWithTheCaller(t *testing.T) {
	contextPoolBubble(t, func(t *testing.T, p *contextPool, _ context.CancelFunc) {
		ctx, cancel := context.WithCancel(t.Context())
		l := p.get(ctx, time.Minute)
		own, callers := ends(l)
		cancel()
		<-callers
		assert.Equal(t, context.Canceled, l.Err())
		<-own
		<-l.Done()
		l.release(l.Err())
		assert.Equal(t, context.Canceled, l.Err(), "it stays so")
	})
	contextPoolBubble(t, func(t *testing.T, p *contextPool, closeClient context.CancelFunc) {
		l := p.get(context.Background(), time.Minute)
		own, callers := ends(l)
		assert.Nil(t, callers)
		closeClient()
		<-own
		l.release(l.Err())
	})
}

// Who has kept a requestContext that was released, and looks at it, ends nothing.
func TestRequestContextThatIsReleasedHeedsNoCaller(t *testing.T) {
	contextPoolBubble(t, func(t *testing.T, p *contextPool, _ context.CancelFunc) {
		ctx, cancel := context.WithCancel(t.Context())
		l := p.get(ctx, time.Minute)
		require.True(t, l.untie())
		l.Done()
		cancel()
		synctest.Wait()
		assert.NoError(t, l.Err(), "before it serves the next one")
		l.release(nil)
		assert.NoError(t, l.Err())
	})
}

func TestRequestContextCallsWhenItEnds(t *testing.T) {
	ends := map[string]func(closeClient, endCaller context.CancelFunc){
		"its time is up": func(_, _ context.CancelFunc) { time.Sleep(time.Second) },
		"caller":         func(_, endCaller context.CancelFunc) { endCaller() },
		"client":         func(closeClient, _ context.CancelFunc) { closeClient() },
	}
	for name, end := range ends {
		contextPoolBubble(t, func(t *testing.T, p *contextPool, closeClient context.CancelFunc) {
			ctx, endCaller := context.WithCancel(t.Context())
			defer endCaller()
			used := p.get(ctx, time.Second)
			assert.True(t, used.OnEnd(func() { t.Error(name, "called after it was stopped") })())
			used.release(nil)

			l := p.get(ctx, time.Second)
			called := make(chan string, 3)
			stop := l.OnEnd(func() { called <- "first" })
			other := l.OnEnd(func() { called <- "second" })
			end(closeClient, endCaller)
			synctest.Wait()
			assert.Len(t, called, 2, name)
			assert.False(t, stop(), name)
			assert.False(t, other(), name)
			assert.False(t, l.OnEnd(func() { called <- "late" })(), name)
			synctest.Wait()
			assert.Len(t, called, 3, name)
			l.release(l.Err())
		})
	}
}

// One timer ends all, each at its own time.
func TestRequestContextsEndAtTheirTimes(t *testing.T) {
	contextPoolBubble(t, func(t *testing.T, p *contextPool, _ context.CancelFunc) {
		begun := time.Now()
		answered := p.get(t.Context(), 500*time.Millisecond)
		for _, within := range []time.Duration{3 * time.Second, time.Second, 2 * time.Second, time.Second} {
			l := p.get(t.Context(), within)
			defer l.release(context.DeadlineExceeded)
			context.AfterFunc(l, func() {
				assert.Equal(t, within, time.Since(begun))
				assert.Equal(t, context.DeadlineExceeded, l.Err())
			})
		}
		answered.release(nil)
		time.Sleep(2500 * time.Millisecond)
		l := p.get(t.Context(), time.Second)
		time.Sleep(500 * time.Millisecond)
		assert.NoError(t, l.Err())
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, context.DeadlineExceeded, l.Err())
		l.release(l.Err())
		assert.Empty(t, p.held)
		assert.Zero(t, p.timer.at, "nobody is woken when there is no request")
	})
}

// What is not needed any more is let go of, also by the context with which all end.
func TestRequestContextsAreLetGo(t *testing.T) {
	const burst = 3 * maxIdleContexts
	base, end := context.WithCancel(context.Background())
	defer end()
	p := newContextPool(base)
	held := make([]*requestContext, burst)
	known := make([]weak.Pointer[requestContext], burst)
	type key struct{}
	values := make([]weak.Pointer[[64]byte], burst) // that the callers' contexts hold
	for i := range held {
		v := new([64]byte)
		held[i] = p.get(context.WithValue(context.Background(), key{}, v), time.Minute)
		require.Same(t, v, held[i].Value(key{}))
		known[i], values[i] = weak.Make(held[i]), weak.Make(v)
	}
	for i, l := range held {
		l.release(nil)
		held[i] = nil
	}
	runtime.GC()
	runtime.GC()
	contextsLeft, valuesLeft := 0, 0
	for i := range known {
		if known[i].Value() != nil {
			contextsLeft++
		}
		if values[i].Value() != nil {
			valuesLeft++
		}
	}
	assert.Equal(t, maxIdleContexts, contextsLeft)
	assert.Zero(t, valuesLeft)
	runtime.KeepAlive(p)
}

// A talker is a context of which it takes until told is closed to say, the first time, why it has ended.
type talker struct {
	context.Context
	asked atomic.Bool
	told  chan struct{}
}

func (c *talker) Err() error {
	if !c.asked.Swap(true) {
		<-c.told
	}
	return c.Context.Err()
}

// A requestContext that the end of the caller's context is about to end serves nobody else, who would be told that its request has failed.
func TestRequestContextThatIsAboutToEndIsOfNoMoreUse(t *testing.T) {
	contextPoolBubble(t, func(t *testing.T, p *contextPool, _ context.CancelFunc) {
		ctx, cancel := context.WithCancel(t.Context())
		caller := &talker{Context: ctx, told: make(chan struct{})}
		l := p.get(caller, time.Minute)
		l.Done()
		cancel()
		synctest.Wait()
		released := make(chan struct{})
		go func() { l.release(nil); close(released) }()
		synctest.Wait()
		next := p.get(t.Context(), time.Minute)
		close(caller.told)
		<-released
		synctest.Wait()
		assert.NoError(t, next.Err())
		next.release(nil)
	})
}

// The context of a request about a lease that was not answered ends with it: the driver may still wait for a reply.
func TestContextOfARequestWithoutAnAnswerEnds(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		lease := must(t, f.client(t).Mutex("k"))
		var requests []context.Context
		f.set(func() {
			f.before = func(ctx context.Context, cmd driver.Command) error {
				if requests = append(requests, ctx); len(requests)%2 == 1 {
					return errLostReply
				}
				return nil
			}
		})
		require.NoError(t, lease.Extend(t.Context(), time.Minute))
		require.NoError(t, lease.Unlock(t.Context()))
		require.Len(t, requests, 4)
		assert.Error(t, requests[0].Err())
		assert.Error(t, requests[2].Err())
	})
}
