package guard_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/golocker/golocker/cmd/lockctl/internal/guard"
)

// The test binary is the guardian of its commands.
func TestMain(m *testing.M) {
	guard.Main()
	os.Exit(m.Run())
}

func Example() {
	asked := guard.Now() // before the lease
	deadline := time.Now().Add(30 * time.Second)
	times := guard.Times{Margin: 600 * time.Millisecond, Grace: 5 * time.Second}
	p, err := guard.Start(guard.Command{Path: "/bin/sh", Args: []string{"sh", "-c", "exit 3"}, Env: os.Environ()}, times, asked, deadline)
	if err != nil {
		fmt.Println(err)
		return
	}
	for e := range p.Events() {
		if e.Result != nil {
			fmt.Println("exit code", e.Result.Code, "ended:", e.Result.Ended)
		}
	}
	// Output: exit code 3 ended: false
}
