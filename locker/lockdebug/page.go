package lockdebug

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"strconv"
	"strings"
	"time"
	"unicode"
)

var (
	//go:embed page.html
	pageSource string
	//go:embed page.css
	style string

	page = template.Must(template.New("page").Funcs(template.FuncMap{
		"name": printable, "seconds": seconds, "share": share,
	}).Parse(pageSource))

	// contentPolicy lets the browser use nothing but the page's own style, so that not
	// even a mistake in escaping could run a script.
	contentPolicy = "default-src 'none'; style-src 'sha256-" + hash(style) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

// hash is that of the text of the style element.
func hash(style string) string {
	sum := sha256.Sum256([]byte(style))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// A view is what the page shows.
type view struct {
	Report
	Style   template.CSS
	Refresh int // seconds; 0 for never
	Shown   []shown
}

// shown is a client as far as the page has room for it.
type shown struct {
	Client
	Held, Waiting int // in all
}

func newView(r Report, refresh int) view {
	v := view{Report: r, Style: template.CSS(style), Refresh: refresh}
	for _, c := range r.Clients {
		s := shown{Client: c, Held: len(c.Leases), Waiting: len(c.Waiters)}
		s.Leases, s.Waiters = s.Leases[:min(s.Held, maxRows)], s.Waiters[:min(s.Waiting, maxRows)]
		v.Shown = append(v.Shown, s)
	}
	return v
}

// printable is a name as it is, or quoted if it has characters that could not be seen or
// would turn the text around.
func printable(name string) string {
	strange := func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }
	if name == "" || strings.ContainsFunc(name, strange) || strings.TrimSpace(name) != name {
		return strconv.Quote(name)
	}
	return name
}

func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// share is how much of the lease is left, from 0 to 1, for the bar.
func share(l Lease) float64 { return min(max(l.Left/l.TTL, 0), 1) }
