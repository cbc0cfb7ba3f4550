// Portable finds out whether packages compile for other systems, in a fraction of the time
// that compiling them takes: it only checks types, also those of what they import. What a
// compiler or linker alone would find, as a function without a body, it does not.
//
//	portable windows/386,freebsd/amd64 ./locker/... ./cmd/lockctl
//	portable -test darwin/arm64 ./internal/servertest/...
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

func run(args []string, errs io.Writer) int {
	flags := flag.NewFlagSet("portable", flag.ContinueOnError)
	flags.SetOutput(errs)
	tests := flags.Bool("test", false, "check the tests of the packages, too")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if flags.NArg() < 2 {
		fmt.Fprintln(errs, "portable needs systems, like windows/386,darwin/arm64, and packages")
		return 2
	}
	status := 0
	for system := range strings.SplitSeq(flags.Arg(0), ",") {
		if err := check(system, *tests, flags.Args()[1:]); err != nil {
			fmt.Fprintf(errs, "does not compile for %s:\n%v\n", system, err)
			status = 1
		}
	}
	return status
}

// check checks the packages and all that they import for a system.
func check(system string, tests bool, patterns []string) error {
	goos, goarch, ok := strings.Cut(system, "/")
	if !ok {
		return errors.New("a system is written like windows/386")
	}
	found, err := packages.Load(&packages.Config{
		Tests: tests,
		Env:   append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0"),
		Mode:  packages.LoadAllSyntax &^ packages.NeedTypesInfo,
	}, patterns...)
	if err != nil {
		return err
	}
	var faults []error
	packages.Visit(found, nil, func(p *packages.Package) {
		for _, fault := range p.Errors {
			faults = append(faults, fault)
		}
	})
	return errors.Join(faults...)
}
