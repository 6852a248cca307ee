package term

import (
	"fmt"
	"io"
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
	out      io.Writer // the terminal
	rows     int       // of the terminal
	columns  int       // of the terminal; 0: any number
	origin   time.Time // of the axis of the run
	nodes    []boardNode
	known    map[planner.AttemptID]bool // attempts whose estimate is no default
	running  int
	expected func() planner.Time // the end of the run by a simulation of the rest; unit.Never: not known

	done, total, failed int
	drawn               int       // lines
	last                time.Time // when they were drawn
	stop                chan struct{}
}

type boardNode struct {
	name    string
	cores   float64
	running []boardTask
}

type boardTask struct {
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

func newBoard(out io.Writer, r *Begun) *board {
	b := &board{out: out, rows: 24, origin: r.Started, known: map[planner.AttemptID]bool{}, expected: r.Expected,
		stop: make(chan struct{})}
	if size, err := unix.IoctlGetWinsize(int(os.Stderr.Fd()), unix.TIOCGWINSZ); err == nil && size.Row > 0 {
		b.rows, b.columns = int(size.Row), int(size.Col)
	}
	for i := range r.Platform.Nodes {
		n := &r.Platform.Nodes[i]
		b.nodes = append(b.nodes, boardNode{name: n.Name, cores: coresOf(n.Capacity)})
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

// take takes in the tasks under way after a batch of events; of a run that is continued there are none.
func (b *board) take(v planner.View, events []planner.Event, names []*executor.TaskSpec) {
	for i := range events {
		switch e := events[i].Body.(type) {
		case *planner.PlanCommitted:
			for _, o := range e.Orders {
				if o.Kind == planner.OrderStart && o.Est.Source != planner.SourceDefault {
					b.known[o.Attempt] = true
				}
			}
		case *planner.AttemptExited:
			delete(b.known, e.Attempt)
		}
	}
	b.running = 0
	for i := range b.nodes {
		b.nodes[i].running = b.nodes[i].running[:0]
	}
	for a := range v.UnderWay() {
		if t := v.Attempt(a); t.Node != planner.None && names[t.Task] != nil {
			n := &b.nodes[t.Node]
			n.running = append(n.running, boardTask{names[t.Task].Name, coresOf(t.Hold), t.Until,
				t.Suspended != unit.Never, names[t.Task].Unknown && !b.known[a]})
			b.running++
		}
	}
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
	text += fmt.Sprintf(", %d running, %s", b.running, rough(time.Duration(now)))
	switch end := b.expected(); {
	case end == unit.Never:
	case end > now:
		text += fmt.Sprintf("; ends about %s, in %s", b.origin.Add(time.Duration(end)).Format("15:04:05"),
			rough(end.Sub(now)))
	case b.overdue(now) == 0:
		text += "; about to end"
	}
	const widest, least = 24, 5
	wide = widest
	if b.columns > 0 { // the text comes first
		wide = min(widest, b.columns-len(text)-1)
	}
	if wide >= least {
		text = bar(wide, int64(b.done), int64(b.total)) + " " + text
	}
	return append(out, text)
}

// bar is a line that is full as far as something is done.
func bar(wide int, done, total int64) string {
	full := int(int64(wide) * min(done, total) / max(1, total))
	return strings.Repeat("█", full) + strings.Repeat("░", wide-full)
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
