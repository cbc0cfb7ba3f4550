// Package scenarios holds the measurements. Each file is one scenario (or two
// that share their loop) and can be run alone.
package scenarios

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/golocker/golocker/bench/contestants"
	"github.com/golocker/golocker/bench/harness"
)

// Env is what main hands to a scenario.
type Env struct {
	Rec    *harness.Recorder
	Port   int           // first port; scenarios use Port .. Port+14
	Short  bool          // quick look: every scenario below a minute
	Rounds int           // 0: the scenario's default
	Dur    time.Duration // measured window per cell; 0: the scenario's default
	TTL    time.Duration // lease in scenario held; 0: its default
	Only   string        // contestant globs
	Match  string        // only parameter sets containing this text

	srv   *harness.Server            // the single server of scenarios 1-5, 7
	trace map[string]map[string]bool // contestant -> commands it runs only in Lua
}

// Scenario is one measurement with its table.
type Scenario struct {
	Name  string
	Table harness.Table
	Run   func(*Env) error
}

// List is every scenario in running order.
var List = []Scenario{freeScenario, parallelScenario, contendScenario, procsScenario, heldScenario, quorumScenario, waitersScenario, stallScenario}

// server starts (once) the server of the single-server scenarios.
func (e *Env) server() (*harness.Server, error) {
	if e.srv != nil {
		return e.srv, nil
	}
	s, err := harness.StartServer(e.Port)
	e.srv = s
	return s, err
}

// pick chooses a default by mode, unless the flag says otherwise.
func pick[T comparable](e *Env, flag, full, short T) T {
	var zero T
	if flag != zero {
		return flag
	}
	if e.Short {
		return short
	}
	return full
}

func (e *Env) rounds(full, short int) int { return pick(e, e.Rounds, full, short) }

func (e *Env) dur(full, short time.Duration) time.Duration { return pick(e, e.Dur, full, short) }

// options are the standard contestant options on the single server.
func (e *Env) options() contestants.Options {
	return contestants.Options{Addrs: []string{e.srv.Addr}, TTL: 10 * time.Second}
}

// luaOnly finds, once per contestant, which commands it issues only inside Lua
// scripts, by watching a few uncontended and contended acquisitions and a few
// renewals with MONITOR. Redis counts commands run by scripts like any other, so
// this is how "commands sent" is told from "commands run".
func (e *Env) luaOnly(s contestants.Spec) map[string]bool {
	if m, ok := e.trace[s.Name]; ok {
		return m
	}
	if e.trace == nil {
		e.trace = map[string]map[string]bool{}
	}
	e.srv.Flush()
	o := e.options()
	if s.Uses&contestants.UseHeld != 0 {
		o.TTL, o.Renew, o.Stats = 300*time.Millisecond, true, new(contestants.RenewStats)
	}
	l, err := s.New(o)
	if err != nil {
		return nil
	}
	defer l.Close()
	warmPairs(l, 3)
	_, lua, err := e.srv.Trace(func() {
		warmPairs(l, 3)
		if o.Renew {
			if u, err := l.Lock(context.Background(), "trace-held"); err == nil {
				time.Sleep(o.TTL * 5 / 6)
				u()
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		done := make(chan bool)
		for range 3 {
			go func() {
				for ctx.Err() == nil {
					if u, err := l.Lock(ctx, "trace-contended"); err == nil {
						time.Sleep(5 * time.Millisecond)
						u()
					}
				}
				done <- true
			}()
		}
		for range 3 {
			<-done
		}
	})
	if err != nil {
		return nil
	}
	e.trace[s.Name] = lua
	return lua
}

// warmPairs makes a locker connect and load its scripts.
func warmPairs(l contestants.Locker, n int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for range n {
		u, err := l.Lock(ctx, "trace-free")
		if err != nil {
			return err
		}
		if err := u(); err != nil {
			return err
		}
	}
	return nil
}

// sleepUntil sleeps to an absolute harness.Now value.
func sleepUntil(t int64) {
	if d := t - harness.Now(); d > 0 {
		time.Sleep(time.Duration(d))
	}
}

// foreign is the CPU, in cores, that neither the client nor the servers used:
// other work on the machine. Cells with a high value are noisy.
func foreign(a, b harness.Usage, client, server float64) float64 {
	return max(0, (b.MachineCPU-a.MachineCPU)-client-server) / (float64(b.T-a.T) / 1e9)
}

// ---- worker processes ----

// children are the modes of the re-executed binary.
var children = map[string]func(in *json.Decoder) error{}

// RunChild runs a worker mode in this process; config arrives on stdin, results
// leave on stdout.
func RunChild(mode string) error {
	f, ok := children[mode]
	if !ok {
		return fmt.Errorf("no child mode %q", mode)
	}
	return f(json.NewDecoder(os.Stdin))
}

// proc is a running worker.
type proc struct {
	cmd *exec.Cmd
	in  *json.Encoder
	inw io.WriteCloser
	out *json.Decoder
}

func spawn(mode string, config any) (*proc, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.Command(self, "-child", mode)
	c.Stderr = os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	inw, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	p := &proc{cmd: c, in: json.NewEncoder(inw), inw: inw, out: json.NewDecoder(out)}
	return p, p.in.Encode(config)
}

// wait reads the worker's result and reaps it, killing it after limit.
func (p *proc) wait(result any, limit time.Duration) error {
	t := time.AfterFunc(limit, func() { p.cmd.Process.Kill() })
	err := p.out.Decode(result)
	p.inw.Close()
	if werr := p.cmd.Wait(); err == nil {
		err = werr
	}
	if !t.Stop() {
		err = fmt.Errorf("not finished after %v, killed", limit)
	}
	return err
}
