package executor_test

import (
	"reflect"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/predict"
)

// start is where and when a task began.
type start struct {
	Task planner.TaskID
	Node planner.NodeID
	At   planner.Time
}

func starts(t *testing.T, p *planner.Platform, spec string, model predict.ErrorModel,
	subs []executor.Submission) []start {
	t.Helper()
	est := &predict.Declared{Model: model}
	e := streamEngine(t, p, spec, est, subs)
	e.Runtime = sim.New(sim.Config{Platform: p, Actual: model.Actual})
	var out []start
	e.Watch = func(v planner.View, events []planner.Event, _ []*executor.Admission) {
		for _, ev := range events {
			if x, ok := ev.Body.(planner.AttemptStarted); ok {
				a := v.Attempt(x.Attempt)
				out = append(out, start{a.Task, a.Node, ev.At})
			}
		}
	}
	if _, err := e.Run(t.Context()); err != nil {
		t.Fatalf("%s with %s: %v", spec, model, err)
	}
	return out
}

// On a homogeneous platform the online policies decide by the order of ranks, lengths and slowdowns, which a common
// factor does not change: with the same draws every error factor gives the very same run, and the static error that
// without error.
func TestErrorFactorsChangeNothingOnAHomogeneousPlatform(t *testing.T) {
	subs, _ := mix(7, 8, 10, 0.98)
	for i := range subs { // ties are where rounding would show
		for k := range subs[i].Workflow.Tasks {
			run := &subs[i].Workflow.Tasks[k].Runtime
			*run = run.Round(5 * time.Second)
		}
	}
	for name, p := range map[string]*planner.Platform{"nodes": processors(10), "cores": slots(10)} {
		for _, spec := range []string{"gbf", "cpp", "fdws", "hr", "fwp", "fwp:parallelism=factor", "owm",
			"owm:order=highest"} {
			t.Run(spec+"/"+name, func(t *testing.T) {
				exact := starts(t, p, spec, predict.ErrorModel{}, subs)
				for _, kind := range []predict.ErrorKind{predict.Static, predict.Random1, predict.Random2} {
					var first []start
					for _, fe := range []float64{0.1, 10} {
						got := starts(t, p, spec, predict.ErrorModel{Kind: kind, Factor: fe, Seed: 3}, subs)
						if first == nil {
							first = got
						}
						if !reflect.DeepEqual(got, first) {
							t.Fatalf("%v: factor %v differs from 0.1", kind, fe)
						}
						if kind == predict.Static && !reflect.DeepEqual(got, exact) {
							t.Fatalf("static error %v differs from no error", fe)
						}
					}
					if kind != predict.Static && spec != "gbf" && spec != "cpp" && reflect.DeepEqual(first, exact) {
						t.Fatalf("%v: no different from no error", kind)
					}
				}
			})
		}
	}
}

// What happens is the same whatever the estimates, unless the model is one of reality.
func TestErrorsOfEstimatesLeaveReality(t *testing.T) {
	subs := []executor.Submission{{Name: "w", Workflow: dag("w", "a=100 b=100; a>b")}}
	for _, c := range []struct {
		model string
		same  bool
	}{{"none", true}, {"static:0.1", true}, {"random1:2", true}, {"random2:5", true},
		{"short:50", true}, {"uniform:3", false}} {
		m, err := predict.ParseErrorModel(c.model)
		must(t, err)
		m.Seed = 9
		got := starts(t, processors(1), "heft", m, subs)
		if second := got[1].At == 100e9; second != c.same {
			t.Errorf("%s: the second task starts at %v", c.model, got[1].At)
		}
	}
}
