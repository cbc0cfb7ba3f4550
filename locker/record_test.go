package locker

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// testdata/records.golden holds records as every release so far has written them,
// and what must be read from them: record, token, label, metadata, or "foreign".
func TestRecordsOfAllReleases(t *testing.T) {
	file, err := os.Open("testdata/records.golden")
	require.NoError(t, err)
	defer file.Close()
	lines := 0
	for in := bufio.NewScanner(file); in.Scan(); lines++ {
		fields := strings.Split(in.Text(), "\t")
		h := parseRecord(fields[0], time.Second)
		if fields[1] == "foreign" {
			assert.Equal(t, Holder{Mode: Exclusive, Holds: 1, Foreign: true, Remaining: time.Second}, h, fields[0])
			continue
		}
		token, err := strconv.ParseUint(fields[1], 10, 64)
		require.NoError(t, err)
		assert.Equal(t, Holder{Mode: Exclusive, Holds: 1, Token: Token(token), Label: fields[2], Metadata: fields[3], Remaining: time.Second, leases: fingerprint(recordID(fields[0]))}, h, fields[0])
	}
	assert.Positive(t, lines)
}

func TestRecordFormat(t *testing.T) {
	assert.Equal(t, "gl1|m|0123456789abcdef0123456789abcdef|0|30000|host:1|a|b",
		record("0123456789abcdef0123456789abcdef", millis(30*time.Second), "host:1|a|b"))
}

// What is written beside the record, byte for byte; docs/format.md describes it.
func TestSideFormats(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t, Label("me"))
		k := newKeys("k")
		held, err := c.Mutex("k", Fenced()).Lock(t.Context())
		require.NoError(t, err)
		token, err := f.Get(k.fence)
		require.NoError(t, err)
		assert.Equal(t, held.Token().String(), token)
		assert.Equal(t, fenceRetention, f.TTL(k.fence))

		messages := f.NewSubscriber()
		defer messages.Close()
		messages.Subscribe(c.hub.channel)
		message := make(chan string)
		go func() { message <- (<-messages.Messages()).Message }()
		go c.Mutex("k", Metadata("job")).Lock(t.Context())
		time.Sleep(time.Millisecond)
		reservations, err := f.ZMembers(k.queue)
		require.NoError(t, err)
		require.Len(t, reservations, 1)
		assert.True(t, isID(reservations[0]))
		entry := f.HGet(k.entries, reservations[0])
		assert.Regexp(t, `^gl1\|1\|0\|\d{12}\|\d{15}\|m\|[0-9a-f]{32}\|30000\|0\|\|`+c.hub.channel+`\|me\|job$`, entry)
		seq, err := f.ZScore(k.queue, reservations[0])
		require.NoError(t, err)
		assert.Equal(t, strconv.FormatFloat(seq, 'f', 0, 64), strings.Split(entry, "|")[4], "the score, exactly")
		assert.Regexp(t, `^__golocker:c:[0-9a-f]{32}$`, c.hub.channel)
		assert.Positive(t, f.TTL(k.queue))
		assert.Positive(t, f.TTL(k.entries))

		require.NoError(t, held.Unlock(t.Context()))
		assert.Equal(t, "gl1|g|"+reservations[0]+"|"+strings.Split(entry, "|")[4]+"|0", <-message)
	})
}

func FuzzParseRecord(f *testing.F) {
	f.Add(record(newID(), millis(time.Second), "o|m"))
	f.Add("gl1|m|||||")
	f.Fuzz(func(t *testing.T, value string) {
		h := parseRecord(value, time.Second)
		if !h.Foreign {
			require.True(t, strings.HasPrefix(value, recordPrefix))
			require.True(t, strings.HasSuffix(value, "|"+h.Label+"|"+h.Metadata))
		}
	})
}
