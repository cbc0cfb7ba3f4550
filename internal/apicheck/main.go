// Apicheck looks at what the modules of this repository export. It runs in the folder of
// go.work.
//
//	apicheck              fails if something exported is undocumented or lacks an example,
//	                      or if the API is not what the files under api say
//	apicheck -write       writes these files
//	apicheck -since DIR   fails if the API has lost what a checkout of an older version in
//	                      DIR has, or has changed it incompatibly
//
// What nobody imports is left out: commands, internal packages, and the modules bench, docs
// and examples.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("apicheck", flag.ContinueOnError)
	flags.SetOutput(errs)
	write := flags.Bool("write", false, "write the files under api")
	since := flags.String("since", "", "the folder of an older version to be compatible with")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		return 2
	}
	modules, err := load(".", *since == "" && !*write)
	if err == nil {
		switch {
		case *since != "":
			err = checkCompatible(*since, modules, out)
		case *write:
			err = writeGolden("api", modules)
		default:
			err = errors.Join(checkDocs(modules), checkGolden("api", modules))
		}
	}
	if err != nil {
		fmt.Fprintln(errs, err)
		return 1
	}
	return 0
}

// goldenFile returns the path of a module's file in folder.
func goldenFile(folder string, m module) string {
	return filepath.Join(folder, filepath.FromSlash(m.folder)+".txt")
}
