package locker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// foundDeaf is when a subscription that hears nothing has been replaced at the latest, if
// somebody waits all the time.
const foundDeaf = echoAfter + echoLimit + resubscribePause

// echoes counts the messages of clients to themselves.
func (f *fakeDeployment) echoes() int {
	n := 0
	for _, name := range f.commands() {
		if name == "PUBLISH" {
			n++
		}
	}
	return n
}

func (f *fakeDeployment) setDeaf(deaf bool) { f.set(func() { f.unheard = deaf }) }

func (f *fakeDeployment) subscriptions() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.subscribed
}

func (s *seen) heardOf() []Subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.subscriptions)
}

// hold takes k by another client, which does not wait.
func (f *fakeDeployment) hold(t *testing.T) *Lease {
	held, err := f.client(t).Mutex("k", TTL(time.Hour)).Lock(t.Context())
	require.NoError(t, err)
	return held
}

// handOver gives the lock to who waits for it.
func handOver(t *testing.T, held *Lease, got <-chan *Lease) {
	require.NoError(t, held.Unlock(t.Context()))
	require.NotNil(t, <-got)
}

// A subscription that stays at a former master is alive, and hears nothing: each hand-off to
// its client would cost a poll for ever.
func TestSubscriptionThatHearsNothingIsMadeAnew(t *testing.T) {
	observe(t, func(t *testing.T, f *fakeDeployment, c *Client, s *seen) {
		held := f.hold(t)
		f.setDeaf(true)
		got := background(t, c.Mutex("k"))
		f.setDeaf(false)
		time.Sleep(foundDeaf)
		synctest.Wait()
		assert.Equal(t, []Subscription{{Listening: true}, {Err: errDeaf}, {Listening: true}}, s.heardOf())
		assert.Equal(t, 1, f.echoes())
		begun := time.Now()
		handOver(t, held, got)
		assert.Zero(t, time.Since(begun), "it is told, and need not ask")
	})
}

// Those who wait while it is replaced are woken, for nobody knows what they have missed.
func TestWaitersAskWhenADeafSubscriptionIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		held := f.hold(t)
		f.setDeaf(true)
		c := f.client(t)
		got := background(t, c.Mutex("k", Retry(Constant(time.Minute)))) // would ask later
		f.setDeaf(false)
		f.set(func() {
			f.after = func(_ context.Context, cmd driver.Command) error {
				if cmd.Name() == "PUBLISH" {
					go func() { assert.NoError(t, held.Unlock(context.Background())) }()
				}
				return nil
			}
		})
		begun := time.Now()
		require.NotNil(t, <-got)
		assert.LessOrEqual(t, time.Since(begun), foundDeaf)
	})
}

// From when on nothing is heard any more, those who sleep look for themselves.
func TestWaitersAreTheirOwnWhenNoSubscriptionIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		held := f.hold(t)
		f.setDeaf(true)
		c := f.client(t)
		got := background(t, c.Mutex("k", TTL(10*time.Second), Retry(Constant(time.Minute))))
		f.set(func() { f.subscribeErr = driver.NewServerError("NOPERM no channel") })
		for c.hub.listens() {
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(pollInterval / 2)
		require.NoError(t, held.Unlock(t.Context()))
		begun := time.Now()
		require.NotNil(t, <-got)
		assert.LessOrEqual(t, time.Since(begun), pollInterval)
	})
}

func TestSilentSubscriptionThatHearsIsLeftAlone(t *testing.T) {
	observe(t, func(t *testing.T, f *fakeDeployment, c *Client, s *seen) {
		held := f.hold(t)
		got := background(t, c.Mutex("k"))
		const periods = 12
		time.Sleep(periods * echoAfter)
		synctest.Wait()
		assert.Equal(t, []Subscription{{Listening: true}}, s.heardOf())
		assert.GreaterOrEqual(t, f.echoes(), periods-1)
		assert.LessOrEqual(t, f.echoes(), periods*4/3)
		handOver(t, held, got)
	})
}

func TestSubscriptionOnWhichMessagesComeCostsNoEcho(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		held := f.hold(t)
		c := f.client(t)
		got := background(t, c.Mutex("k"))
		for range 12 {
			time.Sleep(echoAfter / 2)
			f.Publish(c.hub.channel, "gl1|w|another reservation")
		}
		assert.Zero(t, f.echoes())
		handOver(t, held, got)
	})
}

func TestNobodyWaitsAndThereIsNoEcho(t *testing.T) {
	observe(t, func(t *testing.T, f *fakeDeployment, c *Client, s *seen) {
		f.setDeaf(true)
		held := f.hold(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Mutex("k").Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Zero(t, f.echoes())
		assert.Equal(t, []Subscription{{Listening: true}}, s.heardOf())
		assert.Zero(t, c.hub.timer.at)
		require.NoError(t, held.Unlock(t.Context()))
	})
}

// Who waits for a few seconds now and then never waits for as long as an echo takes.
func TestShortWaitsFindOutTogetherThatNothingIsHeard(t *testing.T) {
	observe(t, func(t *testing.T, f *fakeDeployment, c *Client, s *seen) {
		f.hold(t)
		f.setDeaf(true)
		const short = 3 * time.Second
		for waited := time.Duration(0); waited < foundDeaf+short; waited += short {
			ctx, cancel := context.WithTimeout(t.Context(), short)
			_, err := c.Mutex("k").Lock(ctx)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			f.setDeaf(false)
			time.Sleep(time.Minute)
		}
		assert.Equal(t, []Subscription{{Listening: true}, {Err: errDeaf}, {Listening: true}}, s.heardOf())
		assert.Equal(t, 1, f.echoes())
	})
}

// Nor does the silence end where one of several gives up.
func TestSilenceGoesOnForThoseWhoWaitOn(t *testing.T) {
	observe(t, func(t *testing.T, f *fakeDeployment, c *Client, s *seen) {
		held := f.hold(t)
		other := must(t, f.client(t).Mutex("other"))
		f.setDeaf(true)
		got := background(t, c.Mutex("k"))
		_, err := c.Mutex("other").Lock(within(t, time.Second))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(foundDeaf)
		synctest.Wait()
		assert.Contains(t, s.heardOf(), Subscription{Err: errDeaf})
		handOver(t, held, got)
		require.NoError(t, other.Unlock(t.Context()))
	})
}

// The server that does not take the echo, for whatever reason, has not said that it arrives.
func TestErrorOfTheEchoIsNoVerdict(t *testing.T) {
	withoutRaceDetector(t)
	for name, fault := range map[string]error{
		"refused": driver.NewServerError("NOPERM this user has no permissions to run the 'publish' command"),
		"outage":  driver.NotSent(errors.New("no route")),
		"lost":    errLostReply,
	} {
		t.Run(name, func(t *testing.T) {
			observe(t, func(t *testing.T, f *fakeDeployment, c *Client, s *seen) {
				held := f.hold(t)
				f.setDeaf(true)
				tried := 0
				f.set(func() {
					f.before = func(_ context.Context, cmd driver.Command) error {
						if cmd.Name() == "PUBLISH" {
							tried++
							return fault
						}
						return nil
					}
				})
				got := background(t, c.Mutex("k"))
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				assert.Equal(t, []Subscription{{Listening: true}}, s.heardOf())
				assert.InDelta(t, 35, tried, 5, "it is tried again, and no more often")
				f.heal()
				time.Sleep(foundDeaf)
				assert.Contains(t, s.heardOf(), Subscription{Err: errDeaf})
				handOver(t, held, got)
			})
		})
	}
}

// A permission for the channel that is withdrawn ends the subscription, and a driver that is
// refused another one goes on trying. That nothing is heard is told all the same, and waiters poll.
func TestASubscriptionThatIsForbiddenLaterIsNotTakenForOneThatHears(t *testing.T) {
	withoutRaceDetector(t)
	noChannel := driver.NewServerError("NOPERM this user has no permissions to access one of the channels used as arguments")
	anew := []Subscription{{Listening: true}, {Err: errMuted}, {Listening: true}}
	for name, test := range map[string]struct {
		publishErr, subscribeErr error
		first                    []Subscription // what is told, to begin with
		listens                  bool
	}{
		"no channel":    {noChannel, noChannel, []Subscription{{Listening: true}, {Err: errMuted}, {Err: noChannel}}, false},
		"no publishing": {driver.NewServerError("NOPERM this user has no permissions to run the 'publish' command"), nil, anew, true},
		"outage":        {driver.NotSent(errors.New("no route")), nil, []Subscription{{Listening: true}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			observe(t, func(t *testing.T, f *fakeDeployment, c *Client, s *seen) {
				held := f.hold(t)
				got := background(t, c.Mutex("k"))
				time.Sleep(2 * echoAfter)
				require.NotZero(t, f.echoes(), "something was heard")
				f.setDeaf(true)
				f.set(func() {
					f.subscribeErr = test.subscribeErr
					f.before = func(_ context.Context, cmd driver.Command) error {
						if cmd.Name() == "PUBLISH" {
							return test.publishErr
						}
						return nil
					}
				})
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				heard := s.heardOf()
				require.GreaterOrEqual(t, len(heard), len(test.first))
				assert.Equal(t, test.first, heard[:len(test.first)])
				if test.subscribeErr == nil {
					assert.Len(t, heard, len(test.first), "it is not given up again and again")
				}
				assert.Equal(t, test.listens, c.hub.listens())
				handOver(t, held, got)
			})
		})
	}
}

// An echo that is not answered ends by itself.
func TestEchoIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		held := f.hold(t)
		var took []time.Duration
		f.set(func() {
			f.before = func(ctx context.Context, cmd driver.Command) error {
				if cmd.Name() != "PUBLISH" {
					return nil
				}
				begun := time.Now()
				<-ctx.Done()
				took = append(took, time.Since(begun))
				return ctx.Err()
			}
		})
		c, subscribed := f.client(t), f.subscriptions()
		got := background(t, c.Mutex("k"))
		go c.Mutex("k", Retry(Constant(time.Second))).Lock(t.Context()) // for whom the hub wakes up meanwhile
		time.Sleep(3 * echoAfter)
		synctest.Wait()
		assert.Equal(t, []time.Duration{echoTime, echoTime}, took)
		assert.Equal(t, subscribed+1, f.subscriptions(), "nothing is known before the server has taken the echo")
		handOver(t, held, got)
	})
}

// The echo may be heard before the reply to it, which then says nothing new.
func TestEchoThatIsHeardBeforeItsReply(t *testing.T) {
	observe(t, func(t *testing.T, f *fakeDeployment, c *Client, s *seen) {
		held := f.hold(t)
		f.set(func() {
			f.after = func(_ context.Context, cmd driver.Command) error {
				if cmd.Name() == "PUBLISH" {
					time.Sleep(echoTime / 2)
				}
				return nil
			}
		})
		got := background(t, c.Mutex("k"))
		time.Sleep(10 * echoAfter)
		synctest.Wait()
		assert.Equal(t, []Subscription{{Listening: true}}, s.heardOf())
		assert.InDelta(t, 11, f.echoes(), 2)
		handOver(t, held, got)
	})
}

// Where messages never arrive, as by some proxies, the client does not subscribe all the time.
func TestSubscriptionsThatNeverHearAreMadeMoreAndMoreSeldom(t *testing.T) {
	withoutRaceDetector(t)
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		held := f.hold(t)
		f.setDeaf(true)
		got := background(t, f.client(t).Mutex("k", Retry(Constant(time.Minute))))
		time.Sleep(time.Hour)
		early := f.subscriptions()
		time.Sleep(time.Hour)
		late := f.subscriptions() - early
		assert.LessOrEqual(t, early, 60)
		assert.InDelta(t, float64(time.Hour/(resubscribeLimit+echoAfter+echoLimit)), late, 3)
		handOver(t, held, got)
	})
}

// An outage that is over, after which messages have come, makes none of the later ones longer.
func TestSubscriptionThatHasHeardIsMadeAnewSoon(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		held, c := f.hold(t), f.client(t)
		f.set(func() { f.subscribeErr = errors.New("not yet") })
		got := background(t, c.Mutex("k", Retry(Constant(time.Minute))))
		time.Sleep(3 * resubscribeLimit)
		f.set(func() { f.subscribeErr = nil })
		time.Sleep(resubscribeLimit + 2*echoAfter)
		require.NotZero(t, f.echoes(), "something was heard")
		refused := make(chan struct{})
		once := sync.OnceFunc(func() { close(refused) })
		f.set(func() {
			f.before = func(_ context.Context, cmd driver.Command) error {
				if cmd.Name() != "PUBLISH" {
					return nil
				}
				once()
				return driver.NewServerError("NOPERM this user has no permissions to run the 'publish' command")
			}
		})
		<-refused
		synctest.Wait()
		require.False(t, c.hub.listens())
		time.Sleep(resubscribePause)
		synctest.Wait()
		assert.True(t, c.hub.listens())
		f.heal()
		handOver(t, held, got)
	})
}

func TestCloseEndsAnEcho(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		f.hold(t)
		c := f.client(t)
		underway, ended := make(chan struct{}), make(chan struct{})
		f.set(func() {
			f.before = func(ctx context.Context, cmd driver.Command) error {
				if cmd.Name() != "PUBLISH" {
					return nil
				}
				close(underway)
				<-ctx.Done()
				close(ended)
				return ctx.Err()
			}
		})
		failed := make(chan error, 1)
		go func() {
			_, err := c.Mutex("k").Lock(context.Background())
			failed <- err
		}()
		<-underway
		begun := time.Now()
		require.NoError(t, c.Close())
		require.ErrorIs(t, <-failed, ErrClosed)
		<-ended
		assert.Zero(t, time.Since(begun))
		assert.Zero(t, c.hub.timer.at, "no timer is left")
	})
}

// Each node of a quorum is judged by what is heard from it.
func TestDeafSubscriptionToANodeOfAQuorum(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		held, err := nodes.client(t, QuorumConfig{}).Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		s := &seen{}
		nodes[1].setDeaf(true)
		got := background(t, nodes.client(t, QuorumConfig{}, s.observer()).Mutex("k"))
		time.Sleep(foundDeaf + time.Second)
		synctest.Wait()
		var anew []Subscription
		for _, e := range s.heardOf() {
			if !e.Listening {
				anew = append(anew, e)
			}
		}
		assert.Equal(t, []Subscription{{Node: 1, Err: errDeaf}}, anew)
		handOver(t, held, got)
	})
}

// Versions that do not know the echo take it for none of their messages.
func TestEchoWakesNobody(t *testing.T) {
	_, _, ok := parseMessage(echoMessage)
	assert.False(t, ok)
}
