package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gantry/sqlite"
)

// What was archived is shown as before, by the log and by the archive, whatever kills gantry archive on its way, and
// the server continues with the rest.
func TestArchivedSubmissionsAreShownAsBefore(t *testing.T) {
	dir := t.TempDir()
	s := serveIn(t, dir, "--runtime", "null", "--name", "lab")
	flows, kills := 20, 4
	if !testing.Short() {
		flows, kills = 60, 12
	}
	for range flows {
		s.submit(montage)
	}
	later := s.submit("--release", "2h", montage)
	for i := range flows {
		expect(t, exitOK, nil, "wait", "-q", "--dir", dir, fmt.Sprint(i+1))
	}
	show := func(dir, id string) string {
		return expect(t, exitOK, nil, "show", "--dir", dir, "--tasks", id) +
			expect(t, exitOK, nil, "explain", "--dir", dir, id, "ID00003") +
			expect(t, exitOK, nil, "export", "--dir", dir, "--format", "csv", id) +
			expect(t, exitOK, nil, "wait", "--dir", dir, id)
	}
	before := map[string]string{}
	for _, id := range []string{"1", "17", fmt.Sprint(flows - 1), fmt.Sprint(flows)} {
		before[id] = show(dir, id)
	}
	queue := expect(t, exitOK, nil, "queue", "--all", "--dir", dir)
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	for range kills {
		cmd := gantryProcess(t, "archive", "--dir", dir, "--before", "0h")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(20+r.IntN(400)) * time.Millisecond)
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	}
	expect(t, exitOK, []string{"moved "}, "archive", "--dir", dir, "--before", "0h")
	expect(t, exitOK, []string{"moved 0 workflows"}, "archive", "--dir", dir, "--before", "0h")
	count := func(dir string) (tasks, attempts int) {
		db, err := sqlite.Open(filepath.Join(dir, sqlite.FileName), sqlite.ReadOnly)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		rows, err := db.Query(t.Context(), "SELECT (SELECT count(*) FROM task_rows), "+
			"(SELECT count(*) FROM attempt_rows)")
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		if !rows.Next() || rows.Scan(&tasks, &attempts) != nil {
			t.Fatal(rows.Err())
		}
		return tasks, attempts
	}
	if tasks, attempts := count(dir); tasks != 25 || attempts != 0 {
		t.Errorf("the log has %d tasks and %d attempts", tasks, attempts)
	}
	archive := filepath.Join(dir, sqlite.ArchiveDir)
	said := func(counted string) string {
		return fmt.Sprintf("archived: %d tasks, counted %s: gantry show --dir %s lab", flows*25, counted, archive)
	}
	expect(t, exitOK, []string{said("above but for types, nodes and attempts"), fmt.Sprintf("%d tasks of %d done",
		flows*25, flows*25+25), "montage-25-1  done      25    25 "}, "show", "--dir", dir, "lab")
	listed := strings.Join(strings.Fields(expect(t, exitOK, []string{"archived"}, "ls", "--dir", dir)), " ")
	if want := fmt.Sprintf(" %d/%d %d ", flows*25, flows*25+25, flows*25); !strings.Contains(listed, want) {
		t.Errorf("%q lacks %q", listed, want)
	}
	expect(t, exitOK, []string{said("only there")}, "report", "--dir", dir, "lab")
	expect(t, exitOK, []string{"montage-25-17/ID00003 ", "done on "}, "explain", "--dir", dir, "lab",
		"montage-25-17/ID00003")
	expect(t, exitOK, []string{fmt.Sprintf(" %d/%d ", flows*25, flows*25)}, "ls", "--dir", archive)
	if tasks, attempts := count(archive); tasks != flows*25 || attempts != flows*25 {
		t.Errorf("the archive has %d tasks and %d attempts of %d", tasks, attempts, flows*25)
	}
	same := func(when, dir string) {
		t.Helper()
		for id, want := range before {
			if got := show(dir, id); got != want {
				t.Errorf("%s submission %s is shown as\n%s\nbefore it was\n%s", when, id, got, want)
			}
		}
	}
	same("archived,", dir)
	same("in the archive,", archive)
	if got := expect(t, exitOK, nil, "queue", "--all", "--dir", dir); strings.Count(got, " done ") !=
		strings.Count(queue, " done ") {
		t.Errorf("the queue is\n%s\nbefore it was\n%s", got, queue)
	}
	s.kill()
	s = serveIn(t, dir, "--runtime", "null")
	same("after a restart,", dir)
	expect(t, exitOK, []string{"waiting"}, "queue", "--dir", dir)
	expect(t, exitOK, []string{"cancelled"}, "cancel", "--dir", dir, later)
	last := s.submit(montage)
	expect(t, exitOK, []string{"25 of 25 tasks done"}, "wait", "--dir", dir, last)
	expect(t, exitOK, nil, "drain", "--dir", dir)
	s.ends(exitOK)
	expect(t, exitUsage, []string{"--before yesterday"}, "archive", "--dir", dir, "--before", "yesterday")
}
