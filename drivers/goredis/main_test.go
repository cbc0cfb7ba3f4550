package goredis_test

import (
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis logs each dial that fails
	goleak.VerifyTestMain(m)
}
