package redigo

import (
	"errors"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/golocker/golocker/locker/driver"
)

// appendArguments appends those of cmd. The number of a script's keys is an int, as redigo's own Script
// passes it: a connection of the application's own type that changes keys reads it.
func appendArguments(args []any, cmd driver.Command) []any {
	for i, arg := range cmd.Args[1:] {
		frequent, ok := frequently[arg]
		switch {
		case i == cmd.FirstKey-2 && arg == strconv.Itoa(cmd.NumKeys):
			args = append(args, cmd.NumKeys)
		case ok:
			args = append(args, frequent)
		default:
			args = append(args, arg)
		}
	}
	return args
}

// frequently are arguments that are so frequent that they are not allocated for each command.
var frequently = map[string]any{"NX": "NX", "PX": "PX", "0": "0", "1": "1", "2": "2", "3": "3"}

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

// turnsAway reports whether by this the server refuses the connection, and closes it: it is in protected
// mode, or has too many clients.
func turnsAway(refusal *driver.ServerError) bool {
	return refusal.Code == "DENIED" || strings.HasPrefix(refusal.Message, "ERR max number of clients ")
}
