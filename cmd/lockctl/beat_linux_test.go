package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// beatCommand is a command that shows, while it runs, that it does: each of its processes
// keeps a file with the times of its first and its latest beat. They ask to be killed the
// hard way, since they ignore SIGTERM.
//
//	beat DIR NAME [-job] [-for DURATION] [-after OTHER]
//
// With -job it starts two more, one of them in a process group of its own, as the job of
// an interactive shell is; with -after it notes which processes of another command are
// still there when it begins.
const beatCommand = "beat"

func boottime() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err)
	}
	return t.Nano()
}

func beatMain(args []string) {
	begun := boottime()
	signal.Ignore(syscall.SIGTERM)
	dir, name := args[0], args[1]
	end := time.After(2 * time.Minute) // also if a bug lets it run on
	for rest := args[2:]; len(rest) > 0; rest = rest[1:] {
		switch rest[0] {
		case "-job":
			startBeat(dir, name, false)
			startBeat(dir, name, true)
		case "-for":
			d, err := time.ParseDuration(rest[1])
			if err != nil {
				panic(err)
			}
			end, rest = time.After(d), rest[1:]
		case "-after":
			noteAlive(dir, rest[1])
			rest = rest[1:]
		}
	}
	path := filepath.Join(dir, fmt.Sprintf("%s.%d", name, os.Getpid()))
	f, err := os.Create(filepath.Join(dir, "."+filepath.Base(path)))
	if err != nil {
		panic(err)
	}
	beat := func() error {
		var times [16]byte
		binary.LittleEndian.PutUint64(times[:8], uint64(begun))
		binary.LittleEndian.PutUint64(times[8:], uint64(boottime()))
		_, err := f.WriteAt(times[:], 0)
		return err
	}
	if beat() != nil || os.Rename(f.Name(), path) != nil { // it is seen when there is something in it
		return
	}
	for tick := time.Tick(3 * time.Millisecond); beat() == nil; {
		select {
		case <-tick:
		case <-end:
			return
		}
	}
}

func startBeat(dir, name string, ownGroup bool) {
	cmd := exec.Command("/proc/self/exe", beatCommand, dir, name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: ownGroup}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
}

// noteAlive leaves a file if a process of the other command still runs.
func noteAlive(dir, other string) {
	files, _ := filepath.Glob(filepath.Join(dir, other+".*"))
	for _, f := range files {
		pid, _ := strconv.Atoi(strings.TrimPrefix(filepath.Ext(f), "."))
		if s := stateOf(pid); s != "" && s != "Z" && s != "X" {
			_ = os.WriteFile(filepath.Join(dir, "alive-"+filepath.Base(f)), []byte(s), 0o600)
		}
	}
}

// stateOf is the state of a process as in proc(5), "" if there is none.
func stateOf(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	return fields[0]
}

// A pulse is what the processes of a beatCommand have shown.
type pulse struct {
	first, last int64
	pids        []int
}

func pulseOf(t *testing.T, dir, name string) pulse {
	t.Helper()
	var p pulse
	files, err := filepath.Glob(filepath.Join(dir, name+".*"))
	require.NoError(t, err)
	for _, f := range files {
		times, err := os.ReadFile(f)
		require.NoError(t, err)
		require.Len(t, times, 16)
		first, last := int64(binary.LittleEndian.Uint64(times[:8])), int64(binary.LittleEndian.Uint64(times[8:]))
		if p.first == 0 || first < p.first {
			p.first = first
		}
		p.last = max(p.last, last)
		pid, err := strconv.Atoi(strings.TrimPrefix(filepath.Ext(f), "."))
		require.NoError(t, err)
		p.pids = append(p.pids, pid)
	}
	return p
}

// childrenOf returns the processes that pid has started.
func childrenOf(pid int) []int {
	var found []int
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if fields[1] == strconv.Itoa(pid) {
			child, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			found = append(found, child)
		}
	}
	return found
}
