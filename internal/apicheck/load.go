package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"
)

// A module is one that others import packages of.
type module struct {
	folder   string // as in go.work, without "./"
	path     string
	packages []*packages.Package
	tests    map[string][]*packages.Package // by the path of the package that they test
}

// notImported are the modules in go.work that are programs, whatever packages they have.
var notImported = map[string]bool{"bench": true, "docs": true, "examples": true}

// load loads the packages of the workspace in root that others can import, with their
// tests if these are wanted.
func load(root string, tests bool) ([]module, error) {
	folders, err := workspace(root)
	if err != nil {
		return nil, err
	}
	var patterns []string
	modules := map[string]*module{}
	var order []*module
	for _, folder := range folders {
		if notImported[folder] || strings.HasPrefix(folder, "internal/") {
			continue
		}
		patterns = append(patterns, "./"+folder+"/...")
		m := &module{folder: folder, tests: map[string][]*packages.Package{}}
		modules[folder] = m
		order = append(order, m)
	}
	absolute, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	found, err := packages.Load(&packages.Config{
		Dir:   root,
		Tests: tests,
		Env:   append(os.Environ(), "GOWORK="+filepath.Join(absolute, "go.work")),
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedModule | packages.NeedForTest,
	}, patterns...)
	if err != nil {
		return nil, err
	}
	for _, p := range found {
		if len(p.Errors) > 0 {
			return nil, fmt.Errorf("%s: %w", p.PkgPath, p.Errors[0])
		}
		if p.Name == "main" || strings.Contains(p.PkgPath+"/", "/internal/") {
			continue // so are the programs that go test makes
		}
		folder, err := filepath.Rel(absolute, p.Module.Dir)
		if err != nil {
			return nil, err
		}
		m := modules[filepath.ToSlash(folder)]
		if p.ForTest != "" {
			m.tests[p.ForTest] = append(m.tests[p.ForTest], p)
			continue
		}
		m.path = p.Module.Path
		m.packages = append(m.packages, p)
	}
	var result []module
	for _, m := range order {
		if len(m.packages) > 0 {
			result = append(result, *m)
		}
	}
	if len(result) == 0 {
		return nil, errors.New("there is nothing to look at; run this where go.work is")
	}
	return result, nil
}

// workspace returns the folders of the modules in root's go.work.
func workspace(root string) ([]string, error) {
	cmd := exec.Command("go", "work", "edit", "-json", filepath.Join(root, "go.work"))
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go work edit: %w", err)
	}
	var work struct{ Use []struct{ DiskPath string } }
	if err := json.Unmarshal(text, &work); err != nil {
		return nil, err
	}
	var folders []string
	for _, use := range work.Use {
		folders = append(folders, path.Clean(filepath.ToSlash(use.DiskPath)))
	}
	return folders, nil
}

// testFiles parses the test files of a package, in which its examples are.
func testFiles(p *packages.Package) (*token.FileSet, []*ast.File, error) {
	paths, err := filepath.Glob(filepath.Join(p.Dir, "*_test.go"))
	if err != nil {
		return nil, nil, err
	}
	var files []*ast.File
	for _, path := range paths {
		file, err := parser.ParseFile(p.Fset, path, nil, parser.ParseComments)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, file)
	}
	return p.Fset, files, nil
}
