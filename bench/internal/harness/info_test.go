package harness

import (
	"bufio"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCallsTellsWhatWasSentFromWhatScriptsRan(t *testing.T) {
	from := Info{Calls: map[string]float64{"evalsha": 10, "get": 10, "info": 1}}
	to := Info{Calls: map[string]float64{"evalsha": 15, "get": 15, "del": 5, "set": 5, "info": 9}}
	sent, scripted := Calls(from, to, map[string]float64{"get": 1, "del": 1})
	assert.EqualValues(t, 10, sent, "evalsha and set; the harness's INFO does not count")
	assert.EqualValues(t, 10, scripted, "get and del")
}

func TestTraceShowsScriptsInBraces(t *testing.T) {
	var trace []traced
	for _, line := range []string{
		`1700000000.000001 [0 127.0.0.1:5000] "SET" "k" "v [0 lua] \"x"`,
		`1700000000.000002 [0 127.0.0.1:5000] "EVALSHA" "abc"`,
		`1700000000.000003 [0 lua] "get" "k"`,
		`1700000000.000004 [0 lua] "set" "k"`,
		`1700000000.000005 [0 unix:/tmp/s] "PING"`,
		`1700000000.000006 [0 lua] "get" "k"`,
		`OK`,
	} {
		if one, ok := parseTrace(line); ok {
			trace = append(trace, one)
		}
	}
	assert.Equal(t, "set evalsha {get set} ping {get}", traceText(trace))
	assert.Equal(t, map[string]float64{"get": 1, "set": 0.5, "evalsha": 0, "ping": 0}, scriptedShares(trace))
}

func TestErrorsAreCountedByText(t *testing.T) {
	var e Errors
	for range 3 {
		e.Add("lock", errors.New("a\nb"))
	}
	e.Add("lock", errors.New(strings.Repeat("x", 1000)))
	for _, text := range "123456789" {
		e.Add("unlock", errors.New(string(text)))
	}
	assert.Equal(t, 13, e.Count())
	counts := e.ByText()
	assert.Equal(t, 3, counts["lock: a; b"])
	assert.Equal(t, 5, counts["unlock: (other)"])
	assert.Len(t, counts, maxTexts+1)
}

func TestReplies(t *testing.T) {
	c := &Conn{r: bufio.NewReader(strings.NewReader("+OK\r\n:7\r\n$3\r\na\r\n\r\n*2\r\n$-1\r\n:1\r\n$-1\r\n-ERR no\r\n"))}
	for _, want := range []any{"OK", int64(7), "a\r\n", []any{nil, int64(1)}} {
		got, err := c.Read()
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	_, err := c.Read()
	assert.ErrorIs(t, err, ErrNil)
	_, err = c.Read()
	assert.Equal(t, ReplyError("ERR no"), err)
}
