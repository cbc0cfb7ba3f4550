//go:build !linux

package main

// beatCommand has nothing to show where there are no guardians.
const beatCommand = "beat"

func beatMain([]string) {}
