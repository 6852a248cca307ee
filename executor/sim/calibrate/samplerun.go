package calibrate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"time"

	"gantry/executor/sim/hostmodel"
	"gantry/trace"
)

// SampleTask is a task of a workflow that calibration runs as users run theirs.
type SampleTask struct {
	Kind    string
	Seconds float64 // on a node of speed 1
	CPU     float64 // percent of a core
	Bytes   int64   // of its output
	After   []int   // positions of its parents
	Reads   int64   // of a file from outside; 0: it has none
}

// SampleWorkflow is a workflow of calibration, and the policy that it runs under.
type SampleWorkflow struct {
	Name, Policy string
	Tasks        []SampleTask
}

// SampleWorkflows are small, and of several shapes: containers start alone and beside others that start, run and
// end. Each takes one to two seconds on two cores.
func SampleWorkflows(quick bool) []SampleWorkflow {
	one := func(kind string, seconds, cpu float64, bytes int64, after ...int) SampleTask {
		t := SampleTask{kind, seconds, cpu, bytes, after, 0}
		if len(after) == 0 {
			t.Reads = bytes
		}
		return t
	}
	burst := []SampleTask{}
	for i := range 7 {
		burst = append(burst, one("burst", 0.06+0.02*float64(i%4), 60, 2000))
	}
	all := []SampleWorkflow{
		{"burst", "gbf", burst},
		{"chain", "heft", []SampleTask{one("link", 0.25, 50, 50_000), one("link", 0.3, 90, 50_000, 0),
			one("link", 0.2, 20, 50_000, 1)}},
		{"fork", "cpp", []SampleTask{one("split", 0.2, 80, 500_000), one("part", 0.25, 70, 50_000, 0),
			one("part", 0.35, 70, 50_000, 0), one("part", 0.2, 70, 50_000, 0), one("part", 0.3, 70, 50_000, 0),
			one("join", 0.15, 80, 50_000, 1, 2, 3, 4)}},
		{"uneven", "gbf", []SampleTask{one("long", 0.8, 100, 1_000_000), one("little", 0.15, 40, 1000),
			one("little", 0.1, 90, 1000), one("little", 0.2, 10, 1000)}},
		{"ladder", "mows", []SampleTask{one("left", 0.3, 90, 5_000_000), one("right", 0.3, 5, 5_000_000),
			one("left", 0.25, 60, 100_000, 0), one("right", 0.2, 60, 100_000, 1), one("last", 0.1, 90, 1000, 2, 3)}},
		{"pair", "heft", []SampleTask{one("first", 0.1, 90, 100_000), one("one", 0.4, 90, 100_000, 0),
			one("other", 0.3, 90, 100_000, 0)}},
	}
	if quick {
		return all[:3]
	}
	return append(all, SampleWorkflow{"burst-again", "cpp", burst}, SampleWorkflow{"fork-again", "gbf", all[2].Tasks})
}

// Write writes the workflow as a WfFormat file. Its tasks may hold that many bytes of memory.
func (w *SampleWorkflow) Write(path string, memory int64) error {
	wf := &trace.Workflow{Name: w.Name, Tasks: make([]trace.Task, len(w.Tasks))}
	file := func(name string, size int64, producer int) []int32 {
		wf.Files = append(wf.Files, trace.File{Name: name, Size: size, Sized: true, Producer: int32(producer)})
		return []int32{int32(len(wf.Files) - 1)}
	}
	for i, x := range w.Tasks {
		t := &wf.Tasks[i]
		*t = trace.Task{ID: fmt.Sprintf("%s-%02d", x.Kind, i), Name: x.Kind, Retries: -1, Cores: 1, AvgCPU: x.CPU,
			Runtime: time.Duration(x.Seconds * 1e9), MemoryBytes: memory,
			Known: trace.Runtime | trace.Cores | trace.AvgCPU | trace.Memory}
		if x.Reads > 0 {
			t.Inputs = file(t.ID+".in", x.Reads, -1)
		}
		for _, p := range x.After {
			from := &wf.Tasks[p]
			from.Children = append(from.Children, int32(i))
			t.Parents, t.Inputs = append(t.Parents, int32(p)), append(t.Inputs, from.Outputs...)
		}
		t.Outputs = file(t.ID+".out", x.Bytes, i)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(trace.WriteWfFormat(f, wf), f.Close())
}

// Course is how an attempt of a sample run went, really or in a simulation. Instants are since the run began.
type Course struct {
	Queued, Staged, Started, Ended, Over time.Duration
	Node                                 string
}

// SampleRun is a workflow of calibration that was run, and can be simulated.
type SampleRun struct {
	Name     string
	Busy     float64           // cores that others used just before it
	Courses  map[string]Course // by task
	Simulate func(m *hostmodel.Model) (map[string]Course, error)
}

const (
	corrections = 4              // times that the model is corrected: each changes which tasks overlap
	mostFactor  = 3              // by how much a correction changes a phase
	leastModels = 4              // that say how steady a host is
	leastEnded  = 8              // attempts that say anything of programs
	lasting     = 24 * time.Hour // for how long a host is taken to start containers as fast as before
	mostSteady  = 1.5            // by how much starts may differ from those before on a host that has not changed
)

// Correct has the phases of a model last as long as in real runs: single measurements miss the other work of a run.
// Starts alone on a host at rest have a factor, starts beside others or beside programs have others, and so has ending;
// the delays of staging and of emulated programs are added, as long programs are late by no more than short ones;
// programs have the spread that they had. A host is slower at some minutes than at others, so starts take the median of
// this model and those that were measured of the host the day before. The rest of the difference of starts varies from
// run to run, and from the models that were corrected before: that is their drift.
func Correct(m *hostmodel.Model, before []*hostmodel.Model, runs []SampleRun) error {
	var rest, alike, busy []float64
	for i := range runs {
		busy = append(busy, runs[i].Busy)
	}
	if len(runs) > 0 {
		m.Measured.BusyCores = m.Measured.BusyCores*MeasureShare + mean(busy)*(1-MeasureShare)
	}
	var lasted sums // of programs
	var run []float64
	for round := range corrections + 1 {
		var starts [2][2]sums // alone or beside other starts, on a host at rest or beside programs
		var ending sums
		var staging, late []float64
		rest, alike, run, lasted = rest[:0], alike[:0], run[:0], sums{}
		for i := range runs {
			simulated, err := runs[i].Simulate(m)
			if err != nil {
				return err
			}
			var all sums
			var each []float64
			for _, task := range slices.Sorted(maps.Keys(runs[i].Courses)) {
				real, sim := runs[i].Courses[task], simulated[task]
				if sim.Over == 0 {
					continue
				}
				if a, b := real.Over-real.Ended, sim.Over-sim.Ended; plausible(a, b) {
					ending.add(a, b)
				}
				if a, b := real.Ended-real.Started, sim.Ended-sim.Started; real.Node == sim.Node && plausible(a, b) {
					run, late = append(run, float64(a)/float64(b)), append(late, float64(a-b))
					lasted.add(a, b)
				}
				a, b := real.Started-real.Staged, sim.Started-sim.Staged
				if !plausible(a, b) {
					continue
				}
				staging = append(staging, float64((real.Staged-real.Queued)-(sim.Staged-sim.Queued)))
				all.add(a, b)
				each = append(each, float64(a)/float64(b))
				together, busy := starting(runs[i].Courses, task)
				starts[min(together-1, 1)][min(busy, 1)].add(a, b)
			}
			if all.n > 0 {
				rest = append(rest, all.took/all.said)
			}
			if len(each) > 1 {
				alike = append(alike, math.Pow(deviation(each), 2)/float64(len(each)))
			}
		}
		if round == corrections {
			break
		}
		correctStarts(&m.Phases, &starts)
		stage := &m.Phases.Stage.Wall.BaseNanos
		*stage = max(*stage/2, *stage+typicalOf(staging))
		end := ending.factor(1)
		for _, x := range []*float64{&m.Phases.End.Wall.BaseNanos, &m.Phases.Publish.Wall.BaseNanos,
			&m.Phases.Publish.Wall.FileNanos} {
			*x *= end
		}
		if len(run) >= leastEnded {
			m.Emulator.EndNanos = max(0, m.Emulator.EndNanos+int64(typicalOf(late)))
			m.Run = nil // until all is known
		}
	}
	wide, warnings := uncertainty(m)
	m.Measured.Warnings = warnings
	if len(run) >= leastEnded {
		programs := hostmodel.SpreadOf(run)
		usual := lasted.factor(1) / programs.Mean()
		for i := range programs {
			programs[i] *= usual
		}
		m.Run = programs.Widen(wide)
	}
	drift := hostmodel.LogNormal(shared(deviation(rest), mean(alike)), len(rest))
	between, err := steady(m, before, runs)
	if err != nil {
		return err
	}
	if len(between) >= leastModels { // two or three that differ say little
		drift = wider(drift, hostmodel.LogNormal(deviation(between), len(between)))
	}
	if len(drift) > 0 {
		drift = drift.Widen(wide)
		m.Phases.Create.Drift, m.Phases.Start.Drift = drift, drift
	}
	return nil
}

// correctStarts has starts last as long as in runs: alone or beside others, at rest or beside programs. Few starts of a
// kind have the factor of those like them.
func correctStarts(ph *hostmodel.Phases, all *[2][2]sums) {
	alone := all[0][0].plus(all[0][1]).factor(1)
	beside := all[1][0].plus(all[1][1]).factor(1)
	base := all[0][0].factor(alone)
	for _, p := range []*hostmodel.Phase{&ph.Create, &ph.Start} {
		p.Wall.BaseNanos *= base
		for k, row := range p.Slowdown.Factor {
			together, usual := min(1, int(p.Slowdown.Together[k])-1), alone
			if together > 0 {
				usual = beside
			}
			for i := range row {
				if busy := p.Slowdown.BusyCores[i] > 0; busy {
					row[i] = clamp(row[i]*all[together][1].factor(usual)/base, 1, 1000)
				} else if together > 0 {
					row[i] = clamp(row[i]*all[together][0].factor(usual)/base, 1, 1000)
				}
			}
		}
		p.Slowdown.Raise()
	}
}

// shared is the standard deviation of the factor that the starts of a run share: runs differ by that, and by their few
// starts on their own, which has the given variance. It is at least half the deviation of runs: both are estimates.
func shared(deviation, own float64) float64 {
	return max(deviation/2, math.Sqrt(max(0, deviation*deviation-own)))
}

// steady has starts take the median of the times of a model and of those before it as they were measured, and returns
// how much longer the starts of the runs are by each model, this one, which has 1, included. Models of another day do
// not count for the median, nor those that differ much: the host has changed.
func steady(m *hostmodel.Model, before []*hostmodel.Model, runs []SampleRun) (between []float64, err error) {
	said := func(m *hostmodel.Model) (sum float64, err error) {
		for i := range runs {
			courses, err := runs[i].Simulate(m)
			if err != nil {
				return 0, err
			}
			for _, task := range slices.Sorted(maps.Keys(courses)) {
				sum += float64(courses[task].Started - courses[task].Staged)
			}
		}
		return sum / cmp.Or(m.Measured.Steadied, 1), nil
	}
	own, err := said(m)
	if err != nil || own <= 0 {
		return []float64{1}, err
	}
	between = []float64{1}
	recent := []float64{1}
	for _, b := range before {
		other, err := said(b)
		if err != nil {
			return nil, err
		}
		x := clamp(other/own, 1.0/absurd, absurd)
		between = append(between, x)
		if m.Measured.At.Sub(b.Measured.At) < lasting && x < mostSteady && x > 1/mostSteady {
			recent = append(recent, x)
		}
	}
	m.Measured.Steadied = median(recent)
	for _, p := range []*hostmodel.Phase{&m.Phases.Create, &m.Phases.Start} {
		p.Wall.BaseNanos *= m.Measured.Steadied
	}
	return between, nil
}

// sums are of the times of starts, measured and by the model.
type sums struct {
	took, said float64
	n          int
}

func (s *sums) add(took, said time.Duration) {
	s.took, s.said, s.n = s.took+float64(took), s.said+float64(said), s.n+1
}

func (s sums) plus(o sums) sums { return sums{s.took + o.took, s.said + o.said, s.n + o.n} }

// factor is the measured time over that of the model, within bounds; the usual one for too few.
func (s sums) factor(usual float64) float64 {
	if s.n < 3 {
		return usual
	}
	return clamp(s.took/s.said, 1.0/mostFactor, mostFactor)
}

// typicalOf is the mean of values without outliers; 0 for none.
func typicalOf(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	return hostmodel.SpreadOf(xs).Mean()
}

// plausible reports whether a measured time can enter a model that says another one.
func plausible(took, said time.Duration) bool {
	return took > 0 && said > 0 && took < said*absurd && said < took*absurd
}

// starting is how many containers of a run were being started at some instant at which that of a task was, and how
// many programs ran when its start began.
func starting(all map[string]Course, task string) (together, busy int) {
	x := all[task]
	for _, o := range all {
		if o.Staged < x.Started && o.Started > x.Staged {
			together++
		}
		if o.Started <= x.Staged && o.Ended > x.Staged {
			busy++
		}
	}
	return together, busy
}
