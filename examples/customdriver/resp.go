package customdriver

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/golocker/golocker/locker/driver"
)

// What a reply may be at most. More is a broken or hostile server, and the
// connection is given up before it costs memory or stack.
const (
	maxLine  = 64 << 10  // bytes of a line: a status, an error, a number
	maxBulk  = 512 << 20 // bytes of a bulk string; the server's own limit
	maxItems = 1 << 20   // items of one array
	maxDepth = 128       // arrays within arrays
)

// errProtocol is what the server sent that is not RESP2, or beyond the limits.
// It shows no byte of the reply, which may be private.
type errProtocol string

func (e errProtocol) Error() string { return "protocol error: " + string(e) }

// appendCommand appends the RESP2 form of a command to dst: an array of bulk
// strings, in which every byte may occur.
func appendCommand(dst []byte, args []string) []byte {
	dst = append(dst, '*')
	dst = strconv.AppendInt(dst, int64(len(args)), 10)
	dst = append(dst, "\r\n"...)
	for _, arg := range args {
		dst = append(dst, '$')
		dst = strconv.AppendInt(dst, int64(len(arg)), 10)
		dst = append(dst, "\r\n"...)
		dst = append(dst, arg...)
		dst = append(dst, "\r\n"...)
	}
	return dst
}

// readReply reads one reply. An error reply is a *driver.ServerError among the
// values, alone or within an array; an error means that the stream is broken and
// that nothing after it can be understood.
func readReply(r *bufio.Reader) (driver.Value, error) { return readValue(r, 0) }

func readValue(r *bufio.Reader, depth int) (driver.Value, error) {
	line, err := readLine(r)
	if err != nil {
		return nil, err
	}
	if line == "" {
		return nil, errProtocol("an empty line")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return driver.NewServerError(rest), nil
	case ':':
		n, err := strconv.ParseInt(rest, 10, 64)
		if err != nil {
			return nil, errProtocol("an integer that is none")
		}
		return n, nil
	case '$':
		n, null, err := parseLen(rest, maxBulk)
		if null || err != nil {
			return nil, err
		}
		return readBulk(r, n)
	case '*':
		n, null, err := parseLen(rest, maxItems)
		if null || err != nil {
			return nil, err
		}
		if depth == maxDepth {
			return nil, errProtocol("arrays nested too deeply")
		}
		return readArray(r, n, depth+1)
	default:
		return nil, errProtocol("a reply of unknown type")
	}
}

// readLine reads up to the next CR LF and returns what stands before it.
func readLine(r *bufio.Reader) (string, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if err == nil {
			break
		}
		if err != bufio.ErrBufferFull {
			return "", err
		}
		if len(line) > maxLine {
			return "", errProtocol("a line too long")
		}
	}
	text, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok {
		return "", errProtocol("a line without CR LF")
	}
	return string(text), nil
}

// parseLen reads the length of a bulk string or an array; -1 is the null.
func parseLen(s string, limit int) (n int, null bool, err error) {
	n, err = strconv.Atoi(s)
	switch {
	case err != nil || n < -1:
		return 0, false, errProtocol("a length that is none")
	case n > limit:
		return 0, false, errProtocol(fmt.Sprintf("a length above %d", limit))
	}
	return n, n == -1, nil
}

// readBulk reads n bytes and the CR LF after them. Memory grows with what
// arrives, not with what the length promises; readArray does the same.
func readBulk(r *bufio.Reader, n int) (driver.Value, error) {
	var b strings.Builder
	if _, err := io.CopyN(&b, r, int64(n)); err != nil {
		return nil, err
	}
	if end, err := readLine(r); err != nil {
		return nil, err
	} else if end != "" {
		return nil, errProtocol("a bulk string longer than its length")
	}
	return b.String(), nil
}

func readArray(r *bufio.Reader, n, depth int) (driver.Value, error) {
	items := make([]any, 0, min(n, 64))
	for range n {
		v, err := readValue(r, depth)
		if err != nil {
			return nil, err
		}
		items = append(items, v)
	}
	return items, nil
}
