package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// A market is the data, in the book's form.
type market struct {
	db     *redis.Client
	prefix string
}

// An item is something for sale. In the market it is called "item.seller".
type item struct{ name, seller string }

func (it item) String() string { return it.name + "." + it.seller }

// locks returns the names of the locks on all that a purchase changes, in the order in
// which everybody takes them.
func (it item) locks(buyer string) []string {
	names := []string{"item:" + it.String(), "user:" + it.seller, "user:" + buyer}
	slices.Sort(names)
	return names
}

func (m *market) forSale() string            { return m.prefix + "market:" }
func (m *market) user(id string) string      { return m.prefix + "users:" + id }
func (m *market) inventory(id string) string { return m.prefix + "inventory:" + id }
func seller(i int) string                    { return fmt.Sprintf("seller%d", i+1) }
func buyer(i int) string                     { return fmt.Sprintf("buyer%d", i+1) }
func itemName(n int) string                  { return fmt.Sprintf("item%d", n) }
func price(i int) float64                    { return float64(1 + i%5) }
func parse(member string) (it item, err error) {
	name, seller, ok := strings.Cut(member, ".")
	if !ok {
		return it, fmt.Errorf("%q is not for sale", member)
	}
	return item{name, seller}, nil
}

// open fills the market.
func (m *market) open(ctx context.Context) error {
	_, err := m.db.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		for i := range buyers {
			tx.HSet(ctx, m.user(buyer(i)), "funds", funds)
		}
		for i := range sellers {
			tx.HSet(ctx, m.user(seller(i)), "funds", 0)
			for n := range items {
				it := item{itemName(i*items + n), seller(i)}
				tx.ZAdd(ctx, m.forSale(), redis.Z{Score: price(n), Member: it.String()})
			}
		}
		return nil
	})
	return err
}

// clear removes everything.
func (m *market) clear(ctx context.Context) error {
	keys := []string{m.forSale()}
	for i := range buyers {
		keys = append(keys, m.user(buyer(i)), m.inventory(buyer(i)))
	}
	for i := range sellers {
		keys = append(keys, m.user(seller(i)))
	}
	return m.db.Del(ctx, keys...).Err()
}

// pick returns any item that is for sale.
func (m *market) pick(ctx context.Context) (it item, ok bool, err error) {
	members, err := m.db.ZRandMember(ctx, m.forSale(), 1).Result()
	if err != nil || len(members) == 0 {
		return it, false, err
	}
	it, err = parse(members[0])
	return it, err == nil, err
}

// A result is how a purchase ended.
type result int

const (
	failed result = iota // for another reason, see the error
	bought
	itemGone
	dataChanged
)

// purchase is the book's purchase_item. It reads, thinks and writes; the writes are one
// transaction, which fails if one of the watched keys has changed since.
func (m *market) purchase(ctx context.Context, it item, buyer string, watched ...string) (result, error) {
	outcome := itemGone
	err := m.db.Watch(ctx, func(tx *redis.Tx) error {
		price, err := tx.ZScore(ctx, m.forSale(), it.String()).Result()
		if errors.Is(err, redis.Nil) {
			return nil
		}
		if err != nil {
			return err
		}
		money, err := tx.HGet(ctx, m.user(buyer), "funds").Float64()
		if err != nil {
			return err
		}
		if money < price {
			return fmt.Errorf("%s has %v and cannot pay %v for %s", buyer, money, price, it)
		}
		_, err = tx.TxPipelined(ctx, func(tx redis.Pipeliner) error {
			tx.HIncrByFloat(ctx, m.user(it.seller), "funds", price)
			tx.HIncrByFloat(ctx, m.user(buyer), "funds", -price)
			tx.SAdd(ctx, m.inventory(buyer), it.name)
			tx.ZRem(ctx, m.forSale(), it.String())
			return nil
		})
		if err == nil {
			outcome = bought
		}
		return err
	}, watched...)
	if errors.Is(err, redis.TxFailedErr) {
		return dataChanged, nil
	}
	if err != nil {
		return failed, err
	}
	return outcome, nil
}

// audit returns what is wrong with the books.
func (m *market) audit(ctx context.Context) (faults []string, err error) {
	owners := map[string]int{}
	var paid, received float64
	for i := range buyers {
		names, err := m.db.SMembers(ctx, m.inventory(buyer(i))).Result()
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			owners[name]++
		}
		left, err := m.db.HGet(ctx, m.user(buyer(i)), "funds").Float64()
		if err != nil {
			return nil, err
		}
		paid += funds - left
	}
	for i := range sellers {
		got, err := m.db.HGet(ctx, m.user(seller(i)), "funds").Float64()
		if err != nil {
			return nil, err
		}
		received += got
	}
	var worth float64
	for i := range sellers {
		for n := range items {
			worth += price(n)
			name := itemName(i*items + n)
			if owners[name] != 1 {
				faults = append(faults, fmt.Sprintf("%s has %d owners", name, owners[name]))
			}
		}
	}
	if paid != worth || received != worth {
		faults = append(faults, fmt.Sprintf("goods worth %v, paid %v, received %v", worth, paid, received))
	}
	return faults, nil
}
