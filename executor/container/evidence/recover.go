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

// Found is what a gantry that resumes a run finds of an attempt.
type Found struct {
	Live      bool // by the log it is under way
	Container Container
	Control   bool // its control directory exists
	Claim     control.Maker
	Over      bool // the launcher noted the end of the program
	// Waits: its container was started ahead, and its launcher has not been released.
	Waits bool
}

// Action is what to do about an attempt.
type Action uint8

const (
	// Clear removes what is left of an attempt that the log shows as ended: container, control group, control
	// directory.
	Clear Action = iota + 1
	// GiveUp claims the attempt, so that its program never begins, however late a start takes effect that was asked
	// for. Then look again: the launcher may have been first.
	GiveUp
	// Lose removes the container, kills what is left of it, and reports the attempt as lost.
	Lose
	// Adopt follows the container to its end.
	Adopt
	// Harvest judges the end, and publishes the outputs if it was a success.
	Harvest
)

var actions = [...]string{"", "clear", "give-up", "lose", "adopt", "harvest"}

func (a Action) String() string { return actions[a] }

// Recover says what to do about an attempt. Each action may be cut short at any point: what is found then leads to the
// same end.
func Recover(f Found) Action {
	switch {
	case !f.Live:
		return Clear
	case f.Claim == control.Gantry:
		return Lose
	case f.Over:
		return Harvest // whatever became of the container
	case f.Claim == control.Launcher:
		switch f.Container {
		case Created, Running: // the engine may not have noted the start yet
			return Adopt
		case Exited:
			return Harvest
		}
		return Lose
	case f.Waits: // for a gantry that has ended
		return GiveUp
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
