package locker

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNodesThatNobodyHasAskedHaveNeverAnswered(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		all := nodes.client(t, QuorumConfig{}).Nodes()
		assert.Len(t, all, len(nodes))
		for i, n := range all {
			assert.Equal(t, NodeHealth{Node: i}, n)
		}
	})
}

func TestOneDeploymentHasNoNodes(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		assert.Empty(t, f.client(t).Nodes())
	})
}
