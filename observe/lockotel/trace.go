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
	name func(string) string // nil if spans do not have the lock's name
}

// A call is what a tracer keeps in the context of a call that takes a lock. The span that the
// context itself has is not this tracer's where an observer after it has made one of its own.
type call struct {
	span   trace.Span
	caller trace.SpanContext // the lease's span will belong to it, too
}

// callKey is the key under which the context has the call; each tracer has a key of its own.
type callKey struct{ of *tracer }

func (t *tracer) attributes(i locker.LockInfo) []attribute.KeyValue {
	list := append(make([]attribute.KeyValue, 0, 8), redisSystem,
		modeKey.String(string(i.Mode)), fencedKey.Bool(i.Fenced), ttlKey.Float64(i.TTL.Seconds()))
	if t.name != nil {
		list = append(list, nameKey.String(strings.ToValidUTF8(t.name(i.Name), "\uFFFD")))
	}
	return list
}

func (t *tracer) lockStart(ctx context.Context, e locker.LockStart) context.Context {
	c := call{caller: trace.SpanContextFromContext(ctx)}
	ctx, c.span = t.Start(ctx, "golocker "+e.Op, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(append(t.attributes(e.LockInfo), opKey.String(e.Op))...))
	return context.WithValue(ctx, callKey{t}, c)
}

func (t *tracer) lockEnd(ctx context.Context, e locker.LockEnd) {
	c, ok := ctx.Value(callKey{t}).(call)
	if !ok {
		return // another observer has not derived its context from ours
	}
	defer c.span.End()
	outcome := e.Outcome()
	c.span.SetAttributes(outcomeKey.String(outcome))
	if e.Err == nil {
		c.span.SetAttributes(routeKey.String(string(e.Route)))
		return
	}
	if failed(e) {
		c.span.SetAttributes(errorKey.String(outcome))
		c.span.SetStatus(codes.Error, outcome)
	}
}

func (t *tracer) holdEnd(ctx context.Context, e locker.HoldEnd) {
	c, ok := ctx.Value(callKey{t}).(call)
	if !ok {
		return
	}
	end := time.Now().Add(-e.Release)
	outcome := e.Outcome()
	attributes := append(t.attributes(e.LockInfo), outcomeKey.String(outcome))
	if e.Token != 0 {
		attributes = append(attributes, tokenKey.String(e.Token.String()))
	}
	_, span := t.Start(trace.ContextWithSpanContext(context.WithoutCancel(ctx), c.caller), "golocker hold",
		trace.WithTimestamp(end.Add(-e.Held)), trace.WithAttributes(attributes...),
		trace.WithLinks(trace.Link{SpanContext: c.span.SpanContext()}))
	if e.Lost != nil && outcome != "closed" || outcome == "expired" {
		span.AddEvent("golocker.lost", trace.WithTimestamp(end), trace.WithAttributes(outcomeKey.String(outcome)))
		span.SetAttributes(errorKey.String(outcome))
		span.SetStatus(codes.Error, outcome)
	}
	span.End(trace.WithTimestamp(end))
}
