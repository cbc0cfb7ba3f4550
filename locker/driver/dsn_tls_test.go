package driver_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/golocker/golocker/locker/driver"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// writePEM writes a self-signed certificate and its key, and returns their
// paths and the certificate.
func writePEM(t *testing.T) (certPath, keyPath string, cert *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	certDER, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	cert, err = x509.ParseCertificate(certDER)
	require.NoError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)

	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	return write("cert.pem", "CERTIFICATE", certDER), write("key.pem", "PRIVATE KEY", keyDER), cert
}

func TestParseDSNReadsPEMFiles(t *testing.T) {
	certPath, keyPath, cert := writePEM(t)
	cfg, err := driver.ParseDSN("rediss://h?tls_ca=" + certPath + "&tls_cert=" + certPath + "&tls_key=" + keyPath)
	require.NoError(t, err)

	pool := x509.NewCertPool()
	pool.AddCert(cert)
	assert.True(t, pool.Equal(cfg.TLS.RootCAs), "RootCAs are not those of tls_ca")
	require.Len(t, cfg.TLS.Certificates, 1)
	assert.Equal(t, [][]byte{cert.Raw}, cfg.TLS.Certificates[0].Certificate)
	assert.NotNil(t, cfg.TLS.Certificates[0].PrivateKey)
}

// Certificates that live for a day are renewed in place, under a program that goes on.
func TestClientCertificateIsRenewedInPlace(t *testing.T) {
	certPath, keyPath, first := writePEM(t)
	cfg, err := driver.ParseDSN("rediss://h?tls_cert=" + certPath + "&tls_key=" + keyPath)
	require.NoError(t, err)
	presents := func(asked tls.CertificateRequestInfo) [][]byte {
		cert, err := cfg.TLS.GetClientCertificate(&asked)
		require.NoError(t, err)
		return cert.Certificate
	}
	asked := tls.CertificateRequestInfo{Version: tls.VersionTLS13, SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256}}
	assert.Equal(t, [][]byte{first.Raw}, presents(asked))

	newCertPath, newKeyPath, second := writePEM(t)
	require.NoError(t, os.Rename(newCertPath, certPath))
	assert.Equal(t, [][]byte{first.Raw}, presents(asked), "the key is that of the first")
	require.NoError(t, os.Rename(newKeyPath, keyPath))
	assert.Equal(t, [][]byte{second.Raw}, presents(asked))
	require.NoError(t, os.Remove(keyPath))
	assert.Equal(t, [][]byte{second.Raw}, presents(asked), "what was read last")

	asked.AcceptableCAs = [][]byte{[]byte("another one")}
	assert.Empty(t, presents(asked), "not shown to who wants that of another authority")
}

// As of a program that gives up its rights before it connects.
func TestClientCertificateIsTheOneThatWasReadFirst(t *testing.T) {
	certPath, keyPath, cert := writePEM(t)
	cfg, err := driver.ParseDSN("rediss://h?tls_cert=" + certPath + "&tls_key=" + keyPath)
	require.NoError(t, err)
	require.NoError(t, os.Remove(keyPath))
	shown, err := cfg.TLS.GetClientCertificate(&tls.CertificateRequestInfo{Version: tls.VersionTLS13, SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256}})
	require.NoError(t, err)
	assert.Equal(t, [][]byte{cert.Raw}, shown.Certificate)
}

func TestParseDSNRefusesWrongPEMFiles(t *testing.T) {
	certPath, keyPath, _ := writePEM(t)
	for query, want := range map[string]string{
		"tls_ca=" + keyPath:                              "tls_ca holds no certificate",
		"tls_cert=" + keyPath + "&tls_key=" + certPath:   "no certificate and its key",
		"tls_cert=" + certPath + "&tls_key=/nonexistent": "the file of tls_key cannot be read",
	} {
		_, err := driver.ParseDSN("rediss://h?" + query)
		assert.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), filepath.Dir(certPath))
	}
	_, err := driver.ParseDSN("rediss://h?tls_ca=/nonexistent")
	assert.ErrorIs(t, err, fs.ErrNotExist)
}
