package check_test

import (
	"flag"
	"os"
	"testing"
)

// The toys sleep nearly all the time, so that more of them can be played with at once than
// there are processors.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
