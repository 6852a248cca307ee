package docker_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
)

// writer is an emulated task that writes that many bytes past the page cache, and syncs.
func (r *rig) writer(size unit.Bytes) *executor.TaskSpec {
	s := r.emulated()
	f := r.file(fmt.Sprintf("out%d", r.next))
	f.Sized, f.Size, f.Final = true, size, false
	s.Outputs = []*executor.FileSpec{f}
	return s
}

// rate is what an attempt wrote a second.
func rate(x *planner.AttemptExited) float64 { return float64(x.Usage.WrittenBytes) / x.Ran.Seconds() }

// One tenant writes a file, another has many tasks that write without end. Holds are the tenants' shares of block I/O;
// 0 is no limit.
func contend(r *rig, size unit.Bytes, hungry int, hold, hungryHold int64) (victim float64,
	others []*planner.AttemptExited) {
	r.t.Helper()
	var running []planner.AttemptID
	for range hungry {
		running = append(running, r.launch(r.writer(64<<30), func(l *executor.Launch) {
			l.Hold = unit.Vector{unit.CPU: 100, unit.Memory: 64 << 20, unit.Disk: hungryHold}
		}))
	}
	for _, a := range running {
		r.started(a)
	}
	time.Sleep(300 * time.Millisecond) // they write
	x := r.exit(r.launch(r.writer(size), func(l *executor.Launch) {
		l.Hold = unit.Vector{unit.CPU: 1000, unit.Memory: 64 << 20, unit.Disk: hold}
	}))
	r.wants(x, planner.OK)
	for _, a := range running {
		r.must(r.Kill(r.ctx, a, planner.Killed, 0))
	}
	for _, a := range running {
		others = append(others, r.exit(a))
	}
	return rate(x), others
}

// A tenant whose tasks write without end takes a share of the disk from another tenant's synced writes, as long as
// nothing holds it back. Under limits the other tenant has its share, and the hungry one no more than its own.
func TestAnIOHungryTenantKeepsToItsShare(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures the disk, on which others write, too: make test-long runs it")
	}
	r := newRig(t, nil)
	const size, hungry, tries = 48 << 20, 6, 8 // what else uses this host differs from one measurement to the next
	for try := 1; ; try++ {
		alone, _ := contend(r, size, 0, 0, 0)
		off, others := contend(r, size, hungry, 0, 0)
		if others[0].Usage.Missing&planner.CounterIO != 0 {
			t.Skip("needs counters of block I/O: this host counts none")
		}
		// Half of the way from what it got to what it could have: more than it has without limits, and less than the
		// disk can give.
		share := (alone + off) / 2
		greedy := 0.0
		for _, x := range others {
			greedy += rate(x) / hungry
		}
		limit := max(1<<20, greedy/20)
		on, limited := contend(r, size, hungry, int64(share), int64(limit))
		worst := 0.0
		for _, x := range limited {
			worst = max(worst, rate(x))
		}
		t.Logf("written a second: alone %.0f MB, without limits %.0f MB beside %d writers of %.0f MB; with a share "+
			"of %.0f MB %.0f MB beside writers of %.1f MB, their limit being %.1f MB",
			alone/1e6, off/1e6, hungry, greedy/1e6, share/1e6, on/1e6, worst/1e6, limit/1e6)
		switch {
		case off > 0.8*alone && try < tries: // something else took the disk when it was to be alone
		case off > 0.8*alone:
			t.Skipf("needs a disk that %d writers can fill: alone %.0f MB/s, beside them %.0f MB/s", hungry, alone/1e6,
				off/1e6)
		case worst > 1.25*limit+float64(1<<20)/limited[0].Ran.Seconds():
			t.Fatalf("a hungry task wrote %.1f MB/s, its share is %.1f MB/s", worst/1e6, limit/1e6)
		case (on < 0.8*share || on < off) && try < tries:
		case on < 0.8*share || on < off:
			t.Fatalf("with limits the tenant wrote %.0f MB/s, below its share of %.0f MB/s; without them %.0f MB/s",
				on/1e6, share/1e6, off/1e6)
		default:
			return
		}
	}
}

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
