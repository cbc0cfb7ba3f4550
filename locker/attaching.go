package locker

import (
	"errors"
	"slices"
	"sync"
)

// attaching remembers, for each id of a detached lease, the new ids under which this
// client may have taken the lease up without learning of it, until that is put right.
// An Attach that follows then recognises what is its own.
type attaching struct {
	mu  sync.Mutex
	ids map[string][]string
}

// maxUnsure is how many of these ids are tried for a lease, the latest first.
const maxUnsure = 8

// try makes the requests of an Attach, one for each id that the lease may have. It goes on
// to the next as long as the answer, be it only a single node's, is that the lease is
// somebody else's.
func (a *attaching) try(old string, attach func(unsure string) error) error {
	a.mu.Lock()
	ids := slices.Clone(a.ids[old])
	a.mu.Unlock()
	if len(ids) == 0 {
		return attach("")
	}
	var err error
	for i := len(ids) - 1; i >= max(len(ids)-maxUnsure, 0); i-- {
		if err = attach(ids[i]); !saysTaken(err) {
			break
		}
	}
	return err
}

func saysTaken(err error) bool {
	if quorum, ok := errors.AsType[*QuorumError](err); ok {
		return slices.ContainsFunc(quorum.Votes, func(v Vote) bool { return errors.Is(v.Err, ErrTaken) })
	}
	return errors.Is(err, ErrTaken)
}

// unsure notes such an id; the function that it returns forgets the id.
func (a *attaching) unsure(old, id string) (forget func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ids == nil {
		a.ids = map[string][]string{}
	}
	a.ids[old] = append(a.ids[old], id)
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.ids[old] = slices.DeleteFunc(a.ids[old], func(other string) bool { return other == id })
		if len(a.ids[old]) == 0 {
			delete(a.ids, old)
		}
	}
}
