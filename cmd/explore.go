package cmd

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	release "gantry"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/term"
	"gantry/executor/experiment"
	"gantry/sqlite/report/results"
	"gantry/sqlite/report/study"
	"gantry/trace/scenario"
	"gantry/trace/spelling"
)

func exploreCommand() *cli.Command {
	return &cli.Command{
		Name: "explore", Usage: "try readings of a paper within declared bounds", ArgsUsage: "FILE",
		Description: `FILE declares bounds: values of factors, and what may stand instead of policies. Each combination,
or a Latin hypercube of some, is a reading. The experiments of FILE run under each with the seed of choose, and the
statements of a study are judged. The reading that most statements hold under runs again with the seed of report, whose
count is the one to cite. The page has the matrix of statements and readings, the Pareto front, and the pairs of
statements that no reading satisfies together. The same command continues an interrupted exploration.

   study: study.yaml
   experiments: [fig9-13.yaml, fig19-23.yaml]
   bounds: {workload.arrivals.population: [20, 26, 40], cluster: [cluster.yaml, shared.yaml]}
   instead: [{}, {capacity: "capacity:elastic=no"}]
   sample: 8                       # readings of a Latin hypercube; without it all combinations
   choose: {seed: 1, repetitions: 3}
   report: {seed: 101, repetitions: 10}`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "dir", Usage: "keep results in `DIR`", DefaultText: "NAME-explore"},
			&cli.IntFlag{Name: "jobs", Aliases: []string{"j"}, Usage: "run `N` simulations at once",
				DefaultText: "one per core"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print nothing but the page and errors"},
		},
		Action: exactly(1, "name one file", func(c *cli.Context) error {
			collectSeldom()
			x, err := readExploration(c.Args().First())
			if err != nil {
				return exit.Inputf("explore %s: %w", c.Args().First(), err)
			}
			base := filepath.Base(c.Args().First())
			x.jobs = cmp.Or(c.Int("jobs"), runtime.NumCPU())
			x.progress = term.New(c.Bool("quiet"))
			x.out = cmp.Or(c.String("dir"), strings.TrimSuffix(base, filepath.Ext(base))+"-explore")
			if err := os.MkdirAll(x.out, 0o755); err != nil {
				return exit.With(exit.Host, err)
			}
			ctx, stop := exit.OnSignal(c.Context)
			defer stop()
			var page bytes.Buffer
			if err := x.run(ctx, &page); err != nil {
				if ctx.Err() != nil {
					return exit.Stoppedf("explore: stopped; continue with the same command")
				}
				return exit.With(exit.Input, err)
			}
			if _, err = page.WriteTo(c.App.Writer); err == nil && x.failed != nil {
				err = exit.With(exit.TasksFailed, x.failed)
			}
			return err
		}),
	}
}

// split is the seed and the repetitions of a part of an exploration.
type split struct {
	Seed        uint64 `yaml:"seed"`
	Repetitions int    `yaml:"repetitions"`
}

type exploration struct {
	Study       string              `yaml:"study"`
	Experiments []string            `yaml:"experiments"`
	Bounds      map[string][]string `yaml:"bounds"`
	Instead     []map[string]string `yaml:"instead"` // of policies
	Sample      int                 `yaml:"sample"`
	Choose      split               `yaml:"choose"`
	Report      split               `yaml:"report"`

	dir, out string
	jobs     int
	study    *study.Study
	progress *term.Progress
	failed   error // the first experiment with runs that could not be done
}

func readExploration(path string) (*exploration, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	x := &exploration{dir: filepath.Dir(path)}
	if err := study.Decode(text, x); err != nil {
		return nil, err
	}
	if x.Study == "" || len(x.Experiments) == 0 || x.Choose.Seed == 0 || x.Report.Seed == 0 ||
		x.Choose.Seed == x.Report.Seed || x.Choose.Repetitions < 1 || x.Report.Repetitions < 1 {
		return nil, fmt.Errorf("it needs a study, experiments, and choose and report with two seeds and repetitions")
	}
	if err := x.check(); err != nil {
		return nil, err
	}
	if len(x.Instead) == 0 {
		x.Instead = []map[string]string{{}}
	}
	x.study, err = study.Read(filepath.Join(x.dir, x.Study))
	return x, err
}

// check looks for bounds that would change nothing.
func (x *exploration) check() error {
	if x.Sample < 0 {
		return fmt.Errorf("sample is %d, but has to be above 0; without it, all combinations are tried", x.Sample)
	}
	for _, name := range slices.Sorted(maps.Keys(x.Bounds)) {
		if err := scenario.CheckFactor(name); err != nil {
			return fmt.Errorf("bounds: %w", err)
		} else if len(x.Bounds[name]) == 0 {
			return fmt.Errorf("bounds: %s has no values", name)
		}
	}
	policies := slices.Clone(x.Bounds["policy"])
	for _, file := range x.Experiments {
		e, err := readExperiment(filepath.Join(x.dir, file), false, "")
		if err != nil {
			return err
		}
		for _, f := range slices.Concat(e.Blocks...) {
			if f.Name == "policy" {
				policies = append(policies, f.Values...)
			}
		}
	}
	for _, one := range x.Instead {
		for _, name := range slices.Sorted(maps.Keys(one)) {
			if !slices.Contains(policies, name) {
				return fmt.Errorf("instead: no experiment has policy %q; %s", name, spelling.Hint(name, policies))
			}
		}
	}
	return nil
}

// possible is a reading: a combination of values within the bounds.
type possible struct {
	factors []scenario.Factor
	instead map[string]string
}

// describe says in which respects a reading differs from others, or which values all of them have.
func (x *exploration) describe(r *possible, shared bool) string {
	var parts []string
	for _, f := range r.factors {
		if shared == (len(x.Bounds[f.Name]) == 1) {
			parts = append(parts, f.Name+"="+f.Values[0])
		}
	}
	if shared == (len(x.Instead) == 1) {
		for _, name := range slices.Sorted(maps.Keys(r.instead)) {
			parts = append(parts, r.instead[name]+" for "+name)
		}
	}
	return strings.Join(parts, ", ")
}

// readings are all combinations, or as many as the sample says: of each dimension every part comes as often.
func (x *exploration) readings() (out []possible, total int) {
	names := slices.Sorted(maps.Keys(x.Bounds))
	sizes := []int{len(x.Instead)}
	total = len(x.Instead)
	for _, name := range names {
		sizes = append(sizes, len(x.Bounds[name]))
		total *= len(x.Bounds[name])
	}
	n := total
	if x.Sample > 0 {
		n = min(x.Sample, total)
	}
	order := make([][]int, len(sizes)) // by dimension: the stratum of each reading
	r := rand.New(rand.NewPCG(x.Choose.Seed, 0x6578706c6f7265))
	for d := range order {
		order[d] = r.Perm(n)
	}
	for i := range n {
		rest := i
		pick := func(d int) int {
			if n < total {
				return order[d][i] * sizes[d] / n
			}
			k := rest % sizes[d]
			rest /= sizes[d]
			return k
		}
		one := possible{instead: x.Instead[pick(0)]}
		for d, name := range names {
			value := x.Bounds[name][pick(d+1)]
			one.factors = append(one.factors, scenario.Factor{Name: name, Values: []string{value}})
		}
		out = append(out, one)
	}
	return out, total
}

func (x *exploration) run(ctx context.Context, page *bytes.Buffer) error {
	readings, total := x.readings()
	var trials []study.Trial
	for i := range readings {
		x.progress.Note("reading %d of %d", i+1, len(readings))
		t, err := x.try(ctx, &readings[i], x.Choose, "choose")
		if err != nil {
			return err
		}
		trials = append(trials, t)
	}
	fmt.Fprintf(page, "# Readings of %s\n\nChosen with seed %d, %s.\n\n", x.study.Short, x.Choose.Seed,
		term.Plural(x.Choose.Repetitions, "repetition"))
	if n := len(readings); n < total {
		fmt.Fprintf(page, "A Latin hypercube of %d of the %d combinations: others may hold more, and together.\n\n", n,
			total)
	}
	if shared := x.describe(&readings[0], true); shared != "" {
		fmt.Fprintf(page, "All readings have %s.\n\n", shared)
	}
	x.study.WriteTrials(page, trials)
	best := study.Best(trials)
	x.progress.Note("reading %d with seed %d", best+1, x.Report.Seed)
	report, err := x.try(ctx, &readings[best], x.Report, "report")
	if err != nil {
		return err
	}
	fmt.Fprintf(page, "\n## Reading %d with seed %d, %s\n\n", best+1, x.Report.Seed,
		term.Plural(x.Report.Repetitions, "repetition"))
	x.study.WriteTrials(page, []study.Trial{report})
	return nil
}

// try runs the experiments under a reading, and judges the statements. Readings of one part share runs.
func (x *exploration) try(ctx context.Context, r *possible, s split, part string) (study.Trial, error) {
	var sets []*results.Set
	for _, file := range x.Experiments {
		path := filepath.Join(x.dir, file)
		e, err := readExperiment(path, false, "")
		if err != nil {
			return study.Trial{}, err
		}
		e.Read(s.Seed, s.Repetitions, r.factors, r.instead)
		out := filepath.Join(x.out, part+"-"+strings.TrimSuffix(filepath.Base(file), ".yaml")+".sqlite")
		db, err := results.Create(out, results.Info{Name: e.Name, Title: e.Title, Source: path,
			Version: release.Build(), Settings: map[string]any{"seed": s.Seed},
			Repetitions: e.Repetitions})
		if err != nil {
			return study.Trial{}, err
		}
		view := &experimentView{Progress: x.progress}
		err = (&experiment.Runner{File: e, Jobs: x.jobs, Store: db, Report: view.report}).Run(ctx)
		view.End()
		if err = cmp.Or(err, db.Close()); err != nil {
			return study.Trial{}, err
		}
		if n := view.last.Failed; n > 0 && x.failed == nil {
			x.failed = fmt.Errorf("%s: %s could not be done, which the page leaves out; the first: %s", path,
				term.Plural(n, "run"), view.failed)
		}
		set, err := results.Load(ctx, out)
		if err != nil {
			return study.Trial{}, err
		}
		sets = append(sets, set)
	}
	return x.study.Try(cmp.Or(x.describe(r, false), "policies as they are"), sets,
		map[string]map[string]string{"policy": r.instead})
}
