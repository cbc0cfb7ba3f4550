//go:build !unix

package wire

import (
	"net"
	"strconv"
)

// A reserved port is one that this process will listen on again. Others may be given it meanwhile.
type reserved struct{ port int }

func reserve(port int) (reserved, error) { return reserved{port}, nil }

func (r reserved) listen() (net.Listener, error) {
	return net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(r.port)))
}

func (reserved) release() {}
