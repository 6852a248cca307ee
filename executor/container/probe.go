package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"gantry/cgroup"
	"gantry/executor"
	"gantry/executor/emulate"
	"gantry/planner"
	"gantry/planner/unit"
)

// Verdict is whether a host does something.
type Verdict uint8

const (
	Unknown Verdict = iota
	Yes
	No
)

func (v Verdict) String() string { return [...]string{"unknown", "yes", "no"}[v] }

// Fact is something that was tried on this host.
type Fact struct {
	Name     string // stable, such as "cpu-quota"
	Verdict  Verdict
	Evidence string // the measurement
	Advice   string // the remedy for a No; ""
}

const (
	probeRate  = 4 << 20 // bytes per second
	probeBytes = 4 << 20
	probePIDs  = 20
)

// Remedy returns the remedy for an error of a host or an engine, by its message.
func Remedy(said string) string {
	said = strings.ToLower(said)
	for _, r := range []struct{ words, remedy string }{
		{"no space left on device", "free space there"},
		{"disk quota exceeded", "free space there, or raise the quota"},
		{"read-only file system", "mount it read-write (a container needs --privileged for that)"},
		{"setrlimit", "give the engine CAP_SYS_RESOURCE, or lower limits of processes for its containers (Podman: " +
			"default_ulimits in containers.conf)"},
		{"operation not permitted", notAllowed},
		{"permission denied", notAllowed},
		{"cannot allocate memory", "free memory, or raise the limit of memory that gantry is under"},
		{"resource temporarily unavailable", "raise the limit of processes that gantry is under"},
		{"too many open files", "raise the limit of open files that gantry is under (ulimit -n)"},
		{"bind source path does not exist", elsewhere}, {"statfs ", elsewhere},
		{SeesOther, elsewhere},
	} {
		if strings.Contains(said, r.words) {
			return r.remedy
		}
	}
	return "repair the cause that this message names"
}

const notAllowed = "give gantry this right: run it as root or by sudo, with all capabilities (a container needs " +
	"--privileged; SELinux, AppArmor or seccomp may forbid it, too)"

// SeesOther says that an engine has another file at a path than this process.
const SeesOther = "sees another file or directory"

// elsewhere is for an engine that has other files.
const elsewhere = "gantry seems to have other files than the engine, as in a container: show it those at the paths " +
	"that they have on the engine's host, or run it there"

// Probe tries the abilities of this host on which gantry relies, with containers of the task emulator whose files lie
// in a run directory below dir. It takes some ten seconds. An error means that nothing could be tried; facts found
// until then come with it.
func Probe(ctx context.Context, open func(runDir string) (Engine, error), dir, taskBinary string) ([]Fact, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("probe in %s: %w", dir, err)
	}
	runDir, err := os.MkdirTemp(dir, "doctor-")
	if err != nil {
		return nil, fmt.Errorf("probe in %s: %w", dir, err)
	}
	defer os.RemoveAll(runDir)
	engine, err := open(runDir)
	if err != nil {
		return nil, err
	}
	p := &prober{wf: &executor.WorkflowSpec{Name: "doctor"}, ends: map[planner.AttemptID]*planner.AttemptExited{},
		begun: map[planner.AttemptID]bool{}, warned: map[string]string{}}
	facts, onDisk, err := p.begin(ctx, engine, dir, runDir, taskBinary)
	if err != nil {
		return facts, err
	}
	tried, err := p.try(ctx, onDisk)
	p.leave(context.WithoutCancel(ctx))
	return append(facts, tried...), errors.Join(err, p.err, p.Close())
}

// leave ends the attempts that are under way: no run takes them over.
func (p *prober) leave(ctx context.Context) {
	for id := range p.next {
		if p.ends[id] == nil {
			_ = p.Kill(ctx, id, planner.Killed, 0)
		}
	}
	if !p.until(ctx, func() bool { return len(p.ends) == int(p.next) }) {
		p.err = errors.Join(p.err, fmt.Errorf("%w: a container of run %s does not end", ErrUnusable, p.cfg.Run))
	}
}

// begin finds the facts that need no container, and makes the runtime for those that do. It closes the engine when it
// fails.
func (p *prober) begin(ctx context.Context, engine Engine, dir, runDir, taskBinary string) (facts []Fact, onDisk bool,
	err error) {
	defer func() {
		if err != nil && p.Runtime == nil {
			engine.Close()
		}
	}()
	host, err := engine.Host(ctx)
	facts = host.Facts
	if err != nil {
		return facts, false, err
	}
	tree, err := cgroup.Open(cmp.Or(host.Groups, cgroup.Root), host.Systemd)
	if err != nil { // it says how they come to be there
		return facts, false, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	driver := "cgroupfs"
	if host.Systemd {
		driver = "systemd"
	}
	facts = append(facts, Fact{"cgroups", Yes, fmt.Sprintf("%v, %s driver", tree.Mode(), driver), ""})
	dev, onDisk, err := cgroup.DeviceOf(runDir)
	if err != nil {
		return facts, false, err
	}
	disk := Fact{"block-device", Yes, fmt.Sprintf("%s lies on %s (%v)", dir, dev.Path, dev), ""}
	if !onDisk {
		disk = Fact{"block-device", No, dir + " lies on no block device of its own",
			"choose a --dir on a local disk: there are no block I/O limits without"}
	}
	facts = append(facts, disk)
	node := planner.Node{Name: "probe", Speed: 1, Capacity: unit.Vector{unit.CPU: int64(runtime.NumCPU()) * 1000,
		unit.Memory: 512 << 20, unit.Disk: unit.Unlimited}}
	p.Runtime, err = newRuntime(ctx, engine, Config{Run: filepath.Base(runDir), Dir: runDir,
		TaskBinary: taskBinary, PIDs: probePIDs, Version: "doctor", Warn: p.warn,
		Platform: &planner.Platform{Nodes: []planner.Node{node}, Groups: []string{""},
			Bandwidth: [][]unit.BytesPerSecond{{0}}, Latency: [][]int64{{0}}}})
	if err != nil {
		return facts, onDisk, err
	}
	groups := Fact{"node-limits", Yes, "control groups of nodes can be made, with limits", ""}
	if p.group == "" {
		groups = Fact{"node-limits", No, p.ungrouped.Error() + ": limits of tasks are enforced all the same, those " +
			"of whole nodes are not", Remedy(p.ungrouped.Error())}
	}
	return append(facts, groups, swapFact(tree, host.LimitsSwap)), onDisk, nil
}

func swapFact(t *cgroup.Tree, engine bool) Fact {
	swaps, _ := os.ReadFile("/proc/swaps")
	switch has := strings.Count(string(swaps), "\n") > 1; {
	case t.SwapAccounted() && engine:
		return Fact{"swap-limit", Yes, "the kernel accounts for swap", ""}
	case !has:
		return Fact{"swap-limit", Yes, "the kernel does not account for swap, and this host has none", ""}
	case t.SwapAccounted():
		return Fact{"swap-limit", No, "the engine does not limit swap, and this host has some: tasks can swap beyond " +
			"their memory limit", "switch swap off, or start the engine again: the kernel accounts for swap"}
	default:
		return Fact{"swap-limit", No, "the kernel does not account for swap, and this host has some: tasks can swap " +
			"beyond their memory limit", "boot with swapaccount=1, or switch swap off"}
	}
}

// prober runs small emulated tasks.
type prober struct {
	*Runtime
	wf    *executor.WorkflowSpec
	next  planner.AttemptID
	ends  map[planner.AttemptID]*planner.AttemptExited
	begun map[planner.AttemptID]bool
	err   error

	mu     sync.Mutex
	warned map[string]string // by rule
}

func (p *prober) warn(rule, message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.warned[rule] = message
}

// try runs all trials that need containers. Trials that do not disturb each other run at the same time. An error means
// that no container can be started.
func (p *prober) try(ctx context.Context, onDisk bool) ([]Fact, error) {
	hold := unit.Vector{unit.CPU: 1000, unit.Memory: 64 << 20}
	slice, small, slow := hold, hold, hold
	slice[unit.CPU], small[unit.Memory], slow[unit.Disk] = 100, 24<<20, probeRate
	file := func(name string, produced bool) []*executor.FileSpec {
		return []*executor.FileSpec{{Name: name, Size: probeBytes, Sized: true, Produced: produced}}
	}
	short := p.start(ctx, "short", hold, func(s *executor.TaskSpec) {})
	if f := (Fact{Name: "containers"}); p.end(ctx, short, &f) == nil {
		f.Verdict = No
		return []Fact{f}, fmt.Errorf("%w: containers cannot be started: %s (%s)", ErrUnusable, f.Evidence, f.Advice)
	}
	quota := p.start(ctx, "cpu", slice, func(s *executor.TaskSpec) { s.Run = 150 * time.Millisecond })
	memory := p.start(ctx, "memory", small, func(s *executor.TaskSpec) { s.Memory = 64 << 20 })
	pids := p.start(ctx, "pids", hold, func(s *executor.TaskSpec) {
		s.Run, s.Cores = 200*time.Millisecond, 4*probePIDs
	})
	frozen := p.start(ctx, "frozen", hold, func(s *executor.TaskSpec) { s.Run = time.Minute })
	facts := []Fact{p.freezer(ctx, frozen)}
	facts = append(facts, p.fact(ctx, "cpu-quota", quota, p.quota),
		p.fact(ctx, "memory-limit", memory, p.memory), p.fact(ctx, "pids-limit", pids, p.pids),
		p.fact(ctx, "final-counters", short, p.counters))
	if !onDisk {
		return facts, nil
	}
	// One after the other: they share the disk.
	write := p.start(ctx, "io-write", slow, func(s *executor.TaskSpec) { s.Outputs = file("out", true) })
	facts = append(facts, p.io(ctx, write, "io-write", "writes to the disk", false))
	read := p.start(ctx, "io-read", slow, func(s *executor.TaskSpec) { s.Inputs = file("in", false) })
	facts = append(facts, p.io(ctx, read, "io-read", "reads from the disk", true))
	return facts, nil
}

func (p *prober) start(ctx context.Context, name string, hold unit.Vector,
	spec func(*executor.TaskSpec)) planner.AttemptID {
	t := &executor.TaskSpec{Workflow: p.wf, Name: name, Kind: name, Cores: 1}
	spec(t)
	id := p.next
	p.next++
	if err := p.Start(ctx, executor.Launch{Attempt: id, Try: 1, Hold: hold, Queued: p.Now(), Spec: t}); err != nil {
		p.ends[id] = &planner.AttemptExited{Attempt: id, Outcome: planner.HostError, Message: err.Error()}
	}
	return id
}

// until lets time pass until something is known of an attempt; half a minute is more than enough for all of them.
func (p *prober) until(ctx context.Context, known func() bool) bool {
	for limit := p.Now().Add(30 * time.Second); !known(); {
		bodies, err := p.Next(ctx, limit)
		if err != nil || len(bodies) == 0 {
			p.err = errors.Join(p.err, err)
			return false
		}
		for _, b := range bodies {
			switch b := b.(type) {
			case planner.AttemptStarted:
				p.begun[b.Attempt] = true
			case *planner.AttemptExited:
				p.ends[b.Attempt] = b
				_ = p.Forget(ctx, b.Attempt)
			}
		}
	}
	return true
}

// end waits for the end of an attempt. It returns nil if nothing can be concluded, and f then says why.
func (p *prober) end(ctx context.Context, id planner.AttemptID, f *Fact) *planner.AttemptExited {
	if !p.until(ctx, func() bool { return p.ends[id] != nil }) {
		f.Evidence, f.Advice = "the container did not end within half a minute", "try again once the host is less busy"
		return nil
	}
	if x := p.ends[id]; x.Outcome == planner.HostError || x.Outcome == planner.Lost {
		f.Evidence, f.Advice = x.Message, Remedy(x.Message)
		return nil
	}
	return p.ends[id]
}

// fact waits for the end of a trial, and has it judged.
func (p *prober) fact(ctx context.Context, name string, id planner.AttemptID,
	judge func(*Fact, *planner.AttemptExited) Verdict) Fact {
	f := Fact{Name: name}
	if x := p.end(ctx, id, &f); x != nil {
		if f.Verdict = judge(&f, x); f.Verdict == Yes {
			f.Advice = ""
		}
	}
	return f
}

// unheld returns the remedy for a controller that held nothing back; is is the limit read back from it.
func (p *prober) unheld(controller string, limit, is int64) string {
	if names, remedy := p.tree.Lacking(controller); len(names) > 0 {
		return remedy
	}
	if is != limit {
		return fmt.Sprintf("the %s did not set the limit (read back: %d): its log, or the kernel's, says why",
			p.host.Engine, is)
	}
	return "the kernel has this limit, and does not hold programs to it: take another kernel"
}

func (p *prober) quota(f *Fact, x *planner.AttemptExited) Verdict {
	f.Advice = p.unheld("cpu", 100, x.Usage.Applied.CPUMillicores)
	spent := x.Usage.CPUUser + x.Usage.CPUSystem
	f.Evidence = fmt.Sprintf("at a tenth of a CPU, %v of CPU time took %v; held back for %v",
		spent.Round(time.Millisecond), x.Ran.Round(time.Millisecond), x.Usage.CPUThrottled.Round(time.Millisecond))
	slow := x.Ran > 5*spent
	if slow && x.Usage.CPUThrottled == 0 && x.Usage.Missing&planner.CounterThrottled == 0 {
		f.Evidence += ": the host is too busy to tell" // it never got as much as its quota
		return Unknown
	}
	return verdict(slow || x.Usage.CPUThrottled > 0)
}

func (p *prober) memory(f *Fact, x *planner.AttemptExited) Verdict {
	f.Advice = p.unheld("memory", 24<<20, int64(x.Usage.Applied.Memory))
	f.Evidence = fmt.Sprintf("64 MiB under a limit of 24 MiB: %v, %d kills counted by the kernel, peak %d MB",
		x.Outcome, x.Usage.OOMKills, x.Usage.PeakMemory/1e6)
	return verdict(x.Outcome == planner.OutOfMemory)
}

func (p *prober) pids(f *Fact, x *planner.AttemptExited) Verdict {
	f.Advice = p.unheld("pids", probePIDs, x.Usage.Applied.PIDs)
	f.Evidence = fmt.Sprintf("%d threads under a limit of %d: %v (limit read back: %d)", 4*probePIDs, probePIDs,
		x.Outcome, x.Usage.Applied.PIDs)
	return verdict(x.Outcome != planner.OK)
}

func (p *prober) counters(f *Fact, x *planner.AttemptExited) Verdict {
	switch names, remedy := p.tree.Lacking("cpu", "memory", "blkio"); {
	case len(names) > 0:
		f.Advice = remedy
	case p.group == "":
		f.Advice = "run gantry as root, or by sudo, so that it can keep counters when containers are gone"
	default:
		f.Advice = "these counters are missing in the kernel, or the host is too busy for gantry to read them in time"
	}
	u := x.Usage
	f.Evidence = fmt.Sprintf("a container of %v: CPU %v, peak memory %.1f MB", x.Ran.Round(time.Millisecond),
		(u.CPUUser + u.CPUSystem).Round(time.Millisecond), float64(u.PeakMemory)/1e6)
	for _, m := range []struct {
		c    planner.Counters
		name string
	}{{planner.CounterCPU, "CPU time"}, {planner.CounterMemory, "peak memory"}, {planner.CounterIO, "block I/O"},
		{planner.CounterThrottled, "throttling"}} {
		if u.Missing&m.c != 0 {
			f.Evidence += ", no " + m.name
		}
	}
	return verdict(u.Missing == 0)
}

// freezer suspends a task that computes, and looks whether it computes on.
func (p *prober) freezer(ctx context.Context, id planner.AttemptID) Fact {
	f := Fact{Name: "freezer"}
	defer func() {
		_ = p.Kill(ctx, id, planner.Killed, 0)
		p.until(ctx, func() bool { return p.ends[id] != nil })
	}()
	if !p.until(ctx, func() bool { return p.begun[id] || p.ends[id] != nil }) || p.ends[id] != nil {
		f.Evidence = "the container did not start"
		if x := p.ends[id]; x != nil {
			f.Evidence, f.Advice = x.Message, Remedy(x.Message)
		}
		return f
	}
	p.Runtime.mu.Lock()
	a := p.attempts[id]
	p.Runtime.mu.Unlock()
	spent := func() time.Duration { return p.tree.Read(a.group, cgroup.CPU).CPU }
	pause := func(want bool) (is bool) {
		p.Runtime.mu.Lock()
		a.wantPaused = want
		p.Runtime.mu.Unlock()
		a.applyPause(false)
		p.Runtime.mu.Lock()
		defer p.Runtime.mu.Unlock()
		return a.paused
	}
	frozen := pause(true)
	before := spent()
	select {
	case <-time.After(200 * time.Millisecond):
	case <-ctx.Done():
	}
	during := spent() - before
	pause(false)
	f.Advice = "the kernel does not hold frozen processes: policies that preempt cannot suspend here"
	if !frozen {
		p.mu.Lock()
		said := p.warned["pause"]
		p.mu.Unlock()
		f.Evidence = "the " + p.host.Engine + " did not pause the container"
		f.Advice = "policies that preempt cannot suspend here: "
		if names, remedy := p.tree.Lacking("freezer"); len(names) > 0 && p.tree.Mode() != cgroup.Unified {
			f.Advice += remedy
		} else {
			f.Evidence, f.Advice = f.Evidence+": "+said, f.Advice+Remedy(said)
		}
		f.Verdict = No
		return f
	}
	f.Evidence = fmt.Sprintf("a suspended task used %v of CPU time in 200 ms", during)
	if f.Verdict = verdict(before > 0 && during < 2*time.Millisecond); f.Verdict == Yes {
		f.Advice = ""
	}
	return f
}

func (p *prober) io(ctx context.Context, id planner.AttemptID, name, what string, read bool) Fact {
	return p.fact(ctx, name, id, func(f *Fact, x *planner.AttemptExited) Verdict {
		applied := x.Usage.Applied.WriteBps
		if read {
			applied = x.Usage.Applied.ReadBps
		}
		f.Advice = p.unheld("blkio", probeRate, int64(applied))
		rep, err := emulate.ReadReport(filepath.Join(p.cfg.Dir, "work", p.wf.Name, name+"-1"))
		if err != nil || x.Outcome != planner.OK {
			f.Evidence, f.Advice = fmt.Sprintf("%v %s", x.Outcome, x.Message), Remedy(x.Message)
			return Unknown
		}
		took, counted := time.Duration(rep.Phases.WriteNanos), x.Usage.WrittenBytes
		if read {
			took, counted = time.Duration(rep.Phases.ReadNanos), x.Usage.ReadBytes
		}
		f.Evidence = fmt.Sprintf("%s: %d MiB at %d MiB/s took %v; %.1f MiB counted", what, probeBytes>>20,
			probeRate>>20,
			took.Round(time.Millisecond), float64(counted)/(1<<20))
		return verdict(took > 6*time.Second*probeBytes/probeRate/10)
	})
}

func verdict(ok bool) Verdict {
	if ok {
		return Yes
	}
	return No
}
