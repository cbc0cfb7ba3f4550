package rueidis

import (
	"syscall"
	"testing"
	"testing/synctest"

	rue "github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/netdial"
)

// Only a client of our own sends nothing twice for certain, and only where nobody decorates the client
// is an error reply in an error none to the command.
func TestOutcomeOfFailure(t *testing.T) {
	undialed := &netdial.Error{Addr: "server:6379", Err: syscall.ECONNREFUSED}
	refusal := driver.NewServerError("WRONGPASS no")
	for _, test := range []struct {
		c    *conn
		err  error
		want driver.Outcome
	}{
		{&conn{dialer: netdial.New(driver.Config{})}, undialed, driver.OutcomeNotSent},
		{&conn{}, undialed, driver.OutcomeUnknown},
		{&conn{}, refusal, driver.OutcomeNotSent},
		{&conn{decorated: true}, refusal, driver.OutcomeReplied},
	} {
		test.c.life = t.Context()
		assert.Equal(t, test.want, driver.OutcomeOf(test.c.failure(t.Context(), test.err)), "%v", test.err)
	}
}

// A hook that found no room ends with the connection: rueidis could not close it
// otherwise.
func TestHooksEndWithConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &channelConn{arrivals: make(chan arrival), closed: make(chan struct{})}
		returned := false
		go func() {
			s.onMessage(rue.PubSubMessage{Channel: "ch"})
			returned = true
		}()
		synctest.Wait()
		assert.False(t, returned, "a message was dropped")
		close(s.closed)
		synctest.Wait()
		assert.True(t, returned)
	})
}
