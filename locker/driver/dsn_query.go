package driver

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// dsnKeys are all keys of a data source name, in the order of the
// documentation.
var dsnKeys = []string{
	"mode", "master", "sentinel_username", "sentinel_password",
	"dial_timeout", "timeout", "pool_size", "client_name", "db",
	"tls_ca", "tls_cert", "tls_key", "tls_server_name", "tls_insecure_skip_verify",
}

// A query holds the decoded values of the keys that are given; none is empty.
type query map[string]string

func parseQuery(raw string) (query, error) {
	q := make(query)
	if raw == "" {
		return q, nil
	}
	for i, pair := range strings.Split(raw, "&") {
		key, rawValue, _ := strings.Cut(pair, "=")
		if !slices.Contains(dsnKeys, key) {
			// The key is not printed: it may be a part of a password with a
			// bare "&".
			return nil, fmt.Errorf("key %d after the ? is not known: the keys are %s; write %%26 for an & in a value",
				i+1, strings.Join(dsnKeys, ", "))
		}
		value, err := url.PathUnescape(rawValue)
		_, repeated := q[key]
		switch {
		case repeated:
			return nil, fmt.Errorf("the key %s is given twice: keep one", key)
		case rawValue == "":
			return nil, fmt.Errorf("the key %s has no value: write %s=value or remove it", key, key)
		case strings.Contains(rawValue, "+"):
			return nil, fmt.Errorf("the value of %s has a +, which some take for a space: write %%2B for +, %%20 for a space", key)
		case err != nil:
			return nil, fmt.Errorf("the value of %s has a %% that begins no percent-encoding: write %%25 for the character %%", key)
		}
		q[key] = value
	}
	return q, nil
}

// settings puts everything but addresses, database and TLS into cfg.
func (q query) settings(cfg *Config) error {
	switch q["mode"] {
	case "", "single":
		cfg.Mode = ModeSingle
	case "sentinel":
		cfg.Mode = ModeSentinel
	case "cluster":
		cfg.Mode = ModeCluster
	default:
		return errors.New("the value of mode must be single, sentinel or cluster")
	}
	if err := q.sentinel(cfg); err != nil {
		return err
	}
	var err error
	if cfg.DialTimeout, err = q.duration("dial_timeout"); err != nil {
		return err
	}
	if cfg.Timeout, err = q.duration("timeout"); err != nil {
		return err
	}
	if text, ok := q["pool_size"]; ok {
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil || n == 0 {
			return errors.New("the value of pool_size must be a number, 1 or greater; remove it for the client's default")
		}
		cfg.PoolSize = int(n)
	}
	cfg.ClientName = q["client_name"]
	if strings.ContainsFunc(cfg.ClientName, func(r rune) bool { return r < '!' || r > '~' }) {
		return errors.New("the value of client_name may have no spaces and only ASCII characters, as the server demands")
	}
	return nil
}

func (q query) sentinel(cfg *Config) error {
	cfg.Master = q["master"]
	cfg.SentinelUsername = q["sentinel_username"]
	cfg.SentinelPassword = Secret(q["sentinel_password"])
	if cfg.Mode == ModeSentinel {
		switch {
		case cfg.Master == "":
			return errors.New("mode=sentinel needs the master's name: add master=name")
		case cfg.SentinelUsername != "" && cfg.SentinelPassword == "":
			return errors.New("there is a sentinel_username without a password: add sentinel_password")
		}
		return nil
	}
	for _, key := range []string{"master", "sentinel_username", "sentinel_password"} {
		if _, ok := q[key]; ok {
			return fmt.Errorf("the key %s is for Sentinels only: add mode=sentinel, or remove it", key)
		}
	}
	return nil
}

func (q query) duration(key string) (time.Duration, error) {
	text, ok := q[key]
	if !ok {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("the value of %s must be a duration greater than 0 with its unit, such as 500ms or 5s; remove it for the default", key)
	}
	return d, nil
}

// tls returns nil without wanted (rediss), and an error if there are keys for
// TLS nevertheless.
func (q query) tls(wanted bool) (*tls.Config, error) {
	if !wanted {
		for _, key := range dsnKeys {
			if _, ok := q[key]; ok && strings.HasPrefix(key, "tls_") {
				return nil, fmt.Errorf("the key %s is for TLS: write rediss:// instead, or remove it", key)
			}
		}
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: q["tls_server_name"]}
	switch q["tls_insecure_skip_verify"] {
	case "", "false":
	case "true":
		cfg.InsecureSkipVerify = true
	default:
		return nil, errors.New("the value of tls_insecure_skip_verify must be true or false")
	}
	if _, ok := q["tls_ca"]; ok {
		pem, err := q.file("tls_ca")
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("the file of tls_ca holds no certificate in PEM format")
		}
	}
	_, hasCert := q["tls_cert"]
	_, hasKey := q["tls_key"]
	if hasCert != hasKey {
		return nil, errors.New("tls_cert and tls_key belong together: add the one that is missing, or remove the other")
	}
	if hasCert {
		cert, err := q.certificate()
		if err != nil {
			return nil, err
		}
		cfg.Certificates = []tls.Certificate{cert}
		cfg.GetClientCertificate = q.renewed(&cert)
	}
	return cfg, nil
}

// renewed returns the function that is asked for the certificate at each handshake: certificates that
// live for a day are renewed in place, while the program goes on. Where the files cannot be read any more,
// as by a program that has given up its rights, or are half written, the function returns the last
// certificate that could be read.
func (q query) renewed(first *tls.Certificate) func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	var last atomic.Pointer[tls.Certificate]
	last.Store(first)
	return func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if cert, err := q.certificate(); err == nil {
			last.Store(&cert)
		}
		cert := last.Load()
		if asked.SupportsCertificate(cert) != nil {
			cert = &tls.Certificate{} // none, as without this function
		}
		return cert, nil
	}
}

func (q query) certificate() (tls.Certificate, error) {
	certPEM, err := q.file("tls_cert")
	if err != nil {
		return tls.Certificate{}, err
	}
	keyPEM, err := q.file("tls_key")
	if err != nil {
		return tls.Certificate{}, err
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		// Not wrapped: what it says about a key file is not ours to vouch for.
		return tls.Certificate{}, errors.New("the files of tls_cert and tls_key are no certificate and its key in PEM format")
	}
	return cert, nil
}

// file reads the file that a key names. The error has the reason, without the
// path.
func (q query) file(key string) ([]byte, error) {
	data, err := os.ReadFile(q[key])
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, fmt.Errorf("the file of %s cannot be read: %w", key, pathErr.Err)
	}
	if err != nil {
		return nil, fmt.Errorf("the file of %s cannot be read", key)
	}
	return data, nil
}
