package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/golocker/golocker/locker"
)

func (t *tool) lsCommand() *cobra.Command {
	var foreign bool
	cmd := &cobra.Command{
		Use:     "ls [NAME-PREFIX]",
		Aliases: []string{"list"},
		Short:   "List the locks that are held",
		Long: `Ls lists the locks that somebody holds and whose names begin with NAME-PREFIX:
those on all masters of a Cluster, and on a quorum those that a majority holds.
It goes through all keys of the servers (SCAN), in small steps.

Locks of other libraries cannot be told from other strings that expire; they are
listed with --foreign.`,
		Args:              atMost(1, "one name prefix at most"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := t.target.open()
			if err != nil {
				return err
			}
			defer client.Close()
			locks, err := listLocks(cmd.Context(), client, strings.Join(args, ""), foreign)
			if err != nil {
				return err
			}
			if t.json {
				return t.writeJSON(locks)
			}
			if len(locks) == 0 {
				fmt.Fprintln(t.err, "No locks are held.")
				return nil
			}
			return writeTable(t.out, locks)
		},
	}
	cmd.Flags().BoolVar(&foreign, "foreign", false, "list strings that expire, too: they may be locks of other libraries")
	return cmd
}

// listLocks returns the locks with a prefix, in order of their names.
func listLocks(ctx context.Context, client *locker.Client, prefix string, foreign bool) ([]lockView, error) {
	locks := []lockView{}
	for found, err := range client.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		if v := viewOf(found.Name, found.Status); foreign || !v.Holders[0].Foreign {
			locks = append(locks, v)
		}
	}
	slices.SortFunc(locks, func(a, b lockView) int { return strings.Compare(a.Name, b.Name) })
	return locks, nil
}

func (t *tool) showCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "show NAME",
		Short:             "Show all that the server knows of one lock",
		Args:              exactly(1, "the name of a lock"),
		ValidArgsFunction: t.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := t.target.open()
			if err != nil {
				return err
			}
			defer client.Close()
			status, err := client.Inspect(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if t.json {
				return t.writeJSON(viewOf(args[0], status))
			}
			return writeLock(t.out, viewOf(args[0], status))
		},
	}
}

// completeName offers the locks that are held.
func (t *tool) completeName(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	if len(args) > 0 {
		return nil, none
	}
	client, err := t.target.open()
	if err != nil {
		return nil, none
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	locks, _ := listLocks(ctx, client, toComplete, false)
	var names []string
	for _, l := range locks {
		if plain(l.Name) { // the quoted form of any other name would itself be taken for a name
			names = append(names, l.Name)
		}
	}
	return names, none
}
