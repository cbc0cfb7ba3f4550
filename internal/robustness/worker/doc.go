// Package worker is the processes that use locks in a round: programs like any other,
// with a client on the rig and goroutines that take locks of every kind, hold them, use
// what they guard, leave some of them to other processes, and write down what they were
// told and for how long they believed it.
//
// A worker is the test binary itself, started again with its [Config] in the
// environment: TestMain calls [Main] first of all.
package worker
