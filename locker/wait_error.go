package locker

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errUnanswered is the reason where the time was over before the server had said anything.
var errUnanswered = fmt.Errorf("%w: no answer yet", ErrUnavailable)

// explain turns err into a *WaitError if it was the end of ctx or of the client that
// ended the call before there was an answer.
func (a *attempt) explain(ctx context.Context, err error) error {
	if err == nil || answered(err) || ctx.Err() == nil && a.client.ctx.Err() == nil {
		return err
	}
	if a.line != nil && errors.Is(a.reason, ErrLocked) {
		a.reason = a.line.stillLocked(a.reason, a.begun)
	}
	vote, isVote := errors.AsType[*QuorumError](err)
	switch {
	case a.reason != nil:
	case errors.Is(err, context.Canceled), errors.Is(err, ctx.Err()):
		a.reason = unanswered(ctx, a.begun)
	case isVote && !vote.silent() && errors.Is(ctx.Err(), context.Canceled):
		// The nodes that are missing were not waited for.
	default:
		a.reason = requestError(a.req.name, err)
	}
	return a.waitError(ctx)
}

// unanswered is why a call that began at begun, and waited for an answer of the server until ctx
// ended, does not have the lock. Where the caller has turned away, it says nothing about the
// server.
func unanswered(ctx context.Context, begun time.Time) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil
	}
	if end, ok := ctx.Deadline(); ok && !end.After(begun) {
		return nil // it was over before anybody was asked
	}
	return errUnanswered
}

// waitError says what ended the wait: ctx, or else the client.
func (a *attempt) waitError(ctx context.Context) error {
	return waitError(ctx, a.req.name, a.reason, a.begun)
}

func waitError(ctx context.Context, name string, reason error, begun time.Time) error {
	e := &WaitError{Name: name, Cause: ErrClosed, Reason: reason, waited: time.Since(begun)}
	if err := ctx.Err(); err != nil {
		if e.Cause = context.Cause(ctx); !errors.Is(e.Cause, err) { // of any type, also one that == panics on
			e.ctxErr = err
		}
	}
	return e
}
