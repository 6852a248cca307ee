package policy_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gantry/planner"
	"gantry/planner/policy"
	"gantry/planner/seed/seedtest"
	"gantry/planner/unit"
)

func mustSimulate(t *testing.T, in Instance, spec string) *Course {
	t.Helper()
	course, err := Simulate(in, spec)
	if err != nil {
		t.Fatalf("%s: %v\n%s", spec, err, in)
	}
	return course
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

// fiveTimes is a specification whose sizes are five times as large, as those of files are that take as long again to
// copy.
func fiveTimes(spec string) string {
	name, params, _ := strings.Cut(spec, ":")
	switch large, is := strings.CutPrefix(params, "large="); {
	case name != "3dsf" && name != "dla":
		return spec
	case is:
		n, _ := strconv.Atoi(large)
		return name + ":large=" + strconv.Itoa(5*n)
	case params == "":
		return name + ":large=320" // 64 MB is the default
	}
	return spec + ",large=320"
}

// near reports whether two instants differ by what rounding five times may make of them, and again for what follows.
func near(a, b unit.Time) bool { return max(a-b, b-a) <= 100 }

// Three times the speed of all nodes and three times the work give the same schedule, and five times all times one that
// is five times as long: under every policy and pipeline, ties included, on alike and unlike nodes, on clusters with
// copies, with several tenants, and with wrong estimates.
func TestCommonFactorsOfSpeedsAndTimesChangeNoSchedule(t *testing.T) {
	shapes := []Shape{
		{Tasks: 20, Dummies: true, Released: true, Speeds: speeds},
		{Tasks: 20, Dummies: true, Released: true, Sizes: true, Speeds: speeds},
		{Tasks: 20, Sizes: true, Memory: true, Tenants: 3},
		{Tasks: 16, Nodes: 3, Sizes: true, NoDue: true, Clusters: true},
		{Tasks: 16, Groups: 2, Held: true, Tenants: 2, Speeds: speeds},
		{Tasks: 20, Released: true, Wrong: true},
	}
	covered := 0
	for i, spec := range append(everySpec(t), "3dsf:large=12", "dla:large=12") {
		if strings.HasPrefix(spec, "pipeline:") && !seedtest.Takes(i) {
			continue
		}
		covered++
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			for seed := range seedtest.Seeds(t, 12) {
				shape := shapes[seed%6]
				in := Draw(rand.New(rand.NewPCG(seed, 77)), shape)
				want := mustSimulate(t, in, spec).Stays
				// Work and speeds, and so the sizes of copies and checkpoints stay.
				faster := in.clone()
				for n := range faster.Nodes {
					faster.Nodes[n].Speed *= 3
				}
				longer := in.clone()
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
				if d := Difference(mustSimulate(t, faster, spec).Stays, want, true); d != "" {
					t.Fatalf("seed %d: three times as fast with three times the work: %s\n%s", seed, d, in)
				}
				deadlines := strings.HasPrefix(spec, "rm-dcwf") || strings.HasPrefix(spec, "fifo")
				if strings.HasSuffix(spec, "tsp2") || deadlines && (shape.Wrong || shape.Clusters) {
					continue // at sub-deadlines, in nanoseconds, and 1 ms after what is late it may start tasks
				}
				stretched := slices.Clone(want)
				for i := range stretched {
					stretched[i].Start, stretched[i].End = 5*stretched[i].Start, 5*stretched[i].End
				}
				got := mustSimulate(t, longer, fiveTimes(spec)).Stays
				for i := range min(len(got), len(stretched)) { // what a checkpoint leaves is rounded to nanoseconds
					a, b := &got[i], &stretched[i]
					if in.Checkpoint > 0 && near(a.Start, b.Start) && near(a.End, b.End) {
						a.Start, a.End = b.Start, b.End
					}
				}
				if d := Difference(got, stretched, true); d != "" {
					t.Fatalf("seed %d: all times five times as long: %s\n%s", seed, d, in)
				}
			}
		})
	}
	if covered < 100 && seedtest.Takes(0) && seedtest.Takes(1) {
		t.Errorf("%d specifications only", covered)
	}
}

// apart makes an instance one without ties: no two tasks, workflows or nodes of it are alike. All workflows get
// deadlines. With several tenants each workflow has its own, and no two tasks need the same amounts.
func apart(in *Instance, tenants bool) {
	step, amount := time.Duration(3), int64(1)
	for n := range in.Nodes {
		in.Nodes[n].Speed = []float64{0.7, 1, 1.3, 1.7}[n] // at twice the speed two halves end with a whole
	}
	for w := range in.Workflows {
		flow := &in.Workflows[w]
		flow.Due = cmp.Or(flow.Due, flow.Arrive+40e9) + unit.Time(1009*(w+1))
		if tenants {
			flow.Tenant = w
		}
		for i := range flow.Tasks {
			t := &flow.Tasks[i]
			step = step * 3 % (1e9 + 7)
			t.Run += 6 * step
			if t.Est > 0 {
				t.Est += 6 * step
			}
			for n := range t.On {
				t.On[n] += 6 * step * []time.Duration{1, 7, 13, 19}[n] // no power of 3 makes one another, or means
			}
			if t.Copy > 0 {
				t.Copy += step / 1000 * 2000 // whole bytes
			}
			if amount = amount * 3 % 211; tenants {
				t.Cores, t.Memory = t.Cores-amount, t.Memory-amount*1_000_003
			}
		}
	}
}

// newIDs are the new ids of nodes, of workflows, and of the tasks of each, by their old ones.
type newIDs struct {
	nodes, flows []int
	tasks        [][]int
}

// upTo is 0, 1, … n-1.
func upTo(n int) (list []int) {
	for i := range n {
		list = append(list, i)
	}
	return list
}

func unchanged(in Instance) newIDs {
	to := newIDs{nodes: upTo(len(in.Nodes)), flows: upTo(len(in.Workflows))}
	for w := range in.Workflows {
		to.tasks = append(to.tasks, upTo(len(in.Workflows[w].Tasks)))
	}
	return to
}

// shuffleTasks lists the tasks of workflows in other orders, parents before children.
func (to *newIDs) shuffleTasks(r *rand.Rand, in Instance) {
	for w := range in.Workflows {
		tasks := in.Workflows[w].Tasks
		open := upTo(len(tasks))
		for next := 0; len(open) > 0; {
			k := r.IntN(len(open))
			i := open[k]
			if !slices.ContainsFunc(tasks[i].Parents, func(q int) bool { return slices.Contains(open, q) }) {
				to.tasks[w][i], open = next, slices.Delete(open, k, k+1)
				next++
			}
		}
	}
}

// shuffleFlows exchanges workflows that arrive together.
func (to *newIDs) shuffleFlows(r *rand.Rand, in Instance, may func(w *Workflow) bool) {
	for w := range in.Workflows {
		for v := range w {
			if a, b := &in.Workflows[v], &in.Workflows[w]; a.Arrive == b.Arrive && may(a) && may(b) && r.IntN(2) == 0 {
				to.flows[v], to.flows[w] = to.flows[w], to.flows[v]
			}
		}
	}
}

// instance returns one with the new ids.
func (to *newIDs) instance(in Instance) Instance {
	out := in.clone()
	for n, at := range to.nodes {
		if out.Nodes[at] = in.Nodes[n]; in.Clusters {
			out.Nodes[at].Group = planner.GroupID(at)
		}
	}
	for w, at := range to.flows {
		flow := in.Workflows[w]
		flow.Tasks = slices.Clone(flow.Tasks)
		for i, task := range in.Workflows[w].Tasks {
			parents, on := task.Parents, task.On
			task.Parents, task.On = nil, slices.Clone(on)
			for _, q := range parents {
				task.Parents = append(task.Parents, to.tasks[w][q])
			}
			slices.Sort(task.Parents)
			for n := range on {
				task.On[to.nodes[n]] = on[n]
			}
			flow.Tasks[to.tasks[w][i]] = task
		}
		out.Workflows[at] = flow
	}
	return out
}

func (to *newIDs) stays(stays []Stay) []Stay {
	out := slices.Clone(stays)
	for i, s := range stays {
		out[i].Node, out[i].Workflow, out[i].Task = to.nodes[s.Node], to.flows[s.Workflow], to.tasks[s.Workflow][s.Task]
	}
	return out
}

// idsDecide says what a policy orders by ids on purpose, in a shape of instances: tasks of a workflow, workflows that
// arrive together, nodes.
func idsDecide(spec string, s Shape) (tasks, flows, nodes bool) {
	name, _, _ := strings.Cut(spec, ":")
	switch name {
	case "gbf": // any task of the first workflow
		return true, true, false
	case "cpp", "fwp", "wheft": // the first workflow; all slowdowns are 1 at first; turns, by arrival
		return false, true, false
	case "dla": // the first task of the first workflow; the first of equally idle nodes
		return true, true, s.Held || s.Clusters
	case "drf": // the first task of a tenant; tenants are alike until they have different needs
		return true, s.Tenants < 2, false
	case "capacity": // so do queues; nodes take turns
		return true, s.Tenants < 2 || strings.HasSuffix(spec, "queues=class"), true
	case "edf": // the first task of a workflow
		return true, false, false
	case "pds", "3dsf": // deadline jobs by latest start, which tasks have, or deadline, which workflows have
		return strings.Contains(spec, "order=edf"), false, (s.Held || s.Clusters) && strings.Contains(spec, "large=0")
	case "fifo", "rm-dcwf": // what an overrun pushes to the same start; sub-deadlines in turn; fifo plans in turn
		return s.Wrong || s.Lost || strings.HasSuffix(spec, "tsp2"), s.Wrong || s.Lost || name == "fifo", false
	case "mrcp-rm": // schedules with as many late and the same sum of turnarounds
		return true, true, true
	}
	return false, strings.Contains(spec, "fcfs"), false
}

// Where no two tasks, workflows or nodes are alike there are no ties. Then ids decide nothing, but what a policy orders
// by them on purpose: other orders of the tasks in a file, of the nodes, and of workflows that arrive together give the
// same schedule.
func TestIDsChangeNoScheduleWithoutTies(t *testing.T) {
	shapes := []Shape{
		{Tasks: 20},
		{Tasks: 20, Sizes: true, Released: true, Dummies: true},
		{Tasks: 20, Cores: 1, Wrong: true},
		{Tasks: 20, Wrong: true, Sizes: true, Released: true},
		{Tasks: 20, Tenants: 3, Memory: true, Sizes: true, Alone: true},
		{Tasks: 20, Tenants: 3, Memory: true, Wrong: true},
		{Tasks: 16, Nodes: 3, Sizes: true, Clusters: true},
		{Tasks: 16, Groups: 2, Held: true, Sizes: true},
		{Tasks: 20, Lost: true, Fails: true},
		{Tasks: 20, Alone: true, Nodes: 2},
	}
	specs := append(everySpec(t), "3dsf:large=0", "3dsf:large=0,hops=1,late=ahead", "3dsf:late=ahead,room=leave",
		"pds:late=ahead,room=leave", "drf:level=2", "fwp:m=3", "rm-dcwf:max_remap_attempts=1",
		"rm-dcwf:max_jobs_to_remap=1,config=ed-sl-tsp2", "owm-mp+swf+backfilling+all-eft", "dla:large=0")
	for i, spec := range specs {
		if strings.HasPrefix(spec, "pipeline:") && !seedtest.Takes(i) {
			continue
		}
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			tenants := strings.HasPrefix(spec, "pds") || strings.HasPrefix(spec, "3dsf")
			for seed := range seedtest.Seeds(t, 4*len(shapes)) {
				s := shapes[seed%uint64(len(shapes))]
				r := rand.New(rand.NewPCG(seed, 78))
				in := Draw(r, s)
				apart(&in, s.Tenants > 1)
				for w := range in.Workflows {
					flow := &in.Workflows[w]
					if tenants && flow.Class == planner.Deadline {
						flow.Due += 3600e9 // one that is late is served as a regular one
					} else if tenants { // whose tasks are in the order of ids
						for i := 1; i < len(flow.Tasks); i++ {
							flow.Tasks[i].Parents = []int{i - 1}
						}
					}
				}
				tasks, flows, nodes := idsDecide(spec, s)
				bound := true
				if seed/uint64(len(shapes))%2 == 1 { // nodes may be alike if they keep their order
					for n := range in.Nodes {
						in.Nodes[n].Speed = 1
					}
					nodes = true
					// Tasks that start together are bound to alike nodes by their ids.
					bound = !strings.HasPrefix(spec, "rm-dcwf") && spec != "fifo"
					tasks, flows = tasks || !bound && s.Held, flows || !bound && s.Held
				}
				want := mustSimulate(t, in, spec).Stays
				to := unchanged(in)
				if !tasks {
					to.shuffleTasks(r, in)
				}
				if !flows {
					to.shuffleFlows(r, in, func(w *Workflow) bool {
						return !strings.HasPrefix(spec, "pds") || w.Class == planner.Deadline
					})
				}
				if !nodes {
					to.nodes = r.Perm(len(in.Nodes))
				}
				other := to.instance(in)
				if d := Difference(mustSimulate(t, other, spec).Stays, to.stays(want), bound); d != "" {
					t.Errorf("seed %d, new ids %v: %s\n%s", seed, to, d, in)
				}
			}
		})
	}
}
