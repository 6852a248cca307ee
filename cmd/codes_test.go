package cmd

import "gantry/cmd/internal/exit"

// The codes of exit, as tests write them.
const (
	exitOK          = exit.OK
	exitTasksFailed = exit.TasksFailed
	exitUsage       = exit.Usage
	exitInput       = exit.Input
	exitHost        = exit.Host
	exitInternal    = exit.Internal
	exitHeld        = exit.Held
	exitInterrupted = exit.Interrupted
)
