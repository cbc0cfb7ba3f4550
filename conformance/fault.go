package conformance

import "github.com/golocker/golocker/conformance/wire"

// A fault is an Action with a name, and what a driver may have to do about it.
type fault struct {
	name   string
	action wire.Action
	hint   string
}

var (
	cutReply   = fault{"wire.CutReply", wire.CutReply, ""}
	halfReply  = fault{"wire.HalfReply", wire.HalfReply, ""}
	cutRequest = fault{"wire.CutRequest", wire.CutRequest, ""}
	silence    = fault{"wire.Silence", wire.Silence, "; the driver has to notice within Config.Timeout that a connection is dead, and use another one"}
)
