package crashtest

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gantry/planner/seed/seedtest"
)

// checkSuspensions looks at the preemptions in the log: all are over, and nothing is lost of what was frozen or
// left a checkpoint.
func (r *run) checkSuspensions(t *testing.T, db *sql.DB) {
	t.Helper()
	rows, err := db.Query(`SELECT task, try, how, since_s, until_s, kept, lost_s FROM v_suspensions WHERE run = ?`,
		r.name)
	must(t, err)
	defer rows.Close()
	var told []string
	for rows.Next() {
		var task, how string
		var try int
		var since, until, kept, lost sql.NullFloat64
		must(t, rows.Scan(&task, &try, &how, &since, &until, &kept, &lost))
		told = append(told, fmt.Sprintf("%s/%d %s", task, try, how))
		if !since.Valid || !until.Valid || until.Float64 < since.Float64 {
			t.Errorf("the suspension of task %s, try %d, by %s from %v to %v is not over", task, try, how, since, until)
		}
		if how == "checkpoint" && kept.Valid != (lost.Float64 == 0) || how == "restart" && lost.Float64 == 0 {
			t.Errorf("the suspension of task %s, try %d, by %s kept %v and lost %v s", task, try, how, kept,
				lost.Float64)
		}
	}
	must(t, rows.Err())
	t.Logf("%d suspensions: %s", len(told), strings.Join(told, ", "))
}

// One core, a long task of low priority, and an urgent one that takes its place. Gantry is killed, or told to drain,
// while the long one is away; the run continues to the same end, and what was frozen or left a checkpoint has lost
// nothing.
func TestARunThatEndsInTheMiddleOfASuspensionGoesOn(t *testing.T) {
	t.Parallel()
	needImage(t)
	gantry, seen := build(t), newWitness(t)
	signals := []syscall.Signal{syscall.SIGKILL, syscall.SIGINT}
	var rounds atomic.Int64
	rounds.Store(100_000) // the witness tells those of TestRounds by their numbers
	for i, way := range []string{"freeze", "checkpoint", "restart"} {
		for k, ending := range []string{"killed", "drained"} {
			sig := signals[k]
			t.Run(way+" "+ending, func(t *testing.T) {
				t.Parallel()
				if testing.Short() && (i+k+seedtest.Part(2))%2 > 0 {
					t.Skip("the seed takes another end")
				}
				var r *run
				var round int64
				var code int
				var out string
				// On a busy host the long task may not have begun when the urgent one arrives.
				for slower, away := 1, false; !away; slower *= 3 {
					round = rounds.Add(1)
					r = suspendingRun(t, gantry, fmt.Sprint("middle-", way, "-", ending, slower), way, slower,
						func(task string) string { return seen.mark(round, task) })
					first := r.gantry("run", r.args...)
					first.start(t)
					ended, signalled := make(chan struct{}), make(chan bool, 1)
					go func() { signalled <- r.whenAway(first, sig, ended) }()
					code, out = first.wait(t)
					close(ended)
					if away = <-signalled; !away && slower > 9 {
						t.Fatalf("nothing was preempted, exit code %d:\n%s", code, out)
					}
				}
				if want := []int{-1, 130}[k]; code != want {
					t.Fatalf("the run ends with %d, not %d:\n%s", code, want, out)
				}
				if sig == syscall.SIGINT {
					r.noContainers(t)
				}
				if code, out := r.gantry("resume", "--quiet", r.name).wait(t); code != 0 {
					t.Fatalf("gantry resume ends with %d:\n%s%s", code, out, r.failures(t))
				}
				db := r.open(t)
				defer db.Close()
				var found findings
				marks := func(task string) bool { return way != "checkpoint" || task != "long" }
				if r.programs(t, db, seen, round, marks, &found); len(found.texts) > 0 {
					t.Error(strings.Join(found.texts, "\n"))
				}
				r.checkSuspensions(t, db)
				r.noContainers(t)
			})
		}
	}
}

// suspendingRun is a run whose long task lasts 4 s, and whose urgent task arrives after 1.5 s, times slower.
func suspendingRun(t *testing.T, binary, name, way string, slower int, mark func(task string) string) *run {
	t.Helper()
	r := &run{binary: binary, name: name, home: t.TempDir(), tasks: 3}
	long := step{id: "long", seconds: float64(4 * slower),
		script: fmt.Sprintf("trap 'exit 9' TERM; for i in $(seq %d); do sleep 0.5; done", 8*slower) + mark("long")}
	if way == "checkpoint" {
		long.script = ""
	}
	writeFlow(t, filepath.Join(r.home, "low.json"), image, nil, long,
		step{id: last, script: "true" + mark(last), after: []string{"long"}, seconds: 0.1})
	writeFlow(t, filepath.Join(r.home, "urgent.json"), image, nil, step{id: "urgent",
		script: "sleep 2" + mark("urgent"), seconds: 2})
	arrive := 1.5 * float64(slower)
	write(t, filepath.Join(r.home, "load.yaml"), fmt.Sprintf("workflows:\n  - {trace: low.json, name: low, class: "+
		"low}\n  - {trace: urgent.json, name: urgent, arrive: %.1fs, class: deadline, deadline: %.1fs}\n", arrive,
		arrive+2.5))
	write(t, filepath.Join(r.home, "node.yaml"), "nodes: [{name: n, cores: 1, memory: 200MB}]\n")
	r.args = []string{"--name", name, "--quiet", "--runtime", "docker", "--cluster", filepath.Join(r.home, "node.yaml"),
		"--policy", "pds:room=leave", "--oversubscribe", filepath.Join(r.home, "load.yaml")}
	if way == "checkpoint" {
		r.args = append([]string{"--checkpoint", "100kB"}, r.args...)
	} else {
		r.args = append([]string{"--preempt", way}, r.args...)
	}
	t.Cleanup(r.removeContainers)
	return r
}

// whenAway sends a signal once a task is away; false if none is before the process has ended.
func (r *run) whenAway(p *process, sig syscall.Signal, ended <-chan struct{}) bool {
	for {
		select {
		case <-ended:
			return false
		case <-time.After(20 * time.Millisecond):
		}
		db, err := sql.Open("sqlite3", "file:"+filepath.Join(r.home, "runs",
			"gantry.sqlite")+"?mode=ro&_busy_timeout=10000")
		if err != nil {
			return false
		}
		var away int
		err = db.QueryRow("SELECT count(*) FROM v_suspensions WHERE run = ? AND since_s IS NOT NULL AND until_s IS "+
			"NULL", r.name).Scan(&away)
		db.Close()
		if err == nil && away > 0 { // the log is not there at once
			return p.cmd.Process.Signal(sig) == nil
		}
	}
}
