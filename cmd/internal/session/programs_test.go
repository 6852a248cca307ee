package session

import (
	"testing"
	"time"

	"gantry/executor"
	"gantry/planner/unit"
)

// What a program takes elsewhere follows from its CPU time, the limits of both places, and what it waits for.
func TestProgramsUnderOtherLimits(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name     string
		was      programRun
		limit    int64
		run, cpu time.Duration
	}{
		{"as it was measured", programRun{Ran: 700 * ms, CPU: 400 * ms, Millicores: 500}, 500, 700 * ms,
			350 * ms},
		{"10 of every 20 ms, and the last at full speed", programRun{Ran: 100 * ms, CPU: 130 * ms,
			Millicores: 1000}, 500, 190 * ms, 95 * ms},
		{"less than a share of the quota", programRun{Ran: 8 * ms, CPU: 38 * ms, Millicores: 1000}, 500, 8 * ms,
			4 * ms},
		{"what it waits for stays", programRun{Ran: 500 * ms, CPU: 130 * ms, Millicores: 1000}, 500, 590 * ms,
			100 * ms},
		{"held back before", programRun{Ran: 190 * ms, CPU: 130 * ms, Millicores: 500}, 1000, 100 * ms, 95 * ms},
		{"one thread on more cores", programRun{Ran: 100 * ms, CPU: 130 * ms, Millicores: 1000}, 4000, 100 * ms,
			100 * ms},
		{"four threads on two cores", programRun{Ran: 100 * ms, CPU: 430 * ms, Millicores: 4000}, 2000,
			190 * ms, 380 * ms},
		{"of unknown CPU time", programRun{Ran: 100 * ms, CPU: -1, Speed: 1}, 500, 100 * ms, 50 * ms},
	} {
		p := &programTimes{setUp: 30 * ms}
		run, cpu := p.transfer(&c.was, 1, c.limit)
		if run != c.run || cpu != c.cpu {
			t.Errorf("%s: %v, of it %v of CPU time; want %v and %v", c.name, run, cpu, c.run, c.cpu)
		}
	}
}

// A prediction has the program use no more of its node than it did, and no more than that allows.
func TestProgramsDrawTheirOwnCPUTime(t *testing.T) {
	const ms = time.Millisecond
	spec := &executor.TaskSpec{Workflow: &executor.WorkflowSpec{Name: "w"}, Name: "t", Kind: "k",
		Command: []string{"x"}}
	p := &programTimes{run: "first",
		named: map[[2]string][]programRun{{"w", "t"}: {{Ran: time.Second, CPU: 50 * ms, Millicores: 1000}}},
		kinds: map[string][]programRun{"k": {{Ran: time.Second, CPU: time.Second, Millicores: 1000}}}}
	l := &executor.Launch{Spec: spec, Hold: unit.Vector{unit.CPU: 1000}}
	if m, ok := p.draw(l, 1, 0); !ok || m.Run != time.Second || m.CPU != 50*ms {
		t.Errorf("%+v, %v", m, ok)
	}
	for seed := range uint64(5) {
		if m, _ := p.draw(l, 0.5, seed); float64(m.CPU) > 0.5*float64(m.Run)+1 {
			t.Errorf("seed %d: %v of CPU time within %v on half a core", seed, m.CPU, m.Run)
		}
	}
}
