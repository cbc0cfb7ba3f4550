package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// strict makes the commands that are cobra's own, help and completion, refuse what they do
// not know. By themselves they show some help instead, as if that had been asked for.
func strict(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Args = func(_ *cobra.Command, args []string) error {
				if _, rest, err := root.Find(args); err != nil || len(rest) > 0 {
					return usage("unknown command %q", strings.Join(args, " "))
				}
				return nil
			}
		case "completion":
			c.Args = func(_ *cobra.Command, args []string) error {
				if len(args) > 0 {
					return usage("unknown shell %q", args[0])
				}
				return nil
			}
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
			for _, shell := range c.Commands() {
				shell.Args = exactly(0, "no arguments")
			}
		}
	}
}
