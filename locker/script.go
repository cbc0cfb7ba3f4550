package locker

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"strconv"

	"github.com/golocker/golocker/locker/driver"
)

var (
	//go:embed lua/prelude.lua
	luaPrelude string
	//go:embed lua/wake.lua
	luaWake string
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
	//go:embed lua/inspect.lua
	luaInspect string
	//go:embed lua/break.lua
	luaBreak string
)

var (
	acquireScript  = newScript(luaPrelude + luaWake + luaAcquire)
	renewScript    = newScript(luaPrelude + luaRenew)
	releaseScript  = newScript(luaPrelude + luaWake + luaRelease)
	giveUpScript   = newScript(luaPrelude + luaWake + luaGiveUp)
	attachScript   = newScript(luaPrelude + luaAttach)
	unattachScript = newScript(luaPrelude + luaUnattach)
	inspectScript  = newScript(luaInspect)
	breakScript    = newScript(luaPrelude + luaWake + luaBreak)
)

// A script is constant source that the server caches under its SHA-1.
type script struct {
	source string
	sha    string
}

func newScript(source string) *script {
	sum := sha1.Sum([]byte(source))
	return &script{source: source, sha: hex.EncodeToString(sum[:])}
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

func unknownScript(err error) bool {
	reply, ok := errors.AsType[*driver.ServerError](err)
	return ok && reply.Code == "NOSCRIPT"
}

// run executes one script. NOSCRIPT means that nothing was executed, so that
// sending the source then is no second execution.
func (l *link) run(ctx context.Context, c call) (driver.Value, error) {
	v, err := l.do(ctx, c.command())
	if unknownScript(err) {
		return l.do(ctx, c.eval())
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
	for i, r := range results {
		if unknownScript(r.Err) {
			again = append(again, i)
		}
	}
	if len(again) == 0 {
		return results
	}
	cmds = cmds[:0]
	for _, i := range again {
		cmds = append(cmds, calls[i].eval())
	}
	for j, r := range l.doBatch(ctx, cmds) {
		results[again[j]] = r
	}
	return results
}
