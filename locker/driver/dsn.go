package driver

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// ParseDSN reads a data source name:
//
//	redis://user:password@host:6379/0?key=value&…
//	rediss://…                                     the same over TLS
//	unix://user:password@/path/to.sock?db=0&…
//
// User and password may be left out; a password alone is written
// redis://:password@host. Sentinels and Cluster nodes are listed as
// host1:port1,host2:port2. The port is 6379 if left out, for Sentinels 26379.
// IPv6 addresses stand in brackets. The number after the host is the database,
// 0 if left out. These keys may follow, each once:
//
//	mode                      single (default), sentinel or cluster
//	master                    the master's name; required by sentinel
//	sentinel_username,
//	sentinel_password         for the Sentinels themselves
//	dial_timeout, timeout     Go durations such as 500ms, see [Config]
//	pool_size, client_name    see [Config]
//	db                        the database; only for unix
//	tls_ca                    PEM file of the CAs to trust instead of the system's
//	tls_cert, tls_key         PEM files of the client's certificate and its key
//	tls_server_name           the name that the server's certificate must have,
//	                          if not the host that is connected to
//	tls_insecure_skip_verify  true accepts any certificate
//
// The keys that begin with tls_ are for rediss. TLS is version 1.2 or newer. The files of
// tls_cert and tls_key are read again for each connection, so that they can be renewed in
// place; where they cannot be read, or do not fit, those that were read last are used. The file
// of tls_ca is read once.
//
// User, password, path and values are percent-encoded where they hold anything other than
// letters, digits and -._~; above all write %40 for @, %2F for /, %3A for :, %3F for ?,
// %23 for # and %25 for %. (url.QueryEscape does so, except for the space.)
//
// Whatever ParseDSN does not understand is an error. Because a password may have
// ended up anywhere in a malformed name, no error repeats any part of dsn other
// than the names of known keys.
func ParseDSN(dsn string) (Config, error) {
	cfg, err := parseDSN(dsn)
	if err != nil {
		return Config{}, fmt.Errorf("driver: invalid DSN: %w", err)
	}
	return cfg, nil
}

// A dsnParts is a data source name taken apart and not yet decoded.
type dsnParts struct {
	scheme   string
	userinfo string // what stands before the "@"
	hasUser  bool   // whether there is an "@"
	hosts    string
	path     string // with its "/"
	query    string
}

func parseDSN(dsn string) (Config, error) {
	parts, err := splitDSN(dsn)
	if err != nil {
		return Config{}, err
	}
	q, err := parseQuery(parts.query)
	if err != nil {
		return Config{}, err
	}
	cfg := Config{Network: "tcp"}
	if cfg.Username, cfg.Password, err = parseUserinfo(parts); err != nil {
		return Config{}, err
	}
	if err := q.settings(&cfg); err != nil {
		return Config{}, err
	}
	if parts.scheme == "unix" {
		err = parseSocket(&cfg, parts, q)
	} else {
		err = parseHosts(&cfg, parts, q)
	}
	if err != nil {
		return Config{}, err
	}
	if cfg.Mode == ModeCluster && cfg.DB != 0 {
		return Config{}, errors.New("a Cluster has no database but 0: remove the number after the hosts")
	}
	if cfg.TLS, err = q.tls(parts.scheme == "rediss"); err != nil {
		return Config{}, err
	}
	return cfg, nil
}

// splitDSN finds the parts. Where a character that ends a part may as well
// belong to a password that is not percent-encoded, it says so instead of
// guessing.
func splitDSN(dsn string) (dsnParts, error) {
	scheme, rest, ok := strings.Cut(dsn, "://")
	parts := dsnParts{scheme: strings.ToLower(scheme)}
	if !ok || !slices.Contains([]string{"redis", "rediss", "unix"}, parts.scheme) {
		return parts, errors.New("it must begin with redis://, rediss:// (TLS) or unix://")
	}
	if strings.Contains(rest, "#") {
		return parts, errors.New("a # has no meaning here: remove it, or write %23 if it belongs to a password")
	}
	rest, parts.query, ok = strings.Cut(rest, "?")
	if ok && parts.query == "" {
		return parts, errors.New("there is no key after the ?: remove the ?")
	}
	authority := rest
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		authority, parts.path = rest[:i], rest[i:]
	}
	if strings.Contains(parts.path, "@") || strings.Contains(parts.query, "@") {
		return parts, errors.New("an @ stands after a / or ?: percent-encode the user name and password (/ is %2F, ? is %3F), and write %40 for any other @")
	}
	parts.hosts = authority
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		parts.userinfo, parts.hosts, parts.hasUser = authority[:i], authority[i+1:], true
	}
	return parts, nil
}

func parseUserinfo(parts dsnParts) (user string, password Secret, err error) {
	if !parts.hasUser {
		return "", "", nil
	}
	rawUser, rawPassword, _ := strings.Cut(parts.userinfo, ":")
	user, errUser := url.PathUnescape(rawUser)
	text, errPassword := url.PathUnescape(rawPassword)
	_, behindAt, _ := strings.Cut(parts.userinfo, "@")
	switch {
	case errUser != nil || errPassword != nil:
		return "", "", errors.New("the user name or password has a % that begins no percent-encoding: write %25 for the character %")
	case strings.Contains(behindAt, ","): // as in other kinds of URLs; the first hosts would become a part of the password
		return "", "", errors.New("an @ and a comma stand before the last @: write the user name and password once, before the first host, for all hosts; or %40 and %2C if they belong to the password")
	case text == "":
		return "", "", errors.New("there is no password before the @: write user:password@, or :password@ for a password alone, or nothing for neither")
	}
	return user, Secret(text), nil
}

func parseSocket(cfg *Config, parts dsnParts, q query) error {
	path, err := url.PathUnescape(parts.path)
	switch {
	case err != nil:
		return errors.New("the path of the socket has a % that begins no percent-encoding: write %25 for the character %")
	case parts.hosts != "":
		return errors.New("unix:// takes no host: write unix:///path/to.sock, with user:password@ before the path if needed")
	case path == "" || path == "/":
		return errors.New("the path of the socket is missing: write unix:///path/to.sock")
	case strings.Contains(path, "\x00"):
		return errors.New("the path of the socket holds a zero byte: remove it")
	case cfg.Mode != ModeSingle:
		return errors.New("a unix socket leads to one server: remove the key mode")
	}
	cfg.Network, cfg.Addrs = "unix", []string{path}
	if text, ok := q["db"]; ok {
		if cfg.DB, err = parseDB(text); err != nil {
			return fmt.Errorf("the value of db: %w", err)
		}
	}
	return nil
}

func parseHosts(cfg *Config, parts dsnParts, q query) error {
	if _, ok := q["db"]; ok {
		return errors.New("the key db is for unix:// only: write the number of the database after the hosts, as in redis://host:6379/3")
	}
	port := "6379"
	if cfg.Mode == ModeSentinel {
		port = "26379"
	}
	for i, host := range strings.Split(parts.hosts, ",") {
		addr, err := parseHost(host, port)
		if err != nil {
			return fmt.Errorf("host %d: %w", i+1, err)
		}
		cfg.Addrs = append(cfg.Addrs, addr)
	}
	if cfg.Mode == ModeSingle && len(cfg.Addrs) > 1 {
		return errors.New("there are several hosts for one server: keep one, or add mode=sentinel or mode=cluster")
	}
	if parts.path == "" || parts.path == "/" {
		return nil
	}
	var err error
	if cfg.DB, err = parseDB(parts.path[1:]); err != nil {
		return fmt.Errorf("what follows the hosts: %w", err)
	}
	return nil
}

var errHost = errors.New("it is no host name, IPv4 address or IPv6 address in brackets: write host, host:port or [address]:port, and percent-encode the user name and password (/ is %2F, : is %3A)")

// parseHost returns host:port, with defaultPort if raw has none.
func parseHost(raw, defaultPort string) (string, error) {
	if raw == "" {
		return "", errors.New("it is missing: write redis://host:port, and no comma at the end")
	}
	var host, rest string
	if inside, after, ok := strings.Cut(raw, "]"); ok {
		text, err := url.PathUnescape(strings.TrimPrefix(inside, "["))
		if err != nil {
			return "", errHost
		}
		addr, err := netip.ParseAddr(text)
		if err != nil || !addr.Is6() || raw[0] != '[' || !plainZone(addr.Zone()) {
			return "", errHost
		}
		host, rest = "["+addr.String()+"]", after
	} else {
		host, _, _ = strings.Cut(raw, ":")
		rest = raw[len(host):]
		if !isHostName(host) {
			return "", errHost
		}
	}
	if rest == "" {
		return host + ":" + defaultPort, nil
	}
	port, ok := strings.CutPrefix(rest, ":")
	n, err := strconv.ParseUint(port, 10, 16)
	if !ok || err != nil || n == 0 {
		return "", errors.New("its port is no number from 1 to 65535: correct it, and percent-encode the user name and password (/ is %2F, : is %3A); IPv6 addresses stand in brackets")
	}
	return host + ":" + strconv.FormatUint(n, 10), nil
}

func plainZone(zone string) bool { return zone == "" || isHostName(zone) }

// isHostName tells whether s has only characters of host names, among which we
// count the underscore.
func isHostName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_')
	})
}

func parseDB(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, errors.New("the database must be a number, 0 or greater")
	}
	return int(n), nil
}
