package sqlite_test

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/seed/seedtest"
	"gantry/planner/unit"
	"gantry/sqlite"
	"gantry/sqlite/logtest"
	"gantry/trace"
)

func TestMain(m *testing.M) {
	if path := os.Getenv("GANTRY_TEST_APPENDER"); path != "" {
		appendForEver(path)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("database/sql.(*DB).connectionOpener"))
}

func open(t testing.TB, path string, mode sqlite.Mode) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(path, mode)
	must(t, err)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// query reads one column of one row with a connection of its own, as a person with sqlite3 would.
func query[T any](t testing.TB, path, q string, args ...any) T {
	t.Helper()
	raw, err := sql.Open("sqlite3", "file:"+path+"?mode=ro")
	must(t, err)
	defer raw.Close()
	var v T
	if err := raw.QueryRow(q, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	return v
}

func drawInt[T ~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~int](t *rapid.T, lo, hi int64) T {
	return T(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(lo, hi)).Draw(t, "n"))
}

// fill sets every number and string below v.
func fill(t *rapid.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i))
		}
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.OneOf(rapid.Just(int64(0)), rapid.Just(int64(math.MaxInt64)), rapid.Int64()).Draw(t, "n"))
	case reflect.Int32:
		v.SetInt(int64(rapid.OneOf(rapid.Just(int32(0)), rapid.Just(int32(planner.None)), rapid.Int32()).Draw(t, "n")))
	case reflect.Float64:
		v.SetFloat(rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 1)).Draw(t, "f"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "b"))
	case reflect.Uint8, reflect.Uint16:
		v.SetUint(uint64(rapid.Uint8().Draw(t, "n")))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, "n"))
	case reflect.Pointer:
		if rapid.Bool().Draw(t, "set") {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem())
		}
	case reflect.String:
		v.SetString(rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()),
			func(b []byte) string { return string(b) })).Draw(t, "s"))
	case reflect.Slice:
		if n := rapid.IntRange(-1, 3).Draw(t, "len"); n >= 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				fill(t, v.Index(i))
			}
		}
	case reflect.Func: // what is admitted was drawn
	default:
		t.Fatalf("cannot fill %v", v.Type())
	}
}

// link draws which of n tasks are whose parents: their children follow from that.
func link[I ~int32](t *rapid.T, n int, of func(int) (parents, children *[]I)) {
	for i := range n {
		parents, children := of(i)
		*parents, *children = nil, nil
	}
	for i := range n {
		for p := range n {
			if i != p && rapid.Bool().Draw(t, "parent") {
				parents, _ := of(i)
				_, children := of(p)
				*parents, *children = append(*parents, I(p)), append(*children, I(i))
			}
		}
	}
}

// fillAdmission sets all there is in an admission whose tasks and files are numbered from 0.
func fillAdmission(t *rapid.T) *executor.Admission {
	a := new(executor.Admission)
	fill(t, reflect.ValueOf(a).Elem())
	if a.Spec == nil {
		a.Spec = new(executor.WorkflowSpec)
	}
	a.Spec.ID = 0
	for i := range a.Files {
		a.Files[i] = new(executor.FileSpec)
		fill(t, reflect.ValueOf(a.Files[i]).Elem())
	}
	a.Arrived.Workflow.ID, a.Arrived.Workflow.Class = 0, drawInt[planner.Class](t, 0, 2)
	if w := a.Submission.Workflow; w != nil {
		w.Format = drawInt[trace.Format](t, 0, 3)
		link(t, len(w.Tasks), func(i int) (_, _ *[]int32) { return &w.Tasks[i].Parents, &w.Tasks[i].Children })
	}
	if d := a.Submission.Data; d != nil {
		d.Rule = executor.Random
	}
	for i := range a.Arrived.Files {
		a.Arrived.Files[i].ID, a.Arrived.Files[i].Homes = planner.FileID(i), nil
	}
	link(t, len(a.Arrived.Tasks), func(i int) (_, _ *[]planner.TaskID) {
		return &a.Arrived.Tasks[i].Parents, &a.Arrived.Tasks[i].Children
	})
	a.Tasks = make([]*executor.TaskSpec, len(a.Arrived.Tasks))
	for i := range a.Tasks {
		task, spec := &a.Arrived.Tasks[i], new(executor.TaskSpec)
		task.ID, task.Workflow = planner.TaskID(i), 0
		task.Inputs = nil
		fill(t, reflect.ValueOf(spec).Elem())
		spec.Workflow = a.Spec
		spec.Name, spec.Kind = cmp.Or(spec.Name, "task"), cmp.Or(spec.Kind, "kind")
		if w := a.Submission.Workflow; w != nil && i < len(w.Tasks) && rapid.Bool().Draw(t, "named in the trace") {
			w.Tasks[i].ID, w.Tasks[i].Kind = spec.Name, spec.Kind
		}
		for _, refs := range []*[]*executor.FileSpec{&spec.Inputs, &spec.Outputs} {
			if len(a.Files) == 0 || len(*refs) == 0 {
				*refs = nil
			}
			for k := range *refs {
				(*refs)[k] = rapid.SampledFrom(a.Files).Draw(t, "file")
			}
		}
		a.Tasks[i] = spec
	}
	return a
}

func TestEveryAdmissionComesBackAsItWasAppended(t *testing.T) {
	durable := open(t, filepath.Join(t.TempDir(), sqlite.FileName), sqlite.Durable)
	bulk := open(t, filepath.Join(t.TempDir(), sqlite.FileName), sqlite.Bulk)
	runs := 0
	seedtest.Check(t, func(rt *rapid.T) {
		runs++
		run, err := rapid.SampledFrom([]*sqlite.DB{bulk, durable}).Draw(rt, "log").CreateRun(t.Context(),
			logtest.Info(fmt.Sprint("run", runs)))
		if err != nil {
			rt.Fatal(err)
		}
		defer run.Close()
		admission := fillAdmission(rt)
		admission.Submission.ID = 0 // the log has these elsewhere
		admission.Submission.Grows, admission.Submission.Joins = nil, nil
		if err := run.Append(t.Context(), executor.Batch{Events: []planner.Event{{Seq: 1, Body: &admission.Arrived}},
			Admissions: []*executor.Admission{admission}}); err != nil {
			rt.Fatal(err)
		}
		if err := run.Replay(t.Context(), func(_ planner.Event, a *executor.Admission) error {
			if !reflect.DeepEqual(a, admission) {
				rt.Fatalf("admission\n%+v, want\n%+v", a, admission)
			}
			return nil
		}); err != nil {
			rt.Fatal(err)
		}
	})
}

func TestADamagedDefinitionIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	db := open(t, path, sqlite.Bulk)
	run, err := db.CreateRun(t.Context(), logtest.Info("calm"))
	must(t, err)
	admission := logtest.Admission("w", []string{"a", "b", "a"}, [][]int32{nil, {0}, {0, 1}})
	must(t, run.Append(t.Context(), executor.Batch{Events: []planner.Event{{Seq: 1, Body: &admission.Arrived}},
		Admissions: []*executor.Admission{admission}}))
	nothing := func(planner.Event, *executor.Admission) error { return nil }
	must(t, run.Replay(t.Context(), nothing))
	raw, err := sql.Open("sqlite3", "file:"+path)
	must(t, err)
	defer raw.Close()
	whole := query[[]byte](t, path, "SELECT definition FROM workflows")
	for cut := range len(whole) {
		if _, err := raw.Exec("UPDATE workflows SET definition = ?", whole[:cut]); err != nil {
			t.Fatal(err)
		}
		if err := run.Replay(t.Context(), nothing); err == nil {
			t.Fatalf("%d of %d bytes were read", cut, len(whole))
		}
	}
	for i := range whole { // whatever comes of it, it comes to an end
		changed := slices.Clone(whole)
		changed[i] ^= 0xff
		if _, err := raw.Exec("UPDATE workflows SET definition = ?", changed); err != nil {
			t.Fatal(err)
		}
		_ = run.Replay(t.Context(), nothing)
	}
}

func TestEveryBodyComesBackAsItWasAppended(t *testing.T) {
	durable := open(t, filepath.Join(t.TempDir(), sqlite.FileName), sqlite.Durable)
	bulk := open(t, filepath.Join(t.TempDir(), sqlite.FileName), sqlite.Bulk)
	runs := 0
	seedtest.Check(t, func(rt *rapid.T) {
		runs++
		db := rapid.SampledFrom([]*sqlite.DB{bulk, durable}).Draw(rt, "log")
		run, err := db.CreateRun(context.Background(), logtest.Info(fmt.Sprint("run", runs)))
		if err != nil {
			rt.Fatal(err)
		}
		defer run.Close()
		admission := logtest.Admission("w", []string{"a", "b", "a"}, [][]int32{nil, {0}, {0, 1}})
		events := []planner.Event{{Seq: 1, Body: &admission.Arrived},
			{Seq: 2, Body: &planner.PlanCommitted{Orders: []planner.Order{{Kind: planner.OrderStart}}}}}
		// Attempt 0 of task 0 is all there is: what else a body says may be anything.
		for range rapid.IntRange(1, 6).Draw(rt, "events") {
			var body planner.Body
			switch rapid.IntRange(2, 10).Draw(rt, "kind") {
			case 2:
				body = planner.AttemptStarted{}
			case 3:
				body = planner.AttemptSuspended{}
			case 4:
				body = planner.AttemptResumed{}
			case 5:
				b := new(planner.AttemptExited)
				fill(rt, reflect.ValueOf(b).Elem())
				b.Attempt, b.Outcome = 0, rapid.SampledFrom(planner.Outcomes()).Draw(rt, "outcome")
				b.Message = strings.ToValidUTF8(b.Message, "?")
				body = b
			case 6:
				var b planner.FileAppeared
				fill(rt, reflect.ValueOf(&b).Elem())
				body = b
			case 7:
				var b planner.NodeChanged
				fill(rt, reflect.ValueOf(&b).Elem())
				body = b
			case 8:
				body = planner.Woke{}
			case 9:
				b := new(planner.PlanCommitted)
				fill(rt, reflect.ValueOf(b).Elem())
				for i := range b.Orders {
					b.Orders[i].Task, b.Orders[i].Attempt = drawInt[planner.TaskID](rt, 0, 2),
						drawInt[planner.AttemptID](rt, 5, 9)
					b.Orders[i].Est.Source = drawInt[planner.Source](rt, 0, 5)
					if b.Orders[i].Kind == planner.OrderStart {
						b.Orders[i].Kind = planner.OrderKill // no second attempt of one number
					}
				}
				for i := range b.Reasons {
					b.Reasons[i].Task = drawInt[planner.TaskID](rt, 0, 2)
					b.Reasons[i].Reason.Code = drawInt[planner.ReasonCode](rt, 1, 8)
					b.Reasons[i].Reason.Dim = drawInt[unit.Dim](rt, 0, 2)
				}
				for i := range b.Notes { // words of gantry's own
					b.Notes[i].Topic = strings.ToValidUTF8(b.Notes[i].Topic, "?")
					b.Notes[i].Text = strings.ToValidUTF8(b.Notes[i].Text, "?")
				}
				body = b
			case 10:
				var b planner.WorkflowCancelled
				body = b
			}
			events = append(events, planner.Event{Seq: uint64(len(events) + 1),
				At: planner.Time(rapid.Int64().Draw(rt, "at")), Body: body})
		}
		cut := rapid.IntRange(0, len(events)).Draw(rt, "cut")
		first := executor.Batch{Events: events[:cut]}
		second := executor.Batch{Events: events[cut:]}
		if cut > 0 {
			first.Admissions = []*executor.Admission{admission}
		} else {
			second.Admissions = []*executor.Admission{admission}
		}
		for _, b := range []executor.Batch{first, second} {
			if err := run.Append(context.Background(), b); err != nil {
				rt.Fatal(err)
			}
		}
		var got []planner.Event
		if err := run.Replay(context.Background(), func(e planner.Event, a *executor.Admission) error {
			if a != nil && !reflect.DeepEqual(a, admission) {
				rt.Fatalf("admission\n%+v, want\n%+v", a, admission)
			}
			got = append(got, e)
			return nil
		}); err != nil {
			rt.Fatal(err)
		}
		if !reflect.DeepEqual(got, events) {
			rt.Fatalf("got  %+v\nwant %+v", got, events)
		}
	})
}

func TestARunCanBeReadAsTablesWhileItGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	db := open(t, path, sqlite.Durable)
	l := logtest.New(t, db, logtest.Info("calm"))
	first := l.Arrive(0, "w", []string{"a", "b", "b"}, [][]int32{nil, {0}, {0}})
	a := l.Start(0, first, 1, 0, time.Second)
	state := func(task string) string {
		return query[string](t, path, "SELECT state FROM v_tasks WHERE run = 'calm' AND task = ?", task)
	}
	expect := func(got, want any) {
		t.Helper()
		if got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	expect(state("a_0"), "running")
	expect(state("b_1"), "waiting")
	l.Exit(2*logtest.Second, a, planner.OK, 0, "")
	expect(state("a_0"), "done")
	expect(state("b_1"), "ready")
	l.Plan(2*logtest.Second, planner.Wait{Task: first + 1, Reason: planner.Reason{Code: planner.NoNodeFree,
		Dim: unit.Memory}})
	expect(query[string](t, path, "SELECT reason || ' ' || dim FROM v_waits WHERE task = 'b_1'"), "no-node-free memory")
	b := l.Start(3*logtest.Second, first+1, 1, 1, time.Second)
	l.Exit(4*logtest.Second, b, planner.ExitCode, 2, "returned 2")
	expect(state("b_1"), "failed")
	l.Plan(4*logtest.Second, planner.Wait{Task: first + 1, Reason: planner.Reason{Code: planner.NoNodeFree}})
	expect(state("b_1"), "ready")
	b = l.Start(5*logtest.Second, first+1, 2, 1, time.Second)
	l.Exit(6*logtest.Second, b, planner.ExitCode, 2, "returned 2")
	must(t, l.Finish(context.Background(), sqlite.Failed, 1))
	expect(state("b_1"), "failed")
	expect(state("b_2"), "skipped")
	expect(query[float64](t, path, "SELECT makespan_s FROM v_runs"), 6.0)
	expect(query[string](t, path, "SELECT state FROM v_workflows"), "failed")
	expect(query[float64](t, path, "SELECT wait_s FROM v_tasks WHERE task = 'b_1'"), 1.0)
	expect(query[int64](t, path, "SELECT count(*) FROM attempts WHERE cpu_throttled_ns IS NULL"), int64(3))
	expect(query[float64](t, path, "SELECT measured_s FROM v_estimates"), 1.75) // staged at 0.25 s, ended at 2 s
	expect(query[float64](t, path, "SELECT runtime_s FROM v_estimates"), 1.5)
	expect(query[float64](t, path, "SELECT held_core_s FROM v_utilisation WHERE node = 'n1'"), 2.0)
	for _, view := range []string{"v_runs", "v_attempts", "v_tasks", "v_estimates", "v_kinds", "v_workflows",
		"v_utilisation"} {
		if n := query[int](t, path, "SELECT count(*) FROM "+view); n == 0 {
			t.Errorf("%s is empty", view)
		}
	}
	expect(query[string](t, path, "PRAGMA integrity_check"), "ok")
}

func TestUtilisationIsOfEachRunAndNode(t *testing.T) {
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	db := open(t, path, sqlite.Durable)
	logtest.Diamond(t, db, "whole")
	l := logtest.New(t, db, logtest.Info("half"))
	task := l.Arrive(0, "a", []string{"k", "k"}, [][]int32{nil, nil})
	done := l.Start(logtest.Second, task, 1, 1, time.Second)
	l.Start(2*logtest.Second, task+1, 1, 1, time.Second) // still runs
	l.Exit(4*logtest.Second, done, planner.OK, 0, "")
	const row = "SELECT concat_ws(' ', attempts, cores, span_s, held_core_s, round(held_pct, 4), " +
		"coalesce(used_core_s, '-')) FROM v_utilisation WHERE run = ? AND node = ?"
	for _, c := range []struct{ run, node, want string }{
		{"whole", "n1", "3 2.0 14.0 10.0 35.7143 7.4375"}, {"whole", "n2", "2 2.0 14.0 5.0 17.8571 3.5"},
		{"half", "n1", "0 2.0 4.0 0.0 0.0 -"}, {"half", "n2", "2 2.0 4.0 5.0 62.5 2.1875"},
	} {
		if got := query[string](t, path, row, c.run, c.node); got != c.want {
			t.Errorf("%s on %s: %s, want %s", c.run, c.node, got, c.want)
		}
	}
}

func TestReadersNeitherFailNorStopTheWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	db := open(t, path, sqlite.Durable)
	l := logtest.New(t, db, logtest.Info("busy"))
	kinds, parents := make([]string, 20), make([][]int32, 20)
	for i := range kinds {
		kinds[i] = fmt.Sprint("kind", i%5)
	}
	first := l.Arrive(0, "w", kinds, parents)
	done := make(chan struct{})
	var begun, readers sync.WaitGroup
	for i := range 8 {
		begun.Add(1)
		readers.Go(func() {
			reading := sync.OnceFunc(begun.Done)
			defer reading()
			raw, err := sql.Open("sqlite3", "file:"+path+"?mode=ro") // no busy timeout: a lock would show at once
			if err != nil {
				t.Error(err)
				return
			}
			defer raw.Close()
			for last := 0; ; {
				var n int
				row := raw.QueryRow("SELECT coalesce(sum(attempts), 0) FROM v_kinds WHERE run = 'busy'")
				if err := row.Scan(&n); err != nil {
					t.Errorf("reader %d: %v", i, err)
					return
				}
				if n < last {
					t.Errorf("reader %d saw %d attempts, then %d", i, last, n)
				}
				last = n
				reading()
				select {
				case <-done:
					if n == len(kinds) {
						return
					}
				default:
				}
			}
		})
	}
	begun.Wait() // they read while the rest is written
	for i := range kinds {
		at := planner.Time(i) * logtest.Second
		l.Exit(at+logtest.Second, l.Start(at, first+planner.TaskID(i), 1, 0, time.Second), planner.OK, 0, "")
	}
	close(done)
	readers.Wait()
}

func TestSamplesAndWarningsAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	db := open(t, path, sqlite.Durable)
	l := logtest.New(t, db, logtest.Info("calm"))
	a := l.Start(0, l.Arrive(0, "w", []string{"a"}, [][]int32{nil}), 1, 0, time.Second)
	for i := range 100 {
		l.Sample(sqlite.Sample{Attempt: a, At: planner.Time(i), CPU: time.Duration(i), Memory: 5,
			Missing: planner.CounterIO})
	}
	for range 3 {
		must(t, l.Warn("clock-skew", "the clock jumps"))
	}
	must(t, l.Close())
	if n := query[int](t, path,
		"SELECT count(*) FROM samples WHERE memory_bytes = 5 AND read_bytes IS NULL"); n != 100 {
		t.Errorf("%d samples", n)
	}
	if n := query[int](t, path, "SELECT count FROM warnings WHERE rule = 'clock-skew'"); n != 3 {
		t.Errorf("warned %d times", n)
	}
}

func TestAnAppendThatFailsLeavesTheLogAsItWas(t *testing.T) {
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	db := open(t, path, sqlite.Durable)
	l := logtest.New(t, db, logtest.Info("calm"))
	first := l.Arrive(0, "w", []string{"a", "b"}, [][]int32{nil, {0}})
	a := l.Start(0, first, 1, 0, time.Second) // event 3 is the last
	exit := planner.Event{Seq: 4, At: 5, Body: &planner.AttemptExited{Attempt: a, Outcome: planner.OK}}
	for name, bad := range map[string]planner.Event{
		"a gap":               {Seq: 7, At: 5, Body: planner.Woke{}},
		"an attempt of none":  {Seq: 5, At: 5, Body: planner.AttemptStarted{Attempt: 99}},
		"a task not admitted": {Seq: 5, At: 5, Body: &planner.PlanCommitted{Reasons: []planner.Wait{{Task: 50}}}},
		"an order for no task": {Seq: 5, At: 5,
			Body: &planner.PlanCommitted{Orders: []planner.Order{{Kind: planner.OrderStart, Task: 50}}}},
		"an attempt twice": {Seq: 5, At: 5,
			Body: &planner.PlanCommitted{Orders: []planner.Order{{Kind: planner.OrderStart, Task: first,
				Attempt: a}}}},
	} {
		if err := l.Append(context.Background(), executor.Batch{Events: []planner.Event{exit, bad}}); err == nil {
			t.Errorf("%s was appended", name)
		}
		if n := query[int](t, path, "SELECT count(*) FROM events"); n != 3 {
			t.Fatalf("%d events after %s", n, name)
		}
	}
	must(t, l.Append(context.Background(), executor.Batch{Events: []planner.Event{exit}}))
	if s := query[string](t, path, "SELECT state FROM tasks WHERE task = 0"); s != "done" {
		t.Errorf("task is %s", s)
	}
}

func TestAResumedRunGoesOnWhereTheLogEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	db := open(t, path, sqlite.Durable)
	l := logtest.New(t, db, logtest.Info("calm"))
	first := l.Arrive(0, "w", []string{"a", "b"}, [][]int32{nil, {0}})
	a := l.Start(0, first, 1, 0, time.Second)
	began := logtest.Info("calm").Started.Add(20 * time.Millisecond)
	must(t, l.Began(began))
	must(t, l.Finish(context.Background(), sqlite.Interrupted, 130))
	run, err := db.OpenRun(context.Background(), "calm")
	must(t, err)
	want := logtest.Info("calm")
	want.Started = began
	if !reflect.DeepEqual(run.Info(), want) {
		t.Errorf("got  %+v\nwant %+v", run.Info(), want)
	}
	must(t, run.Append(context.Background(), executor.Batch{Events: []planner.Event{
		{Seq: 4, At: 9, Body: &planner.AttemptExited{Attempt: a, Outcome: planner.OK,
			Usage: planner.Usage{Ended: 9}}}}}))
	must(t, run.Finish(context.Background(), sqlite.Failed, 1))
	if s := query[string](t, path, "SELECT state || resumes || exit_code FROM runs"); s != "failed11" {
		t.Errorf("run is %s", s)
	}
	if s := query[string](t, path, "SELECT group_concat(state) FROM tasks"); s != "done,skipped" {
		t.Errorf("tasks are %s", s)
	}
}

func TestWhatCannotBeOpenedSaysWhy(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	for _, c := range []struct {
		name, path string
		mode       sqlite.Mode
		want       string
	}{
		{"nothing there", filepath.Join(dir, "none"), sqlite.ReadOnly, "no log at"},
		{"no directory", filepath.Join(dir, "no/such"), sqlite.Durable, "see that the directory exists"},
		{"another file", write("text", strings.Repeat("not a database ", 100)), sqlite.ReadOnly,
			"not a log of gantry's"},
		{"another file to be written", write("text2", strings.Repeat("not a database ", 100)), sqlite.Durable,
			"not a log of gantry's"},
		{"an empty file", write("empty", ""), sqlite.ReadOnly, "no log in"},
	} {
		t.Run(c.name, func(t *testing.T) {
			db, err := sqlite.Open(c.path, c.mode)
			if err == nil {
				db.Close()
				t.Fatal("it was opened")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q does not say %q", err, c.want)
			}
		})
	}
}

func TestRunsAreFoundByNameAndPrefix(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), sqlite.FileName), sqlite.Durable)
	for _, name := range []string{"calm-hopper-1111", "calm-turing-2222", "bold-lovelace-3333"} {
		logtest.New(t, db, logtest.Info(name))
	}
	if _, err := db.CreateRun(context.Background(), logtest.Info("calm-hopper-1111")); err == nil {
		t.Error("a name was given twice")
	}
	for _, c := range []struct{ ask, want string }{
		{"calm-hopper-1111", "calm-hopper-1111"}, {"calm-t", "calm-turing-2222"}, {"", "bold-lovelace-3333"},
		{"calm", ""}, {"none", ""}} {
		_, name, err := db.Find(t.Context(), c.ask)
		unknown := new(sqlite.Unknown)
		switch {
		case c.want == "" && (!errors.As(err, &unknown) || !strings.HasSuffix(err.Error(),
			"known: bold-lovelace-3333, calm-turing-2222, calm-hopper-1111")):
			t.Errorf("%q: %v", c.ask, err)
		case c.want != "" && (err != nil || name != c.want):
			t.Errorf("%q: %v %v", c.ask, name, err)
		}
	}
}

func TestAChangeOfPolicyIsLogged(t *testing.T) {
	for _, mode := range []sqlite.Mode{sqlite.Durable, sqlite.Bulk} {
		path := filepath.Join(t.TempDir(), sqlite.FileName)
		l := logtest.New(t, open(t, path, mode), logtest.Info("calm"))
		l.Arrive(0, "w", []string{"a"}, [][]int32{nil})
		l.Event(logtest.Second, planner.PolicyChanged{Policy: "cpp"})
		must(t, l.Finish(t.Context(), sqlite.Failed, 1))
		if got := query[string](t, path, "SELECT r.policy || ' ' || p.seq || ' ' || p.at_ns || ' ' || p.policy "+
			"FROM runs r JOIN policies p ON p.run = r.id"); got != "cpp 2 1000000000 cpp" {
			t.Errorf("mode %d: %s", mode, got)
		}
		if err := logtest.Check(t.Context(), path); err != nil {
			t.Error(err)
		}
	}
}

// The expected end of a run under way is of no use once it has ended.
func TestTheExpectedEndGoesWithTheRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	l := logtest.New(t, open(t, path, sqlite.Durable), logtest.Info("calm"))
	l.Arrive(0, "w", []string{"a"}, [][]int32{nil})
	for _, x := range []sqlite.Prediction{{Scope: sqlite.ScopeRun, Expected: 7}, {Scope: sqlite.ScopeRest, Expected: 8},
		{Scope: sqlite.ScopeRest, Expected: 9}} {
		must(t, l.Predict([]sqlite.Prediction{x}))
	}
	const all = "SELECT group_concat(scope || ' ' || expected_ns) FROM predictions"
	if got := query[string](t, path, all); got != "rest 9,run 7" {
		t.Errorf("while it is under way: %s", got)
	}
	must(t, l.Finish(t.Context(), sqlite.Interrupted, 130))
	if got := query[string](t, path, all); got != "run 7" {
		t.Errorf("afterwards: %s", got)
	}
}

// A host has a warning once for all runs there.
func TestWarningsOfAHostAreKnown(t *testing.T) {
	db, err := sqlite.Open(filepath.Join(t.TempDir(), sqlite.FileName), sqlite.Durable)
	must(t, err)
	defer db.Close()
	for _, c := range []struct {
		run, host, message string
		known              bool
	}{{"a", "calm", "no swap", false}, {"b", "calm", "no swap", true}, {"c", "calm", "no disk", false},
		{"d", "busy", "no swap", false}} {
		info := logtest.Info(c.run)
		info.Host.Name = c.host
		l := logtest.New(t, db, info)
		known, err := l.Warned(c.message)
		if err != nil || known != c.known {
			t.Errorf("run %s on %s: %q is known: %v (%v)", c.run, c.host, c.message, known, err)
		}
		must(t, l.Warn("rule", c.message))
		if again, err := l.Warned(c.message); err != nil || again != c.known {
			t.Errorf("run %s: its own warning is known: %v (%v)", c.run, again, err)
		}
		must(t, l.Finish(t.Context(), sqlite.Finished, 0))
	}
}

// must ends a test at an error that it does not look for.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
