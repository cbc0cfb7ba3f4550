package main

import (
	"bufio"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/golocker/golocker/bench/internal/harness"
	"github.com/golocker/golocker/bench/internal/report"
	"github.com/golocker/golocker/internal/servertest"
)

// compared are the modules whose version a report has to say.
var compared = []string{
	"github.com/bsm/redislock",
	"github.com/go-redsync/redsync/v4",
	"github.com/gomodule/redigo",
	"github.com/redis/go-redis/v9",
	"github.com/redis/rueidis", // rueidislock is a package of it
}

// describe says with what and where this run measures. What cannot be found out
// stays empty.
func describe() report.Meta {
	m := report.Meta{
		Time:   time.Now().UTC().Format(time.RFC3339),
		Args:   os.Args[1:],
		Go:     runtime.Version(),
		System: runtime.GOOS + "/" + runtime.GOARCH,
		CPU:    cpuModel(),
		CPUs:   runtime.NumCPU(),
		Load:   harness.LoadAverage(),
		Deps:   map[string]string{},
	}
	if server, ok := servertest.Binary(); ok {
		version, _ := exec.Command(server, "--version").Output()
		m.Server = strings.TrimSpace(string(version))
	}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, d := range build.Deps {
			if slices.Contains(compared, d.Path) {
				m.Deps[d.Path] = d.Version
			}
		}
	}
	return m
}

func cpuModel() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown CPU"
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown CPU"
}
