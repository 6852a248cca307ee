package export_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"sort"
	"strings"
	"testing"
	"time"

	"gantry/planner"
	"gantry/sqlite/export"
	"gantry/sqlite/logtest"
)

type traceEvent struct {
	Name      *string
	Cat, Ph   string
	TS        *float64
	Dur       float64
	PID, TID  *int
	ID, BP, S string
	Args      map[string]any
}

// chromeOf exports a run and checks what the Trace Event Format asks for: its members by kind of event, slices of a
// thread that nest, flows and asynchronous slices that have both ends, flows that lie within slices, numeric counters.
func chromeOf(t *testing.T, text []byte) []traceEvent {
	t.Helper()
	var file struct {
		TraceEvents     []traceEvent
		DisplayTimeUnit string
		OtherData       map[string]any
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if file.DisplayTimeUnit != "ms" && file.DisplayTimeUnit != "ns" {
		t.Errorf("displayTimeUnit %q", file.DisplayTimeUnit)
	}
	type thread [2]int
	slices := map[thread][]traceEvent{}
	ends := map[string]map[string]traceEvent{}
	for _, e := range file.TraceEvents {
		if e.Name == nil || e.TS == nil || e.PID == nil || e.TID == nil || *e.TS < 0 {
			t.Fatalf("an event lacks its name, ts, pid or tid: %+v", e)
		}
		switch e.Ph {
		case "X":
			if e.Dur < 0 {
				t.Errorf("%s lasts %v", *e.Name, e.Dur)
			}
			at := thread{*e.PID, *e.TID}
			slices[at] = append(slices[at], e)
		case "M":
			key := map[string]string{"process_name": "name", "process_sort_index": "sort_index", "thread_name": "name",
				"thread_sort_index": "sort_index"}[*e.Name]
			if e.Args[key] == nil {
				t.Errorf("metadata %s has no %q", *e.Name, key)
			}
		case "C":
			if len(e.Args) == 0 {
				t.Errorf("counter %s has no series", *e.Name)
			}
			for k, v := range e.Args {
				if x, ok := v.(float64); !ok || x < 0 {
					t.Errorf("counter %s, series %s: %v", *e.Name, k, v)
				}
			}
		case "b", "e", "s", "f":
			key := map[string]string{"b": "async", "e": "async"}[e.Ph] + e.Cat + e.ID + *e.Name
			if ends[key] == nil {
				ends[key] = map[string]traceEvent{}
			}
			if _, twice := ends[key][e.Ph]; twice || e.ID == "" || e.Cat == "" {
				t.Errorf("%s %s %s is there twice, or has no id or category", e.Ph, *e.Name, e.ID)
			}
			ends[key][e.Ph] = e
		case "i":
			if !strings.Contains("gpt", e.S) {
				t.Errorf("instant %s has scope %q", *e.Name, e.S)
			}
		default:
			t.Errorf("an event of kind %q", e.Ph)
		}
	}
	const tiny = 1e-4 // of a microsecond: less than a nanosecond
	for at, list := range slices {
		sort.SliceStable(list, func(i, j int) bool {
			return *list[i].TS < *list[j].TS || *list[i].TS == *list[j].TS && list[i].Dur > list[j].Dur
		})
		var open []float64
		for _, e := range list {
			for len(open) > 0 && open[len(open)-1] <= *e.TS+tiny {
				open = open[:len(open)-1]
			}
			end := *e.TS + e.Dur
			if len(open) > 0 && end > open[len(open)-1]+tiny {
				t.Errorf("%s overlaps the end of a slice of thread %v", *e.Name, at)
			}
			open = append(open, end)
		}
	}
	for key, pair := range ends {
		from, to := pair["s"], pair["f"]
		if _, async := pair["b"]; async {
			from, to = pair["b"], pair["e"]
		}
		if len(pair) != 2 || *from.TS > *to.TS {
			t.Errorf("%s does not lead from one instant to a later one: %+v", key, pair)
			continue
		}
		for _, e := range []traceEvent{pair["s"], pair["f"]} {
			within := e.Ph == ""
			for _, s := range slices[at(e)] {
				within = within || *s.TS <= *e.TS && *e.TS < *s.TS+s.Dur
			}
			if !within {
				t.Errorf("flow %s lies in no slice", key)
			}
		}
	}
	return file.TraceEvents
}

func at(e traceEvent) [2]int {
	if e.PID == nil {
		return [2]int{-1, -1}
	}
	return [2]int{*e.PID, *e.TID}
}

// told writes events as a line each, those of one kind.
func told(events []traceEvent, kind string) string {
	var b strings.Builder
	for _, e := range events {
		if e.Ph != kind {
			continue
		}
		fmt.Fprintf(&b, "%d.%d %s %.6g", *e.PID, *e.TID, *e.Name, *e.TS/1e6)
		if kind == "X" {
			fmt.Fprintf(&b, "+%.6g", e.Dur/1e6)
		}
		for _, k := range []string{"cores", "MB"} {
			if v, ok := e.Args[k]; ok {
				fmt.Fprintf(&b, " %v", math.Round(v.(float64)*1000)/1000)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func expectText(t *testing.T, got, want string) {
	t.Helper()
	if strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// The diamond: split on n1, its two children on both nodes, one of which fails at first, and join. Nodes count from 1.
func TestChromeShowsNodesSlotsPhasesCountersAndFlows(t *testing.T) {
	db := diamond(t)
	var text bytes.Buffer
	if err := export.Chrome(context.Background(), &text, db, ""); err != nil {
		t.Fatal(err)
	}
	events := chromeOf(t, text.Bytes())
	var attempts, phases []traceEvent
	for _, e := range events {
		if e.Ph == "X" && e.Cat != "phase" {
			attempts = append(attempts, e)
		} else if e.Ph == "X" {
			phases = append(phases, e)
		}
	}
	expectText(t, told(attempts, "X"), "1.1 split_0 0+2\n1.1 work_1 2+3\n2.1 work_2 3+1\n2.1 work_2 5+4\n"+
		"1.1 join_3 9+5")
	expectText(t, told(phases[:3], "X"), "1.1 staging 0+0.25\n1.1 container start 0.25+0.25\n1.1 running 0.5+1.5")
	if a := attempts[2]; a.Args["outcome"] != "out-of-memory" || a.Args["exit_code"] != 137.0 ||
		a.Args["try"] != 1.0 || a.Args["workflow"] != "diamond" || a.Cat != "work" {
		t.Errorf("the attempt that failed: %+v", a)
	}
	// An arrow from each writer to each reader, from the last microsecond of the one to the first of the other.
	expectText(t, told(events, "s"), "1.1 out/0.dat 2\n1.1 out/0.dat 2\n1.1 out/1.dat 5\n2.1 out/2.dat 9")
	expectText(t, told(events, "f"), "1.1 out/0.dat 2\n2.1 out/0.dat 5\n1.1 out/1.dat 9\n1.1 out/2.dat 9")
	var held []traceEvent
	for _, e := range events {
		if *e.Name == "cores held" {
			held = append(held, e)
		}
	}
	// Where one task follows another, nothing changes.
	expectText(t, told(held, "C"), `1.0 cores held 0 1
2.0 cores held 3 1
2.0 cores held 4 0
1.0 cores held 5 0
2.0 cores held 5 1
1.0 cores held 9 1
2.0 cores held 9 0
1.0 cores held 14 0`)
	for _, name := range []string{"cores used", "memory held", "memory used at most"} {
		if !strings.Contains(told(events, "C"), name) {
			t.Errorf("no counter %q", name)
		}
	}
}

// A run under way, with a task that is frozen, one that runs, and names that are made to break the file.
func TestChromeTakesAnyNameAndARunUnderWay(t *testing.T) {
	db := diamond(t)
	l := logtest.New(t, db, logtest.Info("half"))
	hostile := []string{"\"},{<script>\u2028", "\xff\x00\n\\", strings.Repeat("long", 2500), "\u202eright to left"}
	first := l.Arrive(0, "w\"\n", hostile, [][]int32{nil, nil, {0}, nil})
	a := l.Start(0, first, 1, 0, 10*time.Second)
	b := l.Start(0, first+1, 1, 0, 10*time.Second)
	l.Event(2*logtest.Second, &planner.PlanCommitted{Round: 99, Orders: []planner.Order{{Kind: planner.OrderSuspend,
		Attempt: a, Task: first}}})
	l.Event(2*logtest.Second, planner.AttemptSuspended{Attempt: a})
	l.Event(5*logtest.Second, planner.AttemptResumed{Attempt: a})
	l.Exit(8*logtest.Second, a, planner.OK, 0, "")
	l.Start(8*logtest.Second, first+2, 1, 0, time.Second)
	l.Event(9*logtest.Second, &planner.PlanCommitted{Round: 100, Orders: []planner.Order{{Kind: planner.OrderSuspend,
		Attempt: b, Task: first + 1}}})
	l.Event(9*logtest.Second, planner.AttemptSuspended{Attempt: b})
	l.Start(9*logtest.Second, first+3, 1, 1, time.Second)
	l.Event(9500*logtest.Second/1000, planner.Woke{})
	var text bytes.Buffer
	if err := export.Chrome(context.Background(), &text, db, "half"); err != nil {
		t.Fatal(err)
	}
	var away, held []traceEvent
	names := map[string]bool{}
	for _, e := range chromeOf(t, text.Bytes()) {
		if *e.Name == "suspended" {
			away = append(away, e)
		}
		if *e.Name == "cores held" {
			held = append(held, e)
		}
		names[*e.Name] = true
	}
	expectText(t, told(away, "X"), "1.1 suspended 2+3\n1.2 suspended 9+0.5")
	expectText(t, told(held, "C"), "1.0 cores held 0 2\n1.0 cores held 2 1\n1.0 cores held 5 2\n"+
		"1.0 cores held 9 1\n2.0 cores held 9 1")
	for i, name := range hostile {
		if want := strings.ToValidUTF8(fmt.Sprintf("%s_%d", name, i), "\ufffd"); !names[want] {
			t.Errorf("no slice %.40q", want)
		}
	}
	logtest.New(t, db, logtest.Info("bare")) // nothing has arrived yet
	text.Reset()
	if err := export.Chrome(context.Background(), &text, db, "bare"); err != nil {
		t.Fatal(err)
	}
	chromeOf(t, text.Bytes())
}
