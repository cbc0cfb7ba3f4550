package locker

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// A gathering is many readers on a real server, which tells what each request costs it.
type gathering struct {
	t      testing.TB
	client *Client
	conn   driver.Conn
	offer  []string // of a client of a quorum, of which the server is a node
}

func newGathering(t testing.TB) *gathering {
	f := &fakeDeployment{dial: startRedis(t)}
	c, err := New(f)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	conn, err := f.Connect(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	g := &gathering{t: t, client: c, conn: conn}
	g.do("SCRIPT", "LOAD", holdFamily.acquire.source())
	g.do("SCRIPT", "LOAD", holdFamily.release.source())
	return g
}

// asNode makes the server a node of a quorum that has been there for long.
func (g *gathering) asNode() {
	g.do("SET", markerKey, "1", "PX", "100000000000")
	g.offer = []string{"0", "60000000", "60000", "100000000000"}
	g.ask("any", modeRead, NewOwner(), false) // writes the marker as it is to be
}

func (g *gathering) do(args ...string) driver.Value {
	v, err := g.conn.Do(g.t.Context(), driver.Command{Args: args})
	require.NoError(g.t, err)
	return v
}

// ask asks for a lock once, with a place in the queue or without.
func (g *gathering) ask(name string, m mode, o Owner, waits bool) error {
	keys := newKeys(name)
	r := &request{name: name, keys: &keys, mode: m, id: newID(), owner: o.name, tail: "|", ttl: time.Hour}
	if o.alone {
		r.otherHold = noHold
	}
	p := place{}
	if waits {
		p = place{reservation: newID(), life: time.Hour}
	}
	v := g.do(acquireCall(r, p, "1", g.offer).command.Args...)
	_, _, err := r.acquired(v)
	return err
}

// readers makes n of them hold the lock.
func (g *gathering) readers(name string, n int) {
	for range n {
		require.NoError(g.t, g.ask(name, modeRead, newcomer(), false))
	}
}

func newcomer() Owner {
	return Owner{name: newID(), made: true, alone: true}
}

// commands is how many the server executes for a call, those of scripts included.
func (g *gathering) commands(call func()) (n int) {
	g.do("CONFIG", "RESETSTAT")
	call()
	for _, c := range regexp.MustCompile(`cmdstat_(\S+):calls=(\d+)`).FindAllStringSubmatch(g.do("INFO", "commandstats").(string), -1) {
		if calls, err := strconv.Atoi(c[2]); assert.NoError(g.t, err) && c[1] != "config|resetstat" {
			n += calls
		}
	}
	return n
}

// cost is how long the server executes the scripts of a call, in µs.
func (g *gathering) cost(call func()) float64 {
	g.do("CONFIG", "RESETSTAT")
	call()
	return scriptTime(g.t, g.do("INFO", "commandstats").(string))
}

// Readers hold the lock and a writer waits, and so does whoever comes then. What each of those
// asks must not cost more, the more hold the lock: a thousand, each of whom asks once a second,
// would take all of the server's time.
func TestManyReadersCostWhoWaitsBehindThemNothing(t *testing.T) {
	g := newGathering(t)
	asks := map[string]func(name string){
		"a reader tries": func(name string) {
			_, err := g.client.Mutex(name, ForReading()).TryLock(t.Context())
			assert.ErrorIs(t, err, ErrLocked)
		},
		"a writer tries": func(name string) {
			_, err := g.client.Mutex(name, ForWriting()).TryLock(t.Context())
			assert.ErrorIs(t, err, ErrLocked)
		},
		"a reader waits": func(name string) { assert.ErrorIs(t, g.ask(name, modeRead, newcomer(), true), ErrLocked) },
		"a writer waits": func(name string) { assert.ErrorIs(t, g.ask(name, modeWrite, newcomer(), true), ErrLocked) },
	}
	for _, n := range []int{100, 2000} {
		g.readers(fmt.Sprint(n), n)
		require.ErrorIs(t, g.ask(fmt.Sprint(n), modeWrite, newcomer(), true), ErrLocked)
	}
	for what, ask := range asks {
		few, many := g.commands(func() { ask("100") }), g.commands(func() { ask("2000") })
		assert.LessOrEqual(t, many, few+3, "commands for which %s with 2000 readers, and with 100", what)
	}
}

// A node of a quorum knows that a writer holds the lock before it asks whether one waits.
func TestManyWaitersCostAReaderAtANodeNothing(t *testing.T) {
	g := newGathering(t)
	g.asNode()
	for _, n := range []int{10, 1000} {
		name := fmt.Sprint(n)
		require.NoError(t, g.ask(name, modeWrite, newcomer(), false))
		for range n {
			require.ErrorIs(t, g.ask(name, modeRead, newcomer(), true), ErrLocked)
		}
	}
	ask := func(name string) func() {
		return func() { assert.ErrorIs(t, g.ask(name, modeRead, newcomer(), false), ErrLocked) }
	}
	few, many := g.commands(ask("10")), g.commands(ask("1000"))
	assert.LessOrEqual(t, many, few, "commands with 1000 who wait, and with 10")
}

// What a reader's request costs a node of a quorum where a writer has left and n readers wait,
// none of whom has been quicker.
func BenchmarkManyWaitersAtANode(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			g := newGathering(b)
			g.asNode()
			require.NoError(b, g.ask("k", modeWrite, newcomer(), false))
			for range n {
				require.ErrorIs(b, g.ask("k", modeRead, newcomer(), true), ErrLocked)
			}
			least := math.Inf(1)
			for b.Loop() {
				g.do("DEL", "k")
				least = min(least, g.cost(func() { require.NoError(b, g.ask("k", modeRead, newcomer(), false)) }))
			}
			b.ReportMetric(least, "server-µs")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// For how long the server does nothing else when a writer leaves and n readers wait.
func BenchmarkManyWaitingReaders(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			g := newGathering(b)
			m := g.client.Mutex("k", ForWriting())
			least := math.Inf(1)
			for b.Loop() {
				g.do("FLUSHALL")
				writing, err := m.Lock(b.Context())
				require.NoError(b, err)
				for range n {
					require.ErrorIs(b, g.ask("k", modeRead, newcomer(), true), ErrLocked)
				}
				least = min(least, g.cost(func() { require.NoError(b, writing.Unlock(b.Context())) }))
			}
			b.ReportMetric(least, "server-µs")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// What a request costs the server where n readers hold the lock and a writer waits.
func BenchmarkManyReaders(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			g := newGathering(b)
			g.readers("k", n)
			require.ErrorIs(b, g.ask("k", modeWrite, newcomer(), true), ErrLocked)
			for what, owner := range map[string]Owner{"new-owner": newcomer(), "known-owner": NewOwner()} {
				b.Run(what, func(b *testing.B) {
					least := math.Inf(1)
					for b.Loop() {
						least = min(least, g.cost(func() { require.ErrorIs(b, g.ask("k", modeRead, owner, false), ErrLocked) }))
					}
					b.ReportMetric(least, "server-µs")
					b.ReportMetric(0, "ns/op")
				})
			}
		})
	}
}

// Among so many holds that a server does not show them all at once, the one that lasts is met wherever it is.
func TestAHoldIsMetAmongManyThatHaveRunOut(t *testing.T) {
	f := &fakeDeployment{dial: startRedis(t)}
	conn, err := f.Connect(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	line, c := commandLine{t, conn}, f.client(t)
	for mode, kind := range map[string]struct {
		letter string
		same   []Option
	}{"x": {"x", []Option{Reentrant()}}, "rw": {"w", []Option{ForReading(), ForWriting()}}} {
		for i := range 3 { // it may be the first all the same
			name, alive := fmt.Sprint(mode, i), newID()
			end := strconv.FormatInt(time.Now().Add(time.Minute).UnixMilli(), 10)
			record := []string{"HSET", name, "gl1", mode, "w", end, alive, kind.letter + "|" + end + "|60000|0|alive||"}
			for range 2000 {
				record = append(record, newID(), kind.letter+"|1|1000|0|dead||")
			}
			line.do(record...)
			line.do("PEXPIRE", name, "60000")
			_, err := c.Mutex(name).TryLock(t.Context())
			assert.ErrorIs(t, err, ErrForeign)
			for _, opt := range kind.same {
				_, err = c.Mutex(name, opt).TryLock(t.Context())
				assert.ErrorIs(t, err, ErrLocked)
			}
			assert.Equal(t, int64(1), line.do("HEXISTS", name, alive))
		}
	}
}
