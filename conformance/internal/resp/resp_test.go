package resp_test

import (
	"bufio"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/internal/resp"
	"github.com/golocker/golocker/locker/driver"
)

var frames = map[string]driver.Value{
	"+OK\r\n":                             "OK",
	"+\r\n":                               "",
	":-7\r\n":                             int64(-7),
	":9223372036854775807\r\n":            int64(1<<63 - 1),
	"$-1\r\n":                             nil,
	"*-1\r\n":                             nil,
	"_\r\n":                               nil,
	"$0\r\n\r\n":                          "",
	"$4\r\na\r\nb\r\n":                    "a\r\nb",
	"#t\r\n":                              int64(1),
	"#f\r\n":                              int64(0),
	",1.5e3\r\n":                          "1.5e3",
	"(123456789012345678901234567890\r\n": "123456789012345678901234567890",
	"=8\r\ntxt:text\r\n":                  "text",
	"-ERR no\r\n":                         &driver.ServerError{Code: "ERR", Message: "ERR no"},
	"!7\r\nBLOB no\r\n":                   &driver.ServerError{Code: "BLOB", Message: "BLOB no"},
	"*0\r\n":                              []any{},
	"~1\r\n:1\r\n":                        []any{int64(1)},
	">1\r\n:1\r\n":                        []any{int64(1)},
	"%1\r\n+k\r\n$1\r\nv\r\n":             []any{"k", "v"},
	"|1\r\n+ttl\r\n:3\r\n$1\r\nv\r\n":     "v",
	"*3\r\n*1\r\n-X y\r\n$-1\r\n%1\r\n:1\r\n*0\r\n": []any{
		[]any{&driver.ServerError{Code: "X", Message: "X y"}}, nil, []any{int64(1), []any{}},
	},
}

func TestFrames(t *testing.T) {
	for frame, want := range frames {
		// What follows a frame is left to the next one.
		r := bufio.NewReaderSize(strings.NewReader(frame+"+next\r\n"), 16)
		got, err := resp.ReadFrame(r)
		require.NoError(t, err, "%q", frame)
		assert.Equal(t, frame, string(got))
		v, err := resp.Parse(got)
		require.NoError(t, err, "%q", frame)
		assert.Equal(t, want, v, "%q", frame)
		next, err := resp.ReadFrame(r)
		require.NoError(t, err)
		assert.Equal(t, "+next\r\n", string(next))

		for n := range len(frame) {
			_, err := resp.ReadFrame(bufio.NewReader(strings.NewReader(frame[:n])))
			if n == 0 {
				assert.ErrorIs(t, err, io.EOF)
			} else {
				assert.ErrorIs(t, err, io.ErrUnexpectedEOF, "%q", frame[:n])
			}
			_, err = resp.Parse([]byte(frame[:n]))
			assert.Error(t, err, "%q", frame[:n])
		}
	}
}

func TestNonsense(t *testing.T) {
	for _, s := range []string{"hello\r\n", "\r\n", "+a\n", "$x\r\n", "$-2\r\n", "*9999999999\r\n", "*1\r\n?\r\n"} {
		_, err := resp.ReadFrame(bufio.NewReader(strings.NewReader(s)))
		assert.IsType(t, resp.ProtocolError(""), err, "%q", s)
	}
}

func TestCommand(t *testing.T) {
	args := []string{"SET", "a\r\nb\x00", ""}
	got, err := resp.Strings(resp.AppendCommand(nil, args...))
	require.NoError(t, err)
	assert.Equal(t, args, got)
	for _, s := range []string{"+PING\r\n", "*0\r\n", "*1\r\n:1\r\n"} {
		_, err := resp.Strings([]byte(s))
		assert.Error(t, err, "%q", s)
	}
}

func FuzzParse(f *testing.F) {
	for frame := range frames {
		f.Add(frame)
	}
	f.Fuzz(func(t *testing.T, s string) {
		frame, err := resp.ReadFrame(bufio.NewReader(strings.NewReader(s)))
		if err != nil {
			return
		}
		require.True(t, strings.HasPrefix(s, string(frame)))
		_, _ = resp.Parse(frame)
	})
}
