package nemesis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/golocker/golocker/internal/servertest"
)

// ballastDB is a database of a server that no lock is in.
const ballastDB = "15"

// talk sends commands, in the form that a person types them, over a connection of its own
// and waits for the replies, which are no arrays. A refusal is an error, see isRefusal.
func talk(ctx context.Context, srv *servertest.Server, commands ...string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", srv.Socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	replies := bufio.NewReader(conn)
	for _, command := range commands {
		if _, err := fmt.Fprintf(conn, "%s\r\n", command); err != nil {
			return err
		}
		reply, err := replies.ReadString('\n')
		if err != nil {
			return err
		}
		if text, refused := strings.CutPrefix(reply, "-"); refused {
			return fmt.Errorf("%s: %w", command, servertest.ReplyError(strings.TrimSpace(text)))
		}
	}
	return nil
}

// isRefusal returns the code of an error that a server has replied.
func isRefusal(err error) (code string, ok bool) {
	refusal, ok := errors.AsType[servertest.ReplyError](err)
	code, _, _ = strings.Cut(string(refusal), " ")
	return code, ok
}

// set changes a server's configuration: names and values in turn.
func set(srv *servertest.Server, config ...string) error {
	_, err := srv.Do(append([]string{"CONFIG", "SET"}, config...)...)
	return err
}
