package lockotel_test

import (
	"context"
	"errors"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/golocker/golocker/drivers/goredis"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/observe/lockotel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A rig is a client whose spans and metrics are kept in memory.
type rig struct {
	*miniredis.Miniredis
	client *locker.Client
	tracer trace.Tracer
	spans  *tracetest.InMemoryExporter
	reader *sdkmetric.ManualReader
}

func newRig(t *testing.T, opts ...lockotel.Option) *rig {
	t.Helper()
	server := miniredis.NewMiniRedis() // no Start: it listens nowhere
	t.Cleanup(server.Close)
	r := &rig{Miniredis: server, spans: tracetest.NewInMemoryExporter(), reader: sdkmetric.NewManualReader()}
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(r.spans))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(r.reader))
	r.tracer = tracers.Tracer("test")
	observer, err := lockotel.New(append(opts, lockotel.WithTracerProvider(tracers), lockotel.WithMeterProvider(meters))...)
	require.NoError(t, err)
	rdb := redis.NewClient(&redis.Options{
		Addr:   "127.0.0.1:6379", // not looked up
		Dialer: func(context.Context, string, string) (net.Conn, error) { return server.Dial() },
	})
	r.client, err = locker.New(goredis.Wrap(rdb), locker.Observe(observer))
	require.NoError(t, err)
	t.Cleanup(func() { r.client.Close(); rdb.Close() })
	return r
}

// bubble runs f where time passes as soon as everybody waits for it.
func bubble(t *testing.T, f func(t *testing.T)) {
	runtime.GC() // go-redis keeps timers in a sync.Pool, and those of one
	runtime.GC() // bubble cannot be used in another; this empties the pool
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(2 * time.Second) }) // go-redis' goroutines end
		f(t)
	})
}

// span returns the only span of that name.
func (r *rig) span(t *testing.T, name string) tracetest.SpanStub {
	t.Helper()
	var found []tracetest.SpanStub
	for _, s := range r.spans.GetSpans() {
		if s.Name == name {
			found = append(found, s)
		}
	}
	require.Len(t, found, 1, name)
	return found[0]
}

func attributes(list []attribute.KeyValue) map[string]any {
	m := map[string]any{}
	for _, a := range list {
		m[string(a.Key)] = a.Value.AsInterface()
	}
	return m
}

// metrics returns the sums, and of histograms the counts, by name and attribute set.
func (r *rig) metrics(t *testing.T) map[string]map[attribute.Distinct]float64 {
	t.Helper()
	var data metricdata.ResourceMetrics
	require.NoError(t, r.reader.Collect(t.Context(), &data))
	all := map[string]map[attribute.Distinct]float64{}
	for _, scope := range data.ScopeMetrics {
		assert.Equal(t, "github.com/golocker/golocker/observe/lockotel", scope.Scope.Name)
		for _, m := range scope.Metrics {
			points := map[attribute.Distinct]float64{}
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					points[p.Attributes.Equivalent()] = float64(p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					points[p.Attributes.Equivalent()] = float64(p.Count)
				}
			}
			all[m.Name] = points
		}
	}
	return all
}

func set(pairs ...string) attribute.Distinct {
	list := []attribute.KeyValue{attribute.String("db.system.name", "redis")}
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, attribute.String(pairs[i], pairs[i+1]))
	}
	s := attribute.NewSet(list...)
	return s.Equivalent()
}

func TestSpansOfALock(t *testing.T) {
	r := newRig(t)
	ctx, caller := r.tracer.Start(t.Context(), "caller")
	lease, err := r.client.Mutex("orders:42", locker.Fenced(), locker.TTL(10*time.Second)).Lock(ctx)
	require.NoError(t, err)
	before := time.Now()
	require.NoError(t, lease.Unlock(ctx))
	caller.End()

	lock, hold := r.span(t, "golocker lock"), r.span(t, "golocker hold")
	assert.Equal(t, caller.SpanContext().SpanID(), lock.Parent.SpanID())
	assert.Equal(t, trace.SpanKindClient, lock.SpanKind)
	assert.Equal(t, map[string]any{
		"db.system.name": "redis", "golocker.op": "lock", "golocker.lock.mode": "exclusive", "golocker.lock.fenced": true,
		"golocker.lock.ttl": 10.0, "golocker.outcome": "acquired", "golocker.route": "direct",
	}, attributes(lock.Attributes))
	assert.Equal(t, codes.Unset, lock.Status.Code)

	assert.Equal(t, caller.SpanContext().SpanID(), hold.Parent.SpanID())
	assert.Equal(t, trace.SpanKindInternal, hold.SpanKind)
	require.Len(t, hold.Links, 1)
	assert.Equal(t, lock.SpanContext.SpanID(), hold.Links[0].SpanContext.SpanID())
	assert.Equal(t, map[string]any{
		"db.system.name": "redis", "golocker.lock.mode": "exclusive", "golocker.lock.fenced": true, "golocker.lock.ttl": 10.0,
		"golocker.outcome": "released", "golocker.lock.token": lease.Token().String(),
	}, attributes(hold.Attributes))
	assert.Empty(t, hold.Events)
	assert.False(t, hold.EndTime.Before(before))
	assert.False(t, hold.EndTime.Before(hold.StartTime))
	assert.Less(t, hold.StartTime.Sub(lock.EndTime).Abs(), time.Second)
}

func TestALossIsAnErrorInTheSpan(t *testing.T) {
	r := newRig(t)
	lease, err := r.client.Mutex("k", locker.TTL(3*time.Second)).Lock(t.Context())
	require.NoError(t, err)
	r.Set("k", "somebody else's")
	<-lease.Context().Done()
	require.NoError(t, r.client.Close())
	hold := r.span(t, "golocker hold")
	assert.Equal(t, codes.Error, hold.Status.Code)
	assert.Equal(t, "lost_taken", attributes(hold.Attributes)["error.type"])
	require.Len(t, hold.Events, 1)
	assert.Equal(t, "golocker.lost", hold.Events[0].Name)
	m := r.metrics(t)
	assert.Equal(t, 1.0, m["golocker.lock.lost"][set("golocker.lock.mode", "exclusive", "golocker.outcome", "lost_taken")])
	assert.Equal(t, 1.0, m["golocker.renewal.duration"][set("golocker.lock.mode", "exclusive", "error.type", "not_held")])
}

// A loss that nothing but Unlock has told of counts as well.
func TestALossFoundByUnlockIsCounted(t *testing.T) {
	r := newRig(t)
	lease, err := r.client.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	r.Del("k")
	require.ErrorIs(t, lease.Unlock(t.Context()), locker.ErrAbsent)
	m := r.metrics(t)
	assert.Equal(t, 1.0, m["golocker.lock.lost"][set("golocker.lock.mode", "exclusive", "golocker.outcome", "expired")])
	assert.Empty(t, m["golocker.lock.hold.left"])
	hold := r.span(t, "golocker hold")
	assert.Equal(t, codes.Error, hold.Status.Code)
	assert.Equal(t, "expired", attributes(hold.Attributes)["error.type"])
	require.Len(t, hold.Events, 1)
	assert.Equal(t, "golocker.lost", hold.Events[0].Name)
}

// A program that ends closes its client, and nothing is wrong with its locks.
func TestALeaseThatEndsWithItsClientIsNoLoss(t *testing.T) {
	r := newRig(t)
	_, err := r.client.Mutex("k", locker.TTL(10*time.Second)).Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, r.client.Close())
	hold := r.span(t, "golocker hold")
	assert.Equal(t, codes.Unset, hold.Status.Code)
	assert.Empty(t, hold.Events)
	assert.Equal(t, map[string]any{
		"db.system.name": "redis", "golocker.lock.mode": "exclusive", "golocker.lock.fenced": false, "golocker.lock.ttl": 10.0,
		"golocker.outcome": "closed",
	}, attributes(hold.Attributes))
	m := r.metrics(t)
	assert.Equal(t, 1.0, m["golocker.lock.hold"][set("golocker.lock.mode", "exclusive", "golocker.outcome", "closed")])
	assert.Empty(t, m["golocker.lock.lost"])
	assert.Empty(t, m["golocker.lock.hold.left"], "which is what Unlock finds")
}

// lockSoon is a call that has little time, though enough for an answer in a bubble.
func lockSoon(ctx context.Context, m *locker.Mutex) error {
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	_, err := m.Lock(ctx)
	return err
}

// What is no error has no error.type either, by which backends count errors. That others have the
// lock is none, whether the call has waited or not.
func TestSpansAndMetricsOfWhatFails(t *testing.T) {
	for _, c := range []struct {
		op, outcome string
		status      codes.Code
		take        func(ctx context.Context, m *locker.Mutex) error
	}{
		{"golocker try", "locked", codes.Unset, func(ctx context.Context, m *locker.Mutex) error {
			_, err := m.TryLock(ctx)
			return err
		}},
		{"golocker lock", "timeout", codes.Unset, lockSoon},
		{"golocker lock", "unavailable", codes.Error, lockSoon},
		{"golocker lock", "canceled", codes.Unset, func(ctx context.Context, m *locker.Mutex) error {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			_, err := m.Lock(ctx)
			return err
		}},
		{"golocker attach", "absent", codes.Error, func(ctx context.Context, m *locker.Mutex) error {
			_, err := m.Attach(ctx, "00000000000000000000000000000000")
			return err
		}},
	} {
		t.Run(c.outcome, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				switch c.outcome {
				case "absent":
				case "unavailable":
					r.SetError("LOADING Redis is loading the dataset in memory")
				default:
					r.Set("k", "somebody's")
					r.SetTTL("k", time.Minute)
				}
				require.Error(t, c.take(t.Context(), r.client.Mutex("k")))
				span := r.span(t, c.op)
				assert.Equal(t, c.status, span.Status.Code)
				assert.Equal(t, c.outcome, attributes(span.Attributes)["golocker.outcome"])
				_, op, _ := strings.Cut(c.op, " ")
				point := []string{"golocker.lock.mode", "exclusive", "golocker.op", op, "golocker.outcome", c.outcome}
				if c.status == codes.Error {
					assert.Equal(t, c.outcome, attributes(span.Attributes)["error.type"])
					point = append(point, "error.type", c.outcome)
				} else {
					assert.NotContains(t, attributes(span.Attributes), "error.type", "no error")
				}
				assert.Equal(t, map[attribute.Distinct]float64{set(point...): 1}, r.metrics(t)["golocker.lock.wait"])
			})
		})
	}
}

func TestMetricsOfARealRun(t *testing.T) {
	r := newRig(t)
	m := r.client.Mutex("k", locker.TTL(10*time.Second))
	lease, err := m.Lock(t.Context())
	require.NoError(t, err)
	_, err = m.TryLock(t.Context())
	require.ErrorIs(t, err, locker.ErrLocked)
	mode := set("golocker.lock.mode", "exclusive")
	assert.Equal(t, 1.0, r.metrics(t)["golocker.lock.held"][mode])
	require.NoError(t, lease.Unlock(t.Context()))
	got := r.metrics(t)
	assert.Equal(t, map[string]map[attribute.Distinct]float64{
		"golocker.lock.wait": {
			set("golocker.lock.mode", "exclusive", "golocker.op", "lock", "golocker.outcome", "acquired", "golocker.route", "direct"): 1,
			set("golocker.lock.mode", "exclusive", "golocker.op", "try", "golocker.outcome", "locked"):                                1,
		},
		"golocker.lock.waiting":   {mode: 0},
		"golocker.lock.held":      {mode: 0},
		"golocker.lock.hold":      {set("golocker.lock.mode", "exclusive", "golocker.outcome", "released"): 1},
		"golocker.lock.hold.left": {mode: 1},
	}, got)
}

// Events that a healthy server gives no occasion for.
func TestMetricsOfTroubles(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	r := &rig{reader: reader}
	o, err := lockotel.New(lockotel.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))))
	require.NoError(t, err)
	info := locker.LockInfo{Name: "k", Mode: locker.Writing, TTL: time.Second}
	o.Renewal(locker.Renewal{LockInfo: info, Late: time.Second, Left: -time.Second, Err: context.DeadlineExceeded})
	o.Healed(locker.Healed{Name: "k"})
	o.Subscription(locker.Subscription{Node: 2, Listening: true, Gap: true})
	o.Subscription(locker.Subscription{Node: 2, Listening: true})
	o.Warning(locker.Warning{Node: 1, Kind: "eviction"})
	m := r.metrics(t)
	assert.Equal(t, 1.0, m["golocker.renewal.duration"][set("golocker.lock.mode", "writing", "error.type", "failed")])
	for _, name := range []string{"golocker.lock.healed", "golocker.subscription.gaps", "golocker.warnings"} {
		require.Len(t, m[name], 1, name)
		for _, n := range m[name] {
			assert.Equal(t, 1.0, n, name)
		}
	}
}

// A renewal that fails or is refused soon leaves much of a lease that is about to be lost.
func TestTheMarginIsThatOfRenewalsThatSucceed(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	r := &rig{reader: reader}
	o, err := lockotel.New(lockotel.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))))
	require.NoError(t, err)
	info := locker.LockInfo{Name: "k", Mode: locker.Exclusive, TTL: 10 * time.Second}
	for _, err := range []error{nil, locker.ErrNotHeld, context.DeadlineExceeded} {
		o.Renewal(locker.Renewal{LockInfo: info, Left: 6 * time.Second, Err: err})
	}
	mode := set("golocker.lock.mode", "exclusive")
	m := r.metrics(t)
	assert.Equal(t, 1.0, m["golocker.renewal.left"][mode])
	assert.Equal(t, 3.0, m["golocker.renewal.late"][mode])
	assert.Equal(t, 1.0, m["golocker.renewal.duration"][mode], "what succeeds has no error.type")
}

// Unlock may come after the end of the lease, and a lease may have been made longer than it was at first.
func TestSharesAreFromNothingToAll(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	o, err := lockotel.New(lockotel.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))))
	require.NoError(t, err)
	info := locker.LockInfo{Name: "k", Mode: locker.Exclusive, TTL: 10 * time.Second}
	for _, left := range []time.Duration{-time.Second, 5 * time.Second, time.Minute} {
		o.Renewal(locker.Renewal{LockInfo: info, Left: left})
		o.HoldEnd(t.Context(), locker.HoldEnd{LockInfo: info, Left: left})
	}
	var data metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &data))
	sums := map[string]float64{}
	for _, m := range data.ScopeMetrics[0].Metrics {
		if d, ok := m.Data.(metricdata.Histogram[float64]); ok {
			sums[m.Name] = d.DataPoints[0].Sum
		}
	}
	assert.Equal(t, 0+0.5+1, sums["golocker.renewal.left"])
	assert.Equal(t, 0+0.5+1, sums["golocker.lock.hold.left"])
}

func TestNamesAreGivenOnRequestOnly(t *testing.T) {
	for _, on := range []bool{false, true} {
		var opts []lockotel.Option
		if on {
			label := func(name string) string { return "<" + name + ">" }
			opts = []lockotel.Option{lockotel.WithSpanNames(label), lockotel.WithMetricNames(label)}
		}
		r := newRig(t, opts...)
		lease, err := r.client.Mutex("secret\xff").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
		for _, span := range r.spans.GetSpans() {
			name, ok := attributes(span.Attributes)["golocker.lock.name"]
			assert.Equal(t, on, ok)
			if on {
				assert.Equal(t, "<secret\uFFFD>", name)
			}
		}
		mode := set("golocker.lock.mode", "exclusive")
		if on {
			mode = set("golocker.lock.mode", "exclusive", "golocker.lock.name", "<secret\uFFFD>")
		}
		assert.Contains(t, r.metrics(t)["golocker.lock.held"], mode)
	}
}

func TestAMeterProviderMayFail(t *testing.T) {
	for _, instrument := range []string{"golocker.lock.wait", "golocker.lock.held", "golocker.lock.lost"} {
		_, err := lockotel.New(lockotel.WithMeterProvider(failing{of: instrument}))
		assert.ErrorIs(t, err, errNoMeter, instrument)
	}
}

// What is nil is found by New, and neither by the first lock nor by a panic.
func TestNilIsInvalid(t *testing.T) {
	for says, opt := range map[string]lockotel.Option{
		"a nil Option":            nil,
		"WithTracerProvider(nil)": lockotel.WithTracerProvider(nil),
		"WithMeterProvider(nil)":  lockotel.WithMeterProvider(nil),
		"WithSpanNames(nil)":      lockotel.WithSpanNames(nil),
		"WithMetricNames(nil)":    lockotel.WithMetricNames(nil),
	} {
		_, err := lockotel.New(opt)
		require.ErrorIs(t, err, locker.ErrInvalid)
		assert.ErrorContains(t, err, "lockotel: "+says+"; leave it out")
	}
	_, err := lockotel.New(nil, lockotel.WithSpanNames(nil))
	assert.ErrorContains(t, err, "a nil Option", "the first is told")
}

var errNoMeter = errors.New("no meter")

// A failing provider has meters that do not make one of their instruments.
type failing struct {
	noop.MeterProvider
	of string
}

func (f failing) Meter(string, ...metric.MeterOption) metric.Meter { return failingMeter{of: f.of} }

type failingMeter struct {
	noop.Meter
	of string
}

func (m failingMeter) fails(name string) error {
	if name == m.of {
		return errNoMeter
	}
	return nil
}

func (m failingMeter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return noop.Float64Histogram{}, m.fails(name)
}

func (m failingMeter) Int64UpDownCounter(name string, _ ...metric.Int64UpDownCounterOption) (metric.Int64UpDownCounter, error) {
	return noop.Int64UpDownCounter{}, m.fails(name)
}

func (m failingMeter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return noop.Int64Counter{}, m.fails(name)
}
