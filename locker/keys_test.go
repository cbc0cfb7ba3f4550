package locker

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

func sideKeys(k keys) []string { return []string{k.fence, k.queue, k.entries, k.over("0f")} }

func TestSideKeysShareTheSlot(t *testing.T) {
	for _, name := range []string{
		"k", "order:{1}", "{user}:a", "a}b", "{", "}", "{}", "{}x", "x{}", "}{", "{a", "a{", "{{a}}", "{a}{b}", "{}{a}", "a\x00{", "\xff}",
	} {
		k := newKeys(name)
		assert.Equal(t, name, k.record)
		for _, side := range sideKeys(k) {
			assert.Equal(t, driver.Slot(name), driver.Slot(side), "%q of %q", side, name)
		}
	}
}

func FuzzKeys(f *testing.F) {
	for _, seed := range []string{"k", "{a}", "a}b", "{}", "{{}}", "}{", "\x00", "__golocker:x"} {
		f.Add(seed, seed+"'")
	}
	f.Fuzz(func(t *testing.T, name, other string) {
		if checkName(name) != nil || checkName(other) != nil {
			return
		}
		k, o := newKeys(name), newKeys(other)
		seen := map[string]bool{name: true, other: true}
		for _, side := range sideKeys(k) {
			require.Equal(t, driver.Slot(name), driver.Slot(side), "%q of %q", side, name)
			require.False(t, seen[side], "%q collides", side)
			seen[side] = true
		}
		for _, side := range sideKeys(o) {
			require.Equal(t, name != other, !seen[side], "%q and %q share %q", name, other, side)
		}
	})
}

// The tags are part of the stored format: another version must find the same.
func TestSlotTagsAreFixed(t *testing.T) {
	assert.Equal(t, "__golocker:q:{k}:k", newKeys("k").queue)
	assert.Equal(t, "__golocker:f:{1}:order:{1}", newKeys("order:{1}").fence)
	assert.Equal(t, "__golocker:f:{a}:order:{a}", newKeys("order:{a}").fence)
	assert.Equal(t, "__golocker:w:{20658}:a}b", newKeys("a}b").entries)
	assert.Equal(t, "__golocker:v:{42430}:{}", newKeys("{}").void)
	ofK := newKeys("k")
	assert.Equal(t, "__golocker:v:{k}:k:0f", ofK.over("0f"))
	longest := 0
	for _, tag := range slotTags() {
		longest = max(longest, len(tag))
	}
	assert.LessOrEqual(t, longest, 6)
}

func TestNamesThatCannotBe(t *testing.T) {
	for _, name := range []string{"", strings.Repeat("x", maxName+1), "__golocker:", "__golocker:q:{k}:k"} {
		assert.ErrorIs(t, checkName(name), ErrInvalid, "%.20q", name)
	}
	assert.NoError(t, checkName(strings.Repeat("x", maxName)))
}
