package locker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// compare returns in what the answer is not the reply foretold.
func (r *replay) compare(want modelReply, got serverReply) error {
	if want.finding != got.finding {
		return fmt.Errorf("expected: %s%s\ngiven:    %v", want.finding, names(want.holders), got)
	}
	switch want.finding {
	case isHeld:
		return r.compareToken(want.token, got.token)
	case isPassed:
		// What has run out in the queue may not have been noticed.
		if want.waited && !got.waited {
			return errors.New("expected: others wait\ngiven:    nobody does")
		}
		return r.compareToken(want.token, got.token)
	case isLocked:
		if err := r.compareSeq(want.seq, got.seq); err != nil || len(got.holders) == 0 {
			return err
		}
		h := got.holders[0]
		if len(want.holders) == 0 && h.Metadata == "" {
			return nil
		}
		if !slices.ContainsFunc(want.holders, func(w *modelHold) bool {
			return w.label == h.Metadata && r.about(w.until-r.model.now, h.Remaining)
		}) {
			return fmt.Errorf("expected: locked%s\ngiven:    %v", names(want.holders), got)
		}
	case isBroken:
		return r.compareHolders(want.holders, got.holders)
	}
	return nil
}

// names lists holds, of which one is to be named.
func names(holds []*modelHold) string {
	var list []string
	for _, h := range holds {
		list = append(list, h.label)
	}
	if list == nil {
		return ""
	}
	return " by " + strings.Join(list, " or ")
}

// compareToken holds a token against the number that the model has for it: a larger
// number is a larger token, and the same number the same token.
func (r *replay) compareToken(want int, got Token) error {
	if known, ok := r.tokens[want]; ok {
		if got != known {
			return fmt.Errorf("expected: token %d\ngiven:    token %d", known, got)
		}
		return nil
	}
	for number, token := range r.tokens {
		if (number < want) != (token < got) {
			return fmt.Errorf("expected: a new token, in the order of grants\ngiven:    token %d, where %d was given", got, token)
		}
	}
	r.tokens[want] = got
	return nil
}

// compareSeq tells places in the queue apart: it stays the same while the place is
// kept, and is another one in another place.
func (r *replay) compareSeq(want int, got string) error {
	known, ok := r.places[want]
	if ok && known != got {
		return fmt.Errorf("expected: place %q\ngiven:    place %q", known, got)
	}
	if !ok && got == "" {
		return errors.New("expected: a place in the queue\ngiven:    none")
	}
	r.places[want] = got
	return nil
}

// endMark is published after each request, so that what comes before it is all that the
// request has published.
const endMark = "end"

func (r *replay) checkMessages(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	_, err := r.conn.Do(ctx, driver.Command{Args: []string{"PUBLISH", r.channel(channelsHeard[0]), endMark}})
	if err != nil {
		return err
	}
	want := r.model.published
	for {
		m, err := r.sub.Receive(ctx)
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		if m.Payload == endMark {
			break
		}
		if len(want) == 0 {
			return fmt.Errorf("expected: no message\ngiven:    %s on %s", m.Payload, m.Channel)
		}
		if err := r.compareMessage(want[0], m); err != nil {
			return err
		}
		want = want[1:]
	}
	if len(want) > 0 {
		return fmt.Errorf("expected: a message to %v\ngiven:    none", want[0].claim)
	}
	return nil
}

func (r *replay) compareMessage(want modelMessage, got driver.Message) error {
	reservation, w, ok := parseMessage(got.Payload)
	if !ok || reservation != want.claim.reservation() || got.Channel != r.channel(want.channel) || want.grant != (w.seq != "") {
		return fmt.Errorf("expected: a message to %v on %s (a grant: %v)\ngiven:    %s on %s", want.claim, want.channel, want.grant, got.Payload, got.Channel)
	}
	if !want.grant {
		return nil
	}
	if err := r.compareSeq(want.seq, w.seq); err != nil {
		return err
	}
	return r.compareToken(want.token, w.token)
}

// checkState holds what stands on the server against the model.
func (r *replay) checkState(ctx context.Context) error {
	var left int64
	keys := []string{r.keys.record, r.keys.fence, r.keys.queue, r.keys.entries}
	for _, claims := range r.crew.claims {
		for _, c := range claims {
			keys = append(keys, r.keys.over(c.id()))
		}
	}
	for _, key := range keys {
		ttl, err := query[int64](ctx, r, "PTTL", key)
		if err != nil {
			return err
		}
		if ttl == -1 {
			return fmt.Errorf("expected: a TTL of every key\ngiven:    none of %s", key)
		}
		if key == r.keys.record {
			left = ttl
		}
	}
	until := r.model.until - r.model.now
	if (r.model.kind != "") != (left >= 0) || left >= 0 && !r.about(until, time.Duration(left)*time.Millisecond) {
		return fmt.Errorf("expected: a record of %q for %v\ngiven:    one for %d ms", r.model.kind, until, left)
	}
	waiters, err := query[int64](ctx, r, "ZCARD", r.keys.queue)
	if err == nil && int(waiters) < len(r.model.queue) {
		err = fmt.Errorf("expected: %d waiters\ngiven:    %d", len(r.model.queue), waiters)
	}
	if err != nil || left < 0 {
		return err
	}
	var record driver.Value
	if r.model.kind == kindOf(modeMutex) {
		record, err = query[string](ctx, r, "GET", r.keys.record)
	} else {
		record, err = query[[]any](ctx, r, "HGETALL", r.keys.record)
	}
	if err != nil {
		return err
	}
	holders, _ := parseHolders(record, left, fmt.Sprint(time.Now().UnixMilli()))
	return r.compareHolders(r.model.holds, holders)
}

// query makes a request that no script is needed for.
func query[T any](ctx context.Context, r *replay, args ...string) (reply T, err error) {
	v, err := r.conn.Do(ctx, driver.Command{Args: args, FirstKey: 1, NumKeys: 1})
	reply, ok := v.(T)
	if err == nil && !ok {
		err = fmt.Errorf("%v: a reply of %v", args, v)
	}
	return reply, err
}

func (r *replay) compareHolders(want []*modelHold, got []Holder) error {
	same := len(want) == len(got)
	for _, w := range want {
		same = same && slices.ContainsFunc(got, func(h Holder) bool {
			return w.label == h.Metadata && w.owner == h.Owner && w.mode.public() == h.Mode && r.about(w.until-r.model.now, h.Remaining)
		})
	}
	if !same {
		return fmt.Errorf("expected: held%s\ngiven:    held%s", r.showHolds(want), showHolders(got))
	}
	for _, w := range want {
		i := slices.IndexFunc(got, func(h Holder) bool { return w.label == h.Metadata })
		if err := r.compareToken(w.token, got[i].Token); err != nil {
			return fmt.Errorf("of %s\n%w", w.label, err)
		}
	}
	return nil
}

func (r *replay) showHolds(holds []*modelHold) (s string) {
	for _, h := range holds {
		s += fmt.Sprintf(" by %s (%s%s) for %v", h.label, h.mode.public(), h.owner, h.until-r.model.now)
	}
	return s
}

func showHolders(holders []Holder) (s string) {
	for _, h := range holders {
		s += fmt.Sprintf(" by %s (%s%s) for %v", h.Metadata, h.Mode, h.Owner, h.Remaining)
	}
	return s
}
