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

// Comments are more than a third of what is written, and a server keeps what it is sent. What looks
// like a comment inside of a long string would be lost, so there may be none.
func TestScriptsAreSentWithoutTheirComments(t *testing.T) {
	for _, s := range allScripts() {
		assert.NotRegexp(t, `(?m)^\s*--`, s.source)
		assert.NotRegexp(t, `\[=*\[`, s.source)
	}
}
