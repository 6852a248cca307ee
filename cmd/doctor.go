package cmd

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/session"
	"gantry/cmd/internal/term"
	"gantry/executor/container"
	"gantry/executor/container/gpu"
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

   gantry doctor --runtime oci
   srun --label gantry doctor   the nodes of an allocation of Slurm

Exit codes: 0 the tests ran, whatever they found; 4 no containers can be made (or, with --strict, a limit is
not enforced); 130 stopped by a signal.`,
		Flags: []cli.Flag{dirFlag(),
			&cli.StringFlag{Name: "runtime", DefaultText: autoRuntime, Usage: "`RUNTIME`: whose containers to " +
				"test, docker or oci"},
			&cli.BoolFlag{Name: "strict", Usage: "exit with 4 if a limit is not enforced"},
			&cli.BoolFlag{Name: "json", Usage: "print an object per fact"}},
		Action: taking(0, "", func(c *cli.Context) error {
			binary, err := session.TaskBinary(c.Context)
			if err != nil {
				return err
			}
			runtime := chosenRuntime(c)
			row := session.RuntimeNamed(runtime)
			if session.OnNodes(runtime) {
				return exit.Usagef("--runtime %s: its nodes make the containers: srun gantry doctor tests one", runtime)
			} else if row == nil || row.Engine == nil {
				return exit.Usagef("--runtime %s makes no containers", runtime)
			}
			if err := session.Enter(row.Name); err != nil {
				return err
			}
			ctx, release := exit.OnSignal(c.Context)
			defer release()
			facts, err := row.Probe(ctx, homeOf(c), binary)
			if ctx.Err() != nil {
				return exit.Stoppedf("stopped: its containers are removed")
			}
			if row.Facts != nil {
				facts = append(facts, row.Facts(c.Context)...)
			}
			facts = append(append(facts, gpuFact()), otherRuntimes(c.Context, row)...)
			facts = append(facts, hostModelFacts(c.Context, homeOf(c))...)
			lacking := printFacts(c, facts)
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

// printFacts prints facts, and returns how many limits are not enforced.
func printFacts(c *cli.Context, facts []container.Fact) (lacking int) {
	var rows [][]string
	for _, f := range facts {
		if f.Verdict == container.No {
			lacking++
		}
		if asJSON(c, map[string]string{"name": f.Name, "enforced": f.Verdict.String(), "evidence": f.Evidence,
			"advice": f.Advice}) {
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

// gpuFact names the GPUs of this host. That it has none is no limit.
func gpuFact() container.Fact {
	host := gpu.Open(nil)
	all := host.GPUs()
	if len(all) == 0 {
		return container.Fact{Name: "gpus", Evidence: host.WhyNone()}
	}
	return container.Fact{Name: "gpus", Verdict: container.Yes,
		Evidence: "tasks can hold " + term.NamesOf(all, mostNamed), Advice: host.Fault()}
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
