package grafana

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker"
)

var (
	picture = flag.Duration("picture", 0, "work for so `long`; then run the command in the arguments, with the address of the dashboard after them")
	built   = flag.String("built", "render/dist", "the `folder` of the page that draws the dashboard")
)

// make dashboard takes the picture with this: everything that the page needs is up while the
// command runs.
func TestPicture(t *testing.T) {
	if *picture == 0 {
		t.Skip("there is no picture to take")
	}
	work := newWorkload(t)
	p := scrapes(t, work.metrics)
	address, err := url.Parse(p.url)
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/api/", httputil.NewSingleHostReverseProxy(address))
	mux.Handle("/", http.FileServer(http.Dir(*built)))
	drawn, complete := context.WithCancel(t.Context())
	mux.HandleFunc("POST /drawn", func(http.ResponseWriter, *http.Request) { complete() })
	mux.HandleFunc("GET /complete", func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-drawn.Done():
		case <-r.Context().Done():
		}
	})
	page := httptest.NewServer(mux)
	defer page.Close()

	ctx, cancel := context.WithTimeout(t.Context(), *picture)
	defer cancel()
	from := time.Now()
	work.shop(ctx, *picture)

	args := append(flag.Args(), fmt.Sprintf("%s/?scrape=1s&from=%d&to=%d", page.URL, from.UnixMilli(), time.Now().UnixMilli()))
	ctx, cancel = context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, args[0], args[1:]...)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	require.NoError(t, command.Run())
	require.Error(t, drawn.Err(), "the page has not been drawn")
}

// shop is a workload to look at: busy hours and calm ones, and some accidents. It ends with
// ctx, after about length.
func (w *workload) shop(ctx context.Context, length time.Duration) {
	began := time.Now()
	// breathe waits between two tasks: for less time in the two busy hours.
	breathe := func(most time.Duration) {
		calm := math.Pow(math.Cos(2*math.Pi*float64(time.Since(began))/float64(length)), 2)
		pause(ctx, time.Duration((0.1+0.9*calm)*(0.5+rand.Float64())*float64(most)))
	}
	var wg sync.WaitGroup
	again := func(most time.Duration, what func()) {
		wg.Go(func() {
			for ctx.Err() == nil {
				breathe(most)
				what()
			}
		})
	}
	for _, c := range w.clients {
		for range 3 {
			again(100*time.Millisecond, func() { hold(ctx, c.Mutex(fmt.Sprint("order ", rand.N(1000))), rand.N(20*time.Millisecond)) })
			again(100*time.Millisecond, func() { hold(ctx, c.Mutex("stock"), rand.N(10*time.Millisecond)) })
			again(100*time.Millisecond, func() { hold(ctx, c.Mutex("catalogue", locker.ForReading()), rand.N(50*time.Millisecond)) })
		}
		again(time.Second, func() { hold(ctx, c.Mutex("catalogue", locker.ForWriting()), rand.N(50*time.Millisecond)) })
		again(time.Second, func() { twice(ctx, c.Mutex("basket", locker.Reentrant(), locker.As(locker.NewOwner()))) })
		again(2*time.Second, func() { hold(ctx, c.Mutex(fmt.Sprint("report ", rand.N(1000))), time.Second+rand.N(4*time.Second)) })
		again(time.Second, func() { hold(ctx, c.Mutex("invoices", locker.WaitTimeout(100*time.Millisecond)), 500*time.Millisecond) })
		again(time.Second, func() {
			if lease, err := c.Mutex("stock").TryLock(ctx); err == nil {
				_ = lease.Unlock(ctx)
			}
		})
	}
	for part, accident := range map[float64]func(){
		0.30: func() { w.stops(ctx, 500*time.Millisecond) }, // renewals are late
		0.45: func() { w.loses(ctx, 3) },
		0.55: func() { w.loses(ctx, 2) },
		0.70: func() { w.stops(ctx, 1200*time.Millisecond) }, // longer than the TTL
		0.85: func() { hold(ctx, w.clients[0].Mutex("too long", locker.MaxHold(2*time.Second)), 3*time.Second) },
	} {
		wg.Go(func() {
			pause(ctx, time.Duration(part*float64(length)))
			accident()
		})
	}
	wg.Wait()
}

// twice has an owner take a lock that it has.
func twice(ctx context.Context, m *locker.Mutex) {
	lease, err := m.Lock(ctx)
	if err != nil {
		return
	}
	hold(ctx, m, 10*time.Millisecond)
	_ = lease.Unlock(context.WithoutCancel(ctx))
}

// stops has the server answer nothing for d, while somebody holds a lock.
func (w *workload) stops(ctx context.Context, d time.Duration) {
	lease, err := w.clients[0].Mutex("while it stops").Lock(ctx)
	if err != nil {
		return
	}
	w.server.Pause()
	time.Sleep(d)
	w.server.Resume()
	_ = lease.Unlock(context.WithoutCancel(ctx))
}

// loses has n locks in trouble.
func (w *workload) loses(ctx context.Context, n int) {
	for i := range n {
		w.trouble(ctx, fmt.Sprint("trouble ", i))
	}
}
