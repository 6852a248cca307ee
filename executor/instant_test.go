package executor_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/planner"
	"gantry/planner/policy"
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

// chain is a workflow of tasks one after another, of the given seconds each; 0 is a task without time.
func chain(name string, runs ...int) *trace.Workflow {
	w := &trace.Workflow{Name: name, Label: name}
	for i, run := range runs {
		t := trace.Task{ID: fmt.Sprint(name, i), Kind: "k", Cores: 1, Retries: -1,
			Runtime: time.Duration(run) * time.Second, Known: trace.Runtime}
		if i > 0 {
			t.Parents = []int32{int32(i - 1)}
			w.Tasks[i-1].Children = []int32{int32(i)}
		}
		w.Tasks = append(w.Tasks, t)
	}
	return w
}

// One core: A is two tasks of 5 s, due at 100 s; B, of 1 s, may start at 5 s, the instant at which A's first task ends,
// and is due at 7 s.
func TestAReleaseAtACompletionIsSeenWithIt(t *testing.T) {
	for _, spec := range []string{"edf", "mrcp-rm", "rm-dcwf"} {
		t.Run(spec, func(t *testing.T) {
			e := enginetest.New(t, single(1), enginetest.Policy(t, spec),
				executor.Submission{Name: "A", Workflow: chain("A", 5, 5), Class: planner.Deadline, Due: 100e9},
				executor.Submission{Name: "B", Workflow: chain("B", 1), Class: planner.Deadline, Due: 7e9,
					Release: 5e9})
			enginetest.Run(t, e)
			if _, end := e.Planner.View().Times(1); end != 6e9 {
				t.Errorf("B ended at %v, want 6 s", end)
			}
		})
	}
}

// Arrivals, releases and completions fall on the same instants, workflows begin and end with tasks without time, and a
// closed system admits the next one as one ends: the policy is asked once at each instant. (Tasks that are preempted
// report so after a round: another follows.)
func TestAPolicyIsAskedOnceAtEachInstant(t *testing.T) {
	for _, row := range policy.Table() {
		for _, population := range []int{0, 2} {
			t.Run(fmt.Sprint(row.Name, population), func(t *testing.T) {
				var subs []executor.Submission
				for i := range 12 {
					s := executor.Submission{Name: fmt.Sprint("w", i), At: planner.Time(i/3) * 2e9,
						Due: planner.Time(20+i) * 1e9, Class: planner.Deadline,
						Population: population, Workflow: chain(fmt.Sprint("w", i), 0, 1+i%3, 0, 2, 0)}
					if i%4 == 3 {
						s.Workflow = chain(s.Name, 0, 0) // nothing in it takes time
					}
					if i%3 == 1 {
						s.Release = s.At + 3e9
					}
					subs = append(subs, s)
				}
				e := enginetest.New(t, single(1, 1), enginetest.Policy(t, row.Name), subs...)
				asked, leaving := map[planner.Time]int{}, map[planner.Time]bool{}
				now := e.Planner.View().Now
				e.Wall = func() time.Duration {
					asked[max(now(), e.Runtime.Now())]++
					return 0
				}
				e.Watch = func(v planner.View, events []planner.Event, _ []*executor.Admission) {
					for _, ev := range events {
						if pc, ok := ev.Body.(*planner.PlanCommitted); ok {
							leaving[ev.At] = leaving[ev.At] ||
								slices.ContainsFunc(pc.Orders,
									func(o planner.Order) bool { return o.Kind.Vacates() != 0 })
						}
					}
				}
				enginetest.Run(t, e)
				for at, times := range asked {
					if times > 2 && !leaving[at] { // the clock is read before and after a round
						t.Errorf("asked %d times at %v", times/2, at)
					}
				}
				if len(asked) < 5 {
					t.Errorf("asked at %d instants only", len(asked))
				}
			})
		}
	}
}
