package main

import (
	"os"
	"testing"

	"github.com/golocker/golocker/examples/internal/demotest"
)

func TestMain(m *testing.M) {
	program.PlayPart()
	os.Exit(m.Run())
}

func TestCronjob(t *testing.T) {
	demotest.Run(t, program, "rueidis", `host \d crashes`, `kept: +6 of 6 reports`)
}
