package locker

import (
	"context"
	"errors"
)

// reenter gives the owner a lock that it holds on this client already. Where too
// little of that lease is left, the server is asked, and told which lease it is.
func (a *attempt) reenter() (*Lease, bool) {
	outer, joins := a.client.holdings.find(a.mutex, a.owner)
	a.outer = outer
	if !joins {
		return nil, false
	}
	lease, ok := outer.join(a.mutex)
	a.granted, a.told = ok, !ok
	return lease, ok
}

// outerLost returns why the lease that the owner has re-entered by lease is over, or what keeps
// that from being known: others may have written since it was lost, and no store would refuse the
// token of lease.
//
// A server that was told of a hold gives whatever is taken within it the token of that hold, and a
// larger one where it has lost the hold. Otherwise nothing follows from a larger token, and the
// server is asked.
func (a *attempt) outerLost(ctx context.Context, lease *Lease, wait bool) error {
	t := a.outer
	if t == nil || t.token == 0 || !a.req.fenced || a.req.mode == modeRead || lease.token == t.token {
		return nil
	}
	if a.told && a.client.quorum == nil {
		return t.lostUnnoticed()
	}
	for {
		outer := t.holder()
		if outer == nil {
			return nil // It has been given up, or had run out, as is known.
		}
		err := outer.confirm(ctx, "re-entry into", wait)
		switch over := outer.Err(); {
		case err == nil, errors.Is(over, ErrNotHeld):
			return err
		case over == nil:
			a.reason = err
			return a.explain(ctx, err)
		}
	}
}
