package main

import (
	"context"
	"errors"

	"github.com/golocker/golocker/examples/internal/demo"
	"github.com/golocker/golocker/locker"
)

// open returns the lock on the order, and what the processes share: the steps that were
// done, and the queue.
func open(p *demo.Part) (client *locker.Client, lock *locker.Mutex, steps, queue demo.Journal, err error) {
	client, err = p.Open(p.Name)
	if err != nil {
		return nil, nil, "", "", err
	}
	return client, client.Mutex(order, locker.Fenced()), demo.Journal(p.Args[0]), demo.Journal(p.Args[1]), nil
}

// till begins the saga.
func till(ctx context.Context, p *demo.Part) error {
	client, lock, steps, queue, err := open(p)
	if err != nil {
		return err
	}
	defer client.Close()
	lease, err := lock.Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Unlock(context.WithoutCancel(ctx)) // nothing to do after Detach
	p.Say("takes the money and hands the lock on")
	if err := steps.Write("%d paid", lease.Token()); err != nil {
		return err
	}
	return handOn(ctx, p, lease, queue)
}

// handOn leaves the lock to whoever gets the message.
func handOn(ctx context.Context, p *demo.Part, lease *locker.Lease, queue demo.Journal) error {
	id, err := lease.Detach(ctx, 10*p.TTL)
	if err != nil {
		return err
	}
	return queue.Write("%s", id)
}

// takeUp takes the lock up with the id in a message of the queue, counted from 0.
func takeUp(ctx context.Context, lock *locker.Mutex, queue demo.Journal, message int) (*locker.Lease, error) {
	ids, err := queue.Lines()
	if err != nil {
		return nil, err
	}
	if message >= len(ids) {
		return nil, errors.New("there is no such message")
	}
	return lock.Attach(ctx, ids[message])
}

// warehouse is the second step.
func warehouse(ctx context.Context, p *demo.Part) error {
	client, lock, steps, queue, err := open(p)
	if err != nil {
		return err
	}
	defer client.Close()
	lease, err := takeUp(ctx, lock, queue, 0)
	if errors.Is(err, locker.ErrTaken) {
		p.Say("comes too late: %v", err)
		return nil
	}
	if err != nil {
		return err
	}
	defer lease.Unlock(context.WithoutCancel(ctx))
	p.Say("packs and hands the lock on")
	if err := steps.Write("%d packed", lease.Token()); err != nil {
		return err
	}
	return handOn(ctx, p, lease, queue)
}

// carrier is the third step, and does not come far.
func carrier(ctx context.Context, p *demo.Part) error {
	_, lock, _, queue, err := open(p)
	if err != nil {
		return err
	}
	if _, err := takeUp(ctx, lock, queue, 1); err != nil {
		return err
	}
	p.Say("takes the lock up and crashes")
	p.Crash()
	return nil
}

// sweeper undoes what is left of a saga that does not go on.
func sweeper(ctx context.Context, p *demo.Part) error {
	client, lock, steps, _, err := open(p)
	if err != nil {
		return err
	}
	defer client.Close()
	p.Say("waits for the lock")
	return lock.Do(ctx, func(ctx context.Context) error {
		lease, _ := locker.FromContext(ctx)
		lines, err := steps.Lines()
		if err != nil {
			return err
		}
		history, _ := read(lines)
		switch history {
		case "paid, packed":
			p.Say("unpacks")
			if err := steps.Write("%d unpacked", lease.Token()); err != nil {
				return err
			}
			fallthrough
		case "paid", "paid, packed, unpacked": // the latter by a sweeper that has come no further
			p.Say("gives the money back")
			return steps.Write("%d refunded", lease.Token())
		}
		return nil
	})
}
