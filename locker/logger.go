package locker

import (
	"context"
	"log/slog"
)

// Logger has the client log what an operator wants to know. By default nothing is
// logged.
//
//   - Warn: a lock was lost; a renewal failed or came so late that less than a third of
//     the lease was left; the server did not confirm a release, or said that the
//     lock had not been held any more; a server is set up so that locks are in danger.
//   - Info: renewals succeed again; a lock's record had lost its TTL; messages ceased to
//     arrive, arrive again, or may have been missed; a call has waited for longer than the
//     lock's TTL; a lock was given up by Close.
//   - Debug: every lock that was acquired or not, and every one that was given up.
//
// Failing renewals do not flood the log, however many leases an outage meets. The first one of
// a client has a line of its own. All that follow share at most one line a second, which counts
// them, names the lock that has the least left of its lease, and says how long ago that was
// where it is not logged at once. The same goes for renewals that come late. Renewals are said
// to succeed again when one does and none has failed for 5 seconds. Every lock that is lost has
// a line of its own.
//
// The lock's name is in the attribute "lock", and nowhere else. Where names are not for
// the log, [slog.HandlerOptions.ReplaceAttr] can shorten or hide it. Passwords,
// tokens, metadata and ids of leases are never logged.
func Logger(l *slog.Logger) ClientOption {
	if l == nil {
		return clientOption(func(c *clientConfig) { c.lock.reject("a nil Logger; leave the option out") })
	}
	g := logger{l}
	return clientOption(func(c *clientConfig) {
		r := &renewalLogger{logger: g} // for each client that is given the option
		Observe(Observer{
			LockEnd: g.lockEnd, HoldEnd: g.holdEnd, Renewal: r.renewal,
			Healed: g.healed, Subscription: g.subscription, Warning: g.warning,
		}).applyClient(c)
	})
}

// A logger is an observer that logs. Errors that have the lock's name in them are logged by
// their outcome.
type logger struct{ *slog.Logger }

func about(i LockInfo, more ...slog.Attr) []slog.Attr {
	return append([]slog.Attr{slog.String("lock", i.Name), slog.String("mode", string(i.Mode))}, more...)
}

func (g logger) lockEnd(ctx context.Context, e LockEnd) {
	level, text := slog.LevelDebug, "lock taken"
	switch {
	case e.TTL > 0 && e.Wait > e.TTL:
		level, text = slog.LevelInfo, "lock was waited for longer than its TTL"
	case e.Err != nil:
		text = "lock not taken"
	}
	if g.Enabled(ctx, level) {
		g.LogAttrs(ctx, level, text, about(e.LockInfo, slog.String("op", e.Op), slog.String("outcome", e.Outcome()),
			slog.Duration("wait", e.Wait), slog.Bool("contended", e.Contended()))...)
	}
}

func (g logger) holdEnd(ctx context.Context, e HoldEnd) {
	level, text := slog.LevelDebug, "lock given up"
	switch outcome := e.Outcome(); {
	case outcome == "closed":
		level, text = slog.LevelInfo, "lock given up by Close"
	case e.Lost != nil:
		level, text = slog.LevelWarn, "lock lost"
	case outcome == "unconfirmed":
		level, text = slog.LevelWarn, "release not confirmed"
	case outcome == "expired":
		level, text = slog.LevelWarn, "lock was not held any more when it was given up"
	}
	if !g.Enabled(ctx, level) {
		return
	}
	attrs := about(e.LockInfo, slog.String("outcome", e.Outcome()), slog.Duration("held", e.Held), slog.Duration("left", e.Left))
	if e.Lost != nil && e.Lost.LastErr != nil {
		attrs = append(attrs, slog.String("last_renewal", e.Lost.LastErr.Error()))
	}
	g.LogAttrs(ctx, level, text, attrs...)
}

func (g logger) healed(e Healed) {
	g.Info("lock had lost its TTL on the server", "lock", e.Name, "ttl", e.For)
}

func (g logger) subscription(e Subscription) {
	text := "messages cease to arrive; waiters poll"
	switch {
	case e.Gap:
		text = "messages may have been missed; all waiters ask"
	case e.Listening:
		text = "messages arrive"
	}
	attrs := []slog.Attr{slog.Int("node", e.Node)}
	if e.Err != nil {
		attrs = append(attrs, slog.String("error", e.Err.Error()))
	}
	g.LogAttrs(context.Background(), slog.LevelInfo, text, attrs...)
}

func (g logger) warning(e Warning) {
	g.Warn(e.Text, "kind", e.Kind, "node", e.Node)
}
