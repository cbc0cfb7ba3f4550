//go:build !unix

package main

import (
	"os"
	"syscall"

	"golang.org/x/term"
)

func isTerminalFile(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// A console is the terminal that lockctl and its command share; here there is nothing to
// be done about that.
type console struct{ given bool }

func openConsole() *console                    { return nil }
func (*console) has(int) bool                  { return false }
func (*console) ours() bool                    { return false }
func (*console) isFor() bool                   { return false }
func (*console) concerned(syscall.Signal) bool { return false }
func (*console) give(int)                      {}
func (*console) takeBack(bool) bool            { return false }
func suspend(chan os.Signal, bool)             {}
func stopsIgnored() bool                       { return true }
func inFront() bool                            { return false }
func interrupt(bool)                           {}
func passedOn() []os.Signal                    { return []os.Signal{os.Interrupt, syscall.SIGTERM} }
func wantsTerminal(syscall.Signal) bool        { return false }

const (
	signalContinue = syscall.Signal(0)
	signalStop     = syscall.Signal(-1)
	signalResize   = syscall.Signal(-1)
)
