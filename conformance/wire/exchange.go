package wire

import "strings"

// An exchange is a request whose reply is still to come. Replies come in the
// order of the requests.
type exchange struct {
	request *Request
	rule    *Rule // decides about the reply; nil: it passes
	frames  int   // how many frames the reply has; more than one for SUBSCRIBE
	ack     string
	drop    bool   // the reply of a duplicate
	answer  []byte // the wire's own reply
}

// request decides what happens to a request.
func (c *conn) request(args []string, frame []byte) {
	w := c.wire
	w.mu.Lock()
	defer w.mu.Unlock()
	req := &Request{Conn: c.id, Args: args}
	if !w.forget {
		w.requests = append(w.requests, req)
	}
	if c.muteUp {
		return
	}
	var rule *Rule
	for _, r := range w.rules {
		if r.applies(args) {
			rule = r
			break
		}
	}
	forward := item{data: frame, note: func() {
		w.mu.Lock()
		req.Forwarded++
		w.mu.Unlock()
	}}
	x := newExchange(req)
	if rule == nil {
		c.inflight = append(c.inflight, x)
		c.up.push(forward)
		return
	}
	switch rule.action.kind {
	case cutRequest:
		rule.done()
		c.kill()
		return
	case blackHole:
		c.muteUp, c.muteDown = true, true
		rule.done()
		return
	case answer:
		x.answer = []byte(rule.action.reply)
		c.inflight = append(c.inflight, x)
		rule.done()
		c.flushAnswers()
		return
	case holdRequest:
		forward.gate = rule.released
		rule.done()
	case duplicate:
		c.inflight = append(c.inflight, x)
		c.up.push(forward)
		x = newExchange(req)
		x.rule, x.drop = rule, true
	default:
		x.rule = rule
	}
	c.inflight = append(c.inflight, x)
	c.up.push(forward)
}

func newExchange(req *Request) *exchange {
	x := &exchange{request: req, frames: 1}
	switch name := strings.ToLower(req.Args[0]); name {
	case "subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe":
		x.ack, x.frames = name, max(1, len(req.Args)-1)
	}
	return x
}

// reply decides what happens to a frame from the server.
func (c *conn) reply(frame []byte) {
	w := c.wire
	w.mu.Lock()
	defer w.mu.Unlock()
	x := c.answers(frame)
	if x == nil { // a message
		if !c.muteDown {
			c.down.push(item{data: frame})
		}
		return
	}
	req := x.request
	x.frames--
	if frame[0] == '-' {
		x.frames = 0 // a refusal is all there is
	}
	if x.frames == 0 {
		c.inflight = c.inflight[1:]
		defer c.flushAnswers()
	}
	if !x.drop {
		req.Replied = true
	}
	it := item{data: frame, note: func() {
		w.mu.Lock()
		req.Passed = true
		w.mu.Unlock()
	}}
	if x.rule != nil && (x.rule.action.kind != holdLast || x.frames == 0) {
		defer x.rule.done()
		switch x.rule.action.kind {
		case cutReply:
			// What was sent before still arrives.
			c.muteDown = true
			c.down.push(item{last: true})
		case halfReply:
			c.down.push(item{data: frame[:len(frame)/2], last: true})
			c.muteDown = true
		case silence:
			c.muteDown = true
		case holdReply, holdLast:
			it.gate = x.rule.released
		case delayReply:
			it.delay = x.rule.action.delay
		}
	}
	if !c.muteDown && !x.drop {
		c.down.push(it)
	}
}

// answers returns the exchange that frame belongs to, nil for a message.
// The caller holds wire.mu.
func (c *conn) answers(frame []byte) *exchange {
	if len(c.inflight) == 0 {
		return nil
	}
	head := c.inflight[0]
	if frame[0] == '*' || frame[0] == '>' {
		switch word := firstWord(frame); word {
		case "message", "pmessage", "smessage":
			// In RESP2 a list that begins with this word could be a reply, but
			// not on a connection that waits for acknowledgements or a PONG.
			if frame[0] == '>' || c.subscribing(head) {
				return nil
			}
		case "subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe":
			if head.ack == word {
				return head
			}
			return nil
		}
	}
	if frame[0] == '>' || head.ack != "" && frame[0] != '-' {
		return nil
	}
	return head
}

// subscribing reports whether a connection whose oldest request is head is used
// for publish/subscribe.
func (c *conn) subscribing(head *exchange) bool {
	return head.ack != "" || strings.EqualFold(head.request.Args[0], "PING")
}

// firstWord returns the first element of an array if it is a short bulk string.
func firstWord(frame []byte) string {
	parts := strings.SplitN(string(frame[:min(len(frame), 64)]), "\r\n", 4)
	if len(parts) < 4 || !strings.HasPrefix(parts[1], "$") {
		return ""
	}
	return strings.ToLower(parts[2])
}

// flushAnswers sends the wire's own replies whose turn it is.
// The caller holds wire.mu.
func (c *conn) flushAnswers() {
	for len(c.inflight) > 0 && c.inflight[0].answer != nil {
		x := c.inflight[0]
		c.inflight = c.inflight[1:]
		if !c.muteDown {
			c.down.push(item{data: x.answer, note: func() {
				c.wire.mu.Lock()
				x.request.Passed = true
				c.wire.mu.Unlock()
			}})
		}
	}
}
