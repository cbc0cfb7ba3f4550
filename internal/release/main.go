// Release makes a release of all modules of this repository, in lockstep. It runs in the
// folder of go.work:
//
//	release v0.1.0          checks everything and makes the release, here only: a dry run
//	release -push v0.1.0    and then pushes its tags
//	release -proxy DIR v0.1.0
//	                        makes DIR a file-system GOPROXY with the modules of HEAD under
//	                        that version, and checks nothing
//
// On main, the modules require each other as v0.0.0 and replace that by their folders.
// The release is a commit of its own on top of main, in which each module requires the
// others in the version that is released, without replace directives: with them,
// "go install …@version" would be refused. Only its tags lead to that commit, one for
// each module, locker/v0.1.0; main goes on without it. docs/versioning.md says what the
// version must be.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.SetOutput(errs)
	push := flags.Bool("push", false, "push the tags; without it nothing leaves this machine, and no tag is made")
	proxy := flags.String("proxy", "", "only make this folder a GOPROXY with the modules")
	remote := flags.String("remote", "origin", "where the tags go")
	lint := flags.String("lint", "make apicheck", "the command that finds an API that api/ does not know")
	compat := flags.String("compat", "go run ./internal/apicheck -since", "the command that compares the API with that in a folder, its last argument")
	tests := flags.String("tests", "make test", "the command that runs all tests")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if flags.NArg() != 1 {
		fmt.Fprintln(errs, "release: say which version, such as v0.1.0")
		return 2
	}
	root, err := os.Getwd()
	if err != nil {
		fmt.Fprintln(errs, "release:", err)
		return 1
	}
	r := &release{
		version: flags.Arg(0), remote: *remote, out: out,
		lint: strings.Fields(*lint), compat: strings.Fields(*compat), tests: strings.Fields(*tests),
		repo: repository{ctx: ctx, folder: root},
	}
	if *proxy != "" {
		err = r.makeProxy(*proxy)
	} else {
		err = r.make(*push)
	}
	if err != nil {
		fmt.Fprintln(errs, "release:", err)
		return 1
	}
	return 0
}

// A release is one under way.
type release struct {
	version string
	remote  string
	lint    []string // commands
	compat  []string
	tests   []string
	repo    repository
	out     io.Writer
}

// make checks, makes and, if asked to, publishes the release.
func (r *release) make(push bool) error {
	if err := r.checkReady(); err != nil {
		return err
	}
	r.say("making the release")
	return r.inWorktree(func(tree repository) error {
		modules, err := load(tree)
		if err != nil {
			return err
		}
		proxy, err := os.MkdirTemp("", "golocker-proxy-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(proxy)
		if err := rewrite(tree, modules, r.version, proxy); err != nil {
			return err
		}
		if err := r.checkRewritten(tree, modules, proxy); err != nil {
			return err
		}
		if err := tree.run("git", "add", "-A"); err != nil {
			return err
		}
		if err := tree.run("git", "commit", "-q", "-m", "Release "+r.version); err != nil {
			return err
		}
		var tags []string
		for _, m := range modules {
			tags = append(tags, m.tag(r.version))
		}
		if !push {
			r.say("DRY RUN, nothing was tagged or pushed. These would be:\n  %s", strings.Join(tags, "\n  "))
			return nil
		}
		return r.publish(tree, tags)
	})
}

// publish makes the tags and pushes all or none of them.
func (r *release) publish(tree repository, tags []string) (err error) {
	var made []string
	defer func() {
		if err != nil { // so that the next try does not find them
			for _, tag := range made {
				err = errors.Join(err, tree.run("git", "tag", "-d", tag))
			}
		}
	}()
	for _, tag := range tags {
		if err := tree.run("git", "tag", "-a", "-m", tag, tag); err != nil {
			return err
		}
		made = append(made, tag)
	}
	// From the checkout, since the remote's address may be relative to it.
	if err := r.repo.run("git", append([]string{"push", "-q", "--atomic", r.remote}, tags...)...); err != nil {
		return err
	}
	r.say("pushed to %s:\n  %s", r.remote, strings.Join(tags, "\n  "))
	return nil
}

// makeProxy makes folder a GOPROXY of the modules as they are in HEAD.
func (r *release) makeProxy(folder string) error {
	return r.inWorktree(func(tree repository) error {
		modules, err := load(tree)
		if err != nil {
			return err
		}
		return rewrite(tree, modules, r.version, folder)
	})
}

func (r *release) say(format string, args ...any) { fmt.Fprintf(r.out, format+"\n", args...) }
