//go:build unix

package servertest

import "testing"

// TLSServer is a server that speaks TLS on its port.
type TLSServer struct {
	*Server
	*Certs
}

// TLS starts one server with certificates of its own; see [Secure].
func TLS(tb testing.TB, opts ...Option) *TLSServer {
	tb.Helper()
	certs := NewCerts(tb)
	return &TLSServer{Server: Single(tb, append(opts, Secure(certs))...), Certs: certs}
}
