package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/session"
	"gantry/cmd/internal/term"
	"gantry/executor/container"
	"gantry/executor/container/slurm"
	"gantry/executor/container/slurm/allocation"
	"gantry/sqlite"
	"gantry/sqlite/report/columns"
)

func doctorCommand() *cli.Command {
	return &cli.Command{
		Name:  "doctor",
		Usage: "test which limits this host enforces",
		Description: `Starts containers that try to exceed their limits of CPU, memory, processes and block I/O. It
takes about ten seconds and leaves nothing behind; with --runtime oci it makes the directory of images if that is
missing. The last lines show the model of this host by gantry calibrate, and whether it is used.

With --runtime slurm it does that in a job step on each node of an allocation (--slurm, --slurm-job, or the one around
gantry), and says which container runtime the node has, whether its containers lie below the limits of Slurm, and
whether the node sees the shared directory.

Exit codes: 0 the tests ran, whatever they found; 4 no containers can be made (or, with --strict, a limit is
not enforced).`,
		Flags: append([]cli.Flag{dirFlag(),
			&cli.StringFlag{Name: "runtime", DefaultText: autoRuntime, Usage: "`RUNTIME`: whose containers to " +
				"test: docker, oci, or slurm, those of the nodes of an allocation"},
			&cli.BoolFlag{Name: "strict", Usage: "exit with 4 if a limit is not enforced"},
			&cli.BoolFlag{Name: "json", Usage: "print an object per fact"}}, nodeFlags()...),
		Action: taking(0, "", func(c *cli.Context) error {
			binary, err := session.TaskBinary(c.Context)
			if err != nil {
				return err
			}
			if session.OnNodes(c.String("runtime")) {
				return doctorSlurm(c)
			}
			runtime := chosenRuntime(c)
			row := session.RuntimeNamed(runtime)
			if row == nil || row.Engine == nil {
				return exit.Usagef("--runtime %s makes no containers", runtime)
			}
			if err := session.Enter(row.Name); err != nil {
				return err
			}
			facts, err := container.Probe(c.Context, func(runDir string) (container.Engine, error) {
				return row.Engine(c.Context, session.EngineWants{Dirs: []string{runDir}, Binary: binary,
					Emulated: true})
			}, homeOf(c), binary)
			if row.Facts != nil {
				facts = append(facts, row.Facts(c.Context)...)
			}
			facts = append(append(facts, otherRuntimes(c.Context, row)...), hostModelFacts(c.Context, homeOf(c))...)
			lacking := printFacts(c, "", facts)
			if err != nil {
				return exit.With(exit.Host, err)
			}
			if lacking > 0 && c.Bool("strict") {
				return exit.Hostf("%s not enforced by this host", term.Plural(lacking, "fact"))
			}
			return nil
		}),
	}
}

// printFacts prints facts, of a node of Slurm if one is named, and returns how many limits are not enforced.
func printFacts(c *cli.Context, node string, facts []container.Fact) (lacking int) {
	var rows [][]string
	for _, f := range facts {
		if f.Verdict == container.No {
			lacking++
		}
		if c.Bool("json") {
			object := map[string]string{"name": f.Name, "enforced": f.Verdict.String(), "evidence": f.Evidence,
				"advice": f.Advice}
			if node != "" {
				object["node"] = node
			}
			term.PrintJSON(c.App.Writer, object)
			continue
		}
		rows = append(rows, []string{f.Name, f.Verdict.String(), f.Evidence})
		if f.Advice != "" {
			rows = append(rows, []string{"", "", "→ " + f.Advice})
		}
	}
	_ = columns.Print(c.App.Writer, 0, "", rows, nil) // whole lines are folded to the terminal
	return lacking
}

// otherRuntimes says which other runtimes make containers on this host. That they do not is no limit either.
func otherRuntimes(ctx context.Context, but *session.Runtime) (facts []container.Fact) {
	for i := range session.Runtimes {
		r := &session.Runtimes[i]
		if r.Engine == nil || r.Name == but.Name {
			continue
		}
		f := container.Fact{Name: "runtime-" + r.Name, Verdict: container.Yes, Evidence: "--runtime " + r.Name +
			" can be used here"}
		if err := r.IsUsable(ctx); err != nil {
			f.Verdict, f.Evidence = container.Unknown, err.Error()
		}
		facts = append(facts, f)
	}
	return facts
}

// hostModelFacts describes the host models in the log. They are no limits: if one is missing the verdict is unknown.
func hostModelFacts(ctx context.Context, dir string) (facts []container.Fact) {
	db, err := sqlite.Open(filepath.Join(dir, sqlite.FileName), sqlite.ReadOnly)
	if err == nil {
		defer db.Close()
	} else if !errors.Is(err, sqlite.ErrNoLog) {
		return []container.Fact{{Name: "host-model", Evidence: err.Error()}}
	}
	for _, r := range session.Runtimes {
		if r.Engine == nil {
			continue
		}
		f := container.Fact{Name: "host-model"}
		if r.Capabilities != session.UsualRuntime {
			f.Name += "-" + r.Name
		}
		used, text, advice := false, session.NotMeasured, session.CalibrateAdvice
		if db != nil {
			used, text, advice = session.DescribeHostModel(ctx, db, r.Name, dir)
		}
		if f.Evidence, f.Advice = text, advice; used {
			f.Verdict = container.Yes
		} else if r.Capabilities != session.UsualRuntime && text == session.NotMeasured {
			continue
		}
		facts = append(facts, f)
	}
	return facts
}

// doctorSlurm asks each node of an allocation for the limits that it enforces. Nodes are asked one after the other,
// since virtual ones share a host, whose load would disturb the measurements.
func doctorSlurm(c *cli.Context) error {
	set := &session.Settings{}
	if err := readSlurm(c, set, true); err != nil {
		return err
	}
	// The directory and the allocation have to go also if the reader does, or the user loses patience.
	var stop func()
	c.Context, stop = signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	view := term.New(c.Bool("json"))
	asked, err := session.AskNodes(c.Context, homeOf(c), set, c.String("slurm-job"), view, "--probe")
	if c.Context.Err() != nil && asked == nil {
		return exit.Stoppedf("stopped")
	} else if err != nil {
		return err
	}
	defer asked.Close()
	check, a := asked.Check, asked.Allocation
	if set.NodeRuntime != "" {
		check.Args = append(check.Args, "--runtime", set.NodeRuntime)
	}
	lacking, unusable := 0, 0
	for _, n := range a.Nodes() {
		facts, usable, err := examineNode(c, check, a, n)
		if c.Context.Err() != nil {
			return exit.Stoppedf("stopped")
		}
		if err != nil {
			return err
		}
		if !c.Bool("json") {
			fmt.Fprintf(c.App.Writer, "node %s: %s, %s\n", n.Name, term.Plural(n.Cores, "core"), term.Size(&n.Memory))
		}
		lacking += printFacts(c, n.Name, facts)
		if !usable {
			unusable++
		}
	}
	if unusable > 0 {
		return exit.Hostf("%s cannot be used", term.Plural(unusable, "node"))
	}
	if lacking > 0 && c.Bool("strict") {
		return exit.Hostf("%s not enforced by these nodes", term.Plural(lacking, "fact"))
	}
	return nil
}

// examineNode returns the facts about a node, and whether gantry can run tasks there.
func examineNode(c *cli.Context, check slurm.Check, a *allocation.Allocation,
	n allocation.Node) (facts []container.Fact, usable bool, err error) {
	root := filepath.Dir(check.Dir)
	if !n.Up {
		return []container.Fact{{Name: "node", Verdict: container.No, Evidence: "Slurm says that it is " + n.State,
			Advice: "leave it out (salloc --exclude)"}}, false, nil
	}
	check.Nodes = []string{n.Name}
	reports, err := check.Ask(c.Context, a)
	if c.Context.Err() != nil {
		return nil, false, err
	}
	if err != nil {
		f := container.Fact{Name: "shared-directory", Verdict: container.No, Evidence: err.Error()}
		if said, ok := errors.AsType[*allocation.Error](err); ok {
			f.Evidence, f.Advice = said.What, said.Remedy
		}
		return []container.Fact{f}, false, nil
	}
	r := reports[0]
	facts = []container.Fact{{Name: "shared-directory", Verdict: container.Yes, Evidence: "it sees " + root}}
	if r.Runtime == "" {
		return append(facts, container.Fact{Name: "container-runtime", Verdict: container.No, Evidence: r.Failed,
			Advice: "install crun or runc there, or leave it out (salloc --exclude)"}), false, nil
	}
	facts = append(facts, container.Fact{Name: "container-runtime", Verdict: container.Yes, Evidence: r.Runtime})
	return append(facts, r.Facts...), r.Failed == "", nil
}
