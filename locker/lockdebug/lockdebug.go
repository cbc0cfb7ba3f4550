// Package lockdebug shows which locks a process holds and waits for, over HTTP, in the
// manner of net/http/pprof: as a page for people and as JSON for programs.
//
// Importing it registers nothing. A program puts the [Handler] where it wants it, on a
// mux that only operators reach:
//
//	mux.Handle("/debug/locks", lockdebug.Handler(client))
//
// # What it gives away
//
// Whoever reaches the handler can read the names of locks and of their owners, and the
// addresses in errors of renewals; and names may hold the ids of customers, or whatever else
// the program puts into them. The handler cannot change anything, and shows neither metadata
// nor the ids of leases, with which a lock could be taken over. It checks nobody's identity: do
// not put it on a mux that serves the public.
package lockdebug

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/golocker/golocker/locker"
)

// maxRows bounds each table of the page; JSON has everything.
const maxRows = 1000

// Handler returns a handler that shows what the clients hold and wait for at the moment of
// the request. It does not ask their servers.
//
// The answer is a page, or JSON with the query format=json or if the Accept header asks for
// application/json: an object of the form of [Report]. With the query refresh=5 the page loads
// itself again every 5 seconds; the least is 1. A page shows the first 1000 leases and waiters
// of each client.
//
// Handler panics if a client is nil, which is a mistake in the program.
func Handler(clients ...*locker.Client) http.Handler {
	if slices.Contains(clients, nil) {
		panic("lockdebug: Handler of a nil Client; give it what locker.New or locker.Open has returned, once that is checked for an error")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "this page can be read only", http.StatusMethodNotAllowed)
			return
		}
		refresh, err := refreshTime(r)
		if err != nil {
			http.Error(w, "refresh must be a number of seconds, from 1", http.StatusBadRequest)
			return
		}
		report := newReport(clients...)
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		if wantsJSON(r) {
			h.Set("Content-Type", "application/json; charset=utf-8")
			_ = json.NewEncoder(w).Encode(report)
			return
		}
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", contentPolicy)
		_ = page.Execute(w, newView(report, refresh))
	})
}

func refreshTime(r *http.Request) (int, error) {
	text := r.URL.Query().Get("refresh")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err == nil && n < 1 {
		err = strconv.ErrRange
	}
	return n, err
}

func wantsJSON(r *http.Request) bool {
	if format := r.URL.Query().Get("format"); format != "" {
		return format == "json"
	}
	accept := r.Header.Get("Accept")
	return strings.Contains(accept, "application/json") && !strings.Contains(accept, "text/html")
}

// A Report is the JSON form of the page.
type Report struct {
	Time    time.Time `json:"time"`    // when it was made
	Clients []Client  `json:"clients"` // in the order in which Handler was given them
}

// A Client is the part of a Report about one client.
type Client struct {
	Leases  []Lease  `json:"leases"`  // by name
	Waiters []Waiter `json:"waiters"` // by name, the longest wait first
}

// A Lease is a lock that is held. Bytes of names that are not UTF-8 are replaced in JSON.
type Lease struct {
	Lock       string    `json:"lock"`                  // its name
	Mode       string    `json:"mode"`                  // a locker.Mode
	Owner      string    `json:"owner,omitempty"`       // of a lock that can be re-entered
	Token      uint64    `json:"token,omitempty"`       // of a fenced lock
	TTL        float64   `json:"ttl_seconds"`           // that renewals ask for
	Since      time.Time `json:"since"`                 // when the client was granted the lock
	Held       float64   `json:"held_seconds"`          // how long ago that is
	Left       float64   `json:"left_seconds"`          // until the lease ends unless it is renewed
	Handles    int       `json:"handles"`               // how many leases share the hold
	RenewError string    `json:"renew_error,omitempty"` // of the last renewal, if it failed
}

// A Waiter is a call that waits for a lock.
type Waiter struct {
	Lock   string    `json:"lock"`           // its name
	Mode   string    `json:"mode"`           // a locker.Mode
	Since  time.Time `json:"since"`          // when the call was made
	Waited float64   `json:"waited_seconds"` // how long ago that is
	InLine bool      `json:"in_line"`        // behind another goroutine of the client
}

func newReport(clients ...*locker.Client) Report {
	r := Report{Time: time.Now(), Clients: make([]Client, len(clients))}
	for i, c := range clients {
		r.Clients[i] = newClient(c.Snapshot(), r.Time)
	}
	return r
}

func newClient(s locker.Snapshot, now time.Time) Client {
	c := Client{Leases: make([]Lease, len(s.Leases)), Waiters: make([]Waiter, len(s.Waiters))}
	for i, l := range s.Leases {
		c.Leases[i] = Lease{
			Lock: l.Name, Mode: string(l.Mode), Owner: l.Owner, Token: uint64(l.Token), TTL: l.TTL.Seconds(),
			Since: l.Since, Held: now.Sub(l.Since).Seconds(), Left: l.Deadline.Sub(now).Seconds(), Handles: l.Handles,
		}
		if l.RenewErr != nil {
			c.Leases[i].RenewError = l.RenewErr.Error()
		}
	}
	for i, w := range s.Waiters {
		c.Waiters[i] = Waiter{
			Lock: w.Name, Mode: string(w.Mode), Since: w.Since, Waited: now.Sub(w.Since).Seconds(), InLine: w.InLine,
		}
	}
	return c
}
