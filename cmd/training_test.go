package cmd

import (
	"database/sql"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"gantry/planner"
	"gantry/planner/predict"
	"gantry/planner/unit"
	"gantry/sqlite"
	"gantry/sqlite/logtest"
)

func TestTrainingIsOfAttemptsThatEndedWell(t *testing.T) {
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	db, err := sqlite.Open(path, sqlite.Durable)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	logtest.Diamond(t, db, "diamond")
	// Three at once, one of which is preempted and does the rest later; the fourth begins while two of them are under
	// way.
	info := logtest.Info("loaded")
	info.Started, info.Runtime = info.Started.Add(-time.Hour), "sim"
	l := logtest.New(t, db, info)
	first := l.Arrive(0, "w", []string{"a", "b", "c", "d"}, make([][]int32, 4))
	var at [4]planner.AttemptID
	for i := range 3 {
		at[i] = l.Start(0, first+planner.TaskID(i), 1, 0, time.Second)
	}
	l.Exit(2*logtest.Second, at[0], planner.Preempted, -1, "")
	at[3] = l.Start(3*logtest.Second, first+3, 1, 0, time.Second)
	again := l.Start(4*logtest.Second, first, 2, 1, time.Second)
	for i, a := range []planner.AttemptID{at[1], at[2], at[3], again} {
		l.Exit(planner.Time(10+i)*logtest.Second, a, planner.OK, 0, "")
	}
	sample := func(kind string, input unit.Bytes, speed float64, load int, declared, ran float64) predict.Sample {
		return predict.Sample{Kind: kind, Declared: time.Duration(declared * 1e9), Ran: time.Duration(ran * 1e9),
			Peak:     50e6,
			Features: predict.Features{Input: input, CPU: 1000, Memory: 64 << 20, Speed: speed, Load: load}}
	}
	want := map[string][]predict.Sample{
		"loaded": {sample("b", 1000, 1, 0, 2, 9.5), sample("c", 1000, 1, 0, 3, 10.5), sample("d", 1000, 1, 2, 4, 8.5)},
		"diamond": {sample("split", 1000, 1, 0, 1, 1.5), sample("work", 1000, 1, 0, 2, 2.5), sample("work", 1000, 0.5,
			0, 6, 3.5), sample("join", 5000, 1, 0, 4, 4.5)},
	}
	got, err := trainingOf(t.Context(), db, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Name != "loaded" || got[1].Name != "diamond" {
		t.Fatalf("runs, which are to be in the order of time: %+v", got)
	}
	for _, r := range got {
		if !reflect.DeepEqual(r.Samples, want[r.Name]) || r.LeftOut[unsized] != 0 {
			t.Errorf("%s: %+v\nwant %+v", r.Name, r.Samples, want[r.Name])
		}
	}
	if docker, err := trainingOf(t.Context(), db, "docker"); err != nil || len(docker) != 1 ||
		docker[0].Name != "diamond" {
		t.Errorf("on docker: %+v, %v", docker, err)
	}

	raw, err := sql.Open("sqlite3", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	// The input of one task grew meanwhile, and a CPU limit held one back.
	if _, err := raw.Exec(`UPDATE tasks SET imputed_bits = 3 WHERE kind = 'join';
		UPDATE attempts SET input_bytes = (SELECT t.input_bytes FROM tasks t WHERE t.run = attempts.run AND
			t.task = attempts.task);
		UPDATE tasks SET kind = 'b' WHERE kind = 'c';
		UPDATE attempts SET input_bytes = 2000 WHERE run = 2 AND task = 1;
		UPDATE attempts SET cpu_throttled_ns = ran_ns / 2 WHERE run = 2 AND task = 2`); err != nil {
		t.Fatal(err)
	}
	all, err := trainingOf(t.Context(), db, "sim")
	if err != nil {
		t.Fatal(err)
	}
	if r := all[0]; len(r.Samples) != 2 || r.LeftOut[resized] != 1 || r.LeftOut[heldBack] != 1 {
		t.Errorf("with an input that grew and a limit that held one back: %d samples, %v", len(r.Samples), r.LeftOut)
	}
	docker, err := trainingOf(t.Context(), db, "docker")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range docker[0].Samples {
		if (s.Declared == 0) != (s.Kind == "join") {
			t.Errorf("a runtime that a rule filled in counts as declared, or others do not: %+v", s)
		}
	}
}
