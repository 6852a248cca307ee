package crashtest

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A node of a quarter of a core runs a workflow of low priority; urgent ones take its place again and again. What is emulated leaves a
// checkpoint and goes on on either node; programs are frozen, or begin anew in every other round.
func TestKilledRunsThatPreemptAreResumedWithoutLoss(t *testing.T) {
	rounds := 0
	killAndResume(t, func(t *testing.T, binary, name string) *run {
		r := makeRun(t, binary, name, 1)
		rounds++
		const urgent = 8
		text := "workflows:\n  - {trace: crash.json, name: crash, class: low}\n"
		for i := range urgent {
			at := 1.2 + 1.1*float64(i)
			text += fmt.Sprintf("  - {trace: urgent-%d.json, name: urgent-%d, arrive: %.1fs, class: deadline, deadline: %.1fs}\n", i, i, at, at+2.5)
			write(t, filepath.Join(r.home, fmt.Sprintf("urgent-%d.json", i)), fmt.Sprintf(`{"name": "urgent", "schemaVersion": "1.5", "workflow": {
				"specification": {"tasks": [{"id": "urgent-%[1]d", "name": "urgent", "parents": [], "children": [], "outputFiles": ["urgent-%[1]d.bin"]}],
					"files": [{"id": "urgent-%[1]d.bin", "sizeInBytes": 1000}]},
				"execution": {"makespanInSeconds": 1, "executedAt": "2026-01-01T00:00:00Z", "tasks": [{"id": "urgent-%[1]d", "runtimeInSeconds": 0.1, "memoryInBytes": 1000000}]}}}`, i))
		}
		r.tasks += urgent
		write(t, filepath.Join(r.home, "load.yaml"), text)
		write(t, filepath.Join(r.home, "nodes.yaml"), `nodes:
  - {name: n1, group: a, cores: 1, memory: 200MB, speed: 0.25}
  - {name: n2, group: b, cores: 1, memory: 200MB, speed: 0.25}
links:
  - {from: a, to: b, bandwidth: 2MB/s, latency: 20ms}
`)
		way := []string{"freeze", "restart"}[rounds%2]
		r.args = []string{"--name", name, "--quiet", "--cluster", filepath.Join(r.home, "nodes.yaml"), "--policy", "pds:room=leave", "--preempt", way,
			"--checkpoint", "100kB", filepath.Join(r.home, "load.yaml")}
		r.preempts = true
		return r
	})
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// checkSuspensions looks at what the log tells of preemptions: all are over, and nothing is lost of what was frozen or left a checkpoint.
func (r *run) checkSuspensions(t *testing.T, db *sql.DB) {
	t.Helper()
	rows, err := db.Query(`SELECT task, try, how, since_s, until_s, kept, lost_s FROM v_suspensions WHERE run = ?`, r.name)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var told []string
	for rows.Next() {
		var task, how string
		var try int
		var since, until, kept, lost sql.NullFloat64
		if err := rows.Scan(&task, &try, &how, &since, &until, &kept, &lost); err != nil {
			t.Fatal(err)
		}
		told = append(told, fmt.Sprintf("%s/%d %s", task, try, how))
		if !since.Valid || !until.Valid || until.Float64 < since.Float64 {
			t.Errorf("the suspension of task %s, try %d, by %s from %v to %v is not over", task, try, how, since, until)
		}
		if how == "checkpoint" && kept.Valid != (lost.Float64 == 0) || how == "restart" && lost.Float64 == 0 {
			t.Errorf("the suspension of task %s, try %d, by %s kept %v and lost %v s", task, try, how, kept, lost.Float64)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d suspensions: %s", len(told), strings.Join(told, ", "))
	if r.name == "undisturbed" && len(told) == 0 {
		t.Error("nothing was preempted: the test shows nothing")
	}
}
