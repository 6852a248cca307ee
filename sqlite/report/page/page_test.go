package page_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/sqlite"
	"gantry/sqlite/logtest"
	"gantry/sqlite/report/page"
)

// shown is the part of the data of a page that tests look at.
type shown struct {
	Live bool
	Runs []struct {
		Name, State, Names string
		Left               bool
		Unit, Makespan     int64
		Failed             int
		Nodes              []struct{ Name string }
		Copies             []copied
		Changes            []changed
		Attempt            map[string][]int64
		Edges              [2][]int64
		Ran                []struct{ Command string }
		Results            []struct{ Name string }
		Without            []string
		Warnings           []struct{ Message string }
		Failures           []struct {
			Task, Outcome, Message string
			Output                 []string
		}
		Others struct{ Note string }
		Answer struct {
			Parts  map[string]int64
			Advice string
			Bound  int64
			Steps  []struct{ Why, What string }
		}
	}
}

type copied struct {
	File                     string
	Node, From, Since, Until int64
}

type changed struct{ Node, At, Millicores int64 }

func unpack(t *testing.T, data []byte) (p shown) {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	must(t, err)
	text, err := io.ReadAll(z)
	must(t, err)
	must(t, json.Unmarshal(text, &p))
	return p
}

func openLog(t *testing.T) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(filepath.Join(t.TempDir(), sqlite.FileName), sqlite.Durable)
	must(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

// Of the 14 s of the run its critical path computes for 1.5 s, 3.5 s and 4.5 s, is staged and started three times for a
// quarter of a second each, waits from 2 to 3 s for memory and from 4 to 5 s for a core, and loses the attempt between.
func TestTheAnswerIsTheMeasuredCriticalPath(t *testing.T) {
	db := openLog(t)
	logtest.Diamond(t, db, "d")
	data, over, err := page.Data(t.Context(), db, "d", page.Options{})
	if err != nil || !over {
		t.Fatal(over, err)
	}
	r := unpack(t, data).Runs[0]
	for part, want := range map[string]float64{"computing": 9.5, "container start": 0.75, "staging": 0.75,
		"waiting for a node": 2, "lost to failed attempts": 1} {
		if got := float64(r.Answer.Parts[part]) / 1e9; got != want {
			t.Errorf("%s: %v s, want %v", part, got, want)
		}
	}
	if r.Makespan != 14e9 || r.Answer.Bound != 9.5e9 || len(r.Answer.Parts) != 5 {
		t.Errorf("%+v", r)
	}
	if want := "Faster tasks would have shortened the run most: 9.5 s of the 14 s of the critical path (68 %) went " +
		"into computing, 4.5 s of them into tasks of type join."; r.Answer.Advice != want {
		t.Errorf("it advises: %s", r.Answer.Advice)
	}
	var why []string
	for _, s := range r.Answer.Steps {
		if s.What == "waiting for a node" {
			why = append(why, s.Why)
		}
	}
	if len(why) != 2 || !strings.Contains(why[0], "memory") || !strings.Contains(why[1], "core") {
		t.Errorf("it waits because %q", why)
	}
	if r.Names != "split_0\nwork_1\nwork_2\njoin_3\n" || len(r.Nodes) != 2 || len(r.Attempt["task"]) != 5 ||
		len(r.Edges[0]) != 4 || len(r.Warnings) != 1 {
		t.Errorf("%+v", r)
	}
}

// A page is whole: it loads nothing, and its policy lets the browser run its own script alone.
func TestAPageIsOneFile(t *testing.T) {
	db := openLog(t)
	logtest.Diamond(t, db, "a")
	logtest.Diamond(t, db, "b")
	var b bytes.Buffer
	o := page.Options{Now: time.Unix(0, 0),
		Output:  func(run, _, task string, try int) []string { return []string{run, task} },
		Command: func(spec *executor.TaskSpec) string { return "run " + spec.Name },
		Results: func(run string, flows []string) ([]page.Result, int) {
			return []page.Result{{Name: run + "/" + strings.Join(flows, " ")}}, 0
		}}
	must(t, page.Write(t.Context(), &b, db, []string{"a", "b"}, o))
	text := b.String()
	if regexp.MustCompile(`(?i)(src|href)="?https?:`).MatchString(text) || strings.Contains(text, "connect-src") ||
		!strings.Contains(text, "<title>a, b · gantry</title>") {
		t.Error("it loads something, or has another title")
	}
	match := regexp.MustCompile(`id="data">([^<]*)<`).FindStringSubmatch(text)
	data, err := base64.StdEncoding.DecodeString(match[1])
	must(t, err)
	p := unpack(t, data)
	if len(p.Runs) != 2 || p.Runs[1].Failed != 1 || len(p.Runs[1].Failures) != 1 {
		t.Fatalf("%+v", p)
	}
	r := p.Runs[1]
	if f := r.Failures[0]; f.Outcome != "out-of-memory" || !slices.Equal(f.Output, []string{"b", "work_2"}) ||
		f.Task != "diamond/work_2" || !strings.Contains(f.Message, "oom_kill") {
		t.Errorf("%+v", f)
	}
	if len(r.Ran) != 4 || r.Ran[3].Command != "run join_3" || len(r.Results) != 1 || r.Results[0].Name != "b/diamond" {
		t.Errorf("%+v, %+v", r.Ran, r.Results)
	}
	for _, make := range []func(string) ([]byte, string, error){page.Document, page.List} {
		text, policy, err := make("<b>")
		if err != nil || !strings.Contains(policy, "connect-src 'self'") || !bytes.Contains(text, []byte("&lt;b&gt;")) {
			t.Errorf("%s (%v)", policy, err)
		}
	}
}

// A run under way has tasks that wait, run and were suspended, and the computed part of its page may fail.
func TestAPageOfARunUnderWay(t *testing.T) {
	db := openLog(t)
	info := logtest.Info("now")
	info.Platform.Overlapped = true
	l := logtest.New(t, db, info)
	first := l.Arrive(0, "f", []string{"a", "b"}, [][]int32{nil, {0}})
	a := l.Start(0, first, 1, 0, 5*time.Second)
	l.Event(logtest.Second, planner.AttemptSuspended{Attempt: a})
	l.Event(2*logtest.Second, planner.AttemptResumed{Attempt: a})
	l.Plan(3*logtest.Second, planner.Wait{Task: first + 1, Reason: planner.Reason{Code: planner.WaitsForParents}})
	l.Event(3*logtest.Second, &planner.PlanCommitted{Orders: []planner.Order{
		{Kind: planner.OrderCopy, Node: 1, File: 0}, {Kind: planner.OrderCopy, Node: 0, File: 1, From: 1}}})
	l.Event(4*logtest.Second, planner.FileAppeared{File: 0, Node: 1})
	l.Event(5*logtest.Second, planner.NodeChanged{Node: 1, Capacity: unit.Vector{unit.CPU: 500}})
	l.Event(6*logtest.Second, planner.NodeChanged{Node: 1})
	data, over, err := page.Data(t.Context(), db, "now", page.Options{Live: true,
		Left: func(run, runtime string) bool { return run == "now" && runtime == "docker" }})
	if err != nil || over {
		t.Fatal(over, err)
	}
	p := unpack(t, data)
	if r := p.Runs[0]; !p.Live || !r.Left || r.State != "running" || r.Makespan != 0 || len(r.Attempt["task"]) != 1 ||
		r.Answer.Advice != "" {
		t.Errorf("%+v", r)
	} else if s := int64(time.Second); len(r.Copies) != 2 || len(r.Changes) != 2 ||
		r.Copies[0] != (copied{"in.dat", 1, 0, 3 * s, 4 * s}) ||
		r.Copies[1] != (copied{"out/0.dat", 0, 1, 3 * s, 0}) ||
		r.Changes[0] != (changed{1, 5 * s, 500}) || r.Changes[1] != (changed{1, 6 * s, 0}) {
		t.Errorf("files on their way %+v, nodes that changed %+v", r.Copies, r.Changes)
	}
	if _, _, err := page.Data(t.Context(), db, "none", page.Options{}); err == nil ||
		!strings.Contains(err.Error(), "read run none") {
		t.Errorf("a run that is not there: %v", err)
	}
}

// must ends a test at an error that it does not look for.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
