package lockotel

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/golocker/golocker/locker"
)

type tracer struct {
	trace.Tracer
	name func(string) string // nil if spans do not have it
}

// callerKey is for the span of the caller of Lock, to which the lease's will belong, too.
type callerKey struct{}

func (t *tracer) attributes(i locker.LockInfo) []attribute.KeyValue {
	list := append(make([]attribute.KeyValue, 0, 8), redisSystem,
		modeKey.String(string(i.Mode)), fencedKey.Bool(i.Fenced), ttlKey.Float64(i.TTL.Seconds()))
	if t.name != nil {
		list = append(list, nameKey.String(strings.ToValidUTF8(t.name(i.Name), "\uFFFD")))
	}
	return list
}

func (t *tracer) lockStart(ctx context.Context, e locker.LockStart) context.Context {
	ctx = context.WithValue(ctx, callerKey{}, trace.SpanContextFromContext(ctx))
	ctx, _ = t.Start(ctx, "golocker "+e.Op, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(append(t.attributes(e.LockInfo), opKey.String(e.Op))...))
	return ctx
}

func (t *tracer) lockEnd(ctx context.Context, e locker.LockEnd) {
	span := trace.SpanFromContext(ctx)
	defer span.End()
	outcome := e.Outcome()
	span.SetAttributes(outcomeKey.String(outcome))
	if e.Err == nil {
		span.SetAttributes(routeKey.String(string(e.Route)))
		return
	}
	span.SetAttributes(errorKey.String(outcome))
	// That somebody else has the lock is an answer to TryLock, and the caller's own end
	// no fault of the lock.
	if (e.Op == "try" && outcome == "locked") || outcome == "canceled" {
		return
	}
	span.SetStatus(codes.Error, outcome)
}

func (t *tracer) holdEnd(ctx context.Context, e locker.HoldEnd) {
	end := time.Now().Add(-e.Release)
	caller, _ := ctx.Value(callerKey{}).(trace.SpanContext)
	outcome := e.Outcome()
	attributes := append(t.attributes(e.LockInfo), outcomeKey.String(outcome))
	if e.Token != 0 {
		attributes = append(attributes, tokenKey.String(e.Token.String()))
	}
	_, span := t.Start(trace.ContextWithSpanContext(context.WithoutCancel(ctx), caller), "golocker hold",
		trace.WithTimestamp(end.Add(-e.Held)), trace.WithAttributes(attributes...),
		trace.WithLinks(trace.Link{SpanContext: trace.SpanContextFromContext(ctx)}))
	if e.Lost != nil && outcome != "closed" || outcome == "expired" {
		span.AddEvent("golocker.lost", trace.WithTimestamp(end), trace.WithAttributes(outcomeKey.String(outcome)))
		span.SetAttributes(errorKey.String(outcome))
		span.SetStatus(codes.Error, outcome)
	}
	span.End(trace.WithTimestamp(end))
}
