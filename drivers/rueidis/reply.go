package rueidis

import (
	"fmt"
	"strings"

	rue "github.com/redis/rueidis"

	"github.com/golocker/golocker/locker/driver"
)

// value maps a reply that is no error, see [driver.Value].
func value(m *rue.RedisMessage) (driver.Value, error) {
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
	case m.IsArray():
		return array(m)
	case m.IsMap():
		flat, err := flatten(m)
		if err != nil {
			return nil, err
		}
		return array(flat)
	}
	text, err := m.ToString()
	if err != nil {
		return nil, fmt.Errorf("rueidis: reply of an unknown type: %w", err)
	}
	// What is left beside strings and numbers is a verbatim string, whose text
	// begins after three letters for its format and a colon.
	if !m.IsString() && !m.IsFloat64() && len(text) > 3 && text[3] == ':' {
		text = text[4:]
	}
	return text, nil
}

func array(m *rue.RedisMessage) (driver.Value, error) {
	elements, err := m.ToArray()
	if err != nil {
		return nil, fmt.Errorf("rueidis: reply of an unknown type: %w", err)
	}
	values := make([]any, len(elements))
	for i := range elements {
		if refusal := serverError(&elements[i]); refusal != nil {
			values[i] = refusal
			continue
		}
		if values[i], err = value(&elements[i]); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// flatten returns a map as an array of alternating keys and values. rueidis
// shows maps only without their order and with string keys only, so this takes
// the way through its serialized form, in which a map is an array but for the
// letter of its type, after seven bytes of expiry.
func flatten(m *rue.RedisMessage) (*rue.RedisMessage, error) {
	const letter = 7
	var flat rue.RedisMessage
	serialized := m.CacheMarshal(nil)
	if len(serialized) <= letter || serialized[letter] != '%' {
		return nil, fmt.Errorf("rueidis: unknown form of a map reply (is this version of rueidis supported?)")
	}
	serialized[letter] = '*'
	if err := flat.CacheUnmarshalView(serialized); err != nil {
		return nil, fmt.Errorf("rueidis: map reply: %w", err)
	}
	return &flat, nil
}

// serverError returns m as an error, or nil if it is none. rueidis takes a
// leading "ERR " off its own errors, but not off the text of the message.
func serverError(m *rue.RedisMessage) *driver.ServerError {
	refusal, ok := rue.IsRedisErr(m.Error())
	if !ok {
		return nil
	}
	text, _ := m.ToString()
	if text == "" {
		text = refusal.Error()
	}
	return driver.NewServerError(text)
}

// runID finds the run id in the text of INFO.
func runID(info string) string {
	for line := range strings.Lines(info) {
		if id, ok := strings.CutPrefix(line, "run_id:"); ok {
			return strings.TrimSpace(id)
		}
	}
	return ""
}
