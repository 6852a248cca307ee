package cmd

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/executor/experiment/adversary"
	"gantry/planner/policy"
	"gantry/planner/predict"
	"gantry/trace"
)

func adversaryCommand() *cli.Command {
	return &cli.Command{
		Name:      "adversary",
		Usage:     "search for a small workflow on which one policy does much worse than another",
		ArgsUsage: "POLICY OTHER",
		Description: `Simulated annealing changes runtimes, files, dependencies, nodes and the network of a small
instance, and with --errors which estimates are wrong, so that POLICY has as many times the makespan of OTHER as
possible, or another --metric. The same options and --cores always find the same instance. The same command continues a
search that was interrupted.

Containers repeat what is found: nodes have a speed of at most 1, each task takes --startup more, no schedule is longer
than --longest, and the ratio changes by at most 5 % where containers start in half or twice the time and tasks run up
to 5 % longer.

   gantry adversary cpp heft
   gantry adversary --metric slowdown --workflows 3 fdws fwp
   gantry adversary --metric lateness --workflows 4 fifo edf

It writes the worst instance: PREFIX.json, a workflow, or with several workflows PREFIX-1.json and so on and
PREFIX.yaml; PREFIX.cluster.yaml, which this host can be; and PREFIX.jsonl, the worst instance of each chain. The last
lines are the commands that repeat both simulations. In containers: gantry run --estimator declared with
the same options.

Exit codes: 0 found, 2 wrong command line, 3 a policy cannot plan such instances, none is short enough, or PREFIX.jsonl
has another search, 4 the files cannot be written.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "metric", Value: string(adversary.Makespan), Usage: "`METRIC` to compare: " +
				"makespan; slowdown (mean); or lateness (mean of 1 + time after the deadline / time to the deadline)"},
			&cli.IntFlag{Name: "workflows", Value: 1, Usage: "number of workflows; they arrive within 10 s"},
			&cli.IntFlag{Name: "tasks", Value: 8, Usage: "most tasks of a workflow"},
			&cli.IntFlag{Name: "nodes", Value: 3, Usage: "number of nodes, of one core each"},
			&cli.IntFlag{Name: "tenants", Value: 1, Usage: "number of tenants of the workflows"},
			&cli.Float64Flag{Name: "cores", Usage: "most `CORES` of the host: the sum of the speeds of the nodes",
				DefaultText: "those of this host, at most 2"},
			&cli.StringFlag{Name: "errors", Value: "none", Usage: "policies plan with wrong estimates, by a " +
				"`MODEL` of gantry simulate --errors"},
			&cli.DurationFlag{Name: "startup", Value: 50 * time.Millisecond, Usage: "time that starting a container " +
				"takes, for every task"},
			&cli.DurationFlag{Name: "longest", Value: 45 * time.Second, Usage: "most time from the first arrival to " +
				"the last end, for both policies"},
			&cli.IntFlag{Name: "chains", Value: 8, Usage: "searches from different instances; more continue a search"},
			&cli.IntFlag{Name: "steps", Value: 1000, Usage: "changes that a chain tries"},
			&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "`SEED` of all random choices"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`PREFIX` of the files",
				DefaultText: "POLICY-OTHER"},
		},
		Action: exactly(2, "name two policies (gantry policies lists them)", func(c *cli.Context) error {
			s, err := readSearch(c)
			if err != nil {
				return err
			}
			prefix := cmp.Or(c.String("output"), executor.EscapeName(s.A)+"-"+executor.EscapeName(s.B))
			return searchAdversary(c, s, prefix, c.Int("chains"))
		}),
	}
}

func readSearch(c *cli.Context) (*adversary.Search, error) {
	s := &adversary.Search{A: c.Args().Get(0), B: c.Args().Get(1), Metric: adversary.Metric(c.String("metric")),
		Workflows: c.Int("workflows"), Tasks: c.Int("tasks"), Nodes: c.Int("nodes"), Tenants: c.Int("tenants"),
		Cores: c.Float64("cores"), Errors: c.String("errors"), Steps: c.Int("steps"), Seed: c.Uint64("seed"),
		Startup: c.Duration("startup"), Longest: c.Duration("longest")}
	for _, name := range []string{s.A, s.B} {
		if _, err := policy.Parse(name); err != nil {
			return nil, exit.Usagef("adversary: %w", err)
		}
	}
	if !slices.Contains(adversary.Metrics, s.Metric) {
		return nil, exit.Usagef("--metric %s: choose makespan, slowdown or lateness", s.Metric)
	}
	if s.Tasks < 2 || s.Tasks > 200 {
		return nil, exit.Usagef("--tasks %d: give a number from 2 to 200", s.Tasks)
	}
	if !c.IsSet("cores") {
		s.Cores = float64(min(2, runtime.NumCPU()))
	}
	if least := float64(s.Nodes) / 5; !(s.Cores >= least && s.Cores <= 1000) {
		return nil, exit.Usagef("--cores %g: give a number from %g, a fifth for each node, to 1000", s.Cores, least)
	}
	if s.Longest <= 0 {
		return nil, exit.Usagef("--longest %s: give a time above 0", s.Longest)
	}
	if _, err := predict.ParseErrorModel(s.Errors); err != nil {
		return nil, exit.Usagef("--errors: %w", err)
	}
	if s.Tenants > 1 && s.Workflows == 1 {
		return nil, exit.Usagef("--tenants %d: one workflow has one tenant: add --workflows", s.Tenants)
	}
	return s, nil
}

// searchAdversary does the chains that are left, and writes the worst instance.
func searchAdversary(c *cli.Context, s *adversary.Search, prefix string, chains int) error {
	failed := func(err error) error {
		if errors.As(err, new(*fs.PathError)) {
			return exit.Hostf("adversary: %w", err)
		}
		return exit.Inputf("adversary: %w", err)
	}
	record, err := adversary.Open(prefix+".jsonl", s)
	if err != nil {
		return failed(err)
	}
	defer record.Close()
	if err := s.Run(c.Context, chains, runtime.NumCPU(), record.Done(), record.Keep); err != nil {
		if len(record.Found) == 0 { // the next search may have other options
			os.Remove(prefix + ".jsonl")
		}
		return failed(err)
	}
	worst := record.Worst(chains)
	files, err := writeInstance(worst.Instance, prefix)
	if err != nil {
		return exit.Hostf("adversary: %w", err)
	}
	fmt.Fprintf(c.App.Writer, "%s has %.4g times the %s of %s: %s against %s (%s of %d steps)\n\n", s.A, worst.Ratio(),
		s.Metric, s.B, s.Metric.Text(worst.A), s.Metric.Text(worst.B), term.Plural(chains, "chain"), s.Steps)
	for _, name := range []string{s.A, s.B} {
		more := ""
		if s.Errors != "none" {
			more = fmt.Sprintf(" --errors %s", s.Errors)
		}
		fmt.Fprintf(c.App.Writer, "gantry simulate --policy '%s' --seed %d%s --startup %s --host-model none --cluster "+
			"'%s' '%s'\n", name, s.SeedOf(worst.Instance), more, s.Startup, files[0], files[1])
	}
	return nil
}

// writeInstance writes the files of an instance. The first two are the cluster and the file to run.
func writeInstance(x *adversary.Instance, prefix string) (files []string, err error) {
	write := func(path string, f func(to io.Writer) error) {
		if err == nil {
			files, err = append(files, path), writeWhole(path, f)
		}
	}
	write(prefix+".cluster.yaml", x.WriteCluster)
	name := func(i int) string { return fmt.Sprintf("%s-%d.json", prefix, i+1) }
	one := len(x.Flows) == 1 && x.Flows[0].Allowed == 0
	if one {
		name = func(int) string { return prefix + ".json" }
	} else {
		write(prefix+".yaml", func(to io.Writer) error {
			return x.WriteWorkload(to, func(i int) string { return filepath.Base(name(i)) })
		})
	}
	for i := range x.Flows {
		w := x.Workflow(i)
		w.Name = strings.TrimSuffix(filepath.Base(name(i)), ".json")
		write(name(i), func(to io.Writer) error { return trace.WriteWfFormat(to, w) })
	}
	return files, err
}
