package redigo

import (
	"context"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type idleConn struct{ redis.Conn }

func (idleConn) Close() error { return nil }

// The time for getting a connection may end at the moment when a call has ended, as it
// does where a reply is waited for as long. That was sent.
func TestCallThatHasEndedIsNotGivenUp(t *testing.T) {
	c := &conn{life: context.Background()}
	k := newCall(c, t.Context())
	require.NoError(t, k.begin(idleConn{}))
	k.giveBack(idleConn{})
	assert.False(t, k.giveUp(), "it would count as not sent")
	assert.True(t, k.Break(), "it has run")

	k = newCall(c, t.Context())
	assert.True(t, k.giveUp())
	assert.Error(t, k.begin(idleConn{}), "nobody waits for it")
}
