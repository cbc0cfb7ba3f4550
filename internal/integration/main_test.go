package integration_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// hogVariable makes this test binary a process that does nothing but use a CPU.
const hogVariable = "GOLOCKER_INTEGRATION_HOG"

func TestMain(m *testing.M) {
	if os.Getenv(hogVariable) != "" {
		hog()
	}
	flag.Parse()
	// Most tests wait for a server nearly all the time.
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	if !set {
		if err := flag.Set("test.parallel", "8"); err != nil {
			panic(err)
		}
	}
	redis.SetLogger(said)
	log.SetOutput(said)
	sleeping := []goleak.Option{
		// A Cluster's client of rueidis sleeps for 5 s after it has looked at the topology, also
		// if it is closed meanwhile, and for 1 s before it does.
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		// So does go-redis for 1 s between dials, after as many have failed as its pool has places.
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"),
	}
	goleak.VerifyTestMain(m, append(sleeping, goleak.Cleanup(func(code int) {
		if text := said.String(); strings.Contains(text, canary) {
			fmt.Println("FAIL: a client library logged a password:", text)
			code = 1
		}
		os.Exit(code)
	}))...)
}

// canary is the password of every server here that has one. It must not appear
// in anything printed.
const canary = "cnry-4711"

// said is what client libraries log.
var said = &logbook{}

type logbook struct {
	mu   sync.Mutex
	text strings.Builder
}

var _ io.Writer = said

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// Printf is what go-redis calls.
func (l *logbook) Printf(_ context.Context, format string, v ...any) {
	fmt.Fprintf(l, format+"\n", v...)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// spun keeps hog's loop from being nothing.
var spun uint

// hog uses a CPU until its standard input ends, which it does when the test
// process ends, however it does.
func hog() {
	go func() {
		for n := uint(0); ; n++ {
			spun = n
		}
	}()
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// startHogs starts n processes that compete with this one for the CPUs.
func startHogs(t *testing.T, n int) {
	t.Helper()
	for range n {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), hogVariable+"=1", "GOMAXPROCS=2")
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			_ = in.Close()
			_ = cmd.Wait()
		})
	}
}
