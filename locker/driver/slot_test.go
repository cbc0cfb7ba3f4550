package driver_test

import (
	"strings"
	"testing"

	"github.com/golocker/golocker/locker/driver"
	"github.com/stretchr/testify/assert"
)

func TestSlot(t *testing.T) {
	// From the Cluster specification and from CLUSTER KEYSLOT of Redis 7.0.15.
	for key, want := range map[string]int{
		"":           0,
		"123456789":  0x31C3,
		"foo":        12182,
		"bar":        5061,
		"hello":      866,
		"{foo}":      12182,
		"a{foo}b":    12182,
		"{foo}{bar}": 12182,
	} {
		assert.Equal(t, want, driver.Slot(key), "%q", key)
	}
	assert.Equal(t, driver.Slot("{user1000}.following"), driver.Slot("{user1000}.followers"))
	assert.Equal(t, driver.Slot("{bar"), driver.Slot("foo{{bar}}zap"))
	for _, key := range []string{"foo{}{bar}", "{}foo", "foo{bar", "foo}bar{", "}{", "foo}bar"} {
		assert.Equal(t, specSlot(key), driver.Slot(key), "%q", key)
		assert.Equal(t, int(crc16(key))%16384, driver.Slot(key), "%q has no tag", key)
	}
}

// crcTable is the table of the CRC that the Cluster specification prints: the
// remainders of each high byte for the polynomial x^16+x^12+x^5+1, here by long
// division over GF(2).
var crcTable = func() (table [256]uint16) {
	const poly = 1<<16 | 1<<12 | 1<<5 | 1
	for i := range table {
		rest := uint32(i) << 16
		for bit := 23; bit >= 16; bit-- {
			if rest>>bit&1 == 1 {
				rest ^= poly << (bit - 16)
			}
		}
		table[i] = uint16(rest)
	}
	return table
}()

func crc16(s string) uint16 {
	var crc uint16
	for _, b := range []byte(s) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^b]
	}
	return crc
}

// specSlot is the specification's own algorithm, in its own steps.
func specSlot(key string) int {
	start := strings.Index(key, "{")
	if start != -1 {
		end := strings.Index(key[start+1:], "}")
		if end != -1 && end != 0 {
			key = key[start+1 : start+1+end]
		}
	}
	return int(crc16(key)) & 16383
}

func FuzzSlot(f *testing.F) {
	for _, key := range []string{"", "foo", "{foo}bar", "foo{}{bar}", "a}b{", "\x00\xff{\xfe}"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		got := driver.Slot(key)
		assert.Equal(t, specSlot(key), got, "%q", key)
		assert.True(t, got >= 0 && got < driver.Slots, "%q: %d", key, got)
	})
}
