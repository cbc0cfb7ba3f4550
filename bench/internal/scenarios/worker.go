package scenarios

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/golocker/golocker/bench/internal/contestants"
	"github.com/golocker/golocker/bench/internal/harness"
)

// Some measurements need processes of their own: this program again, told what to do
// on its standard input, and answering on its standard output.

// WorkerFlag is the argument after which a program that runs scenarios has to call
// [RunWorker] with the next one.
const WorkerFlag = "-worker"

// workers are the modes of a worker.
var workers = map[string]func(in *json.Decoder, out *json.Encoder) error{
	"procs":   procsWorker,
	"held":    heldWorker,
	"waiters": waitersWorker,
}

// RunWorker does a worker's work in this process.
func RunWorker(mode string) error {
	work, ok := workers[mode]
	if !ok {
		return fmt.Errorf("there is no worker mode %q", mode)
	}
	return work(json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout))
}

// A worker is such a process.
type worker struct {
	cmd   *exec.Cmd
	stdin io.Closer
	in    *json.Encoder
	out   *json.Decoder
}

// startWorker starts a worker and sends it what it is to do.
func startWorker(mode string, config any) (*worker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, WorkerFlag, mode)
	cmd.Stderr = os.Stderr
	harness.DieWithParent(cmd)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	w := &worker{cmd: cmd, stdin: stdin, in: json.NewEncoder(stdin), out: json.NewDecoder(stdout)}
	if err := w.in.Encode(config); err != nil {
		w.kill()
		return nil, err
	}
	return w, nil
}

// finish reads the worker's result and waits for its end, which it brings about
// after the limit.
func (w *worker) finish(result any, limit time.Duration) error {
	timer := time.AfterFunc(limit, func() { w.cmd.Process.Kill() })
	err := w.out.Decode(result)
	w.stdin.Close()
	if ended := w.cmd.Wait(); err == nil {
		err = ended
	}
	if !timer.Stop() {
		return fmt.Errorf("not finished after %v", limit)
	}
	return err
}

func (w *worker) kill() {
	w.cmd.Process.Kill()
	w.cmd.Wait()
}

// runAlone makes a measurement in a process of its own, so that its memory is not
// that of earlier ones. A worker that fails is a result too.
func runAlone(mode string, config any, limit time.Duration) (Result, error) {
	w, err := startWorker(mode, config)
	if err != nil {
		return Result{}, err
	}
	var res Result
	if err := w.finish(&res, limit); err != nil {
		return Result{Errs: map[string]int{"worker: " + err.Error(): 1}}, nil
	}
	return res, nil
}

// lookUp returns what a worker needs of its configuration: the contestant, and a
// connection of the harness's own to the server.
func lookUp(contestant string, o contestants.Options) (contestants.Spec, *harness.Conn, error) {
	spec, err := contestants.ByName(contestant)
	if err != nil {
		return spec, nil, err
	}
	control, err := harness.Dial(o.Addrs[0])
	return spec, control, err
}
