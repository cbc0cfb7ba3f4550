package locker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// textPrefix is what the texts of this package's errors begin with.
const textPrefix = "locker: "

// bare is the text of err for behind something that names the package already.
func bare(err error) string { return strings.TrimPrefix(fmt.Sprint(err), textPrefix) }

// late returns err so that it does not match that of a context whose time is over: it was
// the request that had its time, and not the caller.
func late(err error) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	told := &lateError{bare(err)}
	if driver.OutcomeOf(err) == driver.OutcomeNotSent {
		return driver.NotSent(told)
	}
	return told
}

type lateError struct{ err string }

func (e *lateError) Error() string { return textPrefix + "no reply in time (" + e.err + ")" }

// cutShort tells that a request which had failed after it took so long was given up before the time was
// over that one has: it tells less than one before it, which had that time.
func cutShort(err error, took, attempt time.Duration) bool {
	_, isLate := errors.AsType[*lateError](err)
	return took < attempt && (isLate || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled))
}

// outcomeOpen returns err, of a request that a call made after one that may have been executed, so that
// it does not tell that nothing was sent: it was that request which was not. A refusal of the connection is
// told whole, since it is what has to be put right.
func outcomeOpen(err error) error {
	if driver.OutcomeOf(err) != driver.OutcomeNotSent || !transient(err) {
		return err
	}
	if vote, ok := errors.AsType[*QuorumError](err); ok {
		return &QuorumError{Votes: vote.Votes, reason: outcomeOpen(vote.reason), most: vote.most}
	}
	return &failedError{text: err.Error(), reasons: []error{ErrUnavailable}}
}

// ended are the reasons of a call that ctx has ended, if it has: the cause, and the context's
// own error where the cause is another, so that who asks for [context.Canceled] or
// [context.DeadlineExceeded] finds it, whatever the cause. They come before those that are told
// besides, and none comes twice.
func ended(ctx context.Context, told ...error) []error {
	return endedBy(ctx, context.Cause(ctx), told)
}

// endedBeside is ended for a call by which errors of this package say what became of the lease, or
// of the request. A cause that is one of them, as of a context that the loss of another lock has
// ended, or another call within an errgroup, is told by its text alone: it is about something else.
func endedBeside(ctx context.Context, told ...error) []error {
	cause := context.Cause(ctx)
	for _, word := range []error{ErrLost, ErrNotHeld, ErrReleased, ErrUnknown, ErrUnavailable, ErrClosed, ErrPermission, ErrForeign, ErrInvalid} {
		if errors.Is(cause, word) {
			return endedBy(ctx, errors.New(bare(cause)), told)
		}
	}
	return endedBy(ctx, cause, told)
}

func endedBy(ctx context.Context, cause error, told []error) []error {
	var reasons []error
	for _, err := range []error{cause, ctx.Err()} {
		if err != nil && !errors.Is(errors.Join(slices.Concat(reasons, told)...), err) {
			reasons = append(reasons, err)
		}
	}
	return append(reasons, told...)
}

// failed is the error of a call that did not do what it was to, with the reasons in its
// chain. Those that are nil are none.
func failed(what string, reasons ...error) error {
	e := &failedError{text: textPrefix + what}
	for _, err := range reasons {
		if err != nil {
			e.text += ": " + bare(err)
			e.reasons = append(e.reasons, err)
		}
	}
	return e
}

type failedError struct {
	text    string
	reasons []error
}

func (e *failedError) Error() string   { return e.text }
func (e *failedError) Unwrap() []error { return e.reasons }
