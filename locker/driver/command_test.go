package driver_test

import (
	"fmt"
	"testing"

	"github.com/golocker/golocker/locker/driver"
	"github.com/stretchr/testify/assert"
)

func TestCommand(t *testing.T) {
	eval := driver.Command{Args: []string{"EVALSHA", "abc", "2", "k1", "k2", "arg"}, FirstKey: 3, NumKeys: 2}
	assert.Equal(t, "EVALSHA", eval.Name())
	assert.Equal(t, []string{"k1", "k2"}, eval.Keys())

	ping := driver.Command{Args: []string{"PING"}}
	assert.Empty(t, ping.Keys())
	assert.Equal(t, "PING[0 args]", ping.String())

	assert.Empty(t, driver.Command{}.Name())
	assert.Empty(t, driver.Command{}.Keys())
	assert.Equal(t, "[0 args]", driver.Command{}.String())
}

func TestCommandStringLeavesOutArguments(t *testing.T) {
	cmd := driver.Command{Args: []string{"SET", "private", "\x00secret"}, FirstKey: 1, NumKeys: 1}
	assert.Equal(t, "SET[2 args]", cmd.String())
	assert.Equal(t, "SET[2 args]", fmt.Sprint(cmd))
}
