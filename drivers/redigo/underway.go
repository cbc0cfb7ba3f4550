package redigo

import "sync"

// underway are the calls of a conn that are being made.
type underway struct {
	mu    sync.Mutex
	calls map[*call]struct{}
}

func (u *underway) enter(k *call) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.calls == nil {
		u.calls = make(map[*call]struct{})
	}
	u.calls[k] = struct{}{}
}

func (u *underway) leave(k *call) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.calls, k)
}

// cutAll ends all. Who enters later sees that the conn is closed, before it waits for a
// connection.
func (u *underway) cutAll() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for k := range u.calls {
		k.cut()
	}
}
