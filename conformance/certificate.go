package conformance

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// serverName is the server's name that a Config with TLS asks for. No host has it.
const serverName = "conformance.invalid"

// certify makes a certificate of an authority of its own for a server of this name.
func (k *kit) certify(name string) (tls.Certificate, *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		k.Fatalf("%v", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		k.Fatalf("%v", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		k.Fatalf("%v", err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}

// overTLS makes a Config that trusts roots reach the wire through a server with cert. It is
// for bubbles only: a driver without a Config.Dial reaches the wire itself, which cannot read TLS.
func overTLS(cert tls.Certificate, roots *x509.CertPool) func(*driver.Config) {
	return func(c *driver.Config) {
		c.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: serverName, RootCAs: roots}
		dial := c.Dial
		c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			up, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			client, ours := net.Pipe()
			server := tls.Server(ours, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}})
			pass := func(to, from net.Conn) {
				_, _ = io.Copy(to, from)
				_ = up.Close()
				_ = ours.Close()
			}
			go pass(up, server)
			go pass(server, up)
			return client, nil
		}
	}
}
