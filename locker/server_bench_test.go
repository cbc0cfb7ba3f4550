package locker

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// What a Lock and its Unlock cost the server, each kind of lock: the least of many
// samples, since the server counts the time in which it is kept from running, too.
func BenchmarkServerTime(b *testing.B) {
	for _, kind := range []struct {
		name string
		opts []Option
	}{
		{"mutex", nil},
		{"fenced", []Option{Fenced()}},
		{"reentrant", []Option{Reentrant(), Fenced()}},
		{"reader", []Option{ForReading(), Fenced()}},
		{"writer", []Option{ForWriting(), Fenced()}},
	} {
		b.Run(kind.name, func(b *testing.B) {
			f := &fakeDeployment{dial: startRedis(b)}
			c, err := New(f)
			require.NoError(b, err)
			defer c.Close()
			pairs := func(n int) {
				for i := range n {
					lease, err := c.Mutex(fmt.Sprint("orders:", i), kind.opts...).Lock(b.Context())
					require.NoError(b, err)
					require.NoError(b, lease.Unlock(b.Context()))
				}
			}
			pairs(10) // describes the deployment, loads the scripts
			const sample = 20
			least := math.Inf(1)
			for b.Loop() {
				before := serverTime(b, f)
				pairs(sample)
				least = min(least, (serverTime(b, f)-before)/sample)
			}
			b.ReportMetric(least, "server-µs")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// serverTime is how long the server has spent on requests of locks, in µs. Commands that
// a script calls are counted on their own, too; of those only SET is a request besides,
// and no script that a plain mutex needs calls it.
func serverTime(b *testing.B, f *fakeDeployment) (us float64) {
	conn, err := f.Connect(b.Context())
	require.NoError(b, err)
	defer conn.Close()
	stats := commandStats(b, conn)
	us = scriptTime(b, stats)
	if plain := regexp.MustCompile(`cmdstat_set:calls=\d+,usec=(\d+)`).FindStringSubmatch(stats); plain != nil && b.Name() == "BenchmarkServerTime/mutex" {
		set, err := strconv.ParseFloat(plain[1], 64)
		require.NoError(b, err)
		us += set
	}
	return us
}

// commandStats are what the server has counted of each command.
func commandStats(b *testing.B, conn driver.Conn) string {
	b.Helper()
	v, err := conn.Do(b.Context(), driver.Command{Args: []string{"INFO", "commandstats"}})
	require.NoError(b, err)
	return v.(string)
}

// scriptTime is how long the server has spent on scripts, in µs.
func scriptTime(b testing.TB, stats string) float64 {
	b.Helper()
	scripts := regexp.MustCompile(`cmdstat_evalsha:calls=\d+,usec=(\d+)`).FindStringSubmatch(stats)
	require.NotNil(b, scripts)
	us, err := strconv.ParseFloat(scripts[1], 64)
	require.NoError(b, err)
	return us
}
