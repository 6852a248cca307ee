package order_test

import (
	"errors"
	"strings"
	"testing"

	"gantry/planner"
	"gantry/planner/plannertest"
	"gantry/planner/policy"
)

// The worked example of RM-DCWF's remapping by laxity: in the order of deadlines c would end at 15.
func TestMRCPFindsTheOrderInWhichAllAreOnTime(t *testing.T) {
	run(t, "mrcp-rm", `
		nodes 1 1
		A due=10  a=5
		B due=10  b=5
		C due=11  c=10`).Want(`
		n0 aaaaabbbbb
		n1 cccccccccc`)
}

// A workflow that starts later is no reason to keep a slot free: b runs through its earliest start. With reserve it is
// planned when it arrives: there is no room for b before it, and b runs behind it.
func TestMRCPReservesForWorkflowsWithEarliestStartsAhead(t *testing.T) {
	for spec, want := range map[string]string{
		"mrcp-rm":             "n0 aaaaaaaaabbbbbrrr",
		"mrcp-rm:reserve=yes": "n0 aaaaaaaaa.rrrbbbbb",
	} {
		run(t, spec, `
			nodes 1
			A     due=100 a=9
			R     due=13 release=10 r=3
			B @1  due=30 b=5`).Want(want)
	}
}

// a is estimated to take 4 s and takes 8: b, behind it, would miss its deadline where it is planned.
func TestMRCPPlansAnewWhenAnOverrunEndangersADeadline(t *testing.T) {
	b := run(t, "mrcp-rm", `
		nodes 1 1
		scale 0.5
		A due=7    a=4(8)
		C due=6    c=5
		B due=9    b=3.5
		D due=100  d=10`)
	b.Want(`
		n0 aaaaaaaaaaaaaaaadddddddddddddddddddd
		n1 ccccccccccbbbbbbb`)
	var notes []planner.Note
	for _, e := range b.Events {
		if pc, ok := e.Body.(*planner.PlanCommitted); ok {
			notes = append(notes, pc.Notes...)
		}
	}
	if len(notes) != 4 || notes[2].Topic != planner.TopicPredicted || notes[2].At != 7.5e9 ||
		notes[2].Text != "laxity 5.5s, the deadline is met with 1.5s to spare" {
		t.Errorf("%+v", notes)
	}
}

func TestMRCPRefusesModelsBeyondItsBound(t *testing.T) {
	for says, before := range map[string]string{
		"4 tasks (workflows: 1)": "",
		"4 tasks (workflows: 2)": "B e=5 f=5\n", // the tasks of the last model run by then
	} {
		pol, err := policy.Parse("mrcp-rm:tasks=3")
		if err != nil {
			t.Fatal(err)
		}
		b := plannertest.New(t, pol, "nodes 2\n"+before+"A @1 due=10 a=1 b=1 c=1 d=1")
		if before != "" { // it starts
			b.Step()
			b.Step()
		}
		b.Now = plannertest.Seconds(1)
		b.Arrive()
		if _, err := b.Planner.Plan(t.Context(), b.Now); !errors.Is(err, planner.ErrUnsupported) ||
			!strings.Contains(err.Error(), "the constraint model would have "+says+", more than its bound of 3") {
			t.Errorf("%s: %v", says, err)
		}
	}
}
