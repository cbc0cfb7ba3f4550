package servertest

import (
	"errors"
	"net"
	"os"
	"strconv"
	"sync/atomic"
)

// Ports are taken in turn from a range below the one that systems take the
// source ports of outgoing connections from, and each test process begins at
// another place. So the port of a server that is down for a moment is not taken
// by a client's connection or by another test's server, and Restart gets it back.
const (
	firstPort = 10000
	portCount = 20000
	perTest   = 50 // ports that a process can use before it meets the next one's
)

var portsTaken atomic.Int64

// freePort returns a port of 127.0.0.1 that nothing listens on. Something may by
// the time the server does, hence errPortTaken.
func freePort() (int, error) {
	for range portCount {
		n := int64(os.Getpid())*perTest + portsTaken.Add(1)
		port := firstPort + int(n%portCount)
		l, err := net.Listen("tcp", address(port))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return 0, err
		}
		return port, nil
	}
	return 0, errors.New("servertest: no free port on 127.0.0.1")
}

func address(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
