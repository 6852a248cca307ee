package sqlite_test

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/experiment/metrics"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/policy"
	"gantry/planner/predict"
	"gantry/planner/unit"
	"gantry/sqlite"
	"gantry/sqlite/logtest"
	"gantry/sqlite/report/summary"
	"gantry/trace"
)

// both keeps a run in two logs, some batches at a time: a durable one waits for the disk.
type both struct {
	runs     [2]*sqlite.Run
	gathered executor.Batch
}

func newBoth(t *testing.T) (logs *both, paths [2]string) {
	logs = new(both)
	for i, mode := range []sqlite.Mode{sqlite.Durable, sqlite.Bulk} {
		paths[i] = filepath.Join(t.TempDir(), sqlite.FileName)
		logs.runs[i] = logtest.New(t, open(t, paths[i], mode), logtest.Info("calm")).Run
	}
	return logs, paths
}

func (b *both) Append(ctx context.Context, more executor.Batch) error {
	b.gathered.Events = append(b.gathered.Events, more.Events...)
	b.gathered.Admissions = append(b.gathered.Admissions, more.Admissions...)
	b.gathered.Failed = append(b.gathered.Failed, more.Failed...)
	if len(b.gathered.Events) < 500 {
		return nil
	}
	return b.flush(ctx)
}

func (b *both) flush(ctx context.Context) error {
	for _, r := range b.runs {
		if err := r.Append(ctx, b.gathered); err != nil {
			return err
		}
	}
	b.gathered = executor.Batch{}
	return nil
}

// simulated is an engine that simulates the platform of the log calm.
func simulated(t *testing.T, name string, store executor.Store,
	fault func(*executor.Launch) (planner.Outcome, float64)) *executor.Engine {
	t.Helper()
	info := logtest.Info("calm")
	platform := &info.Platform
	pol, err := policy.Parse(name)
	must(t, err)
	est := &predict.Declared{}
	return &executor.Engine{Planner: planner.New(platform, planner.DefaultRetryRules(), pol, est, 1), Store: store,
		Admit:   &executor.Admitter{Platform: platform, TimeScale: 1, SizeScale: 1, Declare: est.Declare},
		Runtime: sim.New(sim.Config{Platform: platform, Fault: fault})}
}

// A stream whose tasks wait, fail, are tried again and are given up is logged as a real run and as a simulation.
func TestASimulationsLogSaysWhatThatOfARealRunWould(t *testing.T) {
	t.Parallel()
	for _, state := range []sqlite.State{sqlite.Failed, sqlite.Interrupted} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel() // it waits for the disk
			ctx := context.Background()
			logs, paths := newBoth(t)
			var subs []executor.Submission
			for w := range 20 {
				flow := &trace.Workflow{Name: "w", Label: "w"}
				for i := range 12 {
					task := trace.Task{ID: fmt.Sprint("t", i), Kind: fmt.Sprint("k", i%3), Cores: 1, Retries: -1,
						Known:   trace.Runtime,
						Runtime: time.Duration(1+(i*7+w)%9) * time.Second, Imputed: trace.Fields(i % 3)}
					if i > 1 {
						task.Parents = []int32{int32(i / 3)}
						flow.Tasks[i/3].Children = append(flow.Tasks[i/3].Children, int32(i))
					}
					flow.Tasks = append(flow.Tasks, task)
				}
				flow.Tasks[11].Children = []int32{12} // an exit that takes no time
				flow.Tasks = append(flow.Tasks, trace.Task{ID: "exit", Kind: "k0", Cores: 1, Retries: -1,
					Known: trace.Runtime, Parents: []int32{11}})
				subs = append(subs, executor.Submission{Name: fmt.Sprint("w", w), Workflow: flow,
					At: planner.Time(w) * 3e9, Due: unit.Never})
			}
			large := &trace.Workflow{Name: "large", Label: "large"} // more tasks than a chunk has
			for i := range 2500 {
				large.Tasks = append(large.Tasks, trace.Task{ID: fmt.Sprint("t", i), Kind: "k", Cores: 1, Retries: -1,
					Runtime: time.Millisecond, Known: trace.Runtime})
			}
			if state == sqlite.Failed {
				subs = append(subs, executor.Submission{Name: "large", Workflow: large, At: 20e9, Due: unit.Never})
			}
			slices.SortStableFunc(subs, func(a, b executor.Submission) int { return cmp.Compare(a.At, b.At) })
			engine := simulated(t, "fwp", logs, func(l *executor.Launch) (planner.Outcome, float64) {
				switch {
				case l.Task%41 == 7 && l.Try == 1:
					return planner.Lost, 0.5
				case l.Task%97 == 11:
					return planner.ExitCode, 0.25
				}
				return planner.OK, 1
			})
			engine.Arrivals = subs
			stopped, stop := context.WithCancel(ctx)
			defer stop()
			if state == sqlite.Interrupted {
				engine.Watch = func(v planner.View, _ []planner.Event, _ []*executor.Admission) {
					if v.Now() > 100e9 {
						stop()
					}
				}
			}
			if _, err := engine.Run(stopped); err != nil && state != sqlite.Interrupted {
				t.Fatal(err)
			}
			must(t, logs.flush(ctx))
			for _, r := range logs.runs {
				must(t, r.Finish(ctx, state, 1))
			}
			for _, table := range []string{"workflows", "tasks", "edges", "files", "attempts", "waits", "notes",
				"nodes", "v_workflows", "v_tasks", "v_planned", "v_kinds", "v_attempts",
				"v_estimates", "v_utilisation", "v_waits", "v_in_system", "v_events", "v_plans", "clocks"} {
				want, got := dump(t, paths[0], table), dump(t, paths[1], table)
				if len(want) == 0 && table != "v_waits" && table != "notes" && table != "files" {
					t.Errorf("%s: the real run has none", table)
				}
				if !reflect.DeepEqual(want, got) {
					t.Errorf("%s: %d rows of the real run, %d of the simulation", table, len(want), len(got))
					for i := range min(len(want), len(got)) {
						if want[i] != got[i] {
							t.Errorf("real       %s\nsimulation %s", want[i], got[i])
							break
						}
					}
				}
			}
			for _, path := range paths { // what takes no time runs on no node
				if state == sqlite.Interrupted {
					break // before any of it
				}
				if got := rowsOf(t, path, `SELECT count(*) > 15, max(a.node), count(t.node), (SELECT sum(attempts)
					FROM v_utilisation) = (SELECT count(*) FROM attempts WHERE node >= 0)
					FROM attempts a JOIN tasks t USING (run, task) WHERE t.name = 'exit'`); got[0] != "[1 -1 0 1]" {
					t.Errorf("exits: more than 15, their node, tasks with a node, utilisation counts the rest: %v", got)
				}
			}
			for _, path := range paths {
				if err := logtest.Check(ctx, path); err != nil {
					t.Error(err)
				}
			}
			run := "SELECT state, exit_code, ended_ns, makespan_ns FROM runs"
			if want, got := rowsOf(t, paths[0], run), rowsOf(t, paths[1], run); !reflect.DeepEqual(want, got) {
				t.Errorf("run: %v and %v", want, got)
			}
			var lives [2]*sqlite.Life
			for i, path := range paths {
				life, err := open(t, path, sqlite.ReadOnly).Task(ctx, "calm", "#11")
				must(t, err)
				lives[i] = life
			}
			if !reflect.DeepEqual(lives[0], lives[1]) {
				t.Errorf("life of a task: %+v and %+v", lives[0], lives[1])
			}
			var summaries [2]string
			for i, path := range paths {
				s, err := summary.Of(ctx, open(t, path, sqlite.ReadOnly), "calm")
				must(t, err)
				s.Log = ""
				summaries[i] = rounded(t, s)
			}
			if summaries[0] != summaries[1] || !strings.Contains(summaries[0], "exit-code") {
				t.Errorf("summaries:\n%s\n%s", summaries[0], summaries[1])
			}
		})
	}
}

// The rows of a workflow that failed come with its end, as those of one that succeeded do.
func TestAFailedWorkflowOfASimulationHasItsRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	run, err := open(t, path, sqlite.Bulk).CreateRun(t.Context(), logtest.Info("calm"))
	must(t, err)
	a := logtest.Admission("w", []string{"a", "b"}, [][]int32{nil, {0}})
	must(t, run.Append(t.Context(), executor.Batch{Events: []planner.Event{{Seq: 1, Body: &a.Arrived},
		{Seq: 2, Body: &planner.PlanCommitted{Orders: []planner.Order{{Kind: planner.OrderStart, Try: 1}}}},
		{Seq: 3, At: 5, Body: &planner.AttemptExited{Outcome: planner.ExitCode, Usage: planner.Usage{Ended: 5}}}},
		Admissions: []*executor.Admission{a}, Failed: []planner.WorkflowID{0}}))
	if err := run.Replay(t.Context(), func(planner.Event, *executor.Admission) error { return nil }); err != nil {
		t.Fatal(err) // it flushes
	}
	if got := rowsOf(t, path, "SELECT group_concat(t.state), w.state, w.ended_ns FROM workflows w JOIN tasks t "+
		"USING (run, workflow)"); fmt.Sprint(got) != "[[failed,skipped failed 5]]" {
		t.Error(got)
	}
}

// rounded is the JSON of v with nine digits of each fraction: a sum depends on the order of its parts.
func rounded(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	must(t, err)
	return regexp.MustCompile(`-?\d+\.\d+`).ReplaceAllStringFunc(string(text), func(s string) string {
		x, err := strconv.ParseFloat(s, 64)
		must(t, err)
		return strconv.FormatFloat(x, 'g', 9, 64)
	})
}

// dump gives the rows of a table as text, in an order of its own; definitions may differ.
func dump(t *testing.T, path, table string) []string {
	columns := "*"
	if table == "workflows" {
		var names []string
		for _, c := range rowsOf(t, path,
			"SELECT name FROM pragma_table_info('workflows') WHERE name <> 'definition'") {
			names = append(names, strings.Trim(c, "[]"))
		}
		columns = strings.Join(names, ", ")
	}
	rows := rowsOf(t, path, "SELECT "+columns+" FROM "+table)
	slices.Sort(rows)
	return rows
}

func rowsOf(t *testing.T, path, query string) []string {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+path+"?mode=ro")
	must(t, err)
	defer db.Close()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	must(t, err)
	var out []string
	for rows.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		must(t, rows.Scan(into...))
		out = append(out, fmt.Sprint(values))
	}
	return out
}

// Nothing is left beside the file: a statement that stays open would keep SQLite from putting the log in order when it
// is closed.
func TestAClosedLogIsOneFile(t *testing.T) {
	for _, mode := range []sqlite.Mode{sqlite.Durable, sqlite.Bulk} {
		path := filepath.Join(t.TempDir(), sqlite.FileName)
		db, err := sqlite.Open(path, mode)
		must(t, err)
		l := logtest.New(t, db, logtest.Info("calm"))
		l.Arrive(0, "w", []string{"a"}, [][]int32{nil})
		must(t, errors.Join(l.Finish(context.Background(), sqlite.Failed, 1), l.Measure(nil, nil, nil), db.Close()))
		if _, err := os.Stat(path + "-wal"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("mode %d: a log of writes is left beside the file: %v", mode, err)
		}
	}
}

func TestASimulationIsNotGoneOnWith(t *testing.T) {
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	info := logtest.Info("calm")
	info.Runtime = "sim"
	l := logtest.New(t, open(t, path, sqlite.Bulk), info)
	l.Arrive(0, "w", []string{"a"}, [][]int32{nil})
	must(t, l.Finish(context.Background(), sqlite.Interrupted, 130))
	if _, err := open(t, path, sqlite.Durable).OpenRun(context.Background(), "calm"); err == nil ||
		!strings.Contains(err.Error(), "start it again") {
		t.Errorf("got %v", err)
	}
}

func TestMetricsAreKeptWithTheRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	db := open(t, path, sqlite.Bulk)
	l := logtest.New(t, db, logtest.Info("calm"))
	l.Arrive(0, "w", []string{"a"}, [][]int32{nil})
	l.Arrive(logtest.Second, "x", []string{"a", "a"}, [][]int32{nil, nil})
	must(t, l.Finish(context.Background(), sqlite.Finished, 0))
	for _, slowdown := range []float64{9, 1.5} { // the later ones count
		all := []metrics.Workflow{{ID: 0, Started: logtest.Second, Ended: 3 * logtest.Second, Work: 2 * time.Second,
			CriticalPath: 2 * time.Second, Lowest: time.Second}, {ID: 1, Failed: 1}}
		must(t, l.Measure([]metrics.Value{{Name: "slowdown_mean", Value: slowdown},
			{Name: "slowdown_sd", Value: math.NaN()}}, all, []*metrics.Workflow{&all[0]}))
	}
	if got := rowsOf(t, path,
		"SELECT run, name, value FROM v_metrics ORDER BY name"); fmt.Sprint(got) != "[[calm slowdown_mean 1.5] "+
		"[calm slowdown_sd <nil>]]" {
		t.Error(got)
	}
	if got := rowsOf(t, path, "SELECT workflow, tasks, counts, wait_s, response_s, slowdown, slr FROM v_slowdowns "+
		"ORDER BY position"); fmt.Sprint(got) != "[[w 1 1 1 3 1.5 3] [x 2 0 <nil> <nil> <nil> <nil>]]" {
		t.Error(got)
	}
	values, err := db.Metrics(context.Background(), "calm")
	if err != nil || len(values) != 2 || values[0] != (metrics.Value{Name: "slowdown_mean", Value: 1.5}) ||
		values[1].Value == values[1].Value {
		t.Errorf("%v, %v", values, err)
	}
}
