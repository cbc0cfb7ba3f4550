package nemesis_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// atOnce is how many faults are proved at a time: most of that is waiting for servers to
// agree, not work.
const atOnce = 8

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", fmt.Sprint(atOnce)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
