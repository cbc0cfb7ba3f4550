package locker

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/golocker/golocker/locker/driver"
)

// People read who holds the lock where a majority says so, or there are readers, of which each node
// may name another.
func TestQuorumErrorNamesTheHolderThatIsKnown(t *testing.T) {
	const nobody = "locker: no majority has given the lock, nor says who holds it"
	locked := func(by string, mode Mode) Vote {
		return Vote{Answer: "no", Err: &LockedError{Name: "k", Holder: Holder{Label: by, Mode: mode}, by: by}}
	}
	a, b := locked("a", Exclusive), locked("b", Exclusive)
	for _, test := range []struct {
		votes []Vote
		want  string
	}{
		{[]Vote{a, a, b}, `locker: "k" is locked by "a"`},
		{[]Vote{a, b, {Answer: "yes"}}, nobody},
		{[]Vote{locked("a", Reading), locked("b", Reading), {Answer: "yes"}}, `locker: "k" is locked by "a"`},
	} {
		err := &QuorumError{Votes: test.votes, reason: test.votes[0].Err}
		for i := range err.Votes {
			err.Votes[i].Node = i
		}
		assert.EqualError(t, err, test.want+" (quorum of 3 nodes: node 0: no; node 1: no; node 2: "+test.votes[2].Answer+")")
	}
}

// Nodes that are new go on saying so. Who was refused by the others, or has not heard them, may do
// better when it asks again, unless they decide nothing.
func TestWhatNewNodesAloneStandInTheWayOf(t *testing.T) {
	var (
		isNew   = Vote{Err: errNew{}}
		yes     = Vote{}
		locked  = Vote{Err: &LockedError{}}
		refused = Vote{Err: driver.NewServerError("NOPERM")}
		silent  = Vote{Err: errors.New("timeout")}
		unheard = Vote{Err: errUnheard}
		unasked = Vote{Err: errUnasked}
	)
	for _, test := range []struct {
		votes []Vote
		want  bool
	}{
		{[]Vote{isNew, isNew, yes}, true},
		{[]Vote{isNew, yes, yes}, true},
		{[]Vote{isNew, locked, yes}, true},
		{[]Vote{isNew, isNew, unheard}, true},
		{[]Vote{isNew, locked, unheard}, true},
		{[]Vote{isNew, isNew, yes, unheard, unasked}, false},
		{[]Vote{isNew, isNew, isNew, unheard, unasked}, true},
		{[]Vote{isNew, yes, unheard}, false},
		{[]Vote{isNew, isNew, silent}, false},
		{[]Vote{isNew, isNew, refused}, false},
		{[]Vote{locked, locked, yes}, false},
		{[]Vote{locked, locked, locked}, false},
	} {
		assert.Equal(t, test.want, lacksNewNodes(&QuorumError{Votes: test.votes}), "%v", test.votes)
	}
	assert.False(t, lacksNewNodes(errNew{}), "not of a quorum")
}
