package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A repository is a checkout in which commands run.
type repository struct {
	ctx    context.Context
	folder string
}

func (r repository) command(name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(r.ctx, name, args...)
	cmd.Dir = r.folder
	cmd.Stderr = os.Stderr
	// Commands for the whole repository use its workspace, whatever the caller's is.
	cmd.Env = append(os.Environ(), "GOWORK="+filepath.Join(r.folder, "go.work"))
	return cmd
}

func (r repository) run(name string, args ...string) error {
	cmd := r.command(name, args...)
	cmd.Stdout = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return nil
}

// lines returns what the command writes, without empty lines.
func (r repository) lines(name string, args ...string) ([]string, error) {
	cmd := r.command(name, args...)
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	var lines []string
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			lines = append(lines, line)
		}
	}
	return lines, nil
}

// inWorktree runs do in a checkout of HEAD of its own, which is removed afterwards.
func (r *release) inWorktree(do func(tree repository) error) error {
	return r.repo.checkout("HEAD", do)
}

// checkout runs do in a checkout of a revision, which is removed afterwards.
func (r repository) checkout(revision string, do func(tree repository) error) (err error) {
	folder, err := os.MkdirTemp("", "golocker-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	folder, err = filepath.EvalSymlinks(folder)
	if err != nil {
		return err
	}
	tree := repository{ctx: r.ctx, folder: filepath.Join(folder, "tree")}
	if err := r.run("git", "worktree", "add", "-q", "--detach", tree.folder, revision); err != nil {
		return err
	}
	defer func() {
		cleanup := repository{ctx: context.WithoutCancel(r.ctx), folder: r.folder}
		if e := cleanup.run("git", "worktree", "remove", "--force", tree.folder); err == nil {
			err = e
		}
	}()
	return do(tree)
}
