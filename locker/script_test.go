package locker

import (
	"embed"
	"io/fs"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

//go:embed lua
var luaFiles embed.FS

// In Lua 5.1 %d is a long of C, which has 32 bits on some servers: µs and the ms of a clock
// do not fit. Those who need its speed print such a number in two parts.
func TestScriptsPrintNumbersOnServersWith32Bits(t *testing.T) {
	inOnePart := regexp.MustCompile(`format\('%d'`)
	require.NoError(t, fs.WalkDir(luaFiles, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(luaFiles, path)
		assert.NotRegexp(t, inOnePart, string(text), path)
		return err
	}))
}

// Dragonfly and Garnet run scripts by Lua 5.4, where %d prints no fraction, a string is none of the numbers of which
// math.min returns one, and unpack is table's.
func TestScriptsRunByLua54(t *testing.T) {
	for _, s := range allScripts() {
		for _, args := range regexp.MustCompile(`format\('[^']*%0?\d?d[^']*',(.*)`).FindAllStringSubmatch(s.source(), -1) {
			assert.NotRegexp(t, `(^|[^(]) \w+ / `, args[1], "it may be a fraction")
		}
		assert.NotRegexp(t, `math\.(min|max)\(\w+\.(ttl|retention|seq)\b`, s.source(), "it is a string")
		assert.NotRegexp(t, `[^.]\bunpack\(`, s.source())
	}
}

// Comments are more than a third of what is written, and a server keeps what it is sent. What looks
// like a comment inside of a long string would be lost, so there may be none.
func TestScriptsAreSentWithoutTheirComments(t *testing.T) {
	for _, s := range allScripts() {
		assert.NotRegexp(t, `(?m)^\s*--`, s.source())
		assert.NotRegexp(t, `\[=*\[`, s.source())
	}
}
