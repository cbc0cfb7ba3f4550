package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker/driver"
)

// cmd is a command whose only key is its first argument.
func cmd(args ...string) driver.Command {
	return driver.Command{Args: args, FirstKey: 1, NumKeys: 1}
}

// plain is a command without keys.
func plain(args ...string) driver.Command { return driver.Command{Args: args} }

// script is an EVAL with keys.
func script(source string, keys []string, args ...string) driver.Command {
	all := append([]string{"EVAL", source, fmt.Sprint(len(keys))}, keys...)
	return driver.Command{Args: append(all, args...), FirstKey: 3, NumKeys: len(keys)}
}

// do calls Do and checks what holds for every call.
func (k *kit) do(ctx context.Context, conn driver.Conn, c driver.Command) (driver.Value, error) {
	before := slices.Clone(c.Args)
	v, err := conn.Do(ctx, c)
	if !slices.Equal(before, c.Args) {
		k.Errorf("Do changed the arguments of %v", c)
	}
	k.record(before, err)
	k.checkOpen(conn, err)
	return v, err
}

// checkOpen holds every call to the clause that only a Conn which is closed says that it is: a caller
// that is told so does not try again.
func (k *kit) checkOpen(conn driver.Conn, err error) {
	if errors.Is(err, driver.ErrClosed) && k.isOpen(conn) {
		k.Errorf("a call gave %q, which matches %q, and nobody has closed the Conn: that one of its connections is, or could not be made, has to be told as something else",
			err, driver.ErrClosed)
	}
}

// doBatch is do for DoBatch.
func (k *kit) doBatch(ctx context.Context, conn driver.Conn, cmds []driver.Command) []driver.Result {
	b, ok := conn.(driver.Batcher)
	if !ok {
		k.Fatalf("the Conn is no driver.Batcher; Harness.Capabilities says it is")
	}
	results := b.DoBatch(ctx, cmds)
	for i, r := range results {
		if i < len(cmds) {
			k.record(cmds[i].Args, r.Err)
			k.checkOpen(conn, r.Err)
		}
	}
	for _, c := range cmds[min(len(cmds), len(results)):] {
		k.record(c.Args, nil)
	}
	if len(results) != len(cmds) {
		k.Fatalf("DoBatch of %d commands gave %d results", len(cmds), len(results))
	}
	return results
}

func (k *kit) record(args []string, err error) {
	k.checkText(err)
	n := 1
	if driver.OutcomeOf(err) == driver.OutcomeNotSent {
		n = 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls[commandKey(args)] += n
}

// checkText holds every error to the clause that it shows no password, of all those that the driver
// was given in this case.
func (k *kit) checkText(err error) {
	if err == nil {
		return
	}
	k.mu.Lock()
	given := slices.Clone(k.given)
	k.mu.Unlock()
	for _, password := range given {
		k.hides(err, password)
	}
}

// must calls Do and ends the case if it fails.
func (k *kit) must(conn driver.Conn, c driver.Command) driver.Value {
	ctx, cancel := context.WithTimeout(k.ctx, k.time.bound)
	defer cancel()
	v, err := k.do(ctx, conn, c)
	if err != nil {
		k.Fatalf("Do(%v) = %v; want success", c, err)
	}
	return v
}

// A call is a call that runs in the background.
type call struct {
	value driver.Value
	err   error
	took  time.Duration
	done  chan struct{}

	panicked bool
}

// background starts f and returns at once.
func (k *kit) background(f func() (driver.Value, error)) *call {
	c := &call{done: make(chan struct{})}
	start := time.Now()
	go func() {
		defer close(c.done)
		defer k.recover("a call")
		c.panicked = true
		c.value, c.err = f()
		c.panicked = false
		c.took = time.Since(start)
	}()
	return c
}

// parallel runs f n times at once and waits.
func (k *kit) parallel(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			defer k.recover("a call")
			f(i)
		})
	}
	all.Wait()
}

// recover, deferred, makes a panic of the driver a failure of the case.
func (k *kit) recover(what string) {
	if p := recover(); p != nil {
		if !k.testCase.lock {
			k.bar(&k.panicked, "the driver panicked in the case %s: %v. At the levels of locks that would end the process "+
				"of the tests, so that their cases are not run", k.testCase.name, p)
		}
		k.Errorf("%s panicked: %v\n%s", what, p, debug.Stack())
	}
}

// start calls Do in the background.
func (k *kit) startDo(ctx context.Context, conn driver.Conn, c driver.Command) *call {
	return k.background(func() (driver.Value, error) { return k.do(ctx, conn, c) })
}

// wait waits for a background call and ends the case if it takes too long.
func (k *kit) wait(c *call, within time.Duration, what string) {
	k.await(c.done, within, what+" has not returned")
}

// await waits for ch and ends the case if that takes too long. In real time many short waits make up the
// whole: each counts for as long as it should have taken, and whatever keeps this process, or the machine,
// from running keeps the one that is waited for from running as well.
func (k *kit) await(ch <-chan struct{}, within time.Duration, complaint string) {
	step := within
	if k.realTime() {
		step = min(step, 10*time.Millisecond)
	}
	for left := within; left > 0; left -= step {
		select {
		case <-ch:
			return
		case <-time.After(step):
		}
	}
	if k.realTime() {
		select {
		case <-ch: // both were there when this process got a processor again
			return
		default:
		}
	}
	k.Fatalf("%s after %v", complaint, within)
}

// eventually polls until ok and reports whether that was in time.
func (k *kit) eventually(within time.Duration, ok func() bool) bool {
	for end := time.Now().Add(within); ; time.Sleep(5 * time.Millisecond) {
		if ok() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

// outcome checks what an error says about the execution of its command.
func (k *kit) outcome(what string, err error, want driver.Outcome) {
	if err == nil {
		k.Errorf("%s succeeded; want an error with the outcome %q", what, want)
	} else if got := driver.OutcomeOf(err); got != want {
		complain := k.never
		if got == driver.OutcomeUnknown {
			complain = k.Errorf // it says less than it could
		}
		complain("%s: the outcome of %q is %q; want %q", what, err, got, want)
	}
}

// is checks that err matches target.
func (k *kit) is(what string, err, target error) {
	if !errors.Is(err, target) {
		k.Errorf("%s gave %v; want an error that matches %q", what, err, target)
	}
}

// checkCalls holds every case to two clauses: a command is written at most once,
// and not at all when its error is marked NotSent.
func (k *kit) checkCalls() {
	written := map[string]int{}
	for _, r := range k.wire.Requests(wire.Match{Arg: k.prefix}) {
		written[commandKey(r.Args)]++
	}
	k.mu.Lock()
	calls := maps.Clone(k.calls)
	k.mu.Unlock()
	for key, n := range calls {
		if written[key] > n {
			k.never("%s was given to the driver %d times (calls marked NotSent not counted) and written %d times",
				shorten(key), n, written[key])
		}
	}
}

func commandKey(args []string) string { return strings.Join(args, " ") }

func shorten(s string) string {
	if len(s) > 100 {
		return fmt.Sprintf("%.80q… (%d bytes)", s, len(s))
	}
	return fmt.Sprintf("%q", s)
}
