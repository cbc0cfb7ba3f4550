package integration_test

import (
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
)

// requireWorks takes a lock, has another client wait for it and woken, and
// renews; all through the DSN.
func requireWorks(t *testing.T, d driverUnderTest, dsn string) {
	t.Helper()
	slow := locker.AttemptTimeout(patience)
	a, b := d.open(t, dsn, locker.TTL(renewedTTL), locker.Fenced(), slow), newCountedClient(t, d.byDSN(t, dsn), slow)
	// The first request connects, which takes long where all is busy: longer than there is time in a short lease.
	for _, c := range []*locker.Client{a, b.Client} {
		mustUnlock(t, mustTryLock(t, c.Mutex(t.Name(), locker.TTL(patience))))
	}
	next := b.requireWoken(t, b.Mutex(t.Name()), func() *locker.Lease { return mustTryLock(t, a.Mutex(t.Name())) }, func(held *locker.Lease) {
		require.True(t, survivesRenewals(held, 1), "%v", held.Err())
	})
	mustUnlock(t, next)
}

func TestTLSByDSN(t *testing.T) {
	t.Parallel()
	srv := servertest.TLS(t)
	other := servertest.NewCerts(t)
	port := srv.Port()
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		requireWorks(t, d, "rediss://"+srv.Addr+"?tls_ca="+srv.CAFile)
		requireWorks(t, d, "rediss://localhost:"+port+"?tls_ca="+srv.CAFile)
		requireWorks(t, d, "rediss://"+srv.Addr+"?tls_ca="+srv.CAFile+"&tls_server_name=localhost")
		requireWorks(t, d, "rediss://"+srv.Addr+"?tls_insecure_skip_verify=true")

		for what, dsn := range map[string]string{
			"another authority": "rediss://" + srv.Addr + "?tls_ca=" + other.CAFile,
			"the system's":      "rediss://" + srv.Addr,
			"another name":      "rediss://" + srv.Addr + "?tls_server_name=example.com&tls_ca=" + srv.CAFile,
		} {
			c := d.open(t, dsn, locker.AttemptTimeout(patience)) // so that it is the refusal that is told
			var err error
			took := timed(func() { _, err = c.Mutex("k").Lock(soon(t)) })
			assert.ErrorIs(t, err, locker.ErrUnavailable, what)
			assert.ErrorContains(t, err, "certificate", what)
			assert.NotErrorIs(t, err, locker.ErrLocked, what)
			assert.Less(t, took, refusalTime, what)
		}
	})
}

func TestTLSWithAClientCertificateByDSN(t *testing.T) {
	t.Parallel()
	srv := servertest.TLS(t, servertest.Config("tls-auth-clients", "yes"))
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		dsn := "rediss://" + srv.Addr + "?tls_ca=" + srv.CAFile
		requireWorks(t, d, dsn+"&tls_cert="+srv.ClientCertFile+"&tls_key="+srv.ClientKeyFile)
		_, err := d.open(t, dsn).Mutex("k").Lock(soon(t))
		assert.ErrorIs(t, err, locker.ErrUnavailable)
	})
}

// A plain connection to a TLS port, and the other way round, ends with an error.
func TestTLSOnOneSideOnlyIsAnErrorInTime(t *testing.T) {
	t.Parallel()
	secure, plain := servertest.TLS(t), servertest.Single(t)
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		for _, dsn := range []string{"redis://" + secure.Addr, "rediss://" + plain.Addr} {
			c := d.open(t, dsn+"?dial_timeout=1s&timeout=1s")
			var err error
			took := timed(func() { _, err = c.Mutex("k").Lock(soon(t)) })
			assert.ErrorIs(t, err, locker.ErrUnavailable, dsn)
			assert.Less(t, took, 10*time.Second, dsn)
		}
	})
}

func TestUnixSocketByDSN(t *testing.T) {
	t.Parallel()
	srv := servertest.Single(t, servertest.Password(canary))
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		requireWorks(t, d, "unix://:"+canary+"@"+srv.Socket)
		requireWorks(t, d, "unix://:"+canary+"@"+srv.Socket+"?db=3")
		c := d.open(t, "unix://:"+canary+"@"+filepath.Join(t.TempDir(), "none"))
		_, err := c.Mutex("k").Lock(soon(t))
		assert.ErrorIs(t, err, locker.ErrUnavailable)
		assert.NotContains(t, err.Error(), canary)
	})
}

func TestUserPasswordAndDatabaseByDSN(t *testing.T) {
	t.Parallel()
	const odd = "p@ss/w?rd#%:&+ " + canary
	srv := servertest.Single(t, servertest.Password("default's"),
		servertest.Config("user", "ann", "on", ">"+canary, "~*", "&*", "+@all"))
	do(t, srv, append([]string{"ACL", "SETUSER", "odd:man"}, servertest.Rules(t, "on", ">"+odd, "~*", "&*", "+@all")...)...)
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		requireWorks(t, d, "redis://ann:"+canary+"@"+srv.Addr+"/3")
		requireWorks(t, d, "redis://odd%3Aman:"+url.PathEscape(odd)+"@"+srv.Addr+"/4")
		requireWorks(t, d, "redis://:"+url.PathEscape("default's")+"@"+srv.Addr)

		// Databases keep locks of one name apart.
		name := "in " + d.name
		three, four := d.open(t, "redis://ann:"+canary+"@"+srv.Addr+"/3"), d.open(t, "redis://ann:"+canary+"@"+srv.Addr+"/4")
		lease := mustTryLock(t, three.Mutex(name))
		assert.False(t, exists(t, srv, name), "it is in database 0")
		require.NoError(t, mustTryLock(t, four.Mutex(name)).Unlock(soon(t)))
		_, err := three.Mutex(name).TryLock(soon(t))
		assert.ErrorIs(t, err, locker.ErrLocked)
		require.NoError(t, lease.Unlock(soon(t)))
	})
}

// "Redis is unreachable" and "it is locked" are never confused.
func TestAWrongAddressShowsAtTheFirstLock(t *testing.T) {
	t.Parallel()
	srv := servertest.Single(t)
	srv.Kill()
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		for _, attempt := range []func(m *locker.Mutex) error{
			func(m *locker.Mutex) error { _, err := m.Lock(soon(t)); return err },
			func(m *locker.Mutex) error { _, err := m.TryLock(soon(t)); return err },
		} {
			c := d.open(t, "redis://"+srv.Addr)
			var err error
			took := timed(func() { err = attempt(c.Mutex("k")) })
			assert.ErrorIs(t, err, locker.ErrUnavailable)
			assert.NotErrorIs(t, err, locker.ErrLocked)
			assert.ErrorContains(t, err, "refused")
			assert.Less(t, took, refusalTime)
		}
	})
}
