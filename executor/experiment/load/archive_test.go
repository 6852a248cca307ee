package load_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/experiment/load"
	"gantry/planner"
	"gantry/trace/scenario"
)

// swf writes an archive of so many jobs, one a second, latest first.
func swf(t *testing.T, jobs int) string {
	var b strings.Builder
	for i := range jobs {
		fmt.Fprintf(&b, "%d %d 0 60 1 -1 -1 1 90 -1 1 7 1 3 1 1 -1 -1\n", jobs-i, jobs-i+1000)
	}
	path := filepath.Join(t.TempDir(), "a.swf")
	must(t, os.WriteFile(path, []byte(b.String()), 0o644))
	return path
}

// A long archive that is alone is one submission that the others follow, as they are otherwise.
func TestALongArchiveIsOneSubmissionAfterTheOther(t *testing.T) {
	const jobs = 100_003
	w := &scenario.Workload{Source: "w", ScaleTimes: true, Arrivals: []scenario.Arrival{{Trace: swf(t, jobs),
		Archive: true, Copies: 1, From: time.Second, Arrive: 2 * time.Second}}}
	made := map[bool][]executor.Submission{}
	for _, lean := range []bool{false, true} {
		l := &load.Loader{Lean: lean, TimeScale: 0.5}
		subs, err := l.Workload(w, 0)
		must(t, err)
		made[lean] = l.Order(subs)
	}
	if len(made[true]) != 1 || len(made[false]) != jobs-1 {
		t.Fatal(len(made[true]), len(made[false]))
	}
	i := 0
	for next := &made[true][0]; next != nil; i++ {
		want := &made[false][i]
		if next.At != want.At || next.Name != want.Name || next.Tenant != "user7" || next.At != planner.Time(2+i)*5e8 {
			t.Fatalf("%d: %+v, not %+v", i, next, want)
		}
		if i%1000 == 0 {
			if err := next.Make(); err != nil || next.Workflow.Tasks[0].Estimate != 90*time.Second {
				t.Fatal(err, next.Workflow)
			}
		}
		if next.Next == nil {
			break
		}
		next = next.Next()
	}
	if i != jobs-1 {
		t.Error(i)
	}
}

func TestPartOfAnArchive(t *testing.T) {
	read := func(entry string) ([]executor.Submission, error) {
		text := "workflows: [{archive: " + swf(t, 10) + ", " + entry + "}]"
		w, err := scenario.ReadWorkload(strings.NewReader(text), "w.yaml")
		if err != nil {
			return nil, err
		}
		return (&load.Loader{}).Workload(w, 0)
	}
	subs, err := read("from: 3s, for: 2s, arrive: 1m")
	if err != nil || len(subs) != 2 || subs[0].Name != "a-4" || subs[0].At != planner.Time(time.Minute) ||
		subs[1].At != planner.Time(61*time.Second) {
		t.Error(subs, err)
	}
	for entry, says := range map[string]string{"from: 10s": "none of its 10 workflows", "copies: 2": "archive excludes",
		"trace: x": "archive excludes"} {
		if _, err := read(entry); err == nil || !strings.Contains(err.Error(), says) {
			t.Error(entry, err)
		}
	}
}
