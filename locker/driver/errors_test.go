package driver_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/golocker/golocker/locker/driver"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOutcomeOf(t *testing.T) {
	reply := driver.NewServerError("OOM command not allowed")
	tests := []struct {
		err  error
		want driver.Outcome
	}{
		{nil, driver.OutcomeUnknown},
		{io.EOF, driver.OutcomeUnknown},
		{context.Canceled, driver.OutcomeUnknown},
		{driver.ErrClosed, driver.OutcomeUnknown},
		{reply, driver.OutcomeReplied},
		{fmt.Errorf("doing: %w", reply), driver.OutcomeReplied},
		{driver.NotSent(io.EOF), driver.OutcomeNotSent},
		{fmt.Errorf("doing: %w", driver.NotSent(io.EOF)), driver.OutcomeNotSent},
		{driver.NotSent(reply), driver.OutcomeNotSent}, // such as WRONGPASS while connecting
		{driver.NewServerError("ERR unknown command 'X'"), driver.OutcomeReplied},
	}
	for _, silent := range []string{ // as proxies say of their server
		"ERR Connection timed out", "ERR Connection refused", "ERR Connection reset by peer", "ERR unknown",
		"no upstream host", "upstream failure", "upstream protocol error",
		"ERR no server avaliable", "ERR no server connection avaliable", "ERR server connection close", "ERR deliver request fail",
		"ERR handle response, backend conn reset",
	} {
		assert.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(fmt.Errorf("doing: %w", driver.NewServerError(silent))), silent)
	}
	for _, test := range tests {
		assert.Equal(t, test.want, driver.OutcomeOf(test.err), "%v", test.err)
	}
}

func TestZeroOutcomeAssumesNothing(t *testing.T) {
	var zero driver.Outcome
	assert.Equal(t, driver.OutcomeUnknown, zero)
	assert.Equal(t, []string{"unknown", "not sent", "replied"},
		[]string{zero.String(), driver.OutcomeNotSent.String(), driver.OutcomeReplied.String()})
}

func TestNotSentKeepsTheError(t *testing.T) {
	require.NoError(t, driver.NotSent(nil))
	err := driver.NotSent(fmt.Errorf("dialling: %w", io.EOF))
	assert.Equal(t, "dialling: EOF", err.Error())
	assert.ErrorIs(t, err, io.EOF)
	reply, ok := errors.AsType[*driver.ServerError](driver.NotSent(driver.NewServerError("ERR x")))
	require.True(t, ok)
	assert.Equal(t, "ERR", reply.Code)
}

func TestNewServerError(t *testing.T) {
	for reply, code := range map[string]string{
		"NOSCRIPT No matching script.": "NOSCRIPT",
		"ERR":                          "ERR",
		"":                             "",
	} {
		err := driver.NewServerError(reply)
		assert.Equal(t, code, err.Code)
		assert.Equal(t, reply, err.Error())
	}
}

func TestNewServerErrorOfAScriptOfWhoHasGivenNoPassword(t *testing.T) {
	for _, length := range []string{"multibulk length", "bulk length"} {
		err := driver.NewServerError("ERR Protocol error: unauthenticated " + length)
		assert.Equal(t, "NOAUTH", err.Code)
		assert.Equal(t, "NOAUTH Authentication required (unauthenticated "+length+")", err.Error())
	}
}

// As Redis 6.0.16 says it, of a script that has met an error and has caught it, or not.
func TestNewServerErrorTellsTheCodeOfWhatAScriptHasMet(t *testing.T) {
	const uncaught = "ERR Error running script (call to f_ff967d0ae0e68b4f9e360fa91c54598bc25ad9b6): @user_script:164: "
	for inner, code := range map[string]string{
		"@user_script: 164: -OOM command not allowed when used memory > 'maxmemory'.":                         "OOM",
		"@user_script: 164: -READONLY You can't write against a read only replica.":                           "READONLY",
		"@user_script: 164: -NOREPLICAS Not enough good replicas to write.":                                   "NOREPLICAS",
		"@user_script: 7: -MISCONF Redis is configured to save RDB snapshots":                                 "MISCONF",
		"@user_script: 7: -CLUSTERDOWN The cluster is down":                                                   "CLUSTERDOWN",
		"@user_script: 7: The user executing the script can't run this command or subcommand":                 "ERR",
		"@user_script: 7: Unknown Redis command called from Lua script":                                       "ERR",
		"@user_script: 7: Script attempted to execute a write command while the cluster is down and readonly": "CLUSTERDOWN",
		"@user_script: 7: Script attempted to execute a command while the cluster is down":                    "CLUSTERDOWN",
		"@user_script: 7: Lua script attempted to execute a write command while the cluster is down":          "CLUSTERDOWN",
		"@user_script: 7: Lua script attempted to execute a command while the cluster is down":                "CLUSTERDOWN",
		"user_script:1: @user_script: 7: -OOM command not allowed when used memory > 'maxmemory'.":            "",
		"WRONGTYPE Operation against a key holding the wrong kind of value":                                   "WRONGTYPE",
		"GL1FOREIGN fencing token": "GL1FOREIGN",
	} {
		err := driver.NewServerError(uncaught + inner)
		assert.Equal(t, cmp.Or(code, "OOM"), err.Code, inner)
		assert.Equal(t, uncaught+inner, err.Message)
		if strings.HasPrefix(inner, "@") {
			assert.Equal(t, code, driver.NewServerError(inner).Code, inner)
		}
	}
	for reply, code := range map[string]string{
		"OOM command not allowed when used memory > 'maxmemory'. script: 4ecb, on @user_script:1.":                             "OOM",
		"ERR Error compiling script (new function): user_script:2: ')' expected near 'end'":                                    "ERR",
		"ERR Error running script (call to f_3c06): @enable_strict_lua:15: user_script:1: Script attempted to access a global": "ERR",
		"ERR unknown command `X`, with args beginning with: `@user_script: 1: -OOM x`, ":                                       "ERR",
		"WRONGPASS @user_script: 1: -OOM x": "WRONGPASS",
		"ERR Script attempted to execute a write command while the cluster is down and readonly script: caee, on @user_script:1.": "CLUSTERDOWN",
		"ERR Script attempted to execute a command while the cluster is down":                                                     "CLUSTERDOWN",
		"ERR Can not execute a write command 'hdel' while the cluster is down and readonly":                                       "CLUSTERDOWN",
		"ERR Can not execute a command 'get' while the cluster is down script: caee, on @user_script:1.":                          "CLUSTERDOWN",
		"ERR unknown command `X`, with args beginning with: `Script attempted to execute a command while the cluster is down`, ":  "ERR",
	} {
		assert.Equal(t, code, driver.NewServerError(reply).Code)
	}
}

// A server that does not know a command quotes the first 128 bytes of what it was sent with.
// Any other reply stays what it is.
func TestNewServerErrorLeavesOutWhatIsQuoted(t *testing.T) {
	for reply, want := range map[string]string{
		"ERR unknown command `AUTH`, with args beginning with: `ann`, `hunter2`, ":               "ERR unknown command `AUTH`",
		"ERR unknown command 'hello', with args beginning with: '2' 'AUTH' 'default' 'hunter2' ": "ERR unknown command 'hello'",
		"ERR unknown command 'EVALSHA', with args beginning with: '4284' '1' 'k' 'edf4d85f' ":    "ERR unknown command 'EVALSHA'",
		"WRONGPASS invalid username-password pair or user is disabled.":                          "",
	} {
		err := driver.NewServerError(reply)
		assert.Equal(t, cmp.Or(want, reply), err.Error())
		assert.Equal(t, strings.Fields(reply)[0], err.Code)
	}
}
