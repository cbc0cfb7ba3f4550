package locker

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/golocker/golocker/locker/driver"
)

// neededRules are the ACL rules of a user for locks, without those for their names.
// docs/servers.md has the same ones.
const neededRules = "~__golocker:* &__golocker:* +set +get +mget +del +exists +type +pttl +pexpire +time " +
	"+zadd +zrem +zcard +zscore +zrank +zrange +zrevrangebyscore +hset +hget +hdel +hlen +hscan +hgetall " +
	"+publish +pubsub|numsub +subscribe +unsubscribe +ping +eval +evalsha +hello +auth +select +info +client|setname"

// A PermissionError says that the server's ACL does not permit the user of this client
// what a lock needs. Waiting does not mend it, so it is returned at once, also where a
// permission is withdrawn while somebody waits. It matches ErrPermission.
type PermissionError struct {
	// Grant holds the rules for ACL SETUSER that are missing, such as "+zadd", as far as the
	// server has told; otherwise all that locks need. "~<names>" stands for a pattern of your
	// choice that the names of the locks match, with their prefix. "~__golocker:*" are the side
	// keys of all who use the server; docs/security.md has a pattern for those of one
	// application. Servers before 6.2 know no rule for channels, "&…", and refuse all rules
	// given together with it: leave it out there.
	Grant string
	// Reply is what the server said.
	Reply *driver.ServerError

	err error // which has Reply in its chain
}

func (e *PermissionError) Error() string {
	older := ""
	if strings.Contains(e.Grant, "&") {
		older = ", before Redis 6.2 without the rule that begins with &"
	}
	whose, who := "the server's", "the user"
	if strings.HasPrefix(e.Grant, "+sentinel") {
		whose, who = "a Sentinel's", "the user that clients are to it"
	}
	return fmt.Sprintf("locker: %s ACL forbids what locks need; give %s %s%s (%v)", whose, who, e.Grant, older, e.Reply)
}

// Is reports whether target is ErrPermission.
func (e *PermissionError) Is(target error) bool { return target == ErrPermission }

// Unwrap returns the driver's error, which has the reply in its chain.
func (e *PermissionError) Unwrap() error { return e.err }

// forbidden turns a server's reply that a permission is missing, in the chain of err,
// into a *PermissionError. Any other err stays what it is.
func forbidden(err error) error {
	reply, ok := errors.AsType[*driver.ServerError](err)
	if !ok || errors.Is(err, ErrPermission) || !slices.ContainsFunc(refusals, func(text string) bool { return strings.Contains(reply.Message, text) }) {
		return err
	}
	return &PermissionError{Grant: missingRules(reply.Message), Reply: reply, err: err}
}

// What is said to be missing where the server does not name it: a pattern for keys, or anything.
const (
	keyRules = "~<names> ~__golocker:*"
	allRules = "~<names> " + neededRules
)

// aboutKeys reports whether a permission is missing for the names of keys, which may be so for one
// lock only.
func aboutKeys(err error) bool {
	refusal, ok := errors.AsType[*PermissionError](forbidden(err))
	return ok && refusal.Grant == keyRules
}

// midway reports whether a permission is missing for a command of a script, which then
// ends with what it has done so far. A request that is refused as a whole has done
// nothing.
func midway(err error) bool {
	refusal, ok := errors.AsType[*PermissionError](forbidden(err))
	return ok && strings.Contains(refusal.Reply.Message, "script")
}

// refusals are how servers begin to say that a permission is missing. For commands that
// a script runs, they give the code ERR.
var refusals = []string{"NOPERM ", "ACL failure in script", "The user executing the script can't"}

// missingRules reads a refusal. Servers word it in different ways: some name the command,
// none the key, and a script's refusal does not name the command before Redis 7.2.
func missingRules(refusal string) string {
	if _, rest, ok := strings.Cut(refusal, "run the '"); ok {
		if command, _, ok := strings.Cut(rest, "'"); ok {
			return "+" + command
		}
	}
	for _, about := range []struct{ word, rules string }{
		{"channel", "&__golocker:*"},
		{"key", keyRules},
	} {
		if strings.Contains(refusal, about.word) {
			return about.rules
		}
	}
	return allRules
}
