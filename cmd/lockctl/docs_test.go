package main

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The manual has every command, flag, variable and exit code.
func TestTheManualIsComplete(t *testing.T) {
	page, err := os.ReadFile("../../docs/lockctl.md")
	require.NoError(t, err)
	manual := string(page)
	root := (&tool{}).root()
	has := func(what string) { assert.True(t, strings.Contains(manual, what), "the manual lacks %s", what) }
	check := func(f *pflag.Flag) { has("--" + f.Name) }
	root.PersistentFlags().VisitAll(check)
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		has(c.CommandPath())
		c.LocalFlags().VisitAll(check)
		for _, sub := range c.Commands() {
			if !sub.Hidden {
				visit(sub)
			}
		}
	}
	for _, c := range root.Commands() {
		visit(c)
	}
	for _, name := range append([]string{urlVariable, driverVariable, prefixVariable}, heldVariables...) {
		has("`" + name + "`")
	}
	for _, code := range []int{exitFindings, exitDeclined, exitUsage, exitForeign, exitNotHeld, exitUnreachable, exitFailed, exitNotHad, exitRefused, exitLost, exitCannotRun, exitNotFound} {
		has("\n| " + strconv.Itoa(code) + " | ")
		if code != exitNotHeld && code != exitFindings && code != exitDeclined { // which run does not know
			assert.Contains(t, strings.ReplaceAll((&tool{}).runCommand().Long, "\n", "\n "), " "+strconv.Itoa(code)+" ", "the help of run")
		}
	}
}
