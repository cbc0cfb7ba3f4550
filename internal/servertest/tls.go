package servertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Certs are a certificate authority and what it issued, as PEM files that are
// deleted when the test ends. They are valid for a day, except for their Flaws.
type Certs struct {
	// CAFile is the authority's certificate.
	CAFile string
	// CertFile and KeyFile are the server's, for 127.0.0.1 and localhost.
	CertFile, KeyFile string
	// ClientCertFile and ClientKeyFile are a client's.
	ClientCertFile, ClientKeyFile string

	pool   *x509.CertPool
	client tls.Certificate
}

// A Flaw is what is wrong with the certificates that an authority issues.
type Flaw int

const (
	// OtherHost is a server certificate for elsewhere.example alone.
	OtherHost Flaw = iota + 1
	// Expired certificates have run out an hour ago; the authority's own has not.
	Expired
)

// NewCerts makes certificates, for [Secure].
func NewCerts(tb testing.TB, flaws ...Flaw) *Certs {
	tb.Helper()
	certs, err := newCerts(tb.TempDir(), flaws)
	if err != nil {
		tb.Fatal(err)
	}
	return certs
}

// ServerOnly returns a new configuration for clients that verify the server and
// have no certificate of their own.
func (c *Certs) ServerOnly() *tls.Config { return &tls.Config{RootCAs: c.pool} }

// Mutual returns a new configuration for clients that verify the server and show
// their certificate.
func (c *Certs) Mutual() *tls.Config {
	config := c.ServerOnly()
	config.Certificates = []tls.Certificate{c.client}
	return config
}

func newCerts(dir string, flaws []Flaw) (*Certs, error) {
	c := &Certs{
		CAFile:         filepath.Join(dir, "ca.pem"),
		CertFile:       filepath.Join(dir, "server.pem"),
		KeyFile:        filepath.Join(dir, "server-key.pem"),
		ClientCertFile: filepath.Join(dir, "client.pem"),
		ClientKeyFile:  filepath.Join(dir, "client-key.pem"),
		pool:           x509.NewCertPool(),
	}
	ca, err := newAuthority()
	if err != nil {
		return nil, err
	}
	c.pool.AddCert(ca.cert)
	if err := writePEM(c.CAFile, "CERTIFICATE", ca.cert.Raw); err != nil {
		return nil, err
	}
	server := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "server"},
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		// A server is a client too: of its primary, and of its cluster's nodes.
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	client := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "client"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, flaw := range flaws {
		switch flaw {
		case OtherHost:
			server.DNSNames, server.IPAddresses = []string{"elsewhere.example"}, nil
		case Expired:
			server.NotAfter, client.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(-time.Hour)
		}
	}
	if err := ca.issue(server, c.CertFile, c.KeyFile); err != nil {
		return nil, err
	}
	if err := ca.issue(client, c.ClientCertFile, c.ClientKeyFile); err != nil {
		return nil, err
	}
	c.client, err = tls.LoadX509KeyPair(c.ClientCertFile, c.ClientKeyFile)
	return c, err
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "servertest"},
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	a := &authority{cert: template, key: key}
	der, err := a.sign(template, &key.PublicKey)
	if err != nil {
		return nil, err
	}
	a.cert, err = x509.ParseCertificate(der)
	return a, err
}

// issue makes a key and its certificate and writes both.
func (a *authority) issue(template *x509.Certificate, certFile, keyFile string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	cert, err := a.sign(template, &key.PublicKey)
	if err != nil {
		return err
	}
	if err := writePEM(certFile, "CERTIFICATE", cert); err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(keyFile, "PRIVATE KEY", der)
}

func (a *authority) sign(template *x509.Certificate, key *ecdsa.PublicKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-2 * time.Hour)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(24 * time.Hour)
	}
	return x509.CreateCertificate(rand.Reader, template, a.cert, key, a.key)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
