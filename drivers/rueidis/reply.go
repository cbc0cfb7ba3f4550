package rueidis

import (
	"errors"
	"fmt"
	"strings"

	rue "github.com/redis/rueidis"

	"github.com/golocker/golocker/locker/driver"
)

// ok is the reply OK.
var ok driver.Value = "OK"

// value maps a reply, see [driver.Value]. An error reply is the error.
func value(m *rue.RedisMessage) (driver.Value, error) {
	if err := refusal(m); err != nil {
		return nil, err
	}
	switch {
	case m.IsNil():
		return nil, nil
	case m.IsInt64():
		return m.ToInt64()
	case m.IsBool():
		if yes, err := m.ToBool(); !yes {
			return int64(0), err
		}
		return int64(1), nil
	case m.IsMap():
		flat, err := flatten(m)
		if err != nil {
			return nil, err
		}
		return value(flat)
	case m.IsArray():
		elements, err := m.ToArray()
		values := make([]any, len(elements))
		for i := range elements {
			if values[i], err = value(&elements[i]); err != nil {
				nested, ok := errors.AsType[*driver.ServerError](err)
				if !ok {
					return nil, err
				}
				values[i], err = nested, nil
			}
		}
		return values, err
	}
	text, err := m.ToString()
	if err != nil {
		return nil, fmt.Errorf("rueidis: reply of an unknown type: %w", err)
	}
	// Beside strings, and numbers, which have no colon, only verbatim strings are left, whose
	// text begins after three letters for its format and a colon.
	if !m.IsString() && len(text) > 3 && text[3] == ':' {
		text = text[4:]
	}
	if text == ok {
		return ok, nil
	}
	return text, nil
}

// flatten returns a map as an array of alternating keys and values. rueidis
// shows maps only without their order and with string keys only, so this goes
// through its serialized form, in which a map differs from an array by the
// letter of its type alone, after seven bytes of expiry.
func flatten(m *rue.RedisMessage) (*rue.RedisMessage, error) {
	const letter = 7
	serialized := m.CacheMarshal(nil)
	if len(serialized) <= letter || serialized[letter] != '%' {
		return nil, errors.New("rueidis: unknown form of a map reply (is this version of rueidis supported?)")
	}
	serialized[letter] = '*'
	flat := new(rue.RedisMessage)
	return flat, flat.CacheUnmarshalView(serialized)
}

// refusal returns m as a [*driver.ServerError], or nil if it is none. rueidis
// takes a leading "ERR " off its own errors, but not off the text of the message.
func refusal(m *rue.RedisMessage) error {
	if _, ok := rue.IsRedisErr(m.Error()); !ok {
		return nil
	}
	text, _ := m.ToString()
	return driver.NewServerError(text)
}

// decoratedReply returns the reply to a command from which a decorator has made an error. rueidis has
// removed a leading "ERR ": a reply with another code begins with capitals. An error
// that a script has caught and returned has no code before Redis 7.0, and had no ERR either.
func decoratedReply(reply *rue.RedisError) (driver.Value, error) {
	if reply.IsNil() {
		return nil, nil
	}
	text := reply.Error()
	if code, _, _ := strings.Cut(text, " "); code != strings.ToUpper(code) && !strings.HasPrefix(text, "@user_script") {
		text = "ERR " + text
	}
	return nil, driver.NewServerError(text)
}

// refused puts a [*driver.ServerError] in the place of an error reply that rueidis
// returns as an error of the connection: the server has refused the user, or is full.
// Where CLIENT TRACKING was refused, with which a wrapped client may begin, rueidis passes on the text of the reply alone.
func refused(err error) error {
	reply, ok := errors.AsType[*rue.RedisError](err)
	text := ""
	switch {
	case ok && reply != rue.Nil:
		text = reply.Error()
	case errors.Is(err, rue.ErrNoCache):
		text, _, ok = strings.Cut(err.Error(), ": [CLIENT ")
	default:
		ok = false
	}
	if !ok {
		return err
	}
	if code, _, _ := strings.Cut(text, " "); !codes[code] {
		text = "ERR " + text // which rueidis has removed
	}
	return driver.NewServerError(text)
}

// codes are those with which a server or a Sentinel refuses a new connection. Capitals
// alone do not tell a code: "DB index is out of range" had ERR before it.
var codes = map[string]bool{
	"ERR": true, "NOAUTH": true, "WRONGPASS": true, "NOPERM": true, "DENIED": true, "NOPROTO": true,
	"LOADING": true, "BUSY": true, "MASTERDOWN": true, "MISCONF": true, "OOM": true, "READONLY": true,
	"NOREPLICAS": true, "CLUSTERDOWN": true, "MOVED": true, "ASK": true, "TRYAGAIN": true, "REDIRECT": true,
	"IDONTKNOW": true,
}
