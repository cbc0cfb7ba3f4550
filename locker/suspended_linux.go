package locker

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"time"
)

// procUptime counts from boot and, unlike the monotonic clock, runs on while the
// machine is suspended. It resolves 10 ms. The file stays open for the life of
// the process.
var procUptime = sync.OnceValue(func() *os.File {
	f, err := os.Open("/proc/uptime")
	if err != nil {
		return nil
	}
	return f
})

func uptime() (time.Duration, bool) {
	f := procUptime()
	if f == nil {
		return 0, false
	}
	var buf [64]byte
	n, _ := f.ReadAt(buf[:], 0)
	text, _, _ := bytes.Cut(buf[:n], []byte(" "))
	seconds, err := strconv.ParseFloat(string(text), 64)
	return time.Duration(seconds * float64(time.Second)), err == nil
}
