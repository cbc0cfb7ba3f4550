package lockotel_test

import (
	"context"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/golocker/golocker/drivers/goredis"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/observe/lockotel"
)

// traced returns an observer whose spans are kept in memory, and the tracer of its provider.
func traced(t *testing.T) (locker.Observer, trace.Tracer, *tracetest.InMemoryExporter) {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	observer, err := lockotel.New(lockotel.WithTracerProvider(tracers))
	require.NoError(t, err)
	return observer, tracers.Tracer("test"), spans
}

// lockOnce has the observers see a lock and its release.
func lockOnce(ctx context.Context, t *testing.T, observers ...locker.Observer) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	defer rdb.Close()
	var opts []locker.ClientOption
	for _, o := range observers {
		opts = append(opts, locker.Observe(o))
	}
	client, err := locker.New(goredis.Wrap(rdb), opts...)
	require.NoError(t, err)
	defer client.Close()
	lease, err := client.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(ctx))
}

func byName(spans *tracetest.InMemoryExporter) map[string]tracetest.SpanStub {
	all := map[string]tracetest.SpanStub{}
	for _, s := range spans.GetSpans() {
		all[s.Name] = s
	}
	return all
}

func TestTwoTracersEndTheirOwnSpans(t *testing.T) {
	first, tracer, firstSpans := traced(t)
	second, _, secondSpans := traced(t)
	ctx, caller := tracer.Start(t.Context(), "caller")
	lockOnce(ctx, t, first, second)
	require.Len(t, firstSpans.GetSpans(), 2)
	require.Len(t, secondSpans.GetSpans(), 2)
	outer, inner := byName(firstSpans), byName(secondSpans)
	for _, c := range []struct {
		spans  map[string]tracetest.SpanStub
		parent trace.SpanID
	}{
		{outer, caller.SpanContext().SpanID()},
		{inner, outer["golocker lock"].SpanContext.SpanID()},
	} {
		lock, hold := c.spans["golocker lock"], c.spans["golocker hold"]
		assert.Equal(t, c.parent, lock.Parent.SpanID())
		assert.Equal(t, c.parent, hold.Parent.SpanID(), "beside the other")
		assert.Equal(t, "direct", attributes(lock.Attributes)["golocker.route"])
		require.Len(t, hold.Links, 1)
		assert.Equal(t, lock.SpanContext.SpanID(), hold.Links[0].SpanContext.SpanID())
	}
}

// The other one leaves its span in the context of the call and ends it by itself.
func TestTheSpanOfAnotherObserverIsLeftAlone(t *testing.T) {
	var foreign trace.Span
	observer, tracer, spans := traced(t)
	other := locker.Observer{LockStart: func(ctx context.Context, _ locker.LockStart) context.Context {
		ctx, foreign = tracer.Start(ctx, "foreign")
		return ctx
	}}
	lockOnce(t.Context(), t, observer, other)
	got := byName(spans)
	assert.NotContains(t, got, "foreign", "ended by somebody else")
	require.Contains(t, got, "golocker lock")
	hold := got["golocker hold"]
	assert.False(t, hold.Parent.IsValid())
	require.Len(t, hold.Links, 1)
	assert.Equal(t, got["golocker lock"].SpanContext.SpanID(), hold.Links[0].SpanContext.SpanID())

	foreign.End()
	assert.Empty(t, byName(spans)["foreign"].Attributes)
}

// One that drops the context that it was given, against its contract, costs spans and no more.
func TestAnObserverThatDropsTheContextCostsSpans(t *testing.T) {
	observer, _, spans := traced(t)
	lockOnce(t.Context(), t, observer, locker.Observer{
		LockStart: func(context.Context, locker.LockStart) context.Context { return context.Background() },
	})
	assert.Empty(t, spans.GetSpans())
}
