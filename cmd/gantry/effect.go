package main

import (
	"cmp"
	"maps"
	"os"
	"slices"

	"github.com/urfave/cli/v2"

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
	formats   [trace.Makeflow + 1]bool
	unknown   map[string]bool // types of task with a command of which no runtime is declared
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

// idle is a reason for which options have no effect on what they are given with.
type idle struct {
	flags []string
	holds func(set *settings, f *facts) bool
	why   string
}

// idles are those of run, simulate and submit. What only permits something, or bounds it, is not here: it may be given
// for all workflows alike.
var idles = []idle{
	{[]string{"env", "env-file", "secret", "mount", "container-mounts", "pull", "disk", "max-output", "starts", "ahead",
		"startup", "host-model", "grace"}, func(set *settings, _ *facts) bool { return containerless(set) },
		"this runtime starts no containers"},
	{[]string{"inputs"}, func(set *settings, _ *facts) bool { return containerless(set) },
		"this runtime runs no programs: no file is read"},
	{[]string{"env", "env-file", "secret", "mount", "pull"}, func(_ *settings, f *facts) bool { return !f.programs },
		"no task runs a program, all are emulated"},
	{[]string{"shell"}, func(_ *settings, f *facts) bool { return !f.shells },
		"no task runs its command by a shell"},
	{[]string{"image"}, func(_ *settings, f *facts) bool { return !f.bare },
		"no task has a command and lacks an image"},
	{[]string{"time-scale"}, func(set *settings, f *facts) bool {
		return !f.emulated && !f.workloads && set.TimeScale != 1
	}, "no task is emulated, and programs take the time that they take"},
	{[]string{"size-scale"}, func(set *settings, f *facts) bool { return !f.emulated && set.SizeScale != 1 },
		"no task is emulated, and files of programs have the size that they have"},
	{[]string{"checkpoint"}, func(_ *settings, f *facts) bool { return !f.emulated },
		"no task is emulated, and others cannot checkpoint"},
	{[]string{"catalog", "site", "enforce-walltime"}, func(_ *settings, f *facts) bool { return !f.pegasus() },
		"it is for workflows of Pegasus, and none is among these"},
	{[]string{"enforce-walltime"}, func(_ *settings, f *facts) bool { return !f.limited },
		"no profile of these workflows has a maxwalltime"},
	{[]string{"reject-late"}, func(_ *settings, f *facts) bool { return !f.due },
		"no workflow has a deadline: a workload file gives one"},
	{[]string{"inputs"}, func(set *settings, _ *facts) bool { return runtimeOf(set.Runtime).Virtual },
		"a simulation reads no input files"},
	{[]string{"starts"}, func(set *settings, _ *facts) bool {
		return runtimeOf(set.Runtime).Virtual && set.Host == nil
	}, "no host model says how long containers take to start: add --host-model"},
}

// containerless reports whether a run is neither simulated nor in containers.
func containerless(set *settings) bool {
	able := runtimeOf(set.Runtime)
	return !able.Programs && !able.Virtual
}

// refuseIdle refuses an option that has no effect on the workflows that it was given with: its user expects one. The
// environment holds for all commands alike, and nothing has an effect on a workflow without tasks.
func refuseIdle(c *cli.Context, set *settings, f *facts) error {
	if !f.programs && !f.emulated && !f.workloads {
		return nil
	}
	for _, row := range idles {
		for _, flag := range row.flags {
			if c.IsSet(flag) && !byEnvironment(c, flag) && row.holds(set, f) {
				return failf(exitInput, "--%s has no effect here: %s; leave it out", flag, row.why)
			}
		}
	}
	return nil
}

// byEnvironment reports whether the environment has a value for an option.
func byEnvironment(c *cli.Context, name string) bool {
	for _, f := range c.Command.Flags {
		if d, ok := f.(cli.DocGenerationFlag); ok && slices.Contains(f.Names(), name) {
			return slices.ContainsFunc(d.GetEnvVars(), func(v string) bool { return os.Getenv(v) != "" })
		}
	}
	return false
}

// refuseUnused refuses a variable that no makeflow uses. Used has those that they do.
func refuseUnused(given map[string]string, used map[string]bool) error {
	names := slices.Sorted(maps.Keys(used))
	for _, name := range slices.Sorted(maps.Keys(given)) {
		switch {
		case used[name]:
		case len(names) == 0:
			return failf(exitInput, "--define %s has no effect here: no makeflow with variables was read; leave it out",
				name)
		default:
			return failf(exitInput, "--define %s has no effect here: no makeflow that was read uses %s; %s", name, name,
				spelling.Hint(name, names))
		}
	}
	return nil
}
