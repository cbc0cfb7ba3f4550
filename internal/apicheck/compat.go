package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"golang.org/x/exp/apidiff"
)

// checkCompatible prints how the API has changed since the version in folder, and returns
// an error if a user of that version might not compile any more.
func checkCompatible(folder string, modules []module, out io.Writer) error {
	before, err := load(folder, false)
	if err != nil {
		return err
	}
	now := map[string]module{}
	for _, m := range modules {
		now[m.path] = m
	}
	var faults []error
	for _, old := range before {
		m, ok := now[old.path]
		if !ok {
			faults = append(faults, fmt.Errorf("module %s is gone", old.path))
			continue
		}
		report := apidiff.ModuleChanges(packagesOf(old), packagesOf(m))
		var text bytes.Buffer
		if err := report.Text(&text); err != nil {
			return err
		}
		if text.Len() > 0 {
			fmt.Fprintf(out, "%s\n%s\n", m.path, text.String())
		}
		var incompatible bytes.Buffer
		if err := report.TextIncompatible(&incompatible, true); err != nil {
			return err
		}
		if incompatible.Len() > 0 {
			faults = append(faults, fmt.Errorf("%s:\n%s", m.path, incompatible.String()))
		}
	}
	return errors.Join(faults...)
}

func packagesOf(m module) *apidiff.Module {
	a := &apidiff.Module{Path: m.path}
	for _, p := range m.packages {
		a.Packages = append(a.Packages, p.Types)
	}
	return a
}
