package remap_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gantry/planner"
	"gantry/planner/plannertest"
	"gantry/planner/policy"
	"gantry/planner/remap"
	"gantry/planner/unit"
)

// bench drives a planner by hand. Instants and durations are in seconds.
type bench struct {
	*plannertest.Bench
	t     *testing.T
	pol   planner.Policy
	notes []planner.Note
}

func at(s float64) planner.Time { return planner.Time(s*1e9 + 0.5) }

// newBench has slots slots, two on each node. A policy may be counted: its searches are.
func newBench(t *testing.T, spec string, slots int) *bench {
	t.Helper()
	spec, counted := strings.CutPrefix(spec, "counted ")
	nodes := "nodes" + strings.Repeat(" 2", slots/2) + strings.Repeat(" 1", slots%2)
	s, err := plannertest.Parse(nodes)
	if err != nil {
		t.Fatal(err)
	}
	s.Run = append(s.Run, 0) // runs are given by hand, and may differ from the estimates
	pol, err := policy.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	if counted {
		pol.(planner.SearchCounter).CountSearches()
	}
	return &bench{Bench: s.Bench(t, pol), t: t, pol: pol}
}

// task is a task to be: its runtime and its parents.
type task struct {
	run     float64
	stage   int32
	parents []int
}

// arrive admits a workflow; a deadline of 0 is none.
func (b *bench) arrive(release, due float64, tasks ...task) {
	b.t.Helper()
	v := b.Planner.View()
	first := planner.TaskID(v.Tasks())
	w := planner.Workflow{ID: planner.WorkflowID(v.Workflows()), Class: planner.Deadline, Arrived: b.Now,
		Release: at(release), Due: at(due)}
	if due == 0 {
		w.Due = unit.Never
	}
	all := make([]planner.Task, len(tasks))
	for i, x := range tasks {
		all[i] = planner.Task{ID: first + planner.TaskID(i), Workflow: w.ID, Stage: x.stage, Need: unit.Cores(1),
			Retries: planner.None}
		if x.run == 0 {
			all[i].Need, all[i].Formal = unit.Vector{}, true
		}
		*b.Est = append(*b.Est, time.Duration(at(x.run)))
	}
	for i, x := range tasks {
		for _, p := range x.parents {
			all[i].Parents = append(all[i].Parents, first+planner.TaskID(p))
			all[p].Children = append(all[p].Children, first+planner.TaskID(i))
		}
	}
	var done []int
	for len(done) < len(tasks) { // topological order
		for i, x := range tasks {
			if !slices.Contains(done, i) && !slices.ContainsFunc(x.parents,
				func(p int) bool { return !slices.Contains(done, p) }) {
				done = append(done, i)
				w.Tasks = append(w.Tasks, first+planner.TaskID(i))
			}
		}
	}
	b.Apply(&planner.WorkflowArrived{Workflow: w, Tasks: all})
}

func (b *bench) plan() {
	b.t.Helper()
	pc, err := b.Planner.Plan(b.t.Context(), b.Now)
	if err != nil {
		b.t.Fatal(err)
	}
	b.notes = append(b.notes, pc.Notes...)
	b.Apply(pc)
}

// exit ends the attempt of a task.
func (b *bench) exit(t planner.TaskID) {
	b.t.Helper()
	a := b.Planner.View().Current(t)
	if b.Planner.View().Phase(t) == planner.Starting {
		b.Apply(planner.AttemptStarted{Attempt: a})
	}
	b.Apply(&planner.AttemptExited{Attempt: a, Outcome: planner.OK})
}

// formalities lets dummies end that are ready, as the engine does before it plans.
func (b *bench) formalities() {
	b.t.Helper()
	for pc := b.Planner.Formalities(b.Now); pc != nil; pc = b.Planner.Formalities(b.Now) {
		b.Apply(pc)
		for _, o := range pc.Orders {
			b.Apply(planner.AttemptStarted{Attempt: o.Attempt})
			b.Apply(&planner.AttemptExited{Attempt: o.Attempt, Outcome: planner.OK})
		}
	}
}

func (b *bench) schedule() []remap.Stay { return b.pol.(*remap.Policy).Schedule() }

// wantPlan compares the plan with "task[start,end]" in seconds, of the tasks named.
func (b *bench) wantPlan(want string) {
	b.t.Helper()
	stays := b.schedule()
	for _, w := range strings.Fields(want) {
		var id int
		var start, end float64
		if _, err := fmt.Sscanf(w, "%d[%f,%f]", &id, &start, &end); err != nil {
			b.t.Fatalf("%q: %v", w, err)
		}
		i := slices.IndexFunc(stays, func(s remap.Stay) bool { return int(s.Task) == id })
		if i < 0 {
			b.t.Errorf("task %d is not planned, want %s", id, w)
		} else if s := stays[i]; s.Start != at(start) || s.End != at(end) {
			b.t.Errorf("task %d is planned for [%v,%v], want %s", id, s.Start.Seconds(), s.End.Seconds(), w)
		}
	}
}

// topics lists the notes of some topics, with their workflows.
func (b *bench) topics(of ...string) string {
	var out []string
	for _, n := range b.notes {
		if slices.Contains(of, n.Topic) {
			out = append(out, fmt.Sprintf("%s %d: %s", n.Topic, n.Workflow, n.Text))
		}
	}
	return strings.Join(out, "; ")
}

// figure2 is the job of the paper's figure 2 with runtimes: t1, t2, t3 (tasks 1 to 3) of 4, 6 and 8 s, the dummy t0
// that joins them, t4 and t5 of 10 and 5 s.
func figure2() []task {
	return []task{{0, 1, []int{1, 2, 3}}, {4, 1, nil}, {6, 1, nil}, {8, 1, nil}, {10, 2, []int{0}}, {5, 2, []int{0}}}
}

func TestFigure2JobUnderAllConfigurations(t *testing.T) {
	tsp1on4 := "1[0,4] 2[0,6] 3[0,8] 4[8,18] 5[8,13]"
	tsp1on2 := "3[0,8] 2[0,6] 1[6,10] 4[10,20] 5[10,15]"
	for _, c := range []struct {
		config string
		slots  int
		want   string
	}{
		{"pd-sl-tsp1", 4, tsp1on4}, {"pd-tl-tsp1", 4, tsp1on4}, {"ed-sl-tsp1", 4, tsp1on4}, {"ed-tl-tsp1", 4, tsp1on4},
		{"pd-sl-tsp1", 2, tsp1on2}, {"ed-sl-tsp1", 2, tsp1on2},
		{"pd-sl-tsp2", 4, "3[14.222222222,22.222222222] 2[16.222222222,22.222222222] 1[18.222222222,22.222222222] " +
			"4[40,50] 5[31.111111111,36.111111111]"},
		{"pd-tl-tsp2", 4, "3[14.222222222,22.222222222] 2[16.222222222,22.222222222] 1[18.222222222,22.222222222] " +
			"4[40,50] 5[31.111111111,36.111111111]"},
		{"ed-sl-tsp2", 4, "3[16,24] 2[18,24] 1[20,24] 4[40,50] 5[40,45]"},
		{"ed-tl-tsp2", 4, "3[16,24] 2[18,24] 1[20,24] 4[40,50] 5[40,45]"},
		{"pd-sl-tsp2", 2, "3[17,25] 2[19,25] 1[15,19] 4[40,50] 5[32.5,37.5]"},
	} {
		t.Run(fmt.Sprint(c.config, "-", c.slots), func(t *testing.T) {
			b := newBench(t, "rm-dcwf:"+c.config, c.slots)
			b.arrive(0, 50, figure2()...)
			b.plan()
			b.wantPlan(c.want)
		})
	}
}

func TestSubDeadlinesAndPredictionAreTold(t *testing.T) {
	b := newBench(t, "rm-dcwf:ed-sl-tsp1", 4)
	b.arrive(0, 50, figure2()...)
	b.plan()
	want := map[planner.TaskID]float64{1: 24, 2: 24, 3: 24, 4: 50, 5: 45}
	for _, n := range b.notes {
		if n.Topic == remap.TopicSubDeadline {
			if n.At != at(want[n.Task]) {
				t.Errorf("sub-deadline of task %d: %v, want %v", n.Task, n.At.Seconds(), want[n.Task])
			}
			delete(want, n.Task)
		}
	}
	if len(want) > 0 {
		t.Errorf("no sub-deadlines of %v", want)
	}
	i := slices.IndexFunc(b.notes, func(n planner.Note) bool { return n.Topic == planner.TopicPredicted })
	if i < 0 || b.notes[i].At != at(18) || b.notes[i].Text != "laxity 32s, the deadline is met with 32s to spare" {
		t.Errorf("notes %+v do not predict 18 s", b.notes)
	}
}

// One slot: A (10 s, due at 30 s) is planned for [0,10]; B (8 s, due at 9 s) comes at the same instant.
func TestRemappingByDeadlineSucceeds(t *testing.T) {
	b := newBench(t, "rm-dcwf", 1)
	b.arrive(0, 30, task{run: 10})
	b.arrive(0, 9, task{run: 8})
	b.plan() // the queue is by deadline: B is mapped first anyway
	b.wantPlan("1[0,8] 0[8,18]")

	b = newBench(t, "rm-dcwf", 1)
	b.arrive(100, 130, task{run: 10})
	b.plan()
	b.wantPlan("0[100,110]")
	b.Now = at(1)
	b.arrive(100, 109, task{run: 8})
	b.plan()
	b.wantPlan("1[100,108] 0[108,118]")
	if got, want := b.topics(remap.TopicRemapped, remap.TopicRemapFailed, remap.TopicRemapLimit),
		"remapped 1: jobs in order of deadlines: 2, attempts: 1"; got != want {
		t.Errorf("notes %q, want %q", got, want)
	}
}

// laxityExample has A and B (5 s, due at 10 s) planned on two slots for [0,5], when C (10 s, due at 11 s) comes; all
// 100 s later.
func laxityExample(t *testing.T, spec string) *bench {
	b := newBench(t, spec, 2)
	b.arrive(100, 110, task{run: 5})
	b.plan()
	b.arrive(100, 110, task{run: 5})
	b.plan()
	b.wantPlan("0[100,105] 1[100,105]")
	b.Now = at(1)
	b.arrive(100, 111, task{run: 10})
	b.plan()
	return b
}

func TestRemappingByLaxitySucceedsWhereByDeadlineFails(t *testing.T) {
	b := laxityExample(t, "rm-dcwf")
	b.wantPlan("2[100,110] 0[100,105] 1[105,110]")
	want := "remap-failed 2: jobs in order of deadlines: 3, attempts: 1; remapped 2: jobs in order of laxities: 3, " +
		"attempts: 2"
	if got := b.topics(remap.TopicRemapped, remap.TopicRemapFailed, remap.TopicRemapLimit); got != want {
		t.Errorf("notes %q, want %q", got, want)
	}
}

// FIFO looks at nothing for A, at A for B, and at both for C, which ends at 115 s. RM-DCWF looks at both for C, and in
// each of two attempts at 0, 1 and 2 for the three jobs that it maps again: by deadlines A, B, C, by laxities C, A, B.
func TestSearchesAreCounted(t *testing.T) {
	for spec, want := range map[string]string{
		"counted fifo":    "searched 0: 0; searched 1: 1; searched 2: 2",
		"counted rm-dcwf": "searched 0: 0; searched 1: 1; searched 2: 8",
		"rm-dcwf":         "",
	} {
		if got := laxityExample(t, spec).topics(planner.TopicSearched); got != want {
			t.Errorf("%s: %q, want %q", spec, got, want)
		}
	}
}

func TestFIFOMovesNothing(t *testing.T) {
	b := laxityExample(t, "fifo")
	b.wantPlan("0[100,105] 1[100,105] 2[105,115]")
	if got := b.topics(planner.TopicPredicted); !strings.Contains(got,
		"predicted 2: laxity 1s, the deadline is missed by 4s") {
		t.Errorf("notes %q do not say that the third workflow will be late", got)
	}
}

func TestAttemptsAreLimitedAndThatIsTold(t *testing.T) {
	b := laxityExample(t, "rm-dcwf:max_remap_attempts=1")
	b.wantPlan("0[100,105] 1[100,105] 2[105,115]")
	want := "remap-failed 2: jobs in order of deadlines: 3, attempts: 1; remap-limit 2: no more than 1 attempts"
	if got := b.topics(remap.TopicRemapped, remap.TopicRemapFailed, remap.TopicRemapLimit); got != want {
		t.Errorf("notes %q, want %q", got, want)
	}
}

func TestJobsToRemapAreLimitedAndThatIsTold(t *testing.T) {
	b := laxityExample(t, "rm-dcwf:max_jobs_to_remap=2")
	if got := b.topics(remap.TopicRemapLimit); !strings.Contains(got, "2 of 3 jobs are remapped") {
		t.Errorf("notes %q do not tell that the limit was met", got)
	}
	b.wantPlan("2[100,110] 0[100,105] 1[105,110]")
}

// Three jobs of 10 s that are all due at 12 s do not fit two slots, in whatever order: what was planned stays, and the
// third is planned late.
func TestFailedRemappingLeavesThePlanAsItWas(t *testing.T) {
	for _, reject := range []bool{false, true} {
		b := newBench(t, "rm-dcwf", 2)
		if reject {
			b.pol.(planner.Refuser).RejectLate()
		}
		for range 2 {
			b.arrive(100, 112, task{run: 4}, task{run: 6, parents: []int{0}})
			b.plan()
		}
		b.arrive(120, 190, figure2()...)
		b.plan()
		before := b.schedule()
		b.Now = at(1)
		b.arrive(100, 112, task{run: 10})
		b.plan()
		after := b.schedule()
		if !reflect.DeepEqual(after[:len(before)], before) {
			t.Fatalf("the plan changed from %v to %v", before, after)
		}
		if got := b.topics(remap.TopicRemapFailed); strings.Count(got, "remap-failed 3") == 0 {
			t.Fatalf("notes %q tell of no failure", got)
		}
		if reject {
			if len(after) != len(before) || !strings.HasPrefix(b.topics(planner.TopicRefused), "refused 3: ") {
				t.Fatalf("the late workflow is planned, or not told to be refused: %v, %q", after,
					b.topics(planner.TopicRefused))
			}
			// Nothing of what was tried is left in the way either: a job that needs all the rest of the time fits there
			// still.
			b.arrive(110, 120, task{run: 10}, task{run: 5})
			b.plan()
			b.wantPlan("11[110,120] 12[110,115]")
			continue
		}
		b.wantPlan("10[110,120]")
	}
}

// A job that is planned to be late is moved aside when others are remapped: it does not make the attempt fail.
func TestLateJobsAreMovedAside(t *testing.T) {
	b := newBench(t, "rm-dcwf", 1)
	b.arrive(100, 130, task{run: 10})
	b.plan()
	b.arrive(100, 103, task{run: 5}) // late whatever is done
	b.plan()
	b.wantPlan("0[100,110] 1[110,115]")
	b.arrive(100, 111, task{run: 8})
	b.plan()
	b.wantPlan("2[100,108] 0[108,118] 1[118,123]")

	b = newBench(t, "rm-dcwf:late=past-deadline", 1)
	b.arrive(100, 130, task{run: 10})
	b.plan()
	b.arrive(100, 103, task{run: 5})
	b.plan()
	b.arrive(100, 111, task{run: 8})
	b.plan()
	b.wantPlan("0[100,110] 1[110,115] 2[115,123]")
}

// Of the jobs in the way, those that only overlap the interval count or not, by parameter.
func TestWhichJobsAreInTheWay(t *testing.T) {
	for spec, want := range map[string]string{"rm-dcwf": "1[100,108] 0[108,118]",
		"rm-dcwf:contained": "0[95,105] 1[105,113]"} {
		b := newBench(t, spec, 1)
		b.arrive(95, 150, task{run: 10})
		b.plan()
		b.arrive(100, 109, task{run: 8})
		b.plan()
		if spec == "rm-dcwf" {
			want = "1[100,108] 0[108,118]"
		}
		b.wantPlan(want)
	}
}

// until lets time pass: the planner is asked whenever it wants to be.
func (b *bench) until(s float64) {
	b.t.Helper()
	for w := b.Planner.Wake(); w <= at(s); w = b.Planner.Wake() {
		b.Now = w
		b.Apply(planner.Woke{})
		b.plan()
	}
	b.Now = at(s)
}

// On one slot x1 should run for [0,10], then another job for [10,16], then x2, the child of x1, for [16,20], due at 24.
// When x1 lasts so long that x2 would be late behind the other, their job is remapped and x2 goes first.
func TestOverrunThatEndangersADeadlineRemapsTheJob(t *testing.T) {
	b := newBench(t, "rm-dcwf", 1)
	b.arrive(10, 100, task{run: 6})
	b.plan()
	b.arrive(0, 24, task{run: 10}, task{run: 4, parents: []int{0}})
	b.plan()
	b.wantPlan("0[10,16] 1[0,10] 2[16,20]")
	b.Apply(planner.AttemptStarted{Attempt: 0})
	b.until(12.5)
	if got := b.topics(remap.TopicRemapped); got != "" {
		t.Fatalf("notes %q, though no deadline is in danger", got)
	}
	b.until(15)
	if got := b.topics(remap.TopicRemapped); !strings.HasPrefix(got, "remapped 1: jobs in order of deadlines: 2") {
		t.Fatalf("notes %q tell of no remapping", got)
	}
	b.exit(1)
	b.plan()
	b.until(16.1)
	b.wantPlan("2[15,19]")
	b.exit(2)
	b.plan()
	b.wantPlan("0[16.1,22.1]")
}

// TSP2 with a margin plans tasks to end that long before their sub-deadlines; where there is no room for that they
// start at once.
func TestMarginBeforeSubDeadlines(t *testing.T) {
	b := newBench(t, "rm-dcwf:ed-sl-tsp2,margin=500", 4)
	b.arrive(0, 50, figure2()...)
	b.plan()
	b.wantPlan("3[15.5,23.5] 2[17.5,23.5] 1[19.5,23.5] 4[39.5,49.5] 5[39.5,44.5]")

	b = newBench(t, "rm-dcwf:ed-sl-tsp2,margin=60000", 4)
	b.arrive(0, 50, figure2()...)
	b.plan()
	b.wantPlan("1[0,4] 2[0,6] 3[0,8] 4[8,18] 5[8,13]")
}

// Under in_the_way=contained, a job whose dummy was over when it was mapped is within [s_j, d_j] as one whose dummy was
// not.
func TestADummyDoesNotCountForContained(t *testing.T) {
	for _, ended := range []bool{false, true} {
		b := newBench(t, "rm-dcwf:contained", 1)
		b.arrive(5, 150, task{run: 20})
		b.plan()
		b.arrive(1, 150, task{run: 0}, task{run: 10, parents: []int{0}})
		if ended {
			b.Now = at(1)
			b.formalities()
		}
		b.plan()
		b.wantPlan("0[5,25] 2[25,35]")
		b.arrive(24, 33, task{run: 8})
		b.plan()
		b.wantPlan("0[5,25] 2[25,35] 3[35,43]")
		b.arrive(24, 36, task{run: 8})
		b.plan()
		if got := b.topics(remap.TopicRemapped); !strings.HasPrefix(got, "remapped 3: jobs in order of deadlines: 2") {
			t.Errorf("dummy over %v: notes %q", ended, b.topics(remap.TopicRemapped, remap.TopicRemapFailed))
		}
	}
}

// Two workflows that arrive at one instant are both mapped before either has an expected end: the second moves the
// first.
func TestPredictionsAreMadeOnceAllArrivalsAreMapped(t *testing.T) {
	b := newBench(t, "rm-dcwf", 1)
	b.arrive(100, 110, task{run: 5})
	b.arrive(100, 111, task{run: 10})
	b.arrive(98, 112, task{run: 3})
	b.plan()
	ends := map[planner.WorkflowID]planner.Time{}
	for _, n := range b.notes {
		if n.Topic == planner.TopicPredicted {
			ends[n.Workflow] = n.At
		}
	}
	for _, s := range b.schedule() {
		if ends[planner.WorkflowID(s.Task)] != s.End {
			t.Errorf("workflow %d is predicted to end at %v and planned to at %v", s.Task,
				ends[planner.WorkflowID(s.Task)], s.End)
		}
	}
}
