package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A project is a throw-away clone of a small repository, with a bare one as its remote.
type project struct {
	t      *testing.T
	folder string
	remote string
}

var smallProject = map[string]string{
	"LICENSE":              "Do as you like.\n",
	"CHANGELOG.md":         "# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 2026-11-21\n\n- Everything.\n",
	"go.work":              "go 1.26.0\n\nuse (\n\t./drivers/x\n\t./bench\n\t./core\n\t./internal/kit\n\t./internal/tool\n)\n",
	"bench/go.mod":         "module example.org/p/bench\n\ngo 1.26.0\n\nreplace example.org/other => ../other\n",
	"internal/tool/go.mod": "module example.org/p/internal/tool\n\ngo 1.26.0\n",
	"core/go.mod":          "module example.org/p/core\n\ngo 1.26.0\n",
	"core/core.go":         "package core\n\nconst Name = \"core\"\n",
	"drivers/x/go.mod": "module example.org/p/drivers/x\n\ngo 1.26.0\n\nrequire (\n\texample.org/p/core v0.0.0\n\texample.org/p/internal/kit v0.0.0\n)\n\n" +
		"replace (\n\texample.org/p/core => ../../core\n\texample.org/p/internal/kit => ../../internal/kit\n)\n",
	"drivers/x/x.go":      "package x\n\nimport \"example.org/p/core\"\n\nconst Name = core.Name + \"/x\"\n",
	"drivers/x/x_test.go": "package x\n\nimport _ \"example.org/p/internal/kit\"\n",
	"internal/kit/go.mod": "module example.org/p/internal/kit\n\ngo 1.26.0\n\nrequire example.org/p/core v0.0.0\n\nreplace example.org/p/core => ../../core\n",
	"internal/kit/kit.go": "package kit\n\nimport _ \"example.org/p/core\"\n",
}

// template is a project that the others are copies of: git takes its time.
var template string

func newProject(t *testing.T) *project {
	t.Helper()
	p := emptyProject(t)
	root := filepath.Dir(p.folder)
	if template != "" {
		require.NoError(t, os.CopyFS(root, os.DirFS(template)))
		return p
	}
	for name, text := range smallProject {
		p.write(name, text)
	}
	p.git("init", "-q", "--template=", "-b", "main")
	p.start()
	var err error
	template, err = os.MkdirTemp("", "golocker-release-test-")
	require.NoError(t, err)
	require.NoError(t, os.CopyFS(template, os.DirFS(root)))
	return p
}

func TestMain(m *testing.M) {
	status := m.Run()
	if template != "" {
		os.RemoveAll(template)
	}
	os.Exit(status)
}

func emptyProject(t *testing.T) *project {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	t.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(t.TempDir(), "gitconfig"))
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		t.Setenv("GIT_"+who+"_NAME", "Somebody")
		t.Setenv("GIT_"+who+"_EMAIL", "somebody@example.org")
	}
	root := t.TempDir()
	p := &project{t: t, folder: filepath.Join(root, "clone"), remote: filepath.Join(root, "remote.git")}
	require.NoError(t, os.Mkdir(p.folder, 0o777))
	return p
}

// start commits everything, and makes the remote.
func (p *project) start() {
	p.t.Helper()
	p.commit()
	p.git("init", "-q", "--bare", "--template=", p.remote)
	p.git("remote", "add", "origin", "../remote.git")
	p.git("push", "-q", "origin", "main")
}

func (p *project) commit() {
	p.t.Helper()
	p.git("add", "-A")
	p.git("commit", "-q", "--allow-empty", "-m", "a change")
}

func (p *project) write(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.folder, filepath.FromSlash(name))
	require.NoError(p.t, os.MkdirAll(filepath.Dir(path), 0o777))
	require.NoError(p.t, os.WriteFile(path, []byte(text), 0o666))
}

// change writes a file, and commits and pushes it.
func (p *project) change(name, text string) {
	p.t.Helper()
	p.write(name, text)
	p.commit()
	p.git("push", "-q", "origin", "main")
}

func (p *project) git(args ...string) string {
	p.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = p.folder
	out, err := cmd.CombinedOutput()
	require.NoError(p.t, err, "git %s: %s", strings.Join(args, " "), out)
	return strings.TrimSpace(string(out))
}

// release runs the program; what checks the whole repository passes unless args say
// otherwise.
func (p *project) release(args ...string) (status int, out, errs string) {
	p.t.Helper()
	p.t.Chdir(p.folder)
	var o, e bytes.Buffer
	args = append([]string{"-lint", "true", "-compat", "true", "-tests", "true"}, args...)
	status = run(p.t.Context(), args, &o, &e)
	return status, o.String(), e.String()
}
