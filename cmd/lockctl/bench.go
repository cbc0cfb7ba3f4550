package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/golocker/golocker/locker"
)

// benchTTL is the TTL of the locks that bench takes: what an interrupted bench leaves behind
// is soon gone.
const benchTTL = 10 * time.Second

// A benchView is what lockctl bench measures.
type benchView struct {
	Driver  string        `json:"driver"`
	Free    []rateView    `json:"free"`
	HandOff *durationView `json:"hand_off"`
}

// A rateView is how many free locks a number of goroutines take and give up per second.
type rateView struct {
	Goroutines int     `json:"goroutines"`
	PerSecond  float64 `json:"locks_per_second"`
	durationView
}

// A durationView is how long something took, in microseconds.
type durationView struct {
	Count  int     `json:"count"`
	Median float64 `json:"median_us"`
	P99    float64 `json:"p99_us"`
}

func (t *tool) benchCommand() *cobra.Command {
	var each time.Duration
	var goroutines []int
	var fenced bool
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure locks per second and hand-over on your server",
		Long: `Bench measures, from this machine and on the server given:

  free      goroutines that each take a free lock of their own and give it up
  hand-off  from one client's Unlock to the return of Lock in another that waits

It takes locks of random names that begin with lockctl:bench:, and loads the
server as heavily as it can while it runs.`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if each <= 0 {
				return usage("--duration %v: use a positive one", each)
			}
			if slices.ContainsFunc(goroutines, func(n int) bool { return n < 1 || n > 10000 }) {
				return usage("--goroutines: use numbers from 1 to 10000")
			}
			if err := t.target.settle(); err != nil {
				return err
			}
			opts := []locker.ClientOption{locker.TTL(t.target.within(benchTTL))}
			if fenced {
				opts = append(opts, locker.Fenced())
			}
			b := &bench{tool: t, opts: opts, each: each, name: "lockctl:bench:" + rand.Text() + ":"}
			view, err := b.run(cmd.Context(), goroutines)
			if err != nil {
				return err
			}
			if t.json {
				return t.writeJSON(view)
			}
			return b.write(view)
		},
	}
	cmd.Flags().DurationVar(&each, "duration", 2*time.Second, "how long each measurement takes")
	cmd.Flags().IntSliceVar(&goroutines, "goroutines", []int{1, 16, 128}, "numbers of goroutines that take free locks")
	cmd.Flags().BoolVar(&fenced, "fenced", false, "with fencing tokens")
	return cmd
}

// A bench measures one server.
type bench struct {
	*tool
	opts []locker.ClientOption
	each time.Duration
	name string
}

func (b *bench) run(ctx context.Context, goroutines []int) (benchView, error) {
	client, err := b.target.open(b.opts...)
	if err != nil {
		return benchView{}, err
	}
	defer client.Close()
	view := benchView{Driver: b.target.driver, Free: []rateView{}}
	for _, n := range goroutines {
		rate, err := b.free(ctx, client, n)
		if err != nil {
			return view, err
		}
		view.Free = append(view.Free, rate)
	}
	other, err := b.target.open(b.opts...)
	if err != nil {
		return view, err
	}
	defer other.Close()
	handOff, err := b.handOff(ctx, client, other)
	view.HandOff = &handOff
	return view, err
}

// free measures n goroutines that take locks nobody else wants.
func (b *bench) free(ctx context.Context, client *locker.Client, n int) (rateView, error) {
	// The first request connects.
	if err := pair(ctx, client.Mutex(b.name+"first")); err != nil {
		return rateView{}, err
	}
	took := make([][]time.Duration, n)
	errs := make([]error, n)
	var all sync.WaitGroup
	begun := time.Now()
	for i := range n {
		all.Go(func() {
			mutex := client.Mutex(fmt.Sprint(b.name, i))
			for time.Since(begun) < b.each && errs[i] == nil {
				at := time.Now()
				errs[i] = pair(ctx, mutex)
				took[i] = append(took[i], time.Since(at))
			}
		})
	}
	all.Wait()
	elapsed := time.Since(begun)
	if err := cmp.Or(errs...); err != nil { // most likely all say the same
		return rateView{}, err
	}
	times := slices.Concat(took...)
	return rateView{Goroutines: n, PerSecond: float64(len(times)) / elapsed.Seconds(), durationView: durations(times)}, nil
}

func pair(ctx context.Context, m *locker.Mutex) error {
	lease, err := m.TryLock(ctx)
	if err != nil {
		return err
	}
	return lease.Unlock(ctx)
}

// handOff measures how long the lock is nobody's between two clients.
func (b *bench) handOff(ctx context.Context, holder, waiter *locker.Client) (durationView, error) {
	var times []time.Duration
	name := b.name + "hand-off"
	for begun := time.Now(); time.Since(begun) < b.each; {
		lease, err := holder.Mutex(name).Lock(ctx)
		if err != nil {
			return durationView{}, err
		}
		took, err := passOn(ctx, lease, holder, waiter.Mutex(name))
		if err != nil {
			return durationView{}, err
		}
		times = append(times, took)
	}
	return durations(times), nil
}

func durations(times []time.Duration) durationView {
	if len(times) == 0 {
		return durationView{}
	}
	slices.Sort(times)
	at := func(q float64) float64 {
		return float64(times[min(int(q*float64(len(times))), len(times)-1)].Nanoseconds()) / 1000
	}
	return durationView{Count: len(times), Median: at(0.5), P99: at(0.99)}
}

func (b *bench) write(v benchView) error {
	table := tabwriter.NewWriter(b.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "measurement\tgoroutines\tlocks/s\tmedian\tp99\t")
	for _, r := range v.Free {
		fmt.Fprintf(table, "free\t%d\t%.0f\t%s\t%s\t\n", r.Goroutines, r.PerSecond, micros(r.Median), micros(r.P99))
	}
	fmt.Fprintf(table, "hand-off\t2\t-\t%s\t%s\t\n", micros(v.HandOff.Median), micros(v.HandOff.P99))
	return table.Flush()
}

// micros is a time in microseconds as people like to read it.
func micros(us float64) string {
	if us >= 10000 {
		return fmt.Sprintf("%.1f ms", us/1000)
	}
	return fmt.Sprintf("%.0f µs", us)
}
