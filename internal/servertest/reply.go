package servertest

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
)

// A ReplyError is an error that the server replied.
type ReplyError string

func (e ReplyError) Error() string { return string(e) }

// readReply reads one RESP2 reply: nil, int64, string, []any of these, or a
// ReplyError.
func readReply(r *bufio.Reader) (any, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return nil, fmt.Errorf("servertest: malformed reply %q", line)
	}
	kind, rest := line[0], line[1:len(line)-2]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return ReplyError(rest), nil
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("servertest: malformed reply %q", line)
	}
	switch {
	case kind == ':':
		return n, nil
	case kind == '$' && n < 0, kind == '*' && n < 0:
		return nil, nil
	case kind == '$':
		data := make([]byte, n+2)
		if _, err := io.ReadFull(r, data); err != nil {
			return nil, err
		}
		return string(data[:n]), nil
	case kind == '*':
		items := make([]any, n)
		for i := range items {
			if items[i], err = readReply(r); err != nil {
				return nil, err
			}
		}
		return items, nil
	}
	return nil, fmt.Errorf("servertest: reply of unknown type %q", line)
}

// appendCommand appends the command in RESP.
func appendCommand(b []byte, args []string) []byte {
	b = fmt.Appendf(b, "*%d\r\n", len(args))
	for _, arg := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return b
}
