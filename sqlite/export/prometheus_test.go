package export_test

import (
	"bytes"
	"context"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"gantry/planner"
	"gantry/sqlite/export"
	"gantry/sqlite/logtest"
)

var sample = regexp.MustCompile(`^([a-z_]+)\{([a-z_]+="(?:[^"\\\n]|\\[\\"n])*"` +
	`(?:,[a-z_]+="(?:[^"\\\n]|\\[\\"n])*")*)\} (-?[0-9.e+-]+)$`)

// metricsOf returns the samples by name and labels, and checks the text format: HELP and TYPE before each family,
// samples of one family together, no sample twice, escaped labels, counters that end with _total.
func metricsOf(t *testing.T, text string) map[string]string {
	t.Helper()
	out := map[string]string{}
	families := map[string]bool{}
	name := ""
	if !strings.HasSuffix(text, "\n") {
		t.Error("the last line does not end")
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		words := strings.SplitN(line, " ", 4)
		switch {
		case strings.HasPrefix(line, "# HELP "):
			if name = words[2]; families[name] || words[3] == "" {
				t.Errorf("family %s comes twice, or has no help", name)
			}
			families[name] = true
		case strings.HasPrefix(line, "# TYPE "):
			if words[2] != name || (words[3] == "counter") != strings.HasSuffix(name, "_total") {
				t.Errorf("type %q after the help of %s", line, name)
			}
		default:
			m := sample.FindStringSubmatch(line)
			if m == nil || m[1] != name {
				t.Fatalf("not a sample of %s: %q", name, line)
			}
			if _, twice := out[m[1]+"{"+m[2]+"}"]; twice {
				t.Errorf("%s is there twice", line)
			}
			out[m[1]+"{"+m[2]+"}"] = m[3]
		}
	}
	return out
}

func TestMetricsAreWhatTheLogSays(t *testing.T) {
	db := diamond(t)
	l := logtest.New(t, db, logtest.Info("half"))
	first := l.Arrive(0, "w", []string{"a", "b", "c"}, [][]int32{nil, {0}, nil})
	l.Exit(2*logtest.Second, l.Start(0, first, 1, 0, time.Second), planner.OK, 0, "")
	l.Start(2*logtest.Second, first+1, 1, 0, time.Second)
	l.Plan(2*logtest.Second, planner.Wait{Task: first + 2, Reason: planner.Reason{Code: planner.NoNodeFree}})
	for run, want := range map[string]map[string]string{
		"calm": {
			`gantry_run_info{run="calm",policy="heft",runtime="docker",version="0.1",` +
				`state="finished"}`: "1",
			`gantry_tasks{run="calm",state="done"}`:                                "4",
			`gantry_workflows{run="calm",state="done"}`:                            "1",
			`gantry_attempts_total{run="calm",outcome="ok"}`:                       "4",
			`gantry_attempts_total{run="calm",outcome="out-of-memory"}`:            "1",
			`gantry_attempt_run_seconds_total{run="calm",outcome="ok"}`:            "12",
			`gantry_attempt_run_seconds_total{run="calm",outcome="out-of-memory"}`: "0.5",
			`gantry_attempt_cpu_seconds_total{run="calm"}`:                         "10.9375",
			`gantry_attempt_read_bytes_total{run="calm"}`:                          "10000000",
			`gantry_node_held_cores{run="calm",node="n1"}`:                         "0",
			`gantry_run_clock_seconds{run="calm"}`:                                 "14",
			`gantry_run_start_time_seconds{run="calm"}`:                            "1795257000.25",
		},
		"half": {
			`gantry_tasks{run="half",state="running"}`:                           "1",
			`gantry_waiting_tasks{run="half",reason="no-node-free",lacks="cpu"}`: "1",
			`gantry_node_held_cores{run="half",node="n1"}`:                       "1",
			`gantry_node_held_memory_bytes{run="half",node="n1"}`:                "67108864",
			`gantry_node_attempts{run="half",node="n1"}`:                         "1",
			`gantry_node_attempts{run="half",node="n2"}`:                         "0",
		},
	} {
		var text bytes.Buffer
		if err := export.Prometheus(context.Background(), &text, db, run); err != nil {
			t.Fatal(err)
		}
		got := metricsOf(t, text.String())
		for key, value := range want {
			if got[key] != value {
				t.Errorf("%s is %q, want %s", key, got[key], value)
			}
		}
	}
	server := httptest.NewServer(export.MetricsHandler(db, "half"))
	defer server.Close()
	response, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(response.Body); err != nil || response.Header.Get("Content-Type") != export.MetricsType {
		t.Errorf("%v, content type %q", err, response.Header.Get("Content-Type"))
	}
	metricsOf(t, body.String())
}

func TestMetricsTakeAnyName(t *testing.T) {
	db := diamond(t)
	info := logtest.Info("odd")
	info.Platform.Nodes[0].Name = "a\"b\\c\nd\xff{}"
	logtest.New(t, db, info)
	var text bytes.Buffer
	if err := export.Prometheus(context.Background(), &text, db, "odd"); err != nil {
		t.Fatal(err)
	}
	key := `gantry_node_attempts{run="odd",node="a\"b\\c\nd` + "\ufffd" + `{}"}`
	if got := metricsOf(t, text.String()); got[key] != "0" {
		t.Errorf("%v", got)
	}
}
