package wire

// A way is one of the two directions of a connection.
type way int

const (
	up   way = iota // to the server
	down            // to the client
	ways
)

// A gate is shut while it is not nil, and closed when it opens.
type gate chan struct{}

func (g *gate) shut() {
	if *g == nil {
		*g = make(gate)
	}
}

func (g *gate) open() {
	if *g != nil {
		close(*g)
		*g = nil
	}
}
