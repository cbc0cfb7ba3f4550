package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	modzip "golang.org/x/mod/zip"
)

// A mod is a module of the workspace.
type mod struct {
	folder string // in the repository, with slashes
	dir    string // on disk
	file   *modfile.File
}

func (m *mod) path() string              { return m.file.Module.Mod.Path }
func (m *mod) tag(version string) string { return m.folder + "/" + version }

// unreleased are modules that are used in a checkout only.
var unreleased = map[string]bool{"bench": true, "docs": true}

// load returns the modules of go.work that are released, each after those that it
// requires. An internal module is released if another requires it, since whoever needs
// that one needs its go.mod.
func load(tree repository) ([]*mod, error) {
	text, err := os.ReadFile(filepath.Join(tree.folder, "go.work"))
	if err != nil {
		return nil, err
	}
	work, err := modfile.ParseWork("go.work", text, nil)
	if err != nil {
		return nil, err
	}
	byPath := map[string]*mod{}
	for _, use := range work.Use {
		m := &mod{folder: path.Clean(filepath.ToSlash(use.Path))}
		m.dir = filepath.Join(tree.folder, filepath.FromSlash(m.folder))
		name := filepath.Join(m.dir, "go.mod")
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if m.file, err = modfile.Parse(name, text, nil); err != nil {
			return nil, err
		}
		byPath[m.path()] = m
	}
	required := map[string]bool{}
	for _, m := range byPath {
		if m.inRepositoryOnly() {
			continue
		}
		for _, r := range m.file.Require {
			required[r.Mod.Path] = true
		}
	}
	for path, m := range byPath {
		if m.inRepositoryOnly() && !required[path] {
			delete(byPath, path)
		}
	}
	return sorted(byPath)
}

// inRepositoryOnly tells whether nobody wants the module for itself.
func (m *mod) inRepositoryOnly() bool {
	return unreleased[m.folder] || strings.HasPrefix(m.folder, "internal/")
}

// sorted puts each module after those of the others that it requires.
func sorted(byPath map[string]*mod) ([]*mod, error) {
	var order []*mod
	const begun, done = 1, 2
	state := map[string]int{}
	var visit func(path string) error
	visit = func(path string) error {
		m, ours := byPath[path]
		switch {
		case !ours || state[path] == done:
			return nil
		case state[path] == begun:
			return fmt.Errorf("%s requires itself through others; no order of release is possible", path)
		}
		state[path] = begun
		for _, r := range m.file.Require {
			if err := visit(r.Mod.Path); err != nil {
				return err
			}
		}
		state[path] = done
		order = append(order, m)
		return nil
	}
	for _, path := range slices.Sorted(maps.Keys(byPath)) {
		if err := visit(path); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// rewrite makes the modules require each other in the version, and puts them into a
// file-system GOPROXY. Since a module's go.sum has the hashes of those that it requires,
// they have to be in order.
func rewrite(tree repository, modules []*mod, version, proxy string) error {
	license, err := os.ReadFile(filepath.Join(tree.folder, "LICENSE"))
	if err != nil {
		return err
	}
	ours := map[string]bool{}
	for _, m := range modules {
		ours[m.path()] = true
	}
	sums := map[string]string{} // of the modules before
	for _, m := range modules {
		if err := m.rewrite(ours, version, sums); err != nil {
			return fmt.Errorf("%s: %w", m.folder, err)
		}
		// The go command gives the repository's to a module that has none. Here it is
		// put in its place, so that the hash is the same.
		if err := os.WriteFile(filepath.Join(m.dir, "LICENSE"), license, 0o666); err != nil {
			return err
		}
		sum, err := m.pack(version, proxy)
		if err != nil {
			return fmt.Errorf("%s: %w", m.folder, err)
		}
		sums[m.path()] = sum
	}
	return nil
}

// rewrite writes go.mod and go.sum as they are released.
func (m *mod) rewrite(ours map[string]bool, version string, sums map[string]string) error {
	var lines string
	replaced := map[string]bool{}
	for _, r := range m.file.Replace {
		old := r.Old // dropping it empties r
		if !ours[old.Path] {
			return fmt.Errorf("a replacement of %s cannot be released", old.Path)
		}
		if err := m.file.DropReplace(old.Path, old.Version); err != nil {
			return err
		}
		replaced[old.Path] = true
	}
	for _, r := range m.file.Require {
		if !ours[r.Mod.Path] {
			continue
		}
		if !replaced[r.Mod.Path] {
			return fmt.Errorf("requires %s without replacing it", r.Mod.Path)
		}
		if err := m.file.AddRequire(r.Mod.Path, version); err != nil {
			return err
		}
	}
	// What is replaced without being required is required by a requirement.
	for _, path := range slices.Sorted(maps.Keys(replaced)) {
		lines += sums[path]
	}
	m.file.Cleanup()
	text, err := m.file.Format()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(m.dir, "go.mod"), text, 0o666); err != nil {
		return err
	}
	if lines == "" {
		return nil
	}
	f, err := os.OpenFile(filepath.Join(m.dir, "go.sum"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	_, err = f.WriteString(lines)
	return errors.Join(err, f.Close())
}

// pack puts the module into the proxy, and returns its lines of go.sum.
func (m *mod) pack(version, proxy string) (sum string, err error) {
	escaped, err := module.EscapePath(m.path())
	if err != nil {
		return "", err
	}
	folder := filepath.Join(proxy, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return "", err
	}
	gomod, err := os.ReadFile(filepath.Join(m.dir, "go.mod"))
	if err != nil {
		return "", err
	}
	zip := filepath.Join(folder, version+".zip")
	f, err := os.Create(zip)
	if err != nil {
		return "", err
	}
	err = modzip.CreateFromDir(f, module.Version{Path: m.path(), Version: version}, m.dir)
	if err := errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	for name, text := range map[string]string{
		version + ".mod":  string(gomod),
		version + ".info": fmt.Sprintf(`{"Version":%q}`, version),
		"list":            version + "\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o666); err != nil {
			return "", err
		}
	}
	all, err := dirhash.HashZip(zip, dirhash.Hash1)
	if err != nil {
		return "", err
	}
	alone, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(gomod)), nil
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%[1]s %[2]s %[3]s\n%[1]s %[2]s/go.mod %[4]s\n", m.path(), version, all, alone), nil
}
