package locker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// A protocolMutant breaks what makes tokens grow, on the way to the nodes.
type protocolMutant struct {
	name string
	// before is what is found in scripts, and after what stands there instead.
	before, after string
	// agrees makes every node agree to every token without being asked.
	agrees bool
	// rare tells that chance does not find it in a short time.
	rare bool
}

// The first three are the broken protocols of docs/models/fence.pml.
var protocolMutants = []protocolMutant{
	{name: "the largest of the replies is the token", agrees: true},
	{name: "a node agrees to a token for a lock that is not ours", // with the next: write-back as in ABD
		before: "elseif not value or value == 0 or not held_by(value, ARGV[1]) then\n  return {0}\nend\nreturn agree(KEYS[2], ARGV[3], ARGV[2])",
		after:  "end\nraise_token(KEYS[2], ARGV[3], ARGV[2])\nreturn {1}"},
	{name: "a node agrees to a token that is smaller than its own", rare: true,
		before: "if last > tonumber(token) then\n    return {2, digits(last)}\n  end", after: ""},
	{name: "what nodes agree to is capped",
		before: "local err = raise_token(key, retention, token)",
		after:  "local err = raise_token(key, retention, digits(math.min(token, now_us() + 5000000)))"},
	{name: "a node does not raise its token when it agrees",
		before: "local err = raise_token(key, retention, token)", after: "local err"},
}

// alter is how a chaos makes it.
func (m protocolMutant) alter(t *testing.T) func(driver.Command) (driver.Command, driver.Value) {
	if m.agrees {
		return func(cmd driver.Command) (driver.Command, driver.Value) {
			if mutexFamily.fence.runs(cmd) || holdFamily.fence.runs(cmd) {
				return cmd, []any{int64(1)}
			}
			return cmd, nil
		}
	}
	mutants := map[string]string{}
	for _, s := range allScripts() {
		if strings.Contains(s.source(), m.before) {
			mutants[s.sha()] = strings.Replace(s.source(), m.before, m.after, 1)
		}
	}
	require.NotEmpty(t, mutants, "%s: there is nothing to change", m.name)
	return func(cmd driver.Command) (driver.Command, driver.Value) {
		if len(cmd.Args) < 2 {
			return cmd, nil
		}
		if source, ok := mutants[cmd.Args[1]]; ok {
			cmd.Args = append([]string{"EVAL", source}, cmd.Args[2:]...)
		}
		return cmd, nil
	}
}

// fencingRun has three clients lock and unlock on three nodes which are late and forget
// locks at any time, though not tokens, and tells what was wrong with the tokens. The
// nodes' tokens differ from the start, and lie so far ahead that proposals do not
// make them equal.
func fencingRun(t *testing.T, seed uint64, alter func(driver.Command) (driver.Command, driver.Value)) (h *quorumHistory) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		h = newQuorumHistory()
		h.overlaps = true
		nodes.established()
		r := rand.New(rand.NewPCG(seed, 7))
		for _, f := range nodes {
			f.Set(newKeys("k").fence, fmt.Sprint(8_000_000_000_000_000+r.Int64N(5)))
		}
		faulty := nodes.chaotic(seed, 90*time.Millisecond)
		for _, x := range faulty {
			x.alter = alter
		}
		end := time.Now().Add(10 * time.Second)
		var wg sync.WaitGroup
		for i := range 3 {
			c := chaosQuorum(t, faulty, QuorumConfig{NodeTimeout: 100 * time.Millisecond}, TTL(500*time.Millisecond))
			r := rand.New(rand.NewPCG(seed, uint64(10+i)))
			wg.Go(func() {
				for time.Now().Before(end) {
					start := h.start()
					ctx, cancel := context.WithTimeout(context.Background(), time.Second)
					l, err := c.Mutex("k", Fenced()).Lock(ctx)
					if err == nil {
						h.granted(l, start)
						time.Sleep(time.Duration(r.IntN(3)) * time.Millisecond)
						h.ended(l)
						_ = l.Unlock(ctx)
					}
					cancel()
				}
			})
		}
		for time.Now().Before(end) {
			time.Sleep(time.Duration(r.IntN(12)) * time.Millisecond)
			nodes[r.IntN(len(nodes))].Del("k")
		}
		wg.Wait()
		quieten(faulty)
		time.Sleep(time.Minute)
	})
	return h
}

// lateSecondStep gives the tokens of two grants, of which the second has its second step
// held up. Its first one has two of three nodes, and not their largest token. Then
// node 1 forgets it, and a client is granted the lock by nodes 1 and 2 and gives it
// up. At last the first step reaches node 2, and the second one all nodes.
func lateSecondStep(t *testing.T, alter func(driver.Command) (driver.Command, driver.Value)) (first, second Token) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		reached, agreed := make(chan struct{}), make(chan struct{})
		prompt, late := nodes.chaotic(0, 0), nodes.chaotic(0, 0)
		for i := range nodes {
			nodes[i].Set(newKeys("k").fence, fmt.Sprint(8_000_000_000_000_000+10*int64(i)))
			prompt[i].quiet, late[i].quiet = true, true
			prompt[i].alter = alter
			late[i].alter = func(cmd driver.Command) (driver.Command, driver.Value) {
				switch {
				case i == 2 && mutexFamily.acquire.runs(cmd):
					<-reached
				case mutexFamily.fence.runs(cmd):
					<-agreed
				}
				return alter(cmd)
			}
		}
		c := chaosQuorum(t, late, QuorumConfig{NodeTimeout: 2 * time.Second})
		known, err := c.Mutex("other").Lock(t.Context()) // else the first grant waits until all nodes are known
		require.NoError(t, err)
		require.NoError(t, known.Unlock(t.Context()))
		waiting := background(t, c.Mutex("k", Fenced()))
		nodes[1].Del("k")
		l, err := chaosQuorum(t, prompt, QuorumConfig{}).Mutex("k", Fenced()).Lock(t.Context())
		require.NoError(t, err)
		first = l.Token()
		require.NoError(t, l.Unlock(t.Context()))
		synctest.Wait()
		close(reached)
		synctest.Wait()
		close(agreed)
		second = (<-waiting).Token()
	})
	return first, second
}

func TestQuorumLateSecondStep(t *testing.T) {
	first, second := lateSecondStep(t, unaltered)
	assert.Equal(t, Token(8_000_000_000_000_021), first)
	assert.Equal(t, Token(8_000_000_000_000_022), second)
}

func unaltered(cmd driver.Command) (driver.Command, driver.Value) { return cmd, nil }

func TestQuorumTokensGrow(t *testing.T) {
	for seed := range chaosSeeds(3) {
		h := fencingRun(t, uint64(seed), unaltered)
		assert.Empty(t, h.wrong, "seed %d", seed)
		assert.Greater(t, h.grants, 20, "seed %d", seed)
	}
}

// Each broken protocol is found out by the runs that the right one passes.
func TestQuorumProtocolMutants(t *testing.T) {
	withoutRaceDetector(t)
	for _, m := range protocolMutants {
		t.Run(m.name, func(t *testing.T) {
			if m.rare {
				first, second := lateSecondStep(t, m.alter(t))
				assert.LessOrEqual(t, second, first)
				return
			}
			for seed := range uint64(20) {
				if h := fencingRun(t, seed, m.alter(t)); len(h.wrong) > 0 {
					t.Logf("seed %d, after %d grants: %s", seed, h.grants, h.wrong[0])
					return
				}
			}
			t.Error("nothing was found wrong")
		})
	}
}

// recreated tells whether a lease is renewed although its nodes have forgotten it.
func recreated(t *testing.T, alter func(driver.Command) (driver.Command, driver.Value), opts ...Option) (is bool) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		quiet := nodes.chaotic(0, 0)
		for _, x := range quiet {
			x.alter, x.quiet = alter, true
		}
		l, err := chaosQuorum(t, quiet, QuorumConfig{}, TTL(time.Second)).Mutex("k", opts...).Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		nodes[0].Del("k")
		nodes[2].Del("k")
		time.Sleep(2 * time.Second)
		is = l.Valid() || nodes[0].Exists("k") || nodes[2].Exists("k")
	})
	return is
}

// A renewal gives no node the lock back: that would be a new tenure, and needs a token of
// its own.
func TestQuorumRenewalDoesNotRecreate(t *testing.T) {
	assert.False(t, recreated(t, unaltered, Fenced()))
	assert.False(t, recreated(t, unaltered, Fenced(), Reentrant()))
	m := protocolMutant{before: "if not value then\n    return gone(record, 0)",
		after: "if not value then\n    redis.call('SET', record, 'gl1|m|' .. id .. '|' .. (agreed ~= '' and agreed or '0') .. '|' .. digits(ttl) .. '|again|', 'PX', ttl)\n    return 1"}
	assert.True(t, recreated(t, m.alter(t), Fenced()), "the test finds it out")
}
