package term

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/executor/experiment/load"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/trace/scenario"
)

// A line of the board says what runs on a node, what ends first first, and cannot be made to move the cursor.
func TestTheBoardSaysWhatRunsOnANode(t *testing.T) {
	second := planner.Time(time.Second)
	b := &board{rows: 6, nodes: []boardNode{{name: "n1", cores: 4}, {name: "long-name", cores: 2}}, end: 75 * second,
		of: map[planner.AttemptID]boardTask{}, total: 10, done: 5, origin: time.Unix(0, 0).UTC()}
	b.put(boardTask{attempt: 1, node: 0, name: "late", cores: 1, until: 20 * second})
	b.put(boardTask{attempt: 2, node: 0, name: "evil\x1b[2J\n", cores: 2, until: 3 * second})
	b.put(boardTask{attempt: 3, node: 0, name: "asleep", cores: 0, until: 90 * second, frozen: true})
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

// The end of a run is that of its plan, if the policy plans ahead.
func TestTheBoardExpectsTheEndOfThePlan(t *testing.T) {
	for policy, plans := range map[string]bool{"heft": true, "cpp": false} {
		t.Run(policy, func(t *testing.T) {
			text, err := os.ReadFile("../../../examples/montage/cluster.yaml")
			if err != nil {
				t.Fatal(err)
			}
			cluster, err := scenario.ReadCluster(bytes.NewReader(text), "cluster.yaml")
			if err != nil {
				t.Fatal(err)
			}
			platform, err := executor.PlatformOf(cluster)
			if err != nil {
				t.Fatal(err)
			}
			loader := load.Loader{Platform: platform, TimeScale: 1, Warn: t.Logf}
			w, err := loader.Trace("../../../examples/montage/montage-25.dax")
			if err != nil {
				t.Fatal(err)
			}
			e := enginetest.New(t, platform, enginetest.Policy(t, policy), executor.Submission{Workflow: w, Name: "m"})
			b := newBoard(nil, platform, e.Planner.Draft(), time.Now())
			var names []*executor.TaskSpec
			var ends []planner.Time
			e.Watch = func(v planner.View, events []planner.Event, admitted []*executor.Admission) {
				for _, a := range admitted {
					names = append(names, a.Tasks...)
				}
				b.asked = time.Time{}
				b.take(v, events, names)
				ends = append(ends, b.end)
			}
			res, err := e.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if off := ends[0] - res.Ended; plans && max(off, -off) > res.Ended/100 {
				t.Errorf("at first the end is expected at %v, it is %v", time.Duration(ends[0]),
					time.Duration(res.Ended))
			}
			if last := ends[len(ends)-2]; last == unit.Never || last > res.Ended+planner.Time(time.Second) {
				t.Errorf("in the end, the end is expected at %v, it is %v", time.Duration(last),
					time.Duration(res.Ended))
			}
			if len(b.of) > 0 {
				t.Errorf("%d tasks are still on the board", len(b.of))
			}
		})
	}
}

// The board has no times of tasks of which nothing is known, and none is about to end that runs longer than expected.
func TestTheBoardClaimsNothingThatItDoesNotKnow(t *testing.T) {
	second := planner.Time(time.Second)
	b := &board{rows: 6, nodes: []boardNode{{name: "n", cores: 4}}, end: 5 * second, total: 3,
		of: map[planner.AttemptID]boardTask{}}
	b.put(boardTask{attempt: 1, name: "align", cores: 1, until: second, unknown: true})
	if got := strings.Join(b.lines(4*second), "\n"); !strings.Contains(got, "  align\n") {
		t.Errorf("of a task that is not known it says\n%s", got)
	}
	b.put(boardTask{attempt: 2, name: "call", cores: 1, until: 4 * second})
	if got := strings.Join(b.lines(9*second), "\n"); strings.Contains(got, "about to end") ||
		!strings.Contains(got, "call (5s over)") {
		t.Errorf("of a task that is late it says\n%s", got)
	}
	var names []*executor.TaskSpec
	names = append(names, &executor.TaskSpec{Unknown: true})
	b.add(names, []planner.Task{{ID: 0}})
	if b.simulated = nil; b.unknown != true || b.expect(planner.View{}) != unit.Never {
		t.Error("the end of a run of unknown programs is expected")
	}
}
