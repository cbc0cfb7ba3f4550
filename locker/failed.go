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

// bare is the text of err for use behind something that names the package already.
func bare(err error) string { return strings.TrimPrefix(fmt.Sprint(err), textPrefix) }

// late returns err in a form that does not match the error of a context whose time is
// over: it was the request's time that was over, and not the caller's.
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

// cutShort reports whether a request that failed after took was given up before the time that a
// request has was over. Its error then says less than that of an earlier request that had all of
// that time.
func cutShort(err error, took, attempt time.Duration) bool {
	_, isLate := errors.AsType[*lateError](err)
	return took < attempt && (isLate || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled))
}

// outcomeOpen returns err, the error of a request that a call made after one that may have been
// executed, in a form that does not say that nothing was sent: only the later request was not sent.
// A refusal of the connection is told in full, since it is what has to be put right.
func outcomeOpen(err error) error {
	if driver.OutcomeOf(err) != driver.OutcomeNotSent || !transient(err) {
		return err
	}
	if vote, ok := errors.AsType[*QuorumError](err); ok {
		return &QuorumError{Votes: vote.Votes, reason: outcomeOpen(vote.reason), most: vote.most}
	}
	return &failedError{text: err.Error(), reasons: []error{ErrUnavailable}}
}

// ended returns the reasons of a call that ctx has ended, if it has: the cause, and the
// context's own error where the cause is another, so that a caller that asks for
// [context.Canceled] or [context.DeadlineExceeded] finds it, whatever the cause. These
// come before the reasons that are told besides, and none comes twice.
func ended(ctx context.Context, told ...error) []error {
	return endedBy(ctx, context.Cause(ctx), told)
}

// endedBeside is ended for a call in whose error the errors of this package say what became of the
// lease, or of the request. A cause that is one of these errors, as where the loss of another lock,
// or another call within an errgroup, has ended the context, is told by its text alone: it is about
// something else.
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

// failed is the error of a call that did not do what it should have done, with the
// reasons in its chain. Reasons that are nil are left out.
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
