package trace_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"gantry/trace"
	"gantry/trace/reader/readertest"
)

func TestConvertedWorkflowsAreValidAndReadBackTheSame(t *testing.T) {
	dir := dataDir(t)
	s := readertest.Schema(t, filepath.Join(dir, "schemas/wfformat/wfformat-1.5.json"))
	for _, r := range index(t, dir) {
		if r.num(t, "tasks") > 2000 && testing.Short() {
			continue
		}
		t.Run(r["file"], func(t *testing.T) {
			was, _, err := trace.Open(filepath.Join(dir, r["file"]), trace.ReadOptions{Repair: true})
			must(t, err)
			sameAfterConversion(t, was, s)
		})
	}
}

func sameAfterConversion(t *testing.T, was *trace.Workflow, s *jsonschema.Schema) {
	t.Helper()
	var b bytes.Buffer
	must(t, trace.WriteWfFormat(&b, was))
	if len(was.Tasks) <= 2000 { // larger ones take minutes, and have no other members
		readertest.Validate(t, s, b.Bytes())
	}
	is, faults, err := trace.Read(&b, "converted", trace.ReadOptions{})
	if err != nil || trace.HasErrors(faults) {
		t.Fatal(err, faults)
	}
	if len(is.Tasks) != len(was.Tasks) || is.Name == "" || is.Makespan != was.Makespan {
		t.Fatalf("%d tasks, want %d", len(is.Tasks), len(was.Tasks))
	}
	names := func(w *trace.Workflow, files []int32) (out []string) {
		for _, f := range files {
			out = append(out, w.Files[f].Name)
		}
		return out
	}
	for i := range was.Tasks {
		a, b := was.Tasks[i], is.Tasks[i]
		if !reflect.DeepEqual(names(was, a.Inputs), names(is, b.Inputs)) ||
			!reflect.DeepEqual(names(was, a.Outputs), names(is, b.Outputs)) {
			t.Fatalf("files of task %s: %v and %v", a.ID, names(was, a.Inputs), names(is, b.Inputs))
		}
		a.Inputs, b.Inputs, a.Outputs, b.Outputs, a.Line, b.Line = nil, nil, nil, nil, 0, 0
		for _, t := range []*trace.Task{&a, &b} {
			if len(t.Parents) == 0 {
				t.Parents = nil
			}
			if len(t.Children) == 0 {
				t.Children = nil
			}
		}
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("task\n%+v\nbecame\n%+v", a, b)
		}
	}
	if !reflect.DeepEqual(sizes(was), sizes(is)) {
		t.Error("sizes differ")
	}
}

// Files must not bring back what a repair dropped, or what their format says they do not tell.
func TestConversionAddsNoDependencies(t *testing.T) {
	for name, text := range map[string]string{
		"cycle by files": dax("<job id='a'><uses name='f' link='input'/><uses name='g' link='output'/></job>\n<job " +
			"id='b'><uses name='g' link='input'/><uses name='f' link='output'/></job>"),
		"0.1": `{"name": "w", "schemaVersion": "0.1", "workflow": {"jobs": [{"name": "a", "files": [{"link": "output", "name": "f", "size": 1}]},
			{"name": "b", "files": [{"link": "input", "name": "f", "size": 1}]}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			was, faults := read(t, text, trace.ReadOptions{Repair: true})
			if trace.HasErrors(faults) {
				t.Fatal(faults)
			}
			again := was
			for range 2 {
				var b strings.Builder
				must(t, trace.WriteWfFormat(&b, again))
				if again = good(t, b.String()); !reflect.DeepEqual(edges(again), edges(was)) {
					t.Fatalf("%v, want %v", edges(again), edges(was))
				}
			}
			for i := range was.Tasks { // what is read is there
				for _, f := range was.Tasks[i].Inputs {
					if p := was.Files[f].Producer; p >= 0 && !slices.Contains(was.Tasks[i].Parents, p) {
						t.Errorf("task %s reads %s", was.Tasks[i].ID, was.Files[f].Name)
					}
				}
			}
		})
	}
}

func TestConversionKeepsWhatTheSchemaHasNoPlaceFor(t *testing.T) {
	s := readertest.Schema(t, filepath.Join(dataDir(t), "schemas/wfformat/wfformat-1.5.json"))
	w := good(t, dax(`<executable name="x"><pfn url="file:///bin/x"/><profile namespace="pegasus" key="container.image">busybox</profile></executable>
<job id="odd id/1" name="x" cores="0.5"><argument>"" "a b" > c</argument><profile namespace="env" key="A">1=2</profile><profile namespace="dagman" key="RETRY">0</profile>
<stdin name="in put"/><stdout name="o#1"/><uses name="o#1" link="output" size="5"/></job>
<job id="odd_id_1" name="y" runtime="0.000000001"><uses name="o#1" link="input"/></job><dag id="c" file="d"/>`))
	sameAfterConversion(t, w, s)
}

func TestConversionWritesNothingThatWasImputed(t *testing.T) {
	w := good(t, dax(`<job id="a" name="x" runtime="2"/><job id="b" name="x"><uses name="f" link="output"/></job>`))
	trace.Impute(w, trace.Defaults{FileSize: 7})
	if b := w.Tasks[1]; b.Runtime != 2*time.Second || !b.Imputed.Has(trace.Runtime|trace.Cores) || !w.Files[0].Sized {
		t.Fatalf("%+v", b)
	}
	var out bytes.Buffer
	must(t, trace.WriteWfFormat(&out, w))
	is := good(t, out.String())
	if b := is.Tasks[1]; b.Known != 0 || is.Files[0].Sized || is.Tasks[0].Known != trace.Runtime {
		t.Errorf("%+v %+v", is.Tasks, is.Files)
	}
}

func TestExecutionIsWrittenWithMachinesAndMeasurements(t *testing.T) {
	w := good(t,
		dax(`<job id="a" name="x" runtime="100" memory="5"><argument>1</argument></job><job id="b" name="x" runtime="100"/>`))
	start := time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)
	var out bytes.Buffer
	err := trace.WriteExecution(&out, w, &trace.Execution{Makespan: 3 * time.Second, ExecutedAt: start, Version: "1",
		Machines: []trace.Machine{{Name: "fast_1", System: "linux", Architecture: "x86_64", Cores: 2,
			MemoryBytes: 1 << 30}},
		Tasks: []trace.TaskExecution{{Ran: true, Runtime: 1500 * time.Millisecond, ExecutedAt: start, Machine: "fast_1",
			Cores: 1, AvgCPU: 50,
			MemoryBytes: 4096, Known: trace.Cores | trace.AvgCPU | trace.Memory}, {}}})
	must(t, err)
	readertest.Validate(t, readertest.Schema(t, filepath.Join(dataDir(t), "schemas/wfformat/wfformat-1.5.json")),
		out.Bytes())
	var doc struct {
		RuntimeSystem struct{ Name string }
		Workflow      struct {
			Execution struct {
				MakespanInSeconds float64
				ExecutedAt        string
				Tasks             []map[string]any
				Machines          []struct{ NodeName string }
			}
		}
	}
	must(t, json.Unmarshal(out.Bytes(), &doc))
	e := doc.Workflow.Execution
	if doc.RuntimeSystem.Name != "gantry" || e.MakespanInSeconds != 3 || e.ExecutedAt != "2024-05-06T07:08:09Z" ||
		len(e.Tasks) != 1 || len(e.Machines) != 1 {
		t.Fatalf("%+v", doc)
	}
	a := e.Tasks[0]
	if a["runtimeInSeconds"] != 1.5 || a["memoryInBytes"] != 4096.0 || a["readBytes"] != nil ||
		a["machines"].([]any)[0] != e.Machines[0].NodeName {
		t.Errorf("%v", a)
	}
	is := good(t, out.String())
	if len(is.Tasks) != 2 || is.Tasks[1].Known.Has(trace.Runtime) || strings.Join(is.Tasks[0].Command, " ") != "x 1" {
		t.Errorf("%+v", is.Tasks)
	}
}

func TestImputationFollowsItsRules(t *testing.T) {
	w := good(t, `{"schemaVersion": "1.4", "workflow": {"tasks": [
		{"name": "a1", "category": "a", "runtimeInSeconds": 1, "avgCPU": 250, "memoryInBytes": 10}, {"name": "a2", "category": "a", "runtimeInSeconds": 2, "memoryInBytes": 30},
		{"name": "a3", "category": "a", "runtimeInSeconds": 9}, {"name": "a4", "category": "a", "coreCount": 4}, {"name": "b1", "category": "b"}]}}`)
	done := trace.Impute(w, trace.Defaults{})
	a1, a4, b1 := w.Tasks[0], w.Tasks[3], w.Tasks[4]
	if a1.Cores != 3 || a1.Imputed != trace.Cores {
		t.Errorf("a1: %+v", a1)
	}
	if a4.Runtime != 2*time.Second || a4.MemoryBytes != 30 || a4.AvgCPU != 400 ||
		a4.Imputed != trace.Runtime|trace.Memory|trace.AvgCPU {
		t.Errorf("a4: %+v", a4)
	}
	if b1.Runtime != 2*time.Second || b1.MemoryBytes != 0 || b1.Cores != 1 ||
		b1.Imputed != trace.Runtime|trace.Cores|trace.AvgCPU {
		t.Errorf("b1: %+v", b1)
	}
	total := 0
	for _, d := range done {
		total += d.Count
	}
	if total != 12 {
		t.Errorf("%v: %d values, want 12", done, total)
	}
	if again := trace.Impute(w, trace.Defaults{}); len(again) > 0 {
		t.Errorf("a second time: %v", again)
	}
}
