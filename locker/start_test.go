package locker

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Many programs import this package and lock nothing, at least not each time that they run. They do not wait
// for scripts and patterns, which are 1.6 MB to make.
func TestAProgramThatBeginsMakesNoScripts(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	made := regexp.MustCompile(`(?m)^init (github\.com/golocker/golocker/locker(?:/driver)?) @.* (\d+) bytes`).FindAllSubmatch(out, -1)
	require.Len(t, made, 2, "%s", out)
	for _, m := range made {
		bytes, err := strconv.Atoi(string(m[2]))
		require.NoError(t, err)
		assert.Less(t, bytes, 64<<10, "%s", m[1])
	}
}
