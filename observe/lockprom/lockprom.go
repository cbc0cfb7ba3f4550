// Package lockprom makes Prometheus metrics of what happens to the locks of a locker.Client.
//
//	metrics := lockprom.New()
//	prometheus.MustRegister(metrics)
//	client, err := locker.Open("goredis", dsn, locker.Observe(metrics.Observer()))
//
// # Metrics
//
// Times are in seconds. The label mode is "exclusive", "writing" or "reading"; the values
// of outcome are those of LockEnd.Outcome and HoldEnd.Outcome of package locker, those of
// route its Route.
//
//	golocker_wait_seconds{mode,outcome}          histogram  calls that take a lock, from begin to end
//	golocker_acquisitions_total{mode,route}      counter    locks that were acquired, by route
//	golocker_waiting{mode}                       gauge      calls in progress
//	golocker_hold_seconds{mode,outcome}          histogram  leases, from begin to end
//	golocker_held{mode}                          gauge      leases at present
//	golocker_lost_total{mode,cause}              counter    leases that were lost; cause is an outcome
//	golocker_hold_left_ratio{mode}               histogram  share of the TTL that was left when a lock was given up
//	golocker_renewals_total{mode,result}         counter    "ok", "failed" or "not_held"
//	golocker_renewal_seconds{mode}               histogram  how long the answer took
//	golocker_renewal_late_seconds{mode}          histogram  how late the request was made
//	golocker_renewal_left_ratio{mode}            histogram  share of the TTL that was left when a renewal succeeded
//	golocker_healed_total                        counter    records that had lost their TTL
//	golocker_subscription_up{node}               gauge      1 while messages arrive that a lock is free
//	golocker_subscription_gaps_total{node}       counter    times when some may have been missed
//	golocker_warning{node,kind}                  gauge      1 if the server, when first met, was set up so that locks are in danger
//
// node counts the servers of a quorum from 0. With [Names] the first eleven metrics also have
// the label lock.
package lockprom

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/golocker/golocker/locker"
)

// Metrics are the metrics of one client, or of several in sum; but whether messages arrive
// (golocker_subscription_up) is what the client that reported last has said. Metrics are a
// prometheus.Collector. Where an application has several clients, give each Metrics of its own,
// which prometheus.WrapRegistererWith tells apart by a label. Unregister the Metrics of a
// client that was closed before the program ends: what they said last stays.
type Metrics struct {
	names *names   // nil without the label lock
	begun sync.Map // the labels of locks whose counters exist

	wait, hold, holdLeft                   *prometheus.HistogramVec
	renewalTook, renewalLate, renewalLeft  *prometheus.HistogramVec
	acquisitions, lost, renewals, gaps     *prometheus.CounterVec
	waiting, held, subscriptionUp, warning *prometheus.GaugeVec
	healed                                 prometheus.Counter
	all                                    []prometheus.Collector
}

var (
	seconds = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
	// ratios are finest where little is left.
	ratios = []float64{0, .05, .1, .2, .3, .4, .5, .6, .7, .8, .9, 1}
)

// New returns metrics that have counted nothing yet. Those of losses and renewals stand at 0:
// without [Names] for every mode, and with it from the first call for a name on. New panics if
// an option is nil, or the function given to [Names]: both are mistakes in the program.
func New(opts ...Option) *Metrics {
	m := &Metrics{}
	for _, o := range opts {
		if o == nil {
			panic("lockprom: New with a nil Option; leave it out")
		}
		o(m)
	}
	labels := func(labels ...string) []string {
		if m.names != nil {
			return append([]string{"lock"}, labels...)
		}
		return labels
	}
	m.wait = histogram(m, "wait_seconds", "How long calls that take a lock took.", seconds, labels("mode", "outcome"))
	m.acquisitions = counter(m, "acquisitions_total", "Locks that were had, by how.", labels("mode", "route"))
	m.waiting = gauge(m, "waiting", "Calls in progress that take a lock.", labels("mode"))
	m.hold = histogram(m, "hold_seconds", "How long leases lasted.", seconds, labels("mode", "outcome"))
	m.held = gauge(m, "held", "Leases at present.", labels("mode"))
	m.lost = counter(m, "lost_total", "Leases that were lost, by cause.", labels("mode", "cause"))
	m.holdLeft = histogram(m, "hold_left_ratio", "Share of the TTL that was left when a lock was given up.", ratios, labels("mode"))
	m.renewals = counter(m, "renewals_total", "Renewals, by their result.", labels("mode", "result"))
	m.renewalTook = histogram(m, "renewal_seconds", "How long renewals took.", seconds, labels("mode"))
	m.renewalLate = histogram(m, "renewal_late_seconds", "How late renewals were sent.", seconds, labels("mode"))
	m.renewalLeft = histogram(m, "renewal_left_ratio", "Share of the TTL that was left when a renewal succeeded.", ratios, labels("mode"))
	m.gaps = counter(m, "subscription_gaps_total", "Times when messages may have been missed.", []string{"node"})
	m.subscriptionUp = gauge(m, "subscription_up", "Whether messages arrive that a lock is free.", []string{"node"})
	m.warning = gauge(m, "warning", "Dangers to locks in how the server is set up.", []string{"node", "kind"})
	m.healed = prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: "healed_total", Help: "Records that had lost their TTL."})
	m.all = append(m.all, m.healed)
	if m.names == nil {
		for _, mode := range []locker.Mode{locker.Exclusive, locker.Writing, locker.Reading} {
			m.begin([]string{string(mode)})
		}
	}
	return m
}

const namespace = "golocker"

func histogram(m *Metrics, name, help string, buckets []float64, labels []string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, labels)
	m.all = append(m.all, v)
	return v
}

func counter(m *Metrics, name, help string, labels []string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	m.all = append(m.all, v)
	return v
}

func gauge(m *Metrics, name, help string, labels []string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
	m.all = append(m.all, v)
	return v
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.all {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.all {
		c.Collect(ch)
	}
}

// Observer returns the observer that feeds the metrics, for locker.Observe.
func (m *Metrics) Observer() locker.Observer {
	return locker.Observer{
		LockStart: m.lockStart, LockEnd: m.lockEnd, HoldEnd: m.holdEnd, Renewal: m.renewal,
		Healed: func(locker.Healed) { m.healed.Inc() }, Subscription: m.subscription, Warning: m.warn,
	}
}

// labels returns the values of the labels for an event about a lock.
func (m *Metrics) labels(i locker.LockInfo) []string {
	values := make([]string, 0, 4)
	if m.names != nil {
		values = append(values, m.names.label(i.Name))
	}
	return append(values, string(i.Mode))
}

func (m *Metrics) lockStart(ctx context.Context, e locker.LockStart) context.Context {
	labels := m.labels(e.LockInfo)
	m.begin(labels)
	m.waiting.WithLabelValues(labels...).Inc()
	return ctx
}

// begin has the counters of rare events count from 0. A counter that came into being with the
// first event would show no increase by that event, so that no alert would hear of the first loss.
// New calls begin where it can, as the first loss may come before the first scrape after a call.
func (m *Metrics) begin(labels []string) {
	if _, done := m.begun.LoadOrStore(strings.Join(labels, "\x00"), true); done {
		return
	}
	for _, cause := range []string{"lost_deadline", "lost_taken", "lost_absent", "expired", "max_hold"} {
		m.lost.WithLabelValues(append(labels, cause)...)
	}
	for _, result := range []string{"ok", "failed", "not_held"} {
		m.renewals.WithLabelValues(append(labels, result)...)
	}
}

func (m *Metrics) lockEnd(_ context.Context, e locker.LockEnd) {
	labels := m.labels(e.LockInfo)
	m.waiting.WithLabelValues(labels...).Dec()
	m.wait.WithLabelValues(append(labels, e.Outcome())...).Observe(e.Wait.Seconds())
	if e.Err == nil {
		m.acquisitions.WithLabelValues(append(labels, string(e.Route))...).Inc()
		m.held.WithLabelValues(labels...).Inc()
	}
}

func (m *Metrics) holdEnd(_ context.Context, e locker.HoldEnd) {
	labels, outcome := m.labels(e.LockInfo), e.Outcome()
	m.held.WithLabelValues(labels...).Dec()
	m.hold.WithLabelValues(append(labels, outcome)...).Observe(e.Held.Seconds())
	switch {
	case e.Lost != nil && outcome != "closed", outcome == "expired": // a loss that Unlock has found
		m.lost.WithLabelValues(append(labels, outcome)...).Inc()
	case e.Lost == nil:
		m.holdLeft.WithLabelValues(labels...).Observe(ratio(e.Left.Seconds(), e.TTL.Seconds()))
	}
}

func (m *Metrics) renewal(e locker.Renewal) {
	labels, result := m.labels(e.LockInfo), "ok"
	switch {
	case errors.Is(e.Err, locker.ErrNotHeld):
		result = "not_held"
	case e.Err != nil:
		result = "failed"
	}
	m.renewals.WithLabelValues(append(labels, result)...).Inc()
	m.renewalTook.WithLabelValues(labels...).Observe(e.Took.Seconds())
	m.renewalLate.WithLabelValues(labels...).Observe(e.Late.Seconds())
	if e.Err == nil { // otherwise Left says nothing of the margin: a refusal may come early
		m.renewalLeft.WithLabelValues(labels...).Observe(ratio(e.Left.Seconds(), e.TTL.Seconds()))
	}
}

func ratio(left, ttl float64) float64 { return min(max(left/ttl, 0), 1) }

func (m *Metrics) subscription(e locker.Subscription) {
	node, up := strconv.Itoa(e.Node), 0.0
	if e.Listening {
		up = 1
	}
	m.subscriptionUp.WithLabelValues(node).Set(up)
	gaps := m.gaps.WithLabelValues(node)
	if e.Gap {
		gaps.Inc()
	}
}

func (m *Metrics) warn(e locker.Warning) {
	m.warning.WithLabelValues(strconv.Itoa(e.Node), e.Kind).Set(1)
}
