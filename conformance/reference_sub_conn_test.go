package conformance_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/golocker/golocker/conformance/internal/resp"
	"github.com/golocker/golocker/locker/driver"
)

// How a refSub keeps its connection, and what it hears there.

// run keeps a connection until Close.
func (s *refSub) run() {
	defer close(s.done)
	for first := true; s.ctx.Err() == nil; first = false {
		if s.has("sub-takes-a-place-of-the-pool") {
			s.conn.slots <- struct{}{}
		}
		l, err := s.conn.dialFor(s.ctx, true)
		if err != nil {
			if s.has("sub-refused-handshake-is-for-good") && strings.Contains(err.Error(), "WRONGPASS") {
				<-s.ctx.Done()
			}
			s.pause()
			continue
		}
		stop := context.AfterFunc(s.ctx, func() { _ = l.Close() })
		s.up(l, first)
		refused := s.read(l, first)
		stop()
		s.down(l, first)
		if refused {
			s.pause()
		}
		if s.has("sub-never-reconnects") {
			<-s.ctx.Done()
		}
	}
}

func (s *refSub) pause() {
	select {
	case <-time.After(200 * time.Millisecond):
	case <-s.ctx.Done():
	}
}

func (s *refSub) up(l *link, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link = l
	if !first && s.has("sub-forgets-channels") {
		clear(s.want)
	}
	var all []string
	for ch := range s.want {
		all = append(all, ch)
		if !first && s.has("sub-restores-one") {
			break
		}
	}
	if s.has("sub-gap-at-first-ack") {
		for _, ch := range slices.Sorted(slices.Values(all)) {
			s.send("SUBSCRIBE", []string{ch})
		}
	} else if len(all) > 0 {
		s.send("SUBSCRIBE", all)
		s.again = !first
	}
	s.broadcast()
}

func (s *refSub) down(l *link, first bool) {
	if !s.has("sub-leaves-dead-connections-open") {
		_ = l.Close()
	}
	s.conn.mu.Lock()
	delete(s.conn.live, l)
	s.conn.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link, s.sent, s.again = nil, nil, false
	if !first && s.has("sub-forgets-what-was-not-restored") {
		maps.DeleteFunc(s.want, func(ch string, _ bool) bool { return !s.acked[ch] })
	}
	clear(s.acked)
	clear(s.leaving)
	if s.has("sub-gap-at-loss") && !s.closed {
		s.queue = append(s.queue, driver.ErrGap)
	}
	s.broadcast()
}

// send writes a command; the caller holds mu. A failure shows in read.
func (s *refSub) send(name string, channels []string) {
	if name == "SUBSCRIBE" {
		s.sent = append(s.sent, channels)
	}
	_, _ = s.link.Write(resp.AppendCommand(nil, append([]string{name}, channels...)...))
}

// read reads until the connection is broken, or of no use as the server refuses to
// subscribe again.
func (s *refSub) read(l *link, first bool) (refused bool) {
	gap := !first
	for pinged := false; ; {
		if gap && (s.restored() || s.has("sub-gap-too-early")) {
			gap = false
			if !s.has("sub-no-gap") && !s.has("sub-gap-at-loss") {
				s.push(driver.ErrGap)
			}
		}
		if s.has("sub-reads-in-receive") {
			s.waitForReceiver()
		}
		switch {
		case s.has("sub-unwatched-while-adding") && s.due(), s.has("sub-unwatched-while-restoring") && !first && !s.restored():
			_ = l.SetReadDeadline(time.Time{})
		case !s.has("sub-never-pings"):
			_ = l.SetReadDeadline(time.Now().Add(pingEvery))
		}
		frame, err := resp.ReadFrame(l.r)
		switch {
		case err != nil && isTimeout(err) && s.has("sub-unwatched-while-adding") && s.due():
			continue
		case err != nil && isTimeout(err) && !pinged:
			pinged = true
			s.mu.Lock()
			s.send("PING", nil)
			s.mu.Unlock()
			continue
		case err != nil:
			return false
		}
		pinged = false
		if v, err := resp.Parse(frame); err == nil && s.handle(v) {
			return true
		}
	}
}

func isTimeout(err error) bool {
	t, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return ok && t.Timeout()
}

func (s *refSub) wants(channel string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.want[channel]
}

func (s *refSub) push(entry any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hear != nil {
		s.hear(entry)
		return
	}
	s.queue = append(s.queue, entry)
	s.broadcast()
}

func (s *refSub) hearsTwice() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.twice
}

// handle reports whether the server refuses to subscribe again.
func (s *refSub) handle(v any) (refused bool) {
	if e, ok := v.(*driver.ServerError); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.again && !s.has("sub-forgets-what-is-refused") {
			return true
		}
		if len(s.sent) > 0 {
			for _, ch := range s.sent[0] {
				s.refused[ch] = e
				delete(s.want, ch)
			}
			s.sent = s.sent[1:]
			if s.has("sub-refusal-is-received") {
				s.queue = append(s.queue, error(e))
			}
		}
		s.broadcast()
		return false
	}
	list, _ := v.([]any)
	if len(list) != 3 {
		return false
	}
	channel, _ := list[1].(string)
	switch list[0] {
	case "message":
		if s.has("sub-remove-is-not-sent") && !s.wants(channel) {
			return false
		}
		m := driver.Message{Channel: channel, Payload: list[2].(string)}
		switch s.conn.bug {
		case "sub-trims-payload":
			m.Payload = strings.TrimSpace(strings.ReplaceAll(m.Payload, "\x00", ""))
		case "sub-gives-no-channel":
			m.Channel = ""
		case "sub-drops-when-unread":
			if s.unread() >= 10 {
				return false
			}
		case "sub-drops-above-500":
			if s.unread() >= 500 {
				return false
			}
		}
		s.push(m)
		if s.hearsTwice() {
			s.push(m)
		}
	case "subscribe", "unsubscribe":
		s.mu.Lock()
		defer s.mu.Unlock()
		if list[0] == "unsubscribe" {
			s.leaving[channel]--
		}
		s.acked[channel] = list[0] == "subscribe" && s.leaving[channel] == 0
		if len(s.sent) > 0 && list[0] == "subscribe" && channel == s.sent[0][len(s.sent[0])-1] {
			s.sent, s.again = s.sent[1:], false
		}
		s.broadcast()
	}
	return false
}
