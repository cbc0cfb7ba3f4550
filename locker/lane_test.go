package locker

import (
	"context"
	"fmt"
	"strings"
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

// What failed sooner than a sender is missed has held up nobody, however often it fails.
func TestABatchThatFailedSoonHasNotHung(t *testing.T) {
	for _, test := range []struct {
		took time.Duration
		hung uint8
	}{{0, 0}, {99 * time.Millisecond, 0}, {100 * time.Millisecond, 1}} {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			client, err := New(sharded{f})
			require.NoError(t, err)
			defer client.Close()
			lease := must(t, client.Mutex("k"))
			part := client.deployment.shard("k")
			f.set(func() {
				f.before = func(context.Context, driver.Command) error {
					time.Sleep(test.took)
					return driver.NotSent(errLostReply)
				}
			})
			lease.tenure.job.need = need{patience: time.Second, shard: uint8(part)}
			client.watchdog.send([]*job{&lease.tenure.job})
			assert.Equal(t, test.hung, client.watchdog.states[part].hung, "after %v", test.took)
			f.heal()
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
