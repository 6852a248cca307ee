package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/schollz/progressbar/v3"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/sqlite"
	"gantry/trace/shown"
)

// progress prints the progress of a run: on a terminal one line that is redrawn, elsewhere a few plain lines, nothing
// with --quiet. It writes to standard error; standard output has the summary only.
type progress struct {
	mu     sync.Mutex
	out    io.Writer
	quiet  bool // no progress, no notes; warnings of inputs neither
	json   bool
	bar    *progressbar.ProgressBar // of a simulation; nil where lines are not redrawn
	board  *board                   // of a run; nil where lines are not redrawn
	ends   func() time.Time         // of a run, as a simulation expects it; zero: not known
	begun  time.Time
	total  int
	done   int
	failed int
	silent bool                 // failures are not printed
	former int                  // tasks of workflows that others continue
	names  []*executor.TaskSpec // by task
	shown  int                  // failures printed
	told   int                  // predictions printed
	next   int                  // plain lines: percent at which the next is due
	// warnings has those that were printed.
	warnings map[string]bool
}

// Bounds of what is printed, so that a run of any size fits a screen or two.
const (
	maxFailuresShown = 10
	maxWarningsShown = 10
	plainStep        = 20 // percent
)

func newProgress(quiet, asJSON bool) *progress {
	return &progress{out: plain{folded{os.Stderr, screenWidth(os.Stderr)}}, quiet: quiet ||
		asJSON, json: asJSON, next: plainStep, warnings: map[string]bool{}}
}

func terminal(f *os.File) bool { return isatty.IsTerminal(f.Fd()) && os.Getenv("TERM") != "dumb" }

func (p *progress) begin(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun = time.Now()
	if p.quiet {
		return
	}
	if s.serving != nil {
		p.next = math.MaxInt
		p.line("%s: taking work in %s on %s, policy %s", s.name, shortPath(s.home), describe(s.platform), s.set.Policy)
		return
	}
	which := ""
	if s.repetitions > 1 {
		which = fmt.Sprintf(", repetition %d of %d (--repetition)", s.set.Repetition, s.repetitions)
	}
	p.line("%s: %s on %s, policy %s%s", s.name, plural(p.total, "task"), describe(s.platform), s.set.Policy, which)
	p.ends = s.follower.when
	if terminal(os.Stderr) && !runtimeOf(s.set.Runtime).Virtual {
		p.board = newBoard(os.Stderr, s.platform, s.engine.Planner.Draft(), s.started)
		p.board.simulated = s.follower.expected
		p.board.resume(s.engine.Planner.View(), p.names)
		go p.board.tick(&p.mu)
	} else if terminal(os.Stderr) {
		p.bar = progressbar.NewOptions(max(p.total, 1), progressbar.OptionSetWriter(os.Stderr),
			progressbar.OptionSetWidth(30), progressbar.OptionShowCount(),
			progressbar.OptionThrottle(200*time.Millisecond), progressbar.OptionSetElapsedTime(true),
			progressbar.OptionSetPredictTime(false),
			progressbar.OptionEnableColorCodes(os.Getenv("NO_COLOR") == ""), progressbar.OptionClearOnFinish(),
			progressbar.OptionUseANSICodes(true),
			progressbar.OptionSetDescription("starting"))
	}
}

func describe(p *planner.Platform) string {
	var millicores int64
	for i := range p.Nodes {
		millicores += p.Nodes[i].Capacity[0]
	}
	return plural(len(p.Nodes), "node") + " with " + cores(millicores)
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// named lists the first names of n.
func named(n int, names []string) string {
	text := strings.Join(names, ", ")
	if more := n - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// namesOf lists the first names.
func namesOf(names []string, most int) string {
	return named(len(names), names[:min(most, len(names))])
}

// watch is the engine's: it sees every batch.
func (p *progress) watch(v planner.View, events []planner.Event, admitted []*executor.Admission) {
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
	if p.board != nil {
		p.board.take(v, events, p.names)
	}
	p.forget(v, events)
	if p.board != nil {
		p.board.done, p.board.total, p.board.failed = p.done, p.total, p.failed
		p.board.changed()
		return
	}
	if !changed || p.begun.IsZero() { // the log of a run that is resumed is read
		return
	}
	if p.bar != nil {
		p.bar.Describe(fmt.Sprintf("%d running, %d failed", v.UnderWayCount(), p.failed))
		_ = p.bar.Set(min(p.done, p.total))
		return
	}
	for percent := 100 * p.done / max(p.total, 1); percent >= p.next; p.next += plainStep {
		if percent < p.next+plainStep {
			p.line("%s of %d done, %d running, %d failed, %s%s", plural(p.done, "task"), p.total, v.UnderWayCount(),
				p.failed, time.Since(p.begun).Round(100*time.Millisecond), p.expected())
		}
	}
}

// expected says when the run is expected to end, if that is known and there is something to wait for.
func (p *progress) expected() string {
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
func (p *progress) continued(v planner.View, body planner.Body) {
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
func (p *progress) predicted(v planner.View, notes []planner.Note) {
	most := rowsFor(p.total, true).predictions
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
			p.line("%s: refused, due at %s: %s", spec.Workflow.Name, instantOf(due), n.Text)
		default:
			p.line("%s: predicted to end at %s, due at %s: %s", spec.Workflow.Name, instantOf(n.At), instantOf(due),
				n.Text)
		}
	}
}

func instantOf(t planner.Time) string { return span(new(sqlite.Span(t))) }

// forget drops the names of workflows that have ended: a long stream is mostly such.
func (p *progress) forget(v planner.View, events []planner.Event) {
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

// note prints a line that is not a warning.
func (p *progress) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.quiet {
		p.line(format, args...)
	}
}

// say prints a line that was asked for, also with --quiet.
func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line(format, args...)
}

// warn prints a warning, once; the log has it too.
func (p *progress) warn(format string, args ...any) {
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
func (p *progress) line(format string, args ...any) {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	if p.board != nil {
		p.board.clear()
		defer p.board.draw()
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

func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar = nil
	}
	if p.board != nil {
		p.board.clear()
		close(p.board.stop)
		p.board = nil
	}
}

// manyTasks is the size from which the summary of a simulation leaves out tables that take long to compute.
const manyTasks = 20_000

// finish prints the summary.
func (p *progress) finish(ctx context.Context, s *session, res executor.Result, failed int) error {
	if p.quiet && !p.json {
		return nil
	}
	v := s.engine.Planner.View()
	if s.serving != nil {
		p.line("%s: %s, %s, %d failed or skipped", s.name, plural(v.Workflows(), "workflow"), plural(v.Tasks(), "task"),
			failed)
		return nil
	}
	if s.log == nil {
		fmt.Fprintf(s.out.App.Writer, "makespan %s, %s of %s, %d failed or skipped (no log)\n",
			time.Duration(res.Ended).Round(time.Millisecond),
			plural(v.Tasks(), "task"), plural(v.Workflows(), "workflow"), failed)
		return nil
	}
	if res.Interrupted && s.collector != nil && v.Tasks() > manyTasks && !p.json { // its metrics were not taken
		fmt.Fprintf(s.out.App.Writer, "Run %s: interrupted, %s of %d done\n  policy %s on sim, %s so far\n\ntypes "+
			"of task, nodes, estimates: gantry show %s\nlog: %s\n",
			s.name, plural(p.done, "task"), v.Tasks(), s.set.Policy, time.Duration(res.Ended).Round(time.Millisecond),
			s.name, shortPath(s.db.Path()))
		return nil
	}
	if s.collector != nil && v.Tasks() > manyTasks && !p.json {
		values, err := s.db.Metrics(context.WithoutCancel(ctx), s.name)
		if err != nil {
			return err
		}
		fmt.Fprintf(s.out.App.Writer, "Run %s: %s of %s, %d failed or skipped\n  policy %s on sim, makespan %s. "+
			"Times in seconds:\n\n", s.name,
			plural(v.Tasks(), "task"), plural(v.Workflows(), "workflow"), failed, s.set.Policy,
			time.Duration(res.Ended).Round(time.Millisecond))
		if err := printMetrics(s.out.App.Writer, values); err != nil {
			return err
		}
		fmt.Fprintf(s.out.App.Writer, "\ntypes of task, nodes, estimates: gantry show %s\nlog: %s\n", s.name,
			shortPath(s.db.Path()))
		return nil
	}
	most := math.MaxInt
	if s.serving != nil {
		most = mostSummed
	}
	summary, err := s.db.SummaryWithin(context.WithoutCancel(ctx), s.name, most)
	if err != nil {
		return err
	}
	if p.json {
		printJSON(s.out.App.Writer, summary)
		return nil
	}
	printSummary(s.out.App.Writer, summary, "", p.warnings, false)
	return nil
}
