package contestants

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func names(specs []Spec) []string {
	var out []string
	for _, s := range specs {
		out = append(out, s.Name)
	}
	return out
}

func TestEveryContestantIsListedOnce(t *testing.T) {
	all := names(All())
	assert.Len(t, all, len(specs))
	seen := map[string]bool{}
	for _, s := range All() {
		assert.False(t, seen[s.Name], "two contestants are called %s", s.Name)
		seen[s.Name] = true
		assert.NotEmpty(t, s.Note, "%s does not say what it is", s.Name)
	}
	assert.Equal(t, first, all[:len(first)], "what others are compared with runs before them")
}

func TestPatternsChooseContestants(t *testing.T) {
	assert.Equal(t, []string{"floor/redigo", "redsync/redigo"}, names(For(UseFree, "redsync/redigo,floor/redigo,nobody")))
	assert.Equal(t, []string{"floor/blpop", "redislock/goredis+100ms", "redislock/goredis+1ms"}, names(For(UseWait, "redislock/*,floor/blpop")))
	assert.NotContains(t, names(For(UseFree, "")), "ping/tcp", "a PING is no lock")
	assert.Contains(t, names(For(UseFree|UsePing, "")), "ping/tcp")
}

func TestHiddenContestantsRunOnlyByName(t *testing.T) {
	const hidden = "selftest/nolock"
	assert.NotContains(t, names(For(UseWait, "")), hidden)
	assert.NotContains(t, names(For(UseWait, "*/*")), hidden)
	assert.Equal(t, []string{hidden}, names(For(UseWait, hidden)))
}
