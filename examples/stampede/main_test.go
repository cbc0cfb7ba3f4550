package main

import (
	"testing"

	"github.com/golocker/golocker/examples/internal/demotest"
)

func TestStampede(t *testing.T) {
	demotest.Run(t, program, "rueidis", `no lock: +computed +\d+ times`, `wait for it: +computed +1 times`)
}
