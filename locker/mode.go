package locker

// A mode is how a lock is taken. The letters stand in the records.
type mode byte

const (
	modeMutex     mode = 'm'
	modeReentrant mode = 'x'
	modeRead      mode = 'r'
	modeWrite     mode = 'w'
)

// owned reports whether leases have an owner who can re-enter.
func (m mode) owned() bool { return m != modeMutex }

func (m mode) family() *family {
	if m.owned() {
		return &holdFamily
	}
	return &mutexFamily
}

// A Mode tells how a lock is held.
type Mode string

const (
	Exclusive Mode = "exclusive" // by a mutex, reentrant or not
	Writing   Mode = "writing"   // by a writer: exclusively
	Reading   Mode = "reading"   // by a reader: shared with others
)

func (m mode) public() Mode {
	switch m {
	case modeRead:
		return Reading
	case modeWrite:
		return Writing
	}
	return Exclusive
}
