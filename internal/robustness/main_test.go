package robustness_test

import (
	"os"
	"testing"

	"github.com/golocker/golocker/internal/robustness/worker"
)

func TestMain(m *testing.M) {
	worker.Main() // does not return in a worker
	os.Exit(m.Run())
}
