package conformance

import (
	"crypto/rand"
	"slices"
	"strings"

	"github.com/golocker/golocker/locker/driver"
)

// user makes a user on the server, which is deleted at the end, and returns a function
// that makes a Config use it. On miniredis that user may do everything.
func (k *kit) user(rules ...string) func(*driver.Config) {
	name, password := "conformance-"+strings.ToLower(rand.Text()[:8]), rand.Text()
	edit := func(c *driver.Config) { c.Username, c.Password = name, driver.Secret(password) }
	if k.server.memory != nil {
		k.server.memory.RequireUserAuth(name, password)
		return edit
	}
	k.cleanup(func() { k.direct("ACL", "DELUSER", name) })
	set := func() driver.Value {
		return k.direct(append([]string{"ACL", "SETUSER", name, ">" + password}, rules...)...)
	}
	v := set()
	if v != "OK" { // before Redis 6.2 there are no rules for channels
		rules = slices.DeleteFunc(rules, func(rule string) bool { return rule == "&*" || rule == "resetchannels" })
		v = set()
	}
	if v != "OK" {
		k.Skipf("the suite must not make users here: %s", show(v))
	}
	return edit
}
