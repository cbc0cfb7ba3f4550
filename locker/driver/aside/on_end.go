package aside

import "context"

// OnEnd has f called in another goroutine when ctx ends. stop takes that back, and returns
// false if f has been called or is about to be. stop must be called once, before the call that
// ctx was passed to returns: after that ctx may serve the next call, and stop would take back
// what that call has asked for.
//
// OnEnd is for calls that something can break off, so that they need not be made aside. It does
// what [context.AfterFunc] does, but costs nothing with the contexts that package locker makes
// for most calls.
func OnEnd(ctx context.Context, f func()) (stop func() bool) {
	if a, ok := ctx.(endNotifier); ok {
		return a.OnEnd(f)
	}
	return context.AfterFunc(ctx, f)
}

// An endNotifier is a context with an OnEnd of its own.
type endNotifier interface {
	OnEnd(f func()) (stop func() bool)
}
