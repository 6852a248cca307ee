package experiment

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"time"

	"gantry/executor"
	"gantry/executor/experiment/metrics"
	"gantry/trace/scenario"
)

// Store keeps outcomes. Its methods are called from one goroutine at a time.
type Store interface {
	// Plan says which cells there are, in order. Cells that are searched for come one by one, in any order.
	Plan(ctx context.Context, cells []*Cell) error
	// Kept returns the outcome of a run that was kept earlier, its verdicts of stability at least; nil if there is
	// none.
	Kept(ctx context.Context, c *Cell, repetition int) (*Outcome, error)
	// Keep keeps an outcome, all of it or nothing.
	Keep(ctx context.Context, o *Outcome) error
	// Found keeps the end of a search: the largest value at which the system is stable, "" if it is at none.
	Found(ctx context.Context, group []Param, parameter, value string) error
}

// Progress is how far an experiment is.
type Progress struct {
	Runs, Done, Kept int // Done counts those of Runs that are done, Kept those of them that were kept earlier
	Diverged, Failed int
	Left             time.Duration // an estimate; 0 as long as there is none
	Last             *Outcome      // the last outcome; nil at the beginning
}

// Runner runs an experiment.
type Runner struct {
	File  *scenario.Experiment
	Store Store
	Jobs  int // runs at once; 0: one per core
	// Repetitions, if above 0, are the most that are run of each combination, even if File asks for more.
	Repetitions int
	Report      func(Progress)
	// Perform runs a repetition of a cell on its runtime; one at a time.
	Perform func(ctx context.Context, c *Cell, repetition int) (*Outcome, error)
	// Suits says why this host cannot perform a cell; nil: it can.
	Suits func(c *Cell) error

	mu       sync.Mutex
	progress Progress
	begun    time.Time
	left     map[string]int    // runs to be done by policy; of a search nobody knows
	took     map[string]effort // of those that were done now, by policy
	loads    cache
	slots    chan struct{}
}

// effort is a number of runs and their time.
type effort struct {
	runs int
	took time.Duration
}

// job is one run.
type job struct {
	cell       *Cell
	repetition int
}

// Run runs all that the store does not have yet. When ctx is cancelled it returns its error soon; runs that were under
// way leave nothing. Faults of the files are found before anything runs.
func (r *Runner) Run(ctx context.Context) error {
	if r.Jobs < 1 {
		r.Jobs = runtime.NumCPU()
	}
	r.slots = make(chan struct{}, r.Jobs)
	r.loads.size = r.Jobs + 1
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p := newPlan(r.File)
	groups, cells, err := p.cells()
	if err != nil {
		return err
	}
	var jobs []job
	for rep := range r.repetitions() {
		for _, c := range cells {
			jobs = append(jobs, job{c, rep})
		}
	}
	// Runs of the same load follow one another: it is drawn once for them.
	position := map[*workload]int{}
	for _, c := range cells {
		if _, ok := position[c.load]; !ok {
			position[c.load] = len(position)
		}
	}
	slices.SortStableFunc(jobs, func(a, b job) int { return position[a.cell.load] - position[b.cell.load] })
	real := alternate(jobs)
	jobs = slices.DeleteFunc(jobs, func(j job) bool { return j.cell.runtime != "" })
	r.begun = time.Now()
	r.progress = Progress{Runs: len(jobs) + len(real)}
	r.left, r.took = map[string]int{}, map[string]effort{}
	for _, j := range slices.Concat(jobs, real) {
		r.left[j.cell.policy]++
	}
	if s := r.File.Search; s != nil {
		r.progress.Runs = len(groups) * bits.Len(uint(len(s.Values()))) * r.repetitions() // at most: it bisects
	} else if err := r.Store.Plan(ctx, cells); err != nil {
		return err
	}
	r.report(nil)
	if r.File.Search == nil {
		if _, err = r.all(ctx, cancel, jobs); err == nil {
			err = r.perform(ctx, real)
		}
		return err
	}
	return r.search(ctx, cancel, p, groups)
}

// alternate puts runs on runtimes in order: all cells of a repetition of a load, in every other repetition the last one
// first. So a host that becomes slower favours none (ABBA).
func alternate(jobs []job) (real []job) {
	for i := 0; i < len(jobs); {
		n := i
		for n < len(jobs) && jobs[n].cell.load == jobs[i].cell.load && jobs[n].repetition == jobs[i].repetition {
			n++
		}
		turn := slices.Clone(jobs[i:n])
		if jobs[i].repetition%2 == 1 {
			slices.Reverse(turn)
		}
		real = append(real, turn...)
		i = n
	}
	return slices.DeleteFunc(real, func(j job) bool { return j.cell.runtime == "" })
}

// perform runs jobs on their runtimes, one after the other.
func (r *Runner) perform(ctx context.Context, jobs []job) error {
	for _, j := range jobs {
		kept, err := r.kept(ctx, j)
		if err == nil && kept == nil && ctx.Err() == nil {
			if kept, err = r.Perform(ctx, j.cell, j.repetition); err == nil {
				err = r.keep(ctx, kept)
			}
		}
		if err := cmp.Or(err, context.Cause(ctx)); err != nil {
			return err
		}
	}
	return nil
}

func (r *Runner) repetitions() int {
	if r.Repetitions > 0 {
		return min(r.Repetitions, r.File.Repetitions)
	}
	return r.File.Repetitions
}

// Check finds the faults of an experiment, of the files it names and of the values of its factors, without running
// anything.
func (r *Runner) Check() error {
	p := newPlan(r.File)
	_, cells, err := p.cells()
	if err != nil {
		return err
	}
	for _, c := range cells {
		if c.runtime == "" || r.Suits == nil {
			continue
		}
		if err := r.Suits(c); err != nil {
			return p.fail(c, "cluster", err)
		}
	}
	if s := r.File.Search; s != nil {
		for _, block := range r.File.Blocks {
			if slices.ContainsFunc(block, func(f scenario.Factor) bool { return f.Name == "runtime" }) {
				return fmt.Errorf("experiment %s: line %d: a search simulates ideal machines: leave runtime out",
					r.File.Source, s.Line)
			}
		}
	}
	// A load is drawn from traces and parameters that may be wrong too: one of each workload tells.
	for _, id := range slices.Sorted(maps.Keys(p.loads)) {
		w := p.loads[id]
		if err := w.check(); err != nil {
			return p.fail(w.cell, w.atFault(), err)
		}
	}
	return nil
}

// cells returns the combinations of an experiment: without the searched parameter as groups, and with it, or without a
// search, as cells, none of them twice.
func (p *plan) cells() (groups [][]Param, cells []*Cell, err error) {
	seen := map[string]bool{}
	for _, block := range p.file.Blocks {
		for _, params := range product(block) {
			tried := params
			if s := p.file.Search; s != nil {
				tried = append(slices.Clone(params), Param{s.Parameter, s.Values()[0]})
			}
			c, err := p.cell(tried)
			if err != nil {
				return nil, nil, err
			}
			if key := c.Key(); !seen[key] {
				seen[key] = true
				groups, cells = append(groups, params), append(cells, c)
				c.Position = len(cells)
			}
		}
	}
	if p.file.Search != nil {
		cells = nil
	}
	return groups, cells, nil
}

// all runs jobs side by side, and returns their outcomes in the order of the jobs.
func (r *Runner) all(ctx context.Context, cancel context.CancelCauseFunc, jobs []job) ([]*Outcome, error) {
	outcomes := make([]*Outcome, len(jobs))
	var wg sync.WaitGroup
	defer wg.Wait()
	for i, j := range jobs {
		if ctx.Err() != nil {
			break
		}
		kept, err := r.kept(ctx, j)
		if err != nil {
			cancel(err)
			break
		}
		if kept != nil {
			outcomes[i] = kept
			continue
		}
		select {
		case <-ctx.Done():
			continue
		case r.slots <- struct{}{}:
		}
		wg.Go(func() {
			defer func() { <-r.slots }()
			o, err := r.one(ctx, j)
			if err == nil {
				err = r.keep(ctx, o)
			}
			if err != nil {
				cancel(err)
				return
			}
			outcomes[i] = o
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return outcomes, nil
}

func (r *Runner) one(ctx context.Context, j job) (*Outcome, error) {
	subs, err := r.loads.get(j.cell.load, j.repetition)
	if err != nil {
		return nil, err
	}
	return simulate(ctx, r.File, j.cell, j.repetition, subs)
}

func (r *Runner) kept(ctx context.Context, j job) (*Outcome, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, err := r.Store.Kept(ctx, j.cell, j.repetition)
	if o != nil {
		r.progress.Kept++
		r.count(o)
	}
	return o, err
}

func (r *Runner) keep(ctx context.Context, o *Outcome) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := r.Store.Keep(ctx, o); err != nil {
		return err
	}
	e := r.took[o.Cell.policy]
	r.took[o.Cell.policy] = effort{e.runs + 1, e.took + o.Took}
	r.count(o)
	return nil
}

// count records that a run is done. The lock is held.
func (r *Runner) count(o *Outcome) {
	r.progress.Done++
	r.left[o.Cell.policy]--
	switch o.State {
	case Diverged:
		r.progress.Diverged++
	case Failed:
		r.progress.Failed++
	}
	r.report(o)
}

func (r *Runner) report(o *Outcome) {
	p := &r.progress
	p.Last, p.Left = o, r.estimate()
	if r.Report != nil {
		r.Report(*p)
	}
}

// estimate is the time that the rest will take: as long as the runs of each policy took until now, as runs differ most
// by policy, side by side as until now. 0 if none was done.
func (r *Runner) estimate() time.Duration {
	var all effort
	for _, e := range r.took {
		all.runs += e.runs
		all.took += e.took
	}
	if all.took == 0 {
		return 0
	}
	mean := float64(all.took) / float64(all.runs)
	rest, known := 0.0, 0
	for policy, n := range r.left {
		if e := r.took[policy]; e.runs > 0 && n > 0 {
			rest += float64(n) * float64(e.took) / float64(e.runs)
			known += n
		}
	}
	rest += float64(max(0, r.progress.Runs-r.progress.Done-known)) * mean
	return time.Duration(rest * float64(time.Since(r.begun)) / float64(all.took))
}

// search looks in every group for the largest value at which the system is stable.
func (r *Runner) search(ctx context.Context, cancel context.CancelCauseFunc, p *plan, groups [][]Param) error {
	s := r.File.Search
	values := s.Values()
	var planning sync.Mutex // plan is not made for several goroutines
	var wg sync.WaitGroup
	for g, group := range groups {
		wg.Go(func() {
			best, err := metrics.Bisect(len(values), func(i int) (bool, error) {
				planning.Lock()
				c, err := p.cell(append(slices.Clone(group), Param{s.Parameter, values[i]}))
				planning.Unlock()
				if err != nil {
					return false, err
				}
				c.Position = g*len(values) + i + 1
				r.mu.Lock()
				err = r.Store.Plan(ctx, []*Cell{c})
				r.mu.Unlock()
				if err != nil {
					return false, err
				}
				var jobs []job
				for rep := range r.repetitions() {
					jobs = append(jobs, job{c, rep})
				}
				outcomes, err := r.all(ctx, cancel, jobs)
				return stable(outcomes), err
			})
			if err == nil {
				value := ""
				if best >= 0 {
					value = values[best]
				}
				r.mu.Lock()
				err = r.Store.Found(ctx, group, s.Parameter, value)
				r.mu.Unlock()
			}
			if err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// stable is the verdict on a cell: each of the two tests finds most of its runs stable.
func stable(outcomes []*Outcome) bool {
	var wieland, drift []bool
	for _, o := range outcomes {
		if o == nil || o.State == Failed {
			return false
		}
		for _, v := range o.Values {
			switch v.Name {
			case "wieland_stable":
				wieland = append(wieland, v.Value == 1)
			case "drift_stable":
				drift = append(drift, v.Value == 1)
			}
		}
	}
	return metrics.Majority(wieland) && metrics.Majority(drift)
}

// cache keeps the loads that were drawn last; a caller that wants one that is being drawn waits for it.
type cache struct {
	mu      sync.Mutex
	size    int
	entries []*entry // used last at the end
}

type entry struct {
	load       *workload
	repetition int
	subs       func() ([]executor.Submission, error)
}

func (c *cache) get(w *workload, repetition int) ([]executor.Submission, error) {
	c.mu.Lock()
	i := slices.IndexFunc(c.entries, func(e *entry) bool { return e.load == w && e.repetition == repetition })
	var e *entry
	if i >= 0 {
		e = c.entries[i]
		c.entries = slices.Delete(c.entries, i, i+1)
	} else {
		e = &entry{w, repetition, sync.OnceValues(func() ([]executor.Submission, error) {
			return w.submissions(repetition)
		})}
		if len(c.entries) >= c.size {
			c.entries = slices.Delete(c.entries, 0, 1)
		}
	}
	c.entries = append(c.entries, e)
	c.mu.Unlock()
	return e.subs()
}
