package aside_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/aside"
)

// A task sleeps and then says so.
type task struct {
	sleep time.Duration
	done  chan struct{}
}

func newTask(sleep time.Duration) *task { return &task{sleep, make(chan struct{}, 1)} }

func (t *task) Run() {
	time.Sleep(t.sleep)
	t.done <- struct{}{}
}

func TestCrewCallReturnsWhenTheTaskHasRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var crew aside.Crew
		defer crew.Close()
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				for range 3 {
					task := newTask(time.Second)
					assert.NoError(t, crew.Call(t.Context(), nil, task))
					assert.Len(t, task.done, 1)
				}
			})
		}
		begun := time.Now()
		wg.Wait()
		assert.Equal(t, 3*time.Second, time.Since(begun), "they wait for their own tasks only")
	})
}

func TestCrewCallReturnsAtTheEndOfCtxOrDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var crew aside.Crew
		defer crew.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		slow := newTask(time.Hour)
		begun := time.Now()
		assert.ErrorIs(t, crew.Call(ctx, nil, slow), context.DeadlineExceeded)
		assert.Equal(t, time.Minute, time.Since(begun))

		done := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(done) })
		other := newTask(time.Hour)
		begun = time.Now()
		assert.ErrorIs(t, crew.Call(t.Context(), done, other), driver.ErrClosed)
		assert.Equal(t, time.Second, time.Since(begun))

		assert.NoError(t, crew.Call(t.Context(), nil, newTask(0)), "not behind those that are slow")
		<-slow.done // goes on alone
		<-other.done
		assert.NoError(t, crew.Call(t.Context(), nil, newTask(0)))
	})
}

func TestCrewPrefersAKnownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var crew aside.Crew
		defer crew.Close()
		for range 1000 { // the task and ctx end at the same moment
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			task := newTask(time.Millisecond)
			if err := crew.Call(ctx, nil, task); err != nil {
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				<-task.done
			}
			cancel()
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		task := newTask(0)
		if crew.Call(ctx, nil, task) != nil {
			<-task.done
		}
	})
}

func TestCrewPrefersAnOutcomeThatComesTogetherWithTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var crew aside.Crew
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 100 { // which of the two is seen first is by chance
			task := newTask(0)
			assert.NoError(t, crew.Call(atOnce{ctx}, nil, task))
			assert.Len(t, task.done, 1)
		}
		crew.Close() // the bubble ends only if all goroutines do
	})
}

func TestCrewKeepsAFewGoroutinesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var crew aside.Crew
		defer crew.Close()
		before := runtime.NumGoroutine()
		var tasks []*task
		for range 100 {
			tasks = append(tasks, newTask(time.Second))
			crew.Go(tasks[len(tasks)-1])
		}
		for _, task := range tasks {
			<-task.done
		}
		synctest.Wait()
		assert.Less(t, runtime.NumGoroutine()-before, 20) // goroutines of others are among them
	})
}

func TestCrewAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var crew aside.Crew
		assert.NoError(t, crew.Call(t.Context(), nil, newTask(0)))
		crew.Close()
		crew.Close()
		assert.NoError(t, crew.Call(t.Context(), nil, newTask(0)))
	})
}

// A Crew keeps its goroutines from call to call.
func TestCrewCallDoesNotAllocate(t *testing.T) {
	var crew aside.Crew
	defer crew.Close()
	task := &idleTask{}
	assert.LessOrEqual(t, testing.AllocsPerRun(1000, func() { _ = crew.Call(t.Context(), nil, task) }), 0.1)
}

type idleTask struct{}

func (*idleTask) Run() {}

// asideAlready is a ctx whose call is made aside already.
type asideAlready struct{ context.Context }

func (asideAlready) Aside() {}

func TestCrewCallIsMadeHereIfThatIsAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var crew aside.Crew
		defer crew.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		task := newTask(time.Minute)
		assert.NoError(t, crew.Call(asideAlready{ctx}, nil, task), "it has run")
		assert.Len(t, task.done, 1)
		assert.Equal(t, time.Minute, time.Since(begun))
	})
}

func TestCrewGoDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var crew aside.Crew
		tasks := make([]*task, 20)
		begun := time.Now()
		for range 2 {
			for i := range tasks {
				tasks[i] = newTask(time.Second)
				crew.Go(tasks[i])
			}
			assert.NoError(t, crew.Call(t.Context(), nil, newTask(0)), "not behind the others")
			for _, task := range tasks {
				<-task.done
			}
		}
		assert.Equal(t, 2*time.Second, time.Since(begun), "beside each other")
		crew.Close() // the bubble ends only if all goroutines do
	})
}
