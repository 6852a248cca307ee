package report

import (
	"encoding/xml"
	"errors"
	"fmt"
	"image/color"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gantry/planner"
	"gantry/sqlite"
	"gantry/sqlite/logtest"
	"gantry/sqlite/report/history"
)

// drawn draws the runs of a log and returns the text of each file by its name; SVG must be XML.
func drawn(t *testing.T, all ...*Timeline) map[string]string {
	t.Helper()
	var runs []Figure
	for _, x := range all {
		runs = append(runs, Figure{Run: x.Name, Policy: x.Policy, Timeline: x})
	}
	files, err := RunFigures(runs, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(path)] = string(text)
		for d := xml.NewDecoder(strings.NewReader(string(text))); filepath.Ext(path) == ".svg"; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
		}
	}
	return out
}

func timelineOf(t *testing.T, db *sqlite.DB, run string) *Timeline {
	t.Helper()
	x, err := ReadTimeline(t.Context(), db, run)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestTimelineHasEveryAttemptAtItsPlace(t *testing.T) {
	db, err := sqlite.Open(filepath.Join(t.TempDir(), sqlite.FileName), sqlite.Durable)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	logtest.Diamond(t, db, "calm")
	const s = int64(logtest.Second)
	calm := timelineOf(t, db, "calm")
	got := ""
	for _, b := range calm.bars {
		got += fmt.Sprintf("%s %d %g-%g-%g %g %v\n", calm.Tasks[b.Task].Name, b.row, float64(b.Queued)/1e9,
			float64(b.Started)/1e9, float64(b.to)/1e9, float64(b.Planned)/1e9, calm.failed(&b))
	}
	const want = `split_0 0 0-0.5-2 2 false
work_1 0 2-2.5-5 5 false
work_2 1 3-3.5-4 6 true
work_2 1 5-5.5-9 8 false
join_3 0 9-9.5-14 13 false
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	l := logtest.New(t, db, logtest.Info("half"))
	first := l.Arrive(0, "w", []string{"</svg><script>", "\x00\xff", "\u202e"}, [][]int32{nil, nil, nil})
	a := l.Start(0, first, 1, 0, 10*time.Second)
	l.Start(0, first+1, 1, 0, 10*time.Second)
	l.Event(2*logtest.Second, &planner.PlanCommitted{Round: 99, Orders: []planner.Order{{Kind: planner.OrderSuspend,
		Attempt: a, Task: first}}})
	l.Event(2*logtest.Second, planner.AttemptSuspended{Attempt: a})
	l.Event(6*logtest.Second, planner.AttemptResumed{Attempt: a})
	half := timelineOf(t, db, "half")
	if b := half.bars[0]; b.Ended >= 0 || b.to != 6*s || len(b.away) != 1 || b.away[0] != [2]int64{2 * s, 6 * s} {
		t.Errorf("the attempt that was frozen: %+v", b)
	}
	if half.bars[1].row != 1 || half.rows() != 3 {
		t.Errorf("%d rows", half.rows())
	}
	logtest.New(t, db, logtest.Info("bare"))
	for name, text := range drawn(t, calm, half, timelineOf(t, db, "bare")) {
		if strings.HasSuffix(name, ".svg") && strings.Contains(text, "<script") {
			t.Errorf("%s has a script", name)
		}
		switch name {
		case "calm-half-bare-timeline.csv":
			for _, row := range []string{"calm,n2,diamond,work_2,work,3,3.5,4,6,out-of-memory\n",
				"half,n1,w,</svg><script>_0,</svg><script>,0,0.5,,10,\n"} {
				if n := strings.Count(text, "\n"); n != 8 || !strings.Contains(text, row) {
					t.Errorf("%d lines, or no %q:\n%s", n, row, text)
				}
			}
		case "calm-utilisation.csv":
			if !strings.Contains(text, "cores,held by tasks") || !strings.Contains(text, "cores,used") {
				t.Errorf("%s:\n%s", name, text)
			}
		}
		if strings.HasSuffix(name, "timeline.svg") && (!strings.Contains(text, "makespan 14") ||
			!strings.Contains(text, "under way for 6") || !strings.Contains(text, "failed")) {
			t.Errorf("%s lacks a title or a legend", name)
		}
	}
}

// Of 10,000 tasks the picture stays small: what is narrower than a point is drawn as one.
func TestTimelineOfManyTasksStaysSmall(t *testing.T) {
	h := &history.Run{Name: "many", Policy: "cpp", Clock: 1e12, Makespan: new(int64(1e12)),
		Nodes: make([]history.Node, 4), Workflows: []history.Workflow{{Name: "w"}}, Kinds: history.NewList(),
		Outcomes: history.NewList("")}
	for i := range h.Nodes {
		h.Nodes[i] = history.Node{Name: fmt.Sprint("n", i), Millicores: 1000, Lanes: 1}
	}
	for i := range 10_000 {
		from := int64(i/4) * 4e8
		h.Tasks = append(h.Tasks, history.Task{Name: fmt.Sprint(i), Kind: h.Kinds.Number(fmt.Sprint("kind", i/1000))})
		h.Attempts = append(h.Attempts, history.Attempt{Task: i, Node: i % 4, Queued: from, Started: from,
			Ended: from + 4e8, Planned: from + 4e8, Millicores: 1000})
	}
	for name, text := range drawn(t, newTimeline(h)) {
		if strings.HasSuffix(name, ".svg") && len(text) > 400_000 {
			t.Errorf("%s has %d bytes", name, len(text))
		}
	}
}

func TestCourseKeepsSumsOrTheirMeans(t *testing.T) {
	got := ""
	for _, p := range course([]change{{0, 2000}, {1e9, 1000}, {1e9, -500},
		{3e9, -2500}}, 4e9, 1e3) {
		got += fmt.Sprintf("%g:%g ", p.X, p.Value.Mean)
	}
	if want := "0:2 1:2.5 3:0 4:0 "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	var many []change // on for 1 s, off for 3 s
	for i := range int64(5000) {
		many = append(many, change{i * 4e9, 8000}, change{i*4e9 + 1e9, -8000})
	}
	points := course(many, 20_000e9, 1e3)
	for _, p := range points {
		if p.Value.Mean < 1.999999 || p.Value.Mean > 2.000001 {
			t.Fatalf("a mean of %v, want 2", p.Value.Mean)
		}
	}
	if len(points) != bins+1 {
		t.Errorf("%d points", len(points))
	}
}

// In grey and in print, too, series differ: each colour has a lightness of its own, each line other dashes and markers.
func TestSeriesDifferWithoutColour(t *testing.T) {
	all := append([]color.RGBA{grey}, palette...)
	for i, a := range all {
		for k, b := range all[:i] {
			if d := lightness(a) - lightness(b); max(d, -d) < 18 {
				t.Errorf("colours %d and %d are as light as each other: %d and %d", k, i, lightness(b), lightness(a))
			}
		}
	}
	seen := map[string]int{}
	for i := range 24 { // policies
		look := fmt.Sprintf("%v %T", lineOf(i).Dashes, markOf(i).Shape)
		if k, is := seen[look]; is {
			t.Errorf("series %d looks as %d", i, k)
		}
		seen[look] = i
	}
}
