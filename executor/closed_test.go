package executor_test

import (
	"slices"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/executor/experiment/metrics"
	"gantry/planner"
	"gantry/planner/unit"
)

// A closed system of two jobs on one CPU: the next arrives as one ends, and its deadline counts from there.
func TestAClosedSystemAdmitsTheNextWorkflowAsOneEnds(t *testing.T) {
	p := nodes(1, unit.Vector{1000, unit.Unlimited, unit.Unlimited}, 0)
	e := enginetest.New(t, p, enginetest.Policy(t, "cpp"))
	for _, name := range []string{"a", "b", "c", "d"} {
		j := job{name: name, run: 10, due: 15}
		s := j.submission()
		s.Population = 2
		e.Arrivals = append(e.Arrivals, s)
	}
	var arrived, due []time.Duration
	most := 0
	e.Watch = func(v planner.View, _ []planner.Event, admitted []*executor.Admission) {
		for _, a := range admitted {
			arrived = append(arrived, time.Duration(a.Arrived.Workflow.Arrived)/time.Second)
			due = append(due, time.Duration(a.Arrived.Workflow.Due)/time.Second)
		}
		most = max(most, len(v.Present()))
	}
	if _, err := e.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(arrived, []time.Duration{0, 0, 10, 20}) || !slices.Equal(due, []time.Duration{15, 15, 25, 35}) ||
		most != 2 {
		t.Errorf("arrivals at %v s, deadlines at %v s, at most %d in the system", arrived, due, most)
	}
}

// Two tenants, two nodes: what each metric of 3DSF says, computed by hand.
func TestMetricsOfTenants(t *testing.T) {
	p := nodes(2, unit.Vector{2000, 10e9, 100e6}, 0)
	p.Join(0, 0, 1e6, 0)
	const emulator = executor.EmulatorMemory
	jobs := []job{
		{name: "a1", tenant: "a", run: 10, due: 11, cores: 2, memory: 5e9 - emulator, disk: 50e6},
		{name: "a2", tenant: "a", run: 10, due: 11, cores: 2, memory: 5e9 - emulator, disk: 50e6},
		{name: "b1", at: 5, tenant: "b", run: 10, due: 16, cores: 2, memory: 10e9 - emulator, disk: 20e6},
		// Its block of 5 MB lies on one of the nodes only, so that it is copied in 5 s or not.
		{name: "b2", at: 21, tenant: "b", run: 10, cores: 2, memory: 1e9 - emulator, disk: 20e6, reads: 5e6,
			homes: &executor.Placement{Rule: executor.Random, Block: 1 << 30, Replicas: 1, Seed: 1}},
	}
	collector := metrics.NewCollector(p)
	e := enginetest.New(t, p, enginetest.Policy(t, "drf"))
	e.Watch = collector.Watch
	for i := range jobs {
		e.Arrivals = append(e.Arrivals, jobs[i].submission())
	}
	if _, err := e.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, v := range collector.Run(metrics.Window{}) {
		got[v.Name] = v.Value
	}
	// a1 and a2 run 0 to 10, b1 10 to 20, b2 21 to 31 on its node or 26 to 36 on the other.
	end, local := 31.0, 1.0
	if got["completion_time"] > 31 {
		end, local = 36, 0
	}
	held := end - 21
	for name, want := range map[string]float64{
		"qos_rate": 2. / 3, "completion_time": end, "throughput": 400 / end, "throughput_sojourn": (10 + 10 + 15 +
			held) * 10 / end, "locality_rate": local,
		"utilisation_memory": (2*5*10 + 10*10 + 1*held) / (20 * end), "utilisation_disk": (2*50*10 + 20*10 +
			20*held) / (200 * end),
		"utilisation": (4*10 + 2*10 + 2*held) / (4 * end),
		// Both have jobs from 5 to 10, when a has all and b nothing.
		"jain": 0.5, "share_a": 10 / end, "share_b": (10*0.5 + 0.5*held) / end,
	} {
		if x := got[name]; x < want-1e-9 || x > want+1e-9 {
			t.Errorf("%s is %v, expected %v", name, x, want)
		}
	}
	shares := collector.Shares()
	if len(shares) != 2 || shares[0].Tenant != "a" ||
		!slices.Equal(shares[0].Points, []metrics.SharePoint{{At: 0, Share: 1}, {At: 10e9, Share: 0}}) {
		t.Errorf("shares over time: %+v", shares)
	}
}
