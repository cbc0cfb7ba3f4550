package conformance_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/golocker/golocker/conformance"
)

// A quorum of nodes that conform keeps the promises of locks.
func TestQuorum(t *testing.T) {
	withoutRaceDetector(t)
	conformance.Test(t, harness(""), conformance.Quorum(3))
}

func TestCasesThatDoNotFitAQuorumExist(t *testing.T) {
	for clause := range conformance.NotOnQuorum {
		assert.True(t, slices.ContainsFunc(conformance.Cases(), func(name string) bool {
			return name == clause || strings.HasPrefix(name, clause+"/")
		}), clause)
	}
}
