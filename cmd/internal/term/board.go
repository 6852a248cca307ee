package term

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/trace/shown"
)

// board is the progress of a run on a terminal: a line for each node, and one for the run, which are redrawn. Its
// methods are called with the lock of the progress.
type board struct {
	out     io.Writer // the terminal
	rows    int       // of the terminal
	columns int       // of the terminal; 0: any number
	origin  time.Time // of the axis of the run
	nodes   []boardNode
	of      map[planner.AttemptID]boardTask
	draft   *planner.Draft
	// simulated, if set, is the end of the run by a simulation of the remaining work; unit.Never: not known.
	simulated func() planner.Time

	done, total, failed int
	work, worked        time.Duration // declared, of tasks that were admitted and of those that ended
	unknown             bool          // there are programs of which nothing is declared
	asked               time.Time     // when the end was estimated last
	end                 planner.Time  // of the run, estimated; unit.Never: not known
	drawn               int           // lines
	last                time.Time     // when they were drawn
	stop                chan struct{}
}

type boardNode struct {
	name    string
	cores   float64
	running []boardTask
}

type boardTask struct {
	attempt planner.AttemptID
	node    planner.NodeID
	name    string
	cores   float64
	until   planner.Time
	frozen  bool
	unknown bool // until is a default
}

// Bounds of redraws.
const (
	redrawLeast = 200 * time.Millisecond
	redrawMost  = time.Second // remaining times are counted down
)

func newBoard(out io.Writer, p *planner.Platform, draft *planner.Draft, origin time.Time) *board {
	b := &board{out: out, rows: 24, origin: origin, of: map[planner.AttemptID]boardTask{}, draft: draft,
		end: unit.Never, stop: make(chan struct{})}
	if size, err := unix.IoctlGetWinsize(int(os.Stderr.Fd()), unix.TIOCGWINSZ); err == nil && size.Row > 0 {
		b.rows, b.columns = int(size.Row), int(size.Col)
	}
	for i := range p.Nodes {
		b.nodes = append(b.nodes, boardNode{name: p.Nodes[i].Name, cores: coresOf(p.Nodes[i].Capacity)})
	}
	return b
}

func coresOf(v unit.Vector) float64 { return float64(v[unit.CPU]) / 1000 }

// tick redraws the board while nothing happens, until it is cleared for good.
func (b *board) tick(mu *sync.Mutex) {
	t := time.NewTicker(redrawMost)
	defer t.Stop()
	for {
		select {
		case <-b.stop:
			return
		case <-t.C:
			mu.Lock()
			select {
			case <-b.stop:
			default:
				b.draw()
			}
			mu.Unlock()
		}
	}
}

// add adds the declared times of admitted tasks.
func (b *board) add(names []*executor.TaskSpec, tasks []planner.Task) {
	for k := range tasks {
		t := tasks[k].ID
		b.work += declared(names, t)
		b.unknown = b.unknown || int(t) < len(names) && names[t] != nil && names[t].Unknown
	}
}

// take updates the board by a batch of events.
func (b *board) take(v planner.View, events []planner.Event, names []*executor.TaskSpec) {
	for i := range events {
		switch e := events[i].Body.(type) {
		case *planner.WorkflowArrived:
			b.add(names, e.Tasks)
		case *planner.WorkflowGrown:
			b.add(names, e.Tasks)
		case *planner.PlanCommitted:
			for k := range e.Orders {
				if o := &e.Orders[k]; o.Kind == planner.OrderStart && o.Node != planner.None && names[o.Task] != nil {
					b.put(boardTask{o.Attempt, o.Node, names[o.Task].Name, coresOf(o.Hold), o.Until, false,
						names[o.Task].Unknown && o.Est.Source == planner.SourceDefault})
				}
			}
		case planner.AttemptSuspended, planner.AttemptResumed:
			b.suspend(v, e)
		case *planner.AttemptExited:
			if t, ok := b.of[e.Attempt]; ok {
				n := &b.nodes[t.node]
				n.running = slices.DeleteFunc(n.running, func(x boardTask) bool { return x.attempt == e.Attempt })
				delete(b.of, e.Attempt)
			}
			if e.Outcome == planner.OK {
				b.worked += declared(names, v.Attempt(e.Attempt).Task)
			}
		}
	}
	if time.Since(b.asked) >= redrawMost {
		b.asked = time.Now()
		b.end = b.expect(v)
	}
}

// resume takes in a run that is continued as it is.
func (b *board) resume(v planner.View, names []*executor.TaskSpec) {
	for a := range v.UnderWay() {
		if t := v.Attempt(a); t.Node != planner.None && names[t.Task] != nil {
			b.put(boardTask{a, t.Node, names[t.Task].Name, coresOf(t.Hold), t.Until, t.Suspended != unit.Never,
				names[t.Task].Unknown})
		}
	}
	for t := range names {
		d := declared(names, planner.TaskID(t))
		b.unknown = b.unknown || names[t] != nil && names[t].Unknown
		b.work += d
		if d > 0 && v.Phase(planner.TaskID(t)) == planner.Done {
			b.worked += d
		}
	}
}

func declared(names []*executor.TaskSpec, t planner.TaskID) time.Duration {
	if int(t) >= len(names) || names[t] == nil {
		return 0
	}
	return max(names[t].Declared, names[t].Run)
}

func (b *board) put(t boardTask) {
	b.of[t.attempt] = t
	b.nodes[t.node].running = append(b.nodes[t.node].running, t)
}

func (b *board) suspend(v planner.View, e planner.Body) {
	var a planner.AttemptID
	frozen := false
	switch e := e.(type) {
	case planner.AttemptSuspended:
		a, frozen = e.Attempt, true
	case planner.AttemptResumed:
		a = e.Attempt
	}
	if t, ok := b.of[a]; ok {
		for i := range b.nodes[t.node].running {
			if x := &b.nodes[t.node].running[i]; x.attempt == a {
				x.frozen, x.until = frozen, v.Attempt(a).Until
			}
		}
	}
}

// expect estimates the end of the workflows that have arrived: by a simulation of the remaining work; else by the plan,
// put off by the longest delay of a planned start; or, if the policy does not plan ahead, by the declared work at the
// rate so far.
func (b *board) expect(v planner.View) planner.Time {
	if b.simulated != nil {
		if end := b.simulated(); end != unit.Never {
			return end
		}
	}
	if b.unknown {
		return unit.Never
	}
	now, end, left := v.Now(), planner.Time(0), 0
	for _, w := range v.Present() {
		n, _ := v.Progress(w)
		left += n
	}
	for _, t := range b.of {
		end = max(end, t.until, now)
	}
	if b.draft != nil && b.draft.Plans() > 0 && b.draft.Plans()+len(b.of) >= left {
		var late time.Duration
		for n := range b.nodes {
			for s := range b.draft.Planned(planner.NodeID(n)) {
				late = max(late, now.Sub(s.Start))
				end = max(end, s.End)
			}
		}
		return end.Add(late)
	}
	if left <= len(b.of) {
		return end
	}
	if b.done > 0 && b.worked > 0 && now > 0 {
		rest := float64(now) * float64(b.work-b.worked) / float64(b.worked)
		if rest < math.MaxInt64/4 {
			return max(end, now.Add(time.Duration(rest)))
		}
	}
	return unit.Never
}

// changed redraws the board if it was not just now.
func (b *board) changed() {
	if time.Since(b.last) >= redrawLeast {
		b.draw()
	}
}

func (b *board) draw() {
	b.last = time.Now()
	lines := b.lines(planner.Time(time.Since(b.origin)))
	var text strings.Builder
	if b.drawn > 0 {
		fmt.Fprintf(&text, "\x1b[%dA", b.drawn)
	}
	text.WriteString("\r\x1b[?7l") // long lines are cut, not wrapped
	for _, l := range lines {
		text.WriteString(l + "\x1b[K\n")
	}
	text.WriteString("\x1b[?7h\x1b[J")
	_, _ = io.WriteString(b.out, text.String()) // a terminal that is gone shows nothing
	b.drawn = len(lines)
}

// clear takes the board away, so that lines can be printed in its place.
func (b *board) clear() {
	if b.drawn > 0 {
		_, _ = fmt.Fprintf(b.out, "\x1b[%dA\r\x1b[J", b.drawn)
		b.drawn = 0
	}
}

// lines are those of the nodes, as many as the terminal has room for, and that of the run.
func (b *board) lines(now planner.Time) []string {
	wide := 0
	for i := range b.nodes {
		wide = max(wide, len(b.nodes[i].name))
	}
	wide = min(wide, 20)
	shown := b.nodes[:min(len(b.nodes), max(1, b.rows-4))]
	var out []string
	for i := range shown {
		out = append(out, b.nodes[i].line(wide, now))
	}
	if more := len(b.nodes) - len(shown); more > 0 {
		out = append(out, fmt.Sprintf("  and %s", Plural(more, "more node")))
	}
	text := fmt.Sprintf("%d of %s", b.done, Plural(b.total, "task"))
	if b.failed > 0 {
		text += fmt.Sprintf(", %d failed", b.failed)
	}
	text += fmt.Sprintf(", %d running, %s", len(b.of), rough(time.Duration(now)))
	switch {
	case b.end == unit.Never:
	case b.end > now:
		text += fmt.Sprintf("; ends about %s, in %s", b.origin.Add(time.Duration(b.end)).Format("15:04:05"),
			rough(b.end.Sub(now)))
	case b.overdue(now) == 0:
		text += "; about to end"
	}
	const widest, least = 24, 5
	bar := widest
	if b.columns > 0 { // the text comes first
		bar = min(widest, b.columns-len(text)-1)
	}
	if bar >= least {
		full := bar * b.done / max(1, b.total)
		text = strings.Repeat("█", full) + strings.Repeat("░", bar-full) + " " + text
	}
	return append(out, text)
}

// overdueAfter is how much longer than expected a task may run without a word.
const overdueAfter = 2 * time.Second

// overdue counts the tasks that run longer than expected.
func (b *board) overdue(now planner.Time) (n int) {
	for i := range b.nodes {
		for _, t := range b.nodes[i].running {
			if !t.frozen && now.Sub(t.until) > overdueAfter {
				n++
			}
		}
	}
	return n
}

// line lists the tasks on a node with their remaining times, by their ends.
func (n *boardNode) line(wide int, now planner.Time) string {
	held := 0.0
	for _, t := range n.running {
		held += t.cores
	}
	text := fmt.Sprintf("  %-*s  %g of %g cores", wide, harmless(n.name), held, n.cores)
	if len(n.running) == 0 {
		return text + "  idle"
	}
	tasks := slices.Clone(n.running)
	slices.SortStableFunc(tasks, func(x, y boardTask) int { return int(min(1, max(-1, x.until-y.until))) })
	const most = 12
	sep := "  "
	for _, t := range tasks[:min(most, len(tasks))] {
		left := " (any moment)"
		if t.frozen {
			left = " (frozen)"
		} else if t.unknown {
			left = ""
		} else if t.until > now {
			left = " (" + rough(t.until.Sub(now)) + ")"
		} else if over := now.Sub(t.until); over > overdueAfter {
			left = " (" + rough(over) + " over)"
		}
		text += sep + harmless(t.name) + left
		sep = ", "
	}
	if more := len(tasks) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// rough is a span for people: no finer than seconds.
func rough(d time.Duration) string {
	if d < time.Second {
		return "1s"
	}
	return d.Round(time.Second).String()
}

// harmless is a name that fits the board.
func harmless(name string) string { return shown.Short(shown.Line(name), 40) }
