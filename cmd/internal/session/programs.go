package session

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"gantry/cmd/internal/exit"
	"gantry/executor"
	"gantry/executor/forecast"
	"gantry/executor/sim"
	"gantry/executor/sim/hostmodel"
	"gantry/planner"
	"gantry/planner/predict"
	"gantry/planner/unit"
	"gantry/sqlite"
)

// programTimes predicts how long real programs run, from their measurements.
type programTimes struct {
	run    string                      // the only one that counts; "" if all do
	same   map[programKey][]programRun // the same task on inputs of the same size
	named  map[[2]string][]programRun  // by workflow and task; of one run only
	kinds  map[string][]programRun
	model  *predict.Model // nil: none was trained
	spread map[string]float64
	misses map[string]bool // types of which nothing is known
	others map[string]bool // types of which nothing is known on inputs of that size
	// startup is the median time that their containers took to start.
	startup time.Duration
	// setUp is the CPU time of a container before its program, which the kernel counts with that of the program.
	setUp time.Duration
}

// programKey is the same for two attempts of one task, under any policy and limits.
type programKey struct {
	identity string
	input    unit.Bytes
}

// Bounds of the measurements that are read.
const (
	mostProgramRuns = 20_000
	sameRuns        = 20 // of one task
	kindRuns        = 200
	// usualSpread is the standard deviation of the logarithm of a program's time where too little was measured.
	usualSpread = 0.05
)

// programsOf reads the times of programs: those of one run if it is named. The model is the latest that was trained on
// programs and at the scales of the run. Undisturb, if set, takes disturbances out of the times.
func programsOf(ctx context.Context, db *sqlite.DB, set *Settings, run string,
	undisturb func([]programRun)) (*programTimes, error) {
	on := RuntimeNames(func(c *executor.Capabilities) bool { return c.Programs })
	all, err := programRuns(ctx, db, on, run, mostProgramRuns)
	if err != nil {
		return nil, err
	}
	if undisturb != nil {
		undisturb(all)
	}
	p := &programTimes{run: run, same: map[programKey][]programRun{}, named: map[[2]string][]programRun{},
		kinds: map[string][]programRun{}, spread: map[string]float64{}, misses: map[string]bool{},
		others: map[string]bool{}}
	if host := set.Host; host != nil {
		p.setUp = time.Duration(host.Emulator.StartCPUNanos)
	}
	for i := range all {
		p.learn(&all[i])
	}
	p.measureSpread()
	starts := make([]time.Duration, len(all))
	for i := range all {
		starts[i] = all[i].Startup
	}
	p.startup = forecast.RangeOf(starts).Expected
	models, err := db.Models(ctx)
	if err != nil {
		return nil, err
	}
	for i := range models {
		m := &models[i]
		if !Capabilities(m.Runtime).Programs || m.TimeScale != set.TimeScale || m.SizeScale != set.SizeScale {
			continue
		}
		if m, err := db.FindModel(ctx, m.Reference()); err == nil { // else it is damaged: an earlier one has to do
			p.model = m.Model
			break
		}
	}
	return p, nil
}

// learn takes in an attempt that ended well.
func (p *programTimes) learn(r *programRun) {
	key := programKey{r.Identity, r.Input}
	if r.Identity != "" && len(p.same[key]) < sameRuns {
		p.same[key] = append(p.same[key], *r)
	}
	if name := [2]string{r.Workflow, r.Task}; p.run != "" {
		p.named[name] = append(p.named[name], *r)
	}
	if len(p.kinds[r.Kind]) < kindRuns {
		p.kinds[r.Kind] = append(p.kinds[r.Kind], *r)
	}
}

// knows reports whether anything is known of programs of that type.
func (p *programTimes) knows(kind string) bool {
	return p != nil && (len(p.kinds[kind]) > 0 || p.model != nil && p.model.Kinds[kind] != nil &&
		p.model.Kinds[kind].Runtime != nil)
}

// empty reports whether nothing is known of any program.
func (p *programTimes) empty() bool { return p == nil || len(p.kinds) == 0 && p.model == nil }

// measuredIn makes the engine of a simulation whose programs last as long as in the run that the settings name.
// Estimates begin with the measurements of runs on containers, and containers start as there unless told otherwise.
func (p *Planning) measuredIn(ctx context.Context) (*executor.Engine, error) {
	db, err := readLog(p.Home)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	info, err := db.Info(ctx, p.Set.Measured)
	if err != nil {
		return nil, LogError(err)
	}
	if !Capabilities(info.Runtime).Programs {
		return nil, exit.Usagef("--measured %s: it is a run on the %s runtime, which runs no programs",
			info.Name, info.Runtime)
	}
	p.Set.Measured = info.Name
	as := Prediction{Planning: p}
	if err := as.remember(ctx, db, info.Name); err != nil {
		return nil, err
	}
	if len(as.programs.kinds) == 0 {
		return nil, exit.Inputf("--measured %s: no program of it ended well, so nothing was measured",
			info.Name)
	}
	if !p.Set.StartupGiven {
		p.Set.Startup = as.programs.startup
	}
	e, err := p.Assemble(ctx)
	if err == nil {
		err = p.know(ctx, runsBefore(db, info.Runtime, p.Set), true)
	}
	p.measured = as.simulated(0).Measured
	return e, err
}

// measureSpread finds how much the time of one task varies from run to run, by type: the standard deviation of the
// logarithm around the mean of each task.
func (p *programTimes) measureSpread() {
	sums, counts := map[string]float64{}, map[string]int{}
	for _, runs := range p.same {
		if len(runs) < 2 {
			continue
		}
		var mean float64
		for i := range runs {
			mean += p.logOf(&runs[i]) / float64(len(runs))
		}
		for i := range runs {
			d := p.logOf(&runs[i]) - mean
			sums[runs[i].Kind] += d * d
		}
		counts[runs[0].Kind] += len(runs) - 1
	}
	for kind, n := range counts {
		p.spread[kind] = math.Sqrt(sums[kind] / float64(n))
	}
}

// logOf is the logarithm of the time that an attempt would take on a whole core of a node of speed 1.
func (p *programTimes) logOf(r *programRun) float64 {
	ran, _ := p.transfer(r, 1, 1000)
	return math.Log(max(1, float64(ran)))
}

// transfer is the time, and of it the CPU time, that a program takes on a node of another speed or under another limit
// than where it was measured. millicores are the limit, speed included. CPU time is spent as fast as the limit allows,
// by no more threads than it ran on before unless it was at its limit; the rest of the time stays.
func (p *programTimes) transfer(r *programRun, speed float64, millicores int64) (ran, cpu time.Duration) {
	if r.CPU < 0 || r.Ran <= 0 { // all is taken as computing
		ran = time.Duration(float64(r.Ran) * positive(r.Speed) / positive(speed))
		return ran, time.Duration(float64(ran) * min(1, coresAt(millicores)))
	}
	took, used := float64(r.Ran), float64(max(0, r.CPU-p.setUp))
	was := coresAt(r.Millicores)
	used = min(used, took*was) // counters are read a little later
	parallel := max(1, used/took)
	if used >= 0.9*was*took { // held back by its limit
		parallel = max(parallel, math.Ceil(was))
	}
	if millicores != r.Millicores {
		wall := p.wall(used, parallel, r.Millicores)
		if wall > took { // it cannot have used that much
			used, wall = used*took/wall, took
		}
		took += p.wall(used, parallel, millicores) - wall
	}
	return time.Duration(took), time.Duration(min(used, took*coresAt(millicores)))
}

// wall is how long threads take to use CPU time under a limit.
func (p *programTimes) wall(used, parallel float64, millicores int64) float64 {
	if coresAt(millicores) >= parallel {
		return used / parallel
	}
	return hostmodel.QuotaWall(used, int(math.Ceil(parallel)), millicores)
}

func coresAt(millicores int64) float64 {
	if millicores <= 0 {
		return math.Inf(1)
	}
	return float64(millicores) / 1000
}

func positive(speed float64) float64 {
	if speed <= 0 {
		return 1
	}
	return speed
}

// draw returns how long an attempt of a program takes in a repetition, and its CPU time; repetition 0 is without noise.
// It knows nothing of emulated tasks, and of programs that never ran.
func (p *programTimes) draw(l *executor.Launch, speed float64, seed uint64) (m sim.Measured, ok bool) {
	m.Outcome = planner.OK
	if p == nil || len(l.Spec.Command) == 0 && p.run == "" {
		return m, false
	}
	input, millicores := l.Spec.Reads, int64(float64(l.Hold[unit.CPU])*positive(speed))
	r := rand.New(rand.NewPCG(seed, uint64(l.Task)<<16+uint64(l.Try)))
	noisy := func(sd float64) (sim.Measured, bool) {
		if seed != 0 {
			x := math.Exp(sd * r.NormFloat64())
			m.Run, m.CPU = time.Duration(x*float64(m.Run)), time.Duration(x*float64(m.CPU))
		}
		return m, true
	}
	spread, ok := p.spread[l.Spec.Kind]
	if !ok {
		spread = usualSpread
	}
	runs := p.named[[2]string{l.Spec.Workflow.Name, l.Spec.Name}]
	if len(runs) == 0 && len(p.same) > 0 {
		id := l.Spec.Identity()
		runs = p.same[programKey{string(id[:]), input}]
	}
	kind := p.kinds[l.Spec.Kind]
	if len(runs) > 0 {
		m.Run, m.CPU = p.middleOf(runs, speed, millicores)
		m.Drift = driftSince(runs)
		return noisy(spread)
	}
	if run, sd, ok := p.trained(l, input, speed); ok {
		m.Run, m.Drift = run, 1
		if usual, used := p.middleOf(kind, speed, millicores); usual > 0 {
			m.CPU = time.Duration(float64(run) * float64(used) / float64(usual))
		}
		return noisy(sd)
	}
	if len(kind) > 0 {
		if !slices.ContainsFunc(kind, func(r programRun) bool { return r.Input == input }) {
			p.others[l.Spec.Kind] = true
		}
		if m.Drift = driftSince(kind); seed == 0 {
			m.Run, m.CPU = p.middleOf(kind, speed, millicores)
		} else {
			m.Run, m.CPU = p.transfer(&kind[r.IntN(len(kind))], speed, millicores)
		}
		return m, true
	}
	p.misses[l.Spec.Kind] = true
	return m, false
}

// driftSince is the exponent of a host's drift between runs in which a program was measured and another one: the drift
// of that one, and of the mean of those.
func driftSince(runs []programRun) float64 {
	seen := map[string]bool{}
	for i := range runs {
		seen[runs[i].Run] = true
	}
	return math.Sqrt(1 + 1/float64(len(seen)))
}

// trained asks the model.
func (p *programTimes) trained(l *executor.Launch, input unit.Bytes, speed float64) (time.Duration, float64, bool) {
	if p.model == nil {
		return 0, 0, false
	}
	k := p.model.Kinds[l.Spec.Kind]
	if k == nil || k.Runtime == nil {
		return 0, 0, false
	}
	f := &predict.Features{Input: input, CPU: l.Hold[unit.CPU], Memory: unit.Bytes(l.Hold[unit.Memory]), Speed: speed,
		Load: 1}
	seconds := k.Runtime.Predict(f)
	if !(seconds > 0) || math.IsInf(seconds, 0) {
		return 0, 0, false
	}
	low, high := k.Runtime.Interval(f, 0.8)
	sd := usualSpread
	if low > 0 && high > low {
		sd = math.Log(high/low) / (2 * 1.2816) // the normal quantile of 90 %
	}
	return time.Duration(seconds / positive(speed) * 1e9), sd, true
}

// middleOf is the median of the times that the runs would take there, and the median of their CPU times.
func (p *programTimes) middleOf(runs []programRun, speed float64, millicores int64) (ran, cpu time.Duration) {
	all, used := make([]time.Duration, len(runs)), make([]time.Duration, len(runs))
	for i := range runs {
		all[i], used[i] = p.transfer(&runs[i], speed, millicores)
	}
	return forecast.RangeOf(all).Expected, forecast.RangeOf(used).Expected
}
