// Package term shows people how a run goes, and writes text, tables and amounts for them.
package term

import (
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/trace/shown"
)

// Progress prints the progress of a run: on a terminal one line that is redrawn, elsewhere a few plain lines, nothing
// with --quiet. It writes to standard error; standard output has the summary only.
type Progress struct {
	mu       sync.Mutex
	out      io.Writer
	terminal io.Writer        // where the bar is drawn; nil: nowhere
	quiet    bool             // no progress, no notes; warnings of inputs neither
	bar      func() string    // the line that is redrawn; nil: there is none
	drawn    time.Time        // when it was
	ended    chan struct{}    // closed when a run has ended
	ends     func() time.Time // of a run, as a simulation expects it; zero: not known
	begun    time.Time
	total    int
	done     int
	failed   int
	underWay int
	running  []*executor.TaskSpec // some of the tasks that are under way
	silent   bool                 // failures are not printed
	former   int                  // Tasks of workflows that others continue
	names    []*executor.TaskSpec // by task
	shown    int                  // failures printed
	told     int                  // predictions printed
	next     int                  // plain lines: percent at which the next is due
	due      time.Time            // plain lines of a meter: when the next is due
	// Warnings has those that were printed.
	warnings map[string]bool
}

// Bounds of the output, so that a run of any size fits a screen or two.
const (
	maxFailuresShown = 10
	maxWarningsShown = 10
	maxRunningShown  = 8
	plainStep        = 20 // percent
)

// New makes one for standard error.
func New(quiet bool) *Progress {
	p := &Progress{out: Fitted(os.Stderr, os.Stderr), quiet: quiet, next: plainStep, warnings: map[string]bool{}}
	if Terminal(os.Stderr) {
		p.terminal = os.Stderr
	}
	return p
}

// Begun describes a run that begins.
type Begun struct {
	Run, Policy string
	Platform    *planner.Platform
	Home        string // of a server, which takes work there; "": it takes none
	Tasks       int
	Repetition  int // of several
	Repetitions int
	Started     time.Time           // origin of the axis of the run
	Expected    func() planner.Time // the end, as a simulation expects it; unit.Never: not known
}

// Begin prints the beginning of a run.
func (p *Progress) Begin(r Begun) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun = time.Now()
	p.total += r.Tasks
	if p.quiet {
		return
	}
	if r.Home != "" {
		p.next = math.MaxInt
		p.line("%s: taking work in %s on %s, policy %s", r.Run, ShortPath(r.Home), Describe(r.Platform), r.Policy)
		return
	}
	which := ""
	if r.Repetitions > 1 {
		which = fmt.Sprintf(", repetition %d of %d (--repetition)", r.Repetition, r.Repetitions)
	}
	p.line("%s: %s on %s, policy %s%s", r.Run, Plural(p.total, "task"), Describe(r.Platform), r.Policy, which)
	p.ends = func() time.Time {
		end := r.Expected()
		if end == unit.Never {
			return time.Time{}
		}
		return r.Started.Add(time.Duration(end))
	}
	if p.terminal != nil {
		p.ended = make(chan struct{})
		p.draw(p.status)
		go p.tick(p.ended)
	}
}

// tick redraws the bar of a run while nothing happens.
func (p *Progress) tick(ended <-chan struct{}) {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-ended:
			return
		case <-t.C:
			p.mu.Lock()
			if p.bar != nil {
				p.redraw()
			}
			p.mu.Unlock()
		}
	}
}

// status is the bar of a run.
func (p *Progress) status() string {
	var names []string
	for _, t := range p.running {
		names = append(names, shown.Short(shown.Line(t.Name), 40))
	}
	return fmt.Sprintf("%s %d of %s, %d failed, %s%s, %d running: %s", bar(p.done, p.total), p.done,
		Plural(p.total, "task"), p.failed, time.Since(p.begun).Round(time.Second), p.expected(), p.underWay,
		strings.Join(names, ", "))
}

// bar is a line that is full as far as something is done.
func bar(done, total int) string {
	const wide = 24
	full := wide * min(done, total) / max(1, total)
	return strings.Repeat("█", full) + strings.Repeat("░", wide-full)
}

// meterStep is the time between two plain lines of a meter.
const meterStep = 10 * time.Second

// Meter shows how far something is: on a terminal a line that is redrawn, elsewhere a line now and then.
func (p *Progress) Meter(text string, done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch now := time.Now(); {
	case p.quiet:
	case p.terminal != nil:
		p.draw(func() string { return bar(int(done), int(total)) + " " + text })
	case p.due.IsZero():
		p.due = now.Add(meterStep)
	case now.After(p.due):
		p.due = now.Add(meterStep)
		p.line("%s", text)
	}
}

// draw draws a bar in place of the last one, unless that was just drawn.
func (p *Progress) draw(bar func() string) {
	const least = 200 * time.Millisecond
	if p.bar = bar; time.Since(p.drawn) >= least {
		p.redraw()
	}
}

func (p *Progress) redraw() {
	p.drawn = time.Now()
	fmt.Fprintf(p.terminal, "\r\x1b[?7l%s\x1b[K\x1b[?7h", p.bar()) // a long line is cut, not wrapped
}

// clear takes the bar away, so that lines can be printed in its place.
func (p *Progress) clear() {
	if p.bar != nil {
		fmt.Fprint(p.terminal, "\r\x1b[K")
	}
}

// Watch is the engine's: it sees every batch.
func (p *Progress) Watch(v planner.View, events []planner.Event, admitted []*executor.Admission) {
	if p.quiet {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range admitted {
		p.names = append(p.names, a.Tasks...)
	}
	p.total = max(p.total, len(p.names)-p.former)
	changed := false
	for i := range events {
		if plan, ok := events[i].Body.(*planner.PlanCommitted); ok {
			p.predicted(v, plan.Notes)
		}
		p.continued(v, events[i].Body)
		x, ok := events[i].Body.(*planner.AttemptExited)
		if !ok {
			changed = changed || events[i].Body.Kind() == planner.KindAttemptStarted
			continue
		}
		changed = true
		att := v.Attempt(x.Attempt)
		if x.Outcome == planner.OK {
			p.done++
			continue
		}
		if x.Outcome == planner.Preempted {
			continue
		}
		again := "it is retried"
		if v.Phase(att.Task) == planner.Failed {
			p.failed++
			again = "it failed for good"
		}
		if p.silent {
			continue
		}
		if p.shown++; p.shown <= maxFailuresShown {
			p.line("%s: attempt %d of %s ended: %s; %s%s", p.names[att.Task].Workflow.Name, att.Try,
				p.names[att.Task].Name, x.Outcome, again, indent(x.Message))
		} else if p.shown == maxFailuresShown+1 {
			p.line("more attempts fail; gantry show lists them")
		}
	}
	p.underWay, p.running = v.UnderWayCount(), p.running[:0]
	for a := range v.UnderWay() {
		if len(p.running) == maxRunningShown {
			break
		}
		if t := p.names[v.Attempt(a).Task]; t != nil {
			p.running = append(p.running, t)
		}
	}
	p.forget(v, events)
	if !changed || p.begun.IsZero() { // the log of a run that is resumed is read
		return
	}
	if p.ended != nil {
		p.draw(p.status)
		return
	}
	for percent := 100 * p.done / max(p.total, 1); percent >= p.next; p.next += plainStep {
		if percent < p.next+plainStep {
			p.line("%s of %d done, %d running, %d failed, %s%s", Plural(p.done, "task"), p.total, p.underWay,
				p.failed, time.Since(p.begun).Round(100*time.Millisecond), p.expected())
		}
	}
}

// Expected says when the run is expected to end, if that is known and there is something to wait for.
func (p *Progress) expected() string {
	if p.done >= p.total || p.ends == nil {
		return ""
	}
	end := p.ends()
	if end.Before(time.Now()) { // or not known
		return ""
	}
	return ", ends about " + end.Format("15:04:05")
}

// continued takes in tasks that stand for others, and those that ended without an attempt.
func (p *Progress) continued(v planner.View, body planner.Body) {
	switch b := body.(type) {
	case *planner.TaskReused:
		p.done++
	case *planner.WorkflowContinued:
		for t := range v.All(b.Of) {
			p.former++
			switch v.Phase(t) {
			case planner.Done:
				p.done--
			case planner.Failed:
				p.failed--
			}
		}
		p.total = len(p.names) - p.former
	}
}

// predicted prints the predicted ends of workflows with deadlines that arrived, or that they are refused.
func (p *Progress) predicted(v planner.View, notes []planner.Note) {
	most := RowsFor(p.total, true).predictions
	for i := range notes {
		n := &notes[i]
		if n.Topic != planner.TopicPredicted && n.Topic != planner.TopicRefused ||
			v.Workflow(n.Workflow).Due == unit.Never {
			continue
		}
		p.told++
		spec := p.names[v.First(n.Workflow)]
		switch due := v.Workflow(n.Workflow).Due; {
		case p.told > most+1 || spec == nil:
		case p.told > most:
			p.line("more workflows with deadlines arrive; gantry show lists them")
		case n.Topic == planner.TopicRefused:
			p.line("%s: refused, due at %s: %s", spec.Workflow.Name, InstantOf(due), n.Text)
		default:
			p.line("%s: predicted to end at %s, due at %s: %s", spec.Workflow.Name, InstantOf(n.At), InstantOf(due),
				n.Text)
		}
	}
}

// forget drops the names of workflows that have ended: a long stream is mostly such.
func (p *Progress) forget(v planner.View, events []planner.Event) {
	for i := range events {
		if x, ok := events[i].Body.(*planner.AttemptExited); ok {
			w := v.Task(v.Attempt(x.Attempt).Task).Workflow
			if left, _ := v.Progress(w); left == 0 {
				for t := range v.All(w) {
					p.names[t] = nil
				}
			}
		}
	}
}

// indent puts a message of a program or of the kernel below the line it belongs to.
func indent(message string) block {
	message = strings.TrimSpace(message)
	if message == "" {
		return ""
	}
	return block("\n    " + strings.ReplaceAll(message, "\n", "\n    "))
}

// block is a text of several lines, which are indented.
type block string

// Silence says whether failures are left out.
func (p *Progress) Silence(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = on
}

// Told has the warnings that were printed.
func (p *Progress) Told() map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.warnings)
}

// Note prints a line that is not a warning.
func (p *Progress) Note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.quiet {
		p.line(format, args...)
	}
}

// Say prints a line that was asked for, also with --quiet.
func (p *Progress) Say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line(format, args...)
}

// Known is a warning that people were given before: it is not printed.
func (p *Progress) Known(message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.warnings[shown.Under(message, "  ")] = true
}

// Warn prints a warning, once; the log has it too.
func (p *Progress) Warn(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	message := shown.Under(fmt.Sprintf(format, args...), "  ")
	if p.quiet || p.warnings[message] || len(p.warnings) > maxWarningsShown {
		return
	}
	if len(p.warnings) == maxWarningsShown {
		message = "there are more: gantry check and gantry show list them"
	}
	p.warnings[message] = true
	p.line("warning: %s", block(message))
}

// line prints a line above the bar.
func (p *Progress) line(format string, args ...any) {
	if p.clear(); p.bar != nil {
		defer p.redraw()
	}
	for i, a := range args { // names come from files
		switch a := a.(type) {
		case string:
			args[i] = shown.Line(a)
		case error:
			args[i] = shown.Under(a.Error(), "  ")
		}
	}
	fmt.Fprintf(p.out, format+"\n", args...)
}

// End clears the line that is redrawn.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	if p.bar = nil; p.ended != nil {
		close(p.ended)
		p.ended = nil
	}
}

// Arriving shows how things of a kind arrive, such as images. The returned function, for any goroutine, takes in how
// many bytes of one are here, and how many there are.
func (p *Progress) Arriving(noun, doing string) func(ref string, done, total int64) {
	var mu sync.Mutex
	parts := map[string][2]int64{}
	return func(ref string, done, total int64) {
		mu.Lock()
		defer mu.Unlock()
		parts[ref] = [2]int64{done, total}
		done, total = 0, 0
		for _, part := range parts {
			done, total = done+part[0], total+part[1]
		}
		p.Meter(fmt.Sprintf("%s %s: %s of %s", doing, Plural(len(parts), noun), shown.Size(done), shown.Size(total)),
			done, total)
	}
}
