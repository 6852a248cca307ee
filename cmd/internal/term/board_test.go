package term

import (
	"strings"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/trace"
)

// A line of the board says what runs on a node, what ends first first, and cannot be made to move the cursor.
func TestTheBoardSaysWhatRunsOnANode(t *testing.T) {
	second := planner.Time(time.Second)
	b := &board{rows: 6, nodes: []boardNode{{name: "n1", cores: 4}, {name: "long-name", cores: 2}},
		total: 10, done: 5, running: 3, origin: time.Unix(0, 0).UTC(),
		expected: func() planner.Time { return 75 * second }}
	b.nodes[0].running = []boardTask{{name: "late", cores: 1, until: 20 * second},
		{name: "evil\x1b[2J\n", cores: 2, until: 3 * second}, {name: "asleep", until: 90 * second, frozen: true}}
	got := strings.NewReplacer("█", "#", "░", ".").Replace(strings.Join(b.lines(10*second), "\n"))
	want := `  n1         3 of 4 cores  evil^[[2J^J (7s over), late (10s), asleep (frozen)
  long-name  0 of 2 cores  idle
############............ 5 of 10 tasks, 3 running, 10s; ends about 00:01:15, in 1m5s`
	if got != want {
		t.Errorf("the board is\n%s\nnot\n%s", got, want)
	}
	b.columns = 60
	if last := b.lines(10 * second); strings.Contains(last[2], "█") || !strings.HasSuffix(last[2], "in 1m5s") ||
		len(last[2]) > b.columns {
		t.Errorf("on 60 columns the board ends with %q", last[2])
	}
	for range 9 {
		b.nodes = append(b.nodes, boardNode{name: "more", cores: 1})
	}
	if n := len(b.lines(0)); n != 4 { // two nodes, how many more, the run
		t.Errorf("on 6 rows the board has %d lines", n)
	}
}

// The board has each task from its order to its end.
func TestTheBoardFollowsARun(t *testing.T) {
	platform := &planner.Platform{Groups: []string{""}, Nodes: []planner.Node{{Name: "n", Speed: 1,
		Capacity: unit.Vector{2000, unit.Unlimited, unit.Unlimited}}}}
	w := &trace.Workflow{Name: "w", Label: "w"}
	for _, name := range []string{"a", "b", "c"} {
		w.Tasks = append(w.Tasks, trace.Task{ID: name, Kind: "k", Cores: 1, Runtime: time.Second})
	}
	e := enginetest.New(t, platform, enginetest.Policy(t, "cpp"), executor.Submission{Name: "w", Workflow: w})
	b := newBoard(nil, &Begun{Platform: platform, Started: time.Now()})
	var names []*executor.TaskSpec
	var most int
	e.Watch = func(v planner.View, events []planner.Event, admitted []*executor.Admission) {
		for _, a := range admitted {
			names = append(names, a.Tasks...)
		}
		b.take(v, events, names)
		most = max(most, len(b.nodes[0].running))
	}
	enginetest.Run(t, e)
	if most != 2 || b.running > 0 || len(b.known) > 0 {
		t.Errorf("at most %d tasks were on the board, in the end %d and %v", most, b.running, b.known)
	}
}

// The board has no times of tasks of which nothing is known, and none is about to end that runs longer than expected.
func TestTheBoardClaimsNothingThatItDoesNotKnow(t *testing.T) {
	second := planner.Time(time.Second)
	b := &board{rows: 6, nodes: []boardNode{{name: "n", cores: 4}}, total: 3,
		expected: func() planner.Time { return 5 * second }}
	b.nodes[0].running = []boardTask{{name: "align", cores: 1, until: second, unknown: true}}
	if got := strings.Join(b.lines(4*second), "\n"); !strings.Contains(got, "  align\n") {
		t.Errorf("of a task that is not known it says\n%s", got)
	}
	b.nodes[0].running = append(b.nodes[0].running, boardTask{name: "call", cores: 1, until: 4 * second})
	if got := strings.Join(b.lines(9*second), "\n"); strings.Contains(got, "about to end") ||
		!strings.Contains(got, "call (5s over)") {
		t.Errorf("of a task that is late it says\n%s", got)
	}
	b.expected = func() planner.Time { return unit.Never }
	if got := strings.Join(b.lines(9*second), "\n"); strings.Contains(got, "end") {
		t.Errorf("of a run whose end is not known it says\n%s", got)
	}
}
