package executor_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/policy"
	"gantry/planner/predict"
)

// deadlineStream has workflows in layers with deadlines of one to five times their share of the machine, over this many
// processors at 75 % utilisation.
func deadlineStream(seed uint64, workflows, nodes int) []executor.Submission {
	r := rand.New(rand.NewPCG(seed, 5))
	const mean = 30 * time.Second
	var at float64
	var subs []executor.Submission
	for i := range workflows {
		w := layered(r, 10+r.IntN(20), mean)
		at += -math.Log(1-r.Float64()) * 20 * mean.Seconds() / (float64(nodes) * 0.75)
		arrived := planner.Time(at * 1e9)
		release := arrived
		if r.IntN(2) == 0 {
			release += planner.Time(r.IntN(600)) * 1e9
		}
		due := release.Add(time.Duration((1 + 4*r.Float64()) * float64(4*mean)))
		subs = append(subs, executor.Submission{At: arrived, Name: fmt.Sprint("w", i), Workflow: w,
			Class: planner.Deadline, Release: release, Due: due})
	}
	return subs
}

// streamed is what came of a stream.
type streamed struct {
	late, refused int
	notes         map[string]int
	record        record
}

func runDeadlines(t *testing.T, spec string, factor float64, reject bool) streamed {
	t.Helper()
	p := processors(8)
	pol, err := policy.Parse(spec)
	must(t, err)
	if reject {
		pol.(planner.Refuser).RejectLate()
	}
	declared := &predict.Declared{}
	out := streamed{notes: map[string]int{}}
	e := enginetest.With(t, p, pol, declared, deadlineStream(3, 75, 8)...)
	e.Admit.Declare = func(id planner.TaskID, run time.Duration, on []time.Duration, s planner.Source) {
		declared.Declare(id, time.Duration(float64(run)*factor), on, s)
	}
	e.Watch = func(v planner.View, events []planner.Event, admitted []*executor.Admission) {
		for _, ev := range events {
			switch b := ev.Body.(type) {
			case *planner.PlanCommitted:
				for _, n := range b.Notes {
					out.notes[n.Topic]++
					if n.Topic == planner.TopicRefused && strings.TrimSpace(n.Text) == "" {
						t.Errorf("workflow %d is refused without a reason", n.Workflow)
					}
				}
			case planner.WorkflowCancelled:
				out.refused++
			}
			out.record.events = append(out.record.events, ev)
		}
		for _, a := range admitted {
			out.record.tasks = append(out.record.tasks, a.Arrived.Tasks...)
		}
	}
	if _, err := e.Run(t.Context()); err != nil {
		t.Fatalf("%s, estimates times %g: %v", spec, factor, err)
	}
	v := e.Planner.View()
	for w := range planner.WorkflowID(v.Workflows()) {
		if _, end := v.Times(w); end > v.Workflow(w).Due {
			out.late++
		}
	}
	return out
}

// Estimates that are half or twice of what is true: every rule holds, all ends, deadlines in danger are seen and jobs
// remapped. With TSP1 still fewer workflows are late than without remapping; TSP2 plans tasks as late as its estimates
// allow, and has no time left when they are short.
func TestDeadlinesUnderWrongEstimates(t *testing.T) {
	for _, factor := range []float64{1, 0.5, 2} {
		fifo := runDeadlines(t, "fifo", factor, false)
		verify(t, "fifo", 3, processors(8), &fifo.record)
		for _, config := range []string{"pd-sl-tsp1", "ed-sl-tsp2"} {
			got := runDeadlines(t, "rm-dcwf:"+config, factor, false)
			verify(t, config, 3, processors(8), &got.record)
			t.Logf("estimates times %g: %s %d late, fifo %d late; %v", factor, config, got.late, fifo.late, got.notes)
			if got.late >= fifo.late && (config == "pd-sl-tsp1" || factor >= 1) {
				t.Errorf("estimates times %g: %s has %d late workflows, fifo %d", factor, config, got.late, fifo.late)
			}
			if got.notes["remapped"] == 0 {
				t.Errorf("estimates times %g: %s remapped nothing", factor, config)
			}
		}
	}
}

// With exact estimates what is admitted is on time, and what is not is refused, withdrawn whole, and told; FIFO refuses
// more.
func TestRefusedWorkflowsAreWithdrawnAndTheOthersAreOnTime(t *testing.T) {
	refused := map[string]int{}
	for _, spec := range []string{"rm-dcwf", "fifo", "mrcp-rm:steps=2000"} {
		got := runDeadlines(t, spec, 1, true)
		t.Logf("%s: %d refused, %d late; %v", spec, got.refused, got.late, got.notes)
		if got.refused == 0 || got.refused != got.notes[planner.TopicRefused] {
			t.Errorf("%s: %d workflows withdrawn, %d notes", spec, got.refused, got.notes[planner.TopicRefused])
		}
		if got.late != 0 {
			t.Errorf("%s: %d admitted workflows are late", spec, got.late)
		}
		refused[spec] = got.refused
		for _, ev := range got.record.events {
			if pc, ok := ev.Body.(*planner.PlanCommitted); ok {
				for _, n := range pc.Notes {
					if n.Topic == planner.TopicPredicted && strings.Contains(n.Text, "missed") {
						t.Errorf("%s: a workflow is admitted that is expected to be late: %s", spec, n.Text)
					}
				}
			}
		}
	}
	for _, spec := range []string{"rm-dcwf", "mrcp-rm:steps=2000"} {
		if refused[spec] >= refused["fifo"] {
			t.Errorf("%s refuses %d workflows, fifo %d", spec, refused[spec], refused["fifo"])
		}
	}
}

// Starts that take 200 ms longer than any estimate knows, as those of containers may: TSP2 plans up to the deadlines
// and is late with all that it plans there, unless it is given a margin.
func TestMarginOfTSP2IsForWhatNoEstimateKnows(t *testing.T) {
	late := map[string]int{}
	for _, spec := range []string{"rm-dcwf:ed-sl-tsp2", "rm-dcwf:ed-sl-tsp2,margin=300"} {
		p := processors(4)
		pol, err := policy.Parse(spec)
		must(t, err)
		var subs []executor.Submission
		for i := range 20 {
			at := planner.Time(i) * 40e9
			subs = append(subs, executor.Submission{At: at, Name: fmt.Sprint("w", i), Workflow: dag(fmt.Sprint("w", i),
				"a=4 b=5 c=6; a>c b>c"), Due: at + 30e9})
		}
		e := enginetest.New(t, p, pol, subs...)
		e.Runtime = sim.New(sim.Config{Platform: p, Startup: 200 * time.Millisecond})
		enginetest.Run(t, e)
		v := e.Planner.View()
		for w := range planner.WorkflowID(v.Workflows()) {
			if _, end := v.Times(w); end > v.Workflow(w).Due {
				late[spec]++
			}
		}
	}
	if late["rm-dcwf:ed-sl-tsp2"] != 20 || late["rm-dcwf:ed-sl-tsp2,margin=300"] != 0 {
		t.Errorf("late: %v, want all 20 without a margin and none with one", late)
	}
}
