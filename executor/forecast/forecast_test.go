package forecast_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/executor/forecast"
	"gantry/executor/sim"
	"gantry/executor/sim/hostmodel"
	"gantry/planner"
	"gantry/planner/predict"
	"gantry/planner/unit"
	"gantry/trace"
)

// fork is a, and after it b and c at once, of 2, 3 and 5 s.
func fork() executor.Submission {
	task := func(id string, s time.Duration) trace.Task {
		return trace.Task{ID: id, Kind: "k" + id, Runtime: s * time.Second, Cores: 1, Known: trace.Runtime}
	}
	w := &trace.Workflow{Label: "fork", Tasks: []trace.Task{task("a", 2), task("b", 3), task("c", 5)}}
	w.Tasks[0].Children = []int32{1, 2}
	w.Tasks[1].Parents, w.Tasks[2].Parents = []int32{0}, []int32{0}
	return executor.Submission{Name: "fork", Workflow: w}
}

func platform(nodes int) *planner.Platform {
	p := &planner.Platform{Groups: []string{""}, Bandwidth: [][]unit.BytesPerSecond{{1e6}}, Latency: [][]int64{{0}}}
	for i := range nodes {
		p.Nodes = append(p.Nodes, planner.Node{ID: planner.NodeID(i), Capacity: unit.Vector{1000, 1e9, 1e9}, Speed: 1})
	}
	return p
}

// maker makes simulations with a startup of 1 s; in repetition k all programs take k seconds more. Estimates are of
// each node, as with a host model.
func maker(t *testing.T, p *planner.Platform) forecast.Maker { return makerOf(t, p, "cpp") }

func makerOf(t *testing.T, p *planner.Platform, policy string) forecast.Maker {
	return func(k int) (*forecast.Parts, error) {
		declared := &predict.Declared{Startup: time.Second}
		cfg := sim.Config{Platform: p, Startup: time.Second}
		cfg.Actual = func(_ planner.TaskID, run time.Duration) time.Duration {
			return run + time.Duration(k)*time.Second
		}
		each := func(t planner.TaskID, run time.Duration, _ []time.Duration, s planner.Source) {
			declared.Declare(t, run, slices.Repeat([]time.Duration{run}, len(p.Nodes)), s)
		}
		pl := planner.New(p, planner.DefaultRetryRules(), enginetest.Policy(t, policy), declared, 1)
		return &forecast.Parts{Engine: &executor.Engine{Planner: pl, Admit: &executor.Admitter{Platform: p,
			TimeScale: 1, SizeScale: 1, Declare: each, Forget: declared.Forget}}, Sim: cfg}, nil
	}
}

// On one node: 3 + 4 + 6 s. Repetitions take 3, 6, 9 ... 30 s more.
func TestAForecastHasTheMedianAndEightyPercentOfItsRepetitions(t *testing.T) {
	b := forecast.Bounds{Repetitions: 10, Least: 10, Time: time.Minute, Whole: time.Minute}
	past := &forecast.Past{Arrivals: []executor.Submission{fork()}}
	f, err := forecast.Make(t.Context(), maker(t, platform(1)), past, b)
	must(t, err)
	s := time.Second
	if f.Course.Makespan() != 13*s || f.Repetitions != 10 {
		t.Errorf("%v without noise, %d repetitions", f.Course.Makespan(), f.Repetitions)
	}
	if want := (forecast.Range{Expected: 29500 * time.Millisecond, Low: 16300 * time.Millisecond,
		High: 42700 * time.Millisecond}); f.Makespan != want {
		t.Errorf("makespan %+v, not %+v", f.Makespan, want)
	}
	if len(f.Workflows) != 1 || f.Workflows[0].Name != "fork" || f.Workflows[0].Range != f.Makespan {
		t.Errorf("workflows %+v", f.Workflows)
	}
	// the longest first; each has its start of 1 s in it
	var names []string
	for _, k := range f.Kinds {
		names = append(names, k.Name)
	}
	if !slices.Equal(names, []string{"ka", "kc", "kb"}) || f.Kinds[1].Expected != 11500*time.Millisecond {
		t.Errorf("types %+v", f.Kinds)
	}
	if f.Starting != 3*s || f.Held != 13*s {
		t.Errorf("starting %v of %v", f.Starting, f.Held)
	}
}

// A forecast from the middle of a run includes what has happened: if the rest goes as simulated, it ends as the whole
// simulation does, from whatever instant it is made.
func TestAForecastContinuesFromWhatHasHappened(t *testing.T) {
	for _, policy := range []string{"cpp", "heft", "wheft", "rm-dcwf", "mrcp-rm", "mows", "fifo", "3dsf", "drf"} {
		for _, nodes := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s on %d", policy, nodes), func(t *testing.T) { continues(t, policy, platform(nodes)) })
		}
	}
}

func continues(t *testing.T, policy string, p *planner.Platform) {
	parts, err := makerOf(t, p, policy)(0)
	must(t, err)
	parts.Sim.Start = 0
	var batches []executor.Batch
	e := &executor.Engine{Planner: parts.Planner, Admit: parts.Admit, Runtime: sim.New(parts.Sim),
		Arrivals: []executor.Submission{fork()},
		Watch: func(_ planner.View, events []planner.Event, admitted []*executor.Admission) {
			batches = append(batches, executor.Batch{Events: slices.Clone(events), Admissions: slices.Clone(admitted)})
		}}
	res := enginetest.Run(t, e)
	for i := 1; i < len(batches); i++ {
		at := func(k int) planner.Time { return batches[k].Events[len(batches[k].Events)-1].At }
		now := (at(i-1) + at(i)) / 2
		past := &forecast.Past{Batches: batches[:i], Now: now}
		c, err := forecast.Simulate(t.Context(), makerOf(t, p, policy), past, 0)
		must(t, err)
		if off := c.End.Sub(res.Ended); off != 0 {
			t.Errorf("from %v on it ends at %v, not at %v", now, c.End, res.Ended)
		}
		if c.Begin != 0 || len(c.Attempts) != 3 {
			t.Errorf("from %v on: begin %v, %d attempts", now, c.Begin, len(c.Attempts))
		}
	}
}

// What is left of a run under way is simulated from its state alone, by policies that plan ahead, too.
func TestAForecastOfWhatIsUnderWay(t *testing.T) {
	const s = planner.Time(time.Second)
	waits := executor.TaskState{Phase: planner.Waiting, Node: planner.None, Started: unit.Never}
	under := executor.TaskState{Phase: planner.Running, Started: s, Until: 3 * s, Hold: unit.Vector{1000, 1e9, 1e9}}
	starts := under
	starts.Phase, starts.Started = planner.Starting, unit.Never
	onGPU := under
	onGPU.Hold[unit.GPU], onGPU.GPUs = unit.WholeGPU, 0b10
	for _, policy := range []string{"cpp", "heft", "wheft", "rm-dcwf", "mrcp-rm", "fifo", "edf", "3dsf", "drf"} {
		for _, first := range []executor.TaskState{under, starts, onGPU} {
			p := platform(1)
			p.Nodes[0].Capacity[unit.GPU] = 2 * unit.WholeGPU
			parts, err := makerOf(t, p, policy)(0)
			must(t, err)
			flow := fork()
			past, err := forecast.Live(parts, &executor.Snapshot{Now: s, Capacity: []unit.Vector{p.Nodes[0].Capacity},
				Flows: []executor.FlowState{{Name: "fork", Started: 0,
					Tasks: []executor.TaskState{first, waits, waits}}}},
				func(*executor.FlowState) (*executor.Submission, []planner.TaskID, error) { return &flow, nil, nil })
			must(t, err)
			c, err := forecast.Simulate(t.Context(), makerOf(t, p, policy), past, 0)
			if err != nil {
				t.Errorf("%s: %v", policy, err)
			} else if c.End < 13*s || c.End > 13*s+s/100 { // what starts is seen to run a moment later
				t.Errorf("%s, %v: it ends at %v, not at 13s", policy, first.Phase, c.End)
			}
		}
	}
}

// A forecast on the model of a host ends as the simulation of the run does.
func TestAForecastOnAHostModel(t *testing.T) {
	chain := &trace.Workflow{Label: "chain"}
	for i := range int32(4) {
		task := trace.Task{ID: string('a' + i), Kind: "link", Runtime: 3 * time.Second, Cores: 1, Known: trace.Runtime}
		if i > 0 {
			task.Parents = []int32{i - 1}
		}
		if i < 3 {
			task.Children = []int32{i + 1}
		}
		chain.Tasks = append(chain.Tasks, task)
	}
	subs := []executor.Submission{{Name: "chain", Workflow: chain}}
	p := platform(1)
	cfg := sim.Config{Platform: p, Host: hostmodel.Example(2)}
	with := func(int) (*forecast.Parts, error) {
		e := enginetest.New(t, p, enginetest.Policy(t, "cpp"))
		return &forecast.Parts{Engine: e, Sim: cfg}, nil
	}
	e := enginetest.New(t, p, enginetest.Policy(t, "cpp"), slices.Clone(subs)...)
	e.Runtime = sim.For(cfg)
	res := enginetest.Run(t, e)
	c, err := forecast.Simulate(t.Context(), with, &forecast.Past{Arrivals: subs}, 0)
	must(t, err)
	if c.End != res.Ended {
		t.Errorf("the forecast ends at %v, the simulation at %v", c.End, res.Ended)
	}
}

func TestAForecastThatTakesTooLongSaysSo(t *testing.T) {
	b := forecast.Bounds{Repetitions: 10, Least: 10, Time: time.Minute, Whole: 1}
	past := &forecast.Past{Arrivals: []executor.Submission{fork()}}
	if _, err := forecast.Make(t.Context(), maker(t, platform(1)), past, b); err == nil ||
		err.Error() != "to simulate it takes more than 1ns" {
		t.Errorf("%v", err)
	}
}

// must ends a test at an error that it does not look for.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
