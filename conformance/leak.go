package conformance

import (
	"fmt"
	"runtime"
	"strings"
)

// hides checks that err does not show secret.
func (k *kit) hides(err error, secret string) {
	if err == nil || secret == "" {
		return
	}
	for _, text := range []string{err.Error(), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", err)} {
		if strings.Contains(text, secret) {
			k.Errorf("an error shows the password: %s", strings.ReplaceAll(err.Error(), secret, "<the password>"))
			return
		}
	}
}

// goroutines returns the goroutines that exist now, by their number. In a bubble
// it returns nil: the bubble itself tells.
func (k *kit) goroutines() map[string]string {
	if !k.realTime() {
		return nil
	}
	buf := make([]byte, 8<<20)
	buf = buf[:runtime.Stack(buf, true)]
	all := map[string]string{}
	for g := range strings.SplitSeq(string(buf), "\n\n") {
		if id, _, ok := strings.Cut(strings.TrimPrefix(g, "goroutine "), " "); ok {
			all[id] = g
		}
	}
	return all
}

// noNewGoroutines waits until no goroutine is left that did not exist before,
// the suite's own left out.
func (k *kit) noNewGoroutines(before map[string]string) {
	if before == nil {
		return
	}
	var left []string
	ok := k.eventually(k.time.budget/3, func() bool {
		left = nil
		for id, g := range k.goroutines() {
			own := strings.Contains(g, "golocker/conformance.") || strings.Contains(g, "golocker/conformance/") || strings.Contains(g, "alicebob/miniredis") ||
				strings.Contains(g, "testing.")
			if _, old := before[id]; !old && !own {
				left = append(left, g)
			}
		}
		return len(left) == 0
	})
	if !ok {
		k.Errorf("%d goroutines are left after Close:\n%s", len(left), strings.Join(left[:min(len(left), 8)], "\n\n"))
	}
}
