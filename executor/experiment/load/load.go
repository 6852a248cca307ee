// Package load turns workload files and traces into submissions: it reads the traces, draws the streams, and says when
// each workflow arrives. Its draws are a function of the file, the platform and the repetition alone.
package load

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/trace"
	"gantry/trace/scenario"
)

// maxShown is how many faults of a trace an error names.
const maxShown = 10

// Loader makes submissions. Only a workload with a cost matrix or an imposed utilisation needs the Platform.
type Loader struct {
	trace.ReadOptions
	Platform *planner.Platform
	// directory of the files from outside, where the workload does not say; "" if they are to be made up
	Inputs string
	Dirs   []string // further such directories
	// Results are patterns: files whose names they match are results. Each has to match one of a trace, unless Lenient.
	Results []string
	Lenient bool
	// TimeScale is the factor of the runtimes of emulated tasks; arrivals, releases and deadlines follow where the
	// workload says so.
	TimeScale float64 // 0: 1
	Count     int     // keep only this many workflows, the first to arrive; 0: all
	More      bool    // set if there are more than these
	Repaired  bool    // set if a trace was repaired
	// Standard is standard input for an archive; nil: as it is.
	Standard io.Reader
	// Lean lets the workflows of a long archive that is alone follow one submission, which takes little memory.
	Lean bool
	Warn func(format string, args ...any)

	read  map[origin]*trace.Workflow // copies share their workflow
	unmet map[string]error           // why a pattern of Results has matched nothing; nil: it has
}

// Submissions makes the submissions of one repetition of a workload, counted from 0, in order of arrival; names are
// unique. A stream that is drawn again is the same; other repetitions have other seeds. It reads the traces that the
// workload names.
func Submissions(w *scenario.Workload, platform *planner.Platform, repetition int) ([]executor.Submission, error) {
	l := &Loader{Platform: platform}
	subs, err := l.Workload(w, repetition)
	if err != nil {
		return nil, err
	}
	for i := range subs {
		if err := subs[i].Make(); err != nil {
			return nil, err
		}
	}
	return l.Order(subs), nil
}

// Order sorts submissions by arrival, gives them names that are different and usable as directories, and drops those
// beyond Count.
func (l *Loader) Order(subs []executor.Submission) []executor.Submission {
	slices.SortStableFunc(subs, func(a, b executor.Submission) int { return cmp.Compare(a.At, b.At) })
	if l.Count > 0 && l.Count < len(subs) {
		clear(subs[l.Count:])
		subs = subs[:l.Count]
		l.More = true
	}
	seen, next := make(map[string]bool, len(subs)), map[string]int{}
	for i := range subs {
		base := executor.EscapeName(subs[i].Name)
		name := base
		for n := max(2, next[base]); seen[name]; n++ {
			name = fmt.Sprintf("%s-%d", base, n)
			next[base] = n
		}
		seen[name] = true
		subs[i].Name = name
	}
	return subs
}

// Workload makes the submissions of one repetition of a workload, listed ones first. Workflows of a stream are left to
// be drawn.
func (l *Loader) Workload(w *scenario.Workload, repetition int) ([]executor.Submission, error) {
	subs := make([]executor.Submission, 0, w.Listed())
	for i := range w.Arrivals {
		a := &w.Arrivals[i]
		if a.Archive {
			more, err := l.archive(w, a)
			if err != nil {
				return nil, at(w, a.Line, err)
			}
			subs = append(subs, more...)
			continue
		}
		var sub executor.Submission
		if err := l.listed(&sub, a); err != nil {
			return nil, at(w, a.Line, err)
		}
		for n := range a.Copies {
			if a.Name != "" {
				sub.Name = a.Copy(n)
			}
			sub.Data = placement(a.Data, w, repetition, len(subs))
			subs = append(subs, sub)
		}
	}
	if w.Stream != nil {
		drawn, err := l.stream(w, repetition)
		if err != nil {
			return nil, err
		}
		subs = append(subs, drawn...)
	}
	for i := range subs {
		subs[i].Preempt = w.Preempt
		for _, t := range []*planner.Time{&subs[i].At, &subs[i].Release, &subs[i].Due} {
			*t = l.scaled(w, *t)
		}
	}
	return subs, nil
}

// scaled is a time of a workload by TimeScale, where it follows that; 0 is none.
func (l *Loader) scaled(w *scenario.Workload, t planner.Time) planner.Time {
	if !w.ScaleTimes || l.TimeScale <= 0 || l.TimeScale == 1 || t == 0 {
		return t
	}
	return max(1, planner.Time(float64(t)*l.TimeScale+0.5))
}

// at reports an error with the line of a workload file.
func at(w *scenario.Workload, line int, err error) error {
	err = trace.Plain(err)
	if line == 0 { // changed since it was read, as by experiments
		return fmt.Errorf("%s: %w", w.Source, err)
	}
	return fmt.Errorf("%s:%d: %w", w.Source, line, err)
}

// Window returns how many of the workflows of a workload, by arrival, metrics leave out at the start and at the end.
// timeScale is the factor of the arrivals; 0 is 1.
func Window(w *scenario.Workload, subs []executor.Submission, timeScale float64) (warmUp, coolDown int, err error) {
	if len(subs) == 0 || w.WarmUp+w.CoolDown == 0 && w.WarmUpTime+w.CoolDownTime == 0 {
		return 0, 0, nil
	}
	first, last := subs[0].At, subs[0].At
	for i := range subs {
		first, last = min(first, subs[i].At), max(last, subs[i].At)
	}
	scale := func(d time.Duration) time.Duration {
		if w.ScaleTimes && timeScale > 0 {
			return time.Duration(float64(d) * timeScale)
		}
		return d
	}
	var early, late int
	for i := range subs {
		if subs[i].At < first.Add(scale(w.WarmUpTime)) {
			early++
		}
		if subs[i].At > last.Add(-scale(w.CoolDownTime)) {
			late++
		}
	}
	warmUp, coolDown = max(w.WarmUp, early), max(w.CoolDown, late)
	if warmUp+coolDown >= len(subs) {
		return 0, 0, fmt.Errorf("%s: warm_up and cool_down leave nothing to measure of %d workflows that arrive "+
			"within %v: draw more of them", w.Source,
			len(subs), last.Sub(first).Round(time.Second))
	}
	return warmUp, coolDown, nil
}

func (l *Loader) listed(sub *executor.Submission, a *scenario.Arrival) error {
	w, err := l.trace(origin{a.Trace, a.Image, a.Disk, strings.Join(a.Results, "\x00")})
	if err != nil {
		return err
	}
	for _, pattern := range a.Results {
		if err := w.KeepResults(pattern); err != nil {
			return fmt.Errorf("results: %w", err)
		}
	}
	*sub = executor.Submission{At: planner.Time(a.Arrive), Workflow: w, Name: cmp.Or(a.Name, w.Label), Tenant: a.Tenant,
		Class: class(a.Class), Release: planner.Time(a.Release), Due: planner.Time(a.Deadline)}
	if sub.Inputs, err = l.inputs(a.Inputs); err != nil {
		return err
	}
	if a.Inputs == "" {
		sub.Dirs = l.Dirs
	}
	sub.Costs, err = l.costs(a, w)
	return err
}

// placement says where the input files of workflow i lie, listed ones first; nil if all nodes have them.
func placement(own *scenario.Data, w *scenario.Workload, repetition, i int) *executor.Placement {
	d := cmp.Or(own, w.Data)
	if d == nil || d.Placement == "everywhere" {
		return nil
	}
	return &executor.Placement{Rule: executor.PlacementRule(d.Placement), Block: unit.Bytes(d.Block),
		Replicas: d.Replicas, Seed: streamSeed(w, repetition) + uint64(i)*0xd1342543de82ef95}
}

func (l *Loader) inputs(dir string) (string, error) {
	if dir == "" {
		return l.Inputs, nil
	}
	return filepath.Abs(dir)
}

func class(name string) planner.Class {
	switch name {
	case "deadline":
		return planner.Deadline
	case "low":
		return planner.Low
	}
	return planner.Regular
}

// origin is the source of a workflow, with the settings that its workload gives its tasks.
type origin struct {
	path, image string
	disk        int64
	results     string
}

// trace reads a trace once; tasks without an image or a rate of block I/O get those given.
func (l *Loader) trace(from origin) (*trace.Workflow, error) {
	if w := l.read[from]; w != nil {
		return w, nil
	}
	w, err := l.Trace(from.path)
	if err != nil {
		return nil, err
	}
	for i := range w.Tasks {
		t := &w.Tasks[i]
		t.Image, t.DiskBps = cmp.Or(t.Image, from.image), cmp.Or(t.DiskBps, from.disk)
	}
	if l.read == nil {
		l.read = map[origin]*trace.Workflow{}
	}
	l.read[from] = w
	return w, nil
}

// Trace reads the trace of a file, reports its warnings, and fills in missing values by the rules of trace.Impute.
func (l *Loader) Trace(path string) (*trace.Workflow, error) {
	w, faults, err := trace.Open(path, l.ReadOptions)
	if err != nil {
		return nil, err
	}
	return l.Checked(path, w, faults)
}

// Checked does the rest of Trace for a workflow that was read.
func (l *Loader) Checked(path string, w *trace.Workflow, faults []trace.Fault) (*trace.Workflow, error) {
	if err := l.judged(path, faults); err != nil {
		return nil, err
	}
	trace.Impute(w, trace.Defaults{})
	l.keepResults(w)
	return w, nil
}

// judged reports faults: errors as one, and warnings.
func (l *Loader) judged(path string, faults []trace.Fault) error {
	l.Repaired = l.Repaired || trace.Repaired(faults)
	var wrong []string
	for _, f := range faults {
		line := path
		if f.Line > 0 {
			line = fmt.Sprintf("%s:%d", path, f.Line)
		}
		if f.Severity == trace.Error {
			wrong = append(wrong, fmt.Sprintf("%s: %s", line, f.Message))
		} else if f.Rule != "unsafe-path" && l.Warn != nil { // admission refuses those where they matter
			l.Warn("%s: %s", line, f.Message)
		}
	}
	if len(wrong) > 0 {
		more := ""
		if n := len(wrong) - maxShown; n > 0 {
			wrong, more = wrong[:maxShown], fmt.Sprintf("\n  and %d more: gantry check shows all", n)
		}
		return fmt.Errorf("%s cannot be run:\n  %s%s", path, strings.Join(wrong, "\n  "), more)
	}
	return nil
}

func (l *Loader) keepResults(w *trace.Workflow) {
	if l.unmet == nil {
		l.unmet = map[string]error{}
	}
	for _, pattern := range l.Results {
		err := w.KeepResults(pattern)
		if was, ok := l.unmet[pattern]; !ok || was != nil {
			l.unmet[pattern] = err
		}
	}
}

// Unmet returns why a pattern of Results has matched no file of any trace, unless they are Lenient.
func (l *Loader) Unmet() error {
	if l.Lenient {
		return nil
	}
	for _, pattern := range l.Results {
		if err := l.unmet[pattern]; err != nil {
			return fmt.Errorf("--results: %w", err)
		}
	}
	return nil
}

// costs resolves a cost matrix, whose rows are tasks and whose columns are nodes, both by name. Tasks it does not name
// keep the runtime of their trace.
func (l *Loader) costs(a *scenario.Arrival, w *trace.Workflow) ([][]int64, error) {
	if a.Costs == nil {
		return nil, nil
	}
	out := make([][]int64, len(w.Tasks))
	left := maps.Clone(a.Costs.Seconds)
	for i := range w.Tasks {
		row, ok := left[w.Tasks[i].ID]
		if !ok {
			continue
		}
		delete(left, w.Tasks[i].ID)
		out[i] = make([]int64, len(l.Platform.Nodes))
		for n := range l.Platform.Nodes {
			d, ok := row[l.Platform.Nodes[n].Name]
			if !ok {
				return nil, fmt.Errorf("costs %s: task %s has no cost on node %s of the cluster", a.Costs.Source,
					w.Tasks[i].ID, l.Platform.Nodes[n].Name)
			}
			out[i][n] = int64(d)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(left)) {
		return nil, fmt.Errorf("costs %s: %s has no task %q", a.Costs.Source, a.Trace, id)
	}
	return out, nil
}

// Speeds is the sum of cores times speed over the nodes of a platform, on which a utilisation is imposed.
func Speeds(p *planner.Platform) (sum float64) {
	for i := range p.Nodes {
		sum += float64(p.Nodes[i].Capacity[unit.CPU]) / 1000 * p.Nodes[i].Speed
	}
	return sum
}

// Work is the demand of a workflow for processors: the sum over its tasks of runtime (at speed 1) times cores.
func Work(w *trace.Workflow) (sum time.Duration) {
	for i := range w.Tasks {
		t := &w.Tasks[i]
		if t.Cores > 0 && t.Cores != 1 {
			sum += time.Duration(float64(t.Runtime) * t.Cores)
		} else {
			sum += t.Runtime
		}
	}
	return sum
}
