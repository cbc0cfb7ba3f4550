//go:build !linux

package locker

import "time"

// uptime is not known here; Valid then relies on the monotonic clock alone.
func uptime() (time.Duration, bool) { return 0, false }
