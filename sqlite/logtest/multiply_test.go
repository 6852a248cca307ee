package logtest_test

import (
	"path/filepath"
	"testing"

	"gantry/sqlite"
	"gantry/sqlite/logtest"
)

// Copies of a run say what it says, and the log of them is sound.
func TestMultiply(t *testing.T) {
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	db, err := sqlite.Open(path, sqlite.Durable)
	if err != nil {
		t.Fatal(err)
	}
	logtest.Diamond(t, db, "calm")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := logtest.Multiply(t.Context(), path, 3); err != nil {
		t.Fatal(err)
	}
	if err := logtest.Check(t.Context(), path); err != nil {
		t.Error(err)
	}
	if db, err = sqlite.Open(path, sqlite.ReadOnly); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	first, err := db.Summary(t.Context(), "calm")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"calm-1", "calm-2"} {
		s, err := db.Summary(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if s.Tasks == 0 || s.Tasks != first.Tasks || s.Attempts != first.Attempts || len(s.Kinds) != len(first.Kinds) {
			t.Errorf("%s: %d tasks and %d attempts, want %d and %d", name, s.Tasks, s.Attempts, first.Tasks,
				first.Attempts)
		}
	}
}
