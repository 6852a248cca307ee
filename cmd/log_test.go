package cmd

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/csv"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gantry/planner"
	"gantry/planner/unit"
	"gantry/sqlite"
	"gantry/sqlite/logtest"
)

// invoke runs gantry with args and returns its exit code and what it printed.
func invoke(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	lasting := []string{"run", "resume", "wait", "serve", "calibrate", "drain"}
	if env, ok := isApart(t); ok && (len(env) > 0 || slices.Contains(lasting, args[0])) {
		var prints, says bytes.Buffer
		cmd := gantryProcess(t, args...)
		cmd.Stdout, cmd.Stderr = &prints, &says
		if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), prints.String(), says.String()
	}
	inHere.Lock()
	defer inHere.Unlock()
	dir := t.TempDir()
	streams := [2]**os.File{&os.Stdout, &os.Stderr}
	var files [2]*os.File
	for i, s := range streams {
		f, err := os.Create(filepath.Join(dir, []string{"out", "err"}[i]))
		must(t, err)
		defer f.Close()
		was := *s
		*s, files[i] = f, f
		defer func() { *s = was }()
	}
	code = run(append([]string{"gantry"}, args...))
	var text [2]string
	for i, f := range files {
		b, err := os.ReadFile(f.Name())
		must(t, err)
		text[i] = string(b)
	}
	return code, text[0], text[1]
}

// expect invokes gantry and wants an exit code and all of the words on the stream that belongs to it.
func expect(t *testing.T, want int, words []string, args ...string) string {
	t.Helper()
	code, out, errs := invoke(t, args...)
	if code != want {
		t.Fatalf("gantry %s: exit %d, want %d\n%s%s", strings.Join(args, " "), code, want, out, errs)
	}
	text := out
	if want != exitOK {
		text = errs
	}
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("gantry %s does not say %q:\n%s", strings.Join(args, " "), w, text)
		}
	}
	return out
}

// saying is what gantry has to say to a command line, with its exit code.
type saying struct {
	code int
	says string
	args []string
}

// newLog makes a log and returns its directory.
func newLog(t *testing.T, fill func(db *sqlite.DB)) string {
	t.Helper()
	dir := t.TempDir()
	db, err := sqlite.Open(filepath.Join(dir, sqlite.FileName), sqlite.Durable)
	must(t, err)
	fill(db)
	must(t, db.Close())
	return dir
}

// logIn opens the log of a directory for reading.
func logIn(t *testing.T, dir string) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(filepath.Join(dir, sqlite.FileName), sqlite.ReadOnly)
	must(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

// stuckLog has a run of three tasks under way: fail_0 failed for good, next_1 waits for it, wide_2 for memory.
func stuckLog(t *testing.T, state sqlite.State) string {
	return newLog(t, func(db *sqlite.DB) {
		l := logtest.New(t, db, logtest.Info("stuck-run-1"))
		first := l.Arrive(0, "w", []string{"fail", "next", "wide"}, [][]int32{nil, {0}, nil})
		a := l.Start(0, first, 1, 0, time.Second)
		l.Exit(2*logtest.Second, a, planner.ExitCode, 3, "the last words on standard error:\nno such option")
		l.Plan(2*logtest.Second, planner.Wait{Task: first + 1, Reason: planner.Reason{Code: planner.WaitsForParents}},
			planner.Wait{Task: first + 2, Reason: planner.Reason{Code: planner.NoNodeFree, Dim: unit.Memory}})
		if state != sqlite.Running {
			must(t, l.Finish(context.Background(), state, exitTasksFailed))
		}
	})
}

func TestLsListsTheNewestRunFirst(t *testing.T) {
	dir := newLog(t, func(db *sqlite.DB) {
		logtest.Diamond(t, db, "calm-hopper-1111")
		logtest.New(t, db, logtest.Info("bold-turing-2222"))
	})
	out := expect(t, exitOK, []string{"calm-hopper-1111", "finished", "heft", "14.00 s", "bold-turing-2222", "crashed"},
		"ls", "--dir", dir)
	if strings.Index(out, "bold-turing") > strings.Index(out, "calm-hopper") {
		t.Errorf("not the newest first:\n%s", out)
	}
	var runs []struct {
		Run      string
		Tasks    int
		Makespan *float64 `json:"makespan_s"`
	}
	must(t, json.Unmarshal([]byte(expect(t, exitOK, nil, "ls", "--json", "--dir", dir)), &runs))
	if len(runs) != 2 || runs[1].Tasks != 4 || *runs[1].Makespan != 14 || runs[0].Makespan != nil {
		t.Errorf("%+v", runs)
	}
}

func TestShowNamesTasksThatSucceededInDoubt(t *testing.T) {
	dir := newLog(t, func(db *sqlite.DB) {
		l := logtest.New(t, db, logtest.Info("r"))
		first := l.Arrive(0, "w", []string{"good", "odd"}, [][]int32{nil, nil})
		for i, message := range []string{"", "succeeded, although the kernel killed 1 process"} {
			l.Exit(2*logtest.Second, l.Start(0, first+planner.TaskID(i), 1, 0, time.Second), planner.OK, 0, message)
		}
	})
	out := expect(t, exitOK, []string{"suspect:\n  w/odd_1 on n1: succeeded, although the kernel killed 1 process\n"},
		"show", "--dir", dir)
	if strings.Contains(out, "good_0") || strings.Contains(out, "failed:") {
		t.Errorf("more than the one in doubt:\n%s", out)
	}
}

func TestShowSumsUpARun(t *testing.T) {
	dir := newLog(t, func(db *sqlite.DB) { logtest.Diamond(t, db, "calm-hopper-1111") })
	expect(t, exitOK, []string{"Run calm-hopper-1111: finished, 4 tasks of 4 done", "makespan 14.00 s",
		"5 attempts (4 ok, 1 out-of-memory)",
		"split", "work", "join", "n1", "n2", "buffered writes", filepath.Join(dir, sqlite.FileName)}, "show", "--dir",
		dir)
	expect(t, exitOK, []string{`"kind":"work"`, `"estimated_s":3,`, `"measured_s":3.25,`,
		`"peak_memory_bytes":50000000,`}, "show", "calm-hopper-1111", "--json", "--dir", dir)
}

func TestWhatIsAskedForAndNotThereIsNamed(t *testing.T) {
	dir := newLog(t, func(db *sqlite.DB) {
		logtest.Diamond(t, db, "calm-hopper-1111")
		logtest.Diamond(t, db, "calm-turing-2222")
	})
	for _, c := range []struct {
		code  int
		words []string
		args  []string
	}{
		{exitInput, []string{"no log at"}, []string{"show", "--dir", t.TempDir()}},
		{exitInput, []string{`no run "bold"`, "calm-hopper-1111", "calm-turing-2222"}, []string{"show", "bold", "--dir",
			dir}},
		{exitInput, []string{`no run "calm"`}, []string{"explain", "calm", "split_0", "--dir", dir}},
		{exitInput, []string{`2 tasks of transformation "work"`, "work_1", "work_2"},
			[]string{"explain", "work", "--dir", dir}},
		{exitInput, []string{`no task "werk"`}, []string{"explain", "werk", "--dir", dir}},
		{exitInput, []string{"attempt 2"}, []string{"logs", "split_0", "--attempt", "2", "--dir", dir}},
		{exitInput, []string{"no workflow", "diamond"}, []string{"export", "--format", "wfformat", "--workflow", "x",
			"--dir", dir}},
		{exitUsage, []string{"csv, parquet, json, trace, wfformat"},
			[]string{"export", "--format", "xml", "--dir", dir}},
		{exitUsage, []string{"[RUN] TASK"}, []string{"explain", "--dir", dir}},
	} {
		expect(t, c.code, c.words, c.args...)
	}
}

func TestExplainTellsWhyATaskWaitedFailedAndRan(t *testing.T) {
	done := newLog(t, func(db *sqlite.DB) { logtest.Diamond(t, db, "calm-hopper-1111") })
	running, ended := stuckLog(t, sqlite.Running), stuckLog(t, sqlite.Failed)
	for _, c := range []struct {
		name, dir, task string
		words           []string
	}{
		{"waited and was retried", done, "work_2", []string{"done on n2, in 3.50 s, at attempt 2",
			"not all of its parents have ended", "its parent split_0 ended on n1: ready",
			"no node has 67.11 MB of memory free", "running then: work_1",
			"attempt 1: policy heft starts it on n2, estimated 3.00 s ± 300 ms (declared)",
			"attempt 1: out-of-memory after", "1 oom_kill under a limit of 64 MiB", "no node has 1 core free",
			"attempt 2: ok"}},
		{"by number", done, "#3", []string{"diamond/join_3", "its parent work_1 ended on n1",
			"its parent work_2 ended on n2: ready"}},
		{"failed", running, "w/fail_0", []string{"failed, 1 attempt; the last on n1: exit code 3: the last words",
			"no such option", "gantry logs stuck-run-1 fail_0"}},
		{"waits for a parent", running, "next_1", []string{"waits for 1 parent: fail_0 (exit-code)"}},
		{"waits for memory", running, "wide_2", []string{"waits: no node has 67.11 MB of memory free"}},
		{"skipped", ended, "next_1", []string{"skipped, because a task before it failed: fail_0 (exit-code)"}},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, exitOK, c.words, "explain", c.task, "--dir", c.dir) })
	}
	var life struct {
		State    string
		Attempts []struct {
			Outcome      string
			CPUThrottled *float64 `json:"cpu_throttled_s"`
		}
	}
	must(t, json.Unmarshal([]byte(expect(t, exitOK, nil, "explain", "work_2", "--json", "--dir", done)), &life))
	if life.State != "done" || len(life.Attempts) != 2 || life.Attempts[0].Outcome != "out-of-memory" ||
		life.Attempts[0].CPUThrottled != nil {
		t.Errorf("%+v", life)
	}
}

func TestLogsPrintsWhatAnAttemptSaid(t *testing.T) {
	dir := newLog(t, func(db *sqlite.DB) { logtest.Diamond(t, db, "calm-hopper-1111") })
	for try, text := range map[string]string{"1": "first", "2": "second"} {
		work := filepath.Join(dir, "calm-hopper-1111", "work", "diamond", "work_2-"+try)
		must(t, os.MkdirAll(work, 0o755))
		for name, stream := range map[string]string{".command.out": " on out\n", ".command.err": " on err\n"} {
			cliTest{t, work}.write(name, text+stream)
		}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"work_2"}, "second"}, {[]string{"calm", "work_2", "-f"}, "second"},
		{[]string{"--attempt", "1", "work_2"}, "first"}} {
		code, out, errs := invoke(t, append([]string{"logs", "--dir", dir}, c.args...)...)
		if code != exitOK || out != c.want+" on out\n" || errs != c.want+" on err\n" {
			t.Errorf("%v: exit %d, %q, %q", c.args, code, out, errs)
		}
	}
	expect(t, exitInput, []string{"left no output"}, "logs", "join_3", "--dir", dir)
}

// A program may put a link or a pipe in the place of its files: nothing outside is printed or exported.
func TestWhatAProgramLeftLeadsNowhere(t *testing.T) {
	dir := newLog(t, func(db *sqlite.DB) { logtest.Diamond(t, db, "calm-hopper-1111") })
	work := filepath.Join(dir, "calm-hopper-1111", "work", "diamond", "work_2-2")
	results := filepath.Join(dir, "calm-hopper-1111", "results", "diamond", "out")
	outside := filepath.Join(t.TempDir(), "outside")
	err := errors.Join(os.MkdirAll(work, 0o755), os.MkdirAll(results, 0o755),
		os.WriteFile(outside, []byte("a secret"), 0o600), os.Symlink(outside, filepath.Join(work, ".command.out")),
		syscall.Mkfifo(filepath.Join(work, ".command.err"), 0o600),
		os.Symlink(outside, filepath.Join(results, "3.dat")))
	must(t, err)
	expect(t, exitHost, []string{"read the output of task work_2", ".command.out"}, "logs", "work_2", "--dir", dir)
	must(t, os.Remove(filepath.Join(work, ".command.out")))
	expect(t, exitHost, []string{".command.err is no regular file"}, "logs", "work_2", "--dir", dir)
	crate := filepath.Join(t.TempDir(), "crate")
	expect(t, exitOK, nil, "export", "--format", "rocrate", "-o", crate, "--dir", dir)
	text, err := os.ReadFile(filepath.Join(crate, "ro-crate-metadata.json"))
	if err != nil || !strings.Contains(string(text), "#file/out%2F3.dat") {
		t.Errorf("%v: the crate has not the name of the result alone:\n%s", err, text)
	}
	if text, err := os.ReadFile(filepath.Join(crate, "results", "out", "3.dat")); err == nil {
		t.Errorf("the crate has %q", text)
	}
}

func TestExportWritesEveryFormat(t *testing.T) {
	dir := newLog(t, func(db *sqlite.DB) { logtest.Diamond(t, db, "calm-hopper-1111") })
	table, err := csv.NewReader(strings.NewReader(expect(t, exitOK, nil, "export", "--dir", dir))).ReadAll()
	if err != nil || len(table) != 6 {
		t.Errorf("%d lines of CSV: %v", len(table), err)
	}
	var all struct {
		Runs            []struct{ Run string }
		Tasks, Attempts []map[string]any
	}
	must(t, json.Unmarshal([]byte(expect(t, exitOK, nil, "export", "--format", "json", "--dir", dir)), &all))
	if len(all.Runs) != 1 || all.Runs[0].Run != "calm-hopper-1111" || len(all.Tasks) != 4 || len(all.Attempts) != 5 ||
		all.Attempts[0]["cpu_throttled_ns"] != nil {
		t.Errorf("%+v", all)
	}
	into := t.TempDir()
	for _, f := range []string{"csv", "json", "trace", "wfformat"} {
		expect(t, exitOK, nil, "export", "calm", "--format", f, "-o", into, "--dir", dir)
	}
	for _, name := range []string{"tasks.csv", "attempts.csv", "attempts.json", "trace.txt", "diamond.json"} {
		if b, err := os.ReadFile(filepath.Join(into, name)); err != nil || len(b) == 0 ||
			bytes.HasPrefix(b, []byte("null")) {
			t.Errorf("%s: %q %v", name, b, err)
		}
	}
	single := filepath.Join(into, "new", "one.json")
	expect(t, exitOK, nil, "export", "--format=wfformat", "-o", single, "--dir", dir)
	expect(t, exitOK, []string{"4 of 3 types, 4 edges"}, "check", single)
}

// What programs read is one line per object where it is not for a person's eyes, and a full disk behind standard output
// is an error.
func TestOutputForProgramsIsALineAndIsWrittenOrTold(t *testing.T) {
	home := newLog(t, func(db *sqlite.DB) { logtest.Diamond(t, db, "calm-hopper-4f2a") })
	for _, args := range [][]string{{"ls"}, {"show"}, {"explain", "work_2"}, {"export"}} {
		args = append([]string{args[0], "--dir", home}, args[1:]...)
		if args[0] != "export" {
			_, out, _ := invoke(t, append(slices.Clone(args), "--json")...)
			if !json.Valid([]byte(out)) || strings.Count(out, "\n") != 1 {
				t.Errorf("gantry %s --json: %q", strings.Join(args, " "), out)
			}
		}
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		must(t, err)
		was := os.Stdout
		os.Stdout = full
		code := run(append([]string{"gantry"}, args...))
		os.Stdout = was
		full.Close()
		if code != exitHost {
			t.Errorf("gantry %s > /dev/full: exit %d, want %d", strings.Join(args, " "), code, exitHost)
		}
	}
}

// Every command names a row that somebody damaged, and with few words.
func TestADamagedRowIsNamed(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for _, c := range []struct{ damage, says, command string }{
		{"UPDATE runs SET settings = '{'", "settings of run calm-hopper-4f2a", "ls"},
		{"UPDATE tasks SET inputs = '[1' WHERE task = 2", "run 1, task 2", "export"},
		{"UPDATE events SET body = '{' WHERE seq = 2", "seq 2", "export --format=json"},
		{"UPDATE events SET body = '{' WHERE seq = 2; UPDATE runs SET settings = '{}'", "event 2",
			"report calm-hopper-4f2a"},
		{"UPDATE workflows SET definition = x'7b'", "run 1, workflow 0", "export --format=wfformat"},
		{"UPDATE runs SET settings = '[]'", "settings of run calm-hopper-4f2a", "simulate --replay calm-hopper-4f2a"},
		{"INSERT INTO policies VALUES (1, -1, 0, '" + long + "')", `seq "-1"`, "show"},
	} {
		dir := newLog(t, func(db *sqlite.DB) { logtest.Diamond(t, db, "calm-hopper-4f2a") })
		raw, err := sql.Open("sqlite3", filepath.Join(dir, sqlite.FileName))
		must(t, err)
		_, err = raw.Exec(c.damage)
		must(t, errors.Join(err, raw.Close()))
		args := strings.Fields(c.command)
		code, _, errs := invoke(t, append([]string{args[0], "--dir", dir}, args[1:]...)...)
		if code != exitHost || !strings.Contains(errs, c.says) || len(errs) > 1000 {
			t.Errorf("%.60s: gantry %s: exit %d\n%.2000s", c.damage, c.command, code, errs)
		}
	}
}
