package locker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// A batchServer is a Connector and Conn that answers each command with its first
// argument, after a while.
type batchServer struct {
	mode driver.Mode
	work func(ctx context.Context, cmds []driver.Command) error // of one request; nil: it takes a millisecond

	mu      sync.Mutex
	alone   int
	batches [][]string // the first arguments of the commands sent together
	life    context.Context
	end     context.CancelFunc
}

func newBatchServer() *batchServer {
	s := &batchServer{}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

func (s *batchServer) Connect(context.Context) (driver.Conn, error) { return s, nil }
func (s *batchServer) Driver() driver.Driver                        { return nil }

func (s *batchServer) Describe(context.Context) (driver.Topology, error) {
	return driver.Topology{Mode: s.mode}, nil
}

func (s *batchServer) Close() error {
	s.end()
	return nil
}

func (s *batchServer) Do(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	s.mu.Lock()
	s.alone++
	s.mu.Unlock()
	r := s.exchange(ctx, []driver.Command{cmd})[0]
	return r.Value, r.Err
}

func (s *batchServer) DoBatch(ctx context.Context, cmds []driver.Command) []driver.Result {
	names := make([]string, len(cmds))
	for i, cmd := range cmds {
		names[i] = cmd.Args[1]
	}
	s.mu.Lock()
	s.batches = append(s.batches, names)
	s.mu.Unlock()
	return s.exchange(ctx, cmds)
}

func (s *batchServer) exchange(ctx context.Context, cmds []driver.Command) []driver.Result {
	results := make([]driver.Result, len(cmds))
	err := driver.NotSent(ctx.Err())
	switch {
	case s.life.Err() != nil:
		err = driver.NotSent(driver.ErrClosed)
	case err != nil:
	case s.work != nil:
		err = s.work(ctx, cmds)
	default:
		time.Sleep(time.Millisecond)
	}
	for i, cmd := range cmds {
		if results[i].Err = err; err == nil {
			results[i].Value = cmd.Args[1]
		}
	}
	return results
}

// hang waits until ctx or the Conn ends.
func (s *batchServer) hang(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.life.Done():
		return driver.ErrClosed
	}
}

// sent are the commands of all batches so far.
func (s *batchServer) sent() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.batches {
		names = append(names, b...)
	}
	return names
}

func get(key string) driver.Command {
	return driver.Command{Args: []string{"GET", key}, FirstKey: 1, NumKeys: 1}
}

// sharing runs a test with a link to a server, in a bubble.
func batching(t *testing.T, test func(t *testing.T, s *batchServer, l *link)) {
	synctest.Test(t, func(t *testing.T) {
		s := newBatchServer()
		l := newLink(s)
		defer l.close()
		test(t, s, l)
	})
}

// A lone caller's command goes out at once and by itself.
func TestBatcherLoneCaller(t *testing.T) {
	batching(t, func(t *testing.T, s *batchServer, l *link) {
		begun := time.Now()
		for range 3 {
			v, err := l.do(t.Context(), get("k"))
			require.NoError(t, err)
			assert.Equal(t, "k", v)
		}
		assert.Equal(t, 3*time.Millisecond, time.Since(begun))
		assert.Equal(t, 3, s.alone)
		assert.Empty(t, s.batches)
	})
}

// Many callers need few requests, and each gets its own reply.
func TestBatcherManyCallers(t *testing.T) {
	batching(t, func(t *testing.T, s *batchServer, l *link) {
		const callers, rounds = 1000, 3
		begun := time.Now()
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				for round := range rounds {
					name := fmt.Sprintf("%d-%d", i, round)
					v, err := l.do(t.Context(), get(name))
					assert.NoError(t, err)
					assert.Equal(t, name, v)
				}
			})
		}
		wg.Wait()
		assert.LessOrEqual(t, time.Since(begun), 3*rounds*time.Millisecond)
		assert.LessOrEqual(t, len(s.batches)+s.alone, callers*rounds/100)
		for _, b := range s.batches {
			assert.LessOrEqual(t, len(b), batchRoom)
		}
		assert.Len(t, s.sent(), callers*rounds-s.alone)
	})
}

// occupy makes requests that hang, so that what is asked next has to wait in line.
func occupy(t *testing.T, l *link, requests int) {
	for i := range requests {
		go l.do(t.Context(), get(fmt.Sprint("occupied", i)))
		synctest.Wait()
	}
}

// A caller that gives up while its command is in line gets it back unsent.
func TestBatcherCancelledInLine(t *testing.T) {
	batching(t, func(t *testing.T, s *batchServer, l *link) {
		free := make(chan struct{})
		s.work = func(ctx context.Context, _ []driver.Command) error { <-free; return nil }
		occupy(t, l, maxAlone+usualBatches)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for _, name := range []string{"cancelled", "other"} {
			wg.Go(func() {
				ctx := ctx
				if name == "other" {
					ctx = t.Context()
				}
				v, err := l.do(ctx, get(name))
				if name == "other" {
					assert.NoError(t, err)
					assert.Equal(t, name, v)
					return
				}
				assert.ErrorIs(t, err, context.Canceled)
				assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
			})
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(free)
		wg.Wait()
		assert.NotContains(t, s.sent(), "cancelled")
		assert.Contains(t, s.sent(), "other")

		_, err := l.do(ctx, get("late"))
		assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
		assert.NotContains(t, s.sent(), "late")
	})
}

// A caller that gives up while its command is under way returns at once, its outcome
// unknown. The others have their replies. When nobody waits any more the batch ends.
func TestBatcherCancelledUnderWay(t *testing.T) {
	batching(t, func(t *testing.T, s *batchServer, l *link) {
		free := make(chan struct{})
		ended := make(chan struct{}, 8)
		s.work = func(ctx context.Context, cmds []driver.Command) error {
			select {
			case <-free:
				return nil
			case <-ctx.Done():
				ended <- struct{}{}
				return ctx.Err()
			}
		}
		c, err := l.connect(t.Context())
		require.NoError(t, err)
		line := &c.batchers[0].pipeline
		line.usual, line.most = 0, 0 // so that they gather
		contexts, results := make([]context.CancelFunc, 4), make(chan error, 4)
		for i := range contexts {
			ctx, cancel := context.WithCancel(t.Context())
			contexts[i] = cancel
			go func() {
				_, err := c.batchers[0].doBatched(ctx, get(fmt.Sprint(i)))
				results <- err
			}()
		}
		synctest.Wait()
		contexts[3]()
		require.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(<-results), "who gives up before is not waited for")
		line.mu.Lock()
		line.start()
		line.mu.Unlock()
		synctest.Wait()
		require.Len(t, s.batches, 1, "they are sent together")

		contexts[0]()
		err = <-results
		assert.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(err))
		assert.Empty(t, ended)

		contexts[1]()
		contexts[2]()
		<-results
		<-results
		<-ended
		close(free)
	})
}

// When a batch breaks, each of its commands is unknown.
func TestBatcherBatchBreaks(t *testing.T) {
	batching(t, func(t *testing.T, s *batchServer, l *link) {
		s.work = func(context.Context, []driver.Command) error {
			time.Sleep(time.Millisecond)
			return errLostReply
		}
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				_, err := l.do(t.Context(), get(fmt.Sprint(i)))
				assert.ErrorIs(t, err, errLostReply)
				assert.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(err))
			})
		}
		wg.Wait()
		assert.NotEmpty(t, s.batches)
	})
}

// A driver that returns too few results does not leave callers waiting.
func TestBatcherTooFewResults(t *testing.T) {
	batching(t, func(t *testing.T, s *batchServer, l *link) {
		c, err := l.connect(t.Context())
		require.NoError(t, err)
		c.batchers[0].pipeline.request = func(batch []*pendingCommand) bool {
			sendBatch(forgetful{s}, batch)
			return true
		}
		_, err = c.batchers[0].doBatched(t.Context(), get("k"))
		assert.ErrorContains(t, err, "0 results for 1 commands")
		assert.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(err))
	})
}

type forgetful struct{ driver.Conn }

func (forgetful) DoBatch(context.Context, []driver.Command) []driver.Result { return nil }

// Close ends commands in line as not sent, and those under way.
func TestBatcherClose(t *testing.T) {
	batching(t, func(t *testing.T, s *batchServer, l *link) {
		s.work = func(ctx context.Context, _ []driver.Command) error { return s.hang(ctx) }
		errs := make(chan error, 20)
		for i := range 20 {
			go func() {
				_, err := l.do(t.Context(), get(fmt.Sprint(i)))
				errs <- err
			}()
			synctest.Wait()
		}
		require.NoError(t, l.close())
		outcomes := map[driver.Outcome]int{}
		for range 20 {
			err := <-errs
			assert.ErrorIs(t, err, driver.ErrClosed)
			outcomes[driver.OutcomeOf(err)]++
		}
		assert.Equal(t, map[driver.Outcome]int{
			driver.OutcomeUnknown: maxAlone + usualBatches, driver.OutcomeNotSent: 20 - maxAlone - usualBatches}, outcomes)
		_, err := l.do(t.Context(), get("late"))
		assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
	})
}

// Requests that hang do not hold up those that come later, also if nobody asks again.
func TestBatcherHungBatch(t *testing.T) {
	batching(t, func(t *testing.T, s *batchServer, l *link) {
		var hung sync.Map
		s.work = func(ctx context.Context, cmds []driver.Command) error {
			if _, loaded := hung.LoadOrStore(len(s.sent())+s.alone, true); !loaded && len(s.sent())+s.alone <= maxAlone+usualBatches {
				return s.hang(ctx)
			}
			return nil
		}
		occupy(t, l, maxAlone+usualBatches)
		begun := time.Now()
		_, err := l.do(t.Context(), get("k"))
		require.NoError(t, err)
		assert.LessOrEqual(t, time.Since(begun), 2*soon)
		time.Sleep(time.Minute)
		begun = time.Now()
		_, err = l.do(t.Context(), get("k"))
		require.NoError(t, err)
		assert.Zero(t, time.Since(begun))
	})
}

// Requests under way are bounded when nothing answers, and callers wait for their own
// contexts only.
func TestBatcherNothingAnswers(t *testing.T) {
	batching(t, func(t *testing.T, s *batchServer, l *link) {
		underWay, most := 0, 0
		s.work = func(ctx context.Context, _ []driver.Command) error {
			s.mu.Lock()
			underWay++
			most = max(most, underWay)
			s.mu.Unlock()
			err := s.hang(ctx)
			s.mu.Lock()
			underWay--
			s.mu.Unlock()
			return err
		}
		var wg sync.WaitGroup
		for i := range 500 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				begun := time.Now()
				_, err := l.do(ctx, get(fmt.Sprint(i)))
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				assert.Equal(t, time.Second, time.Since(begun))
			})
		}
		wg.Wait()
		synctest.Wait()
		assert.Zero(t, underWay)
		assert.LessOrEqual(t, most, maxAlone+maxBatches)
	})
}

// In a Cluster a part that hangs does not hold up the others.
func TestBatcherParts(t *testing.T) {
	batching(t, func(t *testing.T, s *batchServer, l *link) {
		s.mode = driver.ModeCluster
		s.work = func(ctx context.Context, cmds []driver.Command) error {
			for _, cmd := range cmds {
				if driver.Slot(cmd.Args[1])*shards/driver.Slots == 0 {
					return s.hang(ctx)
				}
			}
			return nil
		}
		_, err := l.connect(t.Context())
		require.NoError(t, err)
		var wg sync.WaitGroup
		hung, answered := 0, 0
		for i := range 2000 {
			name := fmt.Sprint(i)
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				begun := time.Now()
				_, err := l.do(ctx, get(name))
				s.mu.Lock()
				defer s.mu.Unlock()
				if l.shard(name) == 0 {
					hung++
					assert.ErrorIs(t, err, context.DeadlineExceeded)
				} else {
					answered++
					assert.NoError(t, err)
					assert.Zero(t, time.Since(begun))
				}
			})
		}
		wg.Wait()
		assert.NotZero(t, hung)
		assert.NotZero(t, answered)
	})
}

// A Conn that is no Batcher gets each command by itself.
func TestBatcherWithoutBatcher(t *testing.T) {
	batching(t, func(t *testing.T, s *batchServer, _ *link) {
		l := newLink(plainConnector{s})
		defer l.close()
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				_, err := l.do(t.Context(), get(fmt.Sprint(i)))
				assert.NoError(t, err)
			})
		}
		wg.Wait()
		assert.Equal(t, 20, s.alone)
	})
}

type plainConnector struct{ *batchServer }

func (c plainConnector) Connect(context.Context) (driver.Conn, error) {
	return driver.Wrapper{Conn: c.batchServer}, nil
}

// A reply that was an error is its own command's only.
func TestBatcherRepliesOfTheirOwn(t *testing.T) {
	batching(t, func(t *testing.T, s *batchServer, l *link) {
		c, err := l.connect(t.Context())
		require.NoError(t, err)
		c.batchers[0].pipeline.request = func(batch []*pendingCommand) bool {
			sendBatch(refusing{s}, batch)
			return true
		}
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				_, err := c.batchers[0].doBatched(t.Context(), get(fmt.Sprint(i)))
				if i%2 == 0 {
					assert.NoError(t, err)
					return
				}
				reply, ok := errors.AsType[*driver.ServerError](err)
				assert.True(t, ok)
				assert.Equal(t, fmt.Sprint("ERR ", i), reply.Message)
			})
		}
		wg.Wait()
	})
}

// A refusing server refuses odd numbers.
type refusing struct{ *batchServer }

func (r refusing) DoBatch(_ context.Context, cmds []driver.Command) []driver.Result {
	results := make([]driver.Result, len(cmds))
	for i, cmd := range cmds {
		if name := cmd.Args[1]; name[len(name)-1]%2 == 1 {
			results[i].Err = driver.NewServerError("ERR " + name)
		}
	}
	return results
}
