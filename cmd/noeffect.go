package cmd

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/session"
	"gantry/planner/policy"
	"gantry/trace"
)

// given is a command line, with settings and facts once the workflows are read.
type given struct {
	*cli.Context
	set *session.Settings
	*session.Facts
}

// has reports whether an option is given; one that is false is not, nor is a default of the folder.
func (g given) has(name string) bool {
	defaults, _ := g.App.Metadata[defaultsFile].([]string)
	return g.IsSet(name) && fmt.Sprint(g.Value(name)) != "false" && !slices.Contains(defaults, name)
}

// containerless reports whether the run is neither simulated nor in containers.
func (g given) containerless() bool {
	return !session.Capabilities(g.set.Runtime).Programs && !g.simulated()
}

func (g given) simulated() bool { return session.Capabilities(g.set.Runtime).Virtual }

// idle is a reason why options of a command line have no effect.
type idle struct {
	on    string // commands whose command line shows it; "": those that read workflows, once these are read
	flags []string
	holds func(given) bool
	why   string
}

// idles are those of all commands. Options that only permit or bound something are not here: users may give them for
// all workflows alike.
var idles = []idle{
	{"", []string{"catalog", "enforce-walltime", "repair", "kilobytes"},
		func(g given) bool { return g.Flows == 0 && !g.Workloads }, "no workflow is among these"},
	{"", []string{"env", "env-file", "secret", "mount", "network", "container-mounts", "pull", "disk", "max-output",
		"tmp", "starts", "startup", "host-model", "grace", "cdi-dir"}, given.containerless,
		"this runtime starts no containers"},
	{"", []string{"inputs"}, given.containerless, "this runtime runs no programs: no file is read"},
	{"", []string{"env", "env-file", "secret", "mount", "network", "pull"}, func(g given) bool { return !g.Programs },
		"no task runs a program, all are emulated"},
	{"", []string{"resource", "need"}, func(g given) bool { return !g.Tokens },
		"no task needs one: --need PATTERN=NAME says which do, by names and types of tasks"},
	{"", []string{"gpus", "cdi-dir"}, func(g given) bool { return !g.GPUs },
		"no task holds a GPU: --gpus N, or PATTERN=N with a pattern for names or types of tasks"},
	{"", []string{"network"}, func(g given) bool {
		return !g.Networked && strings.Contains(strings.Join(g.set.Networks, " "), "outbound")
	}, "it gives no command a network: its patterns are for names and types of tasks with commands"},
	{"", []string{"shell"}, func(g given) bool { return !g.Shells }, "no task runs its command by a shell"},
	{"", []string{"image"}, func(g given) bool { return !g.Bare }, "no task has a command and lacks an image"},
	{"", []string{"time-scale"}, func(g given) bool { return !g.Emulated && !g.Workloads && g.set.TimeScale != 1 },
		"no task is emulated, and programs take the time that they take"},
	{"", []string{"size-scale"}, func(g given) bool { return !g.Emulated && g.set.SizeScale != 1 },
		"no task is emulated, and files of programs have the size that they have"},
	{"", []string{"checkpoint"}, func(g given) bool { return !g.Emulated },
		"no task is emulated, and others cannot checkpoint"},
	{"", []string{"checkpoint", "preempt"}, func(g given) bool {
		pol, err := policy.Parse(g.set.Policy) // that of a server may be changed
		return g.Command.Name != "submit" && err == nil && !policy.Preempts(pol)
	}, "this policy preempts no task (gantry policies says which do)"},
	{"", []string{"catalog", "container-mounts"},
		func(g given) bool { return !g.Pegasus() }, "it is for workflows of Pegasus, and none is among these"},
	{"", []string{"enforce-walltime"}, func(g given) bool { return !g.Limited },
		"no task of these workflows names a time limit (maxwalltime of Pegasus, WALL_TIME of makeflows)"},
	{"", []string{"graph"}, func(g given) bool { return !g.Read(trace.NextflowTrace) },
		"it is for traces of Nextflow, and none is among these"},
	{"", []string{"gflops"}, func(g given) bool { return !g.Read(trace.DOT) },
		"it is for DOT graphs, and none is among these"},
	{"", []string{"reject-late"}, func(g given) bool { return !g.Due },
		"no workflow has a deadline: a workload file gives one"},
	{"", []string{"repetition"}, func(g given) bool { return !g.Workloads }, "no workload file is among these"},
	{"", []string{"count"}, func(g given) bool { return !g.More }, "there are no more workflows than that"},
	{"", []string{"repair"}, func(g given) bool { return !g.Repaired }, "there was nothing to repair"},
	{"", []string{"inputs"}, given.simulated, "a simulation reads no input files"},
	{"", []string{"starts"}, func(g given) bool { return g.simulated() && g.set.Host == nil },
		"no host model says how long containers take to start: add --host-model"},

	{"run map", []string{"watch", "port"}, with("dry-run"), "--dry-run starts nothing that a page could show"},
	{"run map", []string{"no-prediction"}, with("dry-run"), "--dry-run prints the plan that is predicted"},
	{"predict", []string{"model", "held-out", "small", "log", "trace", "runtime"},
		func(g given) bool { return slices.Contains([]string{"ls", "show"}, g.Args().First()) }, "nothing is learned"},
	{"resume", strings.Fields("inputs catalog site define enforce-walltime container-mounts repair results"),
		without("with"), "it says how a corrected workflow is read: name that with --with FILE"},
	{"queue", []string{"all"}, with("tenants"), "--tenants lists no submissions"},
	{"node", []string{"cores", "memory"}, func(g given) bool { return g.Args().First() != "set" }, "it goes with set"},
	{"run", []string{"cpus", "memory", "time-limit"},
		func(g given) bool { return !ofCommand(g.Context) }, "it is for gantry run -- COMMAND"},
	{"run", []string{"inputs", "results", "results-dir", "repetition", "count", "reuse"},
		func(g given) bool { return ofCommand(g.Context) }, "a command works in the current directory"},
	{"run", []string{"retry"}, func(g given) bool { return ofCommand(g.Context) },
		"a command runs once, as it may change the current directory: --retries N has one that fails run again"},
	{"run map resume serve", []string{"port"}, without("watch"), "no page is served without --watch"},
	{"simulate", []string{"name"}, with("no-log"), "--no-log keeps no run that could have a name"},
	{"show", []string{"all"}, with("tasks"), "--tasks lists all tasks"},
	{"show", []string{"tasks", "all", "statistics"}, with("failures"), "--failures shows one section alone"},
	{"show", []string{"tasks", "all"}, with("statistics"), "--statistics shows one section alone"},
	{"show", []string{"lines"}, without("failures"), "it is for --failures"},
	{"image", []string{"archive", "force", "runtime"}, func(g given) bool { return g.Args().First() != "build" },
		"the list is that of the images kept unpacked"},
	{"image", []string{"json"}, func(g given) bool { return g.Args().First() == "build" }, "build prints no list"},
	{"image", []string{"force", "runtime"}, with("archive"), "the archive is always built, and for all runtimes"},
	{"export", []string{"workflow"}, func(g given) bool {
		return g.String("format") != "wfformat" && g.String("format") != "rocrate"
	}, "it needs --format wfformat or rocrate"},
	{"report", []string{"out", "html", "markdown", "policies", "json"}, with("save"),
		"--save writes the short form alone"},
	{"report", []string{"markdown", "out"}, with("html"), "--html has the figures in its file"},
	{"report", []string{"json"}, with("html", "markdown", "study"), "the page is no JSON"},
	{"report", []string{"policies"}, func(g given) bool {
		return !g.has("html") || g.has("study") || ofResults(g.Context)
	}, "it is for --html with runs"},
	{"report", []string{"metrics", "x", "against", "title"}, with("save", "html", "markdown", "study"),
		"pages and short files have all metrics"},
	{"report", []string{"x", "title"}, without("out"), "it is of figures, which --out DIR draws"},
	{"report", []string{"metrics"}, func(g given) bool {
		return !g.has("out") && g.NArg() == 1 && !ofResults(g.Context)
	}, "of one run it chooses figures, which --out DIR draws"},
	{"report compare", []string{"dir"}, func(g given) bool {
		return ofResults(g.Context) && g.String("dir") != os.Getenv("GANTRY_DIR") // that holds for all commands alike
	}, "files of results are read, and no log"},
	{"compare report", []string{"against"}, func(g given) bool { return !ofResults(g.Context) },
		"it goes with files of results"},
	{"compare", []string{"metrics"}, func(g given) bool { return !ofResults(g.Context) },
		"it goes with files of results"},
}

// with holds if one of these options is given, too.
func with(names ...string) func(given) bool {
	return func(g given) bool { return slices.ContainsFunc(names, g.has) }
}

// without holds if that option is not given.
func without(name string) func(given) bool { return func(g given) bool { return !g.has(name) } }

// ofResults reports whether a command was given files of results, and no runs.
func ofResults(c *cli.Context) bool { return c.NArg() > 0 && isResults(c.Args().First()) }

// refuseIdle refuses an option that has no effect on the workflows that it was given with, or without facts, on the
// command line that it stands in: its user expects one. Nothing has an effect on a workflow without tasks.
func refuseIdle(c *cli.Context, set *session.Settings, f *session.Facts) error {
	code := exit.Usage
	if f != nil {
		if code = exit.Input; f.Flows > 0 && !f.Programs && !f.Emulated && !f.Workloads {
			return nil
		}
	}
	g := given{c, set, f}
	for _, row := range idles {
		if (row.on == "") != (f != nil) || row.on != "" && !slices.Contains(strings.Fields(row.on), c.Command.Name) {
			continue
		}
		for _, flag := range row.flags {
			if g.has(flag) && row.holds(g) {
				return exit.With(code, fmt.Errorf("--%s has no effect here: %s; leave it out", flag, row.why))
			}
		}
	}
	return nil
}

// refuseIdleOf is refuseIdle for commands that read workflows and run none.
func refuseIdleOf(c *cli.Context) func(*session.Facts) error {
	return func(f *session.Facts) error {
		return refuseIdle(c, &session.Settings{Runtime: session.UsualRuntime.Name}, f)
	}
}

// refuseBut refuses options of a command but for those that it takes in one of its ways.
func refuseBut(c *cli.Context, why string, takes ...string) error {
	for _, f := range c.Command.Flags {
		if flag := f.Names()[0]; c.IsSet(flag) && !slices.Contains(takes, flag) {
			return exit.Usagef("--%s has no effect here: %s; leave it out", flag, why)
		}
	}
	return nil
}
