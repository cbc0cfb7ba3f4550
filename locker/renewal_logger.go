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
	// calmTime is for how long no renewal must have failed until they are said to succeed again.
	// It is longer than the tries of one lease are apart, where those of others succeed.
	calmTime = 5 * time.Second
)

// A renewalLogger logs what becomes of the renewals of one client, however many leases it has: in an
// outage each of them fails several times a second, and all of them are late when it is over.
// So there is a line for the first, and one a second at most for all that follow.
//
// It is told of one renewal after another, and needs no mutex. Nor has it a timer: what there is to
// tell is told when the next renewal is.
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
		r.failed.add(e)
		r.troubled, r.lastFailure = true, present
	case e.Left < e.TTL/3:
		r.late.add(e)
	}
	r.tell(&r.failed, "renewal failed", present)
	r.tell(&r.late, "renewal was late", present)
	if r.troubled && e.Err == nil && present.Sub(r.lastFailure) >= calmTime {
		r.troubled = false
		r.Info("renewals succeed again")
	}
}

// tell has a line written of those that have none yet, unless the last one was just now.
func (r *renewalLogger) tell(some *alike, text string, present time.Time) {
	if some.n == 0 || present.Sub(some.told) < linesEvery {
		return
	}
	e := some.worst
	attrs := about(e.LockInfo, slog.Duration("left", e.Left), slog.Duration("late", e.Late), slog.Duration("took", e.Took),
		slog.Int("renewals", some.n))
	if e.Err != nil {
		attrs = append(attrs, slog.String("error", e.Err.Error()))
	}
	*some = alike{told: present}
	r.LogAttrs(context.Background(), slog.LevelWarn, text, attrs...)
}

// alike are renewals that went alike.
type alike struct {
	n     int       // of which no line tells yet
	worst Renewal   // the one of them that had the least left
	told  time.Time // when there was a line
}

func (a *alike) add(e Renewal) {
	if a.n++; a.n == 1 || e.Left < a.worst.Left {
		a.worst = e
	}
}
