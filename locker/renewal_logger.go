package locker

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

const (
	// linesEvery is how often renewals that went alike have a line, at most.
	linesEvery = time.Second
	// calmTime is for how long no renewal must have failed before renewals are said to succeed
	// again. It is longer than the tries of one lease are apart, where those of others succeed.
	calmTime = 5 * time.Second

	renewalFailed, renewalLate = "renewal failed", "renewal was late"
)

// A renewalLogger logs what becomes of the renewals of one client, however many leases it has: in an
// outage each of them fails several times a second, and all of them are late when it is over.
// So there is a line for the first, and one a second at most for all that follow.
//
// It is told of one renewal after another, and so needs no mutex. Nor does it have a timer: what
// there is to tell is told at the next renewal.
type renewalLogger struct {
	logger
	failed, late alike
	troubled     bool
	lastFailure  time.Time
}

func (r *renewalLogger) renewal(e Renewal) {
	present := time.Now()
	switch {
	case errors.Is(e.Err, ErrNotHeld): // of which its loss tells
	case e.Err != nil:
		r.note(&r.failed, renewalFailed, e, present)
		r.troubled, r.lastFailure = true, present
	case e.Left < e.TTL/3:
		r.note(&r.late, renewalLate, e, present)
	}
	r.tell(&r.failed, renewalFailed, present)
	r.tell(&r.late, renewalLate, present)
	if r.troubled && e.Err == nil && present.Sub(r.lastFailure) >= calmTime {
		r.troubled = false
		r.Info("renewals succeed again")
	}
}

// note counts e. Those before it that have no line yet get one of their own where they were some
// time ago: what happens now is about other locks than an outage that is over.
func (r *renewalLogger) note(some *alike, text string, e Renewal, present time.Time) {
	if some.n > 0 && present.Sub(some.last) >= calmTime {
		r.write(some, text, present)
		some.told = time.Time{} // so that this one has a line as well
	}
	some.add(e, present)
}

// tell has a line written of those that have none yet, unless the last line was just
// now.
func (r *renewalLogger) tell(some *alike, text string, present time.Time) {
	if some.n > 0 && present.Sub(some.told) >= linesEvery {
		r.write(some, text, present)
	}
}

// write also tells when the last renewal was, where that is not when it is told.
func (r *renewalLogger) write(some *alike, text string, present time.Time) {
	e := some.worst
	attrs := about(e.LockInfo, slog.Duration("left", e.Left), slog.Duration("late", e.Late), slog.Duration("took", e.Took),
		slog.Int("renewals", some.n))
	if e.Err != nil {
		attrs = append(attrs, slog.String("error", e.Err.Error()))
	}
	if ago := present.Sub(some.last); ago >= calmTime {
		attrs = append(attrs, slog.Duration("ago", ago))
	}
	*some = alike{told: present}
	r.LogAttrs(context.Background(), slog.LevelWarn, text, attrs...)
}

// alike are renewals that went alike.
type alike struct {
	n     int       // of which no line tells yet
	worst Renewal   // the one of them that had the least left
	last  time.Time // when the latest of them was
	told  time.Time // when there was a line
}

func (a *alike) add(e Renewal, present time.Time) {
	a.last = present
	if a.n++; a.n == 1 || e.Left < a.worst.Left {
		a.worst = e
	}
}
