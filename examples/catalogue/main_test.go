package main

import (
	"testing"

	"github.com/golocker/golocker/examples/internal/demotest"
)

func TestCatalogue(t *testing.T) {
	demotest.Run(t, program, "redigo", `read-write lock: +\d+ reads.* 0 of a catalogue`)
}
