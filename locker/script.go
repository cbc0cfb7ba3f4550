package locker

import (
	"context"
	_ "embed"
	"errors"
	"strconv"
	"strings"
	"sync"

	"github.com/golocker/golocker/locker/driver"
)

var (
	//go:embed lua/base.lua
	luaBase string
	//go:embed lua/queue.lua
	luaQueue string
	//go:embed lua/enqueue.lua
	luaEnqueue string

	//go:embed lua/mutex.lua
	luaMutex string
	//go:embed lua/handover.lua
	luaHandOver string
	//go:embed lua/enter.lua
	luaEnter string
	//go:embed lua/kept_out.lua
	luaKeptOut string
	//go:embed lua/heir.lua
	luaHeir string
	//go:embed lua/acquire_held.lua
	luaAcquireHeld string
	//go:embed lua/acquire_free.lua
	luaAcquireFree string
	//go:embed lua/acquire.lua
	luaAcquire string
	//go:embed lua/renewals.lua
	luaRenewals string
	//go:embed lua/renew.lua
	luaRenew string
	//go:embed lua/release_free.lua
	luaReleaseFree string
	//go:embed lua/release_held.lua
	luaReleaseHeld string
	//go:embed lua/release.lua
	luaRelease string
	//go:embed lua/giveup.lua
	luaGiveUp string
	//go:embed lua/attach.lua
	luaAttach string
	//go:embed lua/turn.lua
	luaTurn string
	//go:embed lua/unattach.lua
	luaUnattach string

	//go:embed lua/holds.lua
	luaHolds string
	//go:embed lua/letgo.lua
	luaLetGo string
	//go:embed lua/hold_held.lua
	luaHoldHeld string
	//go:embed lua/hold_free.lua
	luaHoldFree string
	//go:embed lua/hold.lua
	luaHold string
	//go:embed lua/hold_renew.lua
	luaHoldRenew string
	//go:embed lua/hold_release_held.lua
	luaHoldReleaseHeld string
	//go:embed lua/hold_release.lua
	luaHoldRelease string
	//go:embed lua/hold_giveup.lua
	luaHoldGiveUp string
	//go:embed lua/hold_attach.lua
	luaHoldAttach string
	//go:embed lua/hold_unattach.lua
	luaHoldUnattach string

	//go:embed lua/fence.lua
	luaFence string
	//go:embed lua/hold_fence.lua
	luaHoldFence string
	//go:embed lua/take.lua
	luaTake string
	//go:embed lua/bootstrap.lua
	luaBootstrap string
	//go:embed lua/mark.lua
	luaMark string

	//go:embed lua/young.lua
	luaYoung string
	//go:embed lua/inspect.lua
	luaInspect string
	//go:embed lua/break.lua
	luaBreak string
	//go:embed lua/scan.lua
	luaScan string
)

// A family is the scripts that take and keep locks of one kind of record. Each
// script answers in the same way in both families.
type family struct {
	acquire, renew, release, giveUp, attach, unattach, fence *script
}

var (
	mutexFamily = family{
		acquire:  newScript(luaEnter, luaAcquireHeld, luaAcquireFree, luaBase, luaQueue, luaEnqueue, luaMutex, luaHandOver, luaAcquire),
		renew:    newScript(luaBase, luaMutex, luaRenewals, luaRenew).decidedBy(heldVerdict).bundled(64),
		release:  newScript(luaReleaseFree, luaHeir, luaReleaseHeld, luaBase, luaQueue, luaMutex, luaHandOver, luaRelease).decidedBy(heldVerdict),
		giveUp:   newScript(luaBase, luaQueue, luaMutex, luaHandOver, luaGiveUp),
		attach:   newScript(luaBase, luaMutex, luaAttach),
		unattach: newScript(luaBase, luaMutex, luaUnattach),
		fence:    newScript(luaBase, luaMutex, luaFence),
	}
	holdFamily = family{
		acquire:  newScript(luaEnter, luaKeptOut, luaHoldHeld, luaHoldFree, luaBase, luaQueue, luaEnqueue, luaHolds, luaHold),
		renew:    newScript(luaBase, luaQueue, luaHolds, luaRenewals, luaHoldRenew).decidedBy(heldVerdict).bundled(32),
		release:  newScript(luaHeir, luaKeptOut, luaHoldReleaseHeld, luaBase, luaQueue, luaHolds, luaLetGo, luaHoldRelease).decidedBy(heldVerdict),
		giveUp:   newScript(luaBase, luaQueue, luaHolds, luaLetGo, luaHoldGiveUp),
		attach:   newScript(luaBase, luaQueue, luaHolds, luaHoldAttach),
		unattach: newScript(luaBase, luaQueue, luaHolds, luaHoldUnattach),
		fence:    newScript(luaBase, luaQueue, luaHolds, luaHoldFence),
	}
	turnScript    = newScript(luaBase, luaMutex, luaTurn)
	inspectScript = newScript(luaBase, luaYoung, luaInspect).decidedBy(inspectVerdict)
	breakScript   = newScript(luaBase, luaQueue, luaMutex, luaHolds, luaYoung, luaBreak).decidedBy(breakVerdict)
	scanScript    = newScript(luaScan)
	takeScript    = newScript(luaTake)
	bootScript    = newScript(luaBase, luaBootstrap)
	markScript    = newScript(luaBase, luaMark)
)

// A script is constant source that the server caches under its SHA-1.
type script struct {
	made    func() (source, sha string) // at their first use
	verdict verdict                     // how the nodes of a quorum decide
	most    int                         // how many calls of it may be made as one; see [bundle]
}

// newScript returns the script that the parts make. Lines that are comments are for those who
// read them here: no server gets them. A program does not wait for scripts as it begins: most
// use a few, and many import this package that lock nothing.
func newScript(parts ...string) *script {
	return &script{verdict: allVerdict, made: sync.OnceValues(func() (source, sha string) {
		var b strings.Builder
		for _, part := range parts {
			for line := range strings.Lines(part) {
				if !strings.HasPrefix(strings.TrimLeft(line, " "), "--") {
					b.WriteString(line)
				}
			}
		}
		return b.String(), sha1Hex(b.String())
	})}
}

func (s *script) source() string {
	source, _ := s.made()
	return source
}

func (s *script) sha() string {
	_, sha := s.made()
	return sha
}

func (s *script) decidedBy(v verdict) *script {
	s.verdict = v
	return s
}

func (s *script) bundled(most int) *script {
	s.most = most
	return s
}

// A call is a script with its keys and arguments.
type call struct {
	script  *script        // nil for a command that the server has itself
	command driver.Command // EVALSHA, the road that is taken nearly always
	clear   nodeSet        // the nodes of a quorum that it does not concern
	frees   *tenure        // the lease that it gives up on a quorum, whose nodes are told until they answer
}

// native is a command of the server itself about one key.
func native(name, key string, args ...string) call {
	return call{command: driver.Command{Args: append([]string{name, key}, args...), FirstKey: 1, NumKeys: 1}}
}

func (s *script) call(keys, args []string, more ...string) call {
	all := make([]string, 0, firstKey+len(keys)+len(args)+len(more))
	all = append(all, "EVALSHA", s.sha(), strconv.Itoa(len(keys)))
	all = append(append(append(all, keys...), args...), more...)
	return call{script: s, command: driver.Command{Args: all, FirstKey: firstKey, NumKeys: len(keys)}}
}

// firstKey is where the keys of EVALSHA and EVAL begin.
const firstKey = 3

// key is the first one, the lock's record.
func (c call) key() string { return c.command.Args[c.command.FirstKey] }

func (c call) keys() []string { return c.command.Keys() }

func (c call) args() []string { return c.command.Args[firstKey+c.command.NumKeys:] }

// eval carries the source, for a server that does not know the script: it is new,
// was restarted, failed over or had SCRIPT FLUSH.
func (c call) eval() driver.Command {
	cmd := c.command
	cmd.Args = append([]string{"EVAL", c.script.source()}, cmd.Args[2:]...)
	return cmd
}

func unknownScript(err error) bool {
	reply, ok := errors.AsType[*driver.ServerError](err)
	return ok && reply.Code == "NOSCRIPT"
}

// run executes one script. NOSCRIPT means that nothing was executed, so that
// sending the source then is no second execution.
func (l *link) run(ctx context.Context, c call) (driver.Value, error) {
	v, err := l.do(ctx, c.command)
	if unknownScript(err) {
		return l.do(ctx, c.eval())
	}
	return v, err
}

// commands returns the commands of the road that is taken nearly always.
func commands(calls []call) []driver.Command {
	cmds := make([]driver.Command, len(calls))
	for i, c := range calls {
		cmds[i] = c.command
	}
	return cmds
}

// runCommands executes the calls together. cmds are their commands, which have been
// made already. Results are in the order of calls.
func (l *link) runCommands(ctx context.Context, calls []call, cmds []driver.Command) []driver.Result {
	results := l.doBatch(ctx, cmds)
	var again []int
	var resent []driver.Command
	for i, r := range results {
		if unknownScript(r.Err) {
			again, resent = append(again, i), append(resent, calls[i].eval())
		}
	}
	if len(again) == 0 {
		return results
	}
	for j, r := range l.doBatch(ctx, resent) {
		results[again[j]] = r
	}
	return results
}
