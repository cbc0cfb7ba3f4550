package conformance_test

import lua "github.com/yuin/gopher-lua"

// miniredis makes an interpreter for each run of a script. The stacks that it has by default are
// 100 KB, which the race detector takes longer to take note of than most scripts run.
func init() {
	lua.RegistrySize = 1024
	lua.CallStackSize = 64
}
