package servertest

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestVersionsAreInOrder(t *testing.T) {
	assert.True(t, version{6, 0}.before(version{6, 2}))
	assert.True(t, version{6, 2}.before(version{7, 0}))
	assert.False(t, version{6, 2}.before(version{6, 2}))
	assert.False(t, version{8, 0}.before(version{7, 2}))
}

// Redis 6.0 does not start with a user whose rules are about channels.
func TestRulesForChannelsAreLeftOutBefore62(t *testing.T) {
	config := func() []directive {
		return []directive{{"bind", "127.0.0.1"}, {"user", "ann", "on", "resetchannels", "~*", "&a:*", "allchannels", "+@all"}}
	}
	assert.Equal(t, []directive{{"bind", "127.0.0.1"}, {"user", "ann", "on", "~*", "+@all"}}, version{6, 0}.understood(config()))
	assert.Equal(t, config(), version{6, 2}.understood(config()))
}

func TestBefore(t *testing.T) {
	assert.False(t, Before(t, 6, 0))
	assert.True(t, Before(t, 1000, 0))
	fake := runFake(t, func(tb testing.TB) { SkipBefore(tb, 1000, 0, "a thing") })
	assert.True(t, fake.skipped)
	assert.Contains(t, fake.said, "a thing needs a server of version 1000.0")
}
