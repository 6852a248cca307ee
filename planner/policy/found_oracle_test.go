package policy_test

import (
	"cmp"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// oracleOf returns the stays of tasks that the oracle of a policy finds.
func oracleOf(spec string) func(in Instance) []Stay {
	name, params, _ := strings.Cut(spec, ":")
	if oracle, ok := onlineOracles[spec]; ok {
		return oracle
	}
	if name == "pipeline" || rigidPhases[spec] != "" {
		phases := strings.Split(cmp.Or(rigidPhases[spec], params), ",")
		return func(in Instance) []Stay { return newRigidSim(in, phases).simulate() }
	}
	if name == "rm-dcwf" || name == "fifo" {
		return func(in Instance) []Stay { return bentOracle(in, spec) }
	}
	return func(in Instance) []Stay { return tenantsOracle(in, rulesOf(spec)) }
}

// differs compares a policy with its oracle.
func differs(in Instance, spec string) (string, error) {
	if strings.HasPrefix(spec, "mrcp-rm") {
		return mrcpDiffers(in, spec)
	}
	course, err := Simulate(in, spec)
	if err != nil {
		return "", err
	}
	return Difference(course.Stays, oracleOf(spec)(in), true), nil
}

// compared are the policies that have oracles, and the instances of each. Those that suspend most are the last.
var compared = []struct {
	shapes []sampled
	specs  string
}{
	{slices.Concat(onlineShapes, overlappedShapes),
		"gbf:pick=first cpp owm owm:order=highest owm:overrun=ignored fdws hr fwp:m=4 fwp:m=4,postpone=busy " +
			"fwp:m=4,parallelism=factor"},
	{onlineShapes, "heft wheft wheft:overrun=soon wheft:start=planned wheft:start=planned,overrun=soon"},
	{slices.Concat(greedyDeadlines, overlappedShapes), "edf"},
	{tenantShapes, `dla drf drf:misfit=stop drf:level=2 capacity capacity:queues=class,by=dominant,shares=5/3/2
		capacity:elastic=no,queues=class capacity:elastic=no capacity:elastic=no,by=dominant,shares=2/1/1/1
		pds:room=never pds:order=edf,room=never pds pds:order=edf,late=ahead,room=freeze 3dsf
		3dsf:misfit=stop,late=ahead`},
	{leavingShapes, "pds:room=leave pds:order=edf,late=ahead,room=leave 3dsf:room=leave"},
	{localityShapes, "dla:large=0 dla:large=7 dla:large=0,batch=1 dla:large=0,batch=3 dla:large=0,hops=1 " +
		"dla:large=0,hops=2"},
	{tenantsWithData, `3dsf pds drf capacity capacity:data=ignored 3dsf:large=0 3dsf:large=7
		3dsf:large=0,batch=1,misfit=stop 3dsf:large=0,batch=3,order=edf,late=ahead 3dsf:large=0,hops=1,room=never
		3dsf:large=0,batch=1,order=edf,room=never 3dsf:large=0,hops=2 3dsf:large=0,room=leave
		3dsf:large=0,level=2`},
	{overlappedTenants, `drf capacity capacity:data=ignored pds:room=never pds 3dsf 3dsf:room=leave dla dla:large=0
		3dsf:large=0`},
	{slices.Concat(exactShapes, bentShapes, copyingShapes), `fifo rm-dcwf:pd-sl-tsp1 rm-dcwf:pd-sl-tsp2
		rm-dcwf:pd-tl-tsp1 rm-dcwf:pd-tl-tsp2 rm-dcwf:ed-sl-tsp1 rm-dcwf:ed-sl-tsp2 rm-dcwf:ed-tl-tsp1
		rm-dcwf:ed-tl-tsp2`},
	{rigidShapes, rigidSpecs()},
}

// Every policy that has an oracle agrees with it, attempt by attempt: with ties, tasks without time, releases at
// completions, estimates wrong both ways, suspensions and checkpoints, nodes of several speeds, attempts that are made
// again, tasks that fail for good, and copies between nodes, within stays or beside other work.
func TestPoliciesAgreeWithTheirOracles(t *testing.T) {
	k := 0
	for _, c := range compared {
		for _, spec := range strings.Fields(c.specs) {
			k++
			t.Run(spec, func(t *testing.T) {
				t.Parallel()
				for _, s := range c.shapes {
					s.NoDue = s.NoDue && spec != "edf"
					s.Checkpoints = s.Checkpoints || strings.HasSuffix(spec, "room=leave")
					if strings.HasPrefix(spec, "pipeline") { // each has instances of its own
						s.From, s.n = uint64(100*k), s.n/3
					}
					Compare(t, s.n, s.Shape, func(in Instance) (string, error) { return differs(in, spec) })
				}
			})
		}
	}
}

// What runs of more instances found in which a policy and its oracle disagreed: busy nodes of one speed that become
// idle together, the one of the lower id in the same round; a place that a task leaves for another, while a third is
// planned there and late; tasks that end together, of which one still counts among the last four; plans that copies
// made later than the solution that they came from; a task that waits for its copies, which has not started; tasks that
// never run, as one before them failed for good; tasks that are lost at one instant; and a task that fails for good
// while another overruns.
func TestPoliciesOnInstancesThatWereFound(t *testing.T) {
	text, err := os.ReadFile("testdata/found.jsonl")
	must(t, err)
	for line := range strings.Lines(string(text)) {
		var c struct {
			Policy   string
			Instance Instance
		}
		must(t, json.Unmarshal([]byte(line), &c))
		if what, err := differs(c.Instance, c.Policy); err != nil || what != "" {
			t.Errorf("%s: %s, %v\n%s", c.Policy, what, err, c.Instance)
		}
	}
}
