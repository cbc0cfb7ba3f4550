// Market sells every item exactly once, in three ways, and in one that does not: it is the market of "Redis in Action"
// (J. Carlson, 2013, sections 4.4 and 6.2), the classic write-up of why optimistic
// transactions are not enough and what a lock does for them.
//
//	go run ./examples/market
//	go run ./examples/market -url redis://localhost:6379/0
//
// The data is that of the book: users:<id> is a hash with the user's funds,
// inventory:<id> the set of the items that a user has, market: the sorted set of what is
// for sale, "item.seller" by price. To buy is to read the price and the buyer's funds,
// to compare them, and to write four times: read, think, write.
//
//   - Nothing: two buyers read the same item before either has written, and both pay.
//   - WATCH makes the writes fail if what was read has changed meanwhile, and the buyer
//     tries again. But everybody changes the market all the time: most tries are in vain,
//     and ever more so the more buyers there are.
//   - One lock on the market lets one buyer at a time read, think and write. No try is in
//     vain; buyers queue instead.
//   - A lock for each item and each user lets those who buy different things do so at the same
//     time. Whoever needs several locks takes them in one order, here sorted by name,
//     lest two wait for each other.
//
// A lock alone would not do if a buyer could be paused past its lease between thinking
// and writing. All keys are on one server here, so the writes are in one MULTI, and what
// is missing is that they check a fencing token: see the example fencedwriter.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/golocker/golocker/examples/internal/demo"
	"github.com/golocker/golocker/locker"
)

const (
	sellers = 4
	items   = 20 // of each seller
	buyers  = 8
	funds   = 1000 // of each buyer at first, enough for all
)

var program = demo.Program{
	Name:  "market",
	Title: fmt.Sprintf("%d buyers, %d items, each for sale once", buyers, sellers*items),
	TTL:   10 * time.Second,
	Play:  play,
}

func main() { program.Main() }

func play(ctx context.Context, s *demo.Stage) error {
	db, err := s.Data()
	if err != nil {
		return err
	}
	defer db.Close()
	client, err := s.Open("market")
	if err != nil {
		return err
	}
	defer client.Close()

	ways := []way{
		{name: "nothing", guard: unguarded},
		{name: "WATCH", guard: unguarded, watch: true, safe: true},
		{name: "one lock", safe: true, guard: func(ctx context.Context, _ item, _ string, purchase func(context.Context) error) error {
			return client.Do(ctx, "market", purchase)
		}},
		{name: "a lock each", safe: true, guard: func(ctx context.Context, it item, buyer string, purchase func(context.Context) error) error {
			return doAll(ctx, client, it.locks(buyer), purchase)
		}},
	}
	for i, way := range ways {
		m := &market{db: db, prefix: fmt.Sprintf("%s%d:", s.Prefix, i)}
		if err := m.open(ctx); err != nil {
			return err
		}
		begun := time.Now()
		sales, err := m.sellOut(ctx, way)
		if err != nil {
			return err
		}
		took := time.Since(begun).Round(time.Millisecond)
		faults, err := m.audit(ctx)
		if err != nil {
			return err
		}
		s.Say("guarded by %-12s %3d sold, %3d tries in vain, %d faults, %v", way.name+":", sales.done, sales.vain, len(faults), took)
		if way.safe {
			s.Promise(len(faults) == 0 && sales.done == sellers*items,
				"each item was sold once, and no money was made or lost%s", strings.Join(append([]string{""}, faults...), "; "))
		}
		if err := m.clear(ctx); err != nil {
			return err
		}
	}
	return nil
}

// A way is how purchases are kept apart.
type way struct {
	name  string
	guard guard
	watch bool // what is read, for changes
	safe  bool // it has to work
}

// A guard keeps other purchases away from one.
type guard func(ctx context.Context, it item, buyer string, purchase func(context.Context) error) error

// doAll runs work under all the locks, which are taken in the order given.
func doAll(ctx context.Context, client *locker.Client, names []string, work func(context.Context) error) error {
	if len(names) == 0 {
		return work(ctx)
	}
	return client.Do(ctx, names[0], func(ctx context.Context) error {
		return doAll(ctx, client, names[1:], work)
	})
}

func unguarded(ctx context.Context, _ item, _ string, purchase func(context.Context) error) error {
	return purchase(ctx)
}

// sales is what the buyers of a market have seen.
type sales struct{ done, vain int }

// sellOut lets the buyers loose until nothing is left.
func (m *market) sellOut(ctx context.Context, w way) (sales, error) {
	var done, vain atomic.Int64
	errs := make(chan error, buyers)
	for i := range buyers {
		go func() { errs <- m.shop(ctx, buyer(i), w, &done, &vain) }()
	}
	var err error
	for range buyers {
		err = errors.Join(err, <-errs)
	}
	return sales{int(done.Load()), int(vain.Load())}, err
}

// shop buys one item after another until there is none.
func (m *market) shop(ctx context.Context, buyer string, w way, done, vain *atomic.Int64) error {
	for {
		it, ok, err := m.pick(ctx)
		if err != nil || !ok {
			return err
		}
		var watched []string
		if w.watch {
			// The book does without the seller. The embedded server needs it: it does
			// not count ZREM as a change of the market.
			watched = []string{m.forSale(), m.user(buyer), m.user(it.seller)}
		}
		err = w.guard(ctx, it, buyer, func(ctx context.Context) error {
			result, err := m.purchase(ctx, it, buyer, watched...)
			if result == bought {
				done.Add(1)
			} else {
				vain.Add(1)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
}
