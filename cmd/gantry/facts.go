package main

import (
	"cmp"
	"maps"
	"slices"

	"gantry/cmd/internal/exit"
	"gantry/executor"
	"gantry/trace"
	"gantry/trace/spelling"
)

// facts are what the workflows that were read have, as far as an option may need it.
type facts struct {
	programs  bool // a task runs a command
	emulated  bool // a task has none, or no image
	bare      bool // a task has a command, and no image of its own
	shells    bool // a task runs its command by a shell
	limited   bool // a task has a time limit
	due       bool // a workflow has a deadline
	workloads bool // a workload file was read
	more      bool // there are more workflows than --count takes
	repaired  bool // a fault was repaired
	formats   [trace.Makeflow + 1]bool
	unknown   map[string]bool // types of task with a command of which no runtime is declared
}

// anything has the members of workflows of which nothing is known yet.
func anything() *facts {
	f := &facts{programs: true, emulated: true, bare: true, shells: true, limited: true, due: true, workloads: true,
		more: true, repaired: true}
	for i := range f.formats {
		f.formats[i] = true
	}
	return f
}

func (f *facts) pegasus() bool { return f.formats[trace.DAX] || f.formats[trace.PegasusYAML] }

func (f *facts) take(set *settings, sub *executor.Submission) {
	f.due = f.due || sub.Due > 0
	f.workflow(set, sub.Workflow)
	if sub.Costs == nil {
		if f.unknown == nil {
			f.unknown = map[string]bool{}
		}
		maps.Copy(f.unknown, executor.Undeclared(sub.Workflow))
	}
}

func (f *facts) workflow(set *settings, w *trace.Workflow) {
	f.formats[w.Format] = true
	for i := range w.Tasks {
		t := &w.Tasks[i]
		runs := len(t.Command) > 0 && !set.Emulate
		f.bare = f.bare || runs && t.Image == ""
		runs = runs && cmp.Or(t.Image, set.Image) != ""
		f.shells = f.shells || runs && t.Shell
		f.programs, f.emulated, f.limited = f.programs || runs, f.emulated || !runs, f.limited || t.TimeLimit > 0
	}
}

// refuseUnused refuses a variable that no makeflow uses. Used has those that they do.
func refuseUnused(given map[string]string, used map[string]bool) error {
	names := slices.Sorted(maps.Keys(used))
	for _, name := range slices.Sorted(maps.Keys(given)) {
		switch {
		case used[name]:
		case len(names) == 0:
			return exit.Inputf("--define %s has no effect here: no makeflow with variables was read; leave it out",
				name)
		default:
			return exit.Inputf("--define %s has no effect here: no makeflow that was read uses %s; %s", name, name,
				spelling.Hint(name, names))
		}
	}
	return nil
}
