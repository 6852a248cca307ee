package policy_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gantry/planner"
	"gantry/planner/remap"
	"gantry/planner/seed/seedtest"
	"gantry/planner/unit"
)

// promises are the policies that keep a plan which they promised.
var promises = []string{"fifo", "rm-dcwf:pd-sl-tsp1", "rm-dcwf:pd-sl-tsp2"}

// A task whose input is on the way to its node takes nothing there that was planned for another: b, the copy of whose
// input to n1 would take 31 s, waits on n0 until v has ended, which is as long as it may be.
func TestACopyAheadTakesNoPlaceThatWasPromised(t *testing.T) {
	in := Instance{Held: true, Overlapped: true,
		Nodes: []Node{{Cores: 2000, Speed: 1}, {Cores: 1000, Speed: 1, Group: 1}},
		Workflows: []Workflow{
			{Release: instant(23), Due: instant(28), Class: planner.Deadline,
				Tasks: []Task{{Run: 5 * time.Second, Cores: 2000, Stage: 1}}},
			{Due: instant(70), Class: planner.Deadline, Tasks: []Task{
				{Run: 14 * time.Second, Cores: 1000, Stage: 1, Copy: 31 * time.Second},
				{Run: 15 * time.Second, Cores: 1000, Stage: 2, Parents: []int{0}}}},
		}}
	for _, spec := range promises[:2] {
		want := []Stay{stayed(0, 0, 0, 23, 28), stayed(1, 0, 0, 0, 14), stayed(1, 1, 0, 28, 43)}
		if d := Difference(mustSimulate(t, in, spec).Stays, want, true); d != "" {
			t.Errorf("%s: %s", spec, d)
		}
	}
}

// A copy begins once the file exists, not once all parents of its consumer have ended: t3 needs what t2 has written at
// 7 s, waits for t1 until 16 s, and starts then on the other node.
func TestACopyAheadBeginsOnceTheFileExists(t *testing.T) {
	in := Instance{Held: true, Overlapped: true,
		Nodes: []Node{{Cores: 1000, Speed: 1}, {Cores: 2000, Speed: 1, Group: 1}},
		Workflows: []Workflow{{Due: instant(25), Class: planner.Deadline, Tasks: []Task{
			{Run: 2 * time.Second, Cores: 1000, Stage: 1},
			{Run: 9 * time.Second, Cores: 2000, Stage: 2, Parents: []int{0}},
			{Run: 7 * time.Second, Cores: 1000, Stage: 1, Copy: 2600 * time.Millisecond},
			{Run: 8 * time.Second, Cores: 1000, Stage: 3, Parents: []int{1, 2}},
			{Run: 9 * time.Second, Cores: 1000, Stage: 1},
		}}}}
	for _, spec := range promises[:2] {
		want := []Stay{stayed(0, 0, 1, 0, 2), stayed(0, 1, 1, 7, 16), stayed(0, 2, 1, 0, 7),
			stayed(0, 3, 0, 16, 24), stayed(0, 4, 0, 0, 9)}
		if d := Difference(mustSimulate(t, in, spec).Stays, want, true); d != "" {
			t.Errorf("%s: %s", spec, d)
		}
	}
}

// instant is an instant.
func instant(s int) unit.Time { return unit.Time(s) * unit.Time(time.Second) }

func stayed(workflow, task, node, start, end int) Stay {
	return Stay{Workflow: workflow, Task: task, Node: node, Start: instant(start), End: instant(end)}
}

// possible says what of a course cannot be where copies overlap other work; "" if all can: runs last as long as they
// have to, nodes hold what runs on them, and a task starts once its parents have ended and their output can have come.
func possible(in *Instance, stays []Stay) string {
	o, of := newWorld(*in), map[[2]int]Stay{}
	for _, s := range stays {
		if _, twice := of[[2]int{s.Workflow, s.Task}]; twice {
			return fmt.Sprintf("%v again", s)
		}
		of[[2]int{s.Workflow, s.Task}] = s
	}
	if len(stays) != in.Timed() {
		return fmt.Sprintf("%d of %d tasks ran", len(stays), in.Timed())
	}
	timed, number := joined(*in)
	reads := readers(*in, number)
	for f := range timed.Workflows {
		w := &timed.Workflows[f]
		for i := range w.Tasks {
			s := of[[2]int{f, number[f][i]}]
			ready := max(w.Arrive, w.Release)
			for _, q := range w.Tasks[i].Parents {
				p := of[[2]int{f, number[f][q]}]
				ready = max(ready, p.End)
				if p.Node == s.Node || !in.Held && !in.Clusters || !slices.Contains(reads[f][i], q) {
					continue
				}
				copying := w.Tasks[q].Copy
				if in.Nodes[p.Node].Group == in.Nodes[s.Node].Group {
					copying /= 2
				}
				ready = max(ready, p.End.Add(copying))
			}
			run := o.run(w.Tasks[i].Run, s.Node)
			if on := w.Tasks[i].On; on != nil {
				run = on[s.Node]
			}
			if s.Start < ready || s.End.Sub(s.Start) != run {
				return fmt.Sprintf("%v, which can start at %v", s, ready)
			}
		}
	}
	for _, s := range stays {
		cores, memory := int64(0), int64(0)
		for _, x := range stays {
			if x.Node == s.Node && x.Start <= s.Start && x.End > s.Start {
				t := &in.Workflows[x.Workflow].Tasks[x.Task]
				cores, memory = cores+t.Cores, memory+t.Memory
			}
		}
		if n := in.Nodes[s.Node]; cores > n.Cores || n.Memory > 0 && memory > n.Memory {
			return fmt.Sprintf("%v: %d millicores and %d bytes are in use then", s, cores, memory)
		}
	}
	return ""
}

// kept compares what a policy predicted with what came: broken names a workflow that was not mapped again since, and
// ended later; "" if none.
func kept(in Instance, spec string) (predicted int, broken string, err error) {
	course, err := Simulate(in, spec)
	if err != nil {
		return 0, "", err
	}
	if what := possible(&in, course.Stays); what != "" {
		return 0, what, nil
	}
	remapped := unit.Time(-1) // for the last time
	for _, w := range in.Workflows {
		if slices.ContainsFunc(w.Tasks, func(t Task) bool { return t.Estimate() != t.Run }) {
			return 0, "", nil // nothing is promised
		}
		// With the first one whose runs are given by node, each node becomes a pool, and all are mapped again.
		if slices.ContainsFunc(w.Tasks, func(t Task) bool { return t.On != nil }) {
			remapped = w.Arrive
			break
		}
	}
	for _, n := range course.Notes {
		if n.Topic == remap.TopicRemapped {
			remapped = max(remapped, n.At)
		}
	}
	for _, n := range course.Notes {
		if n.Topic != planner.TopicPredicted || in.Workflows[n.Workflow].Arrive < remapped {
			continue
		}
		predicted++
		for _, s := range course.Stays {
			if s.Workflow == int(n.Workflow) && s.End > n.At {
				broken = fmt.Sprintf("workflow %d was to end by %v: %v", n.Workflow, n.At, s)
			}
		}
	}
	return predicted, broken, nil
}

// promisedShapes are loads whose copies overlap other work.
var promisedShapes = []sampled{
	{120, Shape{Held: true, Overlapped: true, Released: true, Groups: 3}},
	{120, Shape{Held: true, Overlapped: true, Released: true, Dummies: true, Groups: 2, Speeds: speeds,
		Sizes: true}},
	{120, Shape{Held: true, Overlapped: true, Released: true, Dummies: true, Groups: 2, Sizes: true,
		Memory: true}},
	{120, Shape{Held: true, Overlapped: true, Released: true, Dummies: true, Groups: 2, Sizes: true,
		Nodes: 6, Alone: true}},
	{120, Shape{Clusters: true, Released: true, Dummies: true, Sizes: true}},
	{120, Shape{Held: true, Overlapped: true, Released: true, Dummies: true, Groups: 2, Speeds: speeds,
		Sizes: true, Memory: true, Wrong: true}},
}

// With exact estimates, workflows end when they were predicted to, unless they were mapped again: also if some have no
// files, or copies take no time. With others, schedules are possible.
func TestPlansAreKeptWhereCopiesOverlapOtherWork(t *testing.T) {
	for _, spec := range promises {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			for k, s := range promisedShapes {
				sum, bad := 0, 0
				for seed := range seedtest.Seeds(t, s.n) {
					in := Draw(rand.New(rand.NewPCG(seed, 15)), s.Shape)
					if seed%5 == 0 {
						in.Held = false
					}
					for w := range in.Workflows {
						if (w+int(seed))%3 > 0 {
							continue
						}
						for i := range in.Workflows[w].Tasks {
							in.Workflows[w].Tasks[i].Copy = 0
						}
					}
					n, broken, err := kept(in, spec)
					if err != nil {
						t.Fatalf("seed %d: %v\n%s", seed, err, in)
					}
					if sum += n; broken == "" {
						continue
					}
					if bad++; bad == 1 {
						small := Shrink(in, func(in Instance) bool {
							_, broken, err := kept(in, spec)
							return err == nil && broken != ""
						})
						_, broken, _ := kept(small, spec)
						t.Errorf("shape %d, seed %d, shrunk: %s\n%s", k, seed, broken, small)
					}
				}
				t.Logf("shape %d: %d predictions, %d loads with broken ones", k, sum, bad)
				if sum < seedtest.Times(s.n) && !s.Wrong {
					t.Errorf("only %d predictions", sum)
				}
			}
		})
	}
}
