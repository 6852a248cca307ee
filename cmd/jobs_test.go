package cmd

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gantry/cmd/api"
	"gantry/cmd/internal/server"
)

func (s *served) status(id string) (st api.Status) {
	s.t.Helper()
	text := expect(s.t, exitOK, nil, "wait", "--json", "--dir", s.dir, id)
	must(s.t, json.Unmarshal([]byte(text), &st))
	return st
}

// absolute is a path from anywhere.
func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	must(t, err)
	return path
}

// Jobs acknowledged before a kill run once after it, in the order of the dependencies, on files of earlier jobs; jobs
// that come after one that fails never start.
func TestJobsOutliveTheirServer(t *testing.T) {
	needsCheap(t)
	work, s := slurmServer(t, "--runtime", "oci")
	dir := s.dir
	command := func(name, script string, args ...string) string {
		return sbatched(t, append(args, "-J", name, "-o", "/dev/null", "--wrap", "set -e; "+script)...)
	}
	one := command("one", "sleep 2; echo one >one.txt")
	two := command("two", "cat one.txt one.txt >two.txt", "-d", "afterok:"+one)
	fails := command("fails", "exit 7", "-d", "afterok:"+one)
	never := command("never", "true", "-d", "afterok:"+fails)
	other := command("other", "cat two.txt >copy.txt", "-d", "afterok:"+two, "--workflow", "mine")
	stuck := command("stuck", "true", "-d", "afterok:"+never, "--workflow", "mine")
	long := command("long", "sleep 600")
	flow := s.submit("--image", "gantry/busybox", written(t, "Makeflow", "out.txt:\n\techo out >out.txt\n"))
	s.kill()
	waits := gantryProcess(t, "wait", "--dir", dir, two) // while no server is there
	must(t, waits.Start())
	s = serveIn(t, dir, "--runtime", "oci")
	if err := waits.Wait(); err != nil {
		t.Error(err)
	}
	expect(t, exitOK, []string{"other done"}, "wait", "--dir", dir, other)
	if out := expect(t, exitTasksFailed, nil, "wait", "--dir", dir, fails); !strings.Contains(out, "fails failed") {
		t.Error(out)
	}
	for id, of := range map[string]string{never: fails, stuck: never} {
		out := expect(t, exitTasksFailed, nil, "wait", "--dir", dir, id)
		if !strings.Contains(out, "cancelled") || !strings.Contains(out, "it comes after submission "+of+",") {
			t.Error(out)
		}
	}
	late := command("late", "cmp two.txt two.txt && test $GANTRY_ID -gt 7", "-d", "afterok:"+two)
	expect(t, exitOK, []string{"late done"}, "wait", "--dir", dir, late)
	expect(t, exitOK, []string{"long cancelled"}, "cancel", "--dir", dir, long)
	expect(t, exitTasksFailed, nil, "wait", "--dir", dir, long)
	if text := readAll(t, filepath.Join(work, "copy.txt")); text != "one\none\n" {
		t.Errorf("the copy has %q", text)
	}
	// Its user names the place of the results, while there is a server and afterwards.
	place := filepath.Join(filepath.Dir(dir), "place")
	results := func(code int, id string) {
		t.Helper()
		expect(t, code, nil, "wait", "--dir", dir, "--results-dir", place, id)
		if text := readAll(t, filepath.Join(place, "out.txt")); text != "out\n" {
			t.Errorf("the result has %q", text)
		}
		must(t, os.RemoveAll(place))
	}
	results(exitOK, flow)
	expect(t, exitTasksFailed, nil, "wait", "--dir", dir, "--results-dir", place, fails) // which has none
	expect(t, exitUsage, []string{"in the directory of all runs"}, "wait", "--dir", dir, "--results-dir",
		filepath.Join(dir, "x"), two)
	s.drain()
	results(exitOK, flow)
	expect(t, exitTasksFailed, nil, "wait", "--dir", dir, "--results-dir", place, never)
	out := expect(t, exitOK, nil, "show", "--dir", dir, "--json")
	var summary struct{ Tasks, Done, Attempts int }
	if err := json.Unmarshal([]byte(out), &summary); err != nil || summary.Done != 5 || summary.Tasks != 8 {
		t.Errorf("5 of 8 tasks are done: %+v (%v)", summary, err)
	}
}

// Jobs come after others. Each is read by its number, also one that never arrived.
func TestJobsAreReadByTheirNumbers(t *testing.T) {
	flow := absolute(t, montage)
	_, s := slurmServer(t, "--runtime", "null", "--name", "lab")
	dir := s.dir
	first := sbatched(t, "-J", "a", "-A", "lab", "--wrap", "true")
	second := sbatched(t, "-J", "b", "-d", "afterok:"+first, "-c", "2", "--mem", "64M", "--wrap", "true")
	whole := s.submit("--name", "whole", flow)
	third := sbatched(t, "-J", "c", "-d", "afterok:"+second+":"+whole, "--workflow", "other", "--wrap", "true")
	fourth := sbatched(t, "-J", "b", "-d", "afterany:"+third, "--wrap", "true")
	for _, id := range []string{first, second, third, fourth} {
		if st := s.status(id); st.State != "done" || st.Kind != "task" || st.Exit != nil && *st.Exit != 0 {
			t.Errorf("submission %s: %+v", id, st)
		}
	}
	db := logIn(t, dir)
	for bytes, want := range map[int]int{20 << 10: 4, 10: 0} { // those with long options take long to read
		if all, err := server.EarlierTasks(t.Context(), db, os.Getuid(), 100, bytes); err != nil || len(all) != want {
			t.Errorf("%d tasks with options of %d bytes are read, want %d (%v)", len(all), bytes, want, err)
		}
	}
	expect(t, exitOK, []string{"sbatch.1/a"}, "explain", "--dir", dir, first) // the only task of that number
	released := s.submit("--release", "1h", flow)
	held := sbatched(t, "-J", "t", "-d", "afterok:"+released, "--wrap", "true")
	expect(t, exitOK, []string{"it is released at", "it comes after " + released, " 26 waiting"}, "queue", "--dir", dir)
	expect(t, exitInput, []string{"submission " + held + " has not arrived"}, "show", "--dir", dir, held)
	expect(t, exitOK, []string{"cancelled"}, "cancel", "--dir", dir, held)
	for _, command := range []string{"show", "explain", "logs", "export", "report"} {
		args := []string{command, "--dir", dir, held}
		if command == "report" {
			args = append(args, "--html", "-")
		}
		expect(t, exitInput, []string{"submission " + held + " was cancelled before it arrived"}, args...)
	}
}
