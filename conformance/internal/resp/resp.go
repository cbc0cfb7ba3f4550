// Package resp reads and writes the Redis protocol, versions 2 and 3, for the
// conformance suite and its wire. It keeps frames as the bytes they were, so
// that the wire passes on exactly what it got.
package resp

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/golocker/golocker/locker/driver"
)

// maxBulk is the largest bulk string a server accepts or sends by default.
const maxBulk = 512 << 20

// A ProtocolError tells that the peer does not speak the protocol.
type ProtocolError string

// Error returns the text.
func (e ProtocolError) Error() string { return "resp: " + string(e) }

// ReadFrame reads one frame, nested elements and a leading attribute included,
// and returns its bytes. At the end of the stream it returns [io.EOF], inside a
// frame [io.ErrUnexpectedEOF].
func ReadFrame(r *bufio.Reader) ([]byte, error) {
	return appendFrame(nil, r)
}

func appendFrame(frame []byte, r *bufio.Reader) ([]byte, error) {
	start := len(frame)
	line, err := r.ReadSlice('\n')
	frame = append(frame, line...)
	for err == bufio.ErrBufferFull {
		line, err = r.ReadSlice('\n')
		frame = append(frame, line...)
	}
	switch {
	case err == io.EOF && len(frame) > 0:
		return nil, io.ErrUnexpectedEOF
	case err != nil:
		return nil, err
	}
	head := frame[start:]
	if len(head) < 3 || head[len(head)-2] != '\r' {
		return nil, ProtocolError("a line does not end with CRLF")
	}
	kind, rest := head[0], head[1:len(head)-2]
	switch kind {
	case '+', '-', ':', ',', '_', '#', '(':
		return frame, nil
	case '$', '=', '!':
		n, err := length(rest)
		if err != nil || n < 0 {
			return frame, err
		}
		body := len(frame)
		frame = append(frame, make([]byte, n+2)...)
		if _, err := io.ReadFull(r, frame[body:]); err != nil {
			return nil, inside(err)
		}
		return frame, nil
	case '*', '~', '>', '%', '|':
		n, err := length(rest)
		if err != nil {
			return nil, err
		}
		switch kind {
		case '%':
			n *= 2
		case '|':
			n = n*2 + 1 // an attribute stands before the value it belongs to
		}
		for range n {
			if frame, err = appendFrame(frame, r); err != nil {
				return nil, inside(err)
			}
		}
		return frame, nil
	}
	return nil, ProtocolError(fmt.Sprintf("a frame begins with %q", kind))
}

func length(digits []byte) (int, error) {
	n, err := strconv.Atoi(string(digits))
	if err != nil || n < -1 || n > maxBulk {
		return 0, ProtocolError(fmt.Sprintf("bad length %.20q", digits))
	}
	return n, nil
}

func inside(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Parse turns a frame from [ReadFrame] into a [driver.Value] by the rules of the
// contract. An error reply is a [*driver.ServerError], nested or not.
func Parse(frame []byte) (driver.Value, error) {
	v, rest, err := parse(frame)
	if err == nil && len(rest) > 0 {
		err = ProtocolError("bytes after a frame")
	}
	return v, err
}

func parse(b []byte) (driver.Value, []byte, error) {
	end := 0
	for end+1 < len(b) && (b[end] != '\r' || b[end+1] != '\n') {
		end++
	}
	if end == 0 || end+1 >= len(b) {
		return nil, nil, ProtocolError("a line is cut off")
	}
	kind, line, rest := b[0], b[1:end], b[end+2:]
	switch kind {
	case '+', ',', '(':
		return string(line), rest, nil
	case '-':
		return driver.NewServerError(string(line)), rest, nil
	case ':':
		n, err := strconv.ParseInt(string(line), 10, 64)
		if err != nil {
			return nil, nil, ProtocolError(fmt.Sprintf("bad integer %.20q", line))
		}
		return n, rest, nil
	case '_':
		return nil, rest, nil
	case '#':
		if string(line) == "t" {
			return int64(1), rest, nil
		}
		return int64(0), rest, nil
	}
	n, err := length(line)
	if err != nil {
		return nil, nil, err
	}
	if n < 0 {
		return nil, rest, nil
	}
	switch kind {
	case '$', '=', '!':
		if len(rest) < n+2 {
			return nil, nil, ProtocolError("a string is cut off")
		}
		s := string(rest[:n])
		rest = rest[n+2:]
		switch {
		case kind == '!':
			return driver.NewServerError(s), rest, nil
		case kind == '=' && len(s) >= 4:
			return s[4:], rest, nil // without the format, "txt:"
		}
		return s, rest, nil
	case '|':
		for range 2 * n {
			if _, rest, err = parse(rest); err != nil {
				return nil, nil, err
			}
		}
		return parse(rest)
	case '%':
		n *= 2
	case '*', '~', '>':
	default:
		return nil, nil, ProtocolError(fmt.Sprintf("a frame begins with %q", kind))
	}
	list := make([]any, 0, min(n, math.MaxUint16))
	for range n {
		var v driver.Value
		if v, rest, err = parse(rest); err != nil {
			return nil, nil, err
		}
		list = append(list, v)
	}
	return list, rest, nil
}

// Strings returns the elements of a request.
func Strings(frame []byte) ([]string, error) {
	v, err := Parse(frame)
	if err != nil {
		return nil, err
	}
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return nil, ProtocolError("a request is not an array")
	}
	args := make([]string, len(list))
	for i, e := range list {
		if args[i], ok = e.(string); !ok {
			return nil, ProtocolError("a request holds something that is not a string")
		}
	}
	return args, nil
}

// AppendCommand appends the request args to b.
func AppendCommand(b []byte, args ...string) []byte {
	b = append(b, '*')
	b = strconv.AppendInt(b, int64(len(args)), 10)
	b = append(b, "\r\n"...)
	for _, arg := range args {
		b = append(b, '$')
		b = strconv.AppendInt(b, int64(len(arg)), 10)
		b = append(b, "\r\n"...)
		b = append(b, arg...)
		b = append(b, "\r\n"...)
	}
	return b
}
