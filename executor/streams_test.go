package executor_test

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/alloc"
	"gantry/planner/policy"
	"gantry/planner/predict"
	"gantry/planner/unit"
	"gantry/trace"
)

// dag reads "a=2 b=3; a>b": tasks with their runtimes in seconds, then edges.
func dag(name, text string) *trace.Workflow {
	w := &trace.Workflow{Name: name, Label: name}
	tasks, edges, _ := strings.Cut(text, ";")
	at := map[string]int32{}
	for i, f := range strings.Fields(tasks) {
		id, run, _ := strings.Cut(f, "=")
		seconds, err := strconv.ParseFloat(run, 64)
		if err != nil {
			panic(err)
		}
		at[id] = int32(i)
		w.Tasks = append(w.Tasks, trace.Task{ID: id, Kind: id, Cores: 1, Retries: -1,
			Runtime: time.Duration(seconds * 1e9)})
	}
	for _, e := range strings.Fields(edges) {
		from, to, _ := strings.Cut(e, ">")
		p, c := at[from], at[to]
		w.Tasks[p].Children = append(w.Tasks[p].Children, c)
		w.Tasks[c].Parents = append(w.Tasks[c].Parents, p)
	}
	return w
}

func single(speeds ...float64) *planner.Platform {
	p := &planner.Platform{Groups: []string{""}}
	for i, s := range speeds {
		p.Nodes = append(p.Nodes, planner.Node{ID: planner.NodeID(i), Name: fmt.Sprint("P", i+1), Speed: s,
			Capacity: unit.Vector{1000, unit.Unlimited, unit.Unlimited}})
	}
	return p
}

// slots is one node of several cores.
func slots(cores int64) *planner.Platform {
	return &planner.Platform{Groups: []string{""},
		Nodes: []planner.Node{{Name: "P", Speed: 1, Capacity: unit.Vector{1000 * cores, unit.Unlimited,
			unit.Unlimited}}}}
}

// schedule reads "a@1[0,2]": task, processor counted from 1, start and end in seconds.
func schedule(text string) map[string]stay {
	out := map[string]stay{}
	for _, f := range strings.Fields(text) {
		var s stay
		name, rest, _ := strings.Cut(f, "@")
		var node int
		if _, err := fmt.Sscanf(rest, "%d[%g,%g]", &node, &s.start, &s.end); err != nil {
			panic(err)
		}
		s.node = planner.NodeID(node - 1)
		out[name] = s
	}
	return out
}

// stream is the worked example of the online policies: a diamond, a chain and a fork, a second apart.
func stream(apart planner.Time) []executor.Submission {
	return []executor.Submission{
		{Name: "X", Workflow: dag("X", "a=2 b=3 c=4 d=2; a>b a>c b>d c>d")},
		{Name: "Y", At: apart, Workflow: dag("Y", "e=3 f=1; e>f")},
		{Name: "Z", At: 2 * apart, Workflow: dag("Z", "g=1 h=1 i=1 k=1 l=1; g>h g>i g>k h>l i>l k>l")},
	}
}

// The mean speed is 1. At 6 s the slowdown of C, which has waited for its second half, is (6 + 9) / 12 = 1.25, and that
// of E (2 + 9) / 9 = 1.22. By the mean run times, 4/3 as long, E would come first: 1.17 against 1.13.
func TestFairWorkflowPrioritizationTakesCriticalPathsAtTheAverageSpeed(t *testing.T) {
	got, _ := simulate(t, single(1.5, 0.5), "fwp", executor.Submission{Name: "A", Workflow: dag("A", "a=9")},
		executor.Submission{Name: "C", Workflow: dag("C", "c=3 d=9; c>d")}, executor.Submission{Name: "E", At: 4e9,
			Workflow: dag("E", "e=9")})
	for task, w := range schedule("a@1[0,6] c@2[0,6] d@1[6,12] e@2[6,24]") {
		if got[task] != w {
			t.Errorf("task %s: %+v, want %+v", task, got[task], w)
		}
	}
}

// At 5 s both nodes are past the ends they were estimated to have, and so about to be free, whatever they have run: b
// takes the first.
func TestWorkloadHEFTExpectsOverrunsToEndAtOnce(t *testing.T) {
	got, _ := simulateWith(t, single(1, 1), "wheft", predict.ErrorModel{Kind: predict.Static, Factor: 0.1},
		executor.Submission{Name: "C", Workflow: dag("C", "c=20")},
		executor.Submission{Name: "A", At: 1e9, Workflow: dag("A", "a=10")}, executor.Submission{Name: "B", At: 5e9,
			Workflow: dag("B", "b=10")})
	for task, w := range schedule("c@1[0,20] a@2[1,11] b@1[20,30]") {
		if got[task] != w {
			t.Errorf("task %s: %+v, want %+v", task, got[task], w)
		}
	}
}

// At 5 s the first node runs a task that should have ended, and so is as soon free as the second, which is idle: of
// equal finishes the lower node has b. With overrun=soon it is free a millisecond later.
func TestWorkloadHEFTTakesOverrunsAsEndingNow(t *testing.T) {
	for spec, want := range map[string]string{"wheft": "c@1[0,20] b@1[20,30]",
		"wheft:overrun=soon": "c@1[0,20] b@2[5,15]"} {
		got, _ := simulateWith(t, single(1, 1), spec, predict.ErrorModel{Kind: predict.Static, Factor: 0.1},
			executor.Submission{Name: "C", Workflow: dag("C", "c=20")},
			executor.Submission{Name: "B", At: 5e9, Workflow: dag("B", "b=10")})
		for task, w := range schedule(want) {
			if got[task] != w {
				t.Errorf("%s: task %s: %+v, want %+v", spec, task, got[task], w)
			}
		}
	}
}

// a and b have one rank; b becomes free first.
func TestPlansTakeTasksOfOneRankByTheirIDs(t *testing.T) {
	for _, policy := range []string{"heft", "wheft"} {
		got, _ := simulate(t, single(1), policy, executor.Submission{Name: "w",
			Workflow: dag("w", "x=1 y=2 a=1 b=1; x>b y>a")})
		for task, w := range schedule("y@1[0,2] x@1[2,3] a@1[3,4] b@1[4,5]") {
			if got[task] != w {
				t.Errorf("%s: task %s: %+v, want %+v", policy, task, got[task], w)
			}
		}
	}
}

func TestPoliciesOnAStreamOfThreeWorkflows(t *testing.T) {
	for _, c := range []struct {
		policy   string
		apart    planner.Time
		want     string
		slowdown [3]float64
	}{
		{"gbf:pick=first", 1e9, "a@1[0,2] e@2[1,4] b@1[2,5] c@2[4,8] f@1[5,6] g@1[6,7] h@1[7,8] d@1[8,10] i@2[8,9] " +
			"k@2[9,10] l@1[10,11]", [3]float64{1.25, 1.25, 3}},
		{"cpp", 1e9, "a@1[0,2] e@2[1,4] c@1[2,6] b@2[4,7] f@1[6,7] d@1[7,9] g@2[7,8] h@2[8,9] i@1[9,10] k@2[9,10] " +
			"l@1[10,11]", [3]float64{1.125, 1.5, 3}},
		{"owm:order=highest", 1e9, "a@1[0,2] e@2[1,4] c@1[2,6] b@2[4,7] g@1[6,7] d@1[7,9] h@2[7,8] i@2[8,9] " +
			"k@1[9,10] f@2[9,10] l@1[10,11]", [3]float64{1.125, 2.25, 3}},
		{"fdws", 1e9, "a@1[0,2] e@2[1,4] g@1[2,3] h@1[3,4] i@1[4,5] k@2[4,5] l@1[5,6] f@2[5,6] c@1[6,10] b@2[6,9] " +
			"d@1[10,12]", [3]float64{1.5, 1.25, 4. / 3}},
		{"hr", 1e9, "a@1[0,2] e@2[1,4] g@1[2,3] h@1[3,4] f@1[4,5] i@2[4,5] k@1[5,6] c@2[5,9] l@1[6,7] b@1[7,10] " +
			"d@1[10,12]", [3]float64{1.5, 1, 5. / 3}},
		{"fwp", 1e9, "a@1[0,2] e@2[1,4] c@1[2,6] g@2[4,5] h@2[5,6] i@1[6,7] k@2[6,7] l@1[7,8] f@2[7,8] b@1[8,11] " +
			"d@1[11,13]", [3]float64{1.625, 1.75, 2}},
		{"wheft", 0, "a@1[0,2] c@1[2,6] e@2[0,3] g@2[3,4] b@2[4,7] d@1[7,9] f@1[6,7] h@2[7,8] i@2[8,9] k@1[9,10] " +
			"l@1[10,11]", [3]float64{9. / 8, 7. / 4, 11. / 3}},
	} {
		t.Run(c.policy, func(t *testing.T) {
			want := schedule(c.want)
			for name, p := range map[string]*planner.Platform{"two nodes of one core": single(1, 1),
				"one node of two cores": slots(2)} {
				got, _ := simulate(t, p, c.policy, stream(c.apart)...)
				for task, w := range want {
					if len(p.Nodes) == 1 {
						w.node = 0
					}
					if got[task] != w {
						t.Errorf("%s: task %s: %+v, want %+v", name, task, got[task], w)
					}
				}
				for i, last := range []struct {
					task    string
					arrived planner.Time
					length  float64
				}{{"d", 0, 8}, {"f", c.apart, 4}, {"l", 2 * c.apart, 3}} {
					if s := (got[last.task].end - last.arrived.Seconds()) / last.length; s != c.slowdown[i] {
						t.Errorf("%s: slowdown of workflow %d is %v, want %v", name, i+1, s, c.slowdown[i])
					}
				}
			}
		})
	}
}

// By default OWM takes the lowest rank across workflows: the short ones go first.
func TestOWMTakesTheLowestRankAcrossWorkflows(t *testing.T) {
	got, _ := simulate(t, single(1, 1), "owm", stream(1e9)...)
	want := schedule("a@1[0,2] e@2[1,4] g@1[2,3] h@1[3,4] f@1[4,5] i@2[4,5] k@1[5,6] c@2[5,9] l@1[6,7] b@1[7,10] " +
		"d@1[10,12]")
	for task, w := range want {
		if got[task] != w {
			t.Errorf("task %s: %+v, want %+v", task, got[task], w)
		}
	}
}

// One fast and one slow node: the long task waits for the fast one though the slow one is idle, and its workflow waits
// with it.
func TestOWMWaitsForAFasterBusyNode(t *testing.T) {
	subs := []executor.Submission{{Name: "U", Workflow: dag("U", "a=6 b=3")},
		{Name: "V", Workflow: dag("V", "e=6 f=1.5; e>f")}}
	got, _ := simulate(t, single(1.5, 0.5), "owm:order=highest", subs...)
	want := schedule("e@1[0,4] a@1[4,8] b@2[4,10] f@1[8,9]")
	for task, w := range want {
		if got[task] != w {
			t.Errorf("task %s: %+v, want %+v", task, got[task], w)
		}
	}
}

// probe notes the distances of workflows from FWP's target before its first choice of every instant.
type probe struct {
	planner.Allocator[alloc.Skipper]
	fwp  *policy.FWP
	seen map[planner.Time][]float64
}

func (p *probe) Allocate(ctx context.Context, c *planner.Cycle, q alloc.Skipper) error {
	if p.seen[c.Now()] == nil {
		for w := range planner.WorkflowID(c.Workflows()) {
			d := math.NaN()
			if left, _ := c.Progress(w); left > 0 {
				d = p.fwp.Distance(c, w)
			}
			p.seen[c.Now()] = append(p.seen[c.Now()], d)
		}
	}
	return p.Allocator.Allocate(ctx, c, q)
}

func TestFWPComparesSlowdownsWithItsTarget(t *testing.T) {
	est := &predict.Declared{}
	e := streamEngine(t, single(1, 1), "fwp", est, stream(1e9))
	pol, err := policy.Parse("fwp:k=4,m=3")
	if err != nil {
		t.Fatal(err)
	}
	fwp := pol.(*policy.FWP)
	pr := &probe{fwp.Allocate, fwp, map[planner.Time][]float64{}}
	fwp.Allocate = pr
	e.Planner = planner.New(single(1, 1), planner.DefaultRetryRules(), fwp, est, 1)
	if _, err := e.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	gone := math.NaN()
	for at, want := range map[planner.Time][]float64{2e9: {0, -0.5, 0}, 4e9: {0.125, 0, 2. / 3},
		5e9: {0.25, 0.25, 2. / 3}, 6e9: {0.375, 0.5, 1},
		7e9: {0.5, 0.75, 1}, 8e9: {-0.25, gone, gone}} {
		for w := range want {
			got := pr.seen[at][w]
			if math.Abs(got-want[w]) > 1e-9 || math.IsNaN(got) != math.IsNaN(want[w]) {
				t.Errorf("at %v workflow %d is %v from the target, want %v", at, w, got, want[w])
			}
		}
	}
}

// At 0 s there is no room for b, and so c starts; at 3 s there is.
func TestTasksPassedOverAreLookedAtAgain(t *testing.T) {
	for _, spec := range []string{"gbf:pick=first", "owm", "fdws", "hr", "fwp"} {
		p := single(1, 1)
		p.Nodes[1].Capacity[unit.CPU] = 4000
		a, b := dag("A", "a=3"), dag("B", "b=9 c=6")
		a.Tasks[0].Cores, b.Tasks[0].Cores = 4, 4
		got, _ := simulate(t, p, spec, executor.Submission{Name: "A", Workflow: a}, executor.Submission{Name: "B",
			Workflow: b})
		for task, w := range schedule("a@2[0,3] b@2[3,12] c@1[0,6]") {
			if got[task] != w {
				t.Errorf("%s: task %s: %+v, want %+v", spec, task, got[task], w)
			}
		}
	}
}
