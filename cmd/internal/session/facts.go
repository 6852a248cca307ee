package session

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"gantry/cmd/internal/exit"
	"gantry/executor"
	"gantry/trace"
	"gantry/trace/spelling"
)

// Facts are properties of the workflows that were read, as far as an option may need them.
type Facts struct {
	Flows     int  // workflows that were read
	Programs  bool // a task runs a command
	Emulated  bool // a task has none, or no image
	Bare      bool // a task has a command, and no image of its own, or asks for the programs of this host
	Tokens    bool // a task needs some
	GPUs      bool // a task holds some
	Networked bool // a command has a network
	Shells    bool // a task runs its command by a shell
	Limited   bool // a walltime is a limit, by --enforce-walltime
	Due       bool // a workflow has a deadline
	Workloads bool // a workload file was read
	More      bool // there are more workflows than --count takes
	Repaired  bool // a fault was repaired
	formats   [trace.Formats]bool
	unknown   map[string]bool // types of task with a command of which no runtime is declared
}

// Anything has the members of workflows of which nothing is known yet.
func Anything() *Facts {
	f := &Facts{Programs: true, Emulated: true, Bare: true, Shells: true, Networked: true, Tokens: true, GPUs: true,
		Limited: true, Due: true, Workloads: true, More: true, Repaired: true}
	for i := range f.formats {
		f.formats[i] = true
	}
	return f
}

// Pegasus reports whether a workflow of Pegasus was read.
func (f *Facts) Pegasus() bool { return f.formats[trace.DAX] || f.formats[trace.PegasusYAML] }

// Read reports whether a workflow of a format was read.
func (f *Facts) Read(format trace.Format) bool { return f.formats[format] }

// Take takes in a submission.
func (f *Facts) Take(set *Settings, sub *executor.Submission) {
	f.Due = f.Due || sub.Due > 0
	f.Workflow(set, sub.Workflow)
	if sub.Costs == nil {
		if f.unknown == nil {
			f.unknown = map[string]bool{}
		}
		maps.Copy(f.unknown, executor.Undeclared(sub.Workflow))
	}
}

// Workflow takes in a workflow.
func (f *Facts) Workflow(set *Settings, w *trace.Workflow) {
	f.Flows, f.formats[w.Format], f.Limited = f.Flows+1, true, f.Limited || w.Walltimes
	for i := range w.Tasks {
		t := &w.Tasks[i]
		runs := len(t.Command) > 0 && !set.Emulate
		f.Bare = f.Bare || runs && (t.Image == "" || t.Image == executor.HostImage)
		runs = runs && cmp.Or(t.Image, set.Image) != ""
		f.Shells = f.Shells || runs && t.Shell
		f.Tokens = f.Tokens || executor.NeededTokens(set.Needs, t) != ""
		f.GPUs = f.GPUs || executor.GPUs(set.GPUs, t) > 0
		f.Networked = f.Networked || runs && executor.Networked(set.Networks, t)
		f.Programs, f.Emulated = f.Programs || runs, f.Emulated || !runs
	}
}

// RefuseUnused refuses a variable that no makeflow uses, and a site that no catalog has. Used has those that they do.
func RefuseUnused(given map[string]string, site string, used map[string]bool) error {
	var names, sites []string
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if at, ok := strings.CutPrefix(name, trace.UsedSite); ok {
			sites = append(sites, at)
		} else {
			names = append(names, name)
		}
	}
	switch {
	case site == "" || slices.Contains(sites, site):
	case len(sites) == 0:
		return exit.Inputf("--site has no effect here: no program of these workflows comes from a catalog of " +
			"Pegasus; add --catalog, or leave it out")
	default:
		return exit.Inputf("--site %s has no effect here: no catalog that was read has a program there; %s", site,
			spelling.Hint(site, sites))
	}
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
