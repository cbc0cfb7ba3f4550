// Package lockotel makes OpenTelemetry traces and metrics of what happens to the locks of a
// locker.Client.
//
//	observer, err := lockotel.New()
//	client, err := locker.Open("goredis", dsn, locker.Observe(observer))
//
// It uses the global providers unless [WithTracerProvider] and [WithMeterProvider] say
// otherwise.
//
// # Spans
//
// A call that takes a lock has a span of kind client with the name "golocker lock", or
// "golocker try", "attach", "upgrade", "downgrade". It lasts as long as the call waits, and the
// spans of an instrumented Redis client are its children. A lease has a span "golocker hold" of
// kind internal from its begin to its end, made at its end: a sibling of the first span, to
// which it has a link. A loss is an event "golocker.lost" in the span of the lease, and the
// status of that span is an error. Where another observer of the client, given before this one,
// has a span of its own in the context, both are children of that.
//
// # Metrics
//
//	golocker.lock.wait          histogram      s        calls that take a lock
//	golocker.lock.waiting       updowncounter  {call}   of them in progress
//	golocker.lock.hold          histogram      s        leases
//	golocker.lock.held          updowncounter  {lease}  of them at present
//	golocker.lock.hold.left     histogram      1        share of the TTL that was left when a lock was given up
//	golocker.lock.lost          counter        {lease}  leases that were lost
//	golocker.renewal.duration   histogram      s        how long the answer took
//	golocker.renewal.late       histogram      s        how late the request was made
//	golocker.renewal.left       histogram      1        share of the TTL that was left when a renewal succeeded
//	golocker.lock.healed        counter        {record} records that had lost their TTL
//	golocker.subscription.gaps  counter        {gap}    times when messages may have been missed
//	golocker.warnings           counter        {warning} servers that are set up so that locks are in danger
//
// # Attributes
//
// As for a database: db.system.name is "redis", and error.type the outcome of what failed. A
// call that others have kept from the lock has not failed, whether it is a TryLock ("locked")
// or a call whose time ran out while it waited ("timeout"), nor has a call whose context was
// canceled. In an outage both are "unavailable", which is a failure. golocker.lock.mode is
// "exclusive", "writing" or "reading"; golocker.outcome is the value of LockEnd.Outcome or
// HoldEnd.Outcome of package locker, golocker.route its Route, golocker.op the call. Spans also
// have golocker.lock.ttl (s), golocker.lock.fenced and golocker.lock.token. Counters of servers
// have golocker.node, which counts those of a quorum from 0, and golocker.warning.kind. The
// name of a lock is golocker.lock.name, and off by default; see [WithSpanNames] and
// [WithMetricNames].
package lockotel

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/golocker/golocker/locker"
)

// scope is the name under which spans and metrics are made.
const scope = "github.com/golocker/golocker/observe/lockotel"

// An Option is a setting of [New].
type Option func(*config)

type config struct {
	tracers    trace.TracerProvider
	meters     metric.MeterProvider
	spanName   func(string) string
	metricName func(string) string
	problem    error // the first
}

func (c *config) reject(problem string) {
	if c.problem == nil {
		c.problem = fmt.Errorf("%w: lockotel: %s", locker.ErrInvalid, problem)
	}
}

// WithTracerProvider sets where spans go. The default is the global provider.
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(c *config) {
		if p == nil {
			c.reject("WithTracerProvider(nil); leave it out for the global provider, or use that of package noop for no spans")
		}
		c.tracers = p
	}
}

// WithMeterProvider sets where metrics go. The default is the global provider.
func WithMeterProvider(p metric.MeterProvider) Option {
	return func(c *config) {
		if p == nil {
			c.reject("WithMeterProvider(nil); leave it out for the global provider, or use that of package noop for no metrics")
		}
		c.meters = p
	}
}

// WithSpanNames gives spans the attribute golocker.lock.name, with the value that label
// returns for a lock's name. By default it is left out: names may say who a customer is.
func WithSpanNames(label func(name string) string) Option {
	return func(c *config) {
		if label == nil {
			c.reject("WithSpanNames(nil); leave it out for no names")
		}
		c.spanName = label
	}
}

// WithMetricNames gives metrics about a lock the attribute golocker.lock.name, with the value
// that label returns for a lock's name: for instance the part before a colon, where an
// id follows it. By default it is left out. There should be few values, as each makes a time
// series of its own; beyond its limit of 2000 the SDK puts them together.
func WithMetricNames(label func(name string) string) Option {
	return func(c *config) {
		if label == nil {
			c.reject("WithMetricNames(nil); leave it out for no names")
		}
		c.metricName = label
	}
}

// New returns an observer that makes spans and metrics, for locker.Observe. It fails if the
// meter provider does, and with locker.ErrInvalid if something is nil: an option, a provider,
// or a function.
func New(opts ...Option) (locker.Observer, error) {
	c := config{tracers: otel.GetTracerProvider(), meters: otel.GetMeterProvider()}
	for _, o := range opts {
		if o == nil {
			c.reject("a nil Option; leave it out")
			continue
		}
		o(&c)
	}
	if c.problem != nil {
		return locker.Observer{}, c.problem
	}
	t := &tracer{Tracer: c.tracers.Tracer(scope), name: c.spanName}
	m, err := newMeter(c.meters.Meter(scope), c.metricName)
	if err != nil {
		return locker.Observer{}, err
	}
	return locker.Observer{
		LockStart: func(ctx context.Context, e locker.LockStart) context.Context {
			m.lockStart(ctx, e)
			return t.lockStart(ctx, e)
		},
		LockEnd: func(ctx context.Context, e locker.LockEnd) {
			t.lockEnd(ctx, e)
			m.lockEnd(ctx, e)
		},
		HoldEnd: func(ctx context.Context, e locker.HoldEnd) {
			t.holdEnd(ctx, e)
			m.holdEnd(ctx, e)
		},
		Renewal: m.renewal, Healed: m.heal, Subscription: m.subscription, Warning: m.warn,
	}, nil
}

// failed tells whether a call has an error to show. That somebody else has the lock is what locks
// are for, whether the call has waited or not; and an end by the caller itself is no fault of the lock.
func failed(e locker.LockEnd) bool {
	switch e.Outcome() {
	case "acquired", "locked", "timeout", "canceled":
		return false
	}
	return true
}

// Keys of attributes.
const (
	systemKey  = attribute.Key("db.system.name")
	errorKey   = attribute.Key("error.type")
	nameKey    = attribute.Key("golocker.lock.name")
	modeKey    = attribute.Key("golocker.lock.mode")
	ttlKey     = attribute.Key("golocker.lock.ttl")
	fencedKey  = attribute.Key("golocker.lock.fenced")
	tokenKey   = attribute.Key("golocker.lock.token")
	opKey      = attribute.Key("golocker.op")
	routeKey   = attribute.Key("golocker.route")
	outcomeKey = attribute.Key("golocker.outcome")
	nodeKey    = attribute.Key("golocker.node")
	kindKey    = attribute.Key("golocker.warning.kind")
)

var redisSystem = systemKey.String("redis")
