package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/golocker/golocker/locker"
)

// readWriteChangeCases: an owner reads and writes.
var readWriteChangeCases = []testCase{
	readWriteCase("WriterReads", needs{}, func(k *lockKit) {
		// The owner of the write lock reads at once, whoever waits, and goes on
		// writing when it has read.
		name, owner := k.key("lock"), locker.NamedOwner("o")
		a, b := k.client(), k.client()
		w := k.take(k.writing(a, name, locker.As(owner)))
		reader := k.later(k.ctx, k.reading(b, name))
		k.waiters(name, 1)
		writer := k.later(k.ctx, k.writing(b, name))
		k.waiters(name, 2)
		for what, c := range map[string]*locker.Client{"on the same client": a, "in another process": b} {
			r, err := k.reading(c, name, locker.As(owner)).TryLock(k.ctx)
			if err != nil {
				k.Fatalf("the writer's TryLock for reading %s gave %v", what, err)
			}
			if r.Token() != w.Token() {
				k.Errorf("%s the writer reads with the token %d; its own is %d", what, r.Token(), w.Token())
			}
			k.valid(r, "the writer's reading")
			k.unlock(r)
		}
		again := k.take(k.writing(a, name, locker.As(owner)))
		k.unlock(again)
		k.valid(w, "after the writer has read")
		k.waits(reader, "a reader, while the writer holds the lock,")
		k.waits(writer, "a second writer, while the first holds the lock,")
		k.unlock(w)
		k.unlock(k.granted(reader, k.times.poll+k.times.grant, "the reader"))
		k.unlock(k.granted(writer, k.times.poll+k.times.grant, "the second writer"))
		k.free(name, "after the last Unlock")
	}),
	readWriteCase("WriteReleasedWhileReading", needs{subscriber: true}, func(k *lockKit) {
		// An owner that stops writing and goes on reading lets readers in at once. Its
		// own read hold is renewed as before.
		name, owner := k.key("lock"), locker.NewOwner()
		a, b := k.client(), k.client()
		w := k.take(k.writing(a, name, locker.As(owner), locker.TTL(k.times.ttl)))
		r := k.take(k.reading(a, name, locker.As(owner), locker.TTL(k.times.ttl)))
		reader := k.later(k.ctx, k.reading(b, name, k.patient()))
		k.waiters(name, 1)
		writer := k.later(k.ctx, k.writing(b, name, k.patient()))
		k.waiters(name, 2)
		k.unlock(w)
		k.unlock(k.granted(reader, k.times.grant, "a reader, after the writer has stopped writing,"))
		time.Sleep(k.times.ttl * 3 / 2)
		k.valid(r, "one TTL after the writer has stopped writing")
		k.waits(writer, "a writer, while the former one reads,")
		k.unlock(r)
		k.unlock(k.granted(writer, k.times.grant, "the next writer"))
	}),
	readWriteCase("Downgrade", needs{}, func(k *lockKit) {
		// There is no gap in which another writer could come in, and readers come in.
		name := k.key("lock")
		a, b := k.client(), k.client()
		w := k.take(k.writing(a, name))
		reader := k.later(k.ctx, k.reading(b, name))
		k.waiters(name, 1)
		writer := k.later(k.ctx, k.writing(b, name))
		k.waiters(name, 2)
		r, err := w.Downgrade(k.ctx)
		if err != nil {
			k.Fatalf("Downgrade gave %v", err)
		}
		k.ended(w, k.times.prompt, locker.ErrReleased)
		if r.Mode() != locker.Reading || r.Token() != w.Token() || r.Owner() != w.Owner() {
			k.Errorf("after Downgrade the lease is %s with the token %d and the owner %v; want the writer's %d and %v",
				r.Mode(), r.Token(), r.Owner(), w.Token(), w.Owner())
		}
		k.valid(r, "after Downgrade")
		other := k.granted(reader, k.times.poll+k.times.grant, "a reader, after the writer's Downgrade,")
		k.waits(writer, "the next writer, after the first one's Downgrade,")
		k.unlock(other)
		k.waits(writer, "the next writer, while the first one reads,")
		_, err = r.Downgrade(k.ctx)
		k.is("Downgrade of a reader", err, locker.ErrInvalid)
		k.unlock(r)
		next := k.granted(writer, k.times.poll+k.times.grant, "the next writer")
		if next.Token() <= w.Token() {
			k.Errorf("the next writer has the token %d; the one before had %d", next.Token(), w.Token())
		}
		k.unlock(next)
	}),
	readWriteCase("Upgrade", needs{}, func(k *lockKit) {
		// A reader becomes the writer when the other readers have gone, before the
		// writers that wait, and lets nobody in meanwhile.
		name := k.key("lock")
		a, b := k.client(), k.client()
		r := k.take(k.reading(a, name, k.told()...))
		alone, err := r.TryUpgrade(k.ctx)
		if err != nil {
			k.Fatalf("TryUpgrade of the only reader gave %v", err)
		}
		if alone.Mode() != locker.Writing || alone.Token() <= r.Token() || alone.Owner() != r.Owner() {
			k.Errorf("after TryUpgrade the lease is %s with the token %d; the reader's is %d", alone.Mode(), alone.Token(), r.Token())
		}
		k.isLocked(k.reading(b, name), locker.Writing, "after TryUpgrade")
		k.unlock(alone)
		k.valid(r, "after the write lease was given up")

		other := k.take(k.reading(b, name))
		_, err = r.TryUpgrade(k.ctx)
		k.is("TryUpgrade beside another reader", err, locker.ErrLocked)
		writer := k.later(k.ctx, k.writing(b, name))
		k.waiters(name, 1)
		upgrade := k.upgrade(k.ctx, r)
		k.waiters(name, 2)
		k.isLocked(k.reading(b, name), locker.Reading, "while a reader waits to become the writer")
		k.waits(upgrade, "Upgrade, while another reader is left,")
		k.unlock(other)
		w := k.granted(upgrade, k.times.grant+k.pollTime(), "Upgrade")
		k.valid(w, "upgraded")
		k.valid(r, "upgraded, the reader's lease")
		k.unlock(w)
		k.waits(writer, "the next writer, while the first one reads on,")
		k.unlock(r)
		k.unlock(k.granted(writer, k.times.poll+k.times.grant, "the next writer"))

		gone := k.take(k.reading(a, name))
		k.unlock(gone)
		_, err = gone.Upgrade(k.ctx)
		k.is("Upgrade of a lease that was given up", err, locker.ErrReleased)
		k.free(name, "after the last Unlock")
	}),
	readWriteCase("TwoUpgraders", needs{}, func(k *lockKit) {
		// Each would wait for the other: the second is told so at once. When the second
		// has given up reading, the first writes.
		name := k.key("lock")
		first, second := k.take(k.reading(k.client(), name)), k.take(k.reading(k.client(), name))
		upgrade := k.upgrade(k.ctx, first)
		k.waiters(name, 1)
		err := k.refused(k.upgrade(k.ctx, second), k.times.prompt, "Upgrade of a second reader")
		if deadlock, ok := errors.AsType[*locker.DeadlockError](err); !ok || deadlock.Nested || deadlock.Name != name {
			k.Errorf("Upgrade of a second reader gave %v; want a *DeadlockError", err)
		}
		k.valid(second, "after its Upgrade was refused")
		k.waits(upgrade, "the first Upgrade")
		k.unlock(second)
		k.unlock(k.granted(upgrade, k.times.poll+k.times.grant, "the first Upgrade"))

		// One that gives up waiting is in nobody's way.
		second = k.take(k.reading(k.client(), name))
		ctx, cancel := context.WithCancel(k.ctx)
		upgrade = k.upgrade(ctx, first)
		k.waiters(name, 1)
		cancel()
		k.is("Upgrade whose ctx was cancelled", k.refused(upgrade, k.times.prompt, "Upgrade whose ctx was cancelled"), context.Canceled)
		k.waiters(name, 0)
		upgrade = k.upgrade(k.ctx, second)
		k.waiters(name, 1)
		k.unlock(first)
		k.unlock(k.granted(upgrade, k.times.poll+k.times.grant, "the second Upgrade"))
		k.unlock(second)
		k.free(name, "after the last Unlock")
	}),
}

// upgrade calls Upgrade in the background.
func (k *lockKit) upgrade(ctx context.Context, l *locker.Lease) *grant {
	return k.inBackground(func() (*locker.Lease, error) { return l.Upgrade(ctx) })
}
