package aside_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/golocker/golocker/locker/driver/aside"
)

func TestOnEndCallsUnlessItIsStopped(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	assert.True(t, aside.OnEnd(ctx, func() { t.Error("called although it was stopped") })(), "in time")
	called := make(chan struct{})
	stop := aside.OnEnd(ctx, func() { close(called) })
	end()
	<-called
	assert.False(t, stop(), "too late")
}

// contextWithOnEnd has its own way to call.
type contextWithOnEnd struct {
	context.Context
	asked int
}

func (c *contextWithOnEnd) OnEnd(func()) (stop func() bool) {
	c.asked++
	return func() bool { return true }
}

func TestOnEndAsksTheContext(t *testing.T) {
	ctx := &contextWithOnEnd{Context: t.Context()}
	assert.True(t, aside.OnEnd(ctx, func() {})())
	assert.Equal(t, 1, ctx.asked)
}
