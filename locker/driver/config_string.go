package driver

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// String returns the Config in the shape of a data source name, with "REDACTED" in the place of
// each password. It leaves out what a data source name has no words for (Dial) and what the
// Config holds only in loaded form (certificates and keys). [ParseDSN] reads the result back to
// the same settings, except for the passwords and what was left out.
func (c Config) String() string {
	var b strings.Builder
	b.WriteString(c.scheme())
	b.WriteString("://")
	if c.Username != "" || c.Password != "" {
		b.WriteString(escape(c.Username))
		if c.Password != "" {
			b.WriteString(":" + redacted)
		}
		b.WriteString("@")
	}
	query := c.query()
	if c.Network == "unix" {
		b.WriteString(strings.ReplaceAll(escape(strings.Join(c.Addrs, ",")), "%2F", "/"))
		if c.DB != 0 {
			query = append([]string{"db=" + strconv.Itoa(c.DB)}, query...)
		}
	} else {
		// A "%" in an address begins the zone of an IPv6 address.
		b.WriteString(strings.ReplaceAll(strings.Join(c.Addrs, ","), "%", "%25"))
		b.WriteString("/" + strconv.Itoa(c.DB))
	}
	if len(query) > 0 {
		b.WriteString("?" + strings.Join(query, "&"))
	}
	return b.String()
}

func (c Config) scheme() string {
	switch {
	case c.Network == "unix":
		return "unix"
	case c.TLS != nil:
		return "rediss"
	default:
		return "redis"
	}
}

func (c Config) query() []string {
	var query []string
	add := func(key, value string) {
		if value != "" {
			query = append(query, key+"="+escape(value))
		}
	}
	if c.Mode != ModeSingle {
		add("mode", c.Mode.String())
	}
	add("master", c.Master)
	add("sentinel_username", c.SentinelUsername)
	add("sentinel_password", c.SentinelPassword.String())
	add("dial_timeout", duration(c.DialTimeout))
	add("timeout", duration(c.Timeout))
	if c.PoolSize != 0 {
		add("pool_size", strconv.Itoa(c.PoolSize))
	}
	add("client_name", c.ClientName)
	if c.TLS != nil {
		add("tls_server_name", c.TLS.ServerName)
		if c.TLS.InsecureSkipVerify {
			add("tls_insecure_skip_verify", "true")
		}
	}
	return query
}

func duration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// escape percent-encodes all of s but letters, digits and "-_.~".
func escape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

// GoString is what %#v prints.
func (c Config) GoString() string { return "driver.Config(" + strconv.Quote(c.String()) + ")" }

// Format prints String's result for every verb, for %#v GoString's.
func (c Config) Format(f fmt.State, verb rune) { format(f, verb, c.String(), c.GoString()) }

// MarshalJSON encodes String's result.
func (c Config) MarshalJSON() ([]byte, error) { return json.Marshal(c.String()) }

// LogValue is String's result.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }
