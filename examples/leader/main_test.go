package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/golocker/golocker/examples/internal/demotest"
)

func TestMain(m *testing.M) {
	program.PlayPart()
	os.Exit(m.Run())
}

func TestLeader(t *testing.T) {
	demotest.Run(t, program, "redigo", `follows`, `hands over`, `crashes`, `kept: +3 terms`)
}

// What looks at the journal must be able to find a violation.
func TestCheck(t *testing.T) {
	for text, lines := range map[string][]string{
		"an old leader writes":   {"1 elected", "2 elected", "1 step 1"},
		"two leaders, one token": {"1 elected", "1 elected"},
		"nonsense":               {"1 elected", "x"},
	} {
		_, ordered := check(lines)
		assert.False(t, ordered, text)
	}
	elections, ordered := check([]string{"1 elected", "1 step 1", "3 elected", "3 step 1"})
	assert.True(t, ordered)
	assert.Equal(t, 2, elections)
}
