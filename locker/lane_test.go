package locker

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// leasesOf locks n names of a part of the deployment.
func leasesOf(t *testing.T, c *Client, part string, n int, ttl time.Duration) (leases []*Lease) {
	for i := range n {
		l, err := c.Mutex(fmt.Sprintf("{%s}%d", part, i), TTL(ttl)).Lock(t.Context())
		require.NoError(t, err)
		leases = append(leases, l)
	}
	return leases
}

// A part of a Cluster hangs, and is to release and renew many leases. Elsewhere a renewal fails once.
func TestOneFailureIsNoReasonToStandBehindAHungShard(t *testing.T) {
	withoutRaceDetector(t)
	for name, c := range map[string]struct {
		parts, leases int
		blip          func(context.Context) error
	}{
		"with one part that has much to do":                          {1, 1000, func(context.Context) error { return errLostReply }},
		"with all parts of a node, and a failure that takes as long": {40, 20, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				client, err := New(sharded{f})
				require.NoError(t, err)
				defer client.Close()
				good, dead := leasesOf(t, client, "good", 5, 10*time.Second), []*Lease(nil)
				for i := 0; len(dead) < c.parts*c.leases; i++ {
					part := fmt.Sprint("dead", i)
					if client.deployment.shard(part) != client.deployment.shard("good") {
						dead = append(dead, leasesOf(t, client, part, c.leases, time.Minute)...)
					}
				}
				deadShard(f)
				for _, l := range dead {
					l.giveBack()
				}
				time.Sleep(20 * time.Second)
				require.Equal(t, len(good), valid(good))
				failed := map[string]bool{}
				f.set(func() {
					f.before = func(ctx context.Context, cmd driver.Command) error {
						key := cmd.Keys()[0]
						if strings.Contains(key, "dead") {
							<-ctx.Done()
							return ctx.Err()
						}
						f.mu.Lock()
						first := !failed[key]
						failed[key] = true
						f.mu.Unlock()
						if first {
							return c.blip(ctx)
						}
						return nil
					}
				})
				time.Sleep(15 * time.Second)
				f.set(func() { assert.Len(t, failed, len(good)) })
				assert.Equal(t, len(good), valid(good))
				f.heal()
				time.Sleep(10 * time.Second)
			})
		})
	}
}

// When a node of a Cluster dies, nothing is known yet of its parts: what is asked first of each
// takes its time. Those of the others have senders all the same.
func TestPartsOfADeadNodeLeaveSendersInThePromptLane(t *testing.T) {
	withoutRaceDetector(t)
	for _, c := range []struct {
		parts, leases int // that die
		ttl           time.Duration
	}{{21, 10, 10 * time.Second}, {21, 100, 10 * time.Second}, {32, 20, 3 * time.Second}, {40, 100, 3 * time.Second}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				client, err := New(sharded{f})
				require.NoError(t, err)
				defer client.Close()
				mustPair(t, client.Mutex("warm"))
				parts := map[int]bool{client.deployment.shard("good"): true}
				for i := 0; len(parts) <= c.parts; i++ {
					part := fmt.Sprint("dead", i)
					if s := client.deployment.shard(part); !parts[s] {
						parts[s] = true
						leasesOf(t, client, part, c.leases, c.ttl)
					}
				}
				good := leasesOf(t, client, "good", 50, c.ttl)
				deadShard(f)
				time.Sleep(2 * c.ttl)
				assert.Equal(t, len(good), valid(good))
				f.heal()
				time.Sleep(10 * time.Second)
			})
		})
	}
}

// A part of which a batch is under way has others too, but not all.
func TestPartsOfThePromptLaneShareFurtherBatches(t *testing.T) {
	l := newLink(nil)
	l.cluster.Store(true)
	w := newWatchdog(l)
	defer w.close()
	p := &w.lanes[promptLane]
	add := func(shard uint8, n int) {
		for range n {
			p.put(&job{need: need{time.Second, false, shard}})
		}
	}
	begin := func() (q *shardQueue) {
		if q, _ = w.next(promptLane); q != nil {
			q.take(1)
			p.begin(q, 0)
		}
		return q
	}
	add(0, 2*maxFurther)
	var under []*shardQueue
	for q := begin(); q != nil; q = begin() {
		under = append(under, q)
	}
	assert.Len(t, under, 1+maxFurther)
	add(7, 2)
	assert.Same(t, p.queues[7], begin(), "its first")
	assert.Nil(t, begin())
	p.end(under[0], 0)
	assert.Same(t, p.queues[0], begin(), "which has waited for longer")
	for range 1 + maxFurther {
		p.end(p.queues[0], 0)
	}
	p.end(p.queues[7], 0)
	assert.Zero(t, p.further)
	assert.Zero(t, p.busy[0])
}

// laneOf is a watchdog of a Cluster with so many jobs for each shard in the slow lane.
func laneOf(jobs ...int) *watchdog {
	l := newLink(nil)
	l.cluster.Store(true)
	w := newWatchdog(l)
	for shard, n := range jobs {
		for range n {
			w.lanes[slowLane].put(&job{need: need{time.Second, true, uint8(shard)}})
		}
	}
	return w
}

// beginNext begins with the next batch of the slow lane, and tells the shard; -1 if there is none.
func (w *watchdog) beginNext() (shard int) {
	l := &w.lanes[slowLane]
	q, hung := w.next(slowLane)
	if q == nil {
		return -1
	}
	l.begin(q, hung)
	return int(q.take(1)[0].need.shard)
}

func TestShardsOfTheSlowLaneTakeTurns(t *testing.T) {
	for _, c := range []struct {
		name string
		hung []uint8
		jobs []int
		want []int
	}{
		{"all are well", []uint8{0, 0, 0}, []int{3, 1, 2}, []int{0, 1, 2, 0, 2, 0, -1}},
		{"who has hung least comes first", []uint8{2, 1, 0}, []int{1, 1, 1}, []int{2, 1, 0, -1}},
		{"one that refuses, and has much to do, leaves a sender", []uint8{0, 2}, []int{9, 1}, []int{0, 0, 0, 0, 0, 0, 0, 1, -1}},
		{"those that hang leave senders", []uint8{2, 2, 1}, []int{9, 9, 9}, []int{2, 2, 2, 2, 0, 1, 0, -1}},
	} {
		w := laneOf(c.jobs...)
		for shard, hung := range c.hung {
			w.states[shard].hung = hung
		}
		var got []int
		for len(got) < len(c.want) {
			got = append(got, w.beginNext())
		}
		assert.Equal(t, c.want, got, c.name)
		w.close()
	}
}

func TestHungBatchesThatWereUnderWayTogetherCountOnce(t *testing.T) {
	var s shardState
	at := func(seconds int) time.Time { return time.Time{}.Add(time.Duration(seconds) * time.Second) }
	s.note(at(1), at(3), true, true)
	s.note(at(2), at(4), true, true)
	assert.EqualValues(t, 1, s.hung)
	for range 3 {
		s.note(at(4), at(4), true, true)
	}
	assert.EqualValues(t, hungOften, s.hung)
	assert.True(t, s.suspect)
	s.note(at(5), at(6), true, false)
	assert.Zero(t, s.hung, "a failure at once holds up nobody")
	assert.True(t, s.suspect)
	s.note(at(6), at(7), false, false)
	assert.False(t, s.suspect)
	s.note(at(8), at(9), false, true)
	assert.True(t, s.suspect, "as where no connection comes about")
}

// A part that has answered once is well, and what failed sooner than a sender is missed has held up nobody, however
// often it fails.
func TestWhatABatchTellsOfItsPart(t *testing.T) {
	type reply struct {
		took time.Duration
		err  error
	}
	soon, late := hungTime-time.Millisecond, hungTime
	refused, notSent := driver.NewServerError("OOM no"), driver.NotSent(errLostReply)
	for name, test := range map[string]struct {
		replies [2]reply
		suspect bool
		hung    uint8
	}{
		"answered":                           {[2]reply{{late, nil}, {late, nil}}, false, 0},
		"refused":                            {[2]reply{{late, refused}, {late, refused}}, false, 0},
		"the first is answered":              {[2]reply{{soon, nil}, {late, errLostReply}}, false, 0},
		"the last is answered":               {[2]reply{{late, errLostReply}, {soon, nil}}, false, 0},
		"without a reply":                    {[2]reply{{late, errLostReply}, {late, errLostReply}}, true, 1},
		"without a reply soon":               {[2]reply{{soon, errLostReply}, {soon, errLostReply}}, true, 0},
		"not sent":                           {[2]reply{{late, notSent}, {late, notSent}}, true, 1},
		"not sent at once":                   {[2]reply{{0, notSent}, {0, notSent}}, false, 0},
		"not sent soon":                      {[2]reply{{soon, notSent}, {soon, notSent}}, false, 0},
		"not sent, and without a reply soon": {[2]reply{{soon, notSent}, {soon, errLostReply}}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				client, err := New(sharded{f})
				require.NoError(t, err)
				defer client.Close()
				part, jobs := client.deployment.shard("part"), []*job(nil)
				for _, lease := range leasesOf(t, client, "part", 2, time.Minute) {
					lease.tenure.job.need = need{patience: time.Second, shard: uint8(part)}
					jobs = append(jobs, &lease.tenure.job)
				}
				f.set(func() {
					f.before = func(_ context.Context, cmd driver.Command) error {
						r := test.replies[0]
						if strings.HasSuffix(cmd.Keys()[0], "}1") {
							r = test.replies[1]
						}
						time.Sleep(r.took)
						return r.err
					}
				})
				client.watchdog.send(jobs)
				assert.Equal(t, test.suspect, client.watchdog.states[part].suspect)
				assert.Equal(t, test.hung, client.watchdog.states[part].hung)
				f.heal()
			})
		})
	}
}

// A batch is of those that are about as patient, in the order in which they came; the others keep theirs.
func TestTakeLeavesThoseOfAnotherPatience(t *testing.T) {
	var l lane
	var of [2][]*job // the patient, and who has no time
	for i, hurried := range []int{0, 0, 1, 0, 1, 0, 0} {
		j := &job{need: need{patience: []time.Duration{2 * time.Second, 20 * time.Millisecond}[hurried] + time.Duration(i)}}
		of[hurried] = append(of[hurried], j)
		l.put(j)
	}
	q := l.queues[0]
	assert.Equal(t, of[0][:3], q.take(3))
	assert.Equal(t, of[1], q.take(3))
	assert.Equal(t, of[0][3:], q.take(3))
	assert.Empty(t, q.jobs)
}

// A given is a task that takes note of the patience it is given, and wants nothing any more.
type given struct {
	task
	patience time.Duration
}

func (g *given) begin(_ moment, patience time.Duration) (call, bool) {
	g.patience = patience
	return call{}, false
}

// Who shares a batch waits for no longer than the least patient. Where nobody wants it any more nothing is sent.
func TestBatchIsAsPatientAsTheLeastPatient(t *testing.T) {
	w := newWatchdog(nil)
	defer w.close()
	one, other := &given{}, &given{}
	w.send([]*job{{task: one, need: need{patience: 2 * time.Second}}, {task: other, need: need{patience: time.Second}}})
	assert.Equal(t, time.Second, one.patience)
	assert.Equal(t, time.Second, other.patience)
	assert.Zero(t, w.states[0])
}

// Who failed before, and who has to do with a part that is suspect, holds up nobody else.
func TestWhoHasAReasonToHangTakesTheSlowLane(t *testing.T) {
	for name, test := range map[string]struct {
		slow    bool
		suspect uint8
		lane    int
	}{
		"neither":                {false, 0, promptLane},
		"failed before":          {true, 0, slowLane},
		"of a part that did not": {false, 7, slowLane},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := laneOf()
			w.states[test.suspect].suspect = test.suspect > 0
			w.enqueue([]*job{{task: &given{}, need: need{patience: time.Second, slow: test.slow, shard: 7}}})
			synctest.Wait()
			var turns [2]int
			turns[test.lane] = 1
			assert.Equal(t, turns, [2]int{w.lanes[promptLane].turns, w.lanes[slowLane].turns}, name)
			w.close()
		})
	}
}

// Who had no answer stands behind no other who has none, where all are asked of one server too.
func TestThoseOfTheSlowLaneHangBesideOneAnother(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		client, jobs := f.client(t), []*job(nil)
		for i, lease := range leasesOf(t, client, "k", 3, time.Minute) {
			lease.tenure.job.need = need{patience: time.Second << i, slow: true} // each a batch of its own
			jobs = append(jobs, &lease.tenure.job)
		}
		var asked atomic.Int32
		f.set(func() {
			f.before = func(ctx context.Context, _ driver.Command) error {
				asked.Add(1)
				<-ctx.Done()
				return ctx.Err()
			}
		})
		client.watchdog.enqueue(jobs)
		synctest.Wait()
		assert.EqualValues(t, 3, asked.Load())
		f.heal()
	})
}

// Those of several parts are due at the same time, of which one hangs.
func TestPartsThatAreDueTogetherAreAskedTogether(t *testing.T) {
	for _, dead := range []string{"a", "b"} {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			client, err := New(sharded{f})
			require.NoError(t, err)
			defer client.Close()
			var jobs []*job
			for _, part := range []string{"a", "b"} {
				lease := must(t, client.Mutex(part))
				lease.tenure.job.need = need{patience: time.Second, shard: uint8(client.deployment.shard(part))}
				jobs = append(jobs, &lease.tenure.job)
			}
			asked := map[string]bool{}
			f.set(func() {
				f.before = func(ctx context.Context, cmd driver.Command) error {
					f.set(func() { asked[cmd.Keys()[0]] = true })
					if cmd.Keys()[0] == dead {
						<-ctx.Done()
					}
					return ctx.Err()
				}
			})
			client.watchdog.enqueue(jobs)
			synctest.Wait()
			f.set(func() { assert.Len(t, asked, 2) })
			f.heal()
		})
	}
}
