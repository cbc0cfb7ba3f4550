package driver_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/golocker/golocker/locker/driver"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestConfigString(t *testing.T) {
	tests := []struct {
		want string
		cfg  driver.Config
	}{
		{"redis:///0", driver.Config{}},
		{"redis://h:6379/3", driver.Config{Network: "tcp", Addrs: []string{"h:6379"}, DB: 3}},
		{"redis://b%3Aob:REDACTED@h:6379/0", driver.Config{Addrs: []string{"h:6379"}, Username: "b:ob", Password: "hunter2"}},
		{"redis://:REDACTED@h:6379/0", driver.Config{Addrs: []string{"h:6379"}, Password: "hunter2"}},
		{"unix://:REDACTED@/run/a%20b%40c.sock?db=3&timeout=1s", driver.Config{
			Network: "unix", Addrs: []string{"/run/a b@c.sock"}, Password: "hunter2", DB: 3, Timeout: time.Second,
		}},
		{"rediss://[fe80::1%25eth0]:1/0?tls_server_name=name&tls_insecure_skip_verify=true", driver.Config{
			Addrs: []string{"[fe80::1%eth0]:1"}, TLS: &tls.Config{ServerName: "name", InsecureSkipVerify: true},
		}},
		{"redis://a:1,b:2/0?mode=sentinel&master=m&sentinel_username=su&sentinel_password=REDACTED&dial_timeout=1s&timeout=250ms&pool_size=7&client_name=n", driver.Config{
			Mode: driver.ModeSentinel, Addrs: []string{"a:1", "b:2"}, Master: "m", SentinelUsername: "su", SentinelPassword: "hunter2",
			DialTimeout: time.Second, Timeout: 250 * time.Millisecond, PoolSize: 7, ClientName: "n",
		}},
		{"redis://a:1,b:2/0?mode=cluster", driver.Config{Mode: driver.ModeCluster, Addrs: []string{"a:1", "b:2"}}},
	}
	for _, test := range tests {
		assert.Equal(t, test.want, test.cfg.String())
	}
}

// printings is every way we know of that a value is printed.
func printings(t *testing.T, v any) map[string]string {
	t.Helper()
	out := make(map[string]string)
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%40s", "%.3s", "%T %[1]v"} {
		out[format] = fmt.Sprintf(format, v)
		out["[]"+format] = fmt.Sprintf(format, []any{v})
	}
	text, err := json.Marshal(v)
	require.NoError(t, err)
	out["json"] = string(text)
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("text", "v", v)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("json", "v", v)
	out["slog"] = log.String()
	return out
}

func TestNoPrintingShowsAPassword(t *testing.T) {
	const hidden = "hunter2"
	hex := fmt.Sprintf("%x", hidden)
	certPath, keyPath, _ := writePEM(t)
	cfg, err := driver.ParseDSN("rediss://bob:hunter2@h?mode=sentinel&master=m&sentinel_password=hunter2&tls_cert=" + certPath + "&tls_key=" + keyPath)
	require.NoError(t, err)
	values := map[string]any{
		"Config":           cfg,
		"*Config":          &cfg,
		"[]Config":         []driver.Config{cfg},
		"Config in struct": struct{ C driver.Config }{cfg},
		"Secret":           cfg.Password,
		"*Secret":          &cfg.Password,
		"Secret in map":    map[string]driver.Secret{"k": cfg.Password},
		"Secret in struct": struct{ S driver.Secret }{cfg.Password},
	}
	for name, v := range values {
		for how, got := range printings(t, v) {
			assert.NotContains(t, got, hidden, "%s as %s", name, how)
			assert.NotContains(t, got, hex, "%s as %s", name, how)
			assert.NotContains(t, got, "PrivateKey", "%s as %s", name, how)
		}
	}
}

func TestConfigFormats(t *testing.T) {
	cfg := driver.Config{Addrs: []string{"h:1"}, Password: "hunter2"}
	const shown = "redis://:REDACTED@h:1/0"
	assert.Equal(t, shown, fmt.Sprintf("%+v", cfg))
	assert.Equal(t, `driver.Config("`+shown+`")`, fmt.Sprintf("%#v", cfg))
	assert.Equal(t, `"`+shown+`"`, fmt.Sprintf("%q", cfg))
	assert.Equal(t, shown, cfg.LogValue().String())
	text, err := json.Marshal(cfg)
	require.NoError(t, err)
	assert.JSONEq(t, `"`+shown+`"`, string(text))
}

func TestSecret(t *testing.T) {
	secret := driver.Secret("hunter2")
	assert.Equal(t, "hunter2", string(secret))
	assert.Equal(t, "REDACTED", secret.String())
	assert.Equal(t, `driver.Secret("REDACTED")`, secret.GoString())
	assert.Equal(t, "REDACTED", fmt.Sprintf("%+v", secret))
	assert.Equal(t, `driver.Secret("REDACTED")`, fmt.Sprintf("%#v", secret))
	assert.Equal(t, `  "REDACTED"`, fmt.Sprintf("%12q", secret))
	assert.Equal(t, "REDACTED", secret.LogValue().String())
	text, err := secret.MarshalText()
	require.NoError(t, err)
	assert.Equal(t, "REDACTED", string(text))
	text, err = secret.MarshalJSON()
	require.NoError(t, err)
	assert.Equal(t, `"REDACTED"`, string(text))

	empty := driver.Secret("")
	assert.Empty(t, empty.String())
	assert.Equal(t, "[]", fmt.Sprintf("[%v]", empty))
	assert.Equal(t, `driver.Secret("")`, empty.GoString())
	assert.Empty(t, empty.LogValue().String())
	text, err = json.Marshal(struct{ S driver.Secret }{})
	require.NoError(t, err)
	assert.Equal(t, `{"S":""}`, string(text))
}

func TestModeString(t *testing.T) {
	assert.Equal(t, "single", driver.Mode(0).String())
	assert.Equal(t, "sentinel", driver.ModeSentinel.String())
	assert.Equal(t, "cluster", driver.ModeCluster.String())
}

func TestConfigCheck(t *testing.T) {
	all := []driver.Mode{driver.ModeSingle, driver.ModeSentinel, driver.ModeCluster}
	for _, good := range []driver.Config{
		{Addrs: []string{"a:1"}},
		{Network: "tcp", Addrs: []string{"a:1"}, DB: 3, Timeout: 1, DialTimeout: 1, PoolSize: 1},
		{Network: "unix", Addrs: []string{"/s"}},
		{Mode: driver.ModeSentinel, Addrs: []string{"a:1", "b:1"}, Master: "m", DB: 1},
		{Mode: driver.ModeCluster, Addrs: []string{"a:1", "b:1"}},
	} {
		assert.NoError(t, good.Check(all...))
	}
	for _, test := range []struct {
		text        string
		unsupported bool
		cfg         driver.Config
	}{
		{"mode Mode(17) (this driver has [single sentinel cluster])", true, driver.Config{Mode: 17, Addrs: []string{"a:1"}}},
		{`network "udp" (use tcp or unix)`, true, driver.Config{Network: "udp", Addrs: []string{"a:1"}}},
		{"cluster over a unix socket", true, driver.Config{Network: "unix", Mode: driver.ModeCluster, Addrs: []string{"/s"}}},
		{"sentinel over a unix socket", true, driver.Config{Network: "unix", Mode: driver.ModeSentinel, Addrs: []string{"/s"}, Master: "m"}},
		{"database 3 of a Cluster", true, driver.Config{Mode: driver.ModeCluster, Addrs: []string{"a:1"}, DB: 3}},
		{"database -1", false, driver.Config{Addrs: []string{"a:1"}, DB: -1}},
		{"without address", false, driver.Config{}},
		{"without address", false, driver.Config{Mode: driver.ModeCluster, Addrs: []string{"a:1", ""}}},
		{"one address, not 2", false, driver.Config{Addrs: []string{"a:1", "b:1"}}},
		{"master's name", false, driver.Config{Mode: driver.ModeSentinel, Addrs: []string{"a:1"}}},
		{"negative", false, driver.Config{Addrs: []string{"a:1"}, Timeout: -1}},
		{"negative", false, driver.Config{Addrs: []string{"a:1"}, DialTimeout: -1}},
		{"negative", false, driver.Config{Addrs: []string{"a:1"}, PoolSize: -1}},
	} {
		test.cfg.Password = "hunter2"
		err := test.cfg.Check(all...)
		require.ErrorContains(t, err, test.text)
		assert.Equal(t, test.unsupported, errors.Is(err, driver.ErrUnsupported), test.text)
		assert.NotContains(t, err.Error(), "hunter2")
	}
	err := driver.Config{Mode: driver.ModeCluster, Addrs: []string{"a:1"}}.Check(driver.ModeSingle)
	require.ErrorIs(t, err, driver.ErrUnsupported)
}

func TestWithDefaults(t *testing.T) {
	defaults := driver.Config{Network: "tcp", DialTimeout: driver.DefaultDialTimeout, Timeout: driver.DefaultTimeout}
	assert.Equal(t, defaults, driver.Config{}.WithDefaults())
	assert.Equal(t, defaults, driver.Config{DialTimeout: -1, Timeout: -1}.WithDefaults())
	set := driver.Config{Network: "unix", DialTimeout: 1, Timeout: 2}
	assert.Equal(t, set, set.WithDefaults())
}

// What drivers add up and multiply has to fit a Duration.
func TestWithDefaultsBoundsTimeouts(t *testing.T) {
	cfg := driver.Config{DialTimeout: math.MaxInt64, Timeout: math.MaxInt64}.WithDefaults()
	for _, timeout := range []time.Duration{cfg.DialTimeout, cfg.Timeout} {
		assert.Greater(t, timeout, 365*24*time.Hour)
		assert.Less(t, timeout, math.MaxInt64/time.Duration(20), "ten times both of them")
	}
}

func TestNewConnector(t *testing.T) {
	cfg := driver.Config{Addrs: []string{"a:1"}, Password: "hunter2"}
	wrong := errors.New(cfg.String())
	connector := driver.NewConnector(memoryDriver{}, func(context.Context) (driver.Conn, error) { return nil, wrong })
	assert.Equal(t, memoryDriver{}, connector.Driver())
	_, err := connector.Connect(t.Context())
	assert.Equal(t, wrong, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = connector.Connect(ctx)
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
	for way, text := range printings(t, connector) {
		assert.NotContains(t, text, "hunter2", way)
	}
}
