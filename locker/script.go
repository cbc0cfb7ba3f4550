package locker

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"

	"github.com/golocker/golocker/locker/driver"
)

var (
	//go:embed lua/base.lua
	luaBase string
	//go:embed lua/queue.lua
	luaQueue string

	//go:embed lua/mutex.lua
	luaMutex string
	//go:embed lua/handover.lua
	luaHandOver string
	//go:embed lua/acquire.lua
	luaAcquire string
	//go:embed lua/renew.lua
	luaRenew string
	//go:embed lua/release.lua
	luaRelease string
	//go:embed lua/giveup.lua
	luaGiveUp string
	//go:embed lua/attach.lua
	luaAttach string
	//go:embed lua/unattach.lua
	luaUnattach string

	//go:embed lua/holds.lua
	luaHolds string
	//go:embed lua/letgo.lua
	luaLetGo string
	//go:embed lua/hold.lua
	luaHold string
	//go:embed lua/hold_renew.lua
	luaHoldRenew string
	//go:embed lua/hold_release.lua
	luaHoldRelease string
	//go:embed lua/hold_giveup.lua
	luaHoldGiveUp string
	//go:embed lua/hold_attach.lua
	luaHoldAttach string
	//go:embed lua/hold_unattach.lua
	luaHoldUnattach string

	//go:embed lua/inspect.lua
	luaInspect string
	//go:embed lua/break.lua
	luaBreak string
)

// A family is the scripts that take and keep locks of one kind of record. Each
// answers in the same way in both.
type family struct {
	acquire, renew, release, giveUp, attach, unattach *script
}

var (
	mutexFamily = family{
		acquire:  newScript(luaBase, luaQueue, luaMutex, luaHandOver, luaAcquire),
		renew:    newScript(luaBase, luaMutex, luaRenew),
		release:  newScript(luaBase, luaQueue, luaMutex, luaHandOver, luaRelease),
		giveUp:   newScript(luaBase, luaQueue, luaMutex, luaHandOver, luaGiveUp),
		attach:   newScript(luaBase, luaMutex, luaAttach),
		unattach: newScript(luaBase, luaMutex, luaUnattach),
	}
	holdFamily = family{
		acquire:  newScript(luaBase, luaQueue, luaHolds, luaHold),
		renew:    newScript(luaBase, luaQueue, luaHolds, luaHoldRenew).evenWhenFull(),
		release:  newScript(luaBase, luaQueue, luaHolds, luaLetGo, luaHoldRelease),
		giveUp:   newScript(luaBase, luaQueue, luaHolds, luaLetGo, luaHoldGiveUp),
		attach:   newScript(luaBase, luaQueue, luaHolds, luaHoldAttach),
		unattach: newScript(luaBase, luaQueue, luaHolds, luaHoldUnattach),
	}
	inspectScript = newScript(luaBase, luaInspect)
	breakScript   = newScript(luaBase, luaQueue, luaMutex, luaBreak)
)

// A script is constant source that the server caches under its SHA-1.
type script struct {
	source string
	sha    string
	full   *script // runs where the server is out of memory, if this must
}

func newScript(parts ...string) *script {
	source := strings.Join(parts, "")
	sum := sha1.Sum([]byte(source))
	return &script{source: source, sha: hex.EncodeToString(sum[:])}
}

// evenWhenFull makes s one that a server which is out of memory executes all the
// same, though it writes to a hash. Servers know how to be told from 7.0 on; those
// before refuse.
func (s *script) evenWhenFull() *script {
	s.full = newScript("#!lua flags=allow-oom\n", s.source)
	return s
}

// A call is a script with its keys and arguments.
type call struct {
	script *script
	keys   []string
	args   []string
}

// command is EVALSHA, the road that is taken nearly always.
func (c call) command() driver.Command { return c.build("EVALSHA", c.script.sha) }

// eval carries the source, for a server that does not know the script: it is new,
// was restarted, failed over or had SCRIPT FLUSH.
func (c call) eval() driver.Command { return c.build("EVAL", c.script.source) }

func (c call) build(name, script string) driver.Command {
	args := make([]string, 0, 3+len(c.keys)+len(c.args))
	args = append(args, name, script, strconv.Itoa(len(c.keys)))
	args = append(args, c.keys...)
	args = append(args, c.args...)
	return driver.Command{Args: args, FirstKey: 3, NumKeys: len(c.keys)}
}

// instead returns what to send after a reply that says that nothing was executed,
// and would be if it were asked for in another way.
func (c call) instead(err error) (cmd driver.Command, ok bool) {
	reply, isReply := errors.AsType[*driver.ServerError](err)
	switch {
	case !isReply:
	case reply.Code == "NOSCRIPT":
		return c.eval(), true
	case reply.Code == "OOM" && c.script.full != nil:
		return call{c.script.full, c.keys, c.args}.eval(), true
	}
	return driver.Command{}, false
}

// run executes one script.
func (l *link) run(ctx context.Context, c call) (driver.Value, error) {
	v, err := l.do(ctx, c.command())
	if cmd, ok := c.instead(err); ok {
		return l.do(ctx, cmd)
	}
	return v, err
}

// runBatch executes scripts together. Results are in the order of calls.
func (l *link) runBatch(ctx context.Context, calls []call) []driver.Result {
	cmds := make([]driver.Command, len(calls))
	for i, c := range calls {
		cmds[i] = c.command()
	}
	results := l.doBatch(ctx, cmds)
	var again []int
	cmds = cmds[:0]
	for i, r := range results {
		if cmd, ok := calls[i].instead(r.Err); ok {
			again, cmds = append(again, i), append(cmds, cmd)
		}
	}
	if len(again) == 0 {
		return results
	}
	for j, r := range l.doBatch(ctx, cmds) {
		results[again[j]] = r
	}
	return results
}
