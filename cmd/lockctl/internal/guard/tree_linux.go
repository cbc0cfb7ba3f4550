package guard

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// A tree is what belongs to a command: its process group, and the other descendants of
// root that have not left the session.
type tree struct {
	root    int // the guardian, or lockctl; it adopts orphans
	group   int // the command's process group, 0 if it is not known
	session int
	spare   int // the guardian, where lockctl is the root
}

// A process is a line of the system's table.
type process struct {
	pid, parent, group, session int
	ended                       bool // a zombie
}

// members returns the tree's processes that still run. One that is forked while the
// table is read, by a process that then ends, could be missed once.
func (t tree) members() ([]int, error) {
	found, err := t.look()
	if err == nil && len(found) == 0 {
		return t.look()
	}
	return found, err
}

func (t tree) look() ([]int, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	below := map[int]bool{t.root: true}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if below[p.parent] && !below[p.pid] {
				below[p.pid], grown = true, true
			}
		}
	}
	var found []int
	for _, p := range all {
		if p.ended || p.pid == t.root || p.pid == t.spare {
			continue
		}
		if p.session == t.session && (below[p.pid] || p.group == t.group && t.group != 0) {
			found = append(found, p.pid)
		}
	}
	return found, nil
}

// signal sends sig to all of the tree, and returns the processes that still run. One that has
// just been forked may be missed, unless it is in the group.
func (t tree) signal(sig syscall.Signal) []int {
	found, err := t.members()
	if err != nil {
		// Without /proc only the group can be told. Its ended processes that nobody has
		// waited for count as running here.
		if t.group == 0 || errors.Is(syscall.Kill(-t.group, sig), syscall.ESRCH) {
			return nil
		}
		return []int{t.group}
	}
	if t.group != 0 && len(found) > 0 {
		_ = syscall.Kill(-t.group, sig) // no process in it can escape by forking
	}
	for _, pid := range found {
		if g, err := syscall.Getpgid(pid); err == nil && (g != t.group || t.group == 0) {
			_ = syscall.Kill(pid, sig)
		}
	}
	return found
}

// kill ends the tree and returns the processes that could not be ended within the time.
func (t tree) kill(within time.Duration) []int {
	end := now().add(within)
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		left := t.signal(syscall.SIGKILL)
		if len(left) == 0 || now() > end {
			return left
		}
		time.Sleep(pause)
	}
}

// processes reads the system's table.
func processes() ([]process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var all []process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // it is gone
		}
		if p, ok := parseStat(pid, stat); ok {
			all = append(all, p)
		}
	}
	if !slices.ContainsFunc(all, func(p process) bool { return p.pid == os.Getpid() }) {
		return nil, errors.New("guard: /proc does not show this process")
	}
	return all, nil
}

// parseStat reads /proc/<pid>/stat, see proc(5). The second field is a name in
// parentheses, which may hold anything.
func parseStat(pid int, stat []byte) (process, bool) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return process{}, false
	}
	fields := bytes.Fields(stat[end+1:])
	if len(fields) < 18 {
		return process{}, false
	}
	var numbers [18]int
	for _, i := range []int{1, 2, 3, 17} {
		n, err := strconv.Atoi(string(fields[i]))
		if err != nil {
			return process{}, false
		}
		numbers[i] = n
	}
	state := fields[0][0]
	// The first thread may have ended before the others.
	ended := state == 'X' || state == 'x' || state == 'Z' && numbers[17] <= 1
	return process{pid: pid, parent: numbers[1], group: numbers[2], session: numbers[3], ended: ended}, true
}
