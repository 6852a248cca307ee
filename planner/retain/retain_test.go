package retain_test

import (
	"testing"

	"gantry/planner/plannertest"
	"gantry/planner/policy"
)

func bench(t *testing.T, spec, scenario string) *plannertest.Bench {
	t.Helper()
	pol, err := policy.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	return plannertest.New(t, pol, scenario)
}

// A kept plan bends: b is planned after a on its node, and starts as soon as a has ended, earlier or later than
// planned.
func TestFloatFollowsThePlanInItsOrder(t *testing.T) {
	const plan = `
		n0 aaabb`
	for scenario, want := range map[string]string{
		"nodes 1\n A a=3(1) b=2 a>b": "n0 abb",
		"nodes 1\n A a=3(5) b=2 a>b": "n0 aaaaabb",
	} {
		b := bench(t, "heft", scenario)
		b.Step()
		b.WantPlan(plan)
		b.RunAll().Want(want)
	}
}

// A plan is made again when a workflow arrives: c is ranked above b, which had the core from 3 s on.
func TestFloatPlansAgainAtAnArrival(t *testing.T) {
	b := bench(t, "heft", `
		nodes 1
		A     a=3 b=1
		B @1  c=2 d=2 c>d`)
	b.Step()
	b.WantPlan(`n0 aaab`)
	b.Until(plannertest.Seconds(1))
	b.WantPlan(`n0 aaaccddb`)
	b.RunAll().Want(`n0 aaaccddb`)
}

// Greedy policies keep nothing: nothing is planned beyond this instant.
func TestDropKeepsNothing(t *testing.T) {
	b := bench(t, "cpp", `
		nodes 1
		A  a=3 b=2`)
	b.Step()
	b.WantPlan(`n0 aaa`)
	if n := b.Planner.Draft().Plans(); n != 0 {
		t.Errorf("%d segments are planned", n)
	}
}

// A task that ends early leaves its node idle until the planned start of the next, if none may start before it.
func TestStrictPlansKeepToPlannedStarts(t *testing.T) {
	const scenario = "nodes 1\n A a=3(1) b=2 a>b"
	bench(t, "wheft", scenario).RunAll().Want("n0 abb")
	bench(t, "wheft:start=planned", scenario).RunAll().Want("n0 a..bb")
	bench(t, "wheft:start=planned", "nodes 1\n A a=3(5) b=2 a>b").RunAll().Want("n0 aaaaabb")
}

// c and e read what a writes, of 2 MB and 1 MB: a copy takes a second and one for each megabyte. n1 is promised to c,
// which was chosen first, and nobody runs there before it, though the file of e could be there earlier.
func TestDropKeepsPromisedPlaces(t *testing.T) {
	bench(t, "gbf:first", `
		nodes 1 1
		link  1 1 overlapped
		A     a=1 b=8 c=2 e=2 a>b a>c:2 a>e:1`).RunAll().Want(`
		n0 abbbbbbbb
		n1 ....cc..ee`)
}

// c has its place on n1 while its file of 2 MB is on the way there, which begins as a ends, at 2 s or earlier than
// estimated.
func TestAllocatedTasksWaitForTheirInputs(t *testing.T) {
	const rest = " b=6 c=3 a>b a>c:2"
	for scenario, want := range map[string]string{"A a=2": "n0 aabbbbbb\nn1 ....ccc",
		"A a=2(1)": "n0 abbbbbb\nn1 ...ccc"} {
		bench(t, "mows", "nodes 1 1\nlink 1 overlapped\n"+scenario+rest).RunAll().Want(want)
	}
}
