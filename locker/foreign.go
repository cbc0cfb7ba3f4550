package locker

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// A ForeignError says what is at a lock's key instead of a lock, or at a key that this library
// keeps beside the lock's key. It matches ErrForeign.
type ForeignError struct {
	Name string // as given to [Client.Mutex]
	// Type is "mutex", "reentrant lock" or "read-write lock" for a lock of that kind, and
	// otherwise the server's name for the value's type: "string", "hash", …
	//
	// It is "hold", "fencing token" or "side key" if somebody has written to that part of the
	// lock what this library does not write.
	Type string
	// Remaining is how long the server keeps the value unless somebody renews it, 0 if it never
	// expires. For the parts of a lock it is 0, too, and on a quorum it is what one of the
	// nodes says.
	Remaining time.Duration

	err error // the server's reply, if that was an error
}

func (e *ForeignError) Error() string {
	switch {
	case e.err != nil:
		return fmt.Sprintf("locker: somebody has written to the keys of %q%s what this library does not, which has left a broken %s; see docs/format.md, and delete it", e.Name, e.where(), e.Type)
	case strings.HasSuffix(e.Type, "lock") || e.Type == "mutex":
		return fmt.Sprintf("locker: the key of %q holds a %s; use the same kind of lock everywhere, or another name", e.Name, e.Type)
	case e.Remaining > 0:
		return fmt.Sprintf("locker: the key of %q holds a %s that is not a lock of this library and expires in %v unless renewed; wait for that, or use another name", e.Name, e.Type, e.Remaining)
	case e.Type == "string":
		return fmt.Sprintf("locker: the key of %q holds a string that is not a lock of this library and never expires; delete it, or use another name", e.Name)
	}
	return fmt.Sprintf("locker: the key of %q holds a %s, which is not a lock of this library; delete it, or use another name", e.Name, e.Type)
}

// where names the nodes of a quorum that have said so. On one deployment it is empty.
func (e *ForeignError) where() string {
	vote, ok := errors.AsType[*QuorumError](e.err)
	if !ok {
		return ""
	}
	var nodes []string
	for _, v := range vote.Votes {
		if _, foreign := foreignReply(e.Name, v.Err); foreign {
			nodes = append(nodes, fmt.Sprintf("node %d", v.Node))
		}
	}
	return " on " + strings.Join(nodes, ", ")
}

// Is reports whether target is ErrForeign.
func (e *ForeignError) Is(target error) bool { return target == ErrForeign }

// Unwrap returns the server's reply, if that was an error.
func (e *ForeignError) Unwrap() error { return e.err }

// foreignError reads what a script says of a value that is no lock of the wanted kind: what
// it is, and its PTTL where the script has looked.
func foreignError(name string, reply []any) *ForeignError {
	e := &ForeignError{Name: name}
	e.Type, _ = reply[0].(string)
	if len(reply) > 1 {
		if left, ok := reply[1].(int64); ok && left >= 0 {
			e.Remaining = remaining(left)
		}
	}
	return e
}

// remaining is a PTTL. The server rounds: 0 is less than a millisecond.
func remaining(left int64) time.Duration { return inMillis(max(left, 1)) }

// inMillis returns ms milliseconds. What somebody else has written may be more than a
// Duration can hold, which is 292 years.
func inMillis(ms int64) time.Duration {
	const most = int64(math.MaxInt64 / time.Millisecond)
	return time.Duration(min(max(ms, -most), most)) * time.Millisecond
}

// foreignReply reads the error of a script that has met something that none of our
// scripts has written. Scripts ask for the type of the record, so where a command fails
// for the type of its key, that key is one beside the record.
func foreignReply(name string, err error) (*ForeignError, bool) {
	reply, ok := errors.AsType[*driver.ServerError](err)
	if !ok {
		return nil, false
	}
	if _, what, ok := strings.Cut(reply.Message, "GL1FOREIGN "); ok {
		for _, part := range []string{"hold", "fencing token"} {
			if strings.HasPrefix(what, part) {
				return &ForeignError{Name: name, Type: part, err: err}, true
			}
		}
	}
	if strings.Contains(reply.Message, "WRONGTYPE ") {
		return &ForeignError{Name: name, Type: "side key", err: err}, true
	}
	return nil, false
}
