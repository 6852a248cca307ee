package docker_test

import (
	"os"
	"testing"
	"time"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
)

// Who takes more memory than asked for is killed alone: the tenant beside it, on the same node, keeps all of its own.
func TestAMemoryHungryTenantHarmsOnlyItself(t *testing.T) {
	if onOne(t, TestAMemoryHungryTenantHarmsOnlyItself) {
		return
	}
	r := newRig(t, nil)
	hold := func(l *executor.Launch) { l.Hold = unit.Vector{unit.CPU: 500, unit.Memory: 48 << 20} }
	calm := r.emulated()
	calm.Memory, calm.Run = 32<<20, time.Second
	beside := r.launch(calm, hold)
	r.started(beside)
	hungry := r.emulated()
	hungry.Memory, hungry.Run = 128<<20, time.Second
	x := r.exit(r.launch(hungry, hold))
	r.wants(x, planner.OutOfMemory)
	if x.Usage.Missing&planner.CounterMemory == 0 && x.Usage.PeakMemory > 49<<20 { // the kernel charges in batches
		t.Errorf("it had %d bytes of memory, above its limit", x.Usage.PeakMemory)
	}
	x = r.exit(beside)
	r.wants(x, planner.OK)
	if x.Usage.OOMKills != 0 || x.Usage.Missing&planner.CounterMemory == 0 && x.Usage.PeakMemory < 30<<20 {
		t.Errorf("the task beside it: %d kills, %d bytes of memory", x.Usage.OOMKills, x.Usage.PeakMemory)
	}
}

// emulatedProcessor is set on a processor that is emulated, 10 to 20 times slower: see scripts/vm.
var emulatedProcessor = os.Getenv("GANTRY_TEST_EMULATED") != ""

// Who computes without end on three threads gets the CPU it asked for and no more, while a task beside it computes too.
func TestACPUHungryTenantKeepsToItsShare(t *testing.T) {
	if onOne(t, TestACPUHungryTenantKeepsToItsShare) {
		return
	}
	if emulatedProcessor {
		t.Skip("the processor is emulated: the kernel's quotas are kept too late") // see scripts/vm
	}
	r := newRig(t, nil)
	hungry := r.emulated()
	hungry.Cores, hungry.Run = 3, 20*time.Second
	a := r.launch(hungry, func(l *executor.Launch) { l.Hold = unit.Vector{unit.CPU: 300, unit.Memory: 64 << 20} })
	r.started(a)
	calm := r.emulated()
	calm.Run = time.Second
	r.wants(r.exit(r.launch(calm, func(l *executor.Launch) { l.Hold[unit.CPU] = 1000 })), planner.OK)
	r.must(r.Kill(r.ctx, a, planner.Killed, 0))
	x := r.exit(a)
	if x.Usage.Missing&planner.CounterCPU != 0 {
		t.Skip("needs the CPU counter: this host did not give it")
	}
	// A period's quota more, and what starting the container took before it was limited. On a busy host it may get less
	// than its share, and then nothing throttles it.
	used, most := x.Usage.CPUUser+x.Usage.CPUSystem, x.Ran*3/10*11/10+150*time.Millisecond
	if used > most || used > x.Ran/4 && x.Usage.CPUThrottled == 0 && x.Usage.Missing&planner.CounterThrottled == 0 {
		t.Errorf("it used %v of CPU in %v, throttled for %v; a limit of 0.3 CPUs is %v at most", used, x.Ran,
			x.Usage.CPUThrottled, most)
	}
}
