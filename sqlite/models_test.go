package sqlite_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gantry/planner/predict"
	"gantry/planner/unit"
	"gantry/sqlite"
)

func TestModelsAreKeptWithTheirProvenance(t *testing.T) {
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	db := open(t, path, sqlite.Durable)
	samples := make([]predict.Sample, 4)
	for i := range samples {
		samples[i] = predict.Sample{Kind: "work", Ran: time.Duration(i+1) * time.Second, Peak: 50e6,
			Features: predict.Features{Input: unit.Bytes(1000 * i), CPU: 1000, Memory: 64 << 20, Speed: 1}}
	}
	fits := predict.Fit(samples)
	m := sqlite.TrainedModel{Name: "m", Method: predict.Auto, Created: time.Date(2026, 11, 22, 3, 0, 0, 5, time.UTC),
		Gantry: "0.1", Runtime: "docker", TimeScale: 1,
		SizeScale: 0.5, Runs: []string{"diamond"}, Samples: 4, HeldOut: []string{},
		Scores: fits.Evaluate(samples), Model: fits.Model(predict.Auto)}
	for version := 1; version <= 2; version++ {
		if err := db.KeepModel(t.Context(), &m); err != nil || m.Version != version {
			t.Fatalf("version %d: %d, %v", version, m.Version, err)
		}
	}
	text := func(m *sqlite.TrainedModel) string {
		b, err := json.Marshal(m)
		must(t, err)
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
	unknown := new(sqlite.Unknown)
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
