package redigo

import (
	"errors"
	"strconv"

	"github.com/gomodule/redigo/redis"

	"github.com/golocker/golocker/locker/driver"
)

// arguments are what redigo wants after a command's name.
func arguments(command []string) []any {
	return appendArguments(make([]any, 0, len(command)-1), driver.Command{Args: command})
}

// appendArguments adds those of cmd. How many keys a script has is an int, as redigo's own Script
// has it: a connection of the application's own make that changes keys reads it.
func appendArguments(args []any, cmd driver.Command) []any {
	before := len(args)
	for _, arg := range cmd.Args[1:] {
		args = append(args, argument(arg))
	}
	if i := cmd.FirstKey - 1; i > 1 && cmd.Args[i] == strconv.Itoa(cmd.NumKeys) {
		args[before+i-1] = cmd.NumKeys
	}
	return args
}

// argument makes a string one of redigo's, for the most frequent ones without allocating.
func argument(s string) any {
	switch s {
	case "NX":
		return "NX"
	case "PX":
		return "PX"
	}
	if len(s) == 1 && '0' <= s[0] && s[0] <= '9' {
		return digits[s[0]-'0']
	}
	return s
}

var digits = [...]any{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}

// value makes a [driver.Value] of a reply. It changes arrays in place.
func value(reply any) driver.Value {
	switch reply := reply.(type) {
	case []byte:
		return string(reply)
	case redis.Error:
		return driver.NewServerError(string(reply))
	case []any:
		for i := range reply {
			reply[i] = value(reply[i])
		}
	}
	return reply
}

// answered puts a *driver.ServerError in the place of redigo's own type.
func answered(err error) error {
	if reply, ok := errors.AsType[redis.Error](err); ok {
		return driver.NewServerError(string(reply))
	}
	return err
}
