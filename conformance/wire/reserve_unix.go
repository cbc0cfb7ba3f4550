//go:build unix

package wire

import (
	"errors"
	"net"
	"os"
	"syscall"
	"time"
)

// A reserved port is bound, so that nobody else is given it, but not listened on: dials are refused.
type reserved struct{ socket *os.File }

// reserve takes a port of the loopback interface on which this process has listened.
func reserve(port int) (reserved, error) {
	syscall.ForkLock.RLock()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return reserved{}, err
	}
	r := reserved{os.NewFile(uintptr(fd), "reserved")}
	// The option is needed since the port's connections still exist. While it is on, others could bind as
	// this socket does.
	_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	if err := bind(fd, port); err != nil {
		r.release()
		return reserved{}, err
	}
	_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 0)
	return r, nil
}

// bind waits for children that have not started their program yet: they have inherited what was
// open here when they were forked, and still listen.
func bind(fd, port int) error {
	for begun := time.Now(); ; time.Sleep(100 * time.Microsecond) {
		err := syscall.Bind(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
		if !errors.Is(err, syscall.EADDRINUSE) || time.Since(begun) > 10*time.Second {
			return err
		}
	}
}

// listen listens on the port. The port is not free for a moment in between.
func (r reserved) listen() (net.Listener, error) {
	defer r.release()
	fd := int(r.socket.Fd())
	_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	if err := syscall.Listen(fd, syscall.SOMAXCONN); err != nil {
		return nil, err
	}
	return net.FileListener(r.socket)
}

func (r reserved) release() { _ = r.socket.Close() }
