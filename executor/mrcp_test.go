package executor_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/planner"
	"gantry/planner/predict"
	"gantry/planner/unit"
)

// places compares some stays with those wanted, as "a@1[0,2] …".
func places(t *testing.T, got map[string]stay, want string) {
	t.Helper()
	for task, w := range schedule(want) {
		if got[task] != w {
			t.Errorf("task %s: %+v, want %+v", task, got[task], w)
		}
	}
}

// The worked example of RM-DCWF's remapping by laxity: in the order of deadlines c would end at 15.
func TestMRCPFindsTheOrderInWhichAllAreOnTime(t *testing.T) {
	got, _ := simulate(t, single(1, 1), "mrcp-rm",
		executor.Submission{Name: "A", Workflow: dag("A", "a=5"), Due: 10e9},
		executor.Submission{Name: "B", Workflow: dag("B", "b=5"), Due: 10e9},
		executor.Submission{Name: "C", Workflow: dag("C", "c=10"), Due: 11e9})
	if c := got["c"]; c.start != 0 || got["a"].end > 10 || got["b"].end > 10 {
		t.Errorf("%v", got)
	}
}

// A workflow that starts later is no reason to keep a slot free: b runs through its earliest start.
func TestMRCPKeepsWorkflowsAsideUntilTheirEarliestStart(t *testing.T) {
	got, _ := simulate(t, single(1), "mrcp-rm",
		executor.Submission{Name: "A", Workflow: dag("A", "a=9"), Due: 100e9},
		executor.Submission{Name: "R", Workflow: dag("R", "r=3"), Release: 10e9, Due: 13e9},
		executor.Submission{Name: "B", At: 1e9, Workflow: dag("B", "b=5"), Due: 30e9})
	places(t, got, "a@1[0,9] b@1[9,14] r@1[14,17]")
}

// The model has all tasks over by 9 s; the plan, which has the copy of what one of them reads, by 12 s.
func TestMRCPPredictsCopies(t *testing.T) {
	const s = time.Second
	writes := Task{Run: 6 * s, Copy: 6 * s, Cores: 1000, Stage: 1}
	course, err := Simulate(Instance{Held: true,
		Nodes: []Node{{Cores: 1000, Speed: 1}, {Cores: 1000, Speed: 1}},
		Workflows: []Workflow{{Due: 11e9, Tasks: []Task{writes, writes,
			{Run: 3 * s, Cores: 1000, Stage: 2, Parents: []int{0, 1}}}}}}, "mrcp-rm")
	if err != nil {
		t.Fatal(err)
	}
	if end := course.Stays[2].End; end != 12e9 || len(course.Notes) != 1 || course.Notes[0].At != end ||
		!strings.Contains(course.Notes[0].Text, "missed by 1s") {
		t.Errorf("it ends at %v: %+v", end, course.Notes)
	}
}

func TestMRCPPlansMapAndReduceSlotsApart(t *testing.T) {
	job := func(name, text string, due planner.Time) executor.Submission {
		w := dag(name, text)
		for i := range w.Tasks {
			x := &w.Tasks[i]
			if x.Cores, x.MemoryBytes = 1, 1; len(x.Parents) > 0 {
				x.Cores, x.MemoryBytes = 0.001, 1e9
			}
		}
		return executor.Submission{Name: name, Workflow: w, Due: due}
	}
	p := single(1)
	p.Nodes[0].Capacity = unit.Vector{1001, 1100e6, unit.Unlimited}
	// The reduce tasks of X run beside the map tasks of Y, one at a time.
	got, _ := simulate(t, p, "mrcp-rm", job("X", "m=4 r=6 s=6; m>r m>s", 16e9), job("Y", "n=5 u=3; n>u", 100e9))
	places(t, got, "m@1[0,4] r@1[4,10] s@1[10,16] n@1[4,9] u@1[16,19]")
}

// a is estimated to take 4 s and takes 8: b, behind it, would miss its deadline where it is planned.
func TestMRCPPlansAnewWhenAnOverrunEndangersADeadline(t *testing.T) {
	p := single(1, 1)
	declared, got := &predict.Declared{}, map[string]stay{}
	var notes []planner.Note
	e := enginetest.With(t, p, enginetest.Policy(t, "mrcp-rm"), declared,
		executor.Submission{Name: "A", Workflow: dag("A", "a=8"), Due: 7e9},
		executor.Submission{Name: "C", Workflow: dag("C", "c=5"), Due: 6e9},
		executor.Submission{Name: "B", Workflow: dag("B", "b=3.5"), Due: 9e9},
		executor.Submission{Name: "D", Workflow: dag("D", "d=10"), Due: 100e9})
	e.Admit.Declare = func(id planner.TaskID, run time.Duration, on []time.Duration, s planner.Source) {
		if run == 8e9 {
			run = 4e9
		}
		declared.Declare(id, run, on, s)
	}
	e.Watch = func(v planner.View, events []planner.Event, _ []*executor.Admission) {
		for _, ev := range events {
			switch b := ev.Body.(type) {
			case *planner.PlanCommitted:
				notes = append(notes, b.Notes...)
			case *planner.AttemptExited:
				att := v.Attempt(b.Attempt)
				got[string("acbd"[att.Task])] = stay{att.Node, b.Usage.Started.Seconds(), b.Usage.Ended.Seconds()}
			}
		}
	}
	if _, err := e.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	places(t, got, "c@2[0,5] b@2[5,8.5]")
	if got["a"].end != 8 || got["d"].start < 8 {
		t.Errorf("%v", got)
	}
	if len(notes) != 4 || notes[2].Topic != planner.TopicPredicted || notes[2].At != 7.5e9 ||
		notes[2].Text != "laxity 5.5s, the deadline is met with 1.5s to spare" {
		t.Errorf("%+v", notes)
	}
}

func TestMRCPRefusesModelsBeyondItsBound(t *testing.T) {
	large := executor.Submission{Name: "A", Workflow: dag("A", "a=1 b=1 c=1 d=1"), Due: 10e9}
	later := large
	later.At = 1e9
	for says, subs := range map[string][]executor.Submission{
		"4 tasks (workflows: 1)": {large},
		"4 tasks (workflows: 2)": { // what the last model had is running by then
			{Name: "B", Workflow: dag("B", "a=5 b=5"), Due: 10e9}, later},
	} {
		e := enginetest.New(t, slots(2), enginetest.Policy(t, "mrcp-rm:tasks=3"), subs...)
		if _, err := e.Run(t.Context()); !errors.Is(err, planner.ErrUnsupported) ||
			!strings.Contains(err.Error(), "the constraint model would have "+says+", more than its bound of 3") {
			t.Errorf("%s: %v", says, err)
		}
	}
}
