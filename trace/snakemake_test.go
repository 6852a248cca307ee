package trace_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gantry/trace"
)

func TestWhatSnakemakeMeasuredIsRead(t *testing.T) {
	const benchmark = "s\th:m:s\tmax_rss\tmax_vms\tio_in\tio_out\tmean_load\tcpu_time\n" +
		"62.5\t0:01:02.500000\t10.5\t20\t1.00\t0.00\t150.5\t90\n3\t0:00:03\tNA\tNA\tNA\t-\t0.00\t1\n"
	for source, kind := range map[string]string{"benchmarks/bwa/A.tsv": "bwa", "benchmarks/sort.A.tsv": "sort",
		"-": "job"} {
		w, faults, err := trace.Read(strings.NewReader(benchmark), source, trace.ReadOptions{})
		if err != nil || len(faults) > 0 || len(w.Tasks) != 2 {
			t.Fatal(faults, err)
		}
		x, y := w.Tasks[0], w.Tasks[1]
		if got := fmt.Sprintln(x.Kind, x.Runtime, x.MemoryBytes, x.ReadBytes, x.AvgCPU, y.Known); got !=
			kind+" 1m2.5s 11010048 1048576 150.5 runtime\n" {
			t.Errorf("%s: %s", source, got)
		}
	}
	newer := "s\th:m:s\trule_name\tthreads\n1\t0:00:01\talign\t4\n"
	if w, faults, _ := trace.Read(strings.NewReader(newer), "-", trace.ReadOptions{}); w == nil ||
		w.Tasks[0].Kind != "align" || w.Tasks[0].Cores != 4 {
		t.Error(w, faults)
	}
	for text, says := range map[string]string{"s\th:m:s\nNaN\t1\n": "not a number", "s\th:m:s\n-1\t1\n": "runtime -1",
		"s\th:m:s\n1e99\t1\n": "above the bound", "s\th:m:s\n1\n": "fields",
		`{"rule": "a", "starttime": 1, "endtime": 1e300}`: "above the bound",
		`{"rule": 1, "starttime": 1}`:                     "not metadata",
		`{"rule": "a", "starttime": 5, "endtime": 1}`:     "runtime -4"} {
		if _, faults, _ := trace.Read(strings.NewReader(text), "-", trace.ReadOptions{}); !strings.Contains(
			fmt.Sprint(faults), says) {
			t.Error(text, faults)
		}
	}
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, ".snakemake", "metadata"), 0o755))
	path := filepath.Join(dir, ".snakemake", "metadata", "b3V0")
	for name, text := range map[string]string{path: `{"version": 6, "rule": "bwa", "input": ["in.fq", "gone"],
		"starttime": 1700000000.5, "endtime": 1700000002.25, "incomplete": false}`,
		filepath.Join(dir, "in.fq"): "data"} {
		must(t, os.WriteFile(name, []byte(text), 0o600))
	}
	files, _, err := trace.Find([]string{dir})
	w, faults, err2 := trace.Open(path, trace.ReadOptions{})
	if err != nil || err2 != nil || len(faults) > 0 || len(files) != 1 {
		t.Fatal(files, faults, err, err2)
	}
	if got := fmt.Sprintln(w.Tasks[0].Kind, w.Tasks[0].Runtime, len(w.Tasks[0].Inputs), w.Files[0].Size); got !=
		"bwa 1.75s 2 4\n" {
		t.Error(got)
	}
}
