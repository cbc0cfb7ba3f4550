package locker

import (
	"fmt"
	"io"
)

// Clients and leases change while they are printed, and package fmt would read them
// without their locks. Besides, each is connected to everything. So each prints what it
// is.

// Format prints the word locker.Client, whatever the verb.
func (*Client) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "locker.Client") }

// Format prints the lock's name, whatever the verb.
func (m *Mutex) Format(f fmt.State, _ rune) { _, _ = fmt.Fprintf(f, "locker.Mutex(%q)", m.name) }

// Format prints the lock's name, and why the lease is over if it is, whatever the
// verb.
func (l *Lease) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "locker.Lease(%q", l.mutex.name)
	if err := l.Err(); err != nil {
		_, _ = fmt.Fprintf(f, ", %v", err)
	}
	_, _ = io.WriteString(f, ")")
}
