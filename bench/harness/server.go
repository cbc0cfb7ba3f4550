package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Server is one redis-server child process owned by the harness.
type Server struct {
	Addr string
	port int
	dir  string
	cmd  *exec.Cmd
	ctl  *Conn // control connection: INFO, DBSIZE, FLUSHALL
}

var (
	serversMu sync.Mutex
	servers   = map[*Server]bool{}
)

// StartServer starts redis-server on 127.0.0.1:port with persistence off.
func StartServer(port int) (*Server, error) {
	dir, err := os.MkdirTemp("", "peerbench-redis-")
	if err != nil {
		return nil, err
	}
	s := &Server{Addr: fmt.Sprintf("127.0.0.1:%d", port), port: port, dir: dir}
	if err := s.start(); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	serversMu.Lock()
	servers[s] = true
	serversMu.Unlock()
	return s, nil
}

func (s *Server) start() error {
	if c, err := Dial(s.Addr); err == nil {
		c.Close()
		return fmt.Errorf("%s is already in use", s.Addr)
	}
	log, err := os.Create(filepath.Join(s.dir, "redis.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd = exec.Command("redis-server",
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "no", "--dir", s.dir,
		"--daemonize", "no", "--maxclients", "15000", "--tcp-backlog", "4096")
	s.cmd.Stdout, s.cmd.Stderr = log, log
	// The server must die with the harness even if the harness is killed.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	for deadline := time.Now().Add(5 * time.Second); ; {
		if c, err := Dial(s.Addr); err == nil {
			if _, err = c.Do("PING"); err == nil {
				s.ctl = c
				return nil
			}
			c.Close()
		}
		if time.Now().After(deadline) {
			s.cmd.Process.Kill()
			s.cmd.Wait()
			return fmt.Errorf("redis-server on %s did not come up", s.Addr)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Pause and Resume hang the server the way a stuck host does: TCP connections
// stay open and are accepted by the kernel, nothing answers.
func (s *Server) Pause() error  { return s.cmd.Process.Signal(syscall.SIGSTOP) }
func (s *Server) Resume() error { return s.cmd.Process.Signal(syscall.SIGCONT) }

// Kill ends the server; Restart brings a fresh empty one up on the same port.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	s.ctl.Close()
	s.cmd.Process.Kill()
	s.cmd.Wait()
	s.cmd = nil
}

func (s *Server) Restart() error { s.Kill(); return s.start() }

// StopAll ends every server this process started, by pid.
func StopAll() {
	serversMu.Lock()
	defer serversMu.Unlock()
	for s := range servers {
		s.Kill()
		os.RemoveAll(s.dir)
	}
	clear(servers)
}

// Do runs one command on the control connection.
func (s *Server) Do(args ...string) (any, error) { return s.ctl.Do(args...) }

// Flush empties the server (scripts stay cached: a steady state is measured).
func (s *Server) Flush() { s.ctl.Do("FLUSHALL") }

// ProcCPU is the CPU the server process has used, in seconds (10 ms ticks). It
// works for a hung server too, where INFO does not answer.
func (s *Server) ProcCPU() float64 {
	if s.cmd == nil {
		return 0
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	// Fields after the parenthesised name; utime and stime are 12th and 13th.
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(f) < 13 {
		return 0
	}
	ut, _ := strconv.ParseFloat(f[11], 64)
	st, _ := strconv.ParseFloat(f[12], 64)
	return (ut + st) / 100
}

// Left counts the keys that are there, without those that begin with one of the
// prefixes and run out by themselves; -1 on error.
func (s *Server) Left(passing ...string) int64 {
	v, err := s.ctl.Do("KEYS", "*")
	keys, ok := v.([]any)
	if err != nil || !ok {
		return -1
	}
	n := int64(0)
	for _, k := range keys {
		name, _ := k.(string)
		if !slices.ContainsFunc(passing, func(p string) bool { return strings.HasPrefix(name, p) }) {
			n++
			continue
		}
		left, err := s.ctl.Do("PTTL", name)
		if ms, ok := left.(int64); err != nil || !ok || ms == -1 {
			n++
		}
	}
	return n
}

// Info is one snapshot of the server's counters.
type Info struct {
	CPU            float64 // seconds, user+system
	Calls          map[string]float64
	Reads, Writes  float64 // read/write events on client sockets
	NetIn, NetOut  float64 // bytes
	Expired        float64
	Clients        float64
	UsedMemory     float64
	TrackingTables float64
}

// Info asks one server (addr, any process) for a snapshot.
func ReadInfo(c *Conn) (Info, error) {
	v, err := c.Do("INFO", "everything")
	if err != nil {
		return Info{}, err
	}
	text, _ := v.(string)
	in := Info{Calls: map[string]float64{}}
	for line := range strings.SplitSeq(text, "\r\n") {
		k, val, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		if name, ok := strings.CutPrefix(k, "cmdstat_"); ok {
			calls, _, _ := strings.Cut(strings.TrimPrefix(val, "calls="), ",")
			in.Calls[name], _ = strconv.ParseFloat(calls, 64)
			continue
		}
		f, err := strconv.ParseFloat(val, 64)
		if err != nil {
			continue
		}
		switch k {
		case "used_cpu_sys", "used_cpu_user":
			in.CPU += f
		case "total_reads_processed":
			in.Reads = f
		case "total_writes_processed":
			in.Writes = f
		case "total_net_input_bytes":
			in.NetIn = f
		case "total_net_output_bytes":
			in.NetOut = f
		case "expired_keys":
			in.Expired = f
		case "connected_clients":
			in.Clients = f
		case "used_memory":
			in.UsedMemory = f
		case "tracking_total_keys":
			in.TrackingTables = f
		}
	}
	return in, nil
}

func (s *Server) Info() Info {
	in, err := ReadInfo(s.ctl)
	if err != nil {
		panic(fmt.Sprintf("INFO on %s: %v", s.Addr, err))
	}
	return in
}

// harnessCmds are issued by the harness itself and never counted.
var harnessCmds = map[string]bool{
	"info": true, "dbsize": true, "echo": true, "monitor": true,
	"flushall": true, "config|resetstat": true, "ping": false,
}

// CmdDelta is the per-command call count between two snapshots, without the
// harness' own commands. Commands run inside Lua are included by Redis.
func CmdDelta(a, b Info) map[string]float64 {
	d := map[string]float64{}
	for k, v := range b.Calls {
		if n := v - a.Calls[k]; n > 0 && !harnessCmds[k] {
			d[k] = n
		}
	}
	return d
}

// Sent is how many of those commands arrived from clients: everything except
// the commands that this contestant only ever runs inside its Lua scripts (see
// Trace).
func Sent(delta map[string]float64, luaOnly map[string]bool) (sent, inLua float64) {
	for k, n := range delta {
		if luaOnly[k] {
			inLua += n
		} else {
			sent += n
		}
	}
	return sent, inLua
}

// Trace records what f makes the server execute, by MONITOR. It returns the
// command sequence as text, with Lua-run commands in braces, and the set of
// commands seen only inside Lua.
func (s *Server) Trace(f func()) (text string, luaOnly map[string]bool, err error) {
	m, err := Dial(s.Addr)
	if err != nil {
		return "", nil, err
	}
	defer m.Close()
	if _, err := m.Do("MONITOR"); err != nil {
		return "", nil, err
	}
	type ev struct {
		lua bool
		cmd string
	}
	done := make(chan []ev)
	go func() {
		var evs []ev
		for {
			v, err := m.Read()
			line, ok := v.(string)
			if err != nil || !ok || strings.Contains(line, "peerbench-trace-end") {
				done <- evs
				return
			}
			_, rest, ok := strings.Cut(line, " [")
			if !ok {
				continue
			}
			src, rest, _ := strings.Cut(rest, "] ")
			name, _, _ := strings.Cut(strings.TrimPrefix(rest, `"`), `"`)
			name = strings.ToLower(name)
			if harnessCmds[name] {
				continue
			}
			evs = append(evs, ev{strings.HasSuffix(src, "lua"), name})
		}
	}()
	f()
	s.ctl.Do("ECHO", "peerbench-trace-end")
	m.SetDeadline(time.Now().Add(2 * time.Second))
	evs := <-done

	top, lua := map[string]bool{}, map[string]bool{}
	var sb strings.Builder
	open := false
	for _, e := range evs {
		if e.lua {
			lua[e.cmd] = true
			if !open {
				sb.WriteString("{")
				open = true
			} else {
				sb.WriteString(" ")
			}
			sb.WriteString(e.cmd)
			continue
		}
		top[e.cmd] = true
		if open {
			sb.WriteString("}")
			open = false
		}
		if sb.Len() > 0 {
			sb.WriteString(" ")
		}
		sb.WriteString(e.cmd)
	}
	if open {
		sb.WriteString("}")
	}
	for c := range top {
		delete(lua, c)
	}
	return sb.String(), lua, nil
}

// FormatCmds renders a per-command map divided by n, biggest first.
func FormatCmds(d map[string]float64, n float64) string {
	type kv struct {
		k string
		v float64
	}
	var l []kv
	for k, v := range d {
		if v/n >= 0.005 {
			l = append(l, kv{k, v / n})
		}
	}
	sort.Slice(l, func(i, j int) bool {
		if l[i].v != l[j].v {
			return l[i].v > l[j].v
		}
		return l[i].k < l[j].k
	})
	var parts []string
	for _, e := range l {
		parts = append(parts, fmt.Sprintf("%s %.2f", e.k, e.v))
	}
	return strings.Join(parts, ", ")
}
