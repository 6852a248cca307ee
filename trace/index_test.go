package trace_test

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

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
	must(tb, err)
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

// exceptions say why a figure of one file differs from the index, which counts by simpler rules.
var exceptions = map[string]map[string]string{
	"pegasus-dax/3.3/dax33.xml": {"files": streams, "cmd": subWorkflows, "sized": catalogued,
		"fbytes": catalogued},
	"pegasus-dax/3.6/dax36.xml": {"files": streams, "cmd": subWorkflows, "sized": catalogued,
		"fbytes": catalogued},
	"pegasus-dax/3.4/outer.dax":   {"cmd": subWorkflows},
	"pegasus-dax/3.3/diamond.xml": {"files": "the data that a <transformation> uses are inputs of its jobs"},
	"pegasus-dax/3.4/soykb-pipeline.dax": {"cmd": "a job without arguments, whose <executable> is staged, has a " +
		"command"},
	"pegasus-dax/3.6/blackdiamond.dax": {"cmd": "a job without arguments, whose <executable> has a file:// " +
		"address, has a command"},
	"pegasus-yaml/5.0/hierarchy-main.dax": {"cmd": subWorkflows},
	"pegasus-yaml/5.0.4/held.yml":         {"cmd": "a job of Pegasus 5 without arguments is a program, too"},
	"pegasus-dax/2.0/blackdiamond-s3.xml": {"cores": "the profile globus:count, with a line break, tells cores"},
}

const (
	streams      = "files that only <stdout> and <stderr> name are counted too"
	subWorkflows = "the arguments of a sub-workflow node are for Pegasus' planner, not a command"
	catalogued   = "the only size is that of a catalogue entry which no job uses"
)

func TestEveryTraceOfTheCollectionHasItsIndexedFigures(t *testing.T) {
	dir := dataDir(t)
	for _, r := range index(t, dir) {
		t.Run(r["file"], func(t *testing.T) {
			// Two files need repair to be read without errors; the cyclic ones have to be told as such.
			repair := r.notes("negative runtimes") || r["ver"] == "0.0.0"
			w, faults, err := trace.Open(filepath.Join(dir, r["file"]), trace.ReadOptions{Repair: repair})
			must(t, err)
			s := w.Stats()
			if cyclic := r.notes("CYCLE"); cyclic != trace.HasErrors(faults) || cyclic != s.Cyclic {
				t.Fatalf("cyclic %v, wanted %v; faults: %v", s.Cyclic, cyclic, faults)
			}
			if got := w.Format.String(); got != r["fmt"] {
				t.Errorf("format %s, want %s", got, r["fmt"])
			}
			if want := strings.TrimPrefix(r["ver"], "(missing)"); w.Version != want {
				t.Errorf("version %q, want %q", w.Version, want)
			}
			same := func(what string, got int, key string) {
				t.Helper()
				if exceptions[r["file"]][key] != "" {
					return
				}
				if want := int(r.num(t, key)); got != want {
					t.Errorf("%s %d, want %d", what, got, want)
				}
			}
			same("tasks", s.Tasks, "tasks")
			same("explicit edges", s.Edges-s.FileEdges, "edges")
			if s.FileEdges == 0 { // the index has the shape of the explicit graph
				same("levels", s.Levels, "depth")
				same("width", s.Width, "width")
				same("components", s.Components, "comp")
			} else if !r.notes("edges only via files") {
				t.Errorf("%d edges by files where the index has none", s.FileEdges)
			} else {
				same("edges", s.Edges, "fedges")
			}
			// The index takes names where WfFormat has no category; gantry strips the number at their end.
			if types := int(r.num(t, "types")); s.Kinds != types && !(r["fmt"] == "WfFormat" && s.Kinds < types &&
				noCategory(w.Version)) {
				t.Errorf("types %d, want %d", s.Kinds, types)
			}
			same("files", s.Files, "files")
			same("files with a size", s.Sized, "sized")
			same("tasks with a runtime", s.Known[trace.Runtime.String()], "with_rt")
			same("tasks with a command", s.Known[trace.Command.String()], "cmd")
			same("tasks with cores", s.Known[trace.Cores.String()], "cores")
			if !w.OpaqueNames { // memory 0 in Nextflow's instances is "not sampled"
				same("tasks with memory", s.Known[trace.Memory.String()], "mem")
			}
			if r["fbytes"] != "" && exceptions[r["file"]]["fbytes"] == "" {
				want := int64(r.num(t, "fbytes"))
				switch {
				case r.notes("negative sizes"): // negative there, absolute here
					if s.Bytes <= want {
						t.Errorf("bytes %d, want more than %d", s.Bytes, want)
					}
				case r.notes("size differs"): // the largest there, the producer's here
					if s.Bytes > want || s.Bytes < want/2 {
						t.Errorf("bytes %d, want at most %d", s.Bytes, want)
					}
				case s.Bytes != want:
					t.Errorf("bytes %d, want %d", s.Bytes, want)
				}
			}
			if r["runtime"] != "" {
				want := r.num(t, "runtime")
				if r.notes("negative runtimes") { // summed with their sign there, as check does without repair
					if raw, _, err := trace.Open(filepath.Join(dir, r["file"]), trace.ReadOptions{}); err != nil ||
						math.Abs(raw.Stats().RuntimeSeconds-want) > 1e-4 {
						t.Errorf("runtime without repair %v (%v), want %v", raw.Stats().RuntimeSeconds, err, want)
					}
					if s.RuntimeSeconds < want || s.RuntimeSeconds > want+100 {
						t.Errorf("runtime %v, want a little more than %v", s.RuntimeSeconds, want)
					}
				} else if math.Abs(s.RuntimeSeconds-want) > 1e-4 { // four digits in the index
					t.Errorf("runtime %v, want %v", s.RuntimeSeconds, want)
				}
			}
			path := "cpu" // over explicit edges and those by files, from every producer
			if r.notes("several producers") || strings.HasPrefix(w.Version, "0.") {
				path = "cp" // gantry takes the explicit edges alone there
			}
			if r[path] != "" && math.Abs(s.CriticalPathSeconds-r.num(t, path)) > 1e-4 {
				t.Errorf("critical path %v, want %s", s.CriticalPathSeconds, r[path])
			}
		})
	}
}

func noCategory(version string) bool { return version < "1.2" || version == "1.5" }

func TestVersionsOfOneWorkflowGiveTheSameResult(t *testing.T) {
	dir := dataDir(t)
	groups := map[string][]*trace.Workflow{}
	for _, r := range index(t, dir) {
		name := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(r["file"]), ".gz"), ".json")
		name = strings.TrimSuffix(name, "-head")
		if r["fmt"] != "WfFormat" || r.notes("CYCLE") || strings.HasPrefix(r["file"], "wrench/") {
			continue
		}
		w, faults, err := trace.Open(filepath.Join(dir, r["file"]), trace.ReadOptions{})
		if err != nil || trace.HasErrors(faults) {
			t.Fatalf("%s: %v %v", r["file"], err, faults)
		}
		groups[name] = append(groups[name], w)
	}
	compared := 0
	for name, ws := range groups {
		for _, w := range ws[1:] {
			compared++
			a, b := ws[0].Stats(), w.Stats()
			for _, c := range []struct {
				what      string
				got, want any
			}{{"tasks", b.Tasks, a.Tasks}, {"edges", b.Edges, a.Edges}, {"levels", b.Levels, a.Levels},
				{"width", b.Width, a.Width},
				{"components", b.Components, a.Components}, {"critical path", b.CriticalPathSeconds,
					a.CriticalPathSeconds},
				{"runtimes", runtimes(w), runtimes(ws[0])}, {"sizes", sizes(w), sizes(ws[0])}} {
				if !reflect.DeepEqual(c.got, c.want) {
					t.Errorf("%s: %s of version %s: %v, of version %s: %v", name, c.what, w.Version, c.got,
						ws[0].Version, c.want)
				}
			}
			if !noCategory(ws[0].Version) && a.Kinds != b.Kinds {
				t.Errorf("%s: %d types in version %s, %d in %s", name, b.Kinds, w.Version, a.Kinds, ws[0].Version)
			}
		}
	}
	if compared == 0 {
		t.Error("no workflow is there in two versions")
	}
}

func runtimes(w *trace.Workflow) []time.Duration {
	var out []time.Duration
	for _, t := range w.Tasks {
		out = append(out, t.Runtime)
	}
	slices.Sort(out)
	return out
}

func sizes(w *trace.Workflow) []int64 {
	var out []int64
	for _, f := range w.Files {
		if f.Sized {
			out = append(out, f.Size)
		}
	}
	slices.Sort(out)
	return out
}
