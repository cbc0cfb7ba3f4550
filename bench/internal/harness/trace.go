package harness

import (
	"strings"
	"time"
)

// endMark is the argument of the command that ends a trace.
const endMark = "golocker-bench-trace-end"

// Trace records by MONITOR what f makes the server execute. It returns the commands
// in order, with those that scripts ran in braces, and for each command the share that
// scripts ran.
func (s *Server) Trace(f func()) (commands string, inScripts map[string]float64, err error) {
	m, err := Dial(s.Addr)
	if err != nil {
		return "", nil, err
	}
	defer m.Close()
	if _, err := m.Do("MONITOR"); err != nil {
		return "", nil, err
	}
	seen := make(chan []traced)
	go func() { seen <- readTrace(m) }()
	f()
	if _, err := s.control.Do("ECHO", endMark); err != nil {
		return "", nil, err
	}
	if err := m.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return "", nil, err
	}
	trace := <-seen
	return traceText(trace), scriptedShares(trace), nil
}

// traced is one command that MONITOR has shown.
type traced struct {
	scripted bool
	name     string
}

// readTrace reads up to the end mark, or what there is before the deadline.
func readTrace(m *Conn) []traced {
	var trace []traced
	for {
		reply, err := m.Read()
		line, ok := reply.(string)
		if err != nil || !ok || strings.Contains(line, endMark) {
			return trace
		}
		if t, ok := parseTrace(line); ok && !own[t.name] {
			trace = append(trace, t)
		}
	}
}

// parseTrace reads a line such as
//
//	1700000000.123456 [0 127.0.0.1:50000] "SET" "key" "value"
//
// in which a script has lua for an address.
func parseTrace(line string) (traced, bool) {
	_, line, ok := strings.Cut(line, " [")
	source, line, closed := strings.Cut(line, `] "`)
	name, _, quoted := strings.Cut(line, `"`)
	return traced{strings.HasSuffix(source, "lua"), strings.ToLower(name)}, ok && closed && quoted
}

func traceText(trace []traced) string {
	var text strings.Builder
	inScript := false
	for i, t := range trace {
		if inScript && !t.scripted {
			text.WriteString("}")
		}
		if i > 0 {
			text.WriteString(" ")
		}
		if t.scripted && !inScript {
			text.WriteString("{")
		}
		text.WriteString(t.name)
		inScript = t.scripted
	}
	if inScript {
		text.WriteString("}")
	}
	return text.String()
}

func scriptedShares(trace []traced) map[string]float64 {
	all, shares := map[string]float64{}, map[string]float64{}
	for _, t := range trace {
		if all[t.name]++; t.scripted {
			shares[t.name]++
		}
	}
	for name, n := range all {
		shares[name] /= n
	}
	return shares
}
