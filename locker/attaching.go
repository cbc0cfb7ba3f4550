package locker

import "sync"

// attaching remembers for each id of a detached lease under which new id this
// client may have taken it up without learning of it, until that is put right. An
// Attach that follows then recognises what is its own.
type attaching struct {
	mu  sync.Mutex
	ids map[string]string
}

func (a *attaching) last(old string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ids[old]
}

// unsure notes it; the function returned forgets it.
func (a *attaching) unsure(old, id string) (forget func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ids == nil {
		a.ids = map[string]string{}
	}
	a.ids[old] = id
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.ids[old] == id {
			delete(a.ids, old)
		}
	}
}
