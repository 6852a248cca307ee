package trace_test

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gantry/trace"
)

// dataDir is where the shared collection of traces lies.
func dataDir(tb testing.TB) string {
	tb.Helper()
	dir := os.Getenv("GANTRY_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared", "data")
	}
	if _, err := os.Stat(filepath.Join(dir, "index.tsv")); err != nil {
		tb.Skipf("needs the collection of traces in ../shared/data (or GANTRY_DATA): %v", err)
	}
	return dir
}

type row map[string]string

func (r row) num(tb testing.TB, key string) float64 {
	tb.Helper()
	x, err := strconv.ParseFloat(r[key], 64)
	if err != nil {
		tb.Fatalf("index.tsv: %s of %s: %v", key, r["file"], err)
	}
	return x
}

func (r row) notes(words string) bool { return strings.Contains(r["notes"], words) }

// index returns the rows of the formats that the package reads.
func index(tb testing.TB, dir string) (rows []row) {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "index.tsv"))
	if err != nil {
		tb.Fatal(err)
	}
	var head []string
	for i, line := range strings.Split(strings.TrimRight(string(data), "\n"), "\n") {
		cells := strings.Split(line, "\t")
		if i == 0 {
			head = cells
			continue
		}
		r := row{}
		for j, c := range cells {
			r[head[j]] = c
		}
		switch r["fmt"] {
		case "DAX", "Pegasus YAML", "WfFormat":
			if r["split"] != "schema" {
				rows = append(rows, r)
			}
		}
	}
	return rows
}

func TestEveryTraceOfTheCollectionHasItsIndexedFigures(t *testing.T) {
	dir := dataDir(t)
	for _, r := range index(t, dir) {
		t.Run(r["file"], func(t *testing.T) {
			w, faults, err := trace.Open(filepath.Join(dir, r["file"]), trace.ReadOptions{Repair: true})
			if err != nil {
				t.Fatal(err)
			}
			if trace.HasErrors(faults) {
				t.Fatalf("errors: %v", faults[0])
			}
			if got := w.Format.String(); got != r["fmt"] {
				t.Errorf("format %s, want %s", got, r["fmt"])
			}
			if want := strings.TrimPrefix(r["ver"], "(missing)"); w.Version != want {
				t.Errorf("version %q, want %q", w.Version, want)
			}
			s := w.Stats()
			same := func(what string, got int, key string) {
				t.Helper()
				if want := int(r.num(t, key)); got != want {
					t.Errorf("%s %d, want %d", what, got, want)
				}
			}
			same("tasks", s.Tasks, "tasks")
			same("explicit edges", s.Edges-s.FileEdges, "edges")
			same("levels", s.Levels, "depth")
			same("width", s.Width, "width")
			same("components", s.Components, "comp")
			same("types", s.Kinds, "types")
			same("files", s.Files, "files")
			same("sized", s.Sized, "sized")
			same("with runtime", s.Known[trace.Runtime], "with_rt")
			same("with command", s.Known[trace.Command], "cmd")
			same("with cores", s.Known[trace.Cores], "cores")
			same("with memory", s.Known[trace.Memory], "mem")
			if r["fbytes"] != "" && s.Bytes != int64(r.num(t, "fbytes")) {
				t.Errorf("bytes %d, want %s", s.Bytes, r["fbytes"])
			}
			if r["runtime"] != "" && math.Abs(s.RuntimeSeconds-r.num(t, "runtime")) > 1e-6 {
				t.Errorf("runtime %v, want %s", s.RuntimeSeconds, r["runtime"])
			}
			if r["cpu"] != "" && math.Abs(s.CriticalPathSeconds-r.num(t, "cpu")) > 1e-6 {
				t.Errorf("critical path %v, want %s", s.CriticalPathSeconds, r["cpu"])
			}
		})
	}
}
