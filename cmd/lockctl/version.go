package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/golocker/golocker/cmd/lockctl/internal/guard"
	"github.com/golocker/golocker/locker"
)

// A versionView is what lockctl version says.
type versionView struct {
	Version  string   `json:"version"`
	Commit   string   `json:"commit,omitempty"`
	Go       string   `json:"go"`
	System   string   `json:"system"`
	Drivers  []string `json:"drivers"`
	Guardian bool     `json:"guardian"`
}

func (t *tool) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Tell the version, and what this build can do",
		Args:  exactly(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			v := version()
			if t.json {
				return t.writeJSON(v)
			}
			fmt.Fprintf(t.out, "lockctl %s (%s, %s)\ndrivers: %s\n", strings.TrimSpace(v.Version+" "+v.Commit), v.Go, v.System, strings.Join(v.Drivers, ", "))
			if !v.Guardian {
				fmt.Fprintln(t.out, "no guardian on this system: a command outlives a lockctl that is killed or stopped")
			}
			return nil
		},
	}
}

func version() versionView {
	v := versionView{
		Version: "(devel)", Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH,
		Drivers: locker.Drivers(), Guardian: guard.Guarded,
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" {
			v.Version = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v.Commit = s.Value[:min(len(s.Value), 12)]
			}
		}
	}
	return v
}
