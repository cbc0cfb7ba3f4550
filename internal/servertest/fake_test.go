//go:build unix

package servertest

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// fakeTB is a test whose end can be looked at from outside.
type fakeTB struct {
	testing.TB // for what is not overridden

	mu       sync.Mutex
	cleanups []func()
	failed   bool
	skipped  bool
	said     string
}

// runFake runs f as a test, with its cleanups, and returns what became of it.
func runFake(t *testing.T, f func(tb testing.TB)) *fakeTB {
	t.Helper()
	fake := &fakeTB{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for i := len(fake.cleanups) - 1; i >= 0; i-- {
				fake.cleanups[i]()
			}
		}()
		f(fake)
	}()
	<-done
	return fake
}

func (f *fakeTB) Cleanup(g func())             { f.cleanups = append(f.cleanups, g) }
func (f *fakeTB) Failed() bool                 { return f.failed }
func (f *fakeTB) Error(args ...any)            { f.fail(fmt.Sprint(args...)) }
func (f *fakeTB) Errorf(s string, args ...any) { f.fail(fmt.Sprintf(s, args...)) }
func (f *fakeTB) Logf(s string, args ...any)   { f.say(fmt.Sprintf(s, args...)) }

func (f *fakeTB) Fatal(args ...any) {
	f.fail(fmt.Sprint(args...))
	runtime.Goexit()
}

func (f *fakeTB) Fatalf(s string, args ...any) {
	f.fail(fmt.Sprintf(s, args...))
	runtime.Goexit()
}

func (f *fakeTB) Skipf(s string, args ...any) {
	f.say(fmt.Sprintf(s, args...))
	f.skipped = true
	runtime.Goexit()
}

func (f *fakeTB) fail(text string) {
	f.say(text)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed = true
}

func (f *fakeTB) say(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.said += text + "\n"
}
