package locker

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/golocker/golocker/locker/driver"
)

// A former master of a Cluster of one part sends everybody to the new one, where the address that was
// given may lead soon: that is waited for. A master that sends away has a part of the keys.
func TestMovedByAServerThatIsNoMasterIsWaitedFor(t *testing.T) {
	for info, want := range map[string]error{
		"redis_version:7.0.15\r\nredis_mode:standalone\r\nrole:master\r\n": ErrUnavailable, // a proxy hands it on
		"redis_version:7.0.15\r\nredis_mode:cluster\r\nrole:slave\r\n":     ErrUnavailable,
		"redis_version:7.0.15\r\nredis_mode:cluster\r\nrole:master\r\n":    ErrInvalid,
		"redis_version:7.2.4\r\nserver_mode:standalone\r\nrole:master\r\n": ErrUnavailable, // as Valkey says it
		"redis_version:7.2.4\r\nserver_mode:cluster\r\nrole:master\r\n":    ErrInvalid,
	} {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			c, err := New(&informed{f, info, nil})
			assert.NoError(t, err)
			defer c.Close()
			moved := driver.NewServerError("MOVED 3999 127.0.0.1:6381")
			f.set(func() { f.before = func(context.Context, driver.Command) error { return moved } })
			_, err = c.Mutex("k").TryLock(t.Context())
			assert.ErrorIs(t, err, want, info)
			assert.ErrorIs(t, err, moved)
			f.heal()
		})
	}
}

// What a node of a Cluster answers itself beside that stays what it is.
func TestOfABatchOnlyWhatIsSentAwaySaysThatTheServerIsANodeOfACluster(t *testing.T) {
	l := newLink(nil)
	l.described.Store(true)
	l.misled.Store(true)
	here, moved, lost := driver.Result{Value: "OK"}, driver.Result{Err: driver.NewServerError("MOVED 3999 127.0.0.1:6381")}, driver.Result{Err: errLostReply}
	results := []driver.Result{here, moved, lost}
	l.unmask(t.Context(), nil, results)
	assert.Equal(t, here, results[0])
	assert.ErrorIs(t, results[1].Err, ErrInvalid)
	assert.ErrorIs(t, results[1].Err, moved.Err)
	assert.Equal(t, lost, results[2])
}

// What else a node of a Cluster refuses does not tell that the client asks the wrong one.
func TestWhatAMasterOfAClusterRefusesWithoutSendingAwayIsWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c, err := New(&informed{f, "redis_version:7.0.15\r\nredis_mode:cluster\r\nrole:master\r\n", nil})
		assert.NoError(t, err)
		defer c.Close()
		down := driver.NewServerError("CLUSTERDOWN The cluster is down")
		f.set(func() { f.before = func(context.Context, driver.Command) error { return down } })
		_, err = c.Mutex("k").TryLock(t.Context())
		assert.ErrorIs(t, err, ErrUnavailable)
		assert.NotErrorIs(t, err, ErrInvalid)
		f.heal()
	})
}
