package cmd

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gantry/cmd/internal/session"

	"github.com/urfave/cli/v2"

	release "gantry"
	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/executor/experiment/load"
	"gantry/executor/own"
	"gantry/planner/predict"
	"gantry/planner/unit"
	"gantry/sqlite"
	"gantry/sqlite/report/columns"
	"gantry/trace"
)

func predictCommand() *cli.Command {
	return &cli.Command{
		Name:      "predict",
		Usage:     "train models of runtimes and memory on measurements of earlier runs",
		ArgsUsage: "[train | ls | show [MODEL] | [--] [OPTION OF RUN...] WORKFLOW]",
		Description: `Trains a model on the runs in the log, prints its errors on the latest runs when trained on the
others, and keeps it in the log, trained on all, as the next version of its name. For every task type it tries the
median (history), a line through the measurements of inputs of about that size, and from 16 measurements on ridge
regression, beside the declared runtime. Ridge regression also knows cores, memory, the speed of the node, and the
number of running tasks. It picks the one with the smallest cross-validated error; with fewer than 16 measurements, the
one that predicts that of the largest input best by the others.

   gantry predict                               train, evaluate and keep
   gantry predict --held-out 3                  evaluate on the three latest runs
   gantry predict --log other/gantry.sqlite     also learn from another log
   gantry predict --trace trace.txt             learn from a run of Nextflow
   gantry predict --small s1 --small s2 w.dax   learn from two runs of samples, and
                                                predict the whole
   gantry predict --small s1 --policies heft,gbf --nodes 1,2,8 -- --inputs data --image biocontainers/bwa w.makeflow
   gantry predict ls                            list the models of the log
   gantry predict show [MODEL[@VERSION]]        training data and errors of a model
   gantry run --estimator trained montage.dax   plan with the latest model

With --small and a workflow a table has the makespan to expect of the whole, with an interval of 80 %, by policy and
number of nodes: those of the cluster file, or this host, again and again. Options of gantry run stand after "--".

Only runs on one runtime and at one time and size scale go together: those of the latest run, unless options say
otherwise. Errors are means of |predicted - measured| / measured; "in 90 %" is the share of measurements within their
predicted 90 % interval, "left at half" the error of the time that was left when half of a task's time was over. The
method mean is the mean measurement of a type, to compare with. By task type: "runtime by", "left by" and
"memory by" are the methods that were picked. In ls, "of declared" and "of the mean" are the runtime errors of these.

Exit codes: 0 trained or listed, 2 wrong command line, 3 no log, no such model, nothing to learn from, 4 the log
cannot be read or written.`,
		Flags: []cli.Flag{dirFlag(),
			&cli.StringFlag{Name: "model", Value: "default", Usage: "`NAME` of the model"},
			&cli.IntFlag{Name: "held-out", Usage: "evaluate on the `N` latest runs (default: a fifth of the runs)"},
			&cli.StringSliceFlag{Name: "small", Usage: "learn from `RUN` alone, a run of a sample of the input, to " +
				"predict the whole; repeat it for further samples"},
			&cli.StringSliceFlag{Name: "policies", Value: cli.NewStringSlice("cpp", "heft", "gbf"), Usage: "with a " +
				"workflow: predict it under each `POLICY` (may be repeated)"},
			&cli.StringSliceFlag{Name: "nodes", Value: cli.NewStringSlice("1", "2", "4"), Usage: "with a workflow: " +
				"predict it on each number `N` of nodes (may be repeated)"},
			&cli.StringSliceFlag{Name: "log", Usage: "also learn from the runs of the log `FILE`"},
			&cli.StringSliceFlag{Name: "trace", Usage: "also learn from the runtimes and peaks in `FILE`, a trace of " +
				"any format, such as trace.txt of Nextflow, or a directory of such files"},
			&cli.StringFlag{Name: "runtime", Usage: "learn from runs on `RUNTIME`, one of " +
				strings.Join(session.RuntimeNames(session.AnyRuntime), ", ") + " (default: that of the latest run)"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
		},
		Action: func(c *cli.Context) error {
			switch verb := c.Args().First(); {
			case verb == "" || verb == "train" && c.NArg() == 1:
				return trainModel(c, nil)
			case c.IsSet("small"):
				return trainModel(c, c.Args().Slice())
			case verb == "ls" && c.NArg() == 1:
				return onLog(listModels)(c)
			case verb == "show" && c.NArg() <= 2:
				return onLog(showModel)(c)
			}
			return exit.Usagef("gantry predict %s: write gantry predict train, ls or show MODEL",
				strings.Join(c.Args().Slice(), " "))
		},
	}
}

// trainModel trains, and predicts the whole that the arguments name, if any.
func trainModel(c *cli.Context, of []string) error {
	name := c.String("model")
	switch {
	case name != executor.EscapeName(name):
		return exit.Usagef("--model %s: letters, digits, _, - and . only", name)
	case of == nil && (c.IsSet("policies") || c.IsSet("nodes")):
		return exit.Usagef("--policies and --nodes are for the whole: name runs of samples with --small, and its " +
			"workflow")
	case c.IsSet("runtime") && !slices.Contains(session.RuntimeNames(session.AnyRuntime), c.String("runtime")):
		return exit.Usagef("--runtime %s: choose one of %s", c.String("runtime"),
			strings.Join(session.RuntimeNames(session.AnyRuntime), ", "))
	}
	runs, left, err := trainingRuns(c)
	if err != nil {
		return err
	}
	held := c.Int("held-out")
	if !c.IsSet("held-out") && len(runs) > 1 {
		held = max(1, len(runs)/5)
	}
	if held >= len(runs) && held > 0 {
		return exit.Usagef("--held-out %d: of %s to learn from one at least has to be left to train on",
			held, term.Plural(len(runs), "run"))
	}
	split := len(runs) - held
	m := &sqlite.TrainedModel{Name: name, Method: predict.Auto, Created: time.Now(), Gantry: release.Build(),
		Runtime: runs[0].Runtime, TimeScale: runs[0].TimeScale,
		SizeScale: runs[0].SizeScale, LeftOut: left, Runs: []string{}, HeldOut: []string{},
		Scores: []predict.Score{}}
	for _, r := range runs {
		m.Runs = append(m.Runs, r.Name)
	}
	m.HeldOut = append(m.HeldOut, m.Runs[split:]...)
	if held > 0 {
		m.Scores = predict.Fit(samplesOf(runs[:split], mostSamples)).Evaluate(samplesOf(runs[split:], 0))
	}
	all := samplesOf(runs, mostSamples)
	for why, n := range predict.Doubts(all) {
		left[why] += n
	}
	m.Samples, m.Model = len(all), predict.Fit(all).Model(m.Method)
	if err := storeModel(c, m); err != nil {
		return err
	}
	var whole []expected
	if of != nil {
		if whole, err = predictWhole(c, "trained:"+m.Reference(), of); err != nil {
			return err
		}
	}
	if asJSON(c, struct {
		*sqlite.TrainedModel
		Whole []expected `json:"whole,omitempty"`
	}{m, whole}) {
		return nil
	}
	printModel(c, m)
	printChoices(c, whole)
	fmt.Fprintf(c.App.Writer, "Kept as %s: gantry run --estimator trained:%s plans with it.\n", m.Reference(), name)
	return nil
}

// expected is a policy and a number of nodes, and the makespan to expect with it.
type expected struct {
	Policy   string       `json:"policy"`
	Nodes    int          `json:"nodes"`
	Makespan *sqlite.Span `json:"makespan_s"` // null: not known
	Low      *sqlite.Span `json:"makespan_low_s"`
	High     *sqlite.Span `json:"makespan_high_s"`
	Why      string       `json:"why,omitempty"` // it is not known
}

// predictWhole predicts the run that the arguments name, as those of gantry run, by policy and number of nodes.
func predictWhole(c *cli.Context, estimator string, of []string) (out []expected, err error) {
	policies, numbers := policiesIn(c.StringSlice("policies")), separated(c.StringSlice("nodes"))
	run := runCommand()
	run.Before, run.HideHelpCommand, run.OnUsageError = withinBounds, true, c.Command.OnUsageError
	run.Action = func(rc *cli.Context) error {
		set, err := enter(rc)
		if err != nil {
			return err
		}
		for _, number := range numbers {
			n, err := strconv.Atoi(number)
			if err != nil || n < 1 || n > 10_000 {
				return exit.Usagef("--nodes %s: give numbers from 1 to 10000", number)
			}
			for _, policy := range policies {
				x, err := predictChoice(rc, set, policy, n)
				if err != nil {
					return fmt.Errorf("predict the whole under %s on %s: %w", policy, term.Plural(n, "node"), err)
				}
				out = append(out, x)
			}
		}
		return nil
	}
	args := slices.Concat([]string{"", "run", "--dry-run", "--quiet", "--estimator", estimator, "--dir",
		c.String("dir")}, of)
	fresh := cli.NewContext(c.App, nil, c) // it gets the options of run
	fresh.Command = run
	err = run.Run(fresh, interspersed(args, []*cli.Command{run})[1:]...)
	return out, err
}

func predictChoice(c *cli.Context, given *session.Settings, policy string, n int) (x expected, err error) {
	set, cluster := *given, *given.Cluster
	set.Policy, set.Cluster, cluster.Nodes = own.In(".", policy), &cluster, nil
	for i := range n {
		node := given.Cluster.Nodes[i%len(given.Cluster.Nodes)]
		if turn := i / len(given.Cluster.Nodes); turn > 0 {
			node.Name = fmt.Sprintf("%s-%d", node.Name, turn+1)
		}
		cluster.Nodes = append(cluster.Nodes, node)
	}
	s := session.New(&set, sessionOptions(c, ""))
	defer s.Close()
	d, err := s.Begin(c.Context, sqlite.Durable, &session.Inputs{Paths: c.Args().Slice()})
	if err != nil {
		return x, err
	}
	x = expected{policy, n, d.Makespan, d.Low, d.High, ""}
	if x.Makespan == nil {
		x.Why = d.Expected
	}
	return x, nil
}

func printChoices(c *cli.Context, of []expected) {
	if len(of) == 0 {
		return
	}
	columns.List(c.App.Writer, of, 0, "-nodes|policy|-makespan|-80 %: from|-to", func(x expected) []any {
		return []any{x.Nodes, x.Policy, x.Makespan, x.Low, x.High}
	})
	if why := of[0].Why; why != "" {
		fmt.Fprintln(c.App.Writer, why)
	}
}

func storeModel(c *cli.Context, m *sqlite.TrainedModel) error {
	s := session.New(nil, session.Options{Home: homeOf(c)})
	defer s.Close()
	if err := s.OpenLog(sqlite.Durable); err != nil {
		return err
	}
	return exit.Or(exit.Host, s.DB.KeepModel(c.Context, m))
}

// trainingRuns reads the runs of the logs that go together: by time, on the runtime and at the scales of the latest
// run.
func trainingRuns(c *cli.Context) ([]trainingRun, map[string]int, error) {
	all, err := candidates(c)
	if err != nil {
		return nil, nil, err
	}
	if small := c.StringSlice("small"); len(small) > 0 {
		of := slices.Clone(all)
		all = nil
		for _, name := range small {
			i := slices.IndexFunc(of, func(r trainingRun) bool { return r.Name == name })
			if i < 0 {
				return nil, nil, exit.Inputf("--small %s: the log has no such run with attempts", name)
			}
			all = append(all, of[i])
		}
	}
	slices.SortStableFunc(all, func(a, b trainingRun) int { return a.Started.Compare(b.Started) })
	all = slices.CompactFunc(all, func(a, b trainingRun) bool { // a run, log or trace may be given twice
		name := func(r trainingRun) string { return r.Name[strings.LastIndexByte(r.Name, ':')+1:] }
		return a.Started.Equal(b.Started) && name(a) == name(b)
	})
	left := map[string]int{}
	var kept []trainingRun
	for _, r := range slices.Backward(all) {
		if len(kept) > 0 && (r.Runtime != kept[0].Runtime || r.TimeScale != kept[0].TimeScale ||
			r.SizeScale != kept[0].SizeScale) {
			left["are of runs on another runtime or at another scale"] += len(r.Samples)
			continue
		}
		for why, n := range r.LeftOut {
			left[why] += n
		}
		if len(r.Samples) > 0 {
			kept = append(kept, r)
		}
	}
	slices.Reverse(kept)
	if len(kept) == 0 {
		where := "the log has"
		if on := c.String("runtime"); on != "" {
			where = "of the runs on " + on + ", the log has"
		}
		return nil, nil, exit.Inputf("there is nothing to learn from: %s no attempt that ended well%s", where,
			leftOut(left))
	}
	return kept, left, nil
}

func candidates(c *cli.Context) ([]trainingRun, error) {
	var all []trainingRun
	traces, logs := c.StringSlice("trace"), c.StringSlice("log")
	here := filepath.Join(c.String("dir"), sqlite.FileName)
	if _, err := os.Stat(here); len(traces) == 0 || !errors.Is(err, fs.ErrNotExist) {
		logs = append([]string{here}, logs...)
	}
	for _, path := range logs {
		db, err := sqlite.Open(path, sqlite.ReadOnly)
		if err != nil {
			return nil, session.LogError(err)
		}
		runs, err := trainingOf(c.Context, db, c.String("runtime"))
		if err = cmp.Or(err, db.Close()); err != nil {
			return nil, session.LogError(err)
		}
		for k := range runs {
			if path != here {
				runs[k].Name = path + ":" + runs[k].Name
			}
		}
		all = append(all, runs...)
	}
	for _, path := range traces {
		run, err := traceTraining(path, cmp.Or(c.String("runtime"), session.UsualRuntime.Name))
		if err != nil {
			return nil, exit.With(exit.Input, err)
		}
		all = append(all, run)
	}
	return all, nil
}

// traceTraining takes what a trace, or a directory of them, measured as if it were a run: on nodes of speed 1.
func traceTraining(path, runtime string) (run trainingRun, err error) {
	run = trainingRun{Name: path, Runtime: runtime, TimeScale: 1, SizeScale: 1, LeftOut: map[string]int{}}
	files, _, err := trace.Find([]string{path})
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			return run, trace.Plain(err)
		}
		run.Started = info.ModTime()
		if err := traceSamples(&run, file); err != nil {
			return run, trace.Plain(err)
		}
	}
	return run, trace.Plain(err)
}

func traceSamples(run *trainingRun, file string) error {
	w, faults, err := trace.Open(file, trace.ReadOptions{Repair: true})
	if err == nil {
		w, err = (&load.Loader{}).Checked(file, w, faults)
	}
	if err != nil {
		return err
	}
	for _, f := range faults {
		if f.Rule == "unwell" {
			run.LeftOut[unwell] += f.Count
		} else if f.Repaired {
			run.LeftOut[misread] += f.Count
		}
	}
	for i := range w.Tasks {
		t := &w.Tasks[i]
		if !t.Known.Has(trace.Runtime) || t.Runtime <= 0 {
			run.LeftOut[timeless]++
			continue
		}
		input := int64(0)
		for _, f := range t.Inputs {
			input += w.Files[f].Size
		}
		if len(t.Inputs) == 0 {
			input = t.ReadBytes
		}
		s := predict.Sample{Kind: t.Kind, Ran: t.Runtime, Features: predict.Features{Input: unit.Bytes(input),
			CPU: int64(t.Cores * 1000), Speed: 1}}
		if t.Known.Has(trace.Memory) {
			s.Peak = unit.Bytes(t.MemoryBytes)
		}
		run.Samples = append(run.Samples, s)
	}
	return nil
}

// mostSamples bounds the measurements of each task type that a model is trained on: the latest.
const mostSamples = 1000

// samplesOf joins the samples of runs, of each kind at most the given number of latest ones; 0 is all.
func samplesOf(runs []trainingRun, latest int) (out []predict.Sample) {
	left := map[string]int{}
	for _, r := range slices.Backward(runs) {
		for _, s := range slices.Backward(r.Samples) {
			if left[s.Kind]++; latest == 0 || left[s.Kind] <= latest {
				out = append(out, s)
			}
		}
	}
	slices.Reverse(out)
	return out
}

// leftOut names attempts that tell nothing, and says why; "" if there are none.
func leftOut(left map[string]int) string {
	var parts []string
	for _, why := range slices.Sorted(maps.Keys(left)) {
		if left[why] > 0 {
			parts = append(parts, fmt.Sprintf("%d that %s", left[why], why))
		}
	}
	if parts == nil {
		return ""
	}
	return "; attempts left out or taken otherwise: " + strings.Join(parts, ", ")
}

func printModel(c *cli.Context, m *sqlite.TrainedModel) {
	w := c.App.Writer
	fmt.Fprintf(w, "Trained on %s of %s (%s, time scale %g, size scale %g)", term.Plural(m.Samples, "attempt"),
		term.Plural(len(m.Runs), "run"), m.Runtime, m.TimeScale, m.SizeScale)
	if len(m.HeldOut) > 0 {
		fmt.Fprintf(w, ";\nevaluated on the latest %d of them, trained on the others: %s", len(m.HeldOut),
			term.NamesOf(m.HeldOut, 5))
	} else {
		fmt.Fprint(w, "; to evaluate it on later runs there have to be some")
	}
	fmt.Fprint(w, leftOut(m.LeftOut))
	fmt.Fprint(w, "\n\n")
	columns.List(w, m.Scores, 0, "predicted by|-tasks|-runtime error|-in 90 %|-left at half|-memory error",
		func(s predict.Score) []any {
			return []any{s.By, s.Samples, term.Tenths(s.Runtime), term.Tenths(s.Covered), term.Tenths(s.Remaining),
				term.Tenths(s.Memory)}
		})
	if m.Model == nil {
		return
	}
	const titles = "type|-attempts|runtime by|cross-validated errors|left by|memory by"
	columns.List(w, m.Model.KindNames(), 0, titles, func(name string) []any {
		k := m.Model.Kinds[name]
		var errs []string
		for _, method := range predict.Methods() {
			if e, ok := k.Errors[method]; ok {
				errs = append(errs, fmt.Sprintf("%s %.1f %%", method, e))
			}
		}
		return []any{name, k.Samples, k.Picked, strings.Join(errs, ", "), k.RemainingPicked,
			cmp.Or(k.MemoryPicked, "-")}
	})
}

func listModels(c *cli.Context, db *sqlite.DB) error {
	models, err := db.Models(c.Context)
	if err != nil {
		return err
	}
	if asJSON(c, models) {
		return nil
	}
	columns.List(c.App.Writer, models, 0, "model|method|-runs|-attempts|runtime|-time scale|-held out|-runtime error|"+
		"-of declared|-of the mean|trained", func(m sqlite.TrainedModel) []any {
		by := map[predict.Method]*float64{}
		for _, s := range m.Scores {
			by[s.By] = s.Runtime
		}
		return []any{m.Reference(), m.Method, len(m.Runs), m.Samples, m.Runtime, m.TimeScale, len(m.HeldOut),
			term.Tenths(by[m.Method]), term.Tenths(by[predict.ByDeclared]), term.Tenths(by[predict.MeanOf]),
			m.Created.Local().Format(time.DateTime)}
	})
	return nil
}

func showModel(c *cli.Context, db *sqlite.DB) error {
	m, err := db.FindModel(c.Context, c.Args().Get(1))
	if err != nil {
		return err
	}
	if asJSON(c, m) {
		return nil
	}
	fmt.Fprintf(c.App.Writer, "Model %s, method %s, by gantry %s at %s\n", m.Reference(), m.Method, m.Gantry,
		m.Created.Local().Format(time.DateTime))
	fmt.Fprintf(c.App.Writer, "Features: %s\nRuns: %s\n", strings.Join(m.Model.Features, ", "), term.NamesOf(m.Runs, 5))
	printModel(c, m)
	return nil
}
