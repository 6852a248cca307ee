package export_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/sqlite"
	"gantry/sqlite/export"
	"gantry/sqlite/logtest"
	"gantry/trace"
	"gantry/trace/reader"
)

func diamond(t *testing.T) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(filepath.Join(t.TempDir(), sqlite.FileName), sqlite.Durable)
	must(t, err)
	t.Cleanup(func() { db.Close() })
	logtest.Diamond(t, db, "calm")
	return db
}

// dataDir is where the shared traces and schemas lie.
func dataDir(t *testing.T) string {
	dir := os.Getenv("GANTRY_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("needs the shared data: %v (GANTRY_DATA names another place)", err)
	}
	return dir
}

func TestWfFormatIsValidAndTellsWhatHappened(t *testing.T) {
	db := diamond(t)
	// A run under way: tasks without a measured runtime are in the specification only.
	l := logtest.New(t, db, logtest.Info("half"))
	first := l.Arrive(0, "odd name/ü", []string{"a", "b"}, [][]int32{nil, {0}})
	// Gantry knew of the end at 2 s, half a second after it.
	l.Event(2*logtest.Second, &planner.AttemptExited{Attempt: l.Start(0, first, 1, 1, time.Second), Ran: time.Second,
		Outcome: planner.OK, Usage: planner.Usage{Started: logtest.Second / 2, Ended: 3 * logtest.Second / 2}})
	l.Start(2*logtest.Second, first+1, 1, 0, time.Second)
	// b reads 1000 bytes from another node, which takes a second by the link. The rest of the time around it stays.
	linked := logtest.Info("linked")
	linked.Platform.Join(0, 0, 1000, 0)
	l = logtest.New(t, db, linked)
	first = l.Arrive(0, "chain", []string{"a", "b", "c"}, [][]int32{nil, {0}, {0}})
	l.Exit(2*logtest.Second, l.Start(0, first, 1, 1, time.Second), planner.OK, 0, "")
	for i := range planner.TaskID(2) { // c finds the file there
		at := planner.Time(2+4*i) * logtest.Second
		l.Event(at+4*logtest.Second, &planner.AttemptExited{Attempt: l.Start(at, first+1+i, 1, 0, time.Second),
			Ran: time.Second, Outcome: planner.OK, Usage: planner.Usage{Queued: at, Staged: at + 2*logtest.Second,
				Started: at + 3*logtest.Second, Ended: at + 4*logtest.Second, CopiedBytes: 1000 * unit.Bytes(1-i)}})
	}
	for _, c := range []struct {
		run, workflow string
		executed      int
		machines      int
	}{{"calm", "diamond", 4, 2}, {"half", "odd name/ü", 1, 1}, {"linked", "chain", 3, 2}} {
		var text bytes.Buffer
		write, err := export.WfFormat(context.Background(), db, c.run, onDocker, &trace.Estimates{Learn: true,
			From: []trace.Measurement{{Kind: "a", Runtime: time.Second}}})
		must(t, err)
		must(t, write(&text, c.workflow))
		t.Run("schema/"+c.run, func(t *testing.T) {
			schema, err := jsonschema.NewCompiler().Compile(filepath.Join(dataDir(t), "schemas", "wfformat",
				"wfformat-1.5.json"))
			must(t, err)
			value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text.Bytes()))
			must(t, err)
			if err := schema.Validate(value); err != nil {
				t.Error(err)
			}
		})
		var f struct {
			Workflow struct {
				Specification struct{ Tasks []struct{ ID string } }
				Execution     struct {
					MakespanInSeconds float64
					Tasks             []struct {
						ID               string
						RuntimeInSeconds float64
						MemoryInBytes    float64
						AvgCPU           float64
						Overhead         float64 `json:"overheadInSeconds"`
						ExecutedAt       string
						Machines         []string
					}
					Machines []struct {
						NodeName string
						CPU      struct{ SpeedInMHz int }
					}
				}
			}
		}
		must(t, json.Unmarshal(text.Bytes(), &f))
		e := f.Workflow.Execution
		if len(e.Tasks) != c.executed || len(e.Machines) != c.machines {
			t.Errorf("%s: %d tasks on %d machines", c.run, len(e.Tasks), len(e.Machines))
		}
		if c.run == "linked" {
			if b, c := e.Tasks[1].Overhead, e.Tasks[2].Overhead; b != 2 || c != 3 {
				t.Errorf("of 4 s, a program runs 1 and a copy takes 1: %v s are around it, and without the copy %v",
					b, c)
			}
			continue
		}
		if c.run != "calm" {
			if e.Tasks[0].Overhead != 1 {
				t.Errorf("around a program of 1 s that was known to be over after 2 s: %+v", e.Tasks[0])
			}
			continue
		}
		// work_2 ran out of memory once: what counts is its second attempt, from 5.5 s to 9 s on the node of half
		// speed.
		w := e.Tasks[2]
		if e.MakespanInSeconds != 14 || w.ID != "work_2" || w.RuntimeInSeconds != 3.5 || w.MemoryInBytes != 50e6 ||
			w.AvgCPU != 87.5 ||
			w.Machines[0] != "n2" || w.ExecutedAt != "2026-11-21T10:30:05.75Z" || e.Machines[1].CPU.SpeedInMHz != 1200 {
			t.Errorf("%+v", e)
		}
		flow, faults, err := trace.Read(bytes.NewReader(text.Bytes()), "export.json", trace.ReadOptions{})
		if err != nil || reader.HasErrors(faults) || flow.Tasks[2].Runtime != 1750*time.Millisecond {
			t.Errorf("it does not read back: %v %v %+v", faults, err, flow.Tasks[2])
		}
	}
}

func TestTraceHasNextflowsColumnsAndUnits(t *testing.T) {
	db := diamond(t)
	rows := func(run string) [][]string {
		var text strings.Builder
		must(t, export.Nextflow(context.Background(), &text, db, run, onDocker))
		var rows [][]string
		for line := range strings.Lines(text.String()) {
			rows = append(rows, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
		}
		return rows
	}
	check := func(row int, want string) {
		t.Helper()
		got := rows("calm")[row]
		hash := regexp.MustCompile(`^[0-9a-f]{2}/[0-9a-f]{6}$`)
		if row > 0 {
			if !hash.MatchString(got[1]) {
				t.Errorf("hash %q", got[1])
			}
			got[1] = "HASH"
			got[2] = regexp.MustCompile(`^gantry-calm-[0-9a-f]{6}-`).ReplaceAllString(got[2], "gantry-calm-DIR-")
		}
		if s := strings.Join(got, "|"); s != want {
			t.Errorf("got  %s\nwant %s", s, want)
		}
	}
	const head = "task_id|hash|native_id|name|status|exit|submit|duration|realtime|%cpu|peak_rss|peak_vmem|rchar|" +
		"wchar|process|cpus|memory|start|complete|cpu_model"
	check(0, head)
	check(1, "1|HASH|gantry-calm-DIR-a0|split (split_0)|COMPLETED|0|2026-11-21 "+
		"10:30:00.250|2s|1.5s|87.5%|47.7 MB|-|1.9 MB|976.6 KB|split|1|64 MB|"+
		"2026-11-21 10:30:00.750|2026-11-21 10:30:02.250|AMD EPYC 7763")
	l := logtest.New(t, db, logtest.Info("boundless"))
	l.Event(0, &planner.PlanCommitted{Orders: []planner.Order{{Kind: planner.OrderStart,
		Task: l.Arrive(0, "w", []string{"a"}, [][]int32{nil}), Hold: unit.Vector{unit.CPU: 500}, Try: 1}}})
	if row := rows("boundless")[1]; row[15] != "1" || row[16] != "-" {
		t.Errorf("half a core without a bound of memory is %v", row)
	}
}

func TestTraceWritesDurationsAsNextflowDoes(t *testing.T) {
	db, err := sqlite.Open(filepath.Join(t.TempDir(), sqlite.FileName), sqlite.Durable)
	must(t, err)
	defer db.Close()
	l := logtest.New(t, db, logtest.Info("calm"))
	want := []string{"999ms", "1s", "1.2s", "59.9s", "1m", "4m 19s", "1h 1s", "1d 2h 3m 4s"}
	spans := []time.Duration{999 * time.Millisecond, time.Second, 1249 * time.Millisecond, 59900 * time.Millisecond,
		time.Minute, 259 * time.Second,
		time.Hour + time.Second, 26*time.Hour + 184*time.Second}
	kinds := make([]string, len(spans))
	first := l.Arrive(0, "w", kinds, make([][]int32, len(spans)))
	for i, d := range spans {
		l.Exit(planner.Time(d), l.Start(0, first+planner.TaskID(i), 1, 0, 0), planner.OK, 0, "")
	}
	var text strings.Builder
	must(t, export.Nextflow(context.Background(), &text, db, "", onDocker))
	for i, line := range strings.Split(strings.TrimSpace(text.String()), "\n")[1:] {
		if got := strings.Split(line, "\t")[7]; got != want[i] {
			t.Errorf("%v is %q, want %q", spans[i], got, want[i])
		}
	}
}

func TestTablesHaveARowForEachAttemptAndForTasksWithout(t *testing.T) {
	db := diamond(t)
	l := logtest.New(t, db, logtest.Info("half"))
	l.Exit(2*logtest.Second, l.Start(0, l.Arrive(0, "w", []string{"a", "b"}, [][]int32{nil, {0}}), 1, 1, time.Second),
		planner.OK, 0, "")
	logtest.New(t, db, logtest.Info("bare")) // nothing has arrived yet
	for _, c := range []struct {
		run  string
		rows int
	}{{"calm", 5}, {"half", 2}, {"bare", 0}} {
		var text bytes.Buffer
		must(t, export.CSV.Both(context.Background(), &text, db, c.run))
		table, err := csv.NewReader(&text).ReadAll()
		must(t, err)
		if len(table) != c.rows+1 {
			t.Errorf("%s: %d rows", c.run, len(table)-1)
		}
		// A task that waits for a place is ready, as v_tasks says.
		if ready := slices.Index(table[0], "ready_ns"); c.run == "half" && table[2][ready] != "2000000000" {
			t.Errorf("b, which nobody ordered, is ready at %q", table[2][ready])
		}
	}
}

func TestTablesHaveTheFilesOfTasks(t *testing.T) {
	db := diamond(t)
	var text bytes.Buffer
	must(t, export.CSV.Tasks(t.Context(), &text, db, "calm"))
	table, err := csv.NewReader(&text).ReadAll()
	must(t, err)
	for i, want := range map[string]string{
		"split_0": `[{"name":"in.dat","size_bytes":1000}] [{"name":"out/0.dat","size_bytes":1000}]`,
		"join_3": `[{"name":"out/1.dat","size_bytes":2000},{"name":"out/2.dat","size_bytes":3000}] ` +
			`[{"name":"out/3.dat","size_bytes":4000}]`} {
		row := table[slices.IndexFunc(table, func(row []string) bool { return slices.Contains(row, i) })]
		if got := row[slices.Index(table[0], "inputs")] + " " + row[slices.Index(table[0], "outputs")]; got != want {
			t.Errorf("files of %s: %s, want %s", i, got, want)
		}
	}
}

// onDocker is what the exports depend on of the runtime that the runs of the tests were on.
var onDocker = &executor.Capabilities{Name: "docker", Programs: true, Attempts: "gantry-%s-a%d"}

// must ends a test at an error that it does not look for.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
