//go:build unix

package servertest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A User is a user of a server's ACL, for [Users].
type User struct {
	Name, Password string
	// Rules are those of ACL SETUSER, the password included.
	Rules []string
}

// LocksUser returns the user that docs/servers.md says to create: it may do what locks
// need, on locks whose names begin with "orders:", and no more.
func LocksUser(tb testing.TB) User {
	tb.Helper()
	page, err := documentation("servers.md")
	if err != nil {
		tb.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^ *ACL SETUSER (\S+) (.*>(\S+).*)$`).FindSubmatch(page)
	if line == nil {
		tb.Fatal("servertest: docs/servers.md has no line ACL SETUSER name … >password …")
	}
	return User{Name: string(line[1]), Password: string(line[3]), Rules: strings.Fields(string(line[2]))}
}

// ConformanceUser returns the same user for the conformance suite: it may use the suite's
// keys and channels in the place of "orders:", and the commands that the cases of the
// contract send, which are not about locks. Its ACL is no wider in anything that locks need.
func ConformanceUser(tb testing.TB) User {
	tb.Helper()
	user := LocksUser(tb)
	user.Rules = slices.DeleteFunc(user.Rules, func(rule string) bool { return rule == "~orders:*" || rule == ">"+user.Password })
	user.Password = "c0nf0rmance" // which is no word of any error
	user.Rules = append(user.Rules, strings.Fields(
		// Some names of locks have up to three bytes before the prefix. (No side key begins so.)
		">"+user.Password+" ~conformance:* ~?conformance:* ~??conformance:* ~???conformance:* &conformance:* "+
			"+echo +incr +incrby +decrby +lpush +rpush +lrange +sadd +smembers +blpop +bitop +script|load "+
			"+client|getname")...)
	return user
}

// Users adds users to the server. The default user stays as it is.
func Users(users ...User) Option {
	return func(s *settings) {
		for _, u := range users {
			s.config = append(s.config, append(directive{"user", u.Name}, u.Rules...))
		}
	}
}

// AssertPermitted fails the test if the server has refused the user anything since it was
// started.
func (s *Server) AssertPermitted(user User) {
	s.tb.Helper()
	reply, err := s.Do("ACL", "LOG", "1000")
	if err != nil {
		s.tb.Error(err)
	}
	log, _ := reply.([]any)
	for _, entry := range log {
		fields, _ := entry.([]any)
		values := map[string]string{}
		for i := 0; i+1 < len(fields); i += 2 {
			values[fmt.Sprint(fields[i])] = fmt.Sprint(fields[i+1])
		}
		// A wrong password is logged, too.
		if values["username"] == user.Name && values["reason"] != "auth" {
			s.tb.Errorf("servertest: %s was refused %s %q", user.Name, values["reason"], values["object"])
		}
	}
}

// documentation reads a page of docs, from within any module.
func documentation(page string) ([]byte, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return os.ReadFile(filepath.Join(dir, "docs", page))
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return nil, fmt.Errorf("servertest: there is no go.work in any folder above, and so no docs/%s", page)
		}
		dir = parent
	}
}
