package locker

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golocker/golocker/locker/driver/aside"
)

// A pipeline gathers what is asked while requests are under way, and sends it with the
// next one. So a busy server gets fewer and larger packets, and one that hangs holds few
// goroutines.
type pipeline[T any] struct {
	// request makes one request and answers each, and must not keep the slice; or it
	// returns false, when leave was called, or is about to be.
	request func([]T) bool
	crew    *aside.Crew // in whose goroutines requests are made
	room    int         // in one request
	usual   int         // requests under way, while the server answers soon
	most    int         // requests under way, while it does not

	mu      sync.Mutex
	waiting []T          // to be sent
	senders atomic.Int32 // requests under way; changed with mu held
	begun   time.Time    // the last of them
	took    time.Duration
	relief  *time.Timer // looks whether somebody waits for a request that is slow
	closed  bool
	wg      sync.WaitGroup
}

// soon is how long a server may take to answer without more requests being begun beside
// the slow one, lest everything wait for two answers instead of one.
const soon = 5 * time.Millisecond

// add has x sent, and does not wait for anything. It returns false if the pipeline is
// closed.
func (p *pipeline[T]) add(x T) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.waiting = append(p.waiting, x)
	first, senders := len(p.waiting) == 1, int(p.senders.Load())
	switch {
	case senders < p.usual:
		p.start()
	case senders == p.most:
	case p.took > soon || first && time.Since(p.begun) > soon:
		p.start()
	case first:
		p.watch()
	}
	return true
}

// idle reports whether nothing is waiting or under way.
func (p *pipeline[T]) idle() bool { return p.senders.Load() == 0 }

// start and watch are called with mu held.
func (p *pipeline[T]) start() {
	p.senders.Add(1)
	p.wg.Add(1)
	p.crew.Go(p)
}

// leave has the pipeline go on without a sender whose request takes too long.
func (p *pipeline[T]) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.wg.Done()
	p.senders.Add(-1)
	p.took = time.Since(p.begun)
	if len(p.waiting) > 0 {
		p.start()
	}
}

func (p *pipeline[T]) watch() {
	if p.relief == nil {
		p.relief = time.AfterFunc(soon, p.relieve)
	} else {
		p.relief.Reset(soon)
	}
}

// relieve begins another request if nothing has moved for a while.
func (p *pipeline[T]) relieve() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.waiting) == 0 || int(p.senders.Load()) == p.most {
		return
	}
	if time.Since(p.begun) >= soon {
		p.start()
	}
	p.watch()
}

// hurry has what is waiting sent, though the request under way may get no answer. It is for a
// caller that is about to close the pipeline, which stops the timer that would do so.
func (p *pipeline[T]) hurry() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) > 0 && int(p.senders.Load()) < p.most {
		p.start()
	}
}

// Run is a sender: it makes requests of what is waiting until nothing is.
func (p *pipeline[T]) Run() {
	var batch []T
	for {
		// Whoever is about to ask, many of them because the last request has just been
		// answered, does so before the next one goes out.
		runtime.Gosched()
		p.mu.Lock()
		n := min(len(p.waiting), p.room)
		if n == 0 {
			p.senders.Add(-1)
			p.mu.Unlock()
			p.wg.Done()
			return
		}
		batch = append(batch, p.waiting[:n]...)
		left := copy(p.waiting, p.waiting[n:])
		clear(p.waiting[left:])
		p.waiting = p.waiting[:left]
		begun := time.Now()
		p.begun = begun
		p.mu.Unlock()

		if !p.request(batch) {
			return
		}
		clear(batch)
		batch = batch[:0]

		p.mu.Lock()
		p.took = time.Since(begun)
		p.mu.Unlock()
	}
}

// close ends the pipeline. It waits for the requests under way, whose connection the
// caller has closed before, and for all that is waiting.
func (p *pipeline[T]) close() {
	p.mu.Lock()
	p.closed = true
	if p.relief != nil {
		p.relief.Stop()
	}
	p.mu.Unlock()
	p.wg.Wait()
}
