package cmd

import (
	"path/filepath"
	"strings"
	"testing"
)

// Three tenants on three nodes: the log shows which module served a job and where its data was, the report what tenants
// got.
func TestTenantsAreToldInTheLogAndDrawn(t *testing.T) {
	const dir = "../examples/experiments/3dsf/"
	home, figures := t.TempDir(), t.TempDir()
	expect(t, exitOK, nil, "simulate", "--name", "tenants", "--quiet", "--dir", home, "--policy", "3dsf:large=0.1",
		"--cluster", dir+"docker-cluster.yaml",
		"--time-scale", "3", "--size-scale", "0.1", dir+"docker.yaml")
	for _, topic := range []string{"module", "deadline", "data"} {
		if one[int](t, home, "SELECT count(*) FROM v_notes WHERE run = 'tenants' AND topic = ?", topic) == 0 {
			t.Errorf("no notes on %s", topic)
		}
	}
	// The first job with a deadline finds an empty queue; that of the next run knows what the first run showed.
	const known = "SELECT text LIKE '%M/M/%' FROM v_notes WHERE run = ? AND topic = 'deadline' ORDER BY at_s LIMIT 1"
	if one[bool](t, home, known, "tenants") {
		t.Error("the first run knows rates before anything has happened")
	}
	expect(t, exitOK, nil, "simulate", "--name", "next", "--quiet", "--dir", home, "--policy", "3dsf:large=0.1",
		"--cluster", dir+"docker-cluster.yaml",
		"--time-scale", "3", "--size-scale", "0.1", dir+"docker.yaml")
	if !one[bool](t, home, known, "next") {
		t.Error("the second run has not learned rates from the first")
	}
	task := one[string](t, home, "SELECT workflow || '/' || task FROM v_notes WHERE run = 'tenants' AND topic = "+
		"'data' ORDER BY at_s LIMIT 1")
	expect(t, exitOK, []string{"module of its workflow: ", "DLAforBT", "  data: "}, "explain", "--dir", home, "tenants",
		task)
	expect(t, exitOK, []string{"qos_rate", "locality_rate", "utilisation_disk", "jain", "share_a",
		"tenants-shares.svg"}, "report", "--dir", home, "tenants", "--out", figures)
	if files, _ := filepath.Glob(filepath.Join(figures, "tenants-shares.*")); len(files) != 4 {
		t.Errorf("figures %s", strings.Join(files, ", "))
	}
	expect(t, exitOK, []string{`"share_a":`, `"jain":`}, "report", "--dir", home, "tenants", "--json")
}

// The example of section 5.2 of 3DSF, as examples/drf tells it.
func TestTheExampleOfDominantSharesComesOutAsInThePaper(t *testing.T) {
	home := t.TempDir()
	for policy, want := range map[string]string{"drf:misfit=stop": "4 3 4", "drf:dims=2,misfit=stop": "3 3 4",
		"drf:dims=2": "4 3 4", "drf:level=3,misfit=stop": "3 3 4"} {
		expect(t, exitOK, nil, "simulate", "--quiet", "--dir", home, "--policy", policy, "--cluster",
			"../examples/drf/cluster.yaml", "../examples/drf/workload.yaml")
		got := one[string](t, home, `SELECT sum(workflow LIKE 'a%') || ' ' || sum(workflow LIKE 'b%') || ' ' || sum(workflow LIKE 'c%') FROM v_tasks
			WHERE started_s = 0 AND run = (SELECT name FROM runs ORDER BY id DESC LIMIT 1)`)
		if got != want {
			t.Errorf("%s starts %s tasks of the tenants, expected %s", policy, got, want)
		}
	}
}
