package lockdebug

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// willing is a server that gives every lock to who asks first, and keeps it.
type willing struct{ held map[string]bool }

func (w willing) Driver() driver.Driver                        { return nil }
func (w willing) Connect(context.Context) (driver.Conn, error) { return w, nil }
func (w willing) Close() error                                 { return nil }
func (w willing) Do(_ context.Context, cmd driver.Command) (driver.Value, error) {
	switch {
	case cmd.Name() == "SET" && !w.held[cmd.Args[1]]:
		w.held[cmd.Args[1]] = true
		return "OK", nil
	case cmd.Name() == "SET":
		return nil, nil
	case cmd.NumKeys == 5 && !w.held[cmd.Args[3]]:
		w.held[cmd.Args[3]] = true
		return []any{int64(1), "0"}, nil
	case cmd.NumKeys == 5: // a place in the queue
		return []any{int64(0), int64(10000), "gl1|m|0|0|10000|x|", ""}, nil
	}
	return int64(1), nil
}

// show runs a test on a client that holds and waits for locks of these names: at the server, and
// behind who does.
func show(t *testing.T, names []string, test func(h http.Handler)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c, err := locker.New(willing{map[string]bool{}})
		require.NoError(t, err)
		defer c.Close()
		for _, name := range names {
			m := c.Mutex(name)
			_, err := m.Lock(t.Context())
			require.NoError(t, err)
			for range 2 {
				go m.Lock(t.Context())
				synctest.Wait()
				time.Sleep(time.Second / 2)
			}
		}
		test(Handler(c))
	})
}

func get(h http.Handler, target string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestPageShowsLeasesAndWaiters(t *testing.T) {
	show(t, []string{"orders:42", "cron"}, func(h http.Handler) {
		w := get(h, "/debug/locks")
		assert.Equal(t, http.StatusOK, w.Code)
		assert.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
		assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
		body := w.Body.String()
		for _, text := range []string{"Held: 2", "Waiting: 4", "orders:42", "cron", "behind another goroutine", "2000-01-01 00:00:02 UTC"} {
			assert.Contains(t, body, text)
		}
		assert.NotContains(t, body, "http-equiv")
		assert.Contains(t, get(h, "/?refresh=7").Body.String(), `content="7"`)
	})
}

func TestJSON(t *testing.T) {
	show(t, []string{"orders:42", "cron"}, func(h http.Handler) {
		for _, w := range []*httptest.ResponseRecorder{get(h, "/?format=json"), get(h, "/", "Accept", "application/json")} {
			assert.Equal(t, "application/json; charset=utf-8", w.Header().Get("Content-Type"))
			var r Report
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &r))
			require.Len(t, r.Clients, 1)
			require.Len(t, r.Clients[0].Leases, 2)
			lease := r.Clients[0].Leases[1]
			assert.Equal(t, "orders:42", lease.Lock)
			assert.Equal(t, "exclusive", lease.Mode)
			assert.Equal(t, 2.0, lease.Held)
			assert.Equal(t, 30.0, lease.TTL)
			assert.Positive(t, lease.Left)
			assert.Equal(t, []Waiter{
				{Lock: "orders:42", Mode: "exclusive", Since: lease.Since, Waited: 2},
				{Lock: "orders:42", Mode: "exclusive", Since: lease.Since.Add(time.Second / 2), Waited: 1.5, InLine: true},
			}, r.Clients[0].Waiters[2:])
		}
	})
}

// A browser that takes anything gets the page.
func TestWhoTakesBothGetsThePage(t *testing.T) {
	w := get(Handler(), "/", "Accept", "text/html,application/json;q=0.9,*/*;q=0.8")
	assert.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
	w = get(Handler(), "/?format=html", "Accept", "application/json")
	assert.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
}

func TestAClientAsItsSnapshotTells(t *testing.T) {
	now := time.Now()
	lock := locker.LockInfo{Name: "stock", Mode: locker.Reading, TTL: 30 * time.Second}
	got := newClient(locker.Snapshot{
		Leases: []locker.LeaseInfo{{
			LockInfo: lock, Owner: "ann", Token: 7, Handles: 2, RenewErr: locker.ErrUnavailable,
			Since: now.Add(-time.Minute), Deadline: now.Add(time.Second),
		}},
		Waiters: []locker.WaitingInfo{{LockInfo: lock, Since: now.Add(-time.Second), InLine: true}},
	}, now)
	assert.Equal(t, Client{
		Leases: []Lease{{
			Lock: "stock", Mode: "reading", Owner: "ann", Token: 7, Handles: 2, RenewError: locker.ErrUnavailable.Error(),
			TTL: 30, Since: now.Add(-time.Minute), Held: 60, Left: 1,
		}},
		Waiters: []Waiter{{Lock: "stock", Mode: "reading", Since: now.Add(-time.Second), Waited: 1, InLine: true}},
	}, got)
}

func TestJSONOfNothingHasEmptyLists(t *testing.T) {
	w := get(Handler(), "/?format=json")
	assert.Contains(t, w.Body.String(), `"clients":[]`)
	show(t, nil, func(h http.Handler) {
		assert.Contains(t, get(h, "/?format=json").Body.String(), `{"leases":[],"waiters":[]}`)
	})
}

// A mistake is found when the handler is made, and not by each request.
func TestNilIsFoundByHandler(t *testing.T) {
	const says = "lockdebug: Handler of a nil Client; give it what locker.New or locker.Open has returned, once that is checked for an error"
	assert.PanicsWithValue(t, says, func() { Handler(nil) })
	c, err := locker.New(willing{map[string]bool{}})
	require.NoError(t, err)
	defer c.Close()
	assert.PanicsWithValue(t, says, func() { Handler(c, nil) })
}

func TestOnlyReading(t *testing.T) {
	h := Handler()
	for method, code := range map[string]int{
		http.MethodPost: http.StatusMethodNotAllowed, http.MethodDelete: http.StatusMethodNotAllowed, http.MethodHead: http.StatusOK,
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, "/", nil))
		assert.Equal(t, code, w.Code, method)
		if code != http.StatusOK {
			assert.Equal(t, "GET, HEAD", w.Header().Get("Allow"))
			assert.NotContains(t, w.Body.String(), "html")
		}
	}
	for _, refresh := range []string{"0", "-1", "x", "1;url=javascript:alert(1)"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		q := r.URL.Query()
		q.Set("refresh", refresh)
		r.URL.RawQuery = q.Encode()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		assert.Equal(t, http.StatusBadRequest, w.Code, refresh)
		assert.NotContains(t, w.Body.String(), "html")
	}
}

// hostile names try to get out of where the page puts them.
var hostile = []string{
	`<script>alert(1)</script>`,
	`"><img src=x onerror=alert(1)>`,
	`'" onmouseover="alert(1)`,
	`</td></table><iframe src="javascript:alert(1)">`,
	`<!-- `, `--><svg/onload=alert(1)>`,
	`{{.}}`, `</style><script>alert(1)</script>`,
	"a\x00b\x1b[31m\r\nSet-Cookie: x=y",
	"bytes \xff\xfe that are no text",
	"\u202egnp.exe",
	strings.Repeat("long", 250),
}

func TestNamesCannotBreakOutOfThePage(t *testing.T) {
	plain := elements(t, pageOf(t, []string{"harmless", "harmless too"}))
	for _, name := range hostile {
		body := pageOf(t, []string{name, "harmless"})
		assert.Equal(t, plain, elements(t, body), "%q", name)
		assert.NotContains(t, body, "\u202e")
		assert.NotContains(t, body, "\x00")
	}
}

// What could not be told from another name is quoted.
func TestNamesAreShownSoThatOneSeesWhichTheyAre(t *testing.T) {
	for name, shown := range map[string]string{
		"a b": "a b", "größe": "größe",
		"": `""`, " a": `" a"`, "a ": `"a "`, "a\xff": `"a\xff"`, "a\uFFFD": "\"a\uFFFD\"", "a\u202eb": `"a\u202eb"`,
	} {
		assert.Equal(t, shown, printable(name))
	}
}

// An owner and an error come from elsewhere, and are shown too.
func TestOtherTextsCannotBreakOutEither(t *testing.T) {
	render := func(text string) string {
		var b strings.Builder
		r := Report{Clients: []Client{{Leases: []Lease{{Lock: text, Mode: text, Owner: text, RenewError: text}}, Waiters: []Waiter{{Lock: text, Mode: text}}}}}
		require.NoError(t, page.Execute(&b, newView(r, 0)))
		return b.String()
	}
	plain := elements(t, render("harmless"))
	for _, text := range hostile {
		assert.Equal(t, plain, elements(t, render(text)), "%q", text)
	}
}

func TestHostileNamesInJSON(t *testing.T) {
	show(t, hostile, func(h http.Handler) {
		w := get(h, "/?format=json")
		assert.NotContains(t, w.Body.String(), "<")
		assert.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
		var r Report
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &r))
		names := map[string]bool{}
		for _, l := range r.Clients[0].Leases {
			names[l.Lock] = true
		}
		for _, name := range hostile {
			assert.True(t, names[strings.ToValidUTF8(name, "\uFFFD")] || strings.Contains(name, "\xff"), "%q", name)
		}
	})
}

func TestThePolicyAllowsTheStyleAndNothingElse(t *testing.T) {
	w := get(Handler(), "/")
	policy := w.Header().Get("Content-Security-Policy")
	assert.Contains(t, policy, "default-src 'none'")
	_, rest, _ := strings.Cut(w.Body.String(), "<style>")
	css, _, ok := strings.Cut(rest, "</style>")
	require.True(t, ok)
	assert.Contains(t, policy, hash(css), "the style is sent as it was hashed")
}

func TestAPageHasItsLimit(t *testing.T) {
	var c Client
	for range maxRows + 5 {
		c.Leases, c.Waiters = append(c.Leases, Lease{Lock: "row"}), append(c.Waiters, Waiter{Lock: "row"})
	}
	var b strings.Builder
	require.NoError(t, page.Execute(&b, newView(Report{Clients: []Client{c}}, 0)))
	assert.Equal(t, 2*maxRows, strings.Count(b.String(), "<td class=\"lock\">row"))
	assert.Contains(t, b.String(), "Held: 1005")
	assert.Contains(t, b.String(), "The first 1000 of them")
}

func pageOf(t *testing.T, names []string) (body string) {
	t.Helper()
	show(t, names, func(h http.Handler) { body = get(h, "/").Body.String() })
	return body
}

var (
	tag   = regexp.MustCompile(`<[^>]*>?`)
	value = regexp.MustCompile(`"[^"]*"`)
)

// elements are the tags of a page with their attributes' names, in their order.
func elements(t *testing.T, body string) []string {
	t.Helper()
	list := tag.FindAllString(body, -1)
	for i, text := range list {
		list[i] = value.ReplaceAllString(text, `""`)
	}
	require.NotEmpty(t, list)
	return list
}
