package customdriver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

func parse(s string) (driver.Value, error) {
	return readReply(bufio.NewReaderSize(strings.NewReader(s), 16))
}

// appendReply is the other half of readReply, for tests: what a server sends.
func appendReply(dst []byte, v driver.Value) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "$-1\r\n"...)
	case int64:
		return fmt.Appendf(dst, ":%d\r\n", v)
	case string:
		return fmt.Appendf(dst, "$%d\r\n%s\r\n", len(v), v)
	case *driver.ServerError:
		return fmt.Appendf(dst, "-%s\r\n", v.Message)
	case []any:
		dst = fmt.Appendf(dst, "*%d\r\n", len(v))
		for _, item := range v {
			dst = appendReply(dst, item)
		}
		return dst
	default:
		panic(fmt.Sprintf("not a reply: %T", v))
	}
}

func TestAppendCommand(t *testing.T) {
	got := appendCommand([]byte("before"), []string{"SET", "", "a\r\nb\x00\xff"})
	assert.Equal(t, "before*3\r\n$3\r\nSET\r\n$0\r\n\r\n$6\r\na\r\nb\x00\xff\r\n", string(got))
}

func TestReadReply(t *testing.T) {
	refusal := driver.NewServerError("WRONGTYPE not a string")
	for name, test := range map[string]struct {
		in   string
		want driver.Value
	}{
		"status":          {"+OK\r\n", "OK"},
		"empty status":    {"+\r\n", ""},
		"long status":     {"+" + strings.Repeat("x", 1000) + "\r\n", strings.Repeat("x", 1000)},
		"error":           {"-WRONGTYPE not a string\r\n", refusal},
		"integer":         {":9223372036854775807\r\n", int64(9223372036854775807)},
		"negative":        {":-3\r\n", int64(-3)},
		"bulk":            {"$6\r\na\r\n\x00\xffb\r\n", "a\r\n\x00\xffb"},
		"empty bulk":      {"$0\r\n\r\n", ""},
		"null bulk":       {"$-1\r\n", nil},
		"null array":      {"*-1\r\n", nil},
		"empty array":     {"*0\r\n", []any{}},
		"array":           {"*3\r\n:1\r\n$-1\r\n*1\r\n+x\r\n", []any{int64(1), nil, []any{"x"}}},
		"error in array":  {"*1\r\n-WRONGTYPE not a string\r\n", []any{refusal}},
		"as deep as can":  {strings.Repeat("*1\r\n", maxDepth) + ":1\r\n", nested(maxDepth)},
		"more than it is": {":1\r\n:2\r\n", int64(1)},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse(test.in)
			require.NoError(t, err)
			assert.Equal(t, test.want, got)
		})
	}
}

func nested(depth int) driver.Value {
	var v any = int64(1)
	for range depth {
		v = []any{v}
	}
	return v
}

func TestReadReplyRefuses(t *testing.T) {
	for name, in := range map[string]string{
		"empty line":          "\r\n",
		"unknown type":        "%1\r\n+k\r\n+v\r\n",
		"no CR":               "+OK\n",
		"integer with letter": ":12a\r\n",
		"integer too large":   ":9223372036854775808\r\n",
		"no length":           "$\r\n",
		"length -2":           "$-2\r\n",
		"array length -2":     "*-2\r\n",
		"bulk too long":       fmt.Sprintf("$%d\r\n", maxBulk+1),
		"array too long":      fmt.Sprintf("*%d\r\n", maxItems+1),
		"arrays too deep":     strings.Repeat("*1\r\n", maxDepth+1) + ":1\r\n",
		"line too long":       "+" + strings.Repeat("x", maxLine+100) + "\r\n",
		"bulk without end":    "$1\r\nab\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(in)
			_, ok := errors.AsType[errProtocol](err)
			assert.True(t, ok, "got %v, want an errProtocol", err)
		})
	}
}

func TestReadReplyCutShort(t *testing.T) {
	const whole = "*3\r\n$3\r\nabc\r\n:12\r\n-ERR no\r\n"
	for n := range len(whole) {
		_, err := parse(whole[:n])
		assert.ErrorIs(t, err, io.EOF, "the first %d bytes of %q", n, whole)
	}
}

// A length is a promise: memory is spent only on what arrives.
func TestReadReplyBelievesNoLength(t *testing.T) {
	in := strings.Repeat(fmt.Sprintf("*%d\r\n", maxItems), 100) + fmt.Sprintf("$%d\r\nx", maxBulk)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := parse(in)
	runtime.ReadMemStats(&after)
	require.ErrorIs(t, err, io.EOF)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
}

func FuzzReadReply(f *testing.F) {
	f.Add("+OK\r\n")
	f.Add("-ERR no\r\n")
	f.Add("*4\r\n:1\r\n$-1\r\n*1\r\n$2\r\n\r\n\r\n-E\r\n")
	f.Add("$10\r\n0123456789\r\n")
	f.Add("*1048577\r\n")
	f.Fuzz(func(t *testing.T, in string) {
		v, err := parse(in)
		if err != nil {
			return
		}
		again, err := parse(string(appendReply(nil, v)))
		require.NoError(t, err)
		require.Equal(t, v, again)
	})
}

func FuzzAppendCommand(f *testing.F) {
	f.Add("SET", "key", "a\r\nb\x00")
	f.Add("", "$1\r\n", "*")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		// A request has the form of a reply that is an array of bulk strings.
		v, err := parse(string(appendCommand(nil, []string{a, b, c})))
		require.NoError(t, err)
		require.Equal(t, []any{a, b, c}, v)
	})
}
