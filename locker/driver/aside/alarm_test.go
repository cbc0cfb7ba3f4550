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

// contextWithAlarm has its own way to call.
type contextWithAlarm struct {
	context.Context
	asked int
}

func (c *contextWithAlarm) OnEnd(func()) (stop func() bool) {
	c.asked++
	return func() bool { return true }
}

func TestOnEndAsksTheContext(t *testing.T) {
	ctx := &contextWithAlarm{Context: t.Context()}
	assert.True(t, aside.OnEnd(ctx, func() {})())
	assert.Equal(t, 1, ctx.asked)
}
