package lockprom_test

import (
	"context"
	"fmt"
	"math"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golocker/golocker/drivers/goredis"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/observe/lockprom"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// exposed is what a scrape reads.
type exposed map[string]*dto.MetricFamily

func scrape(t *testing.T, m *lockprom.Metrics) exposed {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(m))
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(w.Body)
	require.NoError(t, err)
	return families
}

// value is that of the metric with these labels, "name=value", or the count of a
// histogram; NaN if there is none.
func (e exposed) value(name string, labels ...string) float64 {
	for _, m := range e[name].GetMetric() {
		var have []string
		for _, l := range m.GetLabel() {
			have = append(have, l.GetName()+"="+l.GetValue())
		}
		if strings.Join(have, " ") != strings.Join(labels, " ") {
			continue
		}
		switch {
		case m.Histogram != nil:
			return float64(m.Histogram.GetSampleCount())
		case m.Counter != nil:
			return m.Counter.GetValue()
		}
		return m.Gauge.GetValue()
	}
	return math.NaN()
}

func newClient(t *testing.T, server *miniredis.Miniredis, opts ...locker.ClientOption) *locker.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	client, err := locker.New(goredis.Wrap(rdb), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { client.Close(); rdb.Close() })
	return client
}

func TestScrapeOfARealRun(t *testing.T) {
	server := miniredis.RunT(t)
	m := lockprom.New()
	client := newClient(t, server, locker.Observe(m.Observer()))
	lease, err := client.Mutex("a", locker.TTL(3*time.Second)).Lock(t.Context())
	require.NoError(t, err)
	_, err = client.Mutex("a").TryLock(t.Context())
	require.ErrorIs(t, err, locker.ErrLocked)
	reader, err := client.Mutex("b", locker.ForReading()).Lock(t.Context())
	require.NoError(t, err)
	passed := make(chan error)
	go func() {
		next, err := client.Mutex("a", locker.TTL(3*time.Second)).Lock(t.Context())
		if err == nil {
			err = next.Unlock(t.Context())
		}
		passed <- err
	}()
	require.Eventually(t, func() bool {
		e := scrape(t, m)
		return e.value("golocker_waiting", "mode=exclusive") == 1 && e.value("golocker_renewals_total", "mode=exclusive", "result=ok") > 0
	}, time.Minute, time.Millisecond)
	e := scrape(t, m)
	assert.Equal(t, 1.0, e.value("golocker_held", "mode=exclusive"))
	assert.Equal(t, 1.0, e.value("golocker_held", "mode=reading"))
	require.NoError(t, lease.Unlock(t.Context()))
	require.NoError(t, <-passed)
	server.Del("b")
	require.ErrorIs(t, reader.Unlock(t.Context()), locker.ErrAbsent)

	lost, err := client.Mutex("c", locker.TTL(3*time.Second)).Lock(t.Context())
	require.NoError(t, err)
	server.Set("c", "somebody else's")
	<-lost.Context().Done()
	require.NoError(t, client.Close())

	e = scrape(t, m)
	assert.Equal(t, 3.0, e.value("golocker_wait_seconds", "mode=exclusive", "outcome=acquired"))
	assert.Equal(t, 1.0, e.value("golocker_wait_seconds", "mode=exclusive", "outcome=locked"))
	assert.Equal(t, 2.0, e.value("golocker_acquisitions_total", "mode=exclusive", "route=direct"))
	contended := e.value("golocker_acquisitions_total", "mode=exclusive", "route=handed_on")
	if math.IsNaN(contended) {
		contended = e.value("golocker_acquisitions_total", "mode=exclusive", "route=queued")
	}
	assert.Equal(t, 1.0, contended)
	assert.Equal(t, 0.0, e.value("golocker_waiting", "mode=exclusive"))
	assert.Equal(t, 0.0, e.value("golocker_held", "mode=exclusive"))
	assert.Equal(t, 0.0, e.value("golocker_held", "mode=reading"))
	assert.Equal(t, 1.0, e.value("golocker_hold_seconds", "mode=reading", "outcome=expired"))
	assert.Equal(t, 1.0, e.value("golocker_lost_total", "cause=lost_taken", "mode=exclusive"))
	assert.Equal(t, 1.0, e.value("golocker_lost_total", "cause=expired", "mode=reading"), "Unlock has found it")
	assert.True(t, math.IsNaN(e.value("golocker_hold_left_ratio", "mode=reading")), "nothing was left")
	assert.Equal(t, 1.0, e.value("golocker_renewals_total", "mode=exclusive", "result=not_held"))
	assert.Equal(t, 2.0, e.value("golocker_hold_left_ratio", "mode=exclusive"))
	assert.Positive(t, e.value("golocker_renewal_seconds", "mode=exclusive"))
	for name, family := range e {
		assert.True(t, strings.HasPrefix(name, "golocker_"), name)
		for _, metric := range family.GetMetric() {
			for _, l := range metric.GetLabel() {
				assert.NotEqual(t, "lock", l.GetName(), "names are off by default")
			}
		}
	}
}

// Events that a healthy server gives no occasion for.
func TestEventsOfTroubles(t *testing.T) {
	m := lockprom.New()
	o := m.Observer()
	info := locker.LockInfo{Name: "k", Mode: locker.Writing, TTL: time.Second}
	o.Renewal(locker.Renewal{LockInfo: info, Late: time.Second, Left: -time.Second, Err: context.DeadlineExceeded})
	o.HoldEnd(t.Context(), locker.HoldEnd{LockInfo: info, Lost: &locker.LostError{Reason: locker.ErrClosed}})
	o.Healed(locker.Healed{Name: "k"})
	o.Subscription(locker.Subscription{Node: 2, Listening: true})
	o.Subscription(locker.Subscription{Node: 2, Listening: true, Gap: true})
	o.Subscription(locker.Subscription{Node: 1})
	o.Warning(locker.Warning{Kind: "eviction"})
	e := scrape(t, m)
	assert.Equal(t, 1.0, e.value("golocker_renewals_total", "mode=writing", "result=failed"))
	assert.Equal(t, 1.0, e.value("golocker_hold_seconds", "mode=writing", "outcome=closed"))
	assert.True(t, math.IsNaN(e.value("golocker_hold_left_ratio", "mode=writing")), "which is what Unlock finds")
	for _, lost := range e["golocker_lost_total"].GetMetric() {
		assert.Zero(t, lost.GetCounter().GetValue(), "Close is no loss")
	}
	assert.Equal(t, 1.0, e.value("golocker_healed_total"))
	assert.Equal(t, 1.0, e.value("golocker_subscription_up", "node=2"))
	assert.Equal(t, 0.0, e.value("golocker_subscription_up", "node=1"))
	assert.Equal(t, 1.0, e.value("golocker_subscription_gaps_total", "node=2"))
	assert.Equal(t, 0.0, e.value("golocker_subscription_gaps_total", "node=1"))
	assert.Equal(t, 1.0, e.value("golocker_warning", "kind=eviction", "node=0"))
}

// A renewal that fails or is refused soon leaves much of a lease that is about to be lost.
func TestTheMarginIsThatOfRenewalsThatSucceed(t *testing.T) {
	m := lockprom.New()
	info := locker.LockInfo{Name: "k", Mode: locker.Exclusive, TTL: 10 * time.Second}
	for _, err := range []error{nil, locker.ErrNotHeld, context.DeadlineExceeded} {
		m.Observer().Renewal(locker.Renewal{LockInfo: info, Left: 6 * time.Second, Err: err})
	}
	e := scrape(t, m)
	assert.Equal(t, 1.0, e.value("golocker_renewal_left_ratio", "mode=exclusive"))
	assert.Equal(t, 3.0, e.value("golocker_renewal_seconds", "mode=exclusive"))
	assert.Equal(t, 3.0, e.value("golocker_renewal_late_seconds", "mode=exclusive"))
}

// Unlock may come after the end of the lease, and a lease may have been made longer than it was at first.
func TestSharesAreFromNothingToAll(t *testing.T) {
	m := lockprom.New()
	info := locker.LockInfo{Name: "k", Mode: locker.Exclusive, TTL: 10 * time.Second}
	for _, left := range []time.Duration{-time.Second, 5 * time.Second, time.Minute} {
		m.Observer().Renewal(locker.Renewal{LockInfo: info, Left: left})
		m.Observer().HoldEnd(t.Context(), locker.HoldEnd{LockInfo: info, Left: left})
	}
	e := scrape(t, m)
	for _, name := range []string{"golocker_renewal_left_ratio", "golocker_hold_left_ratio"} {
		require.Len(t, e[name].GetMetric(), 1, name)
		assert.Equal(t, 0+0.5+1, e[name].GetMetric()[0].Histogram.GetSampleSum(), name)
	}
}

// What is registered twice would be one client's metrics under the names of both.
func TestSeveralClientsAreToldApartByALabel(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(lockprom.New()))
	assert.ErrorAs(t, registry.Register(lockprom.New()), &prometheus.AlreadyRegisteredError{})
	other := prometheus.WrapRegistererWith(prometheus.Labels{"client": "other"}, prometheus.NewPedanticRegistry())
	assert.NoError(t, other.Register(lockprom.New()))
}

// An increase can only be seen from a value that was there before.
func TestRareEventsAreCountedFromZero(t *testing.T) {
	e := scrape(t, lockprom.New())
	for _, mode := range []string{"exclusive", "writing", "reading"} {
		for _, cause := range []string{"lost_deadline", "lost_taken", "lost_absent", "expired", "max_hold"} {
			assert.Equal(t, 0.0, e.value("golocker_lost_total", "cause="+cause, "mode="+mode))
		}
		for _, result := range []string{"ok", "failed", "not_held"} {
			assert.Equal(t, 0.0, e.value("golocker_renewals_total", "mode="+mode, "result="+result))
		}
	}
	assert.Equal(t, 0.0, e.value("golocker_healed_total"))
}

// Which names there are is known from the first call on.
func TestRareEventsOfANameAreCountedFromZero(t *testing.T) {
	m := lockprom.New(lockprom.Names(func(name string) string { return name }))
	assert.Empty(t, scrape(t, m)["golocker_lost_total"].GetMetric())
	m.Observer().LockStart(t.Context(), locker.LockStart{LockInfo: locker.LockInfo{Name: "k", Mode: locker.Reading}})
	e := scrape(t, m)
	assert.Equal(t, 0.0, e.value("golocker_lost_total", "cause=lost_deadline", "lock=k", "mode=reading"))
	assert.Equal(t, 0.0, e.value("golocker_renewals_total", "lock=k", "mode=reading", "result=failed"))
}

func TestMetricsAreWellFormed(t *testing.T) {
	m := lockprom.New(lockprom.Names(func(name string) string { return name }))
	o := m.Observer()
	info := locker.LockInfo{Name: "k\xff\n\"", Mode: locker.Exclusive, TTL: time.Second}
	o.LockEnd(o.LockStart(t.Context(), locker.LockStart{LockInfo: info}), locker.LockEnd{LockInfo: info, Route: locker.Direct})
	problems, err := testutil.CollectAndLint(m)
	require.NoError(t, err)
	assert.Empty(t, problems)
	assert.Equal(t, 1.0, scrape(t, m).value("golocker_held", "lock=k\uFFFD\n\"", "mode=exclusive"))
}

// A mistake is found when the program begins, and not by its first lock.
func TestNilIsFoundByNew(t *testing.T) {
	assert.PanicsWithValue(t, "lockprom: New with a nil Option; leave it out", func() { lockprom.New(nil) })
	assert.PanicsWithValue(t, "lockprom: New with Names(nil); leave it out for no names, or give it a function that returns a label", func() { lockprom.New(lockprom.Names(nil)) })
}

func TestTheLabelHasFewValues(t *testing.T) {
	m := lockprom.New(lockprom.Names(func(name string) string { return name }))
	o := m.Observer()
	const n = 10 * lockprom.MaxNames
	for i := range n {
		info := locker.LockInfo{Name: fmt.Sprint(i), Mode: locker.Exclusive}
		o.LockEnd(o.LockStart(t.Context(), locker.LockStart{LockInfo: info}), locker.LockEnd{LockInfo: info, Route: locker.Direct})
	}
	e := scrape(t, m)
	assert.Len(t, e["golocker_held"].GetMetric(), lockprom.MaxNames)
	assert.Equal(t, float64(n-lockprom.MaxNames+1), e.value("golocker_held", "lock="+lockprom.OtherNames, "mode=exclusive"))
	assert.Equal(t, 1.0, e.value("golocker_held", "lock=0", "mode=exclusive"))
}
