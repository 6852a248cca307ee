package policy_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"gantry/planner/seed/seedtest"
)

// sampled is a shape of instances, and how many of them a policy is compared with its oracle on.
type sampled struct {
	n int
	Shape
}

// faulty is a shape with attempts that are lost or fail, are made again, and with tasks that fail for good.
func faulty(s Shape) Shape {
	s.Lost, s.Fails = true, true
	return s
}

var speeds = []float64{0.5, 1, 1.5}

// families are the policies that have oracles, each with one that stands for all.
var families = []struct {
	name, spec string
	shapes     []sampled
	apart      int // so many times as many instances, as not all policies meet the same
}{
	{"`gbf`", "gbf:pick=first", greedyShapes, 1},
	{"`cpp`, `owm`, `fdws`, `hr`, `fwp`, `heft`, `wheft`", "cpp", onlineShapes, 1},
	{"`pds`, `3dsf`, `drf`, `capacity`", "3dsf", tenantShapes, 1},
	{"the same, leaving nodes", "3dsf:room=leave", leavingShapes, 1},
	{"the same, with data; `dla`", "3dsf:large=0", slices.Concat(tenantsWithData, localityShapes), 1},
	{"the same, overlapped", "3dsf:large=0", overlappedTenants, 1},
	{"`edf`", "edf", greedyDeadlines, 1},
	{"`gbf` to `fwp`, `edf`, overlapped", "cpp", overlappedShapes, 1},
	{"`rm-dcwf`, `fifo`", "rm-dcwf", exactShapes, 1},
	{"the same, wrong estimates", "rm-dcwf", bentShapes, 1},
	{"the same, copies", "rm-dcwf", copyingShapes, 1},
	{"`mrcp-rm`", "edf", solved(solvedShapes), 1},
	{"the same, copies", "mrcp-rm", solved(copiedShapes), 1},
	{"`owm-mp`, `mows`, `pipeline`", "mows", rigidShapes, 22},
}

func solved(shapes map[string]Shape) (all []sampled) {
	for _, shape := range shapes {
		all = append(all, batchStreamWrong(shape)...)
	}
	return all
}

// features are what instances may have, and runs of them.
var features = []struct {
	name string
	has  func(in *Instance, stays []Stay) bool
}{
	{"ties", func(in *Instance, _ []Stay) bool {
		return pair(in, func(a, b *Task) bool {
			return a.Run == b.Run && a.Cores == b.Cores && a.Memory == b.Memory
		})
	}},
	{"no time", func(in *Instance, _ []Stay) bool {
		return each(in, func(t *Task) bool { return t.Run == 0 })
	}},
	{"release at an end", func(in *Instance, stays []Stay) bool {
		return slices.ContainsFunc(in.Workflows, func(w Workflow) bool {
			return w.Release > w.Arrive &&
				slices.ContainsFunc(stays, func(s Stay) bool { return s.End == w.Release })
		})
	}},
	{"cores", func(in *Instance, _ []Stay) bool {
		return pair(in, func(a, b *Task) bool { return a.Cores != b.Cores })
	}},
	{"memory", func(in *Instance, _ []Stay) bool {
		return pair(in, func(a, b *Task) bool { return a.Memory != b.Memory })
	}},
	{"wrong both ways", func(in *Instance, _ []Stay) bool {
		return each(in, func(t *Task) bool { return t.Estimate() > t.Run }) &&
			each(in, func(t *Task) bool { return t.Estimate() < t.Run })
	}},
	{"suspended", func(in *Instance, stays []Stay) bool {
		seen := map[[2]int]bool{}
		return slices.ContainsFunc(stays, func(s Stay) bool {
			t, key := &in.Workflows[s.Workflow].Tasks[s.Task], [2]int{s.Workflow, s.Task}
			again := t.Lost == 0 && seen[key] // it left its node
			seen[key] = true
			run := time.Duration(float64(t.Run) / in.Nodes[s.Node].Speed)
			if t.On != nil {
				run = t.On[s.Node]
			}
			return again || s.End.Sub(s.Start) > run // it was frozen
		})
	}},
	{"tried again", func(in *Instance, stays []Stay) bool {
		return slices.ContainsFunc(stays, func(s Stay) bool {
			return in.Workflows[s.Workflow].Tasks[s.Task].Lost > 0
		})
	}},
	{"failed, others go on", func(in *Instance, stays []Stay) bool {
		return slices.ContainsFunc(stays, func(a Stay) bool {
			t := &in.Workflows[a.Workflow].Tasks[a.Task]
			return t.Fail && t.Lost == 0 && slices.ContainsFunc(stays, func(b Stay) bool {
				return b.Workflow == a.Workflow && b.Start >= a.End
			})
		})
	}},
	{"several racks or clusters", func(in *Instance, _ []Stay) bool {
		return slices.ContainsFunc(in.Nodes, func(n Node) bool { return n.Group != in.Nodes[0].Group })
	}},
	{"speeds", func(in *Instance, _ []Stay) bool {
		return slices.ContainsFunc(in.Nodes, func(n Node) bool { return n.Speed != in.Nodes[0].Speed })
	}},
	{"copies", func(in *Instance, stays []Stay) bool {
		return slices.ContainsFunc(stays, func(a Stay) bool {
			return slices.ContainsFunc(stays, func(b Stay) bool {
				tasks := in.Workflows[a.Workflow].Tasks
				return a.Workflow == b.Workflow && a.Node != b.Node && tasks[a.Task].Copy > 0 &&
					slices.Contains(tasks[b.Task].Parents, a.Task)
			})
		})
	}},
}

func each(in *Instance, is func(t *Task) bool) bool {
	return slices.ContainsFunc(in.Workflows, func(w Workflow) bool {
		return slices.ContainsFunc(w.Tasks, func(t Task) bool { return is(&t) })
	})
}

// pair reports whether two tasks that take time are as asked.
func pair(in *Instance, are func(a, b *Task) bool) bool {
	var before []*Task
	return each(in, func(t *Task) bool {
		if t.Run == 0 {
			return false
		}
		found := slices.ContainsFunc(before, func(o *Task) bool { return are(o, t) })
		before = append(before, t)
		return found
	})
}

// enough reports whether instances have what the row of a family ticks. Others have to be simulated to see that no
// instance has what it does not tick.
func enough(text, family string, has []int) bool {
	_, row, _ := strings.Cut(text, "| "+family+" |")
	cells := strings.Split(row, "|")
	for k, n := range has {
		if k+2 >= len(cells) || n < 10 && strings.Contains(cells[k+2], "✓") {
			return false
		}
	}
	return true
}

// CONTRIBUTING.md has a table of what instances each family of policies is compared with its oracle on: a feature that
// is ticked is that of ten instances or more, one that is not is of none. A short test looks at a part of the rows.
func TestOraclesCoverWhatTheTableSays(t *testing.T) {
	row := "| policies | instances | tasks |"
	for _, f := range features {
		row += " " + f.name + " |"
	}
	text, err := os.ReadFile("../../CONTRIBUTING.md")
	must(t, err)
	if row += "\n|" + strings.Repeat(" --- |", len(features)+3) + "\n"; !strings.Contains(string(text), row) {
		t.Errorf("CONTRIBUTING.md does not have\n%s", row)
	}
	for i, f := range families {
		if !seedtest.Takes(i) {
			continue
		}
		instances, least, most := 0, 1<<30, 0
		has := make([]int, len(features))
		for _, s := range f.shapes {
			instances += s.n * f.apart
			for seed := range uint64(s.n * f.apart) {
				in := Draw(rand.New(rand.NewPCG(seed, 14)), s.Shape)
				n := 0
				for _, w := range in.Workflows {
					n += len(w.Tasks)
				}
				if least, most = min(least, n), max(most, n); testing.Short() && enough(string(text), f.name, has) {
					continue
				}
				stays := mustSimulate(t, in, f.spec)
				for k := range features {
					if features[k].has(&in, stays) {
						has[k]++
					}
				}
			}
		}
		if instances < 200 {
			t.Errorf("%s: %d instances only", f.name, instances)
		}
		row := fmt.Sprintf("| %s | %d | %d–%d |", f.name, instances, least, most)
		for k, n := range has {
			switch {
			case n >= 10:
				row += " ✓ |"
			case n == 0:
				row += " – |"
			default:
				t.Errorf("%s: only %d instances with %s", f.name, n, features[k].name)
			}
		}
		if !strings.Contains(string(text), row+"\n") {
			t.Errorf("CONTRIBUTING.md does not have\n%s", row)
		}
	}
}
