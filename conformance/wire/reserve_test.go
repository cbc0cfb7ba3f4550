//go:build unix

package wire_test

import (
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
)

// A child that has not come to its program yet has all that is open here.
func TestPortIsHadAgainWhereProcessesBegin(t *testing.T) {
	var done atomic.Bool
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for !done.Load() {
				assert.Error(t, exec.Command("/there/is/no/such/program").Run())
			}
		})
	}
	w := wire.New(nil)
	_, err := w.Listen()
	require.NoError(t, err)
	for range 1000 {
		w.Refuse(true)
		w.Refuse(false)
	}
	done.Store(true)
	wg.Wait()
	require.NoError(t, w.Close())
	require.Empty(t, w.Broken())
}
