package locker

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/golocker/golocker/locker/driver"
)

// What is read from the server may have been written by anybody. None of it makes a
// reader panic, nor is it taken for what it is not.

func FuzzRecord(f *testing.F) {
	f.Add(record(newID(), "30000", "label|metadata"))
	f.Add("gl1|m|" + strings.Repeat("a", idLength) + "|18446744073709551615|1|||||")
	f.Add("gl1|m||||||")
	f.Add("gl2|m|")
	f.Fuzz(func(t *testing.T, value string) {
		h := parseRecord(value, time.Second)
		if h.Foreign {
			assert.Zero(t, h.Label+h.Metadata)
			assert.Zero(t, h.Token)
			return
		}
		assert.True(t, strings.HasPrefix(value, recordPrefix))
		assert.True(t, strings.HasSuffix(value, "|"+h.Label+"|"+h.Metadata))
		assert.NotContains(t, h.Label, "|")
		assert.NotEmpty(t, recordID(value))
	})
}

func FuzzHold(f *testing.F) {
	f.Add("x|1700000000000|30000|7|owner|label|metadata", int64(1700000000000))
	f.Add("r|9223372036854775807|0|0|||", int64(-9223372036854775808))
	f.Add("w||||||", int64(0))
	f.Fuzz(func(t *testing.T, text string, now int64) {
		h, ok := parseHold(text, now)
		if !ok {
			assert.Zero(t, h)
			return
		}
		assert.True(t, strings.HasSuffix(text, "|"+h.Owner+"|"+h.Label+"|"+h.Metadata))
		for _, id := range []string{newID(), "gl1", text} {
			holders := parseHolds([]any{id, text, "w", "x", 7, nil, id}, now)
			assert.LessOrEqual(t, len(holders), 1)
		}
	})
}

func FuzzMessage(f *testing.F) {
	f.Add("gl1|g|" + newID() + "|1700000000000000|7")
	f.Add("gl1|w|" + newID())
	f.Add("gl1|g|||")
	f.Add("gl1|w|")
	f.Fuzz(func(t *testing.T, payload string) {
		h := newHub(nil)
		defer h.stop()
		h.running = true // without a server
		waiter := h.join(&Mutex{}, time.Time{})
		h.hear(driver.Message{Channel: h.channel, Payload: payload}, nil)
		select {
		case <-waiter.woken:
			assert.Contains(t, payload, waiter.reservation, "woken by a message for another")
		default:
		}
		_, w, ok := parseMessage(payload)
		if ok && w.seq != "" {
			assert.True(t, strings.HasPrefix(payload, "gl1|g|"))
		}
	})
}

// FuzzReply reads what no script of ours replies.
func FuzzReply(f *testing.F) {
	f.Add([]byte("[i1s3abc]"))
	f.Add([]byte("[i0i9s2xx]n"))
	f.Add([]byte("[[[["))
	f.Fuzz(func(t *testing.T, plan []byte) {
		v := replyFrom(&plan, 0)
		m := &Mutex{}
		for _, md := range []mode{modeMutex, modeReentrant, modeRead, modeWrite} {
			r := &request{name: "k", keys: &m.keys, mode: md}
			if _, _, err := r.acquired(v); err == nil {
				list, ok := v.([]any)
				assert.True(t, ok && list[0] == int64(1), "taken for a grant: %v", v)
			}
			_, _, _ = r.attached(v)
		}
		if heldReply(v) == nil {
			assert.Equal(t, int64(1), v)
		}
		for _, now := range []any{"1700000000000", v} {
			_, _ = parseHolders(v, 1000, now)
		}
		b := bundle{places: []int{0, 1}}
		b.share(driver.Result{Value: v}, make([]driver.Result, 2))
	})
}

// replyFrom makes a reply by a plan, which it uses up.
func replyFrom(plan *[]byte, depth int) driver.Value {
	next := func() (c byte) {
		if len(*plan) > 0 {
			c, *plan = (*plan)[0], (*plan)[1:]
		}
		return c
	}
	switch next() {
	case 'i':
		return int64(int8(next() - '0'))
	case 's':
		n := min(int(next()), len(*plan))
		text := string((*plan)[:n])
		*plan = (*plan)[n:]
		return text
	case '[':
		list := []any{}
		for len(*plan) > 0 && depth < 8 {
			if (*plan)[0] == ']' {
				next()
				break
			}
			list = append(list, replyFrom(plan, depth+1))
		}
		return list
	}
	return nil
}
