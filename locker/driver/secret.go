package driver

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
)

// A Secret is a text, such as a password, that printing, logging and encoding
// show as "REDACTED". The empty Secret shows as empty, so that one can see
// whether there is any.
//
// The conversion string(s) gives the text. Two places do not ask a Secret how it wants to be
// shown. Package fmt calls no methods on unexported struct fields, and a verb that does not fit
// follows pointers too: a type that keeps a Secret or a [Config] in such a field must have a
// String method of its own, or keep it in a function. And encoding/json writes the keys of a
// map as they are.
type Secret string

const redacted = "REDACTED"

// String returns "REDACTED", or "" for the empty Secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// GoString is what %#v prints.
func (s Secret) GoString() string { return "driver.Secret(" + strconv.Quote(s.String()) + ")" }

// Format prints String's result for every verb, for %#v GoString's.
func (s Secret) Format(f fmt.State, verb rune) { format(f, verb, s.String(), s.GoString()) }

// MarshalText encodes String's result.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalJSON encodes String's result.
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// LogValue is String's result.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// format prints text as fmt prints a string under verb, and goText under %#v.
func format(f fmt.State, verb rune, text, goText string) {
	if verb == 'v' && f.Flag('#') {
		fmt.Fprint(f, goText)
		return
	}
	fmt.Fprintf(f, fmt.FormatString(f, verb), text)
}
