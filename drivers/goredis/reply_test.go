package goredis

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"

	"github.com/golocker/golocker/locker/driver"
)

func TestToValue(t *testing.T) {
	huge, _ := new(big.Int).SetString("-123456789012345678901234567890", 10)
	for _, c := range []struct {
		reply any
		want  driver.Value
	}{
		{nil, nil},
		{int64(-1), int64(-1)},
		{"\x00\r\n", "\x00\r\n"},
		{true, int64(1)},
		{false, int64(0)},
		{2.5, "2.5"},
		{3.0, "3"},
		{math.Inf(1), "inf"},
		{math.Inf(-1), "-inf"},
		{math.NaN(), "nan"},
		{huge, "-123456789012345678901234567890"},
		{[]any{}, []any{}},
		{map[any]any{"key": true}, []any{"key", int64(1)}},
		{[]any{[]any{nil, 1.5}, redis.ErrNoScript}, []any{
			[]any{nil, "1.5"},
			driver.NewServerError("NOSCRIPT No matching script. Please use EVAL."),
		}},
	} {
		assert.Equal(t, c.want, toValue(c.reply))
	}
}

// Only an error reply is one, also if a hook of the application has wrapped it.
func TestServerError(t *testing.T) {
	for _, err := range []error{redis.ErrNoScript, fmt.Errorf("hook: %w", redis.ErrNoScript)} {
		reply, ok := serverError(err)
		assert.True(t, ok)
		assert.Equal(t, driver.NewServerError("NOSCRIPT No matching script. Please use EVAL."), reply)
	}
	for _, err := range []error{redis.Nil, fmt.Errorf("sentinel: %w", redis.Nil), errors.New("ERR no"), redis.ErrClosed} {
		_, ok := serverError(err)
		assert.False(t, ok, "%v", err)
	}
}
