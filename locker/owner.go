package locker

import (
	"context"
	"strings"
)

// An Owner is who re-enters a lock: a reentrant or read-write lock that it holds is
// granted to it again at once. It is a value that the caller makes, never a
// goroutine. The zero Owner is nobody.
//
// An owner is given by the option [As] or by the context ([WithOwner]). Without
// either, a call whose context carries a lease of the same lock (see
// [Lease.Context] and [Mutex.Do]) is made by the owner of that lease, and any other
// by a new one.
type Owner struct {
	name  string
	made  bool // not the zero Owner
	alone bool // made for one call, so that it has no other lease; never handed out
}

// NewOwner returns an owner that is different from every other.
func NewOwner() Owner { return Owner{name: newID(), made: true} }

// NamedOwner returns the owner of that name; it is the same in every process. The name has from
// 1 to 256 bytes, without control characters and "|"; otherwise the calls that use it give
// [ErrInvalid].
//
// Whoever has the name shares the owner's locks. Name an owner after what is only done once at
// a time, by a job's id for example, and not after a machine.
//
// A named owner that reads under a [Fenced] lock asks the server for its fencing token each
// time that it re-enters, since it may have written in another process. A name of 32 lower-case
// hex digits is taken to be one that [NewOwner] made; such an owner does not ask.
func NamedOwner(name string) Owner { return Owner{name: name, made: true} }

// String returns the owner's name.
func (o Owner) String() string { return o.name }

func (o Owner) check() error {
	if o.name != "" && checkLabel(o.name) {
		return nil
	}
	return invalid(`an owner's name must have from 1 to 256 bytes and no control characters or "|"`)
}

// checkLabel tells whether text can stand in a field of a record.
func checkLabel(text string) bool {
	return len(text) <= maxLabel && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == '|' || r == 0x7f })
}

// As makes o the owner that takes the lock, whatever the context says; the zero Owner gives
// [ErrInvalid]. It concerns reentrant and read-write locks only.
func As(o Owner) Option {
	return lockOption(func(c *lockConfig) {
		if !o.made {
			c.reject("the zero Owner; use NewOwner or NamedOwner")
			return
		}
		c.owner = o
	})
}

type ownerKey struct{}

// WithOwner returns a context under which reentrant and read-write locks are taken by
// o. With the zero Owner it is as if the context said nothing.
func WithOwner(ctx context.Context, o Owner) context.Context {
	return context.WithValue(ctx, ownerKey{}, o)
}

// owner returns who takes the lock under ctx.
func (m *Mutex) owner(ctx context.Context) (Owner, error) {
	if !m.mode.owned() {
		return Owner{}, nil
	}
	if o := m.cfg.owner; o.made {
		return o, o.check()
	}
	if o, _ := ctx.Value(ownerKey{}).(Owner); o.made {
		return o, o.check()
	}
	for l := range leases(ctx) {
		if m.sameLock(l) && l.Owner().made {
			return l.Owner(), nil
		}
	}
	return Owner{name: newID(), made: true, alone: true}, nil
}

// sameLock tells whether l is a lease of the lock that m describes.
func (m *Mutex) sameLock(l *Lease) bool {
	return l.mutex.client == m.client && l.mutex.keys.record == m.keys.record
}

// deadlock returns an error if waiting for the lock would mean waiting for a lease that
// ctx carries, and so for the caller itself.
func (m *Mutex) deadlock(ctx context.Context, owner Owner) error {
	for l := range leases(ctx) {
		shared := m.mode == modeRead && l.mutex.mode == modeRead
		if m.sameLock(l) && l.Err() == nil && !shared && (!owner.made || l.Owner() != owner) {
			return &DeadlockError{Name: m.name, Nested: true}
		}
	}
	return nil
}
