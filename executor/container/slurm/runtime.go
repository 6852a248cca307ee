package slurm

import (
	"gantry/executor"
)

// Inner is the runtime of containers as one of Slurm has it: starts are not prepared, as an order to a container that
// waits for its task would have to be sent over the network.
type Inner interface {
	executor.Runtime
	executor.Recoverer
	executor.Remote
}

// Runtime is a Runtime of containers that are job steps.
type Runtime struct{ Inner }
