package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/constant"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/tools/go/packages"
)

const remedy = "if that is meant: make api, and commit the result with the change (a line that goes breaks users, see docs/versioning.md)"

// text returns the exported API of a module, one line for each feature, in the manner of
// the files in Go's own folder api.
func text(m module) []byte {
	var lines []string
	for _, p := range m.packages {
		lines = append(lines, features(p)...)
	}
	slices.Sort(lines)
	return []byte(strings.Join(slices.Compact(lines), "\n") + "\n")
}

func writeGolden(folder string, modules []module) error {
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	for _, m := range modules {
		file := goldenFile(folder, m)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(file, text(m), 0o666); err != nil {
			return err
		}
	}
	return nil
}

// checkGolden compares the API with the files in folder.
func checkGolden(folder string, modules []module) error {
	var faults []error
	known := map[string]bool{}
	for _, m := range modules {
		file := goldenFile(folder, m)
		known[file] = true
		want, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if got := text(m); !bytes.Equal(got, want) {
			faults = append(faults, fmt.Errorf("the API of %s is not what %s says:\n%s", m.path, file, difference(want, got)))
		}
	}
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !known[path] {
			faults = append(faults, fmt.Errorf("%s is of no module", path))
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(faults) == 0 {
		return nil
	}
	return errors.Join(append(faults, errors.New(remedy))...)
}

// difference returns the lines of which only one text has.
func difference(before, after []byte) string {
	lines := func(text []byte) []string { return strings.Split(strings.TrimSpace(string(text)), "\n") }
	var b strings.Builder
	only := func(sign string, some, others []string) {
		for _, line := range some {
			if line != "" && !slices.Contains(others, line) {
				fmt.Fprintf(&b, "  %s %s\n", sign, line)
			}
		}
	}
	only("-", lines(before), lines(after))
	only("+", lines(after), lines(before))
	return b.String()
}

// features returns what a package exports.
func features(p *packages.Package) []string {
	var lines []string
	add := func(format string, args ...any) {
		lines = append(lines, "pkg "+p.PkgPath+", "+fmt.Sprintf(format, args...))
	}
	name := func(t types.Type) string {
		return types.TypeString(t, func(other *types.Package) string {
			if other == p.Types {
				return ""
			}
			return other.Name()
		})
	}
	signature := func(f *types.Func) string { return f.Name() + strings.TrimPrefix(name(f.Type()), "func") }
	scope := p.Types.Scope()
	for _, n := range scope.Names() {
		if !token.IsExported(n) {
			continue
		}
		switch o := scope.Lookup(n).(type) {
		case *types.Const:
			value := o.Val().ExactString()
			if ns, ok := constant.Int64Val(constant.ToInt(o.Val())); ok && name(o.Type()) == "time.Duration" {
				value = time.Duration(ns).String()
			}
			add("const %s %s = %s", n, name(o.Type()), value)
		case *types.Var:
			add("var %s %s", n, name(o.Type()))
		case *types.Func:
			add("func %s", signature(o))
		case *types.TypeName:
			if o.IsAlias() {
				add("type %s = %s", n, name(types.Unalias(o.Type())))
				continue
			}
			switch t := o.Type().Underlying().(type) {
			case *types.Struct:
				add("type %s struct", n)
				for f := range t.Fields() {
					if f.Exported() {
						add("type %s struct, %s %s", n, f.Name(), name(f.Type()))
					}
				}
			case *types.Interface:
				add("type %s interface { %s }", n, strings.Join(methodNames(t), ", "))
				for f := range t.Methods() {
					if f.Exported() {
						add("type %s interface, %s", n, signature(f))
					}
				}
				continue
			default:
				add("type %s %s", n, name(t))
			}
			byValue := types.NewMethodSet(o.Type())
			for s := range types.NewMethodSet(types.NewPointer(o.Type())).Methods() {
				f := s.Obj().(*types.Func)
				if !f.Exported() {
					continue
				}
				receiver := "*" + n
				if byValue.Lookup(f.Pkg(), f.Name()) != nil {
					receiver = n
				}
				add("method (%s) %s", receiver, signature(f))
			}
		}
	}
	return lines
}

func methodNames(t *types.Interface) []string {
	var names []string
	unexported := false
	for f := range t.Methods() {
		if f.Exported() {
			names = append(names, f.Name())
		} else {
			unexported = true
		}
	}
	if unexported { // nobody else can implement it, so that it may grow
		names = append(names, "unexported methods")
	}
	return names
}
