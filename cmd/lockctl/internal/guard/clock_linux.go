package guard

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// now returns the present instant.
func now() instant { return instant(read(unix.CLOCK_BOOTTIME)) }

func read(clock int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		panic(fmt.Sprintf("guard: no clock %d: %v", clock, err)) // Linux has had both since 2.6.39
	}
	return time.Duration(t.Nano())
}

// asleep is how long the machine has been suspended since it was started.
func asleep() time.Duration {
	// In this order a suspension between the two readings makes the result too short,
	// which errs on the safe side.
	boot := read(unix.CLOCK_BOOTTIME)
	return boot - read(unix.CLOCK_MONOTONIC)
}

// A translator makes instants of the times of package time, which do not know of
// suspensions.
type translator struct {
	asleep time.Duration // as it was at the last call
}

// instant returns the instant of t, or one a little earlier. t has become known since the last
// call: any sleep of the machine since that call may have come after t was known.
func (c *translator) instant(t time.Time) instant {
	mono := read(unix.CLOCK_MONOTONIC)
	i := instant(mono + time.Until(t) + c.asleep)
	c.asleep = asleep()
	return i
}

// An alarm rings at an instant, at once if the machine was suspended beyond it.
type alarm struct {
	C    chan struct{}
	file *os.File
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("guard: timer: %w", err)
	}
	a := &alarm{C: make(chan struct{}), file: os.NewFile(uintptr(fd), "timer")}
	go a.ring()
	return a, nil
}

func (a *alarm) ring() {
	var expirations [8]byte
	for {
		if _, err := a.file.Read(expirations[:]); errors.Is(err, os.ErrClosed) {
			return
		}
		a.C <- struct{}{}
	}
}

// set makes the alarm ring at i, and no more at the instant that was set before.
func (a *alarm) set(i instant) error {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(int64(i), 1))} // 0 would be never
	conn, err := a.file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) { failed = unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME, &spec, nil) })
	return errors.Join(err, failed)
}
