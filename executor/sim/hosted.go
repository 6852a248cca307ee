package sim

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"gantry/executor"
	"gantry/executor/emulate"
	"gantry/executor/sim/hostmodel"
	"gantry/planner"
	"gantry/planner/heap"
	"gantry/planner/seed"
	"gantry/planner/unit"
)

// Hosted is the runtime of simulations that know their host (package hostmodel): attempts go through the phases of a
// container, no more start at once than may, and all that is under way shares the cores and the disk of the host.
//
// It is a fluid model. Each activity has a rate, which changes when the set of activities does:
//
//   - A phase runs at 1/Slowdown of the host model, and takes CPU time of the host. Create, Start and Answer hold one
//     of the places for starts; others wait, first come, first served.
//   - A program is up to three parts side by side, each an amount at a limited rate: computing, reading, writing. It
//     lasts its run time at least. Each part keeps the pace of the run, and hurries when it fell behind.
//   - Programs share the cores that phases leave them, by the model's Interference where that was measured. They keep
//     at least half: container engines are outside of gantry's control group. The last part of a container's start
//     runs within the limit of its node, though, and takes its time from the programs there. Reading and writing share
//     the limits of the node and the host's disk.
//
// Each activity has an item in the queue for its end. When the set of activities changes, balance gives new rates, and
// only activities with another rate get a new item. So a change costs O(log n) as long as nothing is short, and the
// number of tasks under way where something is. Shares are max-min fair, first among nodes and then among the tasks of
// a node (share.go).
//
// Rates are whole numbers per second, times nanoseconds. The same input gives the same decisions.
type Hosted struct {
	world
	m       *hostmodel.Model
	queue   heap.Heap[*activity]
	courses []*course // by attempt; nil: none yet
	dirty   bool

	phases    [numPhases]*hostmodel.Phase
	timed     []*activity // phases under way
	count     [numPhases]int
	held      int // places of starts
	waiting   []*course
	resources [numResources]resource
	cores     int64 // of the host for programs while no phase is under way
	removing  int
	toRemove  int
	bringing  map[planner.FileID]*course // files from outside: the courses that make them
	drift     [numPhases]float64         // factor that phases of a kind share in this run
}

const (
	pStage = iota
	pBring
	pCopy
	pCreate
	pStart
	pAnswer
	pEnd
	pPublish
	pRemove
	numPhases
)

const (
	rCPU = iota
	rRead
	rWrite
	numResources
)

// draws that are none of phases
const (
	drawRun   = numPhases + iota
	drawDrift // and the phase
)

const removers = 2 // of the runtime of containers

// course is an attempt under way.
type course struct {
	l       executor.Launch
	outcome planner.Outcome
	usage   planner.Usage
	step    step
	acts    []*activity // of it, under way
	waiters []*course   // for the files that it brings
	waits   int         // for files that others bring
	next    func()      // once they have arrived
	place   bool        // it holds one for starts

	cost     emulate.Cost
	factor   float64 // of the program's time
	whole    time.Duration
	done     float64 // fraction that a checkpoint had
	parts    int     // of the program, under way
	since    planner.Time
	ran      time.Duration // until since
	frozen   bool
	freeze   bool // once its program runs
	answered bool // the engine has answered the request to start
	ended    bool // its program has
	kept     float64
}

type step uint8

const (
	cPrepares step = iota // until its program runs
	cRuns
	cEnds
	cOver
)

// elapsed is how long the program has run, the time that it was frozen not counted.
func (c *course) elapsed(now planner.Time) time.Duration {
	if c.step != cRuns || c.frozen || c.ended {
		return c.ran
	}
	return c.ran + now.Sub(c.since)
}

// Simulation is a runtime in virtual time. Adopt begins an attempt that a log shows as under way, before any order.
type Simulation interface {
	executor.Runtime
	executor.Instant
	executor.Spender
	Adopt(ctx context.Context, l executor.Launch) error
}

// For returns the runtime of a simulation: of the host that cfg has a model of, or of ideal machines if it has none.
func For(cfg Config) Simulation {
	if cfg.Host == nil {
		return New(cfg)
	}
	return NewHosted(cfg)
}

// NewHosted returns a runtime with nothing in it. cfg.Host is set.
func NewHosted(cfg Config) *Hosted {
	h := &Hosted{world: world{cfg: cfg, now: cfg.Start}, m: cfg.Host, bringing: map[planner.FileID]*course{},
		queue: heap.Heap[*activity]{
			Before: func(a, b **activity) bool {
				return (*a).due < (*b).due || (*a).due == (*b).due && (*a).seq < (*b).seq
			},
			Moved: func(a **activity, at int) { (*a).queued = at + 1 },
		}}
	if h.cfg.Starts <= 0 {
		h.cfg.Starts = executor.Starts(h.m.Host.Cores)
	}
	for i, name := range hostmodel.PhaseNames {
		h.phases[i] = h.m.Phases.Named(name)
	}
	idle := int64(h.m.Idle.GantryNanos + h.m.Idle.EngineNanos)
	h.cores = int64(h.m.Host.Cores)*int64(time.Second) - min(idle, int64(h.m.Host.Cores)*int64(time.Second)/2)
	h.resources[rCPU].capacity = h.cores
	h.resources[rRead].capacity = int64(h.m.Disk.ReadBytesPerSecond)
	h.resources[rWrite].capacity = int64(h.m.Disk.WriteBytesPerSecond)
	for r := range h.resources {
		h.resources[r].pools = make([]pool, len(cfg.Platform.Nodes))
	}
	for n := range cfg.Platform.Nodes {
		l := h.nodeLimits(planner.NodeID(n))
		h.resources[rCPU].pools[n].capacity = l.CPUMillicores * 1e6
		h.resources[rRead].pools[n].capacity = l.ReadBps
		h.resources[rWrite].pools[n].capacity = l.WriteBps
	}
	for i, p := range h.phases {
		what := drawDrift + i
		if i == pCreate { // it drifts as starting does
			what = drawDrift + pStart
		}
		if h.drift[i] = h.drawn(p.Drift, 0, 0, what); what == drawDrift+pStart && cfg.Noise && cfg.Drift > 0 {
			h.drift[i] = p.Drift.At(cfg.Drift)
		}
	}
	return h
}

// nodeLimits are those of all tasks of a node together.
func (h *Hosted) nodeLimits(n planner.NodeID) (l emulate.Limits) {
	if h.cfg.IO != nil {
		l = h.cfg.IO[n]
	}
	node := &h.cfg.Platform.Nodes[n]
	l.CPUMillicores = 0
	if c := node.Capacity[unit.CPU]; c > 0 && c != unit.Unlimited {
		l.CPUMillicores = max(1, int64(math.Round(float64(c)*node.Speed)))
	}
	return l
}

// limits are those of one attempt.
func (h *Hosted) limits(l *executor.Launch) emulate.Limits {
	lim := h.nodeLimits(l.Node)
	lim.CPUMillicores = 0
	if c := l.Hold[unit.CPU]; c > 0 && c != unit.Unlimited {
		lim.CPUMillicores = max(1, int64(math.Round(float64(c)*h.cfg.Platform.Nodes[l.Node].Speed)))
	}
	if d := l.Hold[unit.Disk]; d > 0 && d != unit.Unlimited {
		lim.ReadBps, lim.WriteBps = unit.Tighter(lim.ReadBps, d), unit.Tighter(lim.WriteBps, d)
	}
	lim.ReadBps = int64(float64(lim.ReadBps) * min(1, h.m.Disk.ReadLimit.At(float64(lim.ReadBps))))
	lim.WriteBps = int64(float64(lim.WriteBps) * min(1, h.m.Disk.WriteLimit.At(float64(lim.WriteBps))))
	return lim
}

// burst takes from the work of a program the amount that limits of I/O let pass at once: over a second more than the
// limit was achieved.
func (h *Hosted) burst(c *emulate.Cost, l emulate.Limits) {
	for _, x := range []struct {
		part  *emulate.Part
		limit int64
		curve *hostmodel.Curve
		by    string
	}{{&c.Parts.Read, l.ReadBps, &h.m.Disk.ReadLimit, emulate.LimitedByRead},
		{&c.Parts.Write, l.WriteBps, &h.m.Disk.WriteLimit, emulate.LimitedByWrite}} {
		if over := x.curve.At(float64(x.limit)); x.limit > 0 && over > 1 && x.part.Rate >= float64(x.limit) {
			passes := min(x.part.Amount, float64(x.limit)*(1-1/over))
			x.part.Amount -= passes
			if c.LimitedBy == x.by {
				c.Wall -= time.Duration(passes / float64(x.limit) * second)
			}
		}
	}
}

// Spend implements executor.Spender.
func (h *Hosted) Spend(d time.Duration) {
	until := h.now.Add(max(0, d))
	for at := h.due(); at <= until && at != unit.Never; at = h.due() {
		h.turn(at)
	}
	h.now = until
}

// at returns an attempt that is under way; nil for any other.
func (h *Hosted) at(id planner.AttemptID) *course {
	if id < 0 || int(id) >= len(h.courses) || h.courses[id] == nil || h.courses[id].step == cOver {
		return nil
	}
	return h.courses[id]
}

// begin makes the course of a launch; nil if there was one.
func (h *Hosted) begin(l executor.Launch) *course {
	h.courses = planner.Extend(h.courses, int(l.Attempt)+1)
	if h.courses[l.Attempt] != nil {
		return nil
	}
	c := &course{l: l, outcome: planner.OK}
	h.courses[l.Attempt] = c
	c.usage = planner.Usage{Queued: l.Queued, Staged: unit.Never, Created: unit.Never, Started: unit.Never,
		Ended: unit.Never, CopiedBytes: l.Ahead, Missing: planner.CountersAll}
	for _, f := range l.Spec.Inputs {
		c.usage.InputBytes += f.Size
	}
	if l.From != nil {
		c.done = l.From.Done
	}
	h.estimate(c)
	return c
}

func (h *Hosted) Start(ctx context.Context, l executor.Launch) error {
	if c := h.begin(l); c != nil {
		h.stage(c)
	}
	return nil
}

// Adopt begins an attempt that a log shows as under way: one that had started does not start again, and has its whole
// runtime to go; one that is suspended stays so.
func (h *Hosted) Adopt(ctx context.Context, l executor.Launch) error {
	c := h.begin(l)
	if c == nil {
		return nil
	}
	if !l.Started {
		h.stage(c)
		return nil
	}
	c.usage.Staged, c.usage.Created, c.usage.Started = h.now, h.now, h.now
	h.run(c)
	if l.Suspended { // which the engine knows
		h.halt(c)
	}
	c.answered = true
	return nil
}

// stage brings the files. A file from outside is made by the first attempt that needs it; others wait for that.
func (h *Hosted) stage(c *course) {
	var files int
	var bytes int64
	for _, f := range c.l.Spec.Inputs {
		if f.Produced {
			continue
		}
		switch by := h.bringing[f.ID]; {
		case by == nil:
			h.bringing[f.ID] = c
			files++
			bytes += int64(f.Size)
		case by != c && by.waiters != nil: // it is at it
			by.waiters = append(by.waiters, c)
			c.waits++
		}
	}
	if files > 0 {
		c.waiters = []*course{}
	}
	c.next = func() { h.phase(c, pBring, files, bytes, func() { h.brought(c) }) }
	if files == 0 {
		c.next = func() { h.brought(c) }
	}
	if c.waits == 0 {
		c.next()
	}
}

// brought wakes the attempts that wait for the files of c, and continues.
func (h *Hosted) brought(c *course) {
	h.tell(c)
	h.copies(c)
}

func (h *Hosted) tell(c *course) {
	waiters := c.waiters
	c.waiters = nil
	for _, w := range waiters {
		if w.waits--; w.waits == 0 && w.step == cPrepares {
			w.next()
		}
	}
}

// copies brings files from other nodes, one after the other, and then shows all inputs in the work directory.
func (h *Hosted) copies(c *course) {
	var wall, cpu float64
	p := h.phases[pCopy]
	for _, f := range c.l.Fetch {
		wall += h.copyTime(f.Spec.Size, f.From, c.l.Node)
		cpu += p.CPU.Nanos(1, int64(f.Spec.Size))
		c.usage.CopiedBytes += f.Spec.Size
	}
	if from := c.l.From; from != nil && from.Node != c.l.Node {
		wall += h.copyTime(from.Size, from.Node, c.l.Node)
		cpu += p.CPU.Nanos(1, int64(from.Size))
		c.usage.MovedBytes = from.Size
	}
	show := func() { h.phase(c, pStage, len(c.l.Spec.Inputs), 0, func() { h.staged(c) }) }
	if wall == 0 {
		show()
		return
	}
	h.lasting(c, pCopy, wall, cpu, show)
}

// copyTime is the time of a copy on a host at rest: that of the link, or of the disk if that is longer.
func (h *Hosted) copyTime(size unit.Bytes, from, to planner.NodeID) float64 {
	return max(float64(h.cfg.Platform.MoveTime(size, from, to)), h.phases[pCopy].Wall.Nanos(1, int64(size)))
}

// staged has the container of c made as soon as one may be.
func (h *Hosted) staged(c *course) {
	c.usage.Staged = h.now
	if h.held < h.cfg.Starts {
		h.create(c)
		return
	}
	h.waiting = append(h.waiting, c)
}

// create takes a place for starts, and makes and starts the container.
func (h *Hosted) create(c *course) {
	c.place = true
	h.held++
	h.phase(c, pCreate, 0, 0, func() {
		c.usage.Created = h.now
		h.phase(c, pStart, 0, 0, func() {
			c.usage.Started = h.now
			h.run(c)
			h.phase(c, pAnswer, 0, 0, func() { h.answer(c) })
		})
	})
}

// answer is the engine's, to the request to start: the place is free, and the end may be reported.
func (h *Hosted) answer(c *course) {
	h.release(c)
	c.answered = true
	h.bodies = append(h.bodies, planner.AttemptStarted{Attempt: c.l.Attempt})
	switch {
	case c.ended:
		h.wind(c)
	case c.freeze:
		h.halt(c)
	}
}

// release gives the place of an attempt to the next that waits.
func (h *Hosted) release(c *course) {
	if !c.place {
		return
	}
	c.place = false
	h.held--
	h.dirty = true
	for len(h.waiting) > 0 {
		next := h.waiting[0]
		h.waiting = h.waiting[1:]
		if next.step == cPrepares {
			h.create(next)
			return
		}
	}
}

// phase begins a phase with some files and bytes. After a kill it never ends.
func (h *Hosted) phase(c *course, which, files int, bytes int64, then func()) {
	p := h.phases[which]
	h.lasting(c, which, p.Wall.Nanos(files, bytes), p.CPU.Nanos(files, bytes), then)
}

// lasting begins a phase of known times, alone on a host at rest.
func (h *Hosted) lasting(c *course, which int, wall, cpu float64, then func()) {
	p := h.phases[which]
	a := &activity{c: c, kind: aPhase, which: which, since: h.now, then: then}
	a.left = wall * h.drawn(p.Spread, c.l.Task, c.l.Try, which) * h.drift[which]
	if wall > 0 {
		a.cpu = cpu / wall
	}
	h.enter(a)
}

func (h *Hosted) enter(a *activity) {
	a.place = len(h.timed)
	h.timed = append(h.timed, a)
	h.count[a.which]++
	if a.c != nil {
		a.c.acts = append(a.c.acts, a)
	}
	h.dirty = true
}

// timer runs out after d of the program's time.
func (h *Hosted) timer(c *course, d time.Duration, then func()) {
	a := &activity{c: c, kind: aTimer, left: float64(d), rate: int64(time.Second), since: h.now, then: then, place: -1}
	c.acts = append(c.acts, a)
	h.schedule(a)
}

// part begins a part of the program's work, spread over a time; the time beside the amount follows.
func (h *Hosted) part(c *course, which int, w emulate.Part, spread time.Duration) {
	c.parts++
	then := func() { h.partOver(c) }
	if w.Fixed > 0 {
		then = func() { h.timer(c, w.Fixed, func() { h.partOver(c) }) }
	}
	if w.Amount <= 0 || w.Rate <= 0 && spread <= 0 {
		then()
		return
	}
	pace := w.Rate
	if spread > 0 {
		pace = w.Amount / spread.Seconds()
	}
	most := w.Rate
	if most <= 0 {
		most = max(pace, 1e12)
	}
	a := &activity{c: c, kind: aPart, which: which, left: w.Amount, amount: w.Amount, since: h.now, node: c.l.Node,
		spread: spread, from: c.elapsed(h.now), most: max(1, int64(most)), pace: max(1, int64(math.Ceil(pace))),
		then: then}
	if a.most <= a.pace { // it never keeps its pace
		a.pace, a.behind = a.most, true
	}
	c.acts = append(c.acts, a)
	h.resources[which].add(a)
	h.dirty = true
}

// estimate sets the cost of the program of an attempt, alone on the host.
func (h *Hosted) estimate(c *course) {
	l := &c.l
	speed := h.cfg.Platform.Nodes[l.Node].Speed
	lim := h.limits(l)
	c.factor = h.drawn(h.m.Run, l.Task, l.Try, drawRun)
	var m Measured
	measured := false
	if h.cfg.Measured != nil {
		if m, measured = h.cfg.Measured(l); measured {
			c.outcome = m.Outcome
		}
	}
	switch {
	case measured:
		cpu := m.CPU
		if cpu <= 0 {
			cpu = m.Run
		}
		slower := 1.0
		if m.Drift != 0 {
			slower = math.Pow(h.drift[pStart]/h.phases[pStart].Drift.Mean(), m.Drift)
		}
		c.cost = programCost(time.Duration(float64(m.Run)*slower), time.Duration(float64(cpu)*slower))
	case l.Spec.Emulated():
		s := l.Emulation(speed)
		for i, f := range l.Spec.Inputs { // of those from outside, too
			if i < len(s.Inputs) && s.Inputs[i].Bytes < 0 {
				s.Inputs[i].Bytes = int64(f.Size)
			}
		}
		h.vary(l, &s)
		c.cost = s.Cost(lim, h.m.Emulator)
		h.burst(&c.cost, lim)
		if b := &c.cost.Parts.Compute; b.Rate > 0 { // a short burst is over before its quota is used up
			if wall := hostmodel.QuotaWall(b.Amount, max(1, s.Threads), lim.CPUMillicores); wall > 0 {
				b.Rate = b.Amount / wall * second
			}
		}
	default:
		var s emulate.Spec
		run := l.Spec.TrueRun(l.Node, speed)
		s.Work(run, time.Duration(float64(run)*min(1, speed)), l.Spec.Cores, cmp.Or(l.Spec.AvgCPU, -1))
		h.vary(l, &s)
		wall := time.Duration(s.RunNanos)
		if q := float64(lim.CPUMillicores) / 1000; q > 0 { // the trace measured without that limit
			wall = max(wall, time.Duration(float64(s.CPUNanos)/q))
		}
		c.cost = programCost(wall, time.Duration(s.CPUNanos))
	}
	c.whole = c.cost.Parts.Run
}

// HeldBack returns how long the emulated program of a launch takes on its node, alone there, if the rates of reading
// and writing make it last longer than its trace says; else 0.
func (h *Hosted) HeldBack(l *executor.Launch) time.Duration {
	c := &course{l: *l}
	if h.estimate(c); c.cost.LimitedBy != emulate.LimitedByRead && c.cost.LimitedBy != emulate.LimitedByWrite {
		return 0
	}
	return c.cost.Wall
}

// vary makes reality as uncertain as cfg.Actual says.
func (h *Hosted) vary(l *executor.Launch, s *emulate.Spec) {
	if h.cfg.Actual == nil || s.RunNanos <= 0 {
		return
	}
	run := h.cfg.Actual(l.Task, time.Duration(s.RunNanos))
	s.CPUNanos = int64(float64(s.CPUNanos) * float64(run) / float64(s.RunNanos))
	s.RunNanos = int64(run)
}

// programCost is the cost of a real program, alone on the host: it computes evenly, and does not catch up on delays, as
// nobody knows whether it could.
func programCost(wall, cpu time.Duration) emulate.Cost {
	compute := emulate.Part{Amount: float64(cpu), Rate: float64(cpu) / max(wall.Seconds(), 1e-9)}
	return emulate.Cost{Wall: wall, CPU: cpu, Parts: emulate.Parts{Run: wall, Work: wall, Compute: compute}}
}

// run begins the program: it starts, takes its memory, and does its parts side by side until its run is over.
func (h *Hosted) run(c *course) {
	c.step, c.since = cRuns, h.now
	p := &c.cost.Parts
	rest := 1 - c.done
	scale := func(d time.Duration) time.Duration { return time.Duration(float64(d) * c.factor * rest) }
	start, memory := p.Start, p.Memory
	run, work := scale(p.Run), scale(p.Work)
	c.parts = 2 // the run, and the work after the start
	h.timer(c, start+run, func() { h.partOver(c) })
	h.timer(c, start+memory, func() {
		for i, w := range []emulate.Part{p.Compute, p.Read, p.Write} {
			w.Amount *= rest * c.factor
			w.Fixed = scale(w.Fixed)
			h.part(c, i, w, work)
		}
		h.partOver(c)
	})
	if h.cfg.Fault != nil {
		launch := c.l
		if o, after := h.cfg.Fault(&launch); o != planner.OK && o != 0 {
			h.timer(c, time.Duration(float64(max(run, c.cost.Wall))*after), func() { h.kill(c, o) })
		}
	}
	if t := c.l.Spec.TimeLimit; t > 0 {
		if c.l.From != nil {
			t -= min(c.l.From.In, t-1)
		}
		h.timer(c, t, func() { h.kill(c, planner.TimedOut) })
	}
}

// partOver ends a part, and the program with the last one.
func (h *Hosted) partOver(c *course) {
	if c.parts--; c.parts > 0 {
		return
	}
	if c.parts == 0 && c.cost.Parts.End > 0 {
		c.parts = -1
		h.timer(c, c.cost.Parts.End, func() { h.exit(c) })
		return
	}
	h.exit(c)
}

func (h *Hosted) exit(c *course) {
	c.ran = c.elapsed(h.now)
	c.ended, c.frozen = true, false
	h.dropProgram(c)
	c.usage.Ended = h.now
	if c.answered {
		h.wind(c)
	}
}

// dropProgram ends all activities but the engine's answer.
func (h *Hosted) dropProgram(c *course) {
	c.acts = slices.DeleteFunc(c.acts, func(a *activity) bool {
		if a.kind != aPhase {
			h.drop(a)
		}
		return a.kind != aPhase
	})
}

// wind takes an attempt whose program has ended to the report of that.
func (h *Hosted) wind(c *course) {
	c.step = cEnds
	h.phase(c, pEnd, 0, 0, func() {
		if c.outcome != planner.OK {
			h.report(c)
			return
		}
		bytes := int64(0)
		for _, f := range c.l.Spec.Outputs {
			bytes += int64(f.Size)
		}
		h.phase(c, pPublish, len(c.l.Spec.Outputs), bytes, func() { h.report(c) })
	})
}

// report ends an attempt for the engine.
func (h *Hosted) report(c *course) {
	started := c.usage.Started != unit.Never
	c.step = cOver
	for _, a := range c.acts {
		h.drop(a)
	}
	c.acts = nil
	h.release(c)
	h.tell(c)
	if c.usage.Ended == unit.Never {
		c.usage.Ended = h.now
	}
	h.bodies = append(h.bodies, &planner.AttemptExited{Attempt: c.l.Attempt, Outcome: c.outcome,
		ExitCode: codeOf(c.outcome), Ran: c.ran, Kept: c.kept, Usage: c.usage})
	if started {
		h.remove()
	}
	c.l, c.next = executor.Launch{}, nil // nothing is held that is over
}

// remove has a container removed, beside everything else.
func (h *Hosted) remove() {
	p := h.phases[pRemove]
	wall, cpu := p.Wall.Nanos(0, 0), p.CPU.Nanos(0, 0)
	if wall <= 0 {
		return
	}
	if h.removing == removers {
		h.toRemove++
		return
	}
	h.removing++
	a := &activity{kind: aPhase, which: pRemove, left: wall * h.drift[pRemove], since: h.now, cpu: cpu / wall}
	a.then = func() {
		if h.removing--; h.toRemove > 0 {
			h.toRemove--
			h.remove()
		}
	}
	h.enter(a)
}

func (h *Hosted) Copy(ctx context.Context, c executor.Copy) error {
	p := h.phases[pCopy]
	wall := h.copyTime(c.Spec.Size, c.From, c.To)
	a := &activity{kind: aPhase, which: pCopy, left: wall, since: h.now}
	if wall > 0 {
		a.cpu = p.CPU.Nanos(1, int64(c.Spec.Size)) / wall
	}
	a.then = func() { h.bodies = append(h.bodies, planner.FileAppeared{File: c.File, Node: c.To}) }
	h.enter(a)
	return nil
}

func (h *Hosted) Suspend(ctx context.Context, id planner.AttemptID) error {
	c := h.at(id)
	if c == nil {
		return nil
	}
	if c.step != cRuns || !c.answered {
		c.freeze = true
		return nil
	}
	h.halt(c)
	return nil
}

func (h *Hosted) halt(c *course) {
	c.freeze = true
	if c.frozen || c.ended {
		return
	}
	c.ran, c.frozen = c.elapsed(h.now), true
	for _, a := range c.acts {
		if a.kind == aPhase {
			continue
		}
		a.advance(h.now)
		a.rate = 0
		h.unschedule(a)
		if a.kind == aPart {
			h.resources[a.which].remove(a)
			a.place = -1
		}
	}
	h.dirty = true
	if c.answered {
		h.bodies = append(h.bodies, planner.AttemptSuspended{Attempt: c.l.Attempt})
	}
}

func (h *Hosted) Resume(ctx context.Context, id planner.AttemptID) error {
	c := h.at(id)
	if c == nil {
		return nil
	}
	c.freeze = false
	if !c.frozen {
		return nil
	}
	c.frozen, c.since = false, h.now
	for _, a := range c.acts {
		switch a.kind {
		case aTimer:
			a.since, a.rate = h.now, int64(time.Second)
			h.schedule(a)
		case aPart:
			a.since = h.now
			h.resources[a.which].add(a)
		}
	}
	h.dirty = true
	h.bodies = append(h.bodies, planner.AttemptResumed{Attempt: id})
	return nil
}

// Kill implements executor.Runtime. A simulated program heeds SIGTERM at once.
func (h *Hosted) Kill(ctx context.Context, id planner.AttemptID, why planner.Outcome, grace time.Duration) error {
	if c := h.at(id); c != nil {
		h.kill(c, why)
	}
	return nil
}

func (h *Hosted) kill(c *course, why planner.Outcome) {
	switch {
	case c.step == cPrepares:
		c.outcome = why
		h.report(c)
	case c.step == cRuns && !c.ended:
		c.outcome = why
		h.exit(c)
	}
}

// Checkpoint implements executor.Runtime. A simulated program leaves its checkpoint at once.
func (h *Hosted) Checkpoint(ctx context.Context, id planner.AttemptID, grace time.Duration) error {
	c := h.at(id)
	if c != nil && c.step == cRuns && !c.ended && c.whole > 0 {
		part := 1.0 // of the work of this attempt
		if run := float64(c.whole) * c.factor * (1 - c.done); run > 0 {
			part = min(1, float64(c.elapsed(h.now))/run)
		}
		for _, a := range c.acts {
			if a.kind != aPart {
				continue
			}
			a.advance(h.now)
			part = min(part, max(0, 1-a.left/a.amount)+0.1) // it is behind its pace
		}
		c.kept = min(1, c.done+(1-c.done)*min(part, 0.999999))
	}
	return h.Kill(ctx, id, planner.Preempted, grace)
}

// drop ends an activity before its time.
func (h *Hosted) drop(a *activity) {
	if a.over {
		return
	}
	a.over = true
	h.unschedule(a)
	h.leave(a)
}

// leave takes an activity out of the list or resource that it shares.
func (h *Hosted) leave(a *activity) {
	if a.place < 0 {
		return
	}
	switch a.kind {
	case aPhase:
		h.timed = without(h.timed, a)
		h.count[a.which]--
	case aPart:
		h.resources[a.which].remove(a)
	}
	a.place = -1
	h.dirty = true
}

// schedule puts the end of an activity at its rate into the queue.
func (h *Hosted) schedule(a *activity) {
	switch {
	case a.left <= 0:
		a.due = h.now
	case a.rate > 0:
		a.due = a.since.Add(a.remaining())
	default:
		h.unschedule(a)
		return
	}
	h.seq++
	a.seq = h.seq
	if a.queued > 0 {
		h.queue.Fix(a.queued - 1)
	} else {
		h.queue.Push(a)
	}
}

func (h *Hosted) unschedule(a *activity) {
	if a.queued > 0 {
		h.queue.Remove(a.queued - 1)
	}
}

func (h *Hosted) set(a *activity, rate int64) {
	if a.rate != rate {
		a.advance(h.now)
		a.rate = rate
		h.schedule(a)
	}
}

// balance gives all activities their rates. The demand of programs for cores slows phases down, and the CPU time of
// phases slows programs down. The paces of programs say how busy the cores are, whether programs hurry or not: else the
// rest of the cores could be too little for their pace, but plenty once they hurry, and they would turn at each
// nanosecond.
func (h *Hosted) balance() {
	h.dirty = false
	cpu := &h.resources[rCPU]
	removing := 0.0 // cores that the removal of containers keeps busy, which starts feel as they do programs
	for _, a := range h.timed {
		if a.which == pRemove {
			removing += a.cpu
		}
	}
	for range 4 {
		paced := cpu.sum((*pool).atPace)
		busy := float64(cpu.sum((*pool).busy)) / second
		var slow [numPhases]float64
		var taken float64
		for _, a := range h.timed {
			if slow[a.which] == 0 {
				together, beside := h.count[a.which], busy
				if a.which == pCreate || a.which == pStart || a.which == pAnswer {
					together, beside = h.held, busy+removing
				}
				slow[a.which] = h.phases[a.which].Slowdown.At(float64(together), beside)
			}
			rate := max(1, int64(math.Round(second/slow[a.which])))
			h.set(a, rate)
			taken += a.cpu * float64(rate)
		}
		h.setUp(cpu)
		all, lost := h.cores, taken
		if i := &h.m.Interference; len(i.Together) > 0 {
			// A part that fell behind its pace catches up on cores that are idle: its loss counts against the rate that
			// it could use, not against its pace.
			all, lost = min(h.cores, cpu.sum((*pool).greatest)), taken*(i.At(float64(h.held), busy)-1)
		}
		cpu.capacity = max(all/2, all-int64(lost))
		cpu.share(h.set)
		if cpu.sum((*pool).atPace) == paced {
			break
		}
	}
	h.resources[rRead].share(h.set)
	h.resources[rWrite].share(h.set)
}

// setUp has containers that start take the CPU time of their set-up from their nodes: the kernel counts it as theirs. A
// node with programs leaves them their share of it.
func (h *Hosted) setUp(cpu *resource) {
	p := h.phases[pStart]
	if p.Wall.BaseNanos <= 0 || h.m.Emulator.StartCPUNanos == 0 {
		return
	}
	each := min(1, float64(h.m.Emulator.StartCPUNanos)/p.Wall.BaseNanos)
	for n := range cpu.pools {
		pool := &cpu.pools[n]
		starting, rate := 0, 0.0
		for _, a := range h.timed {
			if a.which == pStart && a.c != nil && int(a.c.l.Node) == n {
				starting++
				rate += each * float64(a.rate)
			}
		}
		if pool.capacity > 0 {
			most := pool.capacity * int64(starting) / int64(starting+1)
			if taken := min(int64(rate), most); pool.taken != taken {
				pool.taken, pool.touched = taken, true
			}
		}
	}
}

// Next implements executor.Runtime: it jumps to the next thing that happens, or to until.
func (h *Hosted) Next(ctx context.Context, until planner.Time) ([]planner.Body, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	until = max(until, h.now)
	for {
		at := h.due()
		if len(h.bodies) > 0 && at > h.now {
			out := h.bodies
			h.bodies = nil
			return executor.EndsFirst(out), nil
		}
		if at > until || at == unit.Never {
			if h.queue.Len() > 0 && at == unit.Never {
				return nil, fmt.Errorf("simulation: %w", executor.ErrTooLong)
			}
			if until == unit.Never {
				return nil, fmt.Errorf("simulation at %v: nothing will happen any more", h.now)
			}
			h.now = until
			return nil, nil
		}
		h.turn(at)
	}
}

// due is when the next activity ends; unit.Never if none does.
func (h *Hosted) due() planner.Time {
	if h.dirty {
		h.balance()
	}
	if h.queue.Len() == 0 {
		return unit.Never
	}
	return h.queue.Items[0].due
}

// turn lets all happen that is due at an instant.
func (h *Hosted) turn(at planner.Time) {
	h.now = max(h.now, at)
	for h.queue.Len() > 0 && h.queue.Items[0].due <= h.now {
		h.fire(h.queue.Pop())
	}
}

// fire ends an activity, or lets a part that has caught up keep its pace again.
func (h *Hosted) fire(a *activity) {
	a.advance(h.now)
	if a.kind == aPart && !a.ended() {
		h.resources[a.which].turn(a, false)
		h.dirty = true
		return
	}
	a.over = true
	h.leave(a)
	if a.c != nil {
		a.c.acts = slices.DeleteFunc(a.c.acts, func(b *activity) bool { return b == a })
	}
	a.then()
}

// drawn is a factor of a spread: its mean, or, with noise, the seed's draw for the task, under any policy.
func (h *Hosted) drawn(s hostmodel.Spread, t planner.TaskID, try int32, what int) float64 {
	if len(s) == 0 {
		return 1
	}
	if !h.cfg.Noise {
		return s.Mean()
	}
	x := h.cfg.Seed
	for _, v := range []uint64{uint64(t) + 1, uint64(try) + 1, uint64(what) + 1} {
		x = seed.Spread((x ^ v) * seed.Golden)
	}
	return s.At(seed.Fraction(x))
}
