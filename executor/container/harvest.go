package container

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gantry/cgroup"
	"gantry/executor"
	"gantry/executor/container/control"
	"gantry/executor/container/evidence"
	"gantry/executor/container/stage"
	"gantry/executor/emulate"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/trace"
	"gantry/trace/shown"
)

// harvest is the judgement of an attempt that has ended.
type harvest struct {
	*attempt
	c State // the engine's knowledge of its container
	e evidence.Evidence
	x *planner.AttemptExited
}

// harvest judges the end of a container, or of one that is gone, reads its counters and publishes the outputs.
func (a *attempt) harvest(c State, known evidence.Evidence) {
	a.r.reached(a.l.Attempt, executor.Known)
	h := &harvest{attempt: a, c: c, e: known, x: &planner.AttemptExited{Attempt: a.l.Attempt}}
	h.gather()
	h.measure()
	if a.overDisk() {
		h.e.DiskUsed = a.disk.Load()
	}
	h.judge()
	h.leave()
	a.r.mu.Lock()
	defer a.r.mu.Unlock()
	if a.r.ctx.Err() == nil {
		a.end(h.x)
	}
}

// judge fills in the outcome, publishes the outputs of a success, and explains the outcome.
func (h *harvest) judge() {
	r, x := h.r, h.x
	v := h.e.Judge()
	x.Outcome, x.ExitCode, x.Message = v.Outcome, v.Code, evidence.Join(v.Message, x.Message)
	x.Usage.Signal = int64(v.Signal)
	if x.Outcome == planner.OK {
		if missing, err := r.files.Publish(&h.l, h.ctl.Note()); err != nil {
			x.Outcome, x.Message = planner.HostError, explain(fmt.Errorf("publish outputs of %s: %w", h.attempt, err))
		} else if missing != "" {
			v = h.e.Missing(missing)
			x.Outcome, x.Message = v.Outcome, v.Message
		} else if r.cfg.Published != nil {
			r.cfg.Published(&h.l)
		}
	}
	if x.Outcome == planner.Preempted && h.l.Keeps != nil {
		h.keep()
	}
	also := h.truncated()
	switch {
	case x.Outcome != planner.OK:
		words := h.lastWords()
		if x.Outcome == planner.ExitCode || x.Outcome == planner.OutputMissing {
			also = evidence.Join(also, h.full(words))
			if !h.l.Spec.Network {
				also = evidence.Join(also, executor.NetworkHint(words))
			}
		}
		also = evidence.Join(also, words)
	case h.l.Spec.Emulated():
		also = evidence.Join(also, h.late())
	default:
		also = evidence.Join(also, h.doubts())
	}
	x.Message = evidence.Join(x.Message, also)
}

// gather gathers all evidence of the end but the counters.
func (h *harvest) gather() {
	r, e := h.r, &h.e
	e.Teller, e.Emulated, e.TimeLimit, e.DiskLimit = r.host.Teller, h.l.Spec.Emulated(), h.l.Spec.TimeLimit,
		h.diskLimit()
	e.Strict, e.Leaving = h.l.Spec.Shell && len(h.l.Spec.Command) > 1, h.l.Leaving
	pass(&h.signalling) // a signal under way was delivered, or came too late
	r.mu.Lock()
	e.Asked, e.Acted = cmp.Or(h.why, h.earlier), h.signalled || h.earlier != 0 // an earlier gantry may have acted
	r.mu.Unlock()
	var err error
	if e.Claim, _, err = h.ctl.Claimed(); err == nil {
		if e.End, err = h.ctl.End(); err == nil {
			_, e.Removed, err = h.ctl.Asked()
		}
	}
	if err != nil {
		r.warn("control", fmt.Sprintf("%s: %v", h.attempt, err))
	}
	e.Code = h.c.ExitCode
	if h.c.Error != "" {
		e.StartError = fmt.Sprintf("container of %s: %s", h.attempt, h.c.Error)
	}
	f := h.watched()
	e.Told, e.Exited = f.Told && (!f.Status.Exited() || f.Status.ExitStatus() == e.Code), f.Status.Exited()
	e.EngineDown = e.EngineDown || h.diedWithEngine() || r.Away()
	if h.c.ExitCode != 0 && !h.c.Started.IsZero() {
		e.EngineNew = h.c.Started.Sub(r.engine.Since()) < engineIsNew
	}
}

// engineIsNew is how long an engine may take to clear up once it was started, and to note the end of containers that it
// finds dead.
const engineIsNew = 10 * time.Second

// diedWithEngine reports whether the container ended before the Docker Engine was started that is there now, although
// it had begun under another one: then nobody else need have ended it.
func (h *harvest) diedWithEngine() bool {
	begun, over := h.c.Started, h.c.Finished
	if !h.adopted || begun.IsZero() || over.IsZero() {
		return false
	}
	since := h.r.engine.Since()
	return begun.Before(since) && over.Before(since.Add(engineIsNew))
}

// measure fills in the times, the counters and the limits.
func (h *harvest) measure() {
	h.measureTime()
	r, u, c, e := h.r, &h.usage, h.c, &h.e
	final := h.watched()
	k, exact := final.Counters, final.Exact
	if h.parent != "" {
		up := r.tree.Read(h.parent, r.tree.Outlive())
		exact |= up.Got & r.tree.Outlive()
		k = k.Max(up)
	}
	u.CPUUser, u.CPUSystem, u.CPUThrottled = k.CPUUser, k.CPUSystem, k.Throttled
	u.PeakMemory, u.OOMKills = unit.Bytes(k.PeakMemory), k.OOMKills
	u.ReadBytes, u.WrittenBytes, u.ReadOps, u.WriteOps = unit.Bytes(k.ReadBytes), unit.Bytes(k.WrittenBytes), k.ReadOps,
		k.WriteOps
	for _, m := range []struct {
		set     cgroup.Set
		counter planner.Counters
	}{{cgroup.CPU, planner.CounterCPU}, {cgroup.Memory, planner.CounterMemory}, {cgroup.IO, planner.CounterIO},
		{cgroup.Throttled, planner.CounterThrottled}} {
		if exact&m.set == 0 {
			u.Missing |= m.counter
		}
	}
	if r.group == "" && r.far == nil && r.tree.Mode() != cgroup.Unified && c.Status != evidence.Absent && !c.CountsIO &&
		k.ReadBytes+k.WrittenBytes == 0 { // perhaps nobody counted: see counting
		u.Missing |= planner.CounterIO
	}
	u.Applied = limitsOf(final.Limits)
	busy, memory := h.used.End(c.Finished)
	u.GPUTime, u.PeakGPUMemory = busy, (*unit.Bytes)(memory)
	h.x.Usage = *u
	// On cgroup v1 the kernel's own count vanishes with the group, perhaps before it is read. Then Docker's flag, or
	// the code of SIGKILL, which shells return for a child too, while gantry was there, needs a second witness: the
	// peak, of which the page cache is a part, has reached the limit.
	code := c.ExitCode
	if e.End.Over {
		code = e.End.Code
	}
	killed := c.OOMKilled || code == 128+int(syscall.SIGKILL) && !h.adopted
	if exact&cgroup.OOM == 0 && k.OOMKills == 0 && killed && c.Memory > 0 && k.PeakMemory >= c.Memory-c.Memory/64 {
		h.x.Usage.OOMKills, e.EngineOOM = 1, true
	}
	e.OOMKills, e.PeakMemory, e.MemoryLimit = k.OOMKills, k.PeakMemory, c.Memory
	if k.ForksRefused > 0 {
		h.x.Message = fmt.Sprintf("%s refused by the limit of %d processes", evidence.Plural(k.ForksRefused, "fork was",
			"forks were"), r.cfg.PIDs)
	}
}

// measureTime fills in when the program began and ended, and how long it ran.
func (h *harvest) measureTime() {
	r, u := h.r, &h.usage
	now := r.Now()
	u.Ended = now
	r.mu.Lock()
	suspended := h.suspended()
	r.mu.Unlock()
	begun, over := h.c.Started, h.c.Finished
	if _, at, err := h.ctl.Claimed(); begun.IsZero() && h.e.End.Over && err == nil { // only the launcher tells of it
		begun, over = at, h.e.End.At
	}
	if begun.IsZero() {
		if u.Started != unit.Never {
			h.x.Ran = max(0, u.Ended.Sub(u.Started)-suspended)
		}
		return
	}
	if !over.IsZero() {
		u.Ended = min(max(r.at(over), u.Queued), now)
		begun = h.begun(begun, over)
	}
	u.Started = min(max(r.at(begun), u.Queued), u.Ended)
	if u.Created != unit.Never {
		u.Started = max(u.Started, u.Created)
		u.Ended = max(u.Ended, u.Started)
	}
	ran := u.Ended.Sub(u.Started)
	if h.adopted && !over.IsZero() { // the run's clock stood still while there was no gantry
		ran = over.Sub(begun)
	}
	h.x.Ran = max(0, ran-suspended)
}

// begun is when the program began. The engine's word comes some milliseconds late, which matters in short tasks:
// programs end before they begin. The program's witness knows better, and counts only as far as the engine's times
// allow.
func (a *attempt) begun(told, over time.Time) time.Time {
	t := a.witness(over)
	if t.Before(told) && t.After(told.Add(-time.Second)) {
		return t
	}
	return told
}

// witness is when the program began, as the launcher or the emulator noted; the zero Time if neither did, or that
// cannot be.
func (a *attempt) witness(over time.Time) time.Time {
	by, t, err := a.ctl.Claimed()
	if err != nil || by != control.Launcher || t.After(over) ||
		a.usage.Created != unit.Never && a.r.at(t) < a.usage.Created {
		return time.Time{}
	}
	return t
}

func limitsOf(l cgroup.Limits) planner.Limits {
	out := planner.Limits{Memory: unit.Bytes(l.Memory), MemorySwap: unit.Bytes(l.MemorySwap), PIDs: l.PIDs,
		ReadBps: unit.BytesPerSecond(l.ReadBps), WriteBps: unit.BytesPerSecond(l.WriteBps), ReadIOPS: l.ReadIOPS,
		WriteIOPS: l.WriteIOPS}
	if l.CPUPeriod > 0 {
		out.CPUMillicores = int64((float64(l.CPUQuota)*1000)/float64(l.CPUPeriod) + 0.5)
	}
	return out
}

// keep looks for the checkpoint of a preempted attempt.
func (h *harvest) keep() {
	h.r.mu.Lock()
	lose, grace := h.lose, h.grace
	h.r.mu.Unlock()
	if lose {
		return
	}
	spec, err := h.emulation()
	if err == nil && h.x.ExitCode != emulate.ExitKept {
		err = fmt.Errorf("it left none within the grace time of %v, exit code %d", grace, h.x.ExitCode)
	}
	if err == nil {
		err = h.as(func() error {
			c, err := stage.Checkpoint(h.dir, spec)
			if err == nil {
				h.x.Kept = c.Done(spec)
			}
			return err
		})
	}
	if err == nil {
		h.x.Message = fmt.Sprintf("left a checkpoint: %.1f %% of the task is done", 100*h.x.Kept)
		return
	}
	h.x.Message = evidence.Join(fmt.Sprintf("its work of %v is lost: checkpoint: %v", h.x.Ran.Round(time.Millisecond),
		err), h.x.Message)
}

// truncated reports and counts standard output and error that were not kept.
func (h *harvest) truncated() string {
	if !h.e.End.Truncated {
		return ""
	}
	h.x.Usage.DroppedBytes = unit.Bytes(h.e.End.Dropped)
	said := shown.Size(h.e.End.Dropped) + " of its standard output and error are not kept"
	if h.e.End.Dropped == 0 {
		said = "not all of its standard output and error is kept"
	}
	var kept int64
	for _, name := range []string{undeclaredOut, undeclaredErr} {
		if st, err := os.Lstat(filepath.Join(h.dir, name)); err == nil {
			kept += st.Size()
		}
	}
	if kept < h.r.cfg.MaxOutput {
		said += " (they could not be written: the file system of the run may be full)"
	} else {
		said += fmt.Sprintf(" (--max-output: %s)", shown.Size(h.r.cfg.MaxOutput))
	}
	h.say("%s", said)
	return said
}

// lastWords is the end of the program's standard error, or the engine's message if the program did not begin; for an
// emulated task, its misses.
func (h *harvest) lastWords() (last string) {
	emulated := h.l.Spec.Emulated()
	if emulated && h.x.Outcome == planner.ExitCode {
		if rep, err := h.report(); err == nil && len(rep.Misses) > 0 {
			return "missed: " + strings.Join(rep.Misses, "; ")
		}
	}
	name := undeclaredErr
	by, _, err := h.ctl.Claimed()
	silent := err == nil && by != control.Launcher
	if h.id != "" && (silent || emulated) {
		h.saveLogs()
	} else if h.l.Spec.Stderr != "" {
		name = h.l.Spec.Stderr
	}
	_ = h.as(func() error {
		last = stage.Tail(h.dir, name, 5, h.masked)
		return nil
	})
	return last
}

// saveLogs fetches the output of the emulator into the files of standard output and error.
func (h *harvest) saveLogs() {
	stdout, stderr, err := h.r.engine.Output(h.r.ctx, h.id)
	if err != nil {
		return
	}
	_ = h.as(func() error {
		return errors.Join(stage.Write(h.dir, undeclaredOut, string(stdout), 0o644),
			stage.Write(h.dir, undeclaredErr, string(stderr), 0o644))
	})
}

// full names the directories of temporary files that had no room left: as the launcher found them at the end, or by the
// last words of the program, which may have removed its files.
func (h *harvest) full(words string) (said string) {
	refused := strings.Contains(words, "No space left on device")
	for _, at := range []struct {
		path        string
		found, size int64
	}{{Tmp, h.e.End.FullTmp, h.r.cfg.Tmp}, {sharedMemory, h.e.End.FullShm, h.sharedMemory()}} {
		if at.found == 0 && !(refused && strings.Contains(words, at.path+"/")) {
			continue
		}
		text := at.path + " was full"
		if bytes := max(at.found, at.size); bytes > 0 {
			text += " (" + shown.Size(bytes) + ")"
		}
		if at.size == 0 { // it is on disk
			text += ": the file system of the run may be full"
		}
		said = evidence.Join(said, text)
	}
	if said == "" && refused {
		said = "the disk, " + Tmp + " or " + sharedMemory + " was full"
	}
	return said
}

func bare(dir string) bool {
	d, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer d.Close()
	_, err = d.Readdirnames(1)
	return err == io.EOF
}

// doubts names possible failures of a program that ended well: output on standard error, empty outputs, and directories
// without the results that are to be in them.
func (h *harvest) doubts() string {
	const most = 5
	var said, empty []string
	loud := false
	if st, err := os.Lstat(filepath.Join(h.dir, undeclaredErr)); err == nil && st.Mode().IsRegular() && st.Size() > 0 {
		loud = true
	}
	for _, f := range h.l.Spec.Outputs {
		path := h.r.files.Path(h.l.Node, h.l.Spec.Workflow, f)
		st, err := os.Lstat(path)
		switch {
		case err != nil:
		case f.Name == h.l.Spec.Stderr:
			loud = loud || st.Size() > 0
		case st.Mode().IsRegular() && st.Size() == 0, st.IsDir() && bare(path):
			empty = append(empty, shown.Quote(f.Name))
		}
	}
	if loud {
		said = append(said, evidence.WroteStderr)
	}
	for _, of := range []struct {
		text  string
		names []string
	}{{"left an empty output: ", empty}, {evidence.NoResult, h.without()}} {
		if n := len(of.names); n > most {
			of.names = append(of.names[:most], fmt.Sprintf("%d more", n-most))
		}
		if len(of.names) > 0 {
			said = append(said, of.text+strings.Join(of.names, ", "))
		}
	}
	return strings.Join(said, ", and ")
}

// without lists the patterns of results that name parts of outputs and match none.
func (h *harvest) without() (patterns []string) {
	w := h.l.Spec.Workflow
	for _, pattern := range w.Results {
		one, named, found := executor.WorkflowSpec{Results: []string{pattern}}, false, false
		for _, f := range h.l.Spec.Outputs {
			path := h.r.files.Path(h.l.Node, w, f)
			st, err := os.Lstat(path)
			switch {
			case err != nil || !trace.MayHold(pattern, f.Name):
			case !st.IsDir():
				named = named || strings.HasPrefix(pattern, f.Name+"/")
			case !f.Final:
				_, names, _ := stage.Results(&one, f, path)
				named, found = named || !strings.HasPrefix(f.Name, "**"), found || len(names) > 0
			}
		}
		if named && !found && !strings.HasPrefix(pattern, "**") {
			patterns = append(patterns, shown.Quote(pattern))
		}
	}
	return patterns
}

// report is the emulator's report of its work.
func (h *harvest) report() (rep *emulate.Report, err error) {
	err = h.as(func() (err error) {
		rep, err = emulate.ReadReport(h.dir)
		return err
	})
	return rep, err
}

// late says which part of its work kept an emulated task from lasting as long as its trace says.
func (h *harvest) late() string {
	run := h.l.Spec.TrueRun(h.l.Node, h.r.cfg.Platform.Nodes[h.l.Node].Speed)
	if h.l.From != nil || h.x.Ran <= run+run/50 {
		return ""
	}
	rep, err := h.report()
	if err != nil || rep.LimitedBy == "" {
		return ""
	}
	part := map[string]string{emulate.LimitedByCPU: "computing", emulate.LimitedByRead: "reading its inputs",
		emulate.LimitedByWrite: "writing its outputs", emulate.LimitedByStart: "starting"}[rep.LimitedBy]
	return fmt.Sprintf("lasted %.2f s longer than its trace says, as %s takes that long here",
		time.Duration(rep.LateNanos).Seconds(), part)
}

// leave writes the files for people into the work directory.
func (h *harvest) leave() {
	x := h.x
	_ = h.as(func() error {
		if x.ExitCode >= 0 {
			_ = stage.Write(h.dir, ".exitcode", strconv.Itoa(x.ExitCode), 0o644) // as Nextflow does, without a line end
		}
		if x.Outcome != planner.OK {
			h.say("%s, exit code %d, ran %v: %s", x.Outcome, x.ExitCode, x.Ran, x.Message)
		}
		if len(h.notes) > 0 {
			_ = stage.Write(h.dir, ".command.log", strings.Join(h.notes, "\n")+"\n", 0o644)
		}
		return nil
	})
}

// say keeps a line for .command.log, gantry's own account of the attempt.
func (a *place) say(format string, args ...any) {
	a.notes = append(a.notes, time.Now().UTC().Format(time.RFC3339Nano)+" "+fmt.Sprintf(format, args...))
}
