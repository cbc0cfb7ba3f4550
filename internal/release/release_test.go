package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"
)

func TestRefuses(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(p *project)
		args []string
		want string
	}{
		{"NoVersion", nil, []string{"1.0"}, `"1.0" is not a version`},
		{"BuildMetadata", nil, []string{"v0.1.0+x"}, "is not a version"},
		{"MajorVersion2", nil, []string{"v2.0.0"}, "end in /v2"},
		{"DirtyTree", func(p *project) { p.write("new.txt", "x") }, nil, "new.txt"},
		{"NotOnMain", func(p *project) { p.git("switch", "-q", "-c", "side") }, nil, "this is side"},
		{"NotPushed", func(p *project) { p.commit() }, nil, "push or pull first"},
		{"TagExists", func(p *project) { p.git("tag", "core/v0.1.0") }, nil, "the tag core/v0.1.0 exists"},
		{"TagExistsOnRemote", func(p *project) {
			p.git("push", "-q", "origin", "HEAD:refs/tags/drivers/x/v0.1.0")
		}, nil, "the tag drivers/x/v0.1.0 exists"},
		{"LowerThanTheLast", func(p *project) { p.git("tag", "core/v0.10.0") }, nil, "not later than v0.10.0"},
		{"NoChangelog", nil, []string{"v0.2.0"}, "no section ## [0.2.0]"},
		{"ChangelogWithoutDate", func(p *project) {
			p.change("CHANGELOG.md", "## [0.1.0]\n\n- Everything.\n")
		}, nil, "needs a date"},
		{"EmptyChangelog", func(p *project) {
			p.change("CHANGELOG.md", "## [0.1.0] - 2026-11-21\n\n### Added\n\n## [0.0.1] - 2026-01-01\n\n- Some.\n")
		}, nil, "says nothing"},
		{"OldGolden", nil, []string{"-lint", "false", "v0.1.0"}, "make api"},
		{"TestsFail", nil, []string{"-tests", "false", "v0.1.0"}, "tests have not passed"},
		{"ForeignReplacement", func(p *project) {
			p.change("core/go.mod", smallProject["core/go.mod"]+"\nreplace example.org/other => ./other\n")
		}, nil, "replacement of example.org/other"},
		{"NotReplaced", func(p *project) {
			mod, _, _ := strings.Cut(smallProject["internal/kit/go.mod"], "\nreplace")
			p.change("internal/kit/go.mod", mod)
		}, nil, "requires example.org/p/core without replacing it"},
		{"Circle", func(p *project) {
			p.change("core/go.mod", smallProject["core/go.mod"]+"\nrequire example.org/p/drivers/x v0.0.0\nreplace example.org/p/drivers/x => ../drivers/x\n")
		}, nil, "requires itself"},
		{"DoesNotResolve", func(p *project) {
			p.change("drivers/x/go.sum", "example.org/p/core v0.1.0/go.mod h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n")
		}, nil, "drivers/x as it would be released"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newProject(t)
			if test.do != nil {
				test.do(p)
			}
			args := test.args
			if args == nil {
				args = []string{"v0.1.0"}
			}
			tags := p.git("tag")
			status, out, errs := p.release(append([]string{"-push"}, args...)...)
			assert.Equal(t, 1, status, "%s", out)
			assert.Contains(t, errs, test.want)
			assert.Equal(t, tags, p.git("tag"), "nothing is tagged")
			assert.Equal(t, 1, strings.Count(p.git("worktree", "list"), "\n")+1, "no worktree is left")
		})
	}
}

func TestIncompatibleChange(t *testing.T) {
	for _, test := range []struct {
		last, next string
		broken, ok bool
	}{
		{"v0.1.0", "v0.1.1", false, true},
		{"v0.1.0", "v0.1.1", true, false},
		{"v0.1.0", "v0.2.0", true, true},
		{"v0.9.0", "v1.0.0", true, true},
		{"v1.0.0", "v1.1.0", true, false},
		{"v1.0.0", "v1.1.0", false, true},
	} {
		p := newProject(t)
		p.git("push", "-q", "origin", "HEAD:refs/tags/core/"+test.last)
		p.change("CHANGELOG.md", "## ["+test.next[1:]+"] - 2026-11-21\n\n- Some.\n")
		compat := "true"
		if test.broken {
			compat = "false"
		}
		status, _, errs := p.release("-compat", compat, test.next)
		if test.ok {
			assert.Zero(t, status, "%v: %s", test, errs)
		} else {
			assert.Contains(t, errs, "changed incompatibly", "%v", test)
		}
	}
}

func TestDryRunLeavesNothing(t *testing.T) {
	p := newProject(t)
	status, out, errs := p.release("v0.1.0")
	require.Zero(t, status, errs)
	assert.Contains(t, out, "DRY RUN")
	assert.Contains(t, out, "core/v0.1.0\n  internal/kit/v0.1.0\n  drivers/x/v0.1.0", "in the order of requirements")
	assert.Empty(t, p.git("tag"))
	assert.Empty(t, p.git("status", "--porcelain"))
	assert.Equal(t, "refs/heads/main", strings.Fields(p.git("ls-remote", "origin", "refs/*"))[1])
}

func TestPush(t *testing.T) {
	p := newProject(t)
	head := p.git("rev-parse", "HEAD")
	status, _, errs := p.release("-push", "v0.1.0")
	require.Zero(t, status, errs)
	assert.Equal(t, head, p.git("rev-parse", "main"), "main goes on without the release's commit")
	assert.Equal(t, head, p.git("rev-parse", "core/v0.1.0^{commit}~1"))

	assert.NotContains(t, p.git("tag"), "bench")
	assert.NotContains(t, p.git("tag"), "tool")
	remote := p.git("ls-remote", "--tags", "--refs", "origin")
	for _, tag := range []string{"core/v0.1.0", "drivers/x/v0.1.0", "internal/kit/v0.1.0"} {
		assert.Contains(t, remote, "refs/tags/"+tag)
	}
	text := p.git("show", "drivers/x/v0.1.0:drivers/x/go.mod")
	file, err := modfile.Parse("go.mod", []byte(text), nil)
	require.NoError(t, err)
	assert.Empty(t, file.Replace)
	for _, r := range file.Require {
		assert.Equal(t, "v0.1.0", r.Mod.Version)
	}
	sums := p.git("show", "drivers/x/v0.1.0:drivers/x/go.sum")
	assert.Equal(t, 4, strings.Count(sums, "\n")+1, sums)

	status, _, errs = p.release("-push", "v0.1.0")
	assert.Equal(t, 1, status)
	assert.Contains(t, errs, "exists")
	p.change("CHANGELOG.md", "## [0.1.1] - 2026-11-22\n\n- More.\n")
	status, _, errs = p.release("-push", "v0.1.1")
	assert.Zero(t, status, errs)
}

func TestFailedPushLeavesNoTags(t *testing.T) {
	p := newProject(t)
	hook := filepath.Join(p.remote, "hooks", "update")
	require.NoError(t, os.Mkdir(filepath.Dir(hook), 0o777))
	require.NoError(t, os.WriteFile(hook, []byte("#!/bin/sh\ncase $1 in refs/tags/drivers/*) exit 1;; esac\n"), 0o777))
	status, _, _ := p.release("-push", "v0.1.0")
	assert.Equal(t, 1, status)
	assert.Empty(t, p.git("tag"))
	assert.NotContains(t, p.git("ls-remote", "origin"), "tags", "all or none")
}
