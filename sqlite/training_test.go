package sqlite_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"path/filepath"
	"reflect"
	"strings"
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
	db := open(t, path, sqlite.Durable)
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
	got, err := db.Training(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Name != "loaded" || got[1].Name != "diamond" {
		t.Fatalf("runs, which are to be in the order of time: %+v", got)
	}
	for _, r := range got {
		if !reflect.DeepEqual(r.Samples, want[r.Name]) || r.LeftOut[sqlite.Unsized] != 0 {
			t.Errorf("%s: %+v\nwant %+v", r.Name, r.Samples, want[r.Name])
		}
	}
	if docker, err := db.Training(t.Context(), "docker"); err != nil || len(docker) != 1 ||
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
	all, err := db.Training(t.Context(), "sim")
	if err != nil {
		t.Fatal(err)
	}
	if r := all[0]; len(r.Samples) != 2 || r.LeftOut[sqlite.Resized] != 1 || r.LeftOut[sqlite.Held] != 1 {
		t.Errorf("with an input that grew and a limit that held one back: %d samples, %v", len(r.Samples), r.LeftOut)
	}
	docker, err := db.Training(t.Context(), "docker")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range docker[0].Samples {
		if (s.Declared == 0) != (s.Kind == "join") {
			t.Errorf("a runtime that a rule filled in counts as declared, or others do not: %+v", s)
		}
	}
}

func TestModelsAreKeptWithTheirProvenance(t *testing.T) {
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	db := open(t, path, sqlite.Durable)
	logtest.Diamond(t, db, "diamond")
	runs, err := db.Training(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	fits := predict.Fit(runs[0].Samples)
	m := sqlite.TrainedModel{Name: "m", Method: predict.Auto, Created: time.Date(2026, 11, 22, 3, 0, 0, 5, time.UTC),
		Gantry: "0.1", Runtime: "docker", TimeScale: 1,
		SizeScale: 0.5, Runs: []string{"diamond"}, Samples: 4, HeldOut: []string{},
		Scores: fits.Evaluate(runs[0].Samples), Model: fits.Model(predict.Auto)}
	for version := 1; version <= 2; version++ {
		if err := db.KeepModel(t.Context(), &m); err != nil || m.Version != version {
			t.Fatalf("version %d: %d, %v", version, m.Version, err)
		}
	}
	text := func(m *sqlite.TrainedModel) string {
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, name := range []string{"", "m", "m@2"} {
		got, err := db.FindModel(t.Context(), name)
		if err != nil || text(got) != text(&m) {
			t.Errorf("%q: %+v, %v\nwant %s", name, got, err, text(&m))
		}
	}
	if got, err := db.FindModel(t.Context(), "m@1"); err != nil || got.Version != 1 {
		t.Errorf("m@1: %+v, %v", got, err)
	}
	all, err := db.Models(t.Context())
	if err != nil || len(all) != 2 || all[0].Reference() != "m@2" || all[1].Reference() != "m@1" ||
		all[0].Model != nil || len(all[0].Scores) != 6 {
		t.Errorf("%+v, %v", all, err)
	}
	unknown := new(sqlite.UnknownModelError)
	for _, name := range []string{"x", "m@3", "x@1"} {
		if _, err := db.FindModel(t.Context(), name); !errors.As(err, &unknown) ||
			!strings.Contains(err.Error(), "m@2, m@1") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := db.FindModel(t.Context(), "m@x"); err == nil || errors.As(err, &unknown) {
		t.Errorf("m@x: %v", err)
	}
}
