package locker

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// A namedVote is a vote with a name, for tables.
type namedVote struct {
	name string
	vote
}

func in(name string, v driver.Value, err error) namedVote {
	return namedVote{name, vote{in: true, Result: driver.Result{Value: v, Err: err}}}
}

var (
	voteYes     = in("yes", int64(1), nil)
	voteUnknown = in("unknown", nil, errors.New("timeout"))
	voteNotSent = in("not sent", nil, driver.NotSent(errors.New("no route")))
	voteRefused = in("refused", nil, driver.NewServerError("NOPERM"))
	voteMissing = namedVote{name: "missing"}
)

// ballots gives all ballots of n nodes of these votes, each in a random order: which node
// says what must not matter.
func ballots(n int, votes []namedVote) iter.Seq2[string, ballot] {
	r := rand.New(rand.NewPCG(uint64(n), 0))
	return func(yield func(string, ballot) bool) {
		chosen := make([]namedVote, 0, n)
		var choose func(from int) bool
		choose = func(from int) bool {
			if len(chosen) == n {
				shuffled := slices.Clone(chosen)
				r.Shuffle(n, func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
				var b ballot
				var name []string
				for _, v := range shuffled {
					b, name = append(b, v.vote), append(name, v.name)
				}
				return yield(fmt.Sprint(name), b)
			}
			for i := from; i < len(votes); i++ {
				chosen = append(chosen, votes[i])
				if !choose(i) {
					return false
				}
				chosen = chosen[:len(chosen)-1]
			}
			return true
		}
		choose(0)
	}
}

// stays checks that what a verdict says of a ballot that is not closed holds whatever
// else the nodes vote. classify names what it says, "" if nothing yet.
func stays(t *testing.T, votes []namedVote, classify func(b ballot) string) {
	t.Helper()
	for _, n := range []int{3, 5} {
		for name, b := range ballots(n, votes) {
			class := classify(b)
			if class == impossible {
				continue
			}
			if class == "" {
				require.False(t, b.closed(), "%s: a closed ballot is decided", name)
				continue
			}
			for i := range b {
				if b[i].in {
					continue
				}
				for _, next := range votes {
					more := slices.Clone(b)
					more[i] = next.vote
					if then := classify(more); then != impossible {
						require.Equal(t, class, then, "%s, and then %s of node %d", name, next.name, i)
					}
				}
			}
		}
	}
}

// impossible classifies ballots that there are not.
const impossible = "impossible"

func saysHeld(b ballot) string {
	v, err, ok := heldVerdict(b)
	switch {
	case !ok:
		return ""
	case err != nil:
		return "unknown"
	case v == int64(1):
		return "yes"
	}
	return "lost"
}

var heldVotes = []namedVote{voteYes, in("absent", int64(0), nil), in("taken", int64(-1), nil), voteUnknown, voteNotSent, voteRefused, voteMissing}

func TestHeldVerdict(t *testing.T) {
	stays(t, heldVotes, saysHeld)
	for _, n := range []int{3, 5} {
		for name, b := range ballots(n, heldVotes) {
			yes, taken := b.count(says(1)), b.count(says(-1))
			not := taken + b.count(says(0))
			v, _, _ := heldVerdict(b)
			switch saysHeld(b) {
			case "yes":
				assert.GreaterOrEqual(t, yes, majority(n), name)
			case "lost":
				assert.Less(t, n-not, majority(n), "%s: a majority is impossible", name)
				assert.Equal(t, taken > 0, v == int64(-1), name)
			case "unknown":
				assert.True(t, b.closed(), name)
				fallthrough
			case "":
				assert.Less(t, yes, majority(n), name)
				assert.GreaterOrEqual(t, n-not, majority(n), name)
			}
		}
	}
}

// Nodes that were not given a lease need not confirm its release, nor can they: at least one
// that was has to, and nothing else makes it ours.
func TestHeldVerdictWhereNodesHaveNoVote(t *testing.T) {
	clear := namedVote{"clear", vote{in: true, clear: true, Result: oneUnasked[0]}}
	noVote := func(v vote) bool { return v.clear }
	votes := append(slices.Clone(heldVotes), clear)
	stays(t, votes, func(b ballot) string {
		if b.count(noVote) > len(b)-majority(len(b)) {
			return impossible // a majority was given it
		}
		return saysHeld(b)
	})
	for _, n := range []int{3, 5} {
		for name, b := range ballots(n, votes) {
			clear := b.count(noVote)
			if clear == 0 || clear > n-majority(n) {
				continue
			}
			yes, taken := b.count(says(1)), b.count(says(-1))
			not := taken + b.count(says(0))
			v, _, _ := heldVerdict(b)
			assert.Equal(t, yes > 0 && yes+clear >= majority(n), saysHeld(b) == "yes", "%s: with those a majority is free", name)
			for _, answer := range []int64{1, 0, -1} { // they were asked, since another call of the batch concerns them
				asked := slices.Clone(b)
				for i, v := range asked {
					if v.clear {
						asked[i].Result = driver.Result{Value: answer}
					}
				}
				assert.Equal(t, saysHeld(b), saysHeld(asked), "%s: %d of those that have no vote", name, answer)
			}
			switch saysHeld(b) {
			case "lost":
				assert.Positive(t, not, name)
				assert.Equal(t, taken > 0, v == int64(-1), name)
				assert.True(t, b.closed() || not >= majority(n), name)
			case "unknown":
				assert.True(t, b.closed(), name)
				assert.GreaterOrEqual(t, n-clear-not, majority(n-clear), "%s: too few of those that were given it may have it", name)
			}
		}
	}
}

func TestAllVerdict(t *testing.T) {
	for _, n := range []int{3, 5} {
		for name, b := range ballots(n, heldVotes) {
			_, err, ok := allVerdict(b)
			answered := b.count(func(v vote) bool { return v.Err == nil })
			assert.Equal(t, b.closed(), ok, name)
			if ok {
				assert.Equal(t, answered == n, err == nil, name)
				assert.Equal(t, err != nil && answered >= majority(n), mostDone(err), name)
			}
		}
	}
}

func TestFailureIsUnknownByDefault(t *testing.T) {
	for _, n := range []int{3, 5} {
		for name, b := range ballots(n, append(heldVotes, in("refused at connect", nil, driver.NotSent(driver.NewServerError("WRONGPASS"))))) {
			sent := n - b.count(func(v vote) bool { return driver.OutcomeOf(v.Err) == driver.OutcomeNotSent })
			refused := b.count(func(v vote) bool { _, ok := errors.AsType[*driver.ServerError](v.Err); return ok })
			err := b.failure()
			want := driver.OutcomeUnknown
			switch {
			case sent == 0:
				want = driver.OutcomeNotSent
			case refused >= majority(n):
				want = driver.OutcomeReplied
			}
			assert.Equal(t, want, driver.OutcomeOf(err), name)
			assert.Equal(t, refused < majority(n), errors.Is(err, ErrUnavailable), name)
			assert.NotErrorIs(t, err, ErrLocked)
			e, ok := errors.AsType[*QuorumError](err)
			require.True(t, ok, name)
			assert.Len(t, e.Votes, n)
		}
	}
}

// What a node says that cannot do what it is asked, as one that loads its data, is said of all only where none can have
// done it.
func TestFailureOfNodesThatCannotIsUnknownWhereOneMayHaveDoneIt(t *testing.T) {
	unable := in("unable", nil, driver.NewServerError("LOADING Redis is loading the dataset in memory"))
	for _, n := range []int{3, 5} {
		for name, b := range ballots(n, []namedVote{unable, voteYes, voteUnknown, voteNotSent, voteMissing}) {
			said := b.count(func(v vote) bool { return driver.OutcomeOf(v.Err) == driver.OutcomeReplied })
			unsent := b.count(func(v vote) bool { return driver.OutcomeOf(v.Err) == driver.OutcomeNotSent })
			certain := said > 0 && said+unsent == n
			assert.NotContains(t, b.failure().Error(), "%!", name)
			assert.Equal(t, certain, driver.OutcomeOf(b.failure()) == driver.OutcomeReplied, name)
		}
	}
}

func TestGranted(t *testing.T) {
	votes := []namedVote{
		voteYes, in("locked", nil, &LockedError{Name: "k"}), in("foreign", nil, &ForeignError{Name: "k", Type: "list"}),
		in("deadlock", nil, &DeadlockError{Name: "k"}), in("absent", nil, ErrAbsent), in("new", nil, errNew{}),
		voteUnknown, voteNotSent, voteRefused, voteMissing,
	}
	classify := func(final bool) func(b ballot) string {
		return func(b ballot) string {
			err, ok := b.granted(final)
			switch {
			case !ok:
				return ""
			case err == nil:
				return "yes"
			case errors.Is(err, ErrLocked):
				return "locked"
			case answered(err):
				return "never"
			}
			return "unavailable"
		}
	}
	stays(t, votes, classify(false))
	for _, n := range []int{3, 5} {
		for name, b := range ballots(n, votes) {
			count := func(is func(error) bool) int { return b.count(func(v vote) bool { return is(v.Err) }) }
			yes, told := count(func(err error) bool { return err == nil }), count(func(err error) bool { return err == nil || answered(err) })
			locked := count(func(err error) bool { return errors.Is(err, ErrLocked) })
			lost := b.count(func(v vote) bool { return v.Err == voteUnknown.Err }) + n - b.count(func(vote) bool { return true })
			err, ok := b.granted(true)
			require.True(t, ok, name)
			class := classify(true)(b)
			assert.Equal(t, yes >= majority(n), class == "yes", name)
			unsure := yes < majority(n) && yes+lost >= majority(n)
			if waitedFor := count(func(err error) bool { return errors.Is(err, ErrLocked) || errors.Is(err, ErrDeadlock) }); waitedFor == 0 {
				unsure = unsure || yes < majority(n) && yes+n-told >= majority(n) // it may be had later
			}
			assert.Equal(t, told < majority(n) || unsure, class == "unavailable", "%s: a minority tells nothing", name)
			if class != "yes" {
				assert.Equal(t, class == "unavailable", errors.Is(err, ErrUnavailable) || errors.Is(err, voteRefused.Err), name)
			}
			if class == "never" && locked > 0 {
				assert.Less(t, locked, majority(n), name)
			}
			if early := classify(false)(b); early != "" {
				assert.Equal(t, class, early, name)
			}
		}
	}
}

// Where nodes name several holders, the one is told that most name: of the others something may be
// left over.
func TestGrantedNamesWhomMostName(t *testing.T) {
	by := func(id string) namedVote {
		return in(id, nil, &LockedError{Name: "k", Holder: Holder{Label: id}, by: id})
	}
	for name, b := range ballots(5, []namedVote{by("a"), by("b"), by("c"), by("")}) {
		err, _ := b.granted(true)
		locked, ok := errors.AsType[*LockedError](err)
		require.True(t, ok, name)
		named := map[string]int{}
		for _, v := range b {
			named[v.Err.(*LockedError).by]++
		}
		if len(named) > 1 {
			delete(named, "") // who names nobody, as SET does not
		}
		for id, n := range named {
			assert.LessOrEqual(t, n, named[locked.by], "%s: %s", name, id)
		}
		assert.Equal(t, locked.by, locked.Holder.Label, name)
	}
}

// The nodes that are passed over are asked only where it depends on them: they may hang.
func TestHingesOnSuspects(t *testing.T) {
	locked, suspect := in("locked", nil, &LockedError{Name: "k"}), in("suspect", nil, driver.NotSent(errSuspect))
	for _, n := range []int{3, 5} {
		for name, b := range ballots(n, []namedVote{voteYes, locked, suspect, voteUnknown}) {
			yes, passed := b.count(func(v vote) bool { return v.Err == nil }), b.count(func(v vote) bool { return errors.Is(v.Err, errSuspect) })
			if yes < majority(n) {
				assert.Equal(t, yes+passed >= majority(n), b.hinges(), name)
			}
		}
	}
}

func TestTokensAgreed(t *testing.T) {
	for _, test := range []struct {
		tokens tokens
		need   int
		want   Token
		ok     bool
	}{
		{tokens{0: 7, 1: 7}, 2, 7, true},
		{tokens{0: 7, 2: 8}, 2, 8, false},
		{tokens{0: 7, 1: 7, 2: 8}, 2, 8, false}, // a majority, but not of the largest
		{tokens{0: 8, 1: 7, 2: 8}, 2, 8, true},
		{tokens{0: 9, 1: 9, 2: 9, 3: 1}, 3, 9, true},
		{tokens{0: 9, 1: 9, 2: 8, 3: 8, 4: 8}, 3, 9, false},
		{tokens{4: 5}, 3, 5, false},
	} {
		got, ok := test.tokens.agreed(test.need)
		assert.Equal(t, test.want, got, "%v", test.tokens)
		assert.Equal(t, test.ok, ok, "%v", test.tokens)
	}
}

// Nodes that answer in no form that is known have said nothing, and have done nothing of what they were asked.
func TestKnownVerdictOfAnswersOfAnotherForm(t *testing.T) {
	for name, verdict := range map[string]verdict{"inspect": inspectVerdict, "break": breakVerdict} {
		for _, odd := range []driver.Value{nil, "OK", int64(7), []any{}, []any{int64(-5)}, []any{int64(-5), int64(9)}, []any{int64(1)}} {
			b := make(ballot, 3)
			for i := range b {
				b[i] = vote{in: true, Result: driver.Result{Value: odd}}
			}
			before := slices.Clone(b)
			_, err, ok := verdict(b)
			assert.True(t, ok)
			assert.ErrorIs(t, err, ErrUnavailable, "%s: %v", name, odd)
			assert.False(t, mostDone(err), "%s: %v", name, odd)
			assert.Equal(t, before, b, "to read a ballot does not change it")
		}
	}
}

// So long as is told it takes until enough of the nodes have forgotten nothing, if no lease is longer.
func TestInspectVerdictTellsForHowLongALeaseMayBeForgotten(t *testing.T) {
	free := []any{"none", nil, int64(-2), "0", int64(0)}
	young := func(ms int64) namedVote { return in("young", []any{int64(-5), ms, free}, nil) }
	old := in("old", free, nil)
	for _, test := range []struct {
		votes []namedVote
		left  time.Duration
	}{
		{[]namedVote{young(3000), young(1000), young(2000)}, 2 * time.Second},
		{[]namedVote{young(3000), old, young(2000)}, 2 * time.Second},
		{[]namedVote{young(3000), old, voteUnknown}, 3 * time.Second},
		{[]namedVote{young(5000), young(4000), young(1000), old, young(2000)}, 2 * time.Second},
	} {
		var b ballot
		for _, v := range test.votes {
			b = append(b, v.vote)
		}
		_, err, ok := inspectVerdict(b)
		require.True(t, ok)
		forgotten, is := errors.AsType[errForgotten](err)
		require.True(t, is, "%v", err)
		assert.Equal(t, test.left, forgotten.left)
		for i, v := range err.(*QuorumError).Votes {
			_, young := errors.AsType[errNew](v.Err)
			assert.Equal(t, test.votes[i].name == "young", young, "%v", v)
		}
	}
}

// A mutex as one node tells it to an administrator.
func mutexAt(id byte, left int64) []any {
	return []any{"string", record(fakeID(id), millis(9000), "me|"), left, "1000", int64(0)}
}

// The same where the node has drawn another token.
func otherTokenAt(id byte, token int) []any {
	reply := mutexAt(id, 5000)
	reply[1] = fmt.Sprintf("gl1|m|%s|%d|9000|me|", fakeID(id), token)
	return reply
}

// Holds of a lock with owners, which end at these times of the node's clock.
func holdsAt(now int64, until map[byte]int64) []any {
	fields := []any{"gl1", "rw"}
	for id, at := range until {
		fields = append(fields, fakeID(id), fmt.Sprintf("r|%d|9000|0|owner %c|me|", at, id))
	}
	return []any{"hash", fields, int64(9000), fmt.Sprint(now), int64(2)}
}

func fakeID(id byte) string { return fmt.Sprintf("%032x", id) }

var nothingAt = []any{"none", "", int64(-2), "1000", int64(1)}

func TestInspectVerdict(t *testing.T) {
	votes := func(answers ...driver.Value) ballot {
		var b ballot
		for _, a := range answers {
			v := vote{in: true, Result: driver.Result{Value: a}}
			if a == nil {
				v.Err = voteUnknown.Err
			}
			b = append(b, v)
		}
		return b
	}
	for _, test := range []struct {
		name    string
		votes   ballot
		holders map[string]int64 // ms left, by owner
		waiters int
	}{
		{"nobody", votes(nothingAt, nothingAt, nothingAt), nil, 1},
		{"a leftover", votes(mutexAt('a', 5000), nothingAt, nothingAt), nil, 1},
		{"as long as a majority holds", votes(mutexAt('a', 5000), mutexAt('a', 3000), mutexAt('a', 4000)), map[string]int64{"": 4000}, 0},
		{"months at one node only", votes(mutexAt('a', 3_000_000_000), mutexAt('a', 1000), mutexAt('a', 2000)), map[string]int64{"": 2000}, 0}, // more than an int may have
		{"a majority and a leftover", votes(mutexAt('b', 9000), mutexAt('a', 3000), mutexAt('a', 4000)), map[string]int64{"": 3000}, 0},
		{"a split vote", votes(mutexAt('a', 5000), mutexAt('b', 5000), mutexAt('c', 5000)), nil, 0},
		{"one node is silent", votes(nil, mutexAt('a', 5000), mutexAt('a', 6000)), map[string]int64{"": 5000}, 0},
		{"a silent node may have it, too", votes(nil, mutexAt('a', 5000), nothingAt), map[string]int64{"": 5000}, 1},
		{"readers, by clocks that differ", votes(
			holdsAt(1000, map[byte]int64{'a': 4000, 'b': 500}),
			holdsAt(90000, map[byte]int64{'a': 94000, 'b': 95000}),
			holdsAt(5, map[byte]int64{'b': 2005, 'c': 9000})), map[string]int64{"owner a": 3000, "owner b": 2000}, 2},
		{"readers that have all run out", votes(
			holdsAt(9000, map[byte]int64{'a': 9000}), holdsAt(9000, map[byte]int64{'a': 8000}), nothingAt), nil, 2},
		{"of several, the one that most nodes have", votes(nil, mutexAt('b', 9000), mutexAt('a', 3000), mutexAt('a', 4000), nil), map[string]int64{"": 3000}, 0},
		{"two kinds", votes(mutexAt('a', 5000), holdsAt(0, map[byte]int64{'z': 7000}), mutexAt('a', 4000)), map[string]int64{"": 4000}, 2},
	} {
		v, err, ok := inspectVerdict(test.votes)
		require.True(t, ok, test.name)
		require.NoError(t, err, test.name)
		reply := v.([]any)
		holders, _ := parseHolders(reply[1], reply[2].(int64), reply[3])
		got := map[string]int64{}
		for _, h := range holders {
			got[h.Owner] = h.Remaining.Milliseconds()
		}
		if test.holders == nil {
			test.holders = map[string]int64{}
		}
		assert.Equal(t, test.holders, got, test.name)
		assert.EqualValues(t, test.waiters, reply[4], test.name)
	}
	young := func(reply driver.Value) driver.Value { return []any{int64(-5), int64(7000), reply} }
	anothers := []any{"list", "", int64(-1), "1000", int64(0)}
	for _, test := range []struct {
		name  string
		votes ballot
		want  string // "" if nothing is known
	}{
		{"who is new may have had it", votes(mutexAt('a', 1), young(nothingAt), nothingAt), "string"},
		{"two that are new may", votes(mutexAt('a', 1), young(nothingAt), young(nothingAt)), "string"},
		{"two that are new may be all", votes(nothingAt, young(nothingAt), young(nothingAt)), ""},
		{"all have it that are new", votes(young(mutexAt('a', 1)), young(mutexAt('a', 1)), nil), "string"},
		{"one that is new has a leftover", votes(young(mutexAt('b', 1)), nothingAt, nothingAt), "none"},
		{"one that is new has a leftover, and may have had another's", votes(young(mutexAt('b', 1)), mutexAt('a', 2), nothingAt), "string"},
		{"a majority is known", votes(nothingAt, nothingAt, young(nothingAt)), "none"},
		{"one is not known, another silent", votes(nil, nothingAt, young(nothingAt)), ""},
		{"five", votes(mutexAt('a', 1), nothingAt, nothingAt, young(nothingAt), young(nothingAt)), "string"},
		{"five, and no majority", votes(mutexAt('a', 1), nothingAt, nothingAt, nothingAt, young(nothingAt)), "none"},
		{"of several, the one that fewer nodes may have forgotten", votes(young(mutexAt('b', 1)), mutexAt('b', 1), mutexAt('a', 1), mutexAt('a', 1), nil), "string"},
		{"one that nodes have written differently", votes(otherTokenAt('a', 7), mutexAt('a', 1), nothingAt), "string"},
		{"something foreign at one", votes(anothers, nothingAt, nothingAt), "none"},
		{"something foreign", votes(anothers, young(nothingAt), young(nothingAt)), ""},
		{"something foreign, and not held", votes(anothers, anothers, young(nothingAt)), "list"},
		{"holds", votes(holdsAt(0, map[byte]int64{'a': 9}), young(nothingAt), nothingAt), "hash"},
	} {
		v, err, ok := inspectVerdict(test.votes)
		require.True(t, ok, test.name)
		if test.want == "" {
			assert.ErrorIs(t, err, ErrUnavailable, test.name)
			assert.ErrorContains(t, err, "for 7s more", test.name)
			continue
		}
		require.NoError(t, err, test.name)
		assert.Equal(t, test.want, v.([]any)[0], test.name)
		holders, _ := parseHolders(v.([]any)[1], v.([]any)[2].(int64), v.([]any)[3])
		if test.want == "string" {
			assert.Equal(t, fakeID('a'), recordID(v.([]any)[1].(string)), "%s: %v", test.name, holders)
		}
	}
	_, err, ok := inspectVerdict(votes(nil, nil, nothingAt))
	assert.True(t, ok)
	assert.ErrorIs(t, err, ErrUnavailable)
	list := []any{"list", "", int64(-1), "1000", int64(0)}
	v, _, _ := inspectVerdict(votes(list, list, mutexAt('a', 1)))
	assert.Equal(t, "list", v.([]any)[0])
	v, _, _ = inspectVerdict(votes(list, mutexAt('a', 1), mutexAt('a', 1)))
	assert.Equal(t, "string", v.([]any)[0])
	v, _, _ = inspectVerdict(votes(list, nil, mutexAt('a', 1)))
	assert.Equal(t, "string", v.([]any)[0], "it may be held")
	short := []any{"string", "gl1|m|1", int64(-1), "1000", int64(0)}
	v, _, _ = inspectVerdict(votes(short, short, nothingAt))
	assert.Equal(t, short[:2], v.([]any)[:2], "it only begins as one of ours does")
	set := []any{"set", "", int64(-1), "1000", int64(0)}
	for range 20 { // of the order of a map
		v, _, _ = inspectVerdict(votes(set, nil, list))
		assert.Equal(t, "list", v.([]any)[0])
		v, _, _ = inspectVerdict(votes(set, nil, set, nil, list))
		assert.Equal(t, "set", v.([]any)[0], "of most nodes")
	}
}

func TestBreakVerdict(t *testing.T) {
	broken := append([]any{int64(1)}, mutexAt('a', 5000)[1:4]...)
	others := append([]any{int64(-1)}, mutexAt('b', 5000)[1:4]...)
	anothers := append([]any{int64(-1)}, otherTokenAt('b', 7)[1:4]...)
	over := append([]any{int64(-1)}, holdsAt(9000, map[byte]int64{'a': 8000})[1:4]...)
	foreign, none := []any{int64(-2), "list"}, []any{int64(0)}
	young := func(reply any) any { return []any{int64(-5), int64(7000), reply} }
	for _, test := range []struct {
		answers [3]any
		want    int64
	}{
		{[3]any{none, none, none}, 0},
		{[3]any{broken, none, none}, 1}, // a leftover, which has been ended
		{[3]any{broken, broken, none}, 1},
		{[3]any{foreign, broken, broken}, 1},
		{[3]any{foreign, none, broken}, 1},
		{[3]any{foreign, foreign, broken}, 1},
		{[3]any{foreign, foreign, none}, -2},
		{[3]any{others, others, none}, -1},
		{[3]any{others, anothers, none}, -1},
		{[3]any{over, over, none}, 0},   // these have run out
		{[3]any{others, none, none}, 0}, // what was let be is a leftover
		{[3]any{broken, others, others}, 1},
		{[3]any{foreign, others, others}, -1},
		{[3]any{young(none), none, others}, -1},
		{[3]any{young(none), none, broken}, 1}, // it may have had it
		{[3]any{young(none), none, none}, 0},
		{[3]any{young(none), foreign, foreign}, -2},
		{[3]any{young(none), young(none), none}, 99},
		{[3]any{young(none), young(none), foreign}, 99},
		{[3]any{young(none), young(none), broken}, 1},
		{[3]any{young(broken), young(broken), none}, 1},
	} {
		var b ballot
		for _, a := range test.answers {
			b = append(b, vote{in: true, Result: driver.Result{Value: a}})
		}
		v, err, ok := breakVerdict(b)
		require.True(t, ok)
		if test.want == 99 {
			assert.ErrorIs(t, err, ErrUnavailable)
			continue
		}
		require.NoError(t, err)
		status, _, _ := splitReply(v)
		assert.Equal(t, test.want, status, "%v", test.answers)
	}
}

// Whichever command has given the lock, people read that the node said yes.
func TestVotesNameEachYes(t *testing.T) {
	for _, v := range []driver.Value{int64(1), []any{int64(1), int64(7)}, "OK"} {
		assert.Equal(t, "yes", ballot{in("", v, nil).vote}.tell()[0].Answer, "%v", v)
	}
}
