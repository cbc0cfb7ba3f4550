package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// checkRewritten has the go command resolve what every module requires, against the proxy
// and with the go.mod and go.sum that are released: whatever is missing or wrong there
// shows. (That the packages compile is the tests' business.) It uses a module cache of its
// own, so that the version is known nowhere before it is released.
func (r *release) checkRewritten(tree repository, modules []*mod, proxy string) error {
	r.say("checking that every module can be had")
	cache, err := os.MkdirTemp("", "golocker-modcache-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(cache)
	env, err := r.proxyEnv(cache, proxy)
	if err != nil {
		return err
	}
	ours := map[string]bool{}
	for _, m := range modules {
		ours[m.path()] = true
	}
	for _, m := range modules {
		commands := [][]string{{"list", "-m", "all"}}
		for _, r := range m.file.Require {
			if ours[r.Mod.Path] {
				commands = append(commands, []string{"mod", "download", r.Mod.Path})
			}
		}
		for _, args := range commands {
			cmd := tree.command("go", args...)
			cmd.Dir = m.dir
			cmd.Env = append(cmd.Env, env...)
			if err := cmd.Run(); err != nil {
				return fmt.Errorf("%s as it would be released: %s: %w", m.folder, cmd, err)
			}
		}
	}
	return nil
}

// proxyEnv returns the environment in which the go command takes our modules from proxy,
// others from where it has them already or would get them, and keeps nothing but in cache.
func (r *release) proxyEnv(cache, proxy string) ([]string, error) {
	known, err := r.repo.lines("go", "env", "GOMODCACHE", "GOPROXY")
	if err != nil {
		return nil, err
	}
	sources := []string{fileURL(proxy), fileURL(filepath.Join(known[0], "cache", "download"))}
	return []string{
		"GOWORK=off", "GOFLAGS=-mod=readonly -modcacherw", "GOMODCACHE=" + cache,
		"GOPROXY=" + strings.Join(append(sources, known[1]), ","),
		"GONOSUMDB=*", // the sums of others were checked when they were first had
	}, nil
}

func fileURL(path string) string { return "file://" + filepath.ToSlash(path) }
