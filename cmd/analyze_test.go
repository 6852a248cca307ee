package cmd

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gantry/planner"
	"gantry/sqlite"
	"gantry/sqlite/logtest"
)

// broken is a run of five tasks: b fails twice, c and d depend on it, e fails later.
func broken(t *testing.T) (dir string) {
	return newLog(t, func(db *sqlite.DB) {
		logtest.Diamond(t, db, "calm")
		l := logtest.New(t, db, logtest.Info("broken"))
		const s = logtest.Second
		first := l.Arrive(0, "flow", []string{"a", "b", "c", "d", "e"}, [][]int32{nil, {0}, {1}, {2}, {0}})
		l.Exit(2*s, l.Start(0, first, 1, 0, time.Second), planner.OK, 0, "")
		l.Exit(4*s, l.Start(2*s, first+1, 1, 0, time.Second), planner.OutOfMemory, 137, "out of memory")
		e := l.Start(2*s, first+4, 1, 1, time.Second)
		l.Exit(6*s, l.Start(4*s, first+1, 2, 0, time.Second), planner.ExitCode, 3, "")
		l.Exit(7*s, e, planner.TimedOut, -1, "over its limit")
		must(t, l.Finish(t.Context(), sqlite.Failed, 1))
	})
}

// Programs ran 1.5 s (a), 1.5 and 1.5 s (b) and 4.5 s (e); orders to ends took 2, 2, 2 and 5 s.
func TestStatisticsAreThoseOfTheLog(t *testing.T) {
	dir := broken(t)
	text := expect(t, exitOK, nil, "statistics", "--json", "--dir", dir, "broken", "calm")
	for _, want := range []string{
		`"tasks": {"succeeded": 1, "failed": 2, "incomplete": 2, "total": 5, "retries": 1}`,
		`"workflow_wall_time_s": 7`, `"job_wall_time_s": 9`, `"job_wall_time_submit_side_s": 11`,
		`"badput_wall_time_s": 7.5`, `"badput_wall_time_submit_side_s": 9`,
		`{"transformation": "b", "count": 2, "succeeded": 0, "failed": 2, "min_s": 1.5, "max_s": 1.5, "mean_s": 1.5, ` +
			`"total_s": 3}`,
		// The diamond: 1.5, 2.5, 0.5 (failed), 3.5 and 4.5 s.
		`"job_wall_time_s": 12.5`, `"badput_wall_time_s": 0.5`,
		`{"transformation": "work", "count": 3, "succeeded": 2, "failed": 1, "min_s": 0.5, "max_s": 3.5, ` +
			`"mean_s": 2.166666666, "total_s": 6.5}`,
	} {
		if squeezed := strings.Join(strings.Fields(text), ""); !strings.Contains(squeezed,
			strings.ReplaceAll(want, " ", "")) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	expect(t, exitOK, []string{"Tasks              1       2           2      5        1              6",
		"Cumulative job badput wall time               7.50 s"}, "statistics", "broken", "--dir", dir)
	expect(t, exitInput, []string{`no run "x"`}, "statistics", "x", "--dir", dir)
	empty := newLog(t, func(db *sqlite.DB) { logtest.New(t, db, logtest.Info("bare")) })
	expect(t, exitOK, []string{"Tasks              0"}, "statistics", "--dir", empty)
	expect(t, exitOK, []string{"No task failed."}, "analyze", "--dir", empty)
}

func TestTasksWithoutTimeAreNoJobs(t *testing.T) {
	dir := t.TempDir()
	expect(t, exitOK, nil, "simulate", "--dir", dir, fan(t))
	text := strings.Join(strings.Fields(expect(t, exitOK, nil, "statistics", "--json", "--dir", dir)), "")
	for name, n := range map[string]int{"tasks": 16, "jobs": 15} {
		want := fmt.Sprintf(`"%s":{"succeeded":%d,"failed":0,"incomplete":0,"total":%[2]d,"retries":0}`, name, n)
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

func TestAnalyzeNamesTheFirstFailureAndWhatItBlocked(t *testing.T) {
	dir := broken(t)
	work := filepath.Join(dir, "broken", "work", "flow", "b_1-2")
	must(t, os.MkdirAll(work, 0o755))
	for name, text := range map[string]string{".command.out": "",
		".command.err": strings.Repeat("early\n", 20_000) + "late\x1b[2J\nlast\n"} {
		must(t, os.WriteFile(filepath.Join(work, name), []byte(text), 0o755))
	}
	text := expect(t, exitTasksFailed, nil, "analyze", "--lines", "2", "--dir", dir)
	for _, want := range []string{"failed      2 (40.0 %)", "incomplete  2 (40.0 %)",
		"First failure: flow/b_1 (b), 2 attempts, the last on n1, ended at 6.00 s\n  exit code 3",
		"It blocked 2 tasks: flow/c_2, flow/d_3\n", "standard error:\n    late", "\n    last\n",
		"gantry explain broken flow/b_1",
		"1 further failure:\n  flow/e_4: timed-out: over its limit"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "early") {
		t.Error("more than two lines of output")
	}
	var a struct {
		First struct {
			Blocked []string `json:"blocked"`
			Tail    string   `json:"stderr_tail"`
		} `json:"first_failure"`
	}
	code, out, _ := invoke(t, "analyze", "--json", "--lines", "1", "--dir", dir, "broken")
	if err := json.Unmarshal([]byte(out), &a); err != nil || code != exitTasksFailed || len(a.First.Blocked) != 2 ||
		a.First.Tail != "last" {
		t.Errorf("%d %v %+v", code, err, a)
	}
	expect(t, exitOK, []string{"calm: finished", "No task failed."}, "analyze", "calm", "--dir", dir)
	expect(t, exitUsage, []string{"--lines -1"}, "analyze", "--lines", "-1", "--dir", dir)
}
