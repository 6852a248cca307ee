package sqlite_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/sqlite"
	"gantry/sqlite/logtest"
	"gantry/trace"
)

// step is a workflow of one task.
func step(k int) *trace.Workflow {
	return &trace.Workflow{Name: "w", Label: "w", Tasks: []trace.Task{{ID: fmt.Sprint("t", k),
		Kind: fmt.Sprint("k", k%2), Cores: 1, Retries: -1, Known: trace.Runtime,
		Runtime: time.Duration(5+k) * time.Second}}}
}

// growingEngine simulates three workflows that arrive with one task and grow by four, alternately: each task comes
// after the one before it. The last one of w2 fails.
func growingEngine(t *testing.T, store executor.Store) *executor.Engine {
	t.Helper()
	e := simulated(t, "heft", store, func(l *executor.Launch) (planner.Outcome, float64) {
		if l.Task == 14 { // the last of w2
			return planner.ExitCode, 1
		}
		if l.Try == 1 && l.Task%4 == 1 {
			return planner.Lost, 0.5
		}
		return planner.OK, 1
	})
	for k := range 5 {
		for w := range 3 {
			sub := executor.Submission{Name: fmt.Sprint("w", w), Workflow: step(k), At: planner.Time(k) * 1e9,
				Due: unit.Never}
			if k > 0 {
				sub.Grows = &executor.Growth{Of: planner.WorkflowID(w),
					After: []planner.TaskID{planner.TaskID(3*(k-1) + w)}}
			}
			e.Arrivals = append(e.Arrivals, sub)
		}
	}
	return e
}

func TestAWorkflowThatGrewIsLoggedWhole(t *testing.T) {
	ctx := t.Context()
	logs, paths := newBoth(t)
	e := growingEngine(t, logs)
	var events []planner.Event
	e.Watch = func(_ planner.View, more []planner.Event, _ []*executor.Admission) { events = append(events, more...) }
	if res, err := e.Run(ctx); err != nil || len(res.Refused) > 0 {
		t.Fatal(err, res.Refused)
	}
	must(t, logs.flush(ctx))
	for _, r := range logs.runs {
		must(t, r.Finish(ctx, sqlite.Finished, 0))
		must(t, r.Close())
	}
	for _, path := range paths {
		if err := logtest.Check(ctx, path); err != nil {
			t.Error(err)
		}
		db := open(t, path, sqlite.ReadOnly)
		var read []planner.Event
		must(t, db.Events(ctx, "calm", func(ev planner.Event, _ *executor.Admission) error {
			read = append(read, ev)
			return nil
		}))
		if !reflect.DeepEqual(read, events) {
			t.Errorf("%d events are read as %d others", len(events), len(read))
		}
		a, err := db.Admission(ctx, "calm", 1)
		must(t, err)
		w := a.Submission.Workflow
		if len(w.Tasks) != 5 || len(a.Tasks) != 5 {
			t.Fatalf("workflow 1 has %d tasks", len(w.Tasks))
		}
		for k := range 5 {
			id := a.Arrived.Tasks[k].ID
			if want := planner.TaskID(3*k + 1); id != want || a.Tasks[k].Name != fmt.Sprint("t", k) {
				t.Errorf("task %d is %d, %s", k, id, a.Tasks[k].Name)
			}
			life := &sqlite.Life{Run: "calm", ID: int64(id), Task: a.Tasks[k].Name}
			if spec, err := db.Spec(ctx, life); err != nil || spec == nil {
				t.Errorf("task %d is not at %d of its workflow: %v", id, k, err)
			}
			if k > 0 && (!slices.Equal(w.Tasks[k].Parents, []int32{int32(k - 1)}) ||
				!slices.Equal(w.Tasks[k-1].Children, []int32{int32(k)}) ||
				!slices.Equal(a.Arrived.Tasks[k-1].Children, []planner.TaskID{id})) {
				t.Errorf("task %d: %+v", k, w.Tasks[k])
			}
		}
		rest, ids, err := db.Rest(ctx, "calm", 1, []planner.TaskID{10, 13})
		must(t, err)
		if w := rest.Workflow; !slices.Equal(ids, []planner.TaskID{10, 13}) || len(w.Tasks) != 2 ||
			len(w.Tasks[0].Parents) != 0 || !slices.Equal(w.Tasks[1].Parents, []int32{0}) {
			t.Errorf("of workflow 1 tasks %v are left: %+v", ids, w)
		}
		for _, name := range []string{"w2/t0", "w2/t4"} {
			if life, err := db.Task(ctx, "calm", name); err != nil || life.Workflow+"/"+life.Task != name {
				t.Errorf("task %s: %+v, %v", name, life, err)
			}
		}
		for query, want := range map[string]int{
			"SELECT tasks FROM workflows WHERE workflow = 1":                                        5,
			"SELECT sum(tasks) FROM growths":                                                        12,
			"SELECT count(*) FROM edges":                                                            12,
			"SELECT count(*) FROM v_tasks WHERE state = 'done' AND workflow = 'w2'":                 4,
			"SELECT count(*) FROM tasks WHERE parents IS NOT NULL":                                  12,
			"SELECT count(*) FROM v_workflows WHERE tasks = 5 AND succeeded = 5 AND state = 'done'": 2,
			"SELECT count(*) FROM v_workflows WHERE succeeded = 4 AND failed = 1":                   1,
		} {
			if n, err := sqlite.RowOf[int](ctx, db, query); err != nil || n != want {
				t.Errorf("%s: %d, not %d (%v)", query, n, want, err)
			}
		}
	}
}
