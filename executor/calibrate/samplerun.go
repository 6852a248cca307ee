package calibrate

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"gantry/executor/hostmodel"
)

// SampleTask is a task of a workflow that calibration runs as users run theirs.
type SampleTask struct {
	Kind    string
	Seconds float64 // on a node of speed 1
	CPU     float64 // percent of a core
	Bytes   int64   // of its output, and of an input from outside if it has no parents
	After   []int   // positions of its parents
}

// SampleWorkflow is a workflow of calibration, and the policy that it runs under.
type SampleWorkflow struct {
	Name, Policy string
	Tasks        []SampleTask
}

// SampleWorkflows are small, and of several shapes: containers start alone and beside others that start, run and end,
// ahead and not, for guesses that are right and wrong. Each takes one to two seconds on two cores.
func SampleWorkflows(quick bool) []SampleWorkflow {
	burst := []SampleTask{}
	for i := range 7 {
		burst = append(burst, SampleTask{"burst", 0.06 + 0.02*float64(i%4), 60, 2000, nil})
	}
	all := []SampleWorkflow{
		{"burst", "gbf", burst},
		{"chain", "heft", []SampleTask{{"link", 0.25, 50, 50_000, nil}, {"link", 0.3, 90, 50_000, []int{0}},
			{"link", 0.2, 20, 50_000, []int{1}}}},
		{"fork", "cpp", []SampleTask{{"split", 0.2, 80, 500_000, nil}, {"part", 0.25, 70, 50_000, []int{0}},
			{"part", 0.35, 70, 50_000, []int{0}}, {"part", 0.2, 70, 50_000, []int{0}},
			{"part", 0.3, 70, 50_000, []int{0}}, {"join", 0.15, 80, 50_000, []int{1, 2, 3, 4}}}},
		{"uneven", "gbf", []SampleTask{{"long", 0.8, 100, 1_000_000, nil}, {"little", 0.15, 40, 1000, nil},
			{"little", 0.1, 90, 1000, nil}, {"little", 0.2, 10, 1000, nil}}},
		{"ladder", "mows", []SampleTask{{"left", 0.3, 90, 5_000_000, nil}, {"right", 0.3, 5, 5_000_000, nil},
			{"left", 0.25, 60, 100_000, []int{0}}, {"right", 0.2, 60, 100_000, []int{1}},
			{"last", 0.1, 90, 1000, []int{2, 3}}}},
		{"pair", "heft", []SampleTask{{"one", 0.5, 90, 100_000, nil}, {"other", 0.4, 90, 100_000, nil}}},
	}
	if quick {
		return all[:3]
	}
	return append(all, SampleWorkflow{"burst-again", "cpp", burst}, SampleWorkflow{"fork-again", "gbf", all[2].Tasks})
}

// WfFormat is the workflow as a WfFormat file. Its tasks may hold that many bytes of memory, and read says how many
// bytes one reads from outside; 0: it has no such file.
func (w *SampleWorkflow) WfFormat(memory int64, read func(t *SampleTask) int64) ([]byte, error) {
	type object = map[string]any
	var tasks, runs, files []object
	id := func(i int) string { return fmt.Sprintf("%s-%02d", w.Tasks[i].Kind, i) }
	file := func(name string, size int64) string {
		files = append(files, object{"id": name, "sizeInBytes": size})
		return name
	}
	children := make([][]string, len(w.Tasks))
	for i, t := range w.Tasks {
		for _, p := range t.After {
			children[p] = append(children[p], id(i))
		}
	}
	for i := range w.Tasks {
		t := &w.Tasks[i]
		in, parents := []string{}, []string{}
		if size := read(t); size > 0 {
			in = append(in, file(id(i)+".in", size))
		}
		for _, p := range t.After {
			in, parents = append(in, id(p)+".out"), append(parents, id(p))
		}
		tasks = append(tasks, object{"id": id(i), "name": t.Kind, "parents": parents,
			"children": append([]string{}, children[i]...), "inputFiles": in,
			"outputFiles": []string{file(id(i)+".out", t.Bytes)}})
		runs = append(runs, object{"id": id(i), "runtimeInSeconds": t.Seconds, "coreCount": 1, "avgCPU": t.CPU,
			"memoryInBytes": memory})
	}
	return json.Marshal(object{"name": w.Name, "schemaVersion": "1.5", "workflow": object{
		"specification": object{"tasks": tasks, "files": files},
		"execution":     object{"makespanInSeconds": 0, "executedAt": "unknown", "tasks": runs}}})
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
	corrections = 4                    // times that the model is corrected: each changes who is beside whom
	notAhead    = 5 * time.Millisecond // a container that waits for its task starts it in less
	mostFactor  = 3                    // by how much a correction changes a phase
	leastModels = 4                    // that say how steady a host is
)

// Correct has a model say of its phases what real runs took: measurements one by one see nothing of what a run does
// beside them. Starts alone have a factor, starts beside others another one; what staging and ending took longer is
// added; programs have the spread that they had. What is left of starts differs from run to run, and from the models
// that were corrected before: that is their drift.
func Correct(m *hostmodel.Model, before []*hostmodel.Model, runs []SampleRun) error {
	var rest, busy []float64
	for i := range runs {
		busy = append(busy, runs[i].Busy)
	}
	if len(runs) > 0 {
		m.Measured.BusyCores = m.Measured.BusyCores*MeasureShare + mean(busy)*(1-MeasureShare)
	}
	var programs hostmodel.Spread
	for round := range corrections + 1 {
		var alone, beside sums
		var staging, ending, run []float64
		rest = rest[:0]
		for i := range runs {
			simulated, err := runs[i].Simulate(m)
			if err != nil {
				return err
			}
			var all sums
			for _, task := range slices.Sorted(maps.Keys(runs[i].Courses)) {
				real, sim := runs[i].Courses[task], simulated[task]
				if sim.Over == 0 {
					continue
				}
				ending = append(ending, float64((real.Over-real.Ended)-(sim.Over-sim.Ended)))
				if a, b := real.Ended-real.Started, sim.Ended-sim.Started; real.Node == sim.Node && plausible(a, b) {
					run = append(run, float64(a)/float64(b)*m.Run.Mean())
				}
				a, b := real.Started-real.Staged, sim.Started-sim.Staged
				if a < notAhead || b < notAhead || !plausible(a, b) {
					continue
				}
				staging = append(staging, float64((real.Staged-real.Queued)-(sim.Staged-sim.Queued)))
				all.add(a, b)
				if starting(runs[i].Courses, task) > 1 {
					beside.add(a, b)
				} else {
					alone.add(a, b)
				}
			}
			if all.n > 0 {
				rest = append(rest, all.took/all.said)
			}
		}
		if round == corrections {
			break
		}
		one, several := alone.factor(), beside.factor()
		for _, p := range []*hostmodel.Phase{&m.Phases.Create, &m.Phases.Start} {
			p.Wall.BaseNanos *= one
			for k, row := range p.Slowdown.Factor {
				for i := range row {
					if p.Slowdown.Together[k] > 1 {
						row[i] = clamp(row[i]*several/one, 1, 1000)
					}
				}
			}
			p.Slowdown.Raise()
		}
		m.Phases.Stage.Wall.BaseNanos = max(0, m.Phases.Stage.Wall.BaseNanos+typicalOf(staging))
		m.Phases.End.Wall.BaseNanos = max(0, m.Phases.End.Wall.BaseNanos+typicalOf(ending))
		if len(run) >= leastEnded {
			programs = hostmodel.SpreadOf(run)
			m.Run = hostmodel.Spread{programs.Mean()} // until all is known
		}
	}
	wide, warnings := uncertainty(m)
	m.Measured.Warnings = warnings
	if len(programs) > 0 {
		m.Run = programs.Widen(wide)
	}
	drift := hostmodel.LogNormal(deviation(rest), len(rest))
	starts := func(m *hostmodel.Model) float64 {
		return m.Phases.Create.Wall.BaseNanos + m.Phases.Start.Wall.BaseNanos
	}
	between := []float64{1}
	for _, b := range before {
		between = append(between, clamp(starts(b)/starts(m), 1.0/absurd, absurd))
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

// sums are of what starts took, and of what the model said.
type sums struct {
	took, said float64
	n          int
}

func (s *sums) add(took, said time.Duration) {
	s.took, s.said, s.n = s.took+float64(took), s.said+float64(said), s.n+1
}

// factor is what took over what was said, within bounds; 1 for too few.
func (s *sums) factor() float64 {
	if s.n < 3 {
		return 1
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

// starting is how many containers of a run were being started at some instant at which that of a task was.
func starting(all map[string]Course, task string) (n int) {
	x := all[task]
	for _, o := range all {
		if o.Staged < x.Started && o.Started > x.Staged && o.Started-o.Staged >= notAhead || o == x {
			n++
		}
	}
	return n
}
