package netdial_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/netdial"
)

func pipe(context.Context, string, string) (net.Conn, error) {
	near, _ := net.Pipe()
	return near, nil
}

func TestCloseEndsConnectionsAndDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := netdial.New(driver.Config{Dial: pipe})
		conn, err := d.Dial(t.Context(), "tcp", "a:1")
		require.NoError(t, err)
		read := make(chan error)
		go func() { _, err := conn.Read(make([]byte, 1)); read <- err }()
		synctest.Wait()
		d.Close()
		assert.ErrorIs(t, <-read, io.ErrClosedPipe)
		_, err = d.Dial(t.Context(), "tcp", "a:1")
		assert.ErrorIs(t, err, driver.ErrClosed)
	})
}

func TestNothingIsDialedThatNobodyWants(t *testing.T) {
	d := netdial.New(driver.Config{Dial: func(context.Context, string, string) (net.Conn, error) {
		t.Error("dialed")
		return nil, io.EOF
	}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	synctest.Test(t, func(t *testing.T) {
		_, err := d.Dial(ctx, "tcp", "a:1")
		assert.ErrorIs(t, err, context.Canceled)
	})
	d.Close()
	synctest.Test(t, func(t *testing.T) {
		_, err := d.Dial(t.Context(), "tcp", "a:1")
		assert.ErrorIs(t, err, driver.ErrClosed)
	})
}

func TestCloseEndsADialThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := netdial.New(driver.Config{DialTimeout: time.Minute, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		begun := time.Now()
		time.AfterFunc(time.Second, d.Close)
		_, err := d.Dial(t.Context(), "tcp", "a:1")
		assert.ErrorIs(t, err, driver.ErrClosed)
		assert.Equal(t, time.Second, time.Since(begun))
	})
}

func TestConnectionThatNobodyWantsAnyMoreIsClosed(t *testing.T) {
	for _, late := range []time.Duration{0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			for range 50 { // with late 0 the end and the connection come together
				ctx, cancel := context.WithCancel(t.Context())
				near, far := net.Pipe()
				d := netdial.New(driver.Config{Dial: func(context.Context, string, string) (net.Conn, error) {
					cancel()
					time.Sleep(late)
					return near, nil
				}})
				_, err := d.Dial(ctx, "tcp", "a:1")
				assert.ErrorIs(t, err, context.Canceled)
				_ = far.SetReadDeadline(time.Now().Add(2 * time.Hour))
				_, err = far.Read(make([]byte, 1))
				assert.Equal(t, io.EOF, err)
				d.Close()
			}
		})
	}
}

func TestConnectionWithoutAHandshakeIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		d := netdial.New(driver.Config{TLS: &tls.Config{}, Dial: func(context.Context, string, string) (net.Conn, error) { return near, nil }})
		defer d.Close()
		go func() {
			_, _ = far.Read(make([]byte, 1<<12))
			_, _ = far.Write([]byte("-ERR unknown command\r\n"))
		}()
		_, err := d.Dial(t.Context(), "tcp", "a:1")
		assert.ErrorContains(t, err, "TLS")
		_ = far.SetReadDeadline(time.Now().Add(time.Hour))
		_, err = io.Copy(io.Discard, far)
		assert.NoError(t, err)
	})
}

type countsCloses struct {
	net.Conn
	closes atomic.Int32
}

func (c *countsCloses) Close() error {
	c.closes.Add(1)
	return c.Conn.Close()
}

func TestDialerForgetsAConnectionThatIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, _ := net.Pipe()
		raw := &countsCloses{Conn: near}
		d := netdial.New(driver.Config{Dial: func(context.Context, string, string) (net.Conn, error) { return raw, nil }})
		conn, err := d.Dial(t.Context(), "tcp", "a:1")
		require.NoError(t, err)
		assert.NoError(t, conn.Close())
		d.Close()
		synctest.Wait()
		assert.EqualValues(t, 1, raw.closes.Load())
	})
}

func TestConnectionShowsItsDescriptorIfItHasOne(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	d := netdial.New(driver.Config{})
	defer d.Close()
	conn, err := d.Dial(t.Context(), "tcp", listener.Addr().String())
	require.NoError(t, err)
	assert.Implements(t, (*syscall.Conn)(nil), conn)

	d = netdial.New(driver.Config{Dial: pipe})
	defer d.Close()
	conn, err = d.Dial(t.Context(), "tcp", "a:1")
	require.NoError(t, err)
	assert.NotImplements(t, (*syscall.Conn)(nil), conn)
}

func TestServerNameOfTheConfigIsTheOneThatIsVerified(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS() // with a certificate for example.com, among others
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	for name, trusted := range map[string]bool{"example.com": true, "other.test": false} {
		d := netdial.New(driver.Config{TLS: &tls.Config{RootCAs: roots, ServerName: name}})
		defer d.Close()
		_, err := d.Dial(t.Context(), "tcp", server.Listener.Addr().String()) // which the certificate is for, too
		assert.Equal(t, trusted, err == nil, "%s: %v", name, err)
	}
}

func TestDialIsPromptThoughTheDialFunctionIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := netdial.New(driver.Config{DialTimeout: 2 * time.Second, Dial: func(context.Context, string, string) (net.Conn, error) {
			time.Sleep(time.Hour)
			return pipe(context.Background(), "", "")
		}})
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := d.Dial(ctx, "tcp", "a:1")
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(begun))

		_, err = d.Dial(t.Context(), "tcp", "a:1")
		assert.Equal(t, 3*time.Second, time.Since(begun))
		assert.NotErrorIs(t, err, context.DeadlineExceeded, "the caller's ctx has not ended")
		_, ok := errors.AsType[*netdial.Error](err)
		assert.True(t, ok)
		time.Sleep(2 * time.Hour)
	})
}

func TestFailedDial(t *testing.T) {
	refused := errors.New("connection refused")
	d := netdial.New(driver.Config{Dial: func(context.Context, string, string) (net.Conn, error) { return nil, refused }})
	_, err := d.Dial(t.Context(), "tcp", "a:1")
	assert.ErrorIs(t, err, refused)
	assert.ErrorContains(t, err, "a:1")
}

// A server without TLS waits for the end of a line, which a handshake does not have.
func TestServerWithoutTLSIsNamedAsThat(t *testing.T) {
	const hint = "no answer to the TLS handshake (does the server speak TLS?)"
	synctest.Test(t, func(t *testing.T) {
		cfg := driver.Config{Dial: pipe, TLS: &tls.Config{}, DialTimeout: 2 * time.Second}
		d := netdial.New(cfg)
		_, err := d.Dial(t.Context(), "tcp", "a:1")
		assert.EqualError(t, err, "dial a:1: no connection within 2s: "+hint)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = d.Dial(ctx, "tcp", "a:1")
		assert.EqualError(t, err, "dial a:1: "+hint+": context deadline exceeded")
		assert.ErrorIs(t, err, context.DeadlineExceeded)

		time.AfterFunc(time.Second, d.Close)
		_, err = d.Dial(t.Context(), "tcp", "a:1")
		assert.ErrorIs(t, err, driver.ErrClosed)
		assert.NotContains(t, err.Error(), hint)

		cfg.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { // it does not get as far
			<-ctx.Done()
			return nil, ctx.Err()
		}
		_, err = netdial.New(cfg).Dial(t.Context(), "tcp", "a:1")
		assert.EqualError(t, err, "dial a:1: no connection within 2s")
	})
}

// The zone of an address says by which interface it is reached, and is in no certificate.
func TestCertificateOfAnAddressWithAZone(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS() // with a certificate for ::1, among others
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	cfg, err := driver.ParseDSN("rediss://[::1%25lo]:6379")
	require.NoError(t, err)
	cfg.TLS.RootCAs = roots
	cfg.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
	}
	d := netdial.New(cfg)
	defer d.Close()
	_, err = d.Dial(t.Context(), "tcp", cfg.Addrs[0])
	assert.NoError(t, err)
	_, err = d.Dial(t.Context(), "tcp", "[::2%lo]:6379")
	assert.ErrorContains(t, err, "certificate")
}

func TestRedact(t *testing.T) {
	d := netdial.New(driver.Config{Password: "hunter2", SentinelPassword: "tr0ub4dor"})
	err := d.Redact(errors.New(`cannot read "hunter2" or "tr0ub4dor"`))
	assert.EqualError(t, err, `cannot read "REDACTED" or "REDACTED"`)
	assert.Same(t, io.EOF, d.Redact(io.EOF), "there is nothing to hide")
	assert.NoError(t, d.Redact(nil))
	assert.Equal(t, io.EOF, (*netdial.Dialer)(nil).Redact(io.EOF))
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d"} {
		assert.NotContains(t, fmt.Sprintf(verb, d), "hunter2")
	}
}

// A password may be a word that servers use.
func TestRedactLeavesRepliesAlone(t *testing.T) {
	for _, password := range []driver.Secret{"user", "script", "p"} {
		d := netdial.New(driver.Config{Password: password})
		refusal := fmt.Errorf("connect: %w", driver.NewServerError("ERR The user executing the script can't run this command"))
		assert.Equal(t, refusal, d.Redact(refusal))
	}
}

func ExampleDialer() {
	cfg, _ := driver.ParseDSN("rediss://:password@localhost:6379")
	d := netdial.New(cfg)
	defer d.Close()
	// Give d.Dial to your client as its dial function.
	_ = d.Dial
}

func ExampleError() {
	err := error(&netdial.Error{Addr: "localhost:6379", Err: errors.New("connection refused")})
	if _, ok := errors.AsType[*netdial.Error](err); ok {
		err = driver.NotSent(err)
	}
	fmt.Println(err, driver.OutcomeOf(err))
	// Output: dial localhost:6379: connection refused not sent
}
