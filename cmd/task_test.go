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

// task hands in one task and returns its number.
func (s *served) task(name string, args ...string) string {
	s.t.Helper()
	return s.submit(append([]string{"--task", name}, append(args, "--", "true", "--all")...)...)
}

func (s *served) status(id string) (st api.Status) {
	s.t.Helper()
	text := expect(s.t, exitOK, nil, "wait", "--json", "--dir", s.dir, id)
	must(s.t, json.Unmarshal([]byte(text), &st))
	return st
}

func TestSingleTasksComeAfterOthers(t *testing.T) {
	dir := t.TempDir()
	s := serveIn(t, dir, "--runtime", "null", "--name", "lab")
	first := s.task("a", "--output", "a.txt")
	second := s.task("b", "--after", first, "--input", "a.txt", "--cpus", "0.5", "--memory", "64M")
	flow := s.submit("--name", "whole", montage)
	third := s.task("c", "--after", second, "--after", flow, "--workflow", "other")
	fourth := s.task("b", "--after", third+":ended")
	for _, id := range []string{first, second, third, fourth} {
		if st := s.status(id); st.State != "done" || st.Kind != "task" || st.Exit != nil && *st.Exit != 0 {
			t.Errorf("submission %s: %+v", id, st)
		}
	}
	expect(t, exitInput, []string{"--after 99: there is no submission 99"}, "submit", "--dir", dir, "--task", "x",
		"--after", "99", "--", "true")
	expect(t, exitUsage, []string{"--after x"}, "submit", "--dir", dir, "--task", "x", "--after", "x", "--", "true")
	expect(t, exitUsage, []string{"command"}, "submit", "--dir", dir, "--task", "x")
	for _, name := range []string{"", "../x", "/x"} { // such as of a variable that is not set
		expect(t, exitUsage, []string{"--output \"" + name + "\""}, "submit", "--dir", dir, "--task", "x", "--output",
			name, "--", "true")
	}
	expect(t, exitUsage, []string{"--task"}, "submit", "--dir", dir, "--cpus", "2", montage)
	expect(t, exitInput, []string{"1000 cores"}, "submit", "--dir", dir, "--task", "x", "--cpus", "1000", "--", "true")
	later := expect(t, exitOK, []string{": later\n", ": expected to start ", ", to end "}, "submit", "--dir", dir,
		"--task", "later", "--release", "2h", "--", "true")
	id, _, _ := strings.Cut(later, ":")
	expect(t, exitOK, nil, "cancel", "--dir", dir, id)
	s.drain()
	db := logIn(t, dir)
	for bytes, want := range map[int]int{20 << 10: 4, 10: 0} { // those with long options take long to read
		if all, err := server.EarlierTasks(t.Context(), db, os.Getuid(), 100, bytes); err != nil || len(all) != want {
			t.Errorf("%d tasks with options of %d bytes are read, want %d (%v)", len(all), bytes, want, err)
		}
	}
}

// What was acknowledged before a kill runs once after it, in the order of the dependencies, on what earlier tasks
// wrote; what comes after a task that fails never starts.
func TestSingleTasksOutliveTheirServer(t *testing.T) {
	beside(t)
	needsCheap(t)
	dir := filepath.Join(t.TempDir(), "runs")
	s := serveIn(t, dir, "--runtime", "oci")
	command := func(name, script string, args ...string) string {
		return s.submit(append([]string{"--task", name, "--image", "gantry/busybox"}, append(args, "--", "sh", "-c",
			script)...)...)
	}
	one := command("one", "sleep 2; echo one >one.txt", "--output", "one.txt")
	two := command("two", "cat one.txt one.txt >two.txt", "--after", one, "--input", "one.txt", "--output", "two.txt")
	fails := command("fails", "exit 7", "--after", one)
	never := command("never", "true", "--after", fails)
	other := command("other", "cat two.txt", "--after", two, "--workflow", "mine", "--input", "two.txt", "--stdout",
		"copy.txt")
	stuck := command("stuck", "true", "--after", never, "--workflow", "mine")
	long := command("long", "sleep 600")
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
	expect(t, exitInput, []string{"--after " + fails + ": submission " + fails + " has failed"}, "submit", "--dir", dir,
		"--task", "x", "--image", "gantry/busybox", "--after", fails, "--", "true")
	late := command("late", "cmp two.txt two.txt && test $GANTRY_ID -gt 7", "--after", two, "--input", "two.txt")
	expect(t, exitOK, []string{"late done"}, "wait", "--dir", dir, late)
	expect(t, exitOK, []string{"long cancelled"}, "cancel", "--dir", dir, long)
	expect(t, exitTasksFailed, nil, "wait", "--dir", dir, long)
	// Its user names the place of the results, while there is a server and afterwards.
	place := filepath.Join(filepath.Dir(dir), "place")
	results := func(code int, id string) {
		t.Helper()
		expect(t, code, nil, "wait", "--dir", dir, "--results-dir", place, id)
	}
	results(exitOK, two)
	results(exitTasksFailed, fails)
	expect(t, exitUsage, []string{"in the directory of all runs"}, "wait", "--dir", dir, "--results-dir",
		filepath.Join(dir, "x"), two)
	s.drain()
	results(exitOK, other)
	results(exitTasksFailed, never)
	for _, name := range []string{"two.txt", "copy.txt"} {
		if text, err := os.ReadFile(filepath.Join(place, name)); err != nil || string(text) != "one\none\n" {
			t.Errorf("%s has %q (%v)", name, text, err)
		}
	}
	out := expect(t, exitOK, nil, "show", "--dir", dir, "--json")
	var summary struct{ Tasks, Done, Attempts int }
	if err := json.Unmarshal([]byte(out), &summary); err != nil || summary.Done != 4 || summary.Tasks != 7 {
		t.Errorf("4 of 7 tasks are done: %+v (%v)", summary, err)
	}
}

// A single task is read by its number, also one that never arrived.
func TestSingleTasksAreReadByTheirNumbers(t *testing.T) {
	dir := t.TempDir()
	s := serveIn(t, dir, "--runtime", "null", "--name", "lab")
	s.status(s.task("t", "--tenant", "lab", "--deadline", "2h"))
	expect(t, exitOK, []string{"tasks.1/t"}, "explain", "--dir", dir, "1") // the only task of that number
	released := s.task("t", "--release", "1h")
	expect(t, exitOK, []string{"it is released at", " 1 waiting"}, "queue", "--dir", dir)
	expect(t, exitInput, []string{"submission 2 has not arrived"}, "show", "--dir", dir, released)
	expect(t, exitOK, []string{"cancelled"}, "cancel", "--dir", dir, released)
	for _, command := range []string{"show", "explain", "logs", "export", "report"} {
		args := []string{command, "--dir", dir, released}
		if command == "report" {
			args = append(args, "--html", "-")
		}
		expect(t, exitInput, []string{"submission 2 was cancelled before it arrived"}, args...)
	}
	expect(t, exitInput, []string{"at most 256 bytes"}, "submit", "--dir", dir, "--task", strings.Repeat("x", 257),
		"--", "true")
}

// Values and names may have commas; lists of numbers have them between.
func TestCommasInValues(t *testing.T) {
	needsCheap(t)
	c := cliTest{t, t.TempDir()}
	dir := filepath.Join(c.dir, "runs")
	s := serveIn(t, dir, "--runtime", "oci")
	c.write("a,b.txt", "in\n")
	c.write("vars", "FROM=c,d\n")
	t.Chdir(c.dir)
	image := []string{"submit", "-q", "--dir", dir, "--image", "gantry/busybox", "--task"}
	one := strings.TrimSpace(expect(t, exitOK, nil, append(image, "one", "--env", "LIST=a,b", "--env-file", "vars",
		"--input", "a,b.txt", "--output", "o,p.txt", "--", "sh", "-c",
		`cat a,b.txt >o,p.txt; echo $LIST $FROM >>o,p.txt`)...))
	two := strings.TrimSpace(expect(t, exitOK, nil, append(image, "two", "--", "true")...))
	three := strings.TrimSpace(expect(t, exitOK, nil, append(image, "three", "--after", one+","+two, "--input",
		"o,p.txt", "--stdout", "copy", "--", "cat", "o,p.txt")...))
	expect(t, exitOK, nil, "wait", "--dir", dir, three)
	expect(t, exitInput, []string{"--input runs: it is in this directory, but"}, append(image, "x", "--input", "runs",
		"--", "true")...)
	expect(t, exitInput, []string{"--input none: it is not in this directory"}, append(image, "x", "--input", "none",
		"--", "true")...)
	found, _ := filepath.Glob(filepath.Join(dir, "latest", "results", "*", "copy"))
	if len(found) != 1 || read(t, found[0]) != "in\na,b c,d\n" {
		t.Errorf("%v: the last one wrote something else", found)
	}
	s.drain()
}

// A name with line breaks stays in its row.
func TestNamesWithLineBreaksStayInTheirRow(t *testing.T) {
	dir := t.TempDir()
	serveIn(t, dir, "--runtime", "null")
	expect(t, exitOK, nil, "submit", "--dir", dir, "--task", "a\nb\tc", "--image", "i", "--", "true")
	expect(t, exitOK, nil, "wait", "--dir", dir, "1")
	expect(t, exitOK, []string{"1  a^Jb^Ic "}, "queue", "--all", "--dir", dir)
}
