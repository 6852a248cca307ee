package session

import (
	"fmt"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/trace"
)

// runnable refuses a workflow of which a command would not run: gantry never passes a task off as run. With --emulate
// no command is to run. A run that continues is not checked: it may be of an older gantry.
func (s *Session) runnable(sub *executor.Submission, noImage []*trace.Task) error {
	if s.set.Emulate || !Capabilities(s.set.Runtime).Programs || s.resumes {
		return nil
	}
	w := sub.Workflow
	if len(noImage) == 0 {
		return nil
	}
	const most = 5
	var names []string
	for _, t := range noImage[:min(most, len(noImage))] {
		name := t.ID
		if t.Line > 0 {
			name += fmt.Sprintf(" (line %d)", t.Line)
		}
		names = append(names, name)
	}
	return exit.Inputf("workflow %s: %s: %s with a command but no image to run it in: %s; name an image with "+
		"--image, or emulate all tasks with --emulate", sub.Name, w.Source, term.Plural(len(noImage), "task"),
		term.Named(len(noImage), names))
}
