package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/golocker/golocker/locker"
)

// A lockView is a lock as lockctl shows it.
type lockView struct {
	Name    string       `json:"name"`
	Held    bool         `json:"held"`
	Waiters int          `json:"waiters"`
	Holders []holderView `json:"holders"`
}

// A holderView is one of a lock's holders.
type holderView struct {
	Label       string `json:"label,omitempty"`
	Mode        string `json:"mode"`
	Owner       string `json:"owner,omitempty"`
	Holds       int    `json:"holds,omitempty"`
	Token       uint64 `json:"token,omitempty"`
	RemainingMS int64  `json:"remaining_ms"`
	Metadata    string `json:"metadata,omitempty"`
	Foreign     bool   `json:"foreign,omitempty"`
}

func viewOf(name string, s locker.Status) lockView {
	v := lockView{Name: name, Held: s.Held(), Waiters: s.Waiters, Holders: []holderView{}}
	for _, h := range s.Holders {
		v.Holders = append(v.Holders, holderView{
			Label: h.Label, Mode: string(h.Mode), Owner: h.Owner, Holds: h.Holds, Token: uint64(h.Token),
			RemainingMS: h.Remaining.Milliseconds(), Metadata: h.Metadata, Foreign: h.Foreign,
		})
	}
	slices.SortStableFunc(v.Holders, func(a, b holderView) int { return strings.Compare(a.Label, b.Label) })
	return v
}

// who is the holder in words.
func (h holderView) who() string {
	switch {
	case h.Foreign:
		return "(not golocker)"
	case h.Label == "":
		return "(no label)"
	}
	return printable(h.Label)
}

func (h holderView) remaining() string {
	return seconds(time.Duration(h.RemainingMS) * time.Millisecond)
}

func (h holderView) token() string {
	if h.Token == 0 {
		return "-"
	}
	return strconv.FormatUint(h.Token, 10)
}

// writeTable writes locks, a line for each holder.
func writeTable(w io.Writer, locks []lockView) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tHOLDER\tMODE\tREMAINING\tWAITERS\tTOKEN\tMETADATA")
	for _, l := range locks {
		for i, h := range l.Holders {
			name, waiters := printable(l.Name), strconv.Itoa(l.Waiters)
			if i > 0 {
				name, waiters = "", ""
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", name, h.who(), h.Mode, h.remaining(), waiters, h.token(), printable(h.Metadata))
		}
	}
	return table.Flush()
}

// writeLock writes all that is known of one lock.
func writeLock(w io.Writer, l lockView) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, value string) { fmt.Fprintf(table, "%s:\t%s\n", name, value) }
	line("Name", printable(l.Name))
	state := "free"
	if l.Held {
		state = "held"
	}
	line("State", state)
	line("Waiters", strconv.Itoa(l.Waiters))
	for _, h := range l.Holders {
		fmt.Fprintln(table)
		line("Holder", h.who())
		line("  Mode", h.Mode)
		line("  Remaining", h.remaining()+" unless renewed")
		if h.Foreign {
			continue
		}
		line("  Token", h.token())
		if h.Owner != "" {
			line("  Owner", printable(h.Owner))
			line("  Holds", strconv.Itoa(h.Holds))
		}
		if h.Metadata != "" {
			line("  Metadata", printable(h.Metadata))
		}
	}
	return table.Flush()
}

// seconds is a time as people like to read it.
func seconds(d time.Duration) string {
	switch {
	case d <= 0:
		return "?"
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// printable returns text in a form that appears on a terminal and does nothing else to it. Text
// that looks as if it were quoted is quoted, too: it could not be told from another name that is.
func printable(text string) string {
	if !plain(text) || strings.HasPrefix(text, `"`) {
		return quoted(text)
	}
	return text
}

// sentence is the text of an error for the middle of a line. The error may be several, each on a
// line of its own.
func sentence(text string) string { return printable(strings.ReplaceAll(text, "\n", "; ")) }

// quoted is text in a form that the $'…' of a shell reads in every locale. It avoids escapes such as
// \u202e: they mean nothing to a shell without UTF-8, as on a server whose LANG is not set, where the
// result would be the name of another lock.
func quoted(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		_, n := utf8.DecodeRuneInString(text)
		char := strconv.Quote(text[:n])
		char = char[1 : len(char)-1]
		if strings.HasPrefix(char, `\u`) || strings.HasPrefix(char, `\U`) {
			char = ""
			for i := range n {
				char += fmt.Sprintf(`\x%02x`, text[i])
			}
		}
		b.WriteString(char)
		text = text[n:]
	}
	return `"` + b.String() + `"`
}

// plain tells whether text can be shown as it is. Bytes that are not UTF-8 cannot: 0x9b
// begins an escape sequence, and 0xff is one of tabwriter's own. As runes they would be
// U+FFFD, which is printable.
func plain(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}
