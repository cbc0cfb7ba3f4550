//go:build unix

package servertest

import (
	"os/exec"
	"runtime"
	"syscall"
)

// process is a running child.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when it has been waited for
}

// startProcess starts cmd such that it dies with this process, where the system
// can do that.
func startProcess(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = childAttr()
	p := &process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		// Linux sends the signal when the thread that started the child ends,
		// hence this thread stays as long as the child does.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		_ = cmd.Wait() // every server ends by a signal
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) signal(sig syscall.Signal) error { return p.cmd.Process.Signal(sig) }

// kill ends the child, also a stopped one, and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // an error means that it has ended already
	<-p.exited
}
