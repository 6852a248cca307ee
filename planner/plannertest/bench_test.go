package plannertest_test

import (
	"strings"
	"testing"

	"gantry/planner"
	"gantry/planner/plannertest"
	"gantry/planner/policy"
)

func parse(t *testing.T, spec string) planner.Policy {
	t.Helper()
	pol, err := policy.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	return pol
}

func TestPicturesShowWhatRan(t *testing.T) {
	b := plannertest.New(t, parse(t, "gbf:first"), `
		nodes 2 1
		A     a=3 b=2x2 c=1 a>c     # b waits for two cores
		B @1  d=2(4)`)
	b.RunAll().Want(`
		n0  aaac.bb
		    .ddddbb
		n1`)
}

func TestAScenarioThatIsNoneIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"nodes x":             "line 1",
		"nodes 1\nA a=1 z>a":  `"z>a": task z stands nowhere before`,
		"nodes 1\nA ab=1":     "names of one letter",
		"nodes 1\nA a":        `"a": not known`,
		"nodes 1\ngroups 2":   "there are 1 nodes",
		"nodes 1\nkeep disks": "say cpu or memory",
	} {
		if _, err := plannertest.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// Every policy passes the generic tests.
func TestEveryPolicyKeepsTheInvariants(t *testing.T) {
	for _, row := range policy.Table() {
		t.Run(row.Name, func(t *testing.T) {
			plannertest.TestPolicy(t, func() planner.Policy { return parse(t, row.Name) })
		})
	}
}

// hearer keeps the attempts of which it hears.
type hearer struct {
	plannertest.PolicyFunc
	heard map[planner.AttemptID]bool
}

func (h hearer) Observe(_ planner.View, e planner.Event) {
	switch b := e.Body.(type) {
	case planner.AttemptStarted:
		h.heard[b.Attempt] = true
	case *planner.AttemptExited:
		h.heard[b.Attempt] = true
	}
}

// Policies that learn hear nothing of tasks without time, nor do these make news.
func TestTasksWithoutTimeMakeNoNews(t *testing.T) {
	heard := map[planner.AttemptID]bool{}
	gbf := parse(t, "gbf:first")
	b := plannertest.New(t, hearer{func(c *planner.Cycle) error {
		for _, list := range [][]planner.TaskID{c.News.Ready, c.News.Finished, c.News.Ended} {
			for _, task := range list {
				if c.Task(task).Formal {
					t.Errorf("task %d, which takes no time, is news", task)
				}
			}
		}
		return gbf.Plan(t.Context(), c)
	}, heard}, `
		nodes 1
		A     z=0 a=2 y=0 b=1 z>a a>y
		B @1  x=0 w=0
		C @5  c=1 v=0 u=0 c>v v>u`)
	b.RunAll().Want(`n0 aab..c`)
	v := b.View()
	for a := range v.Attempts() {
		id := planner.AttemptID(a)
		if formal := v.Task(v.Attempt(id).Task).Formal; formal == heard[id] {
			t.Errorf("attempt %d, of a task without time: %v, was heard of: %v", a, formal, heard[id])
		}
	}
}
