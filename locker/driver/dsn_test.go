package driver_test

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"github.com/golocker/golocker/locker/driver"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseDSN(t *testing.T) {
	tls12 := func(change func(*tls.Config)) *tls.Config {
		c := &tls.Config{MinVersion: tls.VersionTLS12}
		if change != nil {
			change(c)
		}
		return c
	}
	tests := map[string]driver.Config{
		"redis://localhost": {Network: "tcp", Addrs: []string{"localhost:6379"}},
		"REDIS://localhost": {Network: "tcp", Addrs: []string{"localhost:6379"}},
		"redis://Redis-Z.A": {Network: "tcp", Addrs: []string{"Redis-Z.A:6379"}},
		"redis://10.0.0.1:7000/": {
			Network: "tcp", Addrs: []string{"10.0.0.1:7000"},
		},
		"redis://bob:pw@my_host-1.example:1/3": {
			Network: "tcp", Addrs: []string{"my_host-1.example:1"}, Username: "bob", Password: "pw", DB: 3,
		},
		"redis://:pw@h": {Network: "tcp", Addrs: []string{"h:6379"}, Password: "pw"},
		"redis://b%3Aob:%40%2F%3F%23%25%3A+;,=@h": {
			Network: "tcp", Addrs: []string{"h:6379"}, Username: "b:ob", Password: "@/?#%:+;,=",
		},
		"redis://bob:p:w@x@h":        {Network: "tcp", Addrs: []string{"h:6379"}, Username: "bob", Password: "p:w@x"},
		"redis://[::1]":              {Network: "tcp", Addrs: []string{"[::1]:6379"}},
		"redis://[2001:DB8::1]:7/1":  {Network: "tcp", Addrs: []string{"[2001:db8::1]:7"}, DB: 1},
		"redis://[fe80::1%25eth0]:7": {Network: "tcp", Addrs: []string{"[fe80::1%eth0]:7"}},
		"redis://s1,s2:7,[::1]/2?mode=sentinel&master=m%20y&sentinel_username=su&sentinel_password=s%2Bp": {
			Mode: driver.ModeSentinel, Network: "tcp", Addrs: []string{"s1:26379", "s2:7", "[::1]:26379"},
			Master: "m y", SentinelUsername: "su", SentinelPassword: "s+p", DB: 2,
		},
		"redis://s?mode=sentinel&master=m&sentinel_password=a=b": {
			Mode: driver.ModeSentinel, Network: "tcp", Addrs: []string{"s:26379"}, Master: "m", SentinelPassword: "a=b",
		},
		"redis://n1,n2:7001/0?mode=cluster": {
			Mode: driver.ModeCluster, Network: "tcp", Addrs: []string{"n1:6379", "n2:7001"},
		},
		"redis://h?mode=single&dial_timeout=1s&timeout=250ms&pool_size=7&client_name=locks-1": {
			Network: "tcp", Addrs: []string{"h:6379"},
			DialTimeout: time.Second, Timeout: 250 * time.Millisecond, PoolSize: 7, ClientName: "locks-1",
		},
		"unix:///run/redis.sock": {Network: "unix", Addrs: []string{"/run/redis.sock"}},
		"unix://bob:pw@/run/my%20redis%40home.sock?db=3&timeout=1s": {
			Network: "unix", Addrs: []string{"/run/my redis@home.sock"}, Username: "bob", Password: "pw", DB: 3, Timeout: time.Second,
		},
		"rediss://h": {Network: "tcp", Addrs: []string{"h:6379"}, TLS: tls12(nil)},
		"rediss://h?tls_insecure_skip_verify=false": {Network: "tcp", Addrs: []string{"h:6379"}, TLS: tls12(nil)},
		"rediss://h?tls_server_name=redis.internal&tls_insecure_skip_verify=true": {
			Network: "tcp", Addrs: []string{"h:6379"},
			TLS: tls12(func(c *tls.Config) { c.ServerName, c.InsecureSkipVerify = "redis.internal", true }),
		},
	}
	for dsn, want := range tests {
		t.Run(dsn, func(t *testing.T) {
			got, err := driver.ParseDSN(dsn)
			require.NoError(t, err)
			// Not assert.Equal, whose output is String's.
			assert.True(t, assert.ObjectsAreEqual(want, got), "got %v\nwant %v", got, want)
			assert.Equal(t, string(want.Password), string(got.Password))
			assert.Equal(t, string(want.SentinelPassword), string(got.SentinelPassword))
		})
	}
}

// Every DSN here holds the word hunter2 wherever a secret may have ended up.
func TestParseDSNErrors(t *testing.T) {
	tests := []struct{ dsn, want string }{
		{"", "must begin with redis://"},
		{"localhost:6379", "must begin with redis://"},
		{"http://bob:hunter2@h", "must begin with redis://"},
		{"bob:hunter2@h", "must begin with redis://"},
		{"redis:/bob:hunter2@h", "must begin with redis://"},
		{" redis://bob:hunter2@h", "must begin with redis://"},

		{"redis://h/0#hunter2", "write %23"},
		{"redis://bob:hun#hunter2@h", "write %23"},
		{"redis://bob:hun/hunter2@h", "percent-encode the user name and password"},
		{"redis://bob:1/hunter2@h", "percent-encode the user name and password"},
		{"redis://bob:1?hunter2@h", "percent-encode the user name and password"},
		{"redis://bob:1?timeout=hunter2@h", "percent-encode the user name and password"},
		{"redis://bob:%hunter2@h", "write %25"},
		{"redis://%hunter2:x@h", "write %25"},
		{"redis://hunter2@h", "no password before the @"},
		{"redis://hunter2:@h", "no password before the @"},
		{"redis://@h", "no password before the @"},
		{"redis://bob:hunter2@h1:1,bob:hunter2@h2:2?mode=cluster", "once, before the first host"},
		{"redis://bob:hunter2@h1,:hunter2@h2?mode=sentinel&master=m", "once, before the first host"},

		{"redis://", "host 1: it is missing"},
		{"redis:///3", "host 1: it is missing"},
		{"redis://bob:hunter2@", "host 1: it is missing"},
		{"redis://h1,?mode=cluster", "host 2: it is missing"},
		{"redis://:6379", "host 1: it is no host name"},
		{"redis://hun ter2", "host 1: it is no host name"},
		{"redis://h%41", "host 1: it is no host name"},
		{"redis://h{unter}", "host 1: it is no host name"},
		{"redis://bob:hunter2", "port is no number"},
		{"redis://h:0", "port is no number"},
		{"redis://h:65536", "port is no number"},
		{"redis://h:-1", "port is no number"},
		{"redis://h:", "port is no number"},
		{"redis://::1", "host 1: it is no host name"},
		{"redis://fe80::1", "IPv6 addresses stand in brackets"},
		{"redis://[::1", "host 1: it is no host name"},
		{"redis://::1]", "host 1: it is no host name"},
		{"redis://[::1]x:1", "port is no number"},
		{"redis://[::1]1", "port is no number"},
		{"redis://[127.0.0.1]", "host 1: it is no host name"},
		{"redis://[hunter2]", "host 1: it is no host name"},
		{"redis://[fe80::1%hunter2]", "host 1: it is no host name"},
		{"redis://[fe80::1%25a%2Cb]", "host 1: it is no host name"},
		{"redis://h1,h2", "several hosts for one server"},

		{"redis://h/-1", "must be a number, 0 or greater"},
		{"redis://h/+1", "must be a number, 0 or greater"},
		{"redis://h/hunter2", "must be a number, 0 or greater"},
		{"redis://h/1/", "must be a number, 0 or greater"},
		{"redis://h/99999999999", "must be a number, 0 or greater"},
		{"redis://h/3?mode=cluster", "no database but 0"},
		{"redis://h?db=3", "the key db is for unix:// only"},

		{"redis://h?", "no key after the ?"},
		{"redis://h?&timeout=1s", "key 1 after the ? is not known"},
		{"redis://h?timeout=1s&hunter2=1", "key 2 after the ? is not known: the keys are mode, master, "},
		{"redis://h?mode=sentinel&master=m&sentinel_password=a&hunter2", "write %26"},
		{"redis://h?Timeout=1s", "is not known"},
		{"redis://h?timeout=1s&timeout=1s", "the key timeout is given twice"},
		{"redis://h?timeout=", "the key timeout has no value"},
		{"redis://h?timeout", "the key timeout has no value"},
		{"redis://h?client_name=a%2", "the value of client_name has a % that"},
		{"redis://h?mode=sentinel&master=m&sentinel_password=hunter2+", "write %2B"},
		{"redis://h?mode=hunter2", "must be single, sentinel or cluster"},
		{"redis://h?mode=sentinel", "add master=name"},
		{"redis://h?mode=sentinel&master=m&sentinel_username=hunter2", "add sentinel_password"},
		{"redis://h?master=m", "the key master is for Sentinels only"},
		{"redis://h?mode=cluster&sentinel_password=hunter2", "the key sentinel_password is for Sentinels only"},
		{"redis://h?timeout=hunter2", "the value of timeout must be a duration"},
		{"redis://h?timeout=-1s", "the value of timeout must be a duration"},
		{"redis://h?timeout=0s", "the value of timeout must be a duration"},
		{"redis://h?dial_timeout=5", "the value of dial_timeout must be a duration"},
		{"redis://h?pool_size=0", "the value of pool_size must be a number"},
		{"redis://h?pool_size=-1", "the value of pool_size must be a number"},
		{"redis://h?pool_size=99999999999", "the value of pool_size must be a number"},
		{"redis://h?pool_size=hunter2", "the value of pool_size must be a number"},
		{"redis://h?client_name=hunter2%20x", "the value of client_name may have no spaces"},
		{"redis://h?client_name=hunter2%C3%A9", "only ASCII characters"},

		{"redis://h?tls_server_name=hunter2", "the key tls_server_name is for TLS: write rediss://"},
		{"unix:///s?tls_ca=hunter2", "the key tls_ca is for TLS"},
		{"rediss://h?tls_insecure_skip_verify=1", "must be true or false"},
		{"rediss://h?tls_cert=hunter2", "belong together"},
		{"rediss://h?tls_key=hunter2", "belong together"},
		{"rediss://h?tls_ca=/nonexistent/hunter2", "the file of tls_ca cannot be read"},
		{"rediss://h?tls_cert=/nonexistent/hunter2&tls_key=/nonexistent/hunter2", "the file of tls_cert cannot be read"},

		{"unix://", "path of the socket is missing"},
		{"unix:///", "path of the socket is missing"},
		{"unix://hunter2", "takes no host"},
		{"unix://bob:hunter2/s", "takes no host"},
		{"unix://h/s", "takes no host"},
		{"unix:///hunter2@/s", "percent-encode the user name and password"},
		{"unix:///%hunter2", "write %25"},
		{"unix:///a%00b", "zero byte"},
		{"unix:///s?db=-1", "the value of db"},
		{"unix:///s?db=hunter2", "the value of db"},
		{"unix:///s?mode=cluster", "remove the key mode"},
		{"unix:///s?mode=sentinel&master=m", "remove the key mode"},
	}
	for _, test := range tests {
		t.Run(test.dsn, func(t *testing.T) {
			cfg, err := driver.ParseDSN(test.dsn)
			require.ErrorContains(t, err, test.want)
			assert.True(t, strings.HasPrefix(err.Error(), "driver: invalid DSN: "), "%v", err)
			assert.NotContains(t, err.Error(), "hunter2")
			assert.Zero(t, cfg)
		})
	}
}

// seedDSNs begin the corpora of the fuzz tests; each has a password.
var seedDSNs = []string{
	"redis://bob:hunter2@localhost:6379/0?timeout=1s",
	"rediss://:hunter2@[fe80::1%25eth0]:1/3?tls_server_name=a%26b",
	"unix://bob:hunter2@/run/my%2520redis,.sock?db=3&client_name=x",
	"redis://:hunter2@a,b:7/1?mode=sentinel&master=m&sentinel_username=u&sentinel_password=hunter2",
	"redis://u:hunter2@a,b/?mode=cluster&pool_size=3&dial_timeout=1h2us",
	"redis://bob:x?hunter2=1@h",
	"redis://bob:x#hunter2@h",
	"redis://hunter2@h",
}

// namesFiles tells of a DSN that would make the fuzzer read files, such as
// /dev/zero.
func namesFiles(dsn string) bool {
	return strings.Contains(dsn, "tls_ca") || strings.Contains(dsn, "tls_cert")
}

func FuzzParseDSN(f *testing.F) {
	for _, dsn := range seedDSNs {
		f.Add(dsn)
	}
	f.Fuzz(func(t *testing.T, dsn string) {
		if namesFiles(dsn) {
			t.Skip()
		}
		cfg, err := driver.ParseDSN(dsn)
		if err != nil {
			return
		}
		shown := cfg.String()

		other := cfg
		if cfg.Password != "" {
			other.Password += "other"
		}
		if cfg.SentinelPassword != "" {
			other.SentinelPassword += "other"
		}
		require.Equal(t, shown, other.String(), "a password changes what is shown")

		again, err := driver.ParseDSN(shown)
		require.NoError(t, err, "reading back %s", shown)
		again.Password, again.SentinelPassword = cfg.Password, cfg.SentinelPassword
		require.True(t, assert.ObjectsAreEqual(cfg, again), "%s is read back as %s", shown, again)
	})
}

// FuzzParseDSNErrors puts a secret anywhere in a DSN and looks for it in the
// error.
func FuzzParseDSNErrors(f *testing.F) {
	const secret = "hunter2"
	for _, dsn := range seedDSNs {
		before, after, _ := strings.Cut(dsn, secret)
		f.Add(before, after)
		f.Add(before+"%", after)
		f.Add(before, "?"+after)
		f.Add("redis://h:"+before, after)
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		dsn := before + secret + after
		if namesFiles(dsn) {
			t.Skip()
		}
		if _, err := driver.ParseDSN(dsn); err != nil {
			require.NotContains(t, err.Error(), secret)
		}
	})
}
