package servertest

import (
	_ "embed"
	"os"
	"os/exec"
	"testing"
)

//go:embed clockshim/clock.c
var shimSource []byte

// buildShim makes the library that puts a [Clock] into a server.
func buildShim(tb testing.TB, dir, library string) {
	tb.Helper()
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "cc"
	}
	if _, err := exec.LookPath(compiler); err != nil {
		const reason = "servertest: NOT TESTED WITH CLOCKS THAT ARE SET: there is no C compiler (Debian: apt-get install gcc libc6-dev)"
		if os.Getenv(EnvRequire) == "1" {
			tb.Fatal(reason)
		}
		tb.Skip(reason)
	}
	source := dir + "/clock.c"
	if err := os.WriteFile(source, shimSource, 0o600); err != nil {
		tb.Fatal(err)
	}
	if out, err := exec.Command(compiler, "-O2", "-shared", "-fPIC", "-o", library, source).CombinedOutput(); err != nil {
		tb.Fatalf("servertest: %s: %v\n%s", compiler, err, out)
	}
}
