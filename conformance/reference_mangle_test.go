package conformance_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/golocker/golocker/locker/driver"
)

// manglesArgs returns what is sent for cmd.
func (c *refConn) manglesArgs(cmd driver.Command) []string {
	each := func(f func(i int, s string) string) []string {
		out := make([]string, len(cmd.Args))
		for i, a := range cmd.Args {
			out[i] = f(i, a)
		}
		return out
	}
	switch c.bug {
	case "drops-nul":
		return each(func(_ int, s string) string { return strings.ReplaceAll(s, "\x00", "") })
	case "key-ends-at-newline":
		return each(func(i int, s string) string {
			if i == cmd.FirstKey && cmd.NumKeys > 0 {
				s, _, _ = strings.Cut(s, "\r\n")
			}
			return s
		})
	case "drops-empty-args":
		return slices.DeleteFunc(slices.Clone(cmd.Args), func(s string) bool { return s == "" })
	case "args-limit":
		return cmd.Args[:min(len(cmd.Args), 1024)]
	case "value-limit":
		return each(func(_ int, s string) string { return s[:min(len(s), 64<<10)] })
	}
	return cmd.Args
}

var errNotConverted = os.ErrInvalid

// mangles turns a parsed reply into a result.
func (c *refConn) mangles(frame []byte, v driver.Value) driver.Result {
	if e, ok := v.(*driver.ServerError); ok {
		switch c.bug {
		case "error-is-plain":
			return driver.Result{Err: errors.New(e.Message)}
		case "error-is-value":
			return driver.Result{Value: e.Message}
		case "strips-ERR":
			return driver.Result{Err: driver.NewServerError(strings.TrimPrefix(e.Message, "ERR "))}
		case "unknown-code-is-ERR":
			if !slices.Contains([]string{"ERR", "NOSCRIPT", "WRONGTYPE"}, e.Code) {
				e.Code = "ERR"
			}
		case "code-is-first-word":
			e.Code, _, _ = strings.Cut(e.Message, " ")
		case "word-in-capitals-is-code":
			if word, _, _ := strings.Cut(strings.TrimPrefix(e.Message, "ERR "), " "); strings.ToUpper(word) == word {
				e.Code = word
			}
		case "error-quotes-arguments":
			e.Message = strings.TrimSpace(string(frame[1:]))
		case "value-beside-error":
			return driver.Result{Value: e.Message, Err: e}
		}
		return driver.Result{Err: e}
	}
	switch c.bug {
	case "empty-is-nil":
		if v == "" {
			v = nil
		}
	case "numbers-are-integers":
		if s, ok := v.(string); ok {
			if n, err := strconv.ParseInt(s, 10, 64); err == nil {
				v = n
			}
		}
	case "integers-are-strings":
		if n, ok := v.(int64); ok {
			v = strconv.FormatInt(n, 10)
		}
	case "integers-are-int32":
		if n, ok := v.(int64); ok {
			v = int64(int32(n))
		}
	case "status-is-bool":
		if frame[0] == '+' {
			v = true
		}
	case "nil-is-an-error":
		if v == nil {
			return driver.Result{Err: errNotConverted}
		}
	case "nil-is-empty":
		v = each(v, func(v any) any {
			if v == nil {
				return ""
			}
			return v
		})
	case "empty-array-is-nil":
		if list, ok := v.([]any); ok && len(list) == 0 {
			v = nil
		}
	case "arrays-are-strings":
		if list, ok := v.([]any); ok {
			v = strings.Fields(strings.Trim(fmt.Sprint(list...), "[]"))
		}
	case "arrays-are-flat":
		if list, ok := v.([]any); ok {
			var flat []any
			for _, e := range list {
				if inner, ok := e.([]any); ok {
					flat = append(flat, inner...)
				} else {
					flat = append(flat, e)
				}
			}
			v = flat
		}
	case "nested-error-fails":
		if list, ok := v.([]any); ok {
			for _, e := range list {
				if e, ok := e.(*driver.ServerError); ok {
					return driver.Result{Err: e}
				}
			}
		}
	case "maps-are-maps":
		if frame[0] == '%' {
			m := map[string]any{}
			for pair := range slices.Chunk(v.([]any), 2) {
				m[fmt.Sprint(pair[0])] = pair[1]
			}
			v = m
		}
	case "sets-are-maps":
		if frame[0] == '~' {
			m := map[any]bool{}
			for _, e := range v.([]any) {
				m[e] = true
			}
			v = m
		}
	case "doubles-are-floats":
		if frame[0] == ',' {
			f, _ := strconv.ParseFloat(v.(string), 64)
			v = f
		}
	case "nested-types-are-kept":
		if strings.Contains(string(frame), "\r\n#t\r\n") {
			v = each(v, func(v any) any {
				if v == int64(1) {
					return true
				}
				return v
			})
		}
	case "verbatim-keeps-format":
		if frame[0] == '=' {
			v = "txt:" + v.(string)
		}
	case "replies-are-UTF8":
		v = each(v, func(v any) any {
			if s, ok := v.(string); ok {
				return strings.ToValidUTF8(s, "�")
			}
			return v
		})
	case "nested-strings-are-trimmed":
		if list, ok := v.([]any); ok {
			v = each(list, func(v any) any {
				if s, ok := v.(string); ok {
					return strings.TrimSpace(s)
				}
				return v
			})
		}
	}
	return driver.Result{Value: v}
}

// each replaces every element of a reply that is not an array.
func each(v any, f func(any) any) any {
	list, ok := v.([]any)
	if !ok {
		return f(v)
	}
	out := make([]any, len(list))
	for i, e := range list {
		out[i] = each(e, f)
	}
	return out
}
