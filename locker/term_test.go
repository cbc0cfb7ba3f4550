package locker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// It is documented for how much less than the server's TTL a lease is believed in.
func TestHolderStopsAsLongBeforeTheServerAsIsDocumented(t *testing.T) {
	for ttl, before := range map[time.Duration]time.Duration{
		MinTTL:           (2 + 2 + 100) * time.Millisecond,
		2 * time.Second:  (20 + 2 + 100) * time.Millisecond,
		30 * time.Second: (300 + 2 + 1500) * time.Millisecond,
	} {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			assert.Equal(t, ttl-before, time.Until(must(t, f.client(t).Mutex("k", TTL(ttl))).Deadline()), "TTL %v", ttl)
		})
	}
}

// An answer may take so long that, were the lease to run from it, the server would let others
// in before its holder has stopped. The deadline runs from the sending, whatever was sent.
func TestTheDeadlineRunsFromTheSending(t *testing.T) {
	for name, opts := range map[string][]Option{
		"mutex":               nil,
		"fenced":              {Fenced()},
		"reentrant":           {Reentrant()},
		"reading":             {ForReading()},
		"writing":             {ForWriting()},
		"not renewed":         {NoRenewal()},
		"not renewed, fenced": {NoRenewal(), Fenced()},
		"not renewed, reads":  {NoRenewal(), ForReading()},
	} {
		play := func(t *testing.T, c *Client, server *fakeDeployment, late time.Duration) {
			const ttl = 10 * time.Second
			m := c.Mutex("k", append(opts, TTL(ttl), As(NewOwner()))...)
			sound := func(l *Lease, ttl time.Duration, what string) {
				t.Helper()
				assert.NoError(t, l.Err(), what)
				deadline, now := l.Deadline(), time.Now()
				left := server.pttl(t, "k") + time.Millisecond // it is rounded down
				assert.LessOrEqual(t, deadline.Sub(now)+margin(ttl), left, what)
				assert.Less(t, ttl-late, left, "%s: nothing was armed", what)
			}
			lease, err := m.TryLock(t.Context())
			require.NoError(t, err)
			sound(lease, ttl, "granted")

			time.Sleep(time.Second)
			require.NoError(t, lease.Extend(t.Context(), 2*ttl))
			sound(lease, 2*ttl, "extended")
			time.Sleep(ttl)
			require.NoError(t, lease.Extend(t.Context(), ttl))
			sound(lease, ttl, "extended by less than it had")

			if m.cfg.renew {
				before := lease.Deadline()
				for n := 0; n < 3; time.Sleep(time.Millisecond) {
					if lease.Deadline() != before {
						sound(lease, ttl-time.Millisecond, "renewed")
						before, n = lease.Deadline(), n+1
					}
				}
			}

			id, err := lease.Detach(t.Context(), ttl)
			require.NoError(t, err)
			taken, err := m.Attach(t.Context(), id)
			require.NoError(t, err)
			sound(taken, ttl, "attached")
			require.NoError(t, taken.Unlock(t.Context()))
		}
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				const late = 500 * time.Millisecond
				f.answersLate(late)
				play(t, f.client(t), f, late)
			})
		})
		t.Run("on a quorum, "+name, func(t *testing.T) {
			quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
				const late = 100 * time.Millisecond // else they are taken for dead
				nodes.established()
				c := nodes.client(t, QuorumConfig{})
				for _, f := range nodes {
					f.answersLate(late)
				}
				play(t, c, nodes[0], late)
			})
		})
	}
}

// Who asks the server for a re-entry, since too little is left, has the lease that it asked for.
func TestTheDeadlineOfAReentryRunsFromTheSending(t *testing.T) {
	const ttl, late = 10 * time.Second, 500 * time.Millisecond
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", Reentrant(), NoRenewal(), TTL(ttl))
		ctx := WithOwner(t.Context(), NewOwner())
		outer, err := m.Lock(ctx)
		require.NoError(t, err)
		time.Sleep(6 * time.Second)
		f.answersLate(late)
		inner, err := m.Lock(ctx)
		require.NoError(t, err)
		assert.Equal(t, ttl-late-margin(ttl), time.Until(inner.Deadline()))
		require.NoError(t, inner.Unlock(ctx))
		require.NoError(t, outer.Unlock(ctx))
	})
}
