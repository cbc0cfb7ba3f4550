package redigo

import (
	"errors"

	"github.com/gomodule/redigo/redis"

	"github.com/golocker/golocker/locker/driver"
)

// arguments are what redigo wants after a command's name.
func arguments(command []string) []any {
	return appendArguments(make([]any, 0, len(command)-1), command)
}

func appendArguments(args []any, command []string) []any {
	for _, arg := range command[1:] {
		args = append(args, argument(arg))
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
