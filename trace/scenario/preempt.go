package scenario

import (
	"errors"
	"fmt"
	"strings"

	"gantry/trace/reader"
)

// DefaultCheckpoint is the size of the checkpoints of emulated tasks where nothing is said: the state of the task
// emulator fits.
const DefaultCheckpoint = 4096

// Preempt says how tasks may leave their place when a policy wants it:
//
//	preempt: {checkpoint: 64MiB, programs: freeze}
//
// checkpoint is the size of the file from which emulated tasks continue, on any node: a size (4KiB is the default),
// "input" for the size of the task's largest input, or "none" if they can leave none. programs says of all tasks
// without checkpoints whether they may only be frozen where they are ("freeze", the default) or also ended and started
// again ("restart"), which loses their work.
type Preempt struct {
	Checkpoint   int64 // bytes, before --size-scale
	LargestInput bool
	None         bool
	Restart      bool
}

// DefaultPreempt returns the rules that hold where nothing is said.
func DefaultPreempt() Preempt { return Preempt{Checkpoint: DefaultCheckpoint} }

// SetCheckpoint reads the value of checkpoint.
func (p *Preempt) SetCheckpoint(text string) error {
	p.None, p.LargestInput, p.Checkpoint = false, false, 0
	switch text = strings.TrimSpace(text); text {
	case "none":
		p.None = true
	case "input":
		p.LargestInput = true
	default:
		n, err := reader.Bytes(text)
		if err != nil || n < 0 {
			return fmt.Errorf("checkpoint is %q, but has to be a size such as 64MiB, input (the size of the task's "+
				"largest input) or none", text)
		}
		p.Checkpoint = n
	}
	return nil
}

// SetPrograms reads the value of programs.
func (p *Preempt) SetPrograms(text string) error {
	switch strings.TrimSpace(text) {
	case "freeze":
		p.Restart = false
	case "restart":
		p.Restart = true
	default:
		return errors.New(unknownWord("the way to preempt tasks without checkpoints", text,
			[]string{"freeze", "restart"}))
	}
	return nil
}

func (y *doc) preempt(to **Preempt) func(*reader.Node) {
	return func(v *reader.Node) {
		p := DefaultPreempt()
		read := func(set func(string) error) func(*reader.Node) {
			return func(v *reader.Node) {
				if err := set(y.Text(v)); err != nil {
					y.Faults.Fail("bad-value", y.Line(v), "", "preempt: %v", err)
				}
			}
		}
		if y.keyed(v, "preempt", []yamlKey{{"checkpoint", read(p.SetCheckpoint)},
			{"programs", read(p.SetPrograms)}}) != nil {
			*to = &p
		}
	}
}
