// Package harness measures: a clock that all processes share, histograms, CPU and
// memory, the witness of critical sections, and redis-server processes with the
// counters that they keep. The scenarios are built from it; what becomes of the
// measurements is in package report.
//
// It works on Linux only, and compiles elsewhere.
package harness
