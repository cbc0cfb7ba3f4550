package nemesis

// Workers are the processes that use locks. A worker keeps its name while it runs; its
// lines are known to the rig under that name.
type Workers interface {
	// Running returns the names of the workers that run, sorted.
	Running() []string
	// Kill ends a worker by SIGKILL, also a paused one, and returns when it has ended.
	// Another one under another name takes its place.
	Kill(name string) error
	// Pause stops a worker by SIGSTOP and returns when it has stopped.
	Pause(name string) error
	// Resume lets a paused worker go on.
	Resume(name string) error
}
