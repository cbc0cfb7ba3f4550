package nemesis

import (
	"os/exec"
	"runtime"
)

const hogsPerProcessor = 4

// Hogs starts processes that want all the time of every processor, so many for each,
// and returns how to end them. They end by themselves after a minute of their own time,
// also if this process is killed.
func Hogs(perProcessor int) (stop func(), err error) {
	var hogs []*exec.Cmd
	stop = func() {
		for _, hog := range hogs {
			_ = hog.Process.Kill() // it may have ended already
			_ = hog.Wait()
		}
	}
	for range perProcessor * runtime.NumCPU() {
		hog := exec.Command("sh", "-c", "ulimit -t 60; while :; do :; done")
		if err := hog.Start(); err != nil {
			stop()
			return nil, err
		}
		hogs = append(hogs, hog)
	}
	return stop, nil
}
