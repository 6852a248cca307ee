package evidence

import "gantry/executor/container/control"

// Container is the state of a container, as far as recovery depends on it.
type Container uint8

const (
	Absent  Container = iota
	Created           // not started yet
	Running           // or paused
	Exited
	Broken // the engine could not remove it, or does so just now
)

var containers = [...]string{"absent", "created", "running", "exited", "broken"}

func (c Container) String() string { return containers[c] }

// Found is a resuming gantry's findings about an attempt that is under way by the log.
type Found struct {
	Container Container
	Control   bool // its control directory exists
	Claim     control.Maker
	Over      bool // the launcher noted the end of the program
}

// Action is the action on an attempt.
type Action uint8

const (
	// GiveUp claims the attempt, so that its program never begins, even if an earlier request to start it takes effect
	// late. Then look again: the launcher may have been first.
	GiveUp Action = iota
	// Lose removes the container, kills its remaining processes, and reports the attempt as lost.
	Lose
	// Adopt follows the container to its end, judges that, and publishes the outputs if it was a success.
	Adopt
)

// Recover chooses the action on an attempt. Each action may be cut short at any point: the findings after that lead to
// the same end.
func Recover(f Found) Action {
	switch {
	case f.Claim == control.Gantry:
		return Lose
	case f.Over, f.Container == Running, f.Container == Exited: // before its launcher has claimed it, too
		return Adopt
	case f.Claim == control.Launcher && f.Container == Created: // the engine may not have noted the start yet
		return Adopt
	case f.Claim == control.Launcher, !f.Control: // its container is gone, or nothing was asked of the engine yet
		return Lose
	}
	return GiveUp
}
