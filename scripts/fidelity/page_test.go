package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// measured writes results of two workflows under two policies, three times each; predicted and actual are seconds.
func measured(t *testing.T, predicted, actual map[string]float64) *harness {
	t.Helper()
	x := &harness{}
	x.open(t.Context(), t.TempDir())
	write := func(name string, v any) {
		text, err := json.Marshal(v)
		if err == nil {
			err = os.WriteFile(filepath.Join(x.dir, "results", name+".json"), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(x.dir, "results"), 0o755); err != nil {
		t.Fatal(err)
	}
	write("calibration", calibration{Version: "gantry x", Host: "2 cores", Took: 70})
	for key := range predicted {
		workflow, policy, _ := strings.Cut(key, " ")
		for k := range 3 {
			r := run{Workflow: workflow, Policy: policy, Repetition: k + 1, Tasks: 5, Predicted: predicted[key],
				Low: predicted[key] * 0.95, High: predicted[key] * 1.05, Actual: actual[key] + float64(k)*0.01, Tau: 1,
				Busy: 0.1, At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
				Causes: []cause{{"start", actual[key] - predicted[key]}, {"end", 0.001}}}
			if k == 2 && policy == "gbf" && actual[key] == predicted[key] { // so that intervals cover 5 of 6
				r.Actual = actual[key] * 1.06
			}
			write(r.name(), r)
		}
	}
	return x
}

func TestThePageExplainsTheBarsThatAreMissed(t *testing.T) {
	text, err := measured(t, map[string]float64{"cpu gbf": 3, "cpu heft": 4, "io gbf": 5, "io heft": 5},
		map[string]float64{"cpu gbf": 4, "cpu heft": 3, "io gbf": 5, "io heft": 5.01}).text()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"median error of the makespan at most 2 % | 12.8 % | **missed**",
		"2 of 4 beyond | **missed**", "tau at least 0.95 | median 1.000, least 1.000, 0 of 4 below | met",
		"less. Intervals reach 5.0 % to either side in the median, and the errors of 80 % of the runs ",
		"Of 4 rows, ", "Repetitions of one row, predicted alike, are ", "of the runs outside their intervals",
		"cpu under gbf and heft (3.00 and 4.00 s predicted, 4.01 and 3.01 s taken)",
		"- cpu under gbf is -25.2 % off (3.00 s predicted, 4.01 s taken): most of it is start (+1.00 s), then end"} {
		if !strings.Contains(strings.ToLower(text), strings.ToLower(want)) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if t.Failed() {
		t.Log(text[:min(len(text), 4000)])
	}
}

func TestAPageOfBarsThatAreMetExplainsNothing(t *testing.T) {
	text, err := measured(t, map[string]float64{"cpu gbf": 3, "cpu heft": 4}, map[string]float64{"cpu gbf": 3,
		"cpu heft": 4}).text()
	if err != nil {
		t.Fatal(err)
	}
	for _, not := range []string{"missed", "Pairs in the other order", "NaN"} {
		if strings.Contains(text, not) {
			t.Errorf("the page says %q:\n%s", not, text)
		}
	}
}

func TestWorkflowsFitOnASmallDisk(t *testing.T) {
	for _, w := range workflows() {
		for _, k := range w.tasks {
			if k.Reads+k.Bytes > 100*mb {
				t.Errorf("%s: a task of %d bytes", w.name, k.Reads+k.Bytes)
			}
		}
	}
	if a, b := fingerprint(), fingerprint(); a != b {
		t.Error("workflows differ from call to call")
	}
}
