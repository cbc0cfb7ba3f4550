package nemesis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/golocker/golocker/internal/robustness/rig"
	"github.com/golocker/golocker/internal/servertest"
)

// migrations are slots of a Cluster that take another master.
func migrations() []Fault {
	return []Fault{{Name: "cluster-migrate", Kinds: []rig.Kind{rig.Cluster}, Inject: migrate}}
}

// migrate begins to move slots in which there are locks from one master to another, and
// leaves them in between; when it is healed, they arrive.
func migrate(ctx context.Context, s *Scene) (Heal, error) {
	from, release, err := s.aMaster(ctx)
	if err != nil {
		return nil, err
	}
	others := slices.DeleteFunc(masters(s.Rig.Servers), func(srv *servertest.Server) bool { return srv == from })
	if len(others) == 0 {
		release()
		return nil, errors.New("nemesis: there is one master only")
	}
	m := migration{from: from, to: others[s.intN(len(others))], others: others}
	heal := func(ctx context.Context) error {
		defer release()
		return errors.Join(m.finish(ctx), s.Rig.Nodes.AwaitComplete(ctx))
	}
	if err := m.begin(ctx); err != nil {
		return nil, errors.Join(err, heal(ctx))
	}
	return heal, nil
}

// A migration moves some slots.
type migration struct {
	from, to *servertest.Server
	others   []*servertest.Server // the masters besides from
	slots    []string
	fromID   string
	toID     string
}

// mostSlots is how many slots are moved at once.
const mostSlots = 20

// begin says to both masters that slots move, and moves half of the keys in each.
func (m *migration) begin(ctx context.Context) (err error) {
	if m.fromID, err = id(m.from); err != nil {
		return err
	}
	if m.toID, err = id(m.to); err != nil {
		return err
	}
	found, err := occupied(m.from)
	if err != nil {
		return err
	}
	for _, slot := range found {
		if err := assign(m.to, slot, "IMPORTING", m.fromID); err != nil {
			return err
		}
		m.slots = append(m.slots, slot) // from now on it has to be finished
		if err := assign(m.from, slot, "MIGRATING", m.toID); err != nil {
			return err
		}
		keys, err := keysIn(m.from, slot)
		if err != nil {
			return err
		}
		if err := m.move(ctx, keys[:(len(keys)+1)/2]); err != nil {
			return err
		}
	}
	return nil
}

// finish moves what is left and tells all masters.
func (m *migration) finish(ctx context.Context) error {
	for _, slot := range m.slots {
		for {
			keys, err := keysIn(m.from, slot)
			if err != nil {
				return err
			}
			if len(keys) == 0 {
				break
			}
			if err := m.move(ctx, keys); err != nil {
				return err
			}
		}
		// The new master first, so that somebody has the slot at all times.
		for _, srv := range append([]*servertest.Server{m.to, m.from}, m.others...) {
			if err := assign(srv, slot, "NODE", m.toID); err != nil {
				return err
			}
		}
	}
	return nil
}

// move moves keys. What has expired by now does not matter. It is refused where a server
// finds that the Cluster is down, for a moment.
func (m *migration) move(ctx context.Context, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	return servertest.Await(ctx, func() error {
		_, err := m.from.Do(append([]string{"MIGRATE", "127.0.0.1", m.to.Port(), "", "0", "5000", "KEYS"}, keys...)...)
		return err
	})
}

func assign(srv *servertest.Server, slot, state, node string) error {
	_, err := srv.Do("CLUSTER", "SETSLOT", slot, state, node)
	return err
}

func id(srv *servertest.Server) (string, error) {
	reply, err := srv.Do("CLUSTER", "MYID")
	return fmt.Sprint(reply), err
}

// occupied returns slots of a server in which there are keys.
func occupied(srv *servertest.Server) ([]string, error) {
	reply, err := srv.Do("KEYS", "*")
	if err != nil {
		return nil, err
	}
	var slots []string
	keys, _ := reply.([]any)
	for _, key := range keys {
		number, err := srv.Do("CLUSTER", "KEYSLOT", fmt.Sprint(key))
		if err != nil {
			return nil, err
		}
		if slot := fmt.Sprint(number); !slices.Contains(slots, slot) {
			slots = append(slots, slot)
		}
		if len(slots) == mostSlots {
			break
		}
	}
	if len(slots) == 0 {
		return nil, fmt.Errorf("%w: %s has no key", ErrBusy, srv.Addr)
	}
	return slots, nil
}

func keysIn(srv *servertest.Server, slot string) ([]string, error) {
	const enough = 1000
	reply, err := srv.Do("CLUSTER", "GETKEYSINSLOT", slot, strconv.Itoa(enough))
	if err != nil {
		return nil, err
	}
	items, _ := reply.([]any)
	var keys []string
	for _, item := range items {
		keys = append(keys, fmt.Sprint(item))
	}
	return keys, nil
}
