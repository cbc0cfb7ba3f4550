package locker

import (
	"bytes"
	"os"
	"strconv"
	"sync/atomic"
	"time"
)

// procUptime counts from boot and, unlike the monotonic clock, runs on while the
// machine is suspended. It resolves 10 ms. The file stays open for the life of
// the process, from when that has a descriptor to spare: at the first lock it may have none.
var procUptime atomic.Pointer[os.File]

func openUptime() *os.File {
	if f := procUptime.Load(); f != nil {
		return f
	}
	f, err := os.Open("/proc/uptime")
	if err != nil {
		return nil
	}
	if !procUptime.CompareAndSwap(nil, f) {
		_ = f.Close()
	}
	return procUptime.Load()
}

func uptime() (time.Duration, bool) {
	f := openUptime()
	if f == nil {
		return 0, false
	}
	var buf [64]byte
	n, _ := f.ReadAt(buf[:], 0)
	text, _, _ := bytes.Cut(buf[:n], []byte(" "))
	seconds, err := strconv.ParseFloat(string(text), 64)
	return time.Duration(seconds * float64(time.Second)), err == nil
}
