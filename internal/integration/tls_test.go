package integration_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
)

// Who is not whom the other side takes it for gets no lock, and learns why at once.
func TestTLSRefusesWhoIsNotTrusted(t *testing.T) {
	t.Parallel()
	right, foreign := servertest.NewCerts(t), servertest.NewCerts(t)
	otherHost, expired := servertest.NewCerts(t, servertest.OtherHost), servertest.NewCerts(t, servertest.Expired)
	mutual := func(certs *servertest.Certs) *servertest.Server {
		return servertest.Single(t, servertest.Secure(certs), servertest.Password(canary), servertest.Config("tls-auth-clients", "yes"))
	}
	server, elsewhere, old := mutual(right), mutual(otherHost), mutual(expired)
	plain := servertest.Single(t)
	ca := func(c *servertest.Certs) string { return "?tls_ca=" + c.CAFile }
	pair := func(c *servertest.Certs) string {
		return "&tls_cert=" + c.ClientCertFile + "&tls_key=" + c.ClientKeyFile
	}
	// Where both are at fault TLS 1.3 lets the client be the first to tell.
	cases := map[string]struct {
		srv          *servertest.Server
		query, error string
	}{
		"wrong CA":                     {server, ca(foreign) + pair(right), "unknown authority"},
		"no CA":                        {server, "?tls_server_name=localhost" + pair(right), "unknown authority"},
		"wrong host":                   {elsewhere, ca(otherHost) + pair(otherHost), "elsewhere.example|doesn't contain any IP SANs"},
		"wrong server name":            {server, ca(right) + pair(right) + "&tls_server_name=elsewhere.example", "elsewhere.example"},
		"expired server certificate":   {old, ca(expired) + pair(right), "expired"},
		"no client certificate":        {server, ca(right), "certificate required|reset|EOF|closed|broken"},
		"foreign client certificate":   {server, ca(right) + pair(foreign), "unknown certificate authority|bad certificate|reset|EOF|closed|broken"},
		"expired client certificate":   {old, "?tls_insecure_skip_verify=true" + pair(expired), "expired|bad certificate|reset|EOF|closed|broken"},
		"a server that speaks no TLS":  {plain, ca(right) + "&dial_timeout=1s", "handshake|EOF|reset|deadline exceeded|timeout|no connection within"},
		"expired certificate, skipped": {old, "?tls_insecure_skip_verify=true", "certificate required|reset|EOF|closed|broken"},
	}
	t.Run("all", func(t *testing.T) {
		eachDriver(t, func(t *testing.T, d driverUnderTest) {
			t.Parallel()
			for what, c := range cases {
				client := d.open(t, "rediss://:"+canary+"@"+c.srv.Addr+c.query, locker.AttemptTimeout(patience)) // so that it is the refusal that is told
				for _, kind := range []lockKind{plainKind, writeKind} {
					var err error
					took := timed(func() { _, err = kind.on(client, "k").Lock(soon(t)) })
					require.Error(t, err, what)
					assert.Regexp(t, c.error, err.Error(), what)
					assert.ErrorIs(t, err, locker.ErrUnavailable, what)
					assert.NotErrorIs(t, err, locker.ErrLocked, what)
					assert.NotContains(t, err.Error(), canary, what)
					assert.Less(t, took, patience/2, what)
				}
			}
			// To a server that speaks TLS, plain text is none.
			_, err := d.open(t, "redis://:"+canary+"@"+server.Addr+"?dial_timeout=1s&timeout=1s").Mutex("k").Lock(soon(t))
			assert.ErrorIs(t, err, locker.ErrUnavailable)
			assert.NotContains(t, err.Error(), canary)
		})
	})
	assert.Empty(t, keys(t, server))
}

// With the right certificates all is as without TLS, messages included.
func TestTLSWithTheRightCertificates(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		srv := servertest.TLS(t, servertest.Config("tls-auth-clients", "yes"))
		dsn := "rediss://" + srv.Addr + "?tls_ca=" + srv.CAFile + "&tls_cert=" + srv.ClientCertFile + "&tls_key=" + srv.ClientKeyFile
		a, b := d.open(t, dsn), d.open(t, dsn)
		for _, kind := range lockKinds {
			held := mustLock(t, kind.against(a, kind.name, locker.TTL(time.Minute)))
			waiting := goLockWaiting(t, soon(t), kind.on(b, kind.name), a)
			require.NoError(t, held.Unlock(soon(t)))
			require.NoError(t, had(t, waiting).lease.Unlock(soon(t)))
		}
		assert.Empty(t, keys(t, srv.Server))
	})
}
