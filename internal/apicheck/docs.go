package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/doc"
	"go/token"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// checkDocs returns an error for everything exported that has no documentation, and every
// package and type that has no example.
func checkDocs(modules []module) error {
	var faults []error
	for _, m := range modules {
		for _, p := range m.packages {
			found, err := undocumented(p, shownIn(m.tests[p.PkgPath]))
			if err != nil {
				return err
			}
			faults = append(faults, found...)
		}
	}
	return errors.Join(faults...)
}

// A check collects what is wrong with a package.
type check struct {
	fset   *token.FileSet
	faults []error
}

func (c *check) fault(at token.Pos, format string, args ...any) {
	c.faults = append(c.faults, fmt.Errorf("%s: %s", c.fset.Position(at), fmt.Sprintf(format, args...)))
}

func undocumented(p *packages.Package, shown shown) ([]error, error) {
	if len(p.Syntax) == 0 {
		return nil, nil // it has tests only
	}
	fset, tests, err := testFiles(p)
	if err != nil {
		return nil, err
	}
	// The documentation takes the files apart, so that it gets them last.
	c := &check{fset: fset}
	for _, file := range p.Syntax {
		c.file(file)
	}
	for _, t := range exportedTypes(p.Syntax) {
		if !shown[typeKey(p.PkgPath, t.Name.Name)] {
			c.fault(t.Pos(), "type %s is in no example", t.Name)
		}
	}
	d, err := doc.NewFromFiles(fset, append(slices.Clone(p.Syntax), tests...), p.PkgPath)
	if err != nil {
		return nil, err
	}
	start := p.Syntax[0].Package
	if !strings.HasPrefix(d.Doc, "Package "+d.Name+" ") {
		c.fault(start, "the package comment must begin with %q", "Package "+d.Name)
	}
	c.examples(start, d)
	return c.faults, nil
}

// examples looks for an example of the package.
func (c *check) examples(start token.Pos, d *doc.Package) {
	some := len(d.Examples) > 0
	for _, f := range d.Funcs {
		some = some || len(f.Examples) > 0
	}
	for _, t := range d.Types {
		some = some || len(t.Examples) > 0
		for _, f := range append(slices.Clone(t.Funcs), t.Methods...) {
			some = some || len(f.Examples) > 0
		}
	}
	if !some {
		c.fault(start, "package %s has no example", d.Name)
	}
}

// file checks the declarations of a file.
func (c *check) file(file *ast.File) {
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if !d.Name.IsExported() || d.Doc.Text() != "" {
				continue
			}
			if d.Recv == nil {
				c.fault(d.Pos(), "function %s has no documentation", d.Name)
			} else if r := receiver(d.Recv.List[0].Type); token.IsExported(r) && d.Name.Name != "Error" {
				c.fault(d.Pos(), "method %s.%s has no documentation", r, d.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					c.typeSpec(d, s)
				case *ast.ValueSpec:
					if documented(d.Doc, s.Doc, s.Comment) {
						continue
					}
					for _, name := range s.Names {
						if name.IsExported() {
							c.fault(name.Pos(), "%s has no documentation", name)
						}
					}
				}
			}
		}
	}
}

func (c *check) typeSpec(d *ast.GenDecl, s *ast.TypeSpec) {
	if !s.Name.IsExported() {
		return
	}
	if !documented(s.Doc, s.Comment) && (len(d.Specs) > 1 || !documented(d.Doc)) {
		c.fault(s.Pos(), "type %s has no documentation", s.Name)
	}
	switch t := s.Type.(type) {
	case *ast.StructType:
		c.members(s.Name.Name, t.Fields.List)
	case *ast.InterfaceType:
		c.members(s.Name.Name, t.Methods.List)
	}
}

// members checks fields or methods. A comment is for all that follow it without an empty
// line between.
func (c *check) members(typeName string, list []*ast.Field) {
	covered, last := false, 0
	for _, f := range list {
		line := c.fset.Position(f.Pos()).Line
		own := documented(f.Doc, f.Comment)
		covered = own || covered && line == last+1
		last = c.fset.Position(f.End()).Line
		for _, name := range f.Names { // what is embedded is documented where it is from
			if name.IsExported() && !covered {
				c.fault(name.Pos(), "%s.%s has no documentation", typeName, name)
			}
		}
	}
}

func documented(comments ...*ast.CommentGroup) bool {
	return slices.ContainsFunc(comments, func(c *ast.CommentGroup) bool { return strings.TrimSpace(c.Text()) != "" })
}

// receiver returns the name of a receiver's type.
func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}
