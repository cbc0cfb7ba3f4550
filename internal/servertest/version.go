package servertest

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A version is the version of a Redis or Valkey server: major and minor.
type version [2]int

// channelRules is the first version whose ACL knows channels. Before that, every user may use all channels.
var channelRules = version{6, 2}

func (v version) before(other version) bool { return slices.Compare(v[:], other[:]) < 0 }

func (v version) String() string { return fmt.Sprintf("%d.%d", v[0], v[1]) }

var versionOf = struct {
	mu    sync.Mutex
	known map[string]version // by the program's path
}{known: map[string]version{}}

// programVersion asks the server program which version it is.
func programVersion(binary string) (version, error) {
	versionOf.mu.Lock()
	defer versionOf.mu.Unlock()
	if v, ok := versionOf.known[binary]; ok {
		return v, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, binary, "--version").CombinedOutput()
	if err != nil {
		return version{}, fmt.Errorf("servertest: %s --version: %w\n%s", binary, err, out)
	}
	var v version
	said := regexp.MustCompile(`v=\d+\.\d+`).Find(out) // Redis server v=7.0.15 sha=…
	if _, err := fmt.Sscanf(string(said), "v=%d.%d", &v[0], &v[1]); err != nil {
		return version{}, fmt.Errorf("servertest: %s --version says %q, and no version", binary, out)
	}
	versionOf.known[binary] = v
	return v, nil
}

// Before reports whether the server program is older than that version.
func Before(tb testing.TB, major, minor int) bool {
	tb.Helper()
	v, err := programVersion(Require(tb))
	if err != nil {
		tb.Fatal(err)
	}
	return v.before(version{major, minor})
}

// SkipBefore skips the test if the server program is older than that version, and so lacks
// what the test needs.
func SkipBefore(tb testing.TB, major, minor int, needed string) {
	tb.Helper()
	if Before(tb, major, minor) {
		tb.Skipf("servertest: %s needs a server of version %v", needed, version{major, minor})
	}
}

// Rules returns rules of ACL SETUSER as the server program understands them: before 6.2
// without the rules for channels, which it refuses.
func Rules(tb testing.TB, rules ...string) []string {
	tb.Helper()
	v, err := programVersion(Require(tb))
	if err != nil {
		tb.Fatal(err)
	}
	return v.rules(rules)
}

func (v version) rules(rules []string) []string {
	if !v.before(channelRules) {
		return rules
	}
	return slices.DeleteFunc(slices.Clone(rules), func(rule string) bool {
		return strings.HasPrefix(rule, "&") || rule == "resetchannels" || rule == "allchannels"
	})
}

// understood returns the configuration as a server of that version takes it.
func (v version) understood(config []directive) []directive {
	config = slices.Clone(config)
	for i, d := range config {
		if d[0] == "user" {
			config[i] = v.rules(d)
		}
	}
	return config
}

// sentinelAuth returns the command that authenticates a client to a Sentinel of that
// configuration, which knows no users: none, where the Sentinel has no password.
func (s *settings) sentinelAuth() []string {
	for _, d := range slices.Backward(s.sentinels) {
		if d[0] == "requirepass" {
			return []string{"AUTH", d[1]}
		}
	}
	return nil
}
