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
