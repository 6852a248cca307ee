package emulate_test

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"gantry/executor/emulate"
)

// 10 s on three cores, of which 150 % were busy: 15 s of CPU time, or 4 s on a node of speed 5/2 for as long.
func TestWorkIsThatOfTheTrace(t *testing.T) {
	var s emulate.Spec
	for _, c := range []struct {
		run, reference time.Duration
		cores          int64
		busy           float64
		cpu, spread    time.Duration
	}{
		{10e9, 10e9, 3, 150, 15e9, 10e9},
		{4e9, 10e9, 3, 150, 15e9, 5e9},
		{10e9, 10e9, 2, -1, 20e9, 10e9}, // not known
		{10e9, 10e9, 1, 300, 10e9, 10e9},
	} {
		s.Work(c.run, c.reference, c.cores, c.busy)
		if s.CPUNanos != int64(c.cpu) || s.Run() != c.spread || s.Threads != int(c.cores) {
			t.Errorf("%+v: %v of CPU time over %v by %d threads", c, time.Duration(s.CPUNanos), s.Run(), s.Threads)
		}
	}
}

func TestASpecIsReadAsItWasWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spec")
	want := &emulate.Spec{CPUNanos: 1, RunNanos: 2, Threads: 3, MemoryBytes: 4, Inputs: []emulate.File{{"in", -1}},
		Outputs: []emulate.File{{"out", 5}}, Seed: 6, Keep: true, CheckpointBytes: 7, From: "x", Direct: true}
	if err := want.Write(path); err != nil {
		t.Fatal(err)
	}
	if got, err := emulate.ReadSpec(path); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v (%v), want %+v", got, err, want)
	}
	for text, says := range map[string]string{
		`{"cpu_nanos":-1}`:                      "cpu_nanos is -1, below 0",
		`{"run_nanos":-1}`:                      "run_nanos is -1",
		`{"threads":5000}`:                      "outside 0 to 4096",
		`{"checkpoint_bytes":-1}`:               "checkpoint_bytes is -1",
		`{"memory_bytes":-1}`:                   "memory_bytes is -1",
		`{"inputs":[{"path":"a","bytes":-2}]}`:  `input "a" of -2 bytes`,
		`{"outputs":[{"path":"a","bytes":-1}]}`: `output "a" of -1 bytes`,
		`{`:                                     "unexpected end",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := emulate.ReadSpec(path); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}

// A checkpoint fills its size with bytes that do not compress. The part that is behind says how far a task is.
func TestACheckpointIsReadAsItWasWritten(t *testing.T) {
	s := &emulate.Spec{CPUNanos: 1e9, Inputs: []emulate.File{{"in", 30}}, Outputs: []emulate.File{{"out", 10}}}
	want := emulate.Checkpoint{CPUDone: 0.5, TimeDone: 0.25, Inputs: 1, Attempts: 2, CPUNanos: 5, ReadBytes: 30}
	var file bytes.Buffer
	if err := want.Write(&file, 100_000); err != nil || file.Len() != 100_000 {
		t.Fatal(file.Len(), err)
	}
	got, err := emulate.ReadCheckpoint(&file, s)
	if err != nil || *got != want {
		t.Errorf("%+v (%v), want %+v", got, err, want)
	}
	for done, s := range map[float64]*emulate.Spec{0.25: s, 0.75: {Inputs: s.Inputs, Outputs: s.Outputs}, 0: {}} {
		if got.Done(s) != done {
			t.Errorf("%v of %+v is done, want %v", got.Done(s), s, done)
		}
	}
	for text, says := range map[string]string{
		"":                                   "its first line does not end",
		"{\n":                                "unexpected end",
		"{\"version\":1}\n":                  "version 1, this emulator reads 2",
		"{\"version\":2,\"cpu_done\":1.5}\n": "are no fractions",
		"{\"version\":2,\"inputs\":2}\n":     "2 inputs and 0 outputs, of 1 and 1",
		"{\"version\":2,\"attempts\":0}\n":   "a sum is below 0",
	} {
		if _, err := emulate.ReadCheckpoint(strings.NewReader(text), s); err == nil ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}

// A report is read where the emulator left it, and through no link.
func TestAReportIsReadFromItsDirectory(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, emulate.ReportFile)
	if err := os.WriteFile(path, []byte(`{"attempts":2,"misses":["cpu"]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if r, err := emulate.ReadReport(dir); err != nil || r.Attempts != 2 || len(r.Misses) != 1 {
		t.Errorf("%+v (%v)", r, err)
	}
	if err := os.Rename(path, path+"x"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path+"x", path); err != nil {
		t.Fatal(err)
	}
	if r, err := emulate.ReadReport(dir); err == nil {
		t.Errorf("through a link: %+v", r)
	}
}
