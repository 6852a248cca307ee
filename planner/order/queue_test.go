package order_test

import "testing"

// The order in which each queue serves what waits behind a on one core.
func TestQueuesServeInTheirOrder(t *testing.T) {
	const scenario = `
		nodes 1
		A          a=2
		B @1       due=40 b=3 c=1 b>c
		C @1       due=20 d=1 e=1 d>e
		D @1       due=30 f=5`
	for spec, want := range map[string]string{
		"gbf:first":     "n0 aabbbcdefffff", // first come, first served
		"cpp":           "n0 aabbbcdefffff",
		"edf":           "n0 aadefffffbbbc", // by deadline
		"owm":           "n0 aadebbbcfffff", // the lowest rank of workflows: d 2, b 4, f 5
		"hr":            "n0 aadebbbcfffff",
		"pipeline:fcfs": "n0 aabbbdfffffce", // as they became ready
	} {
		t.Run(spec, func(t *testing.T) { run(t, spec, scenario).Want(want) })
	}
}

// The tenant with the least share is served next.
func TestTenantsTakeTurns(t *testing.T) {
	run(t, "drf", `
		nodes 2
		A  tenant=0 a=2 b=2 c=2
		B  tenant=1 d=2 e=2 f=2`).Want(`
		n0 aabbcc
		   ddeeff`)
}
