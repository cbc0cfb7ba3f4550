package customdriver

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker/driver"
)

func TestServerSettings(t *testing.T) {
	certs := servertest.NewCerts(t)
	plain := servertest.Single(t, servertest.Password("pass"))
	users := servertest.Single(t, servertest.Config("user", "ann", "on", ">pass", "~*", "&*", "+@all"))
	secure := servertest.Single(t, servertest.Secure(certs))
	for name, cfg := range map[string]driver.Config{
		"tcp":  {Network: "tcp", Addrs: []string{plain.Addr}, Password: "pass"},
		"unix": {Network: "unix", Addrs: []string{plain.Socket}, Password: "pass"},
		"user": {Network: "tcp", Addrs: []string{users.Addr}, Username: "ann", Password: "pass"},
		"tls":  {Network: "tcp", Addrs: []string{secure.Addr}, TLS: certs.ServerOnly()},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.DB, cfg.ClientName = 3, "tester"
			c := connect(t, cfg)
			info, err := c.Do(t.Context(), command("CLIENT", "INFO"))
			require.NoError(t, err)
			assert.Contains(t, info, " db=3 ")
			assert.Contains(t, info, " name=tester ")

			topology, err := c.(driver.Describer).Describe(t.Context())
			require.NoError(t, err)
			assert.Len(t, topology.RunID, 40)

			sub, err := c.(driver.Subscriber).Subscribe(t.Context())
			require.NoError(t, err)
			require.NoError(t, sub.Add(t.Context(), "news"))
			_, err = c.Do(t.Context(), command("PUBLISH", "news", "hello"))
			require.NoError(t, err)
			message, err := sub.Receive(t.Context())
			require.NoError(t, err)
			assert.Equal(t, driver.Message{Channel: "news", Payload: "hello"}, message)
		})
	}
}

func TestServerRefusesPassword(t *testing.T) {
	server := servertest.Single(t, servertest.Password("pass"))
	c := connect(t, driver.Config{Network: "tcp", Addrs: []string{server.Addr}, Password: "wrong"})
	_, err := c.Do(t.Context(), command("GET", "k"))
	assert.EqualError(t, err, "customdriver: AUTH: WRONGPASS (text withheld, it may repeat the password)")
	assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
}

func TestServerWithoutInfo(t *testing.T) {
	server := servertest.Single(t, servertest.Config("rename-command", "INFO", ""))
	topology, err := connect(t, driver.Config{Network: "tcp", Addrs: []string{server.Addr}}).(driver.Describer).Describe(t.Context())
	require.NoError(t, err)
	assert.Zero(t, topology)
}

// A frozen server is no longer one that replies, and one that is resumed is.
func TestServerFrozen(t *testing.T) {
	server := servertest.Single(t)
	c := connect(t, driver.Config{Network: "tcp", Addrs: []string{server.Addr}, Timeout: 100 * time.Millisecond})
	requireEcho(t, c, "before")
	server.Pause()
	_, err := c.Do(t.Context(), command("SET", "k", "v"))
	assert.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(err))
	server.Resume()
	requireEcho(t, c, "after")
}
