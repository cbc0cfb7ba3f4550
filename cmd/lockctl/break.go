package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/golocker/golocker/locker"
)

func (t *tool) breakCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "break NAME",
		Short: "Take a lock away from whoever holds it",
		Long: `Break ends all leases on a lock, whoever holds it. It is meant for a holder that is
known to be dead. One that is alive goes on as if it held the lock until its next
renewal, for a third of its TTL; only fencing tokens keep it from doing harm then.

On a terminal it asks first, and then ends only what it has shown. Exit code 1 means that
the answer was no, and 66 that nobody holds the lock, or none of those who were shown. After 70 the
lock may have been taken away, and may be another's: look before you try again.`,
		Args:              exactly(1, "the name of a lock"),
		ValidArgsFunction: t.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := t.target.open()
			if err != nil {
				return err
			}
			defer client.Close()
			name := args[0]
			force := func() ([]locker.Holder, error) { return client.ForceRelease(cmd.Context(), name) }
			if !yes {
				shown, err := t.showAndAsk(cmd.Context(), client, name)
				if err != nil {
					return err
				}
				// Answering takes time, in which another may have acquired the lock.
				force = func() ([]locker.Holder, error) { return client.ForceReleaseFrom(cmd.Context(), name, shown...) }
			}
			holders, err := force()
			if err != nil {
				return notBroken(name, err)
			}
			return t.writeBroken(viewOf(name, locker.Status{Holders: holders}))
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

// showAndAsk shows who holds the lock, asks whether to take it from them, and returns them.
func (t *tool) showAndAsk(ctx context.Context, client *locker.Client, name string) ([]locker.Holder, error) {
	status, err := client.Inspect(ctx, name)
	if err != nil {
		return nil, err
	}
	if !status.Held() {
		return nil, notHeld(name)
	}
	if h := status.Holders[0]; h.Foreign {
		// It would not be broken anyway, so there is nothing to ask.
		return nil, &locker.ForeignError{Name: name, Type: "string", Remaining: h.Remaining}
	}
	return status.Holders, t.confirm(viewOf(name, status))
}

// notBroken is why a lock was not taken away.
func notBroken(name string, err error) error {
	switch {
	case errors.Is(err, locker.ErrAbsent):
		return notHeld(name)
	case errors.Is(err, locker.ErrTaken):
		return notTheirs(name, err)
	case errors.Is(err, locker.ErrUnknown):
		// The exit code is not that of a server that cannot be reached: something may have been done.
		return &exitError{exitFailed, fmt.Errorf("%w; look who holds it before you try again", err)}
	}
	return err
}

func (t *tool) writeBroken(l lockView) error {
	if t.json {
		return t.writeJSON(struct {
			Name   string       `json:"name"`
			Broken []holderView `json:"broken"`
		}{l.Name, l.Holders})
	}
	for _, h := range l.Holders {
		fmt.Fprintf(t.out, "Taken from %s.\n", h.who())
	}
	return nil
}

func notHeld(name string) error {
	return &exitError{exitNotHeld, fmt.Errorf("nobody holds the lock %q", name)}
}

// notTheirs says that others hold the lock by now than those who were shown.
func notTheirs(name string, err error) error {
	by := ""
	if locked, ok := errors.AsType[*locker.LockedError](err); ok {
		h := viewOf(name, locker.Status{Holders: []locker.Holder{locked.Holder}}).Holders[0]
		by = fmt.Sprintf(" (by %s, for %s unless renewed)", h.who(), h.remaining())
	}
	return &exitError{exitNotHeld, fmt.Errorf("nothing was done: the lock %q is held by somebody else now%s", name, by)}
}

// confirm asks whether a lock is to be broken.
func (t *tool) confirm(l lockView) error {
	if !isTerminal(t.in) {
		return usage("break asks before it acts, and there is nobody to ask: give --yes")
	}
	if err := writeLock(t.err, l); err != nil {
		return err
	}
	fmt.Fprintf(t.err, "\nTake it away? A holder that is alive will go on for a while. [y/N] ")
	answer, _ := bufio.NewReader(t.in).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return &exitError{exitDeclined, errors.New("nothing was done")}
}
