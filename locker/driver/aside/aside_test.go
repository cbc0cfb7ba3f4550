package aside_test

import (
	"context"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/aside"
)

func TestCallReturnsWhatFReturns(t *testing.T) {
	v, err := aside.Call(t.Context(), nil, func() int { return 7 }, nil)
	assert.NoError(t, err)
	assert.Equal(t, 7, v)
}

func TestCallReturnsAtTheEndOfCtxOrDone(t *testing.T) {
	for _, test := range []struct {
		name string
		want error
	}{{"ctx", context.DeadlineExceeded}, {"done", driver.ErrClosed}} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				done := make(chan struct{})
				if test.want == driver.ErrClosed {
					time.AfterFunc(time.Second, func() { close(done) })
				}
				discarded := make(chan int, 1)
				begun := time.Now()
				_, err := aside.Call(ctx, done, func() int { time.Sleep(time.Hour); return 7 }, func(v int) { discarded <- v })
				assert.ErrorIs(t, err, test.want)
				assert.LessOrEqual(t, time.Since(begun), time.Minute)
				assert.Equal(t, 7, <-discarded)
			})
		})
	}
}

func TestCallPrefersAKnownOutcome(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	for range 100 {
		v, err := aside.Call(ctx, nil, func() int { return 7 }, nil)
		assert.NoError(t, err)
		assert.Equal(t, 7, v)
	}
	cancel()
}

// atOnce is a context that has ended by the time that it is asked, when all else has come to rest.
type atOnce struct{ context.Context }

func (c atOnce) Done() <-chan struct{} {
	synctest.Wait()
	return c.Context.Done()
}

func TestCallPrefersAnOutcomeThatComesTogetherWithTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 100 { // which of the two is seen first is by chance
			v, err := aside.Call(atOnce{ctx}, nil, func() int { return 7 }, func(int) { t.Error("discarded") })
			assert.NoError(t, err)
			assert.Equal(t, 7, v)
		}
	})
}

func TestCallWithoutDiscardGoesOnAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := aside.Call(ctx, nil, func() int { time.Sleep(time.Hour); return 7 }, nil)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(time.Hour)
		synctest.Wait()
	})
}

func TestOpenReturnsWhatIsOpened(t *testing.T) {
	for _, want := range []error{nil, io.EOF} {
		v, err := aside.Open(t.Context(), nil, func() (int, error) { return 7, want }, func(int) { assert.Fail(t, "closed") })
		assert.Equal(t, want, err)
		assert.Equal(t, 7, v)
	}
}

func TestOpenClosesWhatComesTooLate(t *testing.T) {
	for _, failure := range []error{nil, io.EOF} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var closed []int
			open := func() (int, error) { time.Sleep(time.Hour); return 7, failure }
			_, err := aside.Open(ctx, nil, open, func(v int) { closed = append(closed, v) })
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			time.Sleep(time.Hour)
			synctest.Wait()
			assert.Equal(t, failure == nil, len(closed) == 1, "%v: closed %v", failure, closed)
		})
	}
}

func ExampleCall() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	never := make(chan struct{})
	_, err := aside.Call(ctx, nil, func() int { <-never; return 1 }, nil)
	fmt.Println(err)
	// Output: context deadline exceeded
}
