package driver

import "strconv"

// A Command is one command for the server. The zero Command is not valid.
//
// The keys are marked so that a driver for Redis Cluster can route a command that it does not
// know: they stand together in Args, and the core only sends commands whose keys share a slot.
type Command struct {
	// Args is the whole command: its name, then its arguments. They may hold
	// any bytes. A driver must neither change nor keep the slice. It refuses a
	// command without a name, as not sent.
	Args []string

	// FirstKey is the index of the first key in Args, NumKeys how many keys
	// follow one another from there. A command without keys has NumKeys 0; it
	// may be sent to any master.
	FirstKey int
	NumKeys  int
}

// Keys returns the keys of the command as a part of Args.
func (c Command) Keys() []string {
	return c.Args[c.FirstKey : c.FirstKey+c.NumKeys]
}

// Name returns the first word of the command, as it was given.
func (c Command) Name() string {
	if len(c.Args) == 0 {
		return ""
	}
	return c.Args[0]
}

// String returns the name and the number of arguments. It leaves out the
// arguments, which may be long, binary or private.
func (c Command) String() string {
	return c.Name() + "[" + strconv.Itoa(max(0, len(c.Args)-1)) + " args]"
}
