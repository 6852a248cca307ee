package main

import (
	"cmp"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"gantry/executor"
	"gantry/planner/policy"
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

// idle is a reason for which options have no effect on what they are given with.
type idle struct {
	on    string // commands whose command line shows it; "": those that read workflows, once these are read
	flags []string
	holds func(c *cli.Context, set *settings, f *facts) bool
	why   string
}

// idles are those of all commands. Options that only permit or bound something are not here: users may give them for
// all workflows alike.
var idles = []idle{
	{"", []string{"env", "env-file", "secret", "mount", "container-mounts", "pull", "disk", "max-output", "tmp",
		"starts", "ahead", "startup", "host-model", "grace"},
		func(_ *cli.Context, set *settings, _ *facts) bool { return containerless(set) },
		"this runtime starts no containers"},
	{"", []string{"inputs"}, func(_ *cli.Context, set *settings, _ *facts) bool { return containerless(set) },
		"this runtime runs no programs: no file is read"},
	{"", []string{"env", "env-file", "secret", "mount", "pull"},
		func(_ *cli.Context, _ *settings, f *facts) bool { return !f.programs },
		"no task runs a program, all are emulated"},
	{"", []string{"shell"}, func(_ *cli.Context, _ *settings, f *facts) bool { return !f.shells },
		"no task runs its command by a shell"},
	{"", []string{"image"}, func(_ *cli.Context, _ *settings, f *facts) bool { return !f.bare },
		"no task has a command and lacks an image"},
	{"", []string{"time-scale"}, func(_ *cli.Context, set *settings, f *facts) bool {
		return !f.emulated && !f.workloads && set.TimeScale != 1
	}, "no task is emulated, and programs take the time that they take"},
	{"", []string{"size-scale"},
		func(_ *cli.Context, set *settings, f *facts) bool { return !f.emulated && set.SizeScale != 1 },
		"no task is emulated, and files of programs have the size that they have"},
	{"", []string{"checkpoint"}, func(_ *cli.Context, _ *settings, f *facts) bool { return !f.emulated },
		"no task is emulated, and others cannot checkpoint"},
	{"", []string{"checkpoint", "preempt"}, func(c *cli.Context, set *settings, _ *facts) bool {
		pol, err := policy.Parse(set.Policy) // that of a server may be changed
		return c.Command.Name != "submit" && err == nil && !policy.Preempts(pol)
	}, "this policy preempts no task (gantry policies says which do)"},
	{"", []string{"catalog", "site", "enforce-walltime"},
		func(_ *cli.Context, _ *settings, f *facts) bool { return !f.pegasus() },
		"it is for workflows of Pegasus, and none is among these"},
	{"", []string{"enforce-walltime"}, func(_ *cli.Context, _ *settings, f *facts) bool { return !f.limited },
		"no profile of these workflows has a maxwalltime"},
	{"", []string{"reject-late"}, func(_ *cli.Context, _ *settings, f *facts) bool { return !f.due },
		"no workflow has a deadline: a workload file gives one"},
	{"", []string{"count"}, func(_ *cli.Context, _ *settings, f *facts) bool { return !f.more },
		"there are no more workflows than that"},
	{"", []string{"repair"}, func(_ *cli.Context, _ *settings, f *facts) bool { return !f.repaired },
		"there was nothing to repair"},
	{"", []string{"inputs"},
		func(_ *cli.Context, set *settings, _ *facts) bool { return runtimeOf(set.Runtime).Virtual },
		"a simulation reads no input files"},
	{"", []string{"starts"}, func(_ *cli.Context, set *settings, _ *facts) bool {
		return runtimeOf(set.Runtime).Virtual && set.Host == nil
	}, "no host model says how long containers take to start: add --host-model"},

	{"run", []string{"watch", "port"}, with("dry-run"), "--dry-run starts nothing that a page could show"},
	{"run resume serve", []string{"port"}, without("watch"), "no page is served without --watch"},
	{"simulate", []string{"name"}, with("no-log"), "--no-log keeps no run that could have a name"},
	{"show", []string{"all"}, with("tasks"), "--tasks lists all tasks"},
	{"image images", []string{"archive", "force", "runtime"}, func(c *cli.Context, _ *settings, _ *facts) bool {
		return c.Args().First() != "build"
	}, "the list is that of the images kept unpacked"},
	{"image images", []string{"json"}, func(c *cli.Context, _ *settings, _ *facts) bool {
		return c.Args().First() == "build"
	}, "build prints no list"},
	{"image images", []string{"force", "runtime"}, with("archive"),
		"the archive is always built, and for all runtimes"},
	{"generate", append([]string{"tasks", "seed", "total-runtime", "format", "output"}, parameterNames()...),
		with("list"), "--list generates nothing"},
	{"calibrate", []string{"quick", "force"}, func(c *cli.Context, _ *settings, _ *facts) bool {
		return onNodes(c.String("runtime"))
	}, "of nodes nothing but a core is measured, for half a second"},
	{"export", []string{"workflow"}, func(c *cli.Context, _ *settings, _ *facts) bool {
		return c.String("format") != "wfformat" && c.String("format") != "rocrate"
	}, "it needs --format wfformat or rocrate"},
	{"export", []string{"raw", "extended"}, func(c *cli.Context, _ *settings, _ *facts) bool {
		return c.String("format") != "trace"
	}, "it needs --format trace"},
	{"report", []string{"out", "html", "markdown", "policies", "json"}, with("save"),
		"--save writes the short form alone"},
	{"report", []string{"markdown", "out"}, with("html"), "--html has the figures in its file"},
	{"report", []string{"json"}, with("html", "markdown", "study"), "the page is no JSON"},
	{"report", []string{"policies"}, func(c *cli.Context, _ *settings, _ *facts) bool {
		return !c.IsSet("html") || c.IsSet("study") || ofResults(c)
	}, "it is for --html with runs"},
	{"report", []string{"metrics", "x", "against", "title"}, with("save", "html", "markdown", "study"),
		"pages and short files have all metrics"},
	{"report", []string{"x", "title"}, func(c *cli.Context, _ *settings, _ *facts) bool { return !c.IsSet("out") },
		"it is of figures, which --out DIR draws"},
	{"report", []string{"metrics"}, func(c *cli.Context, _ *settings, _ *facts) bool {
		return !c.IsSet("out") && !ofResults(c)
	}, "of runs it chooses figures, which --out DIR draws"},
	{"report compare", []string{"dir"}, func(c *cli.Context, _ *settings, _ *facts) bool { return ofResults(c) },
		"files of results are read, and no log"},
	{"compare report", []string{"against"},
		func(c *cli.Context, _ *settings, _ *facts) bool { return !ofResults(c) }, "it goes with files of results"},
	{"compare", []string{"metrics"},
		func(c *cli.Context, _ *settings, _ *facts) bool { return !ofResults(c) }, "it goes with files of results"},
}

// with holds if one of these options is given, too.
func with(names ...string) func(*cli.Context, *settings, *facts) bool {
	return func(c *cli.Context, _ *settings, _ *facts) bool { return slices.ContainsFunc(names, c.IsSet) }
}

// without holds if that option is not given.
func without(name string) func(*cli.Context, *settings, *facts) bool {
	return func(c *cli.Context, _ *settings, _ *facts) bool { return !c.Bool(name) }
}

// ofResults reports whether a command was given files of results, and no runs.
func ofResults(c *cli.Context) bool { return c.NArg() > 0 && isResults(c.Args().First()) }

// containerless reports whether a run is neither simulated nor in containers.
func containerless(set *settings) bool {
	able := runtimeOf(set.Runtime)
	return !able.Programs && !able.Virtual
}

// refuseIdle refuses an option that has no effect on the workflows that it was given with, or without facts, on the
// command line that it stands in: its user expects one. The environment holds for all commands alike, and nothing has
// an effect on a workflow without tasks.
func refuseIdle(c *cli.Context, set *settings, f *facts) error {
	code := exitUsage
	if f != nil {
		if code = exitInput; !f.programs && !f.emulated && !f.workloads {
			return nil
		}
	}
	for _, row := range idles {
		if (row.on == "") != (f != nil) || row.on != "" && !slices.Contains(strings.Fields(row.on), c.Command.Name) {
			continue
		}
		for _, flag := range row.flags {
			if c.IsSet(flag) && !byEnvironment(c, flag) && row.holds(c, set, f) {
				return failf(code, "--%s has no effect here: %s; leave it out", flag, row.why)
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
