package trace_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gantry/trace"
	"gantry/trace/reader/readertest"
)

// graphOf reads a text, and shows its tasks with their files, and its faults.
func graphOf(t *testing.T, name, text string, opt trace.ReadOptions) (tasks, faults string) {
	t.Helper()
	w, all, err := trace.Read(strings.NewReader(text), name, opt)
	must(t, err)
	if w == nil || trace.HasErrors(all) {
		return "", fmt.Sprint(all)
	}
	for i := range w.Tasks {
		x := &w.Tasks[i]
		tasks += fmt.Sprintf("%s(%s %v after %v", x.ID, x.Kind, x.Runtime, x.Parents)
		for _, f := range x.Outputs {
			tasks += fmt.Sprintf(" writes %d", w.Files[f].Size)
		}
		tasks += ") "
	}
	return tasks, fmt.Sprint(all)
}

func TestDOTIsAWorkflow(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`digraph G {
  // daggen
  1 [size="2000000000", alpha="0.1"]
  2 [size="5e9"];
  1 -> 2 [size ="1024"]
  2 -> end [size="1.000000e-12"]; /* of SimGrid */
}`, "1(task 2s after [] writes 1024) 2(task 5s after [0]) end(end 0s after [1]) "},
		{`strict digraph "a b" { node [shape=box]; rankdir=LR; a_1 -> {a_2; b:n} -> c [size=-1]; a_1 [label="sort\"x"];
  subgraph cluster_0 { d [runtime=1.5, cores=2] } # no comment
`, ""},
		{`digraph{"a b"[runtime=1]"a b"->c->c;c->d;a->d}`,
			"a b(a b 1s after []) c(c 0s after [0]) d(d 0s after [1 3]) a(a 0s after []) "},
		{`digraph snakemake_dag { 0 [label="all"]; 1 [label="sort\nsample: A"]; 1 -> 0 }`,
			"0(all 0s after [1]) 1(sort 0s after []) "},
		{"digraph { a -> { b c } -> d }",
			"b(b 0s after [2]) c(c 0s after [2]) a(a 0s after []) d(d 0s after [0 1]) "},
	} {
		tasks, faults := graphOf(t, "-", c.text, trace.ReadOptions{})
		if tasks != c.want || c.want == "" && !strings.Contains(faults, "where a node") {
			t.Errorf("%s\ngives %s\nnot   %s\n%s", c.text, tasks, c.want, faults)
		}
	}
	tasks, faults := graphOf(t, "-", "digraph { a [size=4e9] }", trace.ReadOptions{GFlops: 2})
	if tasks != "a(a 2s after []) " || !strings.Contains(faults, "--gflops") {
		t.Error(tasks, faults)
	}
}

func TestHostileDOT(t *testing.T) {
	for _, c := range []struct{ text, says string }{
		{"digraph { a -> b", "ends before"},
		{"digraph { a [size=\"1", "within a text"},
		{"digraph { a [size=NaN] }", "not a number"},
		{"digraph { a [size=1e300] }", "above the bound"},
		{"digraph { a [size=-5] }", "negative"},
		{"digraph { a -> b [size=1e300] }", "above the bound"},
		{"digraph { a -> b -> a }", "wait for each other: a -> b -> a"},
		{"graph { a -- b }", "does not begin with digraph"},
		{"digraph { a [size=1] } digraph { b [size=2] }", "behind the end of the graph"},
		{"digraph { a -- b }", "without a direction"},
		{"digraph { " + strings.Repeat("{", 200), "nested deeper"},
		{"digraph { " + strings.Repeat("a", 5000) + " }", "a name of more than"},
		{"digraph { a [x=\"" + strings.Repeat("a", 2<<20) + "\"] }", "a text of more than"},
		{"digraph { a -> ; }", "where a node should be"},
		{"digraph { {" + strings.Repeat("a1 b2 c3 d4 ", 20_000) + "} -> {" + strings.Repeat("e5 f6 g7 ", 20_000) +
			"} }", "[]"},
	} {
		readertest.Bounded(t, len(c.text), func() {
			if _, faults := graphOf(t, "-", c.text, trace.ReadOptions{}); !strings.Contains(faults, c.says) {
				t.Errorf("%.80s: %s", c.text, faults)
			}
		})
	}
}

const nextflow = "task_id\tname\tstatus\trealtime\t%cpu\tpeak_rss\trchar\tcpus\n" +
	"1\tRNA:TRIM (a)\tCOMPLETED\t1m 2.5s\t117.6%\t147.5 MB\t1 KB\t2\n" +
	"2\tRNA:TRIM (b)\tFAILED\t5s\t-\t-\t0\t2\n" +
	"3\tRNA:TRIM (b)\tCACHED\t733ms\t-\t-\t0\t2\n" +
	"4\tRNA:ALIGN (b)\tCOMPLETED\t1h 1s\t-\t0\t0\t-\n" +
	"5\tMULTIQC\tCOMPLETED\t1500\t-\t0\t0\t-\n" +
	"6\tMULTIQC\tCOMPLETED\t1d\t-\t0\t0\t-\n"

func TestATraceOfNextflowIsAWorkflow(t *testing.T) {
	tasks, faults := graphOf(t, "trace.txt", nextflow, trace.ReadOptions{})
	want := "RNA:TRIM (a)(RNA:TRIM 1m2.5s after []) RNA:TRIM (b)(RNA:TRIM 733ms after []) " +
		"RNA:ALIGN (b)(RNA:ALIGN 1h0m1s after []) MULTIQC(MULTIQC 1.5s after []) MULTIQC#6(MULTIQC 24h0m0s after []) "
	if tasks != want || !strings.Contains(faults, "no-dependencies") || !strings.Contains(faults, "is FAILED") {
		t.Errorf("got\n%s\nwant\n%s\n%s", tasks, want, faults)
	}
	w, _, _ := trace.Read(strings.NewReader(nextflow), "-", trace.ReadOptions{})
	if x := w.Tasks[0]; x.Cores != 2 || x.AvgCPU != 117.6 || x.MemoryBytes != 154664960 || x.ReadBytes != 1024 {
		t.Errorf("%+v", x)
	}
	graph := filepath.Join(t.TempDir(), "dag.dot")
	must(t, os.WriteFile(graph, []byte(`digraph "dag" { v0 [shape=point,label="",xlabel="Channel.fromPath"];
v1 [label="RNA:TRIM"]; v0 -> v1 [label="reads"]; v2 [shape=circle,label="",xlabel="map"]; v1 -> v2; v2 -> v3;
v3 [label="RNA:ALIGN"]; v3 -> v4; v1 -> v4; v4 [label="MULTIQC"]; }`), 0o600))
	tasks, faults = graphOf(t, "trace.txt", nextflow, trace.ReadOptions{Graph: graph})
	want = "RNA:TRIM (a)(RNA:TRIM 1m2.5s after []) RNA:TRIM (b)(RNA:TRIM 733ms after []) RNA:ALIGN (b)(RNA:ALIGN " +
		"1h0m1s after [1]) MULTIQC(MULTIQC 1.5s after [0 1 2]) MULTIQC#6(MULTIQC 24h0m0s after [0 1 2]) "
	if tasks != want || strings.Contains(faults, "no-dependencies") {
		t.Errorf("got\n%s\nwant\n%s\n%s", tasks, want, faults)
	}
	for text, says := range map[string]string{"digraph { a }": "none of its nodes", "x": "digraph"} {
		must(t, os.WriteFile(graph, []byte(text), 0o600))
		if _, faults := graphOf(t, "-", nextflow, trace.ReadOptions{Graph: graph}); !strings.Contains(faults, says) {
			t.Error(faults)
		}
	}
	for row, says := range map[string]string{"1\tA\tCOMPLETED\t1x\t-\t-\t-\t-\n": "not a time",
		"1\tA\tCOMPLETED\t9e99s\t-\t-\t-\t-\n": "not a time", "1\tA\tCOMPLETED\t1s\tNaN%\t-\t-\t-\n": "not a number",
		"1\tA\tCOMPLETED\t1s\t-\t99999999 PB\t-\t-\n": "above the bound", "1\tA\n": "fields",
		"1\t\tCOMPLETED\t1s\t-\t-\t-\t-\n": "without an id"} {
		head, _, _ := strings.Cut(nextflow, "\n")
		if _, faults := graphOf(t, "-", head+"\n"+row, trace.ReadOptions{}); !strings.Contains(faults, says) {
			t.Error(row, faults)
		}
	}
}

// FuzzGraph reads DOT graphs and traces of Nextflow.
func FuzzGraph(f *testing.F) {
	for _, s := range []string{"digraph G {\n1 [size=\"5e9\", label=<a<b>>]\n1 -> {2 3:n} [size=10]; /* */ x=y }",
		nextflow,
		"strict digraph { a -> b // c\n# d\n\"e\\\"\" -> \"\" -> b; subgraph s { node [a=b] -1.5 } }"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		readertest.Bounded(t, len(data), func() { consistentAs(t, "fuzz", bytes.Clone(data)) })
	})
}
