package servertest

// An Option changes how servers are started. Given to a function that starts
// several, it holds for each of them.
type Option func(*settings)

// settings are what the options of one server add up to.
type settings struct {
	config    []directive // of servers that keep data
	sentinels []directive // of Sentinels
	env       []string
	password  string
	certs     *Certs
}

// A directive is one line of a server's configuration: its name and values.
type directive []string

func newSettings(opts []Option) *settings {
	s := &settings{}
	for _, opt := range opts {
		opt(s)
	}
	return s
}

// Config adds one directive to the configuration of servers that keep data, as
// in Config("maxmemory", "1mb") or Config("user", "ann", "on", ">pw", "~*", "+@all").
// It overrides what this package sets.
func Config(name string, values ...string) Option {
	return func(s *settings) {
		s.config = append(s.config, append(directive{name}, values...))
	}
}

// SentinelConfig adds one directive to the configuration of Sentinels.
func SentinelConfig(name string, values ...string) Option {
	return func(s *settings) {
		s.sentinels = append(s.sentinels, append(directive{name}, values...))
	}
}

// Password is what clients of the default user must authenticate with. Replicas
// and Sentinels know it; the Sentinels themselves ask for none, see
// SentinelConfig("requirepass", …).
func Password(password string) Option {
	return func(s *settings) { s.password = password }
}

// Persist makes the server write every change to disk before it replies, so that
// a [Server.Restart] keeps the data.
func Persist() Option {
	return func(s *settings) {
		s.config = append(s.config,
			directive{"appendonly", "yes"}, directive{"appendfsync", "always"})
	}
}

// Env adds variables, as in "LD_PRELOAD=skew.so", to the server's environment.
func Env(vars ...string) Option {
	return func(s *settings) { s.env = append(s.env, vars...) }
}

// Secure makes the server speak TLS, and nothing else, on its port. A client
// certificate is verified if there is one; Config("tls-auth-clients", "yes")
// demands it. The unix socket stays plain.
func Secure(certs *Certs) Option {
	return func(s *settings) { s.certs = certs }
}
