package executor

import (
	"context"

	"gantry/planner"
	"gantry/planner/unit"
)

// ahead has the runtime prepare starts that are due soon. Policies never notice.
type ahead struct {
	next         planner.Time // when to look again; 0 before the first look
	listed       bool         // the runtime has a list that is not empty
	guesses      map[planner.TaskID]planner.NodeID
	right, wrong int // guesses of places
	preparations []Preparation
}

// WaitingMemory is the memory of a container that was started ahead and waits, in bytes: the launcher and the kernel's
// own memory for it, rounded up.
const WaitingMemory = 16 << 20

// guessesTried is how many guesses must be wrong before guessing stops, as the places of some policies cannot be
// guessed.
const guessesTried = 8

// prepare gives the runtime the starts that are due soon.
func (e *Engine) prepare(ctx context.Context, now planner.Time) error {
	r, ok := e.Runtime.(Preparer)
	if !ok {
		return nil
	}
	a := &e.ahead
	needs := r.Prepares()
	a.next = unit.Never
	if needs.Most == 0 {
		return nil
	}
	a.preparations = a.preparations[:0]
	if e.control == 0 {
		look := e.Planner.Foresee(now, planner.Foresight{Lead: needs.Lead, Most: needs.Most, Memory: needs.Memory,
			Guess: a.wrong < guessesTried || a.right >= a.wrong})
		a.next = look.Next
		for i := range look.Starts {
			if look.Starts[i].Hold[unit.GPU] == 0 { // the order says which GPUs
				a.preparations = append(a.preparations, e.preparation(&look.Starts[i]))
			}
		}
	}
	if len(a.preparations) == 0 && !a.listed {
		return nil
	}
	a.listed = len(a.preparations) > 0
	return r.Prepare(ctx, a.preparations)
}

// preparation returns the part of a launch that is known before the start is ordered.
func (e *Engine) preparation(u *planner.Upcoming) Preparation {
	v := e.Planner.View()
	task := v.Task(u.Task)
	p := Preparation{Launch: Launch{Attempt: planner.None, Task: u.Task, Try: int32(v.Tries(u.Task)) + 1, Node: u.Node,
		Hold: u.Hold, Queued: u.At, Spec: e.specs[u.Task]}}
	if task.Checkpointable {
		p.Keeps = &Keeping{task.CheckpointSize}
	}
	for _, parent := range task.Parents {
		if a := v.Current(parent); a != planner.None {
			p.After = append(p.After, a)
		}
	}
	if u.Guessed {
		if e.ahead.guesses == nil {
			e.ahead.guesses = map[planner.TaskID]planner.NodeID{}
		}
		e.ahead.guesses[u.Task] = u.Node
	}
	return p
}

// learnGuess notes whether the place of a task that starts was guessed.
func (e *Engine) learnGuess(o *planner.Order) {
	n, ok := e.ahead.guesses[o.Task]
	if !ok {
		return
	}
	delete(e.ahead.guesses, o.Task)
	if n == o.Node {
		e.ahead.right++
	} else {
		e.ahead.wrong++
	}
}
