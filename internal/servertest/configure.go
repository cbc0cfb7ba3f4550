//go:build unix

package servertest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Sentinels need a configuration file that they can rewrite; all others are
// configured by arguments.

// arguments returns the server's argument vector, with some more configuration.
func (s *Server) arguments(more []directive) []string {
	if s.kind == kindSentinel {
		return []string{s.configFile(), "--sentinel"}
	}
	var args []string
	for _, d := range s.version.understood(append(s.directives(), more...)) {
		args = append(args, "--"+d[0])
		args = append(args, d[1:]...)
	}
	return args
}

// configure writes what the server needs besides its arguments.
func (s *Server) configure() error {
	if s.kind != kindSentinel {
		return nil
	}
	var b strings.Builder
	for _, d := range s.version.understood(s.directives()) {
		b.WriteString(d[0])
		for _, value := range d[1:] {
			b.WriteString(" " + strconv.Quote(value))
		}
		b.WriteString("\n")
	}
	return os.WriteFile(s.configFile(), []byte(b.String()), 0o600)
}

func (s *Server) configFile() string { return filepath.Join(s.dir, "conf") }

// directives returns the whole configuration.
func (s *Server) directives() []directive {
	port := strconv.Itoa(s.port)
	config := []directive{
		{"bind", "127.0.0.1"},
		{"dir", s.dir},
		{"unixsocket", s.Socket},
		{"user", ControlUser, "on", "nopass", "~*", "&*", "+@all"},
	}
	if certs := s.settings.certs; certs != nil {
		config = append(config,
			directive{"port", "0"},
			directive{"tls-port", port},
			directive{"tls-ca-cert-file", certs.CAFile},
			directive{"tls-cert-file", certs.CertFile},
			directive{"tls-key-file", certs.KeyFile},
			directive{"tls-auth-clients", "optional"},
			directive{"tls-replication", "yes"},
		)
	} else {
		config = append(config, directive{"port", port})
	}
	if s.kind == kindSentinel {
		return append(config, s.settings.sentinels...)
	}
	config = append(config, directive{"save", ""}, directive{"appendonly", "no"},
		directive{"repl-diskless-sync-delay", "0"},
		// Otherwise a server that once was a replica would find its data again.
		directive{"rdb-del-sync-files", "yes"})
	if s.kind == kindCluster {
		config = append(config, s.clusterDirectives()...)
	}
	if password := s.settings.password; password != "" {
		config = append(config, directive{"requirepass", password}, directive{"masterauth", password})
	}
	return append(config, s.settings.config...)
}
