package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/packages"
)

// shown are the types that examples use, by [typeKey].
type shown map[string]bool

func typeKey(pkg, name string) string { return pkg + "." + name }

// shownIn returns the types that the examples among tests use: those that they name, and
// those of which they have a value. What a test package declares besides counts where an
// example leads to it: functions, variables, and types with their methods and with what is
// asserted of them. An identifier that merely has the name of a type does not count.
func shownIn(tests []*packages.Package) shown {
	s := shown{}
	for _, p := range tests {
		w := &walker{info: p.TypesInfo, into: s, declared: map[types.Object][]ast.Node{}}
		var examples []*ast.FuncDecl
		for _, file := range p.Syntax {
			if !strings.HasSuffix(p.Fset.Position(file.Package).Filename, "_test.go") {
				continue
			}
			for _, decl := range file.Decls {
				w.declare(decl)
				if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Example") {
					examples = append(examples, f)
				}
			}
		}
		for _, f := range examples {
			w.walk(f)
		}
	}
	return s
}

// A walker goes from examples to what they use.
type walker struct {
	info     *types.Info
	into     shown
	declared map[types.Object][]ast.Node // in test files, on the level of the package; with its methods
}

func (w *walker) declare(decl ast.Decl) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		obj := w.info.Defs[d.Name]
		if d.Recv != nil {
			if fun, ok := obj.(*types.Func); ok {
				obj = named(fun.Signature().Recv().Type())
			}
		}
		if obj != nil {
			w.declared[obj] = append(w.declared[obj], d)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				w.declared[w.info.Defs[s.Name]] = append(w.declared[w.info.Defs[s.Name]], s)
			case *ast.ValueSpec:
				for i, name := range s.Names {
					if name.Name == "_" && i < len(s.Values) { // it asserts something of the value's type
						if of := named(w.info.Types[s.Values[i]].Type); of != nil {
							w.declared[of] = append(w.declared[of], s)
						}
						continue
					}
					w.declared[w.info.Defs[name]] = append(w.declared[w.info.Defs[name]], s)
				}
			}
		}
	}
}

func (w *walker) walk(n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			obj := w.info.Uses[id]
			if obj == nil {
				obj = w.info.Defs[id]
			}
			w.object(obj)
		}
		if e, ok := n.(ast.Expr); ok {
			w.typ(w.info.Types[e].Type)
		}
		return true
	})
}

func (w *walker) object(obj types.Object) {
	switch o := obj.(type) {
	case nil:
		return
	case *types.TypeName:
		if o.Pkg() != nil {
			w.into[typeKey(o.Pkg().Path(), o.Name())] = true
		}
	case *types.Var, *types.Const:
		w.typ(o.Type())
	}
	nodes := w.declared[obj]
	delete(w.declared, obj)
	for _, n := range nodes {
		w.walk(n)
	}
}

// typ is of a value, or of several.
func (w *walker) typ(t types.Type) {
	switch t := t.(type) {
	case *types.Alias:
		w.object(t.Obj())
		w.typ(types.Unalias(t))
	case *types.Named:
		w.object(t.Origin().Obj())
		for arg := range t.TypeArgs().Types() {
			w.typ(arg)
		}
	case *types.Tuple:
		for v := range t.Variables() {
			w.typ(v.Type())
		}
	case *types.Pointer:
		w.typ(t.Elem())
	case *types.Slice:
		w.typ(t.Elem())
	case *types.Array:
		w.typ(t.Elem())
	case *types.Chan:
		w.typ(t.Elem())
	case *types.Map:
		w.typ(t.Key())
		w.typ(t.Elem())
	}
}

// named returns the type's name, or nil.
func named(t types.Type) types.Object {
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	if n, ok := t.(*types.Named); ok {
		return n.Origin().Obj()
	}
	return nil
}

// exported returns the exported types that the files of a package declare.
func exportedTypes(files []*ast.File) []*ast.TypeSpec {
	var specs []*ast.TypeSpec
	for _, file := range files {
		for _, decl := range file.Decls {
			if d, ok := decl.(*ast.GenDecl); ok && d.Tok == token.TYPE {
				for _, spec := range d.Specs {
					if s := spec.(*ast.TypeSpec); s.Name.IsExported() {
						specs = append(specs, s)
					}
				}
			}
		}
	}
	return specs
}
