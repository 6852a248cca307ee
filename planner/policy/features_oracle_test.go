package policy_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// features returns the features of an instance and its course.
func features(in *Instance, c *Course) map[string]bool {
	has := map[string]bool{"late": c.Late > 0}
	mark := func(feature string, is bool) { has[feature] = has[feature] || is }
	for _, n := range in.Nodes {
		mark("speeds", n.Speed != in.Nodes[0].Speed)
		mark("groups", n.Group != in.Nodes[0].Group)
	}
	for _, n := range c.Notes {
		mark("waits for data", strings.HasPrefix(n.Text, "waits for "))
		mark("moves data", strings.HasPrefix(n.Text, "moves its data to "))
	}
	first := in.Workflows[0]
	for _, w := range in.Workflows {
		mark("tenants", w.Tenant != first.Tenant && w.Class != first.Class)
		for _, t := range w.Tasks {
			mark("no time", t.Run == 0)
			mark("cores", t.Cores != first.Tasks[0].Cores)
			mark("memory", t.Memory != first.Tasks[0].Memory)
			mark("longer", t.Run > t.Estimate())
			mark("shorter", t.Run < t.Estimate())
		}
	}
	before := map[[2]int]bool{}
	for _, s := range c.Stays {
		w, again := in.Workflows[s.Workflow], before[[2]int{s.Workflow, s.Task}]
		t := w.Tasks[s.Task]
		run := time.Duration(float64(t.Run) / in.Nodes[s.Node].Speed)
		if before[[2]int{s.Workflow, s.Task}] = true; t.On != nil {
			run = t.On[s.Node]
		}
		mark("waits", len(t.Parents) == 0 && !again && s.Start > max(w.Arrive, w.Release))
		mark("nodes", s.Node != c.Stays[0].Node)
		mark("again", again && t.Lost > 0)
		mark("suspended", again && t.Lost == 0 || (!in.Held || in.Overlapped) && s.End.Sub(s.Start) > run)
		for _, o := range c.Stays {
			mark("released", o.End == w.Release && w.Release > w.Arrive)
			mark("fails", t.Fail && t.Lost == 0 && o.Workflow == s.Workflow && o.Start >= s.End)
			mark("copies", t.Copy > 0 && o.Workflow == s.Workflow && o.Node != s.Node &&
				slices.Contains(w.Tasks[o.Task].Parents, s.Task))
		}
	}
	return has
}

// A comparison shows nothing on instances without the features of their shape: three or more of each shape have each
// feature, under one of the policies that are compared on them.
func TestInstancesHaveTheFeaturesOfTheirShapes(t *testing.T) {
	for _, c := range compared {
		for _, s := range c.shapes {
			several, tenants, large := s.Nodes != 1, s.Tenants > 1, strings.Contains(c.specs, "large=0,")
			wanted := map[string]bool{"waits": true, "nodes": several, "late": !s.NoDue, "no time": s.Dummies,
				"released": s.Released, "cores": s.Sizes, "memory": s.Memory, "longer": s.Wrong, "shorter": s.Wrong,
				"speeds": several && len(s.Speeds) > 0, "groups": several && (s.Groups > 1 || s.Clusters),
				"tenants": tenants, "again": s.Lost, "fails": s.Fails, "waits for data": large, "moves data": large,
				"suspended": s.Checkpoints || s.Clusters || tenants && !s.Held,
				"copies":    several && (s.Held || s.Overlapped || s.Clusters)}
			missing := map[string]int{}
			for f, is := range wanted {
				if is {
					missing[f] = 3
				}
			}
			for _, spec := range slices.Backward(strings.Fields(c.specs)) {
				for seed := uint64(0); seed < uint64(s.n) && len(missing) > 0; seed++ {
					in := Draw(rand.New(rand.NewPCG(seed, 14)), s.Shape)
					for f, is := range features(&in, mustSimulate(t, in, spec)) {
						if is && missing[f] > 1 {
							missing[f]--
						} else if is {
							delete(missing, f)
						}
					}
				}
			}
			if len(missing) > 0 {
				t.Errorf("%.20s, %+v: more instances have to have %v", c.specs, s, missing)
			}
		}
	}
}
