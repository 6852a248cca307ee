package sim_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/emulate"
	"gantry/executor/sim"
	"gantry/executor/sim/hostmodel"
	"gantry/planner"
	"gantry/planner/seed/seedtest"
	"gantry/planner/unit"
)

func TestHostedContract(t *testing.T) {
	contract(t, func(cfg sim.Config) executor.Runtime {
		cfg.Host, cfg.Noise, cfg.Seed = hostmodel.Example(4), true, 1
		cfg.Host.Run = hostmodel.Spread{0.9, 1, 1.3}
		return sim.For(cfg)
	})
}

// host drives a hosted runtime: what is started, and when it ended.
type host struct {
	*testing.T
	*sim.Hosted
	next  planner.AttemptID
	exits map[planner.AttemptID]*planner.AttemptExited
	seen  map[planner.AttemptID]planner.Time // when the engine hears of the end
}

// still is Example without the phases, so that programs alone count.
func still(cores int) *hostmodel.Model {
	m := hostmodel.Example(cores)
	for _, name := range hostmodel.PhaseNames {
		*m.Phases.Named(name) = hostmodel.Phase{}
	}
	return m
}

func onHost(t *testing.T, cfg sim.Config, nodes ...float64) *host {
	cfg.Platform = &planner.Platform{Groups: []string{""}, Bandwidth: [][]unit.BytesPerSecond{{0}},
		Latency: [][]int64{{0}}}
	for i, cores := range nodes {
		cfg.Platform.Nodes = append(cfg.Platform.Nodes, planner.Node{ID: planner.NodeID(i), Name: fmt.Sprint("n", i),
			Speed: 1, Capacity: unit.Vector{unit.CPU: int64(cores * 1000), unit.Memory: unit.Unlimited,
				unit.Disk: unit.Unlimited}})
	}
	return &host{T: t, Hosted: sim.NewHosted(cfg), exits: map[planner.AttemptID]*planner.AttemptExited{},
		seen: map[planner.AttemptID]planner.Time{}}
}

// launch starts a task that holds that many cores.
func (h *host) launch(node planner.NodeID, cores float64, s *executor.TaskSpec) planner.AttemptID {
	h.Helper()
	id := h.next
	h.next++
	hold := unit.Vector{unit.CPU: int64(cores * 1000)}
	if err := h.Start(h.Context(), executor.Launch{Attempt: id, Task: planner.TaskID(id), Try: 1, Node: node,
		Hold: hold, Queued: h.Now(), Spec: s}); err != nil {
		h.Fatal(err)
	}
	return id
}

// drain lets all end that is under way.
func (h *host) drain() {
	h.Helper()
	for len(h.exits) < int(h.next) {
		bodies, err := h.Next(h.Context(), unit.Never)
		if err != nil {
			h.Fatal(err)
		}
		h.note(bodies)
	}
}

func (h *host) note(bodies []planner.Body) {
	for _, b := range bodies {
		if x, ok := b.(*planner.AttemptExited); ok {
			h.exits[x.Attempt], h.seen[x.Attempt] = x, h.Now()
		}
	}
}

// pass lets time pass up to an instant.
func (h *host) pass(until time.Duration) {
	h.Helper()
	for h.Now() < planner.Time(until) {
		bodies, err := h.Next(h.Context(), planner.Time(until))
		if err != nil {
			h.Fatal(err)
		}
		h.note(bodies)
	}
}

// ran is how long a program ran.
func (h *host) ran(id planner.AttemptID) time.Duration { return h.exits[id].Ran }

func busy(run time.Duration) *executor.TaskSpec { return &executor.TaskSpec{Name: "busy", Run: run} }

func about(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if d := got - want; d < -time.Microsecond || d > time.Microsecond {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

const ms = time.Millisecond

// Staging 10 ms, creating 20, starting 80, then 1 s, ending 30, publishing 5 and 5 for its file.
func TestPhasesOfAnAttempt(t *testing.T) {
	h := onHost(t, sim.Config{Host: hostmodel.Example(4)}, 1)
	s := busy(time.Second)
	s.Outputs = []*executor.FileSpec{{ID: 1, Name: "out"}}
	id := h.launch(0, 1, s)
	h.drain()
	u := h.exits[id].Usage
	for _, c := range []struct {
		what      string
		got, want planner.Time
	}{{"queued", u.Queued, 0}, {"staged", u.Staged, planner.Time(10 * ms)},
		{"created", u.Created, planner.Time(30 * ms)}, {"started", u.Started, planner.Time(110 * ms)},
		{"ended", u.Ended, planner.Time(1110 * ms)},
		{"reported", h.seen[id], planner.Time(1150 * ms)}} {
		about(t, c.what, time.Duration(c.got), time.Duration(c.want))
	}
	about(t, "ran", h.ran(id), time.Second)
}

// Two places: the third start waits until the engine has answered to the first, at 10 + 20 + 80 + 10 ms.
func TestStartsAreBounded(t *testing.T) {
	h := onHost(t, sim.Config{Host: hostmodel.Example(8), Starts: 2}, 8)
	for range 4 {
		h.launch(0, 1, busy(time.Second))
	}
	h.drain()
	for id, created := range []time.Duration{30 * ms, 30 * ms, 140 * ms, 140 * ms} {
		about(t, "created", time.Duration(h.exits[planner.AttemptID(id)].Usage.Created), created)
	}
}

// Unless told otherwise there are as many places as the host has cores.
func TestStartsFollowTheCores(t *testing.T) {
	for cores, last := range map[int]bool{2: true, 8: false} { // whether the fourth start has to wait
		h := onHost(t, sim.Config{Host: hostmodel.Example(cores)}, float64(cores))
		for range 4 {
			h.launch(0, 0.25, busy(time.Second))
		}
		h.drain()
		if waited := h.exits[3].Usage.Created > h.exits[0].Usage.Created+planner.Time(ms); waited != last {
			t.Errorf("%d cores: the fourth start waits: %v", cores, waited)
		}
	}
}

// Three starts at once are twice as slow as one, and one core busy makes them 1.5 times as slow again.
func TestStartsContend(t *testing.T) {
	m := hostmodel.Example(8)
	m.Phases.Start.Slowdown = hostmodel.Surface{Together: []float64{1, 3}, BusyCores: []float64{0, 1},
		Factor: [][]float64{{1, 1.5}, {2, 3}}}
	h := onHost(t, sim.Config{Host: m}, 8)
	for range 3 {
		h.launch(0, 1, busy(time.Second))
	}
	h.drain()
	about(t, "start of three", time.Duration(h.exits[0].Usage.Started-h.exits[0].Usage.Created), 160*ms)
	h.launch(0, 1, busy(time.Minute))
	h.pass(time.Duration(h.Now()) + 10*time.Second)
	id := h.launch(0, 1, busy(time.Second))
	h.drain()
	about(t, "start beside a busy core", time.Duration(h.exits[id].Usage.Started-h.exits[id].Usage.Created), 120*ms)
}

// Two tasks of one core each on one core of the host: each takes twice as long.
// What removes a container takes cores of those that start, as programs do: half a core here for 40 ms.
func TestRemovalSlowsStartsDown(t *testing.T) {
	m := hostmodel.Example(2)
	m.Phases.Create.Slowdown = hostmodel.Surface{Together: []float64{1}, BusyCores: []float64{0, 1},
		Factor: [][]float64{{1, 3}}}
	m.Phases.Remove.CPU.BaseNanos = float64(20 * time.Millisecond)
	h := onHost(t, sim.Config{Host: m}, 2)
	alone := h.launch(0, 1, busy(0))
	h.drain()
	beside := h.launch(0, 1, busy(0)) // at the end of the other, which is removed now
	h.drain()
	for _, x := range []struct {
		what string
		id   planner.AttemptID
		want time.Duration
	}{{"alone", alone, 20 * time.Millisecond}, // at half the speed for 30 ms, after 10 ms of staging
		{"beside a removal", beside, 35 * time.Millisecond}} {
		u := h.exits[x.id].Usage
		about(t, x.what, u.Created.Sub(u.Staged), x.want)
	}
}

func TestOversubscribedCores(t *testing.T) {
	h := onHost(t, sim.Config{Host: still(1)}, 1, 1)
	a, b := h.launch(0, 1, busy(10*time.Second)), h.launch(1, 1, busy(10*time.Second))
	h.drain()
	about(t, "first", h.ran(a), 20*time.Second)
	about(t, "second", h.ran(b), 20*time.Second)
}

// A task of 10 s beside one of 4 s on one core: the short one ends after 8 s, when the other has done 4 s of its 10.
func TestProcessorSharing(t *testing.T) {
	h := onHost(t, sim.Config{Host: still(1)}, 2)
	a, b := h.launch(0, 1, busy(10*time.Second)), h.launch(0, 1, busy(4*time.Second))
	h.drain()
	about(t, "short", h.ran(b), 8*time.Second)
	about(t, "long", h.ran(a), 14*time.Second)
}

// A task that uses a tenth of a core is not held back by one that wants all of it, and leaves it 0.9 of the core.
func TestSmallDemandsAreMet(t *testing.T) {
	h := onHost(t, sim.Config{Host: still(1)}, 2)
	idle := busy(100 * time.Second)
	idle.AvgCPU = 9.95 // spread over 99.5 of its 100 s: a tenth of a core
	a, b := h.launch(0, 1, idle), h.launch(0, 1, busy(9*time.Second))
	h.drain()
	about(t, "small", h.ran(a), 100*time.Second)
	about(t, "large", h.ran(b), 10*time.Second)
}

// A task that fell behind hurries up when it can: 5 s of CPU time over 10 s. Beside two others on one core for 3 s it
// gets a third of the core, then all that it wants, and still lasts 10 s.
func TestTasksCatchUp(t *testing.T) {
	h := onHost(t, sim.Config{Host: still(1)}, 3)
	half := busy(10 * time.Second)
	half.AvgCPU = 50
	a := h.launch(0, 1, half)
	b, c := h.launch(0, 1, busy(time.Second)), h.launch(0, 1, busy(time.Second))
	h.drain()
	about(t, "others", h.ran(b), 3*time.Second)
	about(t, "others", h.ran(c), 3*time.Second)
	about(t, "one that catches up", h.ran(a), 10*time.Second)
}

// A quota of half a core, 10 ms in every 20: twice as long, but for the last period, whose share is used at full speed.
func TestQuota(t *testing.T) {
	h := onHost(t, sim.Config{Host: still(2)}, 2)
	a, b := h.launch(0, 0.5, busy(10*time.Second)), h.launch(0, 0.5, busy(10*ms))
	h.drain()
	about(t, "half a core", h.ran(a), 20*time.Second-10*ms)
	about(t, "a short burst", h.ran(b), 10*ms)
}

// 1.6 GB at 200 MB/s take 8 s, whatever the trace says; two such tasks on the node share its rate.
func TestTasksOfANodeShareItsDisk(t *testing.T) {
	reads := func() *executor.TaskSpec {
		s := busy(2 * time.Second)
		s.AvgCPU = 1
		s.Inputs = []*executor.FileSpec{{ID: 1, Name: "in", Size: 1_600_000_000, Sized: true, Produced: true}}
		return s
	}
	io := []emulate.Limits{{ReadBps: 200_000_000, WriteBps: 200_000_000}, {ReadBps: 200_000_000}}
	h := onHost(t, sim.Config{Host: still(4), IO: io}, 2, 2)
	a := h.launch(0, 1, reads())
	h.drain()
	about(t, "one", h.ran(a), 8*time.Second)
	b, c, d := h.launch(0, 1, reads()), h.launch(0, 1, reads()), h.launch(1, 1, reads())
	h.drain()
	about(t, "two on a node", h.ran(b), 16*time.Second)
	about(t, "two on a node", h.ran(c), 16*time.Second)
	about(t, "on another node", h.ran(d), 8*time.Second)
}

// The host's disk reads 1 GB/s: three nodes of 500 MB/s get a third of it each.
func TestNodesShareTheDiskOfTheHost(t *testing.T) {
	io := make([]emulate.Limits, 3)
	for i := range io {
		io[i].ReadBps = 500_000_000
	}
	h := onHost(t, sim.Config{Host: still(4), IO: io}, 1, 1, 1)
	for n := range 3 {
		h.launch(planner.NodeID(n), 1, &executor.TaskSpec{Name: "r", Run: ms, AvgCPU: 1,
			Inputs: []*executor.FileSpec{{ID: 1, Name: "in", Size: 1_000_000_000, Sized: true, Produced: true}}})
	}
	h.drain()
	for id := range h.exits {
		about(t, "each", h.ran(id), 3*time.Second)
	}
}

// A container that starts takes 60 ms of CPU time within 80 ms from a program on a host of one core: 0.75 of the core
// is more than the engine gets beside the program, which keeps half.
func TestStartsSlowProgramsDown(t *testing.T) {
	h := onHost(t, sim.Config{Host: hostmodel.Example(1), Starts: 1}, 2)
	a := h.launch(0, 1, busy(10*time.Second))
	h.pass(time.Second)
	h.launch(0, 1, &executor.TaskSpec{Name: "short", Run: 10 * ms, AvgCPU: 0.001})
	h.drain()
	about(t, "one beside a start of 80 ms", h.ran(a), 10*time.Second+40*ms)
}

// A start takes 60 ms of CPU time, and the model says that a program on one of two cores loses half as much to it. What
// no program wants is lost to nobody.
func TestStartsDisturbProgramsBeforeAllCoresAreBusy(t *testing.T) {
	m := hostmodel.Example(2)
	m.Interference = hostmodel.Surface{Together: []float64{1}, BusyCores: []float64{0, 1},
		Factor: [][]float64{{1, 1.5}}}
	h := onHost(t, sim.Config{Host: m, Starts: 1}, 2)
	a := h.launch(0, 1, busy(10*time.Second))
	h.pass(time.Second)
	b := h.launch(0, 1, &executor.TaskSpec{Name: "short", Run: 10 * ms, AvgCPU: 0.001})
	h.drain()
	about(t, "one beside a start", h.ran(a), 10*time.Second+30*ms)
	about(t, "one that computes hardly", h.ran(b), 10*ms)
}

// On a host that is slower in one run than in another, given work takes as much longer as starts do, and a given time
// as long as ever.
func TestMeasuredProgramsDriftWithTheirHost(t *testing.T) {
	m := hostmodel.Example(4)
	m.Phases.Start.Drift = hostmodel.Spread{0.5, 1.5}
	factors := map[float64]bool{}
	for seed := range uint64(5) {
		for drift, want := range map[float64]float64{0: 0, 1: 1, 2: 2} {
			cfg := sim.Config{Host: m, Noise: true, Seed: seed, Measured: func(*executor.Launch) (sim.Measured, bool) {
				return sim.Measured{Run: time.Second, Outcome: planner.OK, Drift: drift}, true
			}}
			h := onHost(t, cfg, 1)
			id := h.launch(0, 1, &executor.TaskSpec{Name: "p"})
			h.drain()
			u := h.exits[id].Usage
			slower := float64(u.Started.Sub(u.Created)) / float64(80*ms)
			factors[slower] = true
			about(t, "a program", h.ran(id), time.Duration(math.Pow(slower, want)*float64(time.Second)))
		}
	}
	if len(factors) < 5 {
		t.Errorf("all runs have the factors %v", factors)
	}
}

// Whoever repeats a simulation says how slow the host is in each.
func TestTheDriftOfARunIsWhatItIsToldToBe(t *testing.T) {
	m := hostmodel.Example(4)
	m.Phases.Start.Drift = hostmodel.Spread{0.5, 1.5}
	for quantile, want := range map[float64]time.Duration{0.25: 60 * ms, 0.5: 80 * ms, 1: 120 * ms} {
		h := onHost(t, sim.Config{Host: m, Noise: true, Seed: 1, Drift: quantile}, 1)
		id := h.launch(0, 1, busy(time.Second))
		h.drain()
		u := h.exits[id].Usage
		about(t, "a start", u.Started.Sub(u.Created), want)
	}
}

// A program below its greatest rate makes up on idle cores for what a start takes from it.
func TestDisturbedProgramsCatchUpOnIdleCores(t *testing.T) {
	m := hostmodel.Example(2)
	m.Interference = hostmodel.Surface{Together: []float64{1}, BusyCores: []float64{0, 1},
		Factor: [][]float64{{1, 1.5}}}
	h := onHost(t, sim.Config{Host: m, Starts: 1}, 2)
	spec := busy(10 * time.Second)
	spec.AvgCPU = 50
	a := h.launch(0, 1, spec)
	for range 50 { // with a step for each nanosecond of each, this would take a quarter of an hour
		h.pass(100 * ms)
		h.launch(0, 1, &executor.TaskSpec{Name: "short", Run: 10 * ms, AvgCPU: 0.001})
	}
	h.drain()
	about(t, "one beside starts", h.ran(a), 10*time.Second)
}

// A container that starts takes 40 of 80 ms from the limit of its node, and from nobody on another node. A program
// makes up for the first: it has no need of the 40 ms of CPU time that its own start was counted with.
func TestSettingUpTakesFromTheLimitOfItsNode(t *testing.T) {
	m := hostmodel.Example(8)
	m.Emulator.StartCPUNanos = int64(40 * ms)
	m.Phases.Start.CPU.BaseNanos = 0
	h := onHost(t, sim.Config{Host: m, Starts: 1}, 1, 1)
	a, b := h.launch(0, 1, busy(10*time.Second)), h.launch(1, 1, busy(10*time.Second))
	for range 2 {
		h.pass(time.Duration(h.Now()) + time.Second)
		h.launch(0, 0.1, &executor.TaskSpec{Name: "short", Run: 10 * ms, AvgCPU: 0.001})
	}
	h.drain()
	about(t, "on its node", h.ran(a)-h.ran(b), 40*ms)
}

// Over a second more was achieved than the limit: what passes at once does not wait.
func TestLimitsOfIOLetSomethingPassAtOnce(t *testing.T) {
	m := still(4)
	m.Disk.ReadLimit = hostmodel.Curve{X: []float64{1e6}, Y: []float64{1.25}}
	h := onHost(t, sim.Config{Host: m, IO: []emulate.Limits{{ReadBps: 200_000_000}}}, 2)
	id := h.launch(0, 1, &executor.TaskSpec{Name: "r", Run: ms, AvgCPU: 1,
		Inputs: []*executor.FileSpec{{ID: 1, Name: "in", Size: 1_600_000_000, Sized: true, Produced: true}}})
	h.drain()
	about(t, "40 MB at once, then 200 MB/s", h.ran(id), 7800*ms)
}

// What the starts of one run share is no matter of creating containers, which have nothing of their own here.
func TestPhasesDriftEachByItself(t *testing.T) {
	m := hostmodel.Example(4)
	m.Phases.Start.Drift = hostmodel.Spread{2}
	h := onHost(t, sim.Config{Host: m, Noise: true, Seed: 1}, 1)
	id := h.launch(0, 1, busy(time.Second))
	h.drain()
	u := h.exits[id].Usage
	about(t, "created", time.Duration(u.Created-u.Staged), 20*ms)
	about(t, "started", time.Duration(u.Started-u.Created), 160*ms)
}

// Whatever starts take from programs of any pace, time passes. With a step for each nanosecond in which programs fall
// behind, hurry, leave less to starts by that, and so have caught up, this would not end.
func TestDisturbedProgramsOfAnyPaceEnd(t *testing.T) {
	surface := func(idle, one, two float64) hostmodel.Surface {
		return hostmodel.Surface{Together: []float64{1}, BusyCores: []float64{0, 1, 2},
			Factor: [][]float64{{idle, one, two}}}
	}
	for seed := range seedtest.Seeds(t, 100) {
		rng := rand.New(rand.NewPCG(seed, 2))
		m := hostmodel.Example(4)
		m.Interference = surface(1, 1+3*rng.Float64(), 1+10*rng.Float64())
		m.Phases.Start.Slowdown = surface(1, 1+rng.Float64(), 1+10*rng.Float64())
		h := onHost(t, sim.Config{Host: m, Starts: 1}, 1, 1, 1)
		for range 10 {
			at := time.Duration(h.Now())
			for node := range planner.NodeID(2) {
				spec := busy(2 * time.Second)
				spec.AvgCPU = 40 + 30*rng.Float64() // percent
				h.launch(node, 1, spec)
			}
			for range 9 {
				at += 200 * ms
				h.pass(at)
				h.launch(2, 1, &executor.TaskSpec{Name: "short", Run: 10 * ms, AvgCPU: 0.001})
			}
			h.drain()
		}
	}
}

// A file from outside is made by the first who needs it, at 1 ns a byte; who comes meanwhile waits.
func TestInputsAreBroughtOnce(t *testing.T) {
	h := onHost(t, sim.Config{Host: hostmodel.Example(4)}, 4)
	s := busy(time.Second)
	s.Inputs = []*executor.FileSpec{{ID: 7, Name: "in", Size: 500_000_000, Sized: true}}
	a := h.launch(0, 1, s)
	h.pass(100 * ms)
	b := h.launch(0, 1, s)
	h.drain()
	c := h.launch(0, 1, s)
	queued := h.Now()
	h.drain()
	about(t, "first", time.Duration(h.exits[a].Usage.Staged), 510*ms)
	about(t, "meanwhile", time.Duration(h.exits[b].Usage.Staged), 510*ms)
	about(t, "later", h.exits[c].Usage.Staged.Sub(queued), 10*ms)
}

// Work is conserved: the CPU time of all tasks is spent, never faster than the cores allow, and never slower than if
// the cores were all busy until the longest task is left. More cores are never later.
func TestMoreCoresAreNeverLater(t *testing.T) {
	seed := uint64(1)
	draw := func(n int) int {
		seed = seed*6364136223846793005 + 1442695040888963407
		return int(seed >> 33 % uint64(n))
	}
	for range 100 {
		var tasks []*executor.TaskSpec
		var work, longest time.Duration
		for range 1 + draw(12) {
			s := busy(time.Duration(1+draw(5000)) * ms)
			s.AvgCPU = float64(1 + draw(100))
			work += time.Duration(float64(s.Run) * s.AvgCPU / 100)
			longest = max(longest, s.Run)
			tasks = append(tasks, s)
		}
		var before time.Duration
		for _, cores := range []int{1, 2, 3, 5, 12} {
			h := onHost(t, sim.Config{Host: still(cores), Starts: 100}, 12)
			for _, s := range tasks {
				h.launch(0, 1, s)
			}
			h.drain()
			end := time.Duration(h.Now())
			if least := work / time.Duration(cores); end < least-time.Microsecond {
				t.Fatalf("%d tasks with %v of work ended after %v on %d cores", len(tasks), work, end, cores)
			}
			if most := work/time.Duration(cores) + longest; end > most+time.Microsecond {
				t.Fatalf("%d tasks with %v of work, at most %v each, took %v on %d cores", len(tasks), work, longest,
					end, cores)
			}
			if before > 0 && end > before+time.Microsecond {
				t.Fatalf("%d cores: %v, fewer: %v", cores, end, before)
			}
			before = end
			for i, s := range tasks {
				if ran := h.ran(planner.AttemptID(i)); ran < s.Run-time.Microsecond {
					t.Fatalf("a task of %v ran %v", s.Run, ran)
				}
			}
		}
		if before > longest+time.Microsecond {
			t.Fatalf("alone on their cores: %v, the longest takes %v", before, longest)
		}
	}
}

// The same seed draws the same noise; another one another; without noise the mean counts.
func TestNoise(t *testing.T) {
	m := hostmodel.Example(4)
	m.Phases.Start.Spread = hostmodel.Spread{0.5, 1, 3}
	run := func(noise bool, seed uint64) (out [4]planner.Time) {
		h := onHost(t, sim.Config{Host: m, Noise: noise, Seed: seed}, 4)
		for range out {
			h.launch(0, 1, busy(time.Second))
		}
		h.drain()
		for id := range out {
			out[id] = h.exits[planner.AttemptID(id)].Usage.Started
		}
		return out
	}
	once, again := run(true, 1), run(true, 1)
	if once != again {
		t.Error("the same seed drew other noise")
	}
	if once == run(true, 2) {
		t.Error("another seed drew the same noise")
	}
	// mean of 0.5 to 1 to 3: 1.375
	about(t, "mean start", time.Duration(run(false, 1)[0]), 30*ms+110*ms)
}

// Two nodes of 250 cores on a host of four: 500 tasks of 10 s take 1250 s, all of them.
func TestManyTasksOnFewCores(t *testing.T) {
	h := onHost(t, sim.Config{Host: still(4)}, 250, 250)
	for i := range 500 {
		h.launch(planner.NodeID(i%2), 1, busy(10*time.Second))
	}
	h.drain()
	about(t, "the last", time.Duration(h.Now()), 1250*time.Second)
	about(t, "the first", h.ran(0), 1250*time.Second)
}

// A suspended program makes no progress, and its core is free meanwhile.
func TestHostedSuspension(t *testing.T) {
	h := onHost(t, sim.Config{Host: still(1)}, 2)
	a, b := h.launch(0, 1, busy(10*time.Second)), h.launch(0, 1, busy(10*time.Second))
	h.pass(4 * time.Second) // each has done 2 s
	must(t, h.Suspend(t.Context(), a))
	h.pass(12 * time.Second) // b is done
	if h.exits[b] == nil {
		t.Fatal("the other one is not done")
	}
	must(t, h.Resume(t.Context(), a))
	h.drain()
	about(t, "frozen", time.Duration(h.exits[a].Usage.Ended), 20*time.Second)
	about(t, "ran", h.ran(a), 12*time.Second)
}
