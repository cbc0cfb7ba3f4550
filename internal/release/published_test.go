package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
)

const consumer = `package main

import (
	"context"
	"fmt"
	"os"

	_ "github.com/golocker/golocker/drivers/redigo"
	"github.com/golocker/golocker/locker"
)

func main() {
	client, err := locker.Open("redigo", os.Args[1])
	if err != nil {
		panic(err)
	}
	defer client.Close()
	err = client.Do(context.Background(), "published", func(ctx context.Context) error {
		lease, _ := locker.FromContext(ctx)
		fmt.Println("held:", lease.Valid())
		return nil
	})
	if err != nil {
		panic(err)
	}
}
`

// This repository is released into a bare one. A module outside, which knows nothing but
// the names, gets core and driver from there by their tags, and takes a lock.
func TestPublished(t *testing.T) {
	server := servertest.Single(t)
	p := cloneOfThis(t)
	status, out, errs := p.release("-push", "v0.1.0")
	require.Zero(t, status, "%s%s", out, errs)

	p.git("config", "--global", "url."+p.remote+".insteadOf", "https://github.com/golocker/golocker")
	known, err := exec.Command("go", "env", "GOMODCACHE", "GOPROXY").Output()
	require.NoError(t, err)
	cache, proxy, _ := strings.Cut(strings.TrimSpace(string(known)), "\n")
	outside := &project{t: t, folder: t.TempDir()}
	run := func(folder, name string, args ...string) string {
		cmd := exec.Command(name, args...)
		cmd.Dir = folder
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-modcacherw",
			"GOMODCACHE="+outside.folder+"/cache", "GONOSUMDB=*", "GOPROXY="+fileURL(filepath.Join(cache, "cache", "download"))+","+proxy,
			"GONOPROXY=github.com/golocker/golocker") // by git
		text, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s %s: %s", name, args, text)
		return string(text)
	}
	outside.write("app/main.go", consumer)
	app := filepath.Join(outside.folder, "app")
	run(app, "go", "mod", "init", "example.org/app")
	run(app, "go", "get", "github.com/golocker/golocker/locker@v0.1.0", "github.com/golocker/golocker/drivers/redigo@v0.1.0")
	assert.Equal(t, "held: true\n", run(app, "go", "run", ".", "redis://"+server.Addr))

	// Who checks out a tag builds it by itself, and its go.sum is what git has.
	tagged := filepath.Join(outside.folder, "tagged")
	run(outside.folder, "git", "clone", "-q", "-b", "drivers/redigo/v0.1.0", p.remote, tagged)
	run(filepath.Join(tagged, "drivers", "redigo"), "go", "build", "-mod=readonly", "./...")
}

// cloneOfThis returns a clone of this repository that is ready for v0.1.0.
func cloneOfThis(t *testing.T) *project {
	p := emptyProject(t)
	here, err := filepath.Abs("../..")
	require.NoError(t, err)
	p.git("config", "--global", "--add", "safe.directory", "*")
	if _, err := os.Stat(filepath.Join(here, ".git")); err != nil {
		t.Skip("this is no checkout")
	}
	p.git("clone", "-q", here, p.folder)
	p.git("checkout", "-q", "-B", "main")
	p.git("remote", "remove", "origin")
	for _, tag := range strings.Fields(p.git("tag")) {
		p.git("tag", "-d", tag)
	}
	p.write("CHANGELOG.md", smallProject["CHANGELOG.md"])
	p.start()
	return p
}
