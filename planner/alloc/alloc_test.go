package alloc_test

import (
	"testing"

	"gantry/planner/plannertest"
	"gantry/planner/policy"
)

// run has a policy serve a scenario and compares what ran with a picture: time across, nodes down.
func run(t *testing.T, spec, scenario, picture string) {
	t.Helper()
	pol, err := policy.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	plannertest.New(t, pol, scenario).RunAll().Want(picture)
}

// Of nodes of one speed only the slow one is idle: b is done earlier if it waits a second for the fast one.
func TestPostponingWaitsForAFasterNode(t *testing.T) {
	const scenario = `
		nodes 1 1*4
		A    a=4
		B    b=8`
	for _, spec := range []string{"owm", "fwp:postpone=busy"} {
		run(t, spec, scenario, `
			n0 
			n1 abb`)
	}
	for _, spec := range []string{"cpp", "fwp"} {
		run(t, spec, scenario, `
			n0 bbbbbbbb
			n1 a`)
	}
}

// b and c are done earlier on the fast node, one after the other. If one task may wait for it, c starts.
func TestAsManyTasksWaitForOneBusyNodeAsMay(t *testing.T) {
	const scenario = `
		nodes 1 1*4
		A    a=4
		B    b=8
		C    c=8`
	for _, spec := range []string{"owm", "owm:wait=2"} {
		run(t, spec, scenario, `
			n0
			n1 abbcc`)
	}
	run(t, "owm:wait=one", scenario, `
		n0 cccccccc
		n1 abb`)
}

// A task outlasts its estimate on the fast node: b waits for it all the time, unless such a node is left out.
func TestOverrunsMayBeIgnored(t *testing.T) {
	const scenario = `
		nodes 1 1*4
		A    a=4(16)
		B @2 b=8`
	run(t, "owm", scenario, `
		n0
		n1 aaaabb`)
	run(t, "owm:overrun=ignored", scenario, `
		n0 ..bbbbbbbb
		n1 aaaa`)
}

// J2 waits for the whole cluster. EASY lets J3 pass it only if that delays it by nothing.
func TestRigidBackfills(t *testing.T) {
	const scenario = `
		nodes 4
		A     a=4x2
		B @1  b=2x4
		C @1  c=3x2
		D @1  d=9x1`
	run(t, "pipeline:fcfs,rearrange=none", scenario, `
		n0 aaaabbccc
		   aaaabbccc
		   ....bbddddddddd
		   ....bb`)
	run(t, "pipeline:fcfs,easy", scenario, `
		n0 aaaabbddddddddd
		   aaaabb
		   .cccbb
		   .cccbb`)
}

// EarliestFinish places c where the file of a need not be copied, and d, which comes after c in the queue, in the gap
// before it.
func TestEarliestFinishFillsGaps(t *testing.T) {
	run(t, "heft", `
		nodes 1 1
		link  1
		A  a=2 b=6 c=3 d=2 a>c:2 b>c`, `
		n0 bbbbbb
		n1 aadd..ccc`)
}

// An input from outside is copied once its reader has a place: b, which waits for the fast node, gets its place when a
// ends, and its input 2 s later. A copy that had begun when b came would be there by then.
func TestARigidTaskIsNotExpectedToFindACopyThatNobodyAskedFor(t *testing.T) {
	run(t, "mows", `
		nodes 1 1*4
		link 1 overlapped
		A     a=16
		B @1  b=40 >b:2@0`, `
		n0
		n1 aaaa..bbbbbbbbbb`)
}

// At 10 s, c is ready: it finishes at 40 s in the place of l, and at 90 s behind it. No rearrangement of the queue may
// hide that it can preempt.
func TestEveryRearrangementLetsTasksPreemptOnAFullMachine(t *testing.T) {
	for _, arrange := range []string{"none", "easy", "conservative", "priority"} {
		run(t, "pipeline:sws,rank-hybd,"+arrange+",aa,lower-rank", `
			nodes 3
			scale 10
			W p=10 l=60x2^ c=30x3 d=100 p>c c>d`, `
			n0 pccclllll
			   lccclllll
			   lcccdddddddddd`)
	}
}

// At 10 s, t takes the place of v. Then v, whose rank is 60, stands in the queue before u (30), and continues where
// there is room (figure 3-10: Q = Q + {t_r}). Conservative backfilling arranges the queue by estimated starts before,
// so that u comes before t.
func TestPreemptedTasksEnterTheQueueAtOnce(t *testing.T) {
	for _, arrange := range []string{"none", "easy", "priority"} {
		run(t, "pipeline:sws,rank-hybd,"+arrange+",aa,lower-rank", `
			nodes 2 3
			groups 1 1
			scale 10
			W p=10x2 v=60x2^ u=30x2 t=20x3 d=100 p>t t>d`, `
			n0 pvvvvv
			   pvvvvv
			n1 vttuuu
			   vttuuu
			   .ttdddddddddd`)
	}
}
