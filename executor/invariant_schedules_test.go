package executor_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"gantry/executor/oracletest"
	"gantry/planner/policy"
	"gantry/planner/unit"
)

func mustSimulate(t *testing.T, in oracletest.Instance, spec string) []oracletest.Stay {
	t.Helper()
	course, err := oracletest.Simulate(in, spec)
	if err != nil {
		t.Fatalf("%s: %v\n%s", spec, err, in)
	}
	return course.Stays
}

// copied is an instance of its own.
func copied(t *testing.T, in oracletest.Instance) oracletest.Instance {
	t.Helper()
	out := oracletest.Instance{Nodes: slices.Clone(in.Nodes), Clusters: in.Clusters, Held: in.Held,
		Checkpoint: in.Checkpoint}
	for _, w := range in.Workflows {
		w.Tasks = slices.Clone(w.Tasks)
		for i := range w.Tasks {
			w.Tasks[i].On = slices.Clone(w.Tasks[i].On)
			w.Tasks[i].Parents = slices.Clone(w.Tasks[i].Parents)
		}
		out.Workflows = append(out.Workflows, w)
	}
	return out
}

// everySpec lists every policy with its defaults, then with every word that a parameter of it may have in their place,
// and every combination of the phases of pipeline.
func everySpec(t *testing.T) (specs []string) {
	t.Helper()
	for _, row := range policy.Table() {
		specs = append(specs, row.Name)
		for _, p := range row.Params {
			for _, word := range p.Values[1:] {
				spec := row.Name + ":" + p.Name + "=" + word
				if _, err := policy.Parse(spec); err == nil { // else it is a range, or means nothing by itself
					specs = append(specs, spec)
				}
			}
		}
	}
	phases := []string{"pipeline:"}
	for _, parts := range [][]string{{"cpws", "sws"}, {"rank-hybd", "swf", "fcfs"}, {"none", "easy", "conservative",
		"priority"}, {"aa", "all-eft"}, {"never", "lower-rank"}} {
		var longer []string
		for _, p := range phases {
			for _, part := range parts {
				longer = append(longer, p+part+",")
			}
		}
		phases = longer
	}
	for _, p := range phases {
		specs = append(specs, strings.TrimSuffix(p, ","))
	}
	return specs
}

// Three times the speed of all nodes and three times the work give the same schedule, and five times all times one that
// is five times as long: under every policy and pipeline, ties included, on alike and unlike nodes, on clusters with
// copies, with several tenants, and with wrong estimates.
func TestCommonFactorsOfSpeedsAndTimesChangeNoSchedule(t *testing.T) {
	speeds := []float64{0.5, 1, 1.5}
	shapes := []oracletest.Shape{
		{Tasks: 20, Dummies: true, Released: true, Speeds: speeds},
		{Tasks: 20, Dummies: true, Released: true, Sizes: true, Speeds: speeds},
		{Tasks: 20, Sizes: true, Memory: true, Tenants: 3},
		{Tasks: 16, Nodes: 3, Sizes: true, NoDue: true, Clusters: true},
		{Tasks: 16, Groups: 2, Held: true, Tenants: 2, Speeds: speeds},
		{Tasks: 20, Released: true, Wrong: true},
	}
	covered := 0
	for i, spec := range everySpec(t) {
		if strings.HasPrefix(spec, "pipeline:") && !oracletest.Takes(i) {
			continue
		}
		covered++
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(12) {
				shape := shapes[seed%6]
				in := oracletest.Draw(rand.New(rand.NewPCG(seed, 77)), shape)
				want := mustSimulate(t, in, spec)
				// Work and speeds, and so the sizes of copies and checkpoints stay.
				faster := copied(t, in)
				for n := range faster.Nodes {
					faster.Nodes[n].Speed *= 3
				}
				longer := copied(t, in)
				longer.Checkpoint *= 5
				for w := range in.Workflows {
					flow := &longer.Workflows[w]
					flow.Arrive, flow.Release, flow.Due = 5*flow.Arrive, 5*flow.Release, 5*flow.Due
					for i := range flow.Tasks {
						t, f := &flow.Tasks[i], &faster.Workflows[w].Tasks[i]
						f.Run, f.Est = 3*f.Run, 3*f.Est
						t.Run, t.Est, t.Copy = 5*t.Run, 5*t.Est, 5*t.Copy
						for n := range t.On { // runs by node, whatever its speed
							t.On[n] *= 5
						}
					}
				}
				if d := oracletest.Difference(mustSimulate(t, faster, spec), want, true); d != "" {
					t.Fatalf("seed %d: three times as fast with three times the work: %s\n%s", seed, d, in)
				}
				if strings.HasSuffix(spec, "tsp2") {
					continue // it starts at sub-deadlines, which are rounded to nanoseconds, the unit of time
				}
				stretched := slices.Clone(want)
				for i := range stretched {
					stretched[i].Start, stretched[i].End = 5*stretched[i].Start, 5*stretched[i].End
				}
				if d := oracletest.Difference(mustSimulate(t, longer, spec), stretched, true); d != "" {
					t.Fatalf("seed %d: all times five times as long: %s\n%s", seed, d, in)
				}
			}
		})
	}
	if covered < 100 && oracletest.Takes(1) {
		t.Errorf("%d specifications only", covered)
	}
}

// Where no two tasks are alike there are no ties, and the order in which a file lists the tasks of a workflow changes
// nothing.
func TestOrderOfTasksInAFileChangesNoScheduleWithoutTies(t *testing.T) {
	for _, spec := range []string{"cpp", "owm", "fdws", "hr", "fwp", "heft", "wheft", "owm-mp", "owm-mp+swf",
		"owm-mp+backfilling", "owm-mp+preemptive",
		"owm-mp+all-eft", "mows", "rm-dcwf", "fifo"} {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			// which bind tasks that start together to alike nodes by their ids
			nodes := spec != "rm-dcwf" && spec != "fifo"
			for seed := range uint64(12) {
				r := rand.New(rand.NewPCG(seed, 78))
				in := oracletest.Draw(r, oracletest.Shape{Tasks: 20, NoDue: spec != "rm-dcwf", Speeds: []float64{0.5, 1,
					1.5}, Sizes: seed%2 == 0})
				apart := time.Duration(3)
				for w := range in.Workflows {
					in.Workflows[w].Arrive += unit.Time(apart * 1009)
					for i := range in.Workflows[w].Tasks {
						apart *= 3
						apart %= 1e9 + 7
						in.Workflows[w].Tasks[i].Run += apart * 3
					}
				}
				want := mustSimulate(t, in, spec)
				other := copied(t, in)
				at := make([][]int, len(in.Workflows)) // where a task is now
				for w := range in.Workflows {
					tasks := in.Workflows[w].Tasks
					at[w] = make([]int, len(tasks))
					var order []int
					for len(order) < len(tasks) {
						i := r.IntN(len(tasks))
						if !slices.Contains(order, i) && !slices.ContainsFunc(tasks[i].Parents,
							func(p int) bool { return !slices.Contains(order, p) }) {
							at[w][i] = len(order)
							order = append(order, i)
						}
					}
					for k, i := range order {
						task := tasks[i]
						task.Parents = nil
						for _, p := range tasks[i].Parents {
							task.Parents = append(task.Parents, at[w][p])
						}
						slices.Sort(task.Parents)
						other.Workflows[w].Tasks[k] = task
					}
				}
				moved := slices.Clone(want)
				for i := range moved {
					moved[i].Task = at[moved[i].Workflow][moved[i].Task]
				}
				if d := oracletest.Difference(mustSimulate(t, other, spec), moved, nodes); d != "" {
					t.Fatalf("seed %d: in another order: %s\n%s", seed, d, in)
				}
			}
		})
	}
}

// Where all nodes differ in speed and no two tasks are alike there are no ties. Then the order of nodes in a file
// changes nothing, nor does that of workflows that arrive together, if the policy does not serve them in that order.
func TestOrderOfNodesAndWorkflowsChangesNoScheduleWithoutTies(t *testing.T) {
	byRank := []string{"owm", "fdws", "hr", "heft", "edf", "owm-mp", "owm-mp+swf", "owm-mp+backfilling",
		"owm-mp+all-eft", "mows"}
	inTurn := []string{"cpp", "fwp", "wheft", "wheft:start=planned", "rm-dcwf", "fifo", "mrcp-rm", "drf", "pds", "3dsf"}
	for _, spec := range slices.Concat(byRank, inTurn) {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(10) {
				r := rand.New(rand.NewPCG(seed, 79))
				in := oracletest.Draw(r, oracletest.Shape{Tasks: 20, Sizes: seed%2 == 0, Alone: seed%3 == 0})
				for n := range in.Nodes {
					in.Nodes[n].Speed = []float64{0.5, 1, 1.5, 2}[n]
				}
				apart := time.Duration(3)
				for w := range in.Workflows {
					in.Workflows[w].Due += unit.Time(1009 * (w + 1))
					for i := range in.Workflows[w].Tasks {
						apart *= 3
						apart %= 1e9 + 7
						in.Workflows[w].Tasks[i].Run += apart * 6
					}
				}
				want := mustSimulate(t, in, spec)
				other, moved := copied(t, in), slices.Clone(want)
				nodes, flows := r.Perm(len(in.Nodes)), make([]int, len(in.Workflows))
				for w := range flows {
					flows[w] = w
				}
				if seed%3 == 0 && slices.Contains(byRank, spec) {
					flows = r.Perm(len(flows))
				}
				for n, at := range nodes {
					other.Nodes[at] = in.Nodes[n]
				}
				for w, at := range flows {
					other.Workflows[at] = in.Workflows[w]
				}
				for i := range moved {
					moved[i].Node, moved[i].Workflow = nodes[moved[i].Node], flows[moved[i].Workflow]
				}
				oracletest.Sort(moved)
				if d := oracletest.Difference(mustSimulate(t, other, spec), moved, true); d != "" {
					t.Fatalf("seed %d: nodes %v, workflows %v: %s\n%s", seed, nodes, flows, d, in)
				}
			}
		})
	}
}
