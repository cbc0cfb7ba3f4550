package locker

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	setHistories()
	goleak.VerifyTestMain(m)
}
