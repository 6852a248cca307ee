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

// Found is a resuming gantry's findings about an attempt.
type Found struct {
	Live      bool // by the log it is under way
	Container Container
	Control   bool // its control directory exists
	Claim     control.Maker
	Over      bool // the launcher noted the end of the program
}

// Action is the action on an attempt.
type Action uint8

const (
	// Clear removes the remains of an attempt that the log shows as ended: container, control group, control directory.
	Clear Action = iota + 1
	// GiveUp claims the attempt, so that its program never begins, even if an earlier request to start it takes effect
	// late. Then look again: the launcher may have been first.
	GiveUp
	// Lose removes the container, kills its remaining processes, and reports the attempt as lost.
	Lose
	// Adopt follows the container to its end.
	Adopt
	// Harvest judges the end, and publishes the outputs if it was a success.
	Harvest
)

var actions = [...]string{"", "clear", "give-up", "lose", "adopt", "harvest"}

func (a Action) String() string { return actions[a] }

// Recover chooses the action on an attempt. Each action may be cut short at any point: the findings after that lead to
// the same end.
func Recover(f Found) Action {
	switch {
	case !f.Live:
		return Clear
	case f.Claim == control.Gantry:
		return Lose
	case f.Over:
		return Harvest // in any state of the container
	case f.Claim == control.Launcher:
		switch f.Container {
		case Created, Running: // the engine may not have noted the start yet
			return Adopt
		case Exited:
			return Harvest
		}
		return Lose
	}
	switch f.Container {
	case Running: // the launcher is about to claim it
		return Adopt
	case Exited:
		return Harvest // it ended before its program began, and why is to be judged
	}
	if f.Control {
		return GiveUp
	}
	return Lose // nothing was asked of the engine yet
}
