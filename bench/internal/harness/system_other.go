//go:build !linux

package harness

import (
	"errors"
	"os"
	"os/exec"
	"time"
)

// Supported says whether measuring is possible on this system.
const Supported = false

func monotonic() int64          { return 0 }
func cpuTime() time.Duration    { return 0 }
func DieWithParent(*exec.Cmd)   {}
func suspend(*os.Process) error { return errors.ErrUnsupported }
func proceed(*os.Process) error { return errors.ErrUnsupported }

func mapShared(*os.File, int) ([]byte, error) { return nil, errors.ErrUnsupported }
