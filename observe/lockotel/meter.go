package lockotel

import (
	"context"
	"errors"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/golocker/golocker/locker"
)

// A meter holds the instruments.
type meter struct {
	name func(string) string // nil if metrics do not have the lock's name

	wait, hold, holdLeft                  metric.Float64Histogram
	renewalTook, renewalLate, renewalLeft metric.Float64Histogram
	waiting, held                         metric.Int64UpDownCounter
	lost, healed, gaps, warnings          metric.Int64Counter
}

var (
	seconds = metric.WithExplicitBucketBoundaries(.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300)
	// ratios are finest where little is left.
	ratios = metric.WithExplicitBucketBoundaries(0, .05, .1, .2, .3, .4, .5, .6, .7, .8, .9, 1)
)

func newMeter(from metric.Meter, name func(string) string) (*meter, error) {
	m := &meter{name: name}
	var errs []error
	histogram := func(to *metric.Float64Histogram, name, unit, what string, buckets metric.HistogramOption) {
		var err error
		*to, err = from.Float64Histogram(name, metric.WithUnit(unit), metric.WithDescription(what), buckets)
		errs = append(errs, err)
	}
	level := func(to *metric.Int64UpDownCounter, name, unit, what string) {
		var err error
		*to, err = from.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(what))
		errs = append(errs, err)
	}
	counter := func(to *metric.Int64Counter, name, unit, what string) {
		var err error
		*to, err = from.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
		errs = append(errs, err)
	}
	histogram(&m.wait, "golocker.lock.wait", "s", "How long calls that take a lock took.", seconds)
	level(&m.waiting, "golocker.lock.waiting", "{call}", "Calls in progress that take a lock.")
	histogram(&m.hold, "golocker.lock.hold", "s", "How long leases lasted.", seconds)
	level(&m.held, "golocker.lock.held", "{lease}", "Leases at present.")
	histogram(&m.holdLeft, "golocker.lock.hold.left", "1", "Share of the TTL that was left when a lock was given up.", ratios)
	counter(&m.lost, "golocker.lock.lost", "{lease}", "Leases that were lost.")
	histogram(&m.renewalTook, "golocker.renewal.duration", "s", "How long renewals took.", seconds)
	histogram(&m.renewalLate, "golocker.renewal.late", "s", "How late renewals were sent.", seconds)
	histogram(&m.renewalLeft, "golocker.renewal.left", "1", "Share of the TTL that was left when a renewal succeeded.", ratios)
	counter(&m.healed, "golocker.lock.healed", "{record}", "Records that had lost their TTL.")
	counter(&m.gaps, "golocker.subscription.gaps", "{gap}", "Times when messages may have been missed.")
	counter(&m.warnings, "golocker.warnings", "{warning}", "Servers that are set up so that locks are in danger.")
	return m, errors.Join(errs...)
}

// with returns the attributes of an event about a lock.
func (m *meter) with(i locker.LockInfo, more ...attribute.KeyValue) metric.MeasurementOption {
	list := append(make([]attribute.KeyValue, 0, 8), redisSystem, modeKey.String(string(i.Mode)))
	if m.name != nil {
		list = append(list, nameKey.String(strings.ToValidUTF8(m.name(i.Name), "\uFFFD")))
	}
	return metric.WithAttributeSet(attribute.NewSet(append(list, more...)...))
}

func (m *meter) lockStart(ctx context.Context, e locker.LockStart) {
	m.waiting.Add(ctx, 1, m.with(e.LockInfo))
}

func (m *meter) lockEnd(ctx context.Context, e locker.LockEnd) {
	m.waiting.Add(ctx, -1, m.with(e.LockInfo))
	outcome := e.Outcome()
	attributes := []attribute.KeyValue{opKey.String(e.Op), outcomeKey.String(outcome)}
	if e.Err == nil {
		attributes = append(attributes, routeKey.String(string(e.Route)))
		m.held.Add(ctx, 1, m.with(e.LockInfo))
	} else if failed(e) {
		attributes = append(attributes, errorKey.String(outcome))
	}
	m.wait.Record(ctx, e.Wait.Seconds(), m.with(e.LockInfo, attributes...))
}

func (m *meter) holdEnd(ctx context.Context, e locker.HoldEnd) {
	m.held.Add(ctx, -1, m.with(e.LockInfo))
	outcome := e.Outcome()
	m.hold.Record(ctx, e.Held.Seconds(), m.with(e.LockInfo, outcomeKey.String(outcome)))
	switch {
	case e.Lost != nil && outcome != "closed", outcome == "expired": // a loss that Unlock has found
		m.lost.Add(ctx, 1, m.with(e.LockInfo, outcomeKey.String(outcome)))
	case e.Lost == nil:
		m.holdLeft.Record(ctx, ratio(e.Left.Seconds(), e.TTL.Seconds()), m.with(e.LockInfo))
	}
}

func (m *meter) renewal(e locker.Renewal) {
	ctx, with := context.Background(), m.with(e.LockInfo)
	took := with
	switch {
	case errors.Is(e.Err, locker.ErrNotHeld):
		took = m.with(e.LockInfo, errorKey.String("not_held"))
	case e.Err != nil:
		took = m.with(e.LockInfo, errorKey.String("failed"))
	}
	m.renewalTook.Record(ctx, e.Took.Seconds(), took)
	m.renewalLate.Record(ctx, e.Late.Seconds(), with)
	if e.Err == nil { // otherwise Left says nothing of the margin: a refusal may come early
		m.renewalLeft.Record(ctx, ratio(e.Left.Seconds(), e.TTL.Seconds()), with)
	}
}

func ratio(left, ttl float64) float64 { return min(max(left/ttl, 0), 1) }

func (m *meter) heal(e locker.Healed) { m.healed.Add(context.Background(), 1) }

func (m *meter) subscription(e locker.Subscription) {
	if e.Gap {
		m.gaps.Add(context.Background(), 1, metric.WithAttributes(nodeKey.Int(e.Node)))
	}
}

func (m *meter) warn(e locker.Warning) {
	m.warnings.Add(context.Background(), 1, metric.WithAttributes(nodeKey.Int(e.Node), kindKey.String(e.Kind)))
}
