// Package trial performs the repetitions of an experiment as runs: in containers, or simulated as this host runs them.
// Each is a run of the log. One that was interrupted, or that other programs disturbed, is done again.
package trial

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"gantry/cmd/gantry/early"
	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/session"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/executor/container/fetch"
	"gantry/executor/container/slurm/allocation"
	"gantry/executor/experiment"
	"gantry/executor/experiment/load"
	"gantry/executor/experiment/metrics"
	"gantry/executor/sim/calibrate"
	"gantry/executor/sim/hostmodel"
	"gantry/sqlite"
	"gantry/trace/generate"
	"gantry/trace/scenario"
)

// Bench performs the runs of an experiment on this host.
type Bench struct {
	Home  string // the directory of runs, absolute
	File  *scenario.Experiment
	Model *hostmodel.Model // of this host; nil: it was not measured
	// Any lets a cluster have more cores or memory than the host.
	Any bool
	Say func(format string, args ...any) // tells people
	// Remove removes a run of the log with its files.
	Remove func(ctx context.Context, run string) error

	told map[string]bool // workloads of short tasks
}

// Prepare finds the runtimes that the experiment names, and the model of this host. Without one there are no
// predictions.
func (b *Bench) Prepare(ctx context.Context) error {
	names, real := b.File.Runtimes(), []string(nil)
	for _, name := range names {
		if name == scenario.Predicted || name == session.Simulation.Name {
			continue
		}
		real = append(real, name)
		if all := session.RuntimeNames(session.RealTime); !slices.Contains(all, name) {
			return exit.Usagef("runtime %q: choose one of %s, %s or %s", name, strings.Join(all, ", "),
				session.Simulation.Name, scenario.Predicted)
		}
		if session.OnNodes(name) {
			if _, inside, err := allocation.Inside(ctx); err != nil {
				return exit.With(exit.Host, err)
			} else if !inside {
				return exit.Usagef("runtime %s: gantry does not run in an allocation of Slurm: begin the experiment "+
					"in one (salloc, sbatch), with a node for each of its cluster", name)
			}
			continue
		}
		if err := session.Enter(name); err != nil {
			return err
		}
		var err error
		b.Model, err = session.StoredHostModel(ctx, b.Home, name, "")
		if err != nil && !errors.Is(err, hostmodel.ErrNone) {
			b.Say("the host model is not used: %v", err)
		}
	}
	if len(real) != 1 && slices.Contains(names, scenario.Predicted) {
		return exit.Usagef("runtime %s: name one runtime of containers beside it, whose model predicts: there are %d",
			scenario.Predicted, len(real))
	}
	if b.Model == nil && slices.Contains(names, scenario.Predicted) {
		if b.File.Runtime == "" {
			return exit.Inputf("runtime %s: %s: gantry calibrate measures it", scenario.Predicted, session.NotMeasured)
		}
		b.Say("%s: runs are not predicted; gantry calibrate --runtime %s measures it", session.NotMeasured,
			b.File.Runtime)
		b.File.On(b.File.Runtime)
	}
	return nil
}

// Suits is experiment.Runner.Suits. It announces tasks that are so short that starting them takes longer.
func (b *Bench) Suits(c *experiment.Cell) error {
	spec := c.Spec(b.File, 0)
	if spec.Runtime == session.Simulation.Name || spec.Runtime == scenario.Predicted {
		return nil
	}
	executor.FillDisk(spec.Cluster)
	if err := session.CheckHost(spec.Cluster, b.Any || session.OnNodes(spec.Runtime)); err != nil {
		return err
	}
	p, err := executor.PlatformOf(spec.Cluster)
	if err != nil {
		return err
	}
	l := &load.Loader{Platform: p, Count: few, TimeScale: spec.TimeScale}
	subs, err := l.Workload(spec.Workload, 0)
	var total time.Duration
	tasks := 0
	for i := 0; i < min(few, len(subs)) && err == nil; i++ {
		if err = subs[i].Make(); err == nil {
			total += generate.Total(subs[i].Workflow)
			tasks += len(subs[i].Workflow.Tasks)
		}
	}
	mean := time.Duration(float64(total) / float64(max(1, tasks)) * spec.TimeScale)
	start := usualStart
	if b.Model != nil {
		start = b.Model.Overhead(1, 1)
	}
	key := fmt.Sprint(spec.Workload.Source, spec.TimeScale)
	if err != nil || mean <= 0 || mean > start || b.told[key] {
		return err
	}
	if b.told == nil {
		b.told = map[string]bool{}
	}
	b.told[key] = true
	b.Say("tasks of %s take %v on average at time_scale %g, and starting a container takes %v: with time_scale %.2g "+
		"tasks take ten times as long as that", spec.Workload.Source, mean.Round(time.Millisecond), spec.TimeScale,
		start.Round(time.Millisecond), spec.TimeScale*float64(10*start)/float64(mean))
	return nil
}

const (
	few        = 3                      // workflows say how long tasks are
	usualStart = 150 * time.Millisecond // of a container
)

// most is how often a repetition is done before the host counts as too busy.
const most = 3

// Perform is experiment.Runner.Perform. Its error wraps context.Canceled if a signal stopped the run.
func (b *Bench) Perform(ctx context.Context, c *experiment.Cell, repetition int) (*experiment.Outcome, error) {
	begun, spec := time.Now(), c.Spec(b.File, repetition)
	out := &experiment.Outcome{Cell: c, Repetition: repetition, State: experiment.Done}
	name := b.name(c, repetition)
	for try := 1; ; try++ {
		quiet, err := b.run(ctx, name, &spec, repetition, out)
		out.Took = time.Since(begun)
		if err != nil || quiet {
			return out, err
		}
		if err := b.Remove(ctx, name); err != nil {
			return nil, err
		}
		if try == most {
			out.State, out.Message = experiment.Failed, fmt.Sprintf("other programs used %.2f cores beside each of %d "+
				"runs, more than %.2f (limit, busy): end them, or raise the limit", out.Values[len(out.Values)-1].Value,
				most, b.File.Busy)
			out.Values, out.Workflows, out.Series = nil, nil, nil
			return out, nil
		}
	}
}

// odd are characters that names of runs have not.
var odd = regexp.MustCompile(`[^A-Za-z0-9._-]`)

// name is the name of a run: that of the experiment as far as runs may have it, a digest of the cell, the repetition.
func (b *Bench) name(c *experiment.Cell, repetition int) string {
	plain := odd.ReplaceAllString(b.File.Name, "-")
	sum := sha256.Sum256([]byte(b.File.Name + "\x00" + c.Key()))
	return fmt.Sprintf("%.60s-%s-%d", strings.TrimLeft(plain, "."), hex.EncodeToString(sum[:4]), repetition+1)
}

// run does the run, and takes its metrics. Quiet says that no other program disturbed it.
func (b *Bench) run(ctx context.Context, name string, spec *experiment.Spec, repetition int,
	out *experiment.Outcome) (quiet bool, err error) {
	set := b.settings(spec, repetition)
	meter, engine, own := calibrate.Meter(), session.EngineCPU(), calibrate.OwnCPU()
	// A signal is the run's while it is under way: its tasks may end.
	restore := early.Cancel(nil)
	if ctx.Err() != nil {
		restore()
		return false, context.Cause(ctx)
	}
	err = b.drive(context.WithoutCancel(ctx), name, set, spec)
	restore()
	code := exit.CodeOf(err)
	if code == exit.Interrupted || early.Came() { // as the last task ended, perhaps: such a run ends well
		return false, fmt.Errorf("run %s: %w", name, context.Canceled)
	}
	switch code {
	case exit.OK, exit.TasksFailed:
	case exit.Input, exit.Usage:
		out.State, out.Message = experiment.Failed, err.Error()
		return true, nil
	default:
		return false, fmt.Errorf("run %s: %w", name, err)
	}
	tasks, err := b.measure(ctx, name, out)
	if err != nil || session.Capabilities(set.Runtime).Virtual {
		return true, err
	}
	if session.OnNodes(set.Runtime) { // others use the nodes of Slurm as it lets them
		return true, new(session.Cleaning).RemoveFiles(ctx, b.Home, name, false)
	}
	meter.Less(tasks + max(0, session.EngineCPU()-engine) + calibrate.OwnCPU() - own)
	busy, _ := meter.Read()
	out.Values = append(out.Values, metrics.Value{Name: "busy_cores", Value: busy})
	err = new(session.Cleaning).RemoveFiles(ctx, b.Home, name, false)
	return busy <= b.File.Busy, err
}

// drive begins a run. One of this name, which an experiment did not measure to its end, is removed before: the time in
// which it stood still would count.
func (b *Bench) drive(ctx context.Context, name string, set *session.Settings, spec *experiment.Spec) error {
	o := session.Options{Home: b.Home, Name: name, View: term.New(true), Cluster: true, Placed: true}
	o.ReadAs = func(_ *session.Settings, in *session.Inputs) error {
		in.Alone, in.Preempt = spec.Workload, func([]executor.Submission) error { return nil }
		return nil
	}
	s := session.New(set, o)
	defer s.Close()
	mode := sqlite.Durable
	if session.Capabilities(set.Runtime).Virtual {
		mode = sqlite.Bulk
	}
	if err := s.OpenLog(mode); err != nil {
		return err
	}
	_, err := s.DB.Overview(ctx, name)
	if err == nil {
		err = b.Remove(ctx, name)
	} else if errors.As(err, new(*sqlite.Unknown)) {
		err = nil
	}
	if err == nil {
		_, err = s.Begin(ctx, mode, &session.Inputs{})
	}
	return session.LogError(err)
}

// settings are those of gantry run, or of gantry simulate, for a repetition.
func (b *Bench) settings(spec *experiment.Spec, repetition int) *session.Settings {
	set := &session.Settings{Runtime: spec.Runtime, Policy: spec.Policy, Seed: spec.Seed, Repetition: repetition + 1,
		TimeScale: spec.TimeScale, SizeScale: spec.SizeScale, Errors: spec.Errors, Estimator: spec.Estimator,
		Faults: spec.Faults, Startup: spec.Startup, StartupGiven: spec.Startup > 0, Cluster: spec.Cluster,
		Tokens: spec.Cluster.Resources, Grace: 10 * time.Second, Pull: string(fetch.PullMissing)}
	executor.FillDisk(set.Cluster)
	if set.Host = b.Model; spec.Runtime == session.Simulation.Name {
		set.Host = nil
	}
	if spec.Runtime == scenario.Predicted {
		set.Runtime = session.Simulation.Name
	}
	if cores, _, err := session.HostSize(); err == nil {
		set.Starts = executor.Starts(cores)
	}
	return set
}

// measure takes the metrics of a run from its log. It returns the CPU time of its tasks.
func (b *Bench) measure(ctx context.Context, name string, out *experiment.Outcome) (tasks time.Duration, err error) {
	db, err := session.OpenToWrite(b.Home)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	info, err := db.Info(ctx, name)
	if err != nil {
		return 0, session.LogError(err)
	}
	collector, window, err := session.MeasureLog(ctx, db, info)
	if err != nil {
		return 0, session.LogError(err)
	}
	out.Values, out.Workflows, out.Series = collector.Run(window), nil, nil
	if b.File.KeepWorkflows {
		for _, w := range collector.Counted(window) {
			out.Workflows = append(out.Workflows, *w)
		}
	}
	if b.File.KeepSeries {
		out.Series = collector.InSystem().Thin(experiment.SeriesPoints)
	}
	tasks, err = sqlite.RowOf[time.Duration](ctx, db, `SELECT coalesce(sum(cpu_user_ns + cpu_system_ns), 0)
		FROM attempts WHERE run = (SELECT id FROM runs WHERE name = ?)`, name)
	return tasks, session.LogError(err)
}
