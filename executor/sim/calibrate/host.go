package calibrate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"gantry/executor"
	"gantry/executor/emulate"
	"gantry/executor/sim/hostmodel"
	"gantry/planner"
	"gantry/planner/unit"
)

// Options say how a host is measured.
type Options struct {
	Host   hostmodel.Host
	Starts int // containers that start at once, at most
	// Before are earlier models of this host. Their differences say how steady the host is.
	Before []*hostmodel.Model
	Quick  bool // fewer repetitions
	// Engine is the CPU time that the container engine has used since it began; nil: not known.
	Engine func() time.Duration
	// Step receives the name of the next step, and how much is done, from 0 to 1. Nil drops it.
	Step func(what string, done float64)
}

// surveyor measures a host and fills its model.
type surveyor struct {
	*Lab
	Options
	m          *hostmodel.Model
	n          int // repetitions of short measurements
	containers int
	samples    []sample
	published  float64 // nanoseconds to publish one file
}

// sample is how long the phases of one attempt took, under load.
type sample struct {
	together, busy float64
	round          int
	phases         [len(walls)]float64 // nanoseconds
}

// walls are the phases whose time grows with load, in the order of sample.phases.
var walls = [...]string{"stage", "create", "start", "answer", "end", "publish", "remove"}

// steps are the steps of Measure, with the share of the time each takes.
var steps = []struct {
	what  string
	share float64
	do    func(*surveyor, context.Context) error
}{
	{"the host at rest", 0.05, (*surveyor).rest},
	{"containers, one after the other", 0.22, (*surveyor).alone},
	{"files", 0.2, (*surveyor).files},
	{"the disk, with and without limits", 0.12, (*surveyor).disk},
	{"containers that start together, on idle and busy cores", 0.41, (*surveyor).together},
}

// Measure measures the host that a lab is on. It takes about a minute on a host at rest.
func Measure(ctx context.Context, lab *Lab, o Options) (*hostmodel.Model, error) {
	s := &surveyor{Lab: lab, Options: o, n: 10, m: &hostmodel.Model{Format: hostmodel.Format, Host: o.Host}}
	if o.Quick {
		s.n = 4
	}
	begun, whole := time.Now(), Meter()
	var others []float64
	total := 0.0
	for i, step := range steps {
		if o.Step != nil {
			o.Step(step.what, total*MeasureShare)
		}
		if i > 0 {
			if err := s.settle(ctx); err != nil {
				return nil, err
			}
			others = append(others, Others(ctx, s.engine))
		}
		if err := step.do(s, ctx); err != nil {
			return nil, fmt.Errorf("measure %s: %w", step.what, err)
		}
		total += step.share
	}
	m := s.m
	m.Measured.BusyCores = mean(append(others, m.Measured.BusyCores))
	_, stolen := whole.Read()
	m.Measured.Stolen = min(1, stolen/float64(s.Host.Cores))
	m.Measured.At, m.Measured.TookNanos = time.Now().UTC(), int64(time.Since(begun))
	m.Measured.Containers = s.containers
	s.fit()
	s.widen()
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("the host was too busy, or does what cannot be: %w", err)
	}
	return m, nil
}

// perform runs trials at once and counts them.
func (s *surveyor) perform(ctx context.Context, trials ...Trial) ([]Result, error) {
	out, err := s.Run(ctx, trials...)
	s.containers += len(out)
	return out, err
}

// phases are the nanoseconds of the phases of a result, in the order of walls.
func (r *Result) phases() (p [len(walls)]float64) {
	at := func(m executor.Milestone, otherwise planner.Time) planner.Time {
		if x, ok := r.Marks[m]; ok {
			return x.At
		}
		return otherwise
	}
	placed, answered := at(executor.Placed, r.Staged), at(executor.Answered, r.Started)
	known, removed := at(executor.Known, r.Reported), at(executor.Removed, r.Reported)
	for i, d := range []time.Duration{r.Staged.Sub(r.Queued), r.Created.Sub(placed), r.Started.Sub(r.Created),
		answered.Sub(r.Started), known.Sub(r.Ended), r.Reported.Sub(known), removed.Sub(r.Reported)} {
		p[i] = float64(max(0, d))
	}
	return p
}

// removed waits until nothing is left of the containers of results.
func (s *surveyor) removed(ctx context.Context, out []Result) error {
	deadline := time.Now().Add(patience)
	for i := range out {
		t := s.trials[out[i].ID]
		for s.left(t) {
			if time.Now().After(deadline) {
				return errors.New("containers are not removed")
			}
			if err := sleep(ctx, 2*time.Millisecond); err != nil {
				return err
			}
		}
		s.mu.Lock()
		out[i].Marks = maps.Clone(t.marks)
		s.mu.Unlock()
	}
	return nil
}

// settle waits until nothing is left of all containers so far, but not for ever.
func (s *surveyor) settle(ctx context.Context) error {
	for deadline := time.Now().Add(2 * time.Second); s.left(s.trials...) && time.Now().Before(deadline); {
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// rest measures the host while nothing is asked for.
func (s *surveyor) rest(ctx context.Context) error {
	load, engine, own := Meter(), s.engine(), OwnCPU()
	begun := time.Now()
	d := 2 * time.Second
	if s.Quick {
		d = time.Second
	}
	if err := sleep(ctx, d); err != nil {
		return err
	}
	wall := time.Since(begun).Seconds()
	gantry, used := OwnCPU()-own, max(0, s.engine()-engine) // programs of the engine that end take their time with them
	s.m.Idle = hostmodel.Use{GantryNanos: float64(gantry) / wall, EngineNanos: float64(used) / wall}
	load.Less(used + gantry)
	s.m.Measured.BusyCores, _ = load.Read()
	_, err := s.perform(ctx, Trial{}) // the first is slower: the engine reads its image
	return err
}

func (s *surveyor) engine() time.Duration {
	if s.Engine == nil {
		return 0
	}
	return s.Engine()
}

// OwnCPU is the CPU time that this process has used.
func OwnCPU() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// alone starts containers one after the other. CPU time is measured with each started when the one before is gone,
// times with each started when the one before has ended, as in runs: the engine clears up meanwhile.
func (s *surveyor) alone(ctx context.Context) error {
	var out []Result
	begun, host, own, engine := time.Now(), HostCPU(), OwnCPU(), s.engine()
	for range s.n + s.n/2 {
		r, err := s.perform(ctx, Trial{})
		if err == nil {
			err = s.removed(ctx, r)
		}
		if err != nil {
			return err
		}
		out = append(out, r...)
	}
	wall, n := time.Since(begun).Seconds(), float64(len(out))
	m := s.m
	// CPU time by phase: of the whole host, less that of others.
	others := m.Measured.BusyCores
	for _, p := range []struct {
		name     string
		from, to executor.Milestone
	}{{"create", executor.Placed, executor.Created}, {"start", executor.Created, executor.Answered},
		{"end", executor.Answered, executor.Known}, {"remove", executor.Known, executor.Removed}} {
		var all float64
		for i := range out {
			from, ok := out[i].Marks[p.from]
			if to, has := out[i].Marks[p.to]; ok && has {
				all += float64(to.CPU-from.CPU) - others*float64(to.At-from.At)
			}
		}
		m.Phases.Named(p.name).CPU.BaseNanos = max(0, all/n)
	}
	var tasks, started, around float64
	for i := range out {
		tasks += float64(out[i].CPUTime())
		started += float64(out[i].Report.StartCPUNanos)
		around += float64(out[i].Ran) - float64(out[i].Report.Phases.WallNanos)
	}
	o := &m.Emulator
	o.StartCPUNanos = int64(started / n)
	o.StartNanos, o.EndNanos = int64(around/n/2), int64(around/n/2)
	// A program is a task's own: its CPU time to begin is in the phase, and counts as the task's all the same.
	gantry := float64(OwnCPU() - own)
	all := float64(HostCPU()-host) - others*wall*1e9 - tasks
	m.PerContainer.GantryNanos = max(0, (gantry-m.Idle.GantryNanos*wall)/n)
	m.PerContainer.EngineNanos = max(0, (all-gantry-m.Idle.EngineNanos*wall)/n)
	known := float64(s.engine()-engine)/n - m.Idle.EngineNanos*wall/n
	m.PerContainer.EngineNanos = max(m.PerContainer.EngineNanos, known)
	if err := s.inTurn(ctx, 1, 0, len(out), 0); err != nil {
		return err
	}
	base := s.typical(func(x *sample) bool { return true })
	for i, name := range walls {
		m.Phases.Named(name).Wall.BaseNanos = base[i]
	}
	s.published = m.Phases.Publish.Wall.BaseNanos
	return s.tasks(ctx)
}

// usual is a task such as runs have many of: it lasts until the engine has answered to its start, and writes a small
// file, whose publishing waits for the disk as the container engine does.
var usual = Trial{Run: 100 * time.Millisecond, Writes: []unit.Bytes{1}}

// inTurn starts a number of containers at once, several times, each time when those before have ended.
func (s *surveyor) inTurn(ctx context.Context, together, busy, times, round int) error {
	var out []Result
	for range times {
		r, err := s.perform(ctx, slices.Repeat([]Trial{usual}, together)...)
		if err != nil {
			return err
		}
		out = append(out, r...)
	}
	if err := s.removed(ctx, out); err != nil {
		return err
	}
	for i := range out {
		s.samples = append(s.samples, sample{float64(together), float64(busy), round, out[i].phases()})
	}
	return nil
}

// tasks measures by how much the run time of tasks differs from that of the cost function.
func (s *surveyor) tasks(ctx context.Context) error {
	const run = 200 * time.Millisecond
	var factors []float64
	for range s.n {
		out, err := s.perform(ctx, Trial{Run: run, CPU: 50})
		if err != nil {
			return err
		}
		spec := emulate.Spec{RunNanos: int64(run), CPUNanos: int64(run / 2), Threads: 1}
		cost := spec.Cost(emulate.Limits{CPUMillicores: 1000}, s.m.Emulator)
		factors = append(factors, clamp(float64(out[0].Ran)/float64(cost.Wall), 0.01, 1000))
	}
	s.m.Run = hostmodel.SpreadOf(factors)
	return nil
}

// typical are the phases of the samples that count: of each round the median, of those the mean.
func (s *surveyor) typical(counts func(*sample) bool) (out [len(walls)]float64) {
	for i := range walls {
		byRound := map[int][]float64{}
		for k := range s.samples {
			if x := &s.samples[k]; counts(x) {
				byRound[x.round] = append(byRound[x.round], x.phases[i])
			}
		}
		for _, round := range slices.Sorted(maps.Keys(byRound)) {
			out[i] += median(byRound[round]) / float64(len(byRound))
		}
	}
	return out
}

func median(xs []float64) float64 {
	n := len(xs)
	if n == 0 {
		return 0
	}
	slices.Sort(xs)
	return (xs[(n-1)/2] + xs[n/2]) / 2
}

// few is the number of files of a trial that measures files, and large the size of one that measures bytes.
const (
	few   = 10
	large = unit.Bytes(64e6)
)

// files measures the time that files and bytes add to phases.
func (s *surveyor) files(ctx context.Context) error {
	reps := 1 + s.n/4
	var err error // the first: then nothing more is tried
	one := func(t Trial) (r Result) {
		if err == nil {
			var out []Result
			if out, err = s.perform(ctx, t); err == nil {
				r = out[0]
			}
		}
		return r
	}
	at := func(t Trial) (p [len(walls)]float64, r []Result) {
		var all [len(walls)][]float64
		for range reps {
			if len(t.Fetch) > 0 { // files of the last fetch are there
				t.Wrote = one(Trial{Node: 1, Writes: t.Fetch}).ID
			}
			x := one(t)
			if err != nil {
				return p, nil
			}
			for i, x := range x.phases() {
				all[i] = append(all[i], x)
			}
			r = append(r, x)
		}
		for i := range all {
			p[i] = median(all[i])
		}
		return p, r
	}
	tiny, whole := slices.Repeat([]unit.Bytes{1}, few), []unit.Bytes{large}
	one(Trial{Reads: tiny, Shared: "few"}) // this brings the files, later ones show them
	shown, read := at(Trial{Reads: tiny, Shared: "few"})
	brought, _ := at(Trial{Reads: tiny})
	many, _ := at(Trial{Reads: whole})
	fetched, _ := at(Trial{Fetch: tiny})
	moved, _ := at(Trial{Fetch: whole})
	made, wrote := at(Trial{Writes: tiny})
	big, writes := at(Trial{Writes: whole})
	_, reads := at(Trial{Reads: whole, Shared: "large"})
	const held = unit.Bytes(256e6)
	resident := one(Trial{Resident: held})
	if err != nil {
		return err
	}
	const stage, publish = 0, 5
	m, ph := s.m, &s.m.Phases
	base := ph.Stage.Wall.BaseNanos
	beyond := func(x, base float64, n float64) float64 { return max(0, (x-base)/n) }
	ph.Stage.Wall.FileNanos = beyond(shown[stage], base, few)
	ph.Bring.Wall.FileNanos = beyond(brought[stage], shown[stage], few)
	with := base + ph.Stage.Wall.FileNanos
	ph.Bring.Wall.ByteNanos = beyond(many[stage], with+ph.Bring.Wall.FileNanos, float64(large))
	ph.Copy.Wall.FileNanos = beyond(fetched[stage], shown[stage], few)
	ph.Copy.Wall.ByteNanos = beyond(moved[stage], with+ph.Copy.Wall.FileNanos, float64(large))
	out := &ph.Publish.Wall
	out.FileNanos = beyond(made[publish], s.published, few-1)
	out.BaseNanos = max(0, s.published-out.FileNanos)
	out.ByteNanos = beyond(big[publish], out.BaseNanos+out.FileNanos, float64(large))
	o := &m.Emulator
	of := func(all []Result, value func(*emulate.Report) int64) float64 {
		var xs []float64
		for i := range all {
			xs = append(xs, float64(value(all[i].Report)))
		}
		return median(xs)
	}
	readTime := func(r *emulate.Report) int64 { return r.Phases.ReadNanos }
	writeTime := func(r *emulate.Report) int64 { return r.Phases.WriteNanos }
	own := func(r *emulate.Report) int64 { return r.OwnCPUNanos - r.StartCPUNanos }
	o.ReadFileNanos, o.WriteFileNanos = int64(of(read, readTime)/few), int64(of(wrote, writeTime)/few)
	o.ReadByteCPUNanos = max(0, of(reads, own)-of(read, own)/few) / float64(large)
	o.WriteByteCPUNanos = max(0, of(writes, own)-of(wrote, own)/few) / float64(large)
	rate := func(nanos, file float64) float64 { return float64(large) / (max(nanos-file, 1e6) / 1e9) }
	o.ReadBytesPerSecond = rate(of(reads, readTime), float64(o.ReadFileNanos))
	o.WriteBytesPerSecond = rate(of(writes, writeTime), float64(o.WriteFileNanos))
	o.MemoryByteNanos = float64(resident.Report.Phases.MemoryNanos) / float64(held)
	return nil
}

// disk measures the rates of the disk with several streams, and under limits.
func (s *surveyor) disk(ctx context.Context) error {
	const streams = 4
	size := unit.Bytes(32e6)
	if s.Quick {
		size = 8e6
	}
	sum := func(t Trial) (float64, error) {
		out, err := s.perform(ctx, slices.Repeat([]Trial{t}, streams)...)
		if err != nil {
			return 0, err
		}
		longest := 1e6
		for i := range out {
			p := &out[i].Report.Phases
			longest = max(longest, float64(p.ReadNanos+p.WriteNanos))
		}
		return float64(size) * streams / (longest / 1e9), nil
	}
	d := &s.m.Disk
	var err error
	if d.WriteBytesPerSecond, err = sum(Trial{Writes: []unit.Bytes{size}}); err != nil {
		return err
	}
	if d.ReadBytesPerSecond, err = sum(Trial{Reads: []unit.Bytes{size}}); err != nil {
		return err
	}
	for _, rate := range []int64{10e6, 100e6} {
		bytes := unit.Bytes(rate)
		if s.Quick {
			bytes /= 2
		}
		out, err := s.perform(ctx, Trial{Reads: []unit.Bytes{bytes}, Rate: rate},
			Trial{Writes: []unit.Bytes{bytes}, Rate: rate})
		if err != nil {
			return err
		}
		for i, c := range []*hostmodel.Curve{&d.ReadLimit, &d.WriteLimit} {
			p := &out[i].Report.Phases
			took := float64(p.ReadNanos+p.WriteNanos) / 1e9
			took += 1 - float64(bytes)/float64(rate) // as for a second's bytes: the burst at the start stays
			c.X = append(c.X, float64(rate))
			c.Y = append(c.Y, min(2, max(0.01, 1/max(took, 1e-3))))
		}
	}
	return nil
}

// MeasureShare is the part of the time of a calibration that Measure takes; sample runs take the rest.
const MeasureShare = 0.75

// rounds is how often the loads come by: a host is slower at some times than at others, and no load may have only one
// of them.
const rounds = 2

// together starts containers at once, on idle and on busy cores, and measures the time that programs lose.
func (s *surveyor) together(ctx context.Context) error {
	perContainer := 0.0
	for _, name := range hostmodel.PhaseNames {
		perContainer += s.m.Phases.Named(name).CPU.BaseNanos
	}
	levels := []int{0, 1, (s.Host.Cores + 1) / 2, s.Host.Cores}
	slices.Sort(levels)
	levels = slices.Compact(levels)
	atOnce := slices.Compact([]int{1, max(1, s.Starts)})
	waited, started := make([][]float64, len(atOnce)), make([][]float64, len(atOnce))
	for i := range waited {
		waited[i], started[i] = make([]float64, len(levels)), make([]float64, len(levels))
	}
	turns := rounds
	if s.Quick {
		turns--
	}
	for round := 1; round <= turns; round++ {
		for at, k := range atOnce {
			times := max(1, s.n/turns/k)
			for i, busy := range levels {
				programs, err := s.Busy(ctx, busy, func() error { return s.inTurn(ctx, k, busy, times, round) })
				if err != nil {
					return err
				}
				started[at][i] += float64(k * times)
				for p := range programs {
					waited[at][i] += float64(max(0, programs[p].Ran-programs[p].CPUTime()))
				}
			}
		}
	}
	var lost hostmodel.Surface
	for _, busy := range levels {
		lost.BusyCores = append(lost.BusyCores, float64(busy))
	}
	for at, k := range atOnce {
		lost.Together = append(lost.Together, float64(k))
		row := []float64{1}
		for i := range levels[1:] {
			row = append(row, 1+clamp(waited[at][i+1]/started[at][i+1]/max(perContainer, 1), 0, 10))
		}
		lost.Factor = append(lost.Factor, row)
	}
	lost.Raise()
	s.m.Interference = lost
	return nil
}

// fit makes surfaces and spreads of the samples.
func (s *surveyor) fit() {
	var together, busy []float64
	for _, x := range s.samples {
		together, busy = append(together, x.together), append(busy, x.busy)
	}
	slices.Sort(together)
	slices.Sort(busy)
	together, busy = slices.Compact(together), slices.Compact(busy)
	factors := make([][][len(walls)]float64, len(together))
	for i, k := range together {
		for _, b := range busy {
			factors[i] = append(factors[i], s.typical(func(x *sample) bool { return x.together == k && x.busy == b }))
		}
	}
	for w, name := range walls {
		p := s.m.Phases.Named(name)
		base := factors[0][0][w]
		if p.Wall.BaseNanos = base; name == "publish" {
			p.Wall.BaseNanos = max(0, base-p.Wall.FileNanos)
		}
		if base < 1e3 { // nothing to speak of
			continue
		}
		f := hostmodel.Surface{Together: together, BusyCores: busy}
		for i := range together {
			var row []float64
			for j := range busy {
				row = append(row, min(1000, max(1, factors[i][j][w]/base)))
			}
			f.Factor = append(f.Factor, row)
		}
		f.Raise()
		p.Slowdown = f
		var off []float64
		byRound := map[int][]float64{}
		for _, x := range s.samples {
			o := clamp(x.phases[w]/(base*f.At(x.together, x.busy)), 0.01, 1000)
			off = append(off, o)
			byRound[x.round] = append(byRound[x.round], o)
		}
		p.Spread = hostmodel.SpreadOf(off)
		p.Drift = s.drift(p, name, byRound)
	}
	// Bringing and copying vary as staging does.
	for _, p := range []*hostmodel.Phase{&s.m.Phases.Bring, &s.m.Phases.Copy} {
		p.Spread, p.Drift = s.m.Phases.Stage.Spread, s.m.Phases.Stage.Drift
	}
}

// drift is by how much the times of a phase differ from round to round, or from calibration to calibration if that is
// more.
func (s *surveyor) drift(p *hostmodel.Phase, name string, byRound map[int][]float64) hostmodel.Spread {
	var within, between []float64
	for _, round := range slices.Sorted(maps.Keys(byRound)) {
		within = append(within, median(byRound[round]))
	}
	for _, m := range append([]*hostmodel.Model{s.m}, s.Before...) {
		if x := m.Phases.Named(name).Wall.BaseNanos; x > 0 && p.Wall.BaseNanos > 0 {
			between = append(between, clamp(x/p.Wall.BaseNanos, 1.0/absurd, absurd))
		}
	}
	a, b := hostmodel.LogNormal(deviation(within), len(within)), hostmodel.LogNormal(deviation(between), len(between))
	return wider(a, b)
}

// wider returns the spread whose interval of 80 % is wider; one that has none counts least.
func wider(a, b hostmodel.Spread) hostmodel.Spread {
	if b.At(0.9)/b.At(0.1) > a.At(0.9)/a.At(0.1) {
		return b
	}
	return a
}

// deviation is the standard deviation of the logarithms of values.
func deviation(values []float64) float64 {
	var mean, squares float64
	for _, x := range values {
		mean += math.Log(x) / float64(len(values))
	}
	for _, x := range values {
		squares += (math.Log(x) - mean) * (math.Log(x) - mean)
	}
	return math.Sqrt(squares / max(1, float64(len(values)-1)))
}

func mean(xs []float64) (sum float64) {
	for _, x := range xs {
		sum += x / float64(len(xs))
	}
	return sum
}

func clamp(x, least, most float64) float64 { return min(most, max(least, x)) }

// Busy hosts, and hosts whose hypervisor gives their time to others, are measured with less certainty.
const (
	quietCores  = 0.15 // of others, beside which measurements are as good as alone
	quietStolen = 0.01
)

// absurd is how many times longer or shorter than another a measurement may be that counts.
const absurd = 5

// widen makes intervals wider on a host that was busy, and says so.
func (s *surveyor) widen() {
	m := s.m
	factor, warnings := uncertainty(m)
	m.Measured.Warnings = append(m.Measured.Warnings, warnings...)
	for _, name := range hostmodel.PhaseNames {
		p := m.Phases.Named(name)
		p.Spread, p.Drift = p.Spread.Widen(factor), p.Drift.Widen(factor)
	}
	m.Run = m.Run.Widen(factor)
}

// uncertainty returns the factor by which intervals of a model are wider, as its host was not at rest, and why.
func uncertainty(m *hostmodel.Model) (factor float64, warnings []string) {
	factor = 1
	cores := max(1, m.Host.Cores)
	if b := m.Measured.BusyCores; b > quietCores {
		factor += 2 * b / float64(cores)
		warnings = append(warnings, fmt.Sprintf("other programs used %.1f of %d cores meanwhile", b, cores))
	}
	if st := m.Measured.Stolen; st > quietStolen {
		factor += 2 * st
		warnings = append(warnings, fmt.Sprintf("the hypervisor gave %.0f %% of this host's CPU time to others "+
			"meanwhile", st*100))
	}
	return factor, warnings
}

// Table describes a model in rows of a few words each, for people.
func Table(m *hostmodel.Model) (rows [][]string) {
	add := func(what, format string, args ...any) {
		rows = append(rows, []string{what, fmt.Sprintf(format, args...)})
	}
	ms := func(nanos float64) string { return fmt.Sprintf("%.3g ms", nanos/1e6) }
	rate := func(r float64) string { return fmt.Sprintf("%.4g MB/s", r/1e6) }
	p := &m.Phases
	spread := func(p *hostmodel.Phase) string {
		return fmt.Sprintf("%s (80 %%: %.3g to %.3g)", ms(p.Wall.BaseNanos), p.Wall.BaseNanos/1e6*p.Spread.At(0.1),
			p.Wall.BaseNanos/1e6*p.Spread.At(0.9))
	}
	add("to stage a task", "%s, %s more for each input", spread(&p.Stage), ms(p.Stage.Wall.FileNanos))
	add("to create a container", "%s", spread(&p.Create))
	add("to start its program", "%s", spread(&p.Start))
	add("until gantry knows its end", "%s", spread(&p.End))
	add("to publish its outputs", "%s, %s more for each", spread(&p.Publish), ms(p.Publish.Wall.FileNanos))
	if f := &p.Start.Slowdown; len(f.Together) > 0 {
		k, b := f.Together[len(f.Together)-1], f.BusyCores[len(f.BusyCores)-1]
		add("under load", "starting takes %.2g times as long with %g starts at once, %.2g times with %g busy cores, "+
			"%.2g times with both", f.At(k, 0), k, f.At(1, b), b, f.At(k, b))
	}
	add("CPU time per container", "%s of gantry, %s of the engine, %s of the program to begin",
		ms(m.PerContainer.GantryNanos), ms(m.PerContainer.EngineNanos), ms(float64(m.Emulator.StartCPUNanos)))
	add("at rest", "gantry uses %.2g %% of a core, the engine %.2g %%", m.Idle.GantryNanos/1e7, m.Idle.EngineNanos/1e7)
	add("disk, 4 streams", "reads %s, writes %s; copies %s", rate(m.Disk.ReadBytesPerSecond),
		rate(m.Disk.WriteBytesPerSecond), rate(1e9/max(p.Copy.Wall.ByteNanos, 1e-3)))
	if c := &m.Disk.ReadLimit; len(c.X) > 0 {
		add("disk, with a limit", "of %s: reads %.0f %%, writes %.0f %% of it", rate(c.X[0]), c.Y[0]*100,
			m.Disk.WriteLimit.At(c.X[0])*100)
	}
	if f := &m.Interference; len(f.Together) > 0 {
		k, b := f.Together[len(f.Together)-1], f.BusyCores[len(f.BusyCores)-1]
		lost := func(k, b float64) string { return fmt.Sprintf("%.0f %%", (f.At(k, b)-1)*100) }
		add("programs lose", "%s of the CPU time of a container that starts and ends on %g busy cores, "+
			"%s with %g at once", lost(1, b), b, lost(k, b), k)
	}
	return rows
}
