package sbatch_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gantry/cmd/internal/sbatch"
)

// host is where tests submit: the directory /w, with scripts by name.
func host(scripts map[string]string, stdin string, env ...string) sbatch.Host {
	return sbatch.Host{
		Dir: "/w",
		Env: func(name string) (string, bool) {
			for _, e := range env {
				if v, ok := strings.CutPrefix(e, name+"="); ok {
					return v, true
				}
			}
			return "", false
		},
		Read: func(path string) ([]byte, error) {
			if s, ok := scripts[path]; ok {
				return []byte(s), nil
			}
			return nil, fs.ErrNotExist
		},
		Real:  func(dir string) string { return dir },
		Stdin: func() ([]byte, error) { return []byte(stdin), nil },
	}
}

// shellWords splits as a shell does what the recorded dialogues have: words, and words in quotes.
func shellWords(text string) (out []string) {
	for text = strings.TrimLeft(text, " "); text != ""; text = strings.TrimLeft(text, " ") {
		if q := text[0]; q == '\'' {
			word, rest, _ := strings.Cut(text[1:], "'")
			out, text = append(out, word), rest
			continue
		}
		word, rest, _ := strings.Cut(text, " ")
		out, text = append(out, word), rest
	}
	return out
}

// TestJobsAreReadAsSlurmReadsThem compares with what Slurm 22.05 made of the same scripts and options
// (testdata/record.sh).
func TestJobsAreReadAsSlurmReadsThem(t *testing.T) {
	recorded, err := os.ReadFile("testdata/jobs.txt")
	must(t, err)
	escapes := strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\r`, "\r", `\\`, `\`)
	lines := strings.Split(strings.TrimSuffix(string(recorded), "\n"), "\n")
	for i := 0; i+1 < len(lines); i += 2 {
		kind, text, _ := strings.Cut(lines[i], " ")
		script, args := "#!/bin/sh\necho\n", []string{"t.sh"}
		switch kind {
		case "script":
			script = "#!/bin/sh\n" + escapes.Replace(text) + "\necho\n"
		case "raw":
			script = escapes.Replace(text)
		case "options":
			args = append(shellWords(text), args...)
		case "wrap":
			args = shellWords(text)
		}
		j, err := sbatch.Parse(args, host(map[string]string{"t.sh": script}, ""))
		want, accepted := strings.CutPrefix(lines[i+1], "= ")
		switch {
		case !accepted && err == nil:
			t.Errorf("%s: taken as %+v; Slurm says %s", lines[i], j, lines[i+1])
		case accepted && err != nil:
			t.Errorf("%s: %v; Slurm takes it: %s", lines[i], err, lines[i+1])
		case accepted:
			q, err := sbatch.ParseQueue([]string{"-h", "-o", "%j|%C|%m|%l|%k|%K"}, "", noEnv)
			must(t, err)
			r := sbatch.Row{ID: 7, About: j.About}
			if strings.Contains(text, "mem-per-cpu") {
				r.Memory = j.PerCPU // as Slurm shows it
			}
			if strings.Contains(text, "mincpus") {
				r.CPUs = 1 // Slurm shows more only once the job runs
			}
			if j.Array != nil {
				r.ArrayID, r.Index = 7, j.Array[0]
			}
			var b bytes.Buffer
			must(t, q.Print(&b, []sbatch.Row{r}, time.Now()))
			if got := strings.TrimSuffix(b.String(), "\n"); got != want {
				t.Errorf("%s:\ngot   %s\nSlurm %s", lines[i], got, want)
			}
		}
	}
}

func noEnv(string) (string, bool) { return "", false }

// TestQueueIsPrintedAsSlurmPrintsIt compares with answers of squeue for the same jobs.
func TestQueueIsPrintedAsSlurmPrintsIt(t *testing.T) {
	recorded, err := os.ReadFile("testdata/squeue.txt")
	must(t, err)
	blocks := strings.Split(strings.TrimSuffix(string(recorded), "\n"), "\nformat ")
	var rows []sbatch.Row
	var now time.Time
	for _, line := range strings.Split(blocks[0], "\n")[1:] {
		r, at := recordedRow(t, line)
		rows = append(rows, r)
		if !at.IsZero() {
			now = at
		}
	}
	if len(rows) != 8 || now.IsZero() {
		t.Fatalf("%d rows, now %v", len(rows), now)
	}
	for _, block := range blocks[1:] {
		format, want, _ := strings.Cut(block, "\n")
		q, err := sbatch.ParseQueue([]string{"-t", "all", "-o", format}, "", noEnv)
		if err != nil {
			t.Errorf("%s: %v", format, err)
			continue
		}
		var b bytes.Buffer
		must(t, q.Print(&b, rows, now))
		got, asked := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n"), strings.Split(want, "\n")
		slices.Sort(got)
		slices.Sort(asked)
		if !slices.Equal(got, asked) {
			t.Errorf("%s:\ngot\n%s\nSlurm\n%s", format, strings.Join(got, "\n"), strings.Join(asked, "\n"))
		}
	}
}

// recordedRow reads %A|%F|%K|%j|%u|%U|%t|%r|%N|%P|%a|%k|%o|%Z|%C|%m|%l|%M|%V|%S|%e, and when that was recorded if the
// job ran.
func recordedRow(t *testing.T, line string) (r sbatch.Row, now time.Time) {
	f := strings.Split(line, "|")
	must := func(err error) {
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	null := func(s string) string { return strings.TrimPrefix(s, "(null)") }
	stamp := func(s string) time.Time {
		at, err := time.ParseInLocation("2006-01-02T15:04:05", s, time.Local)
		must(err)
		return at
	}
	var err error
	r.ID, err = strconv.ParseInt(f[0], 10, 64)
	must(err)
	if f[2] != "N/A" {
		r.ArrayID, err = strconv.ParseInt(f[1], 10, 64)
		must(err)
		r.Index, err = strconv.Atoi(f[2])
		must(err)
	}
	r.Name, r.User, r.Reason, r.Node, r.Partition = f[3], f[4], strings.TrimPrefix(f[7], "None"), f[8], f[9]
	r.Account, r.Comment, r.Command, r.Dir = null(f[10]), null(f[11]), null(f[12]), f[13]
	r.CPUs, err = strconv.Atoi(f[14])
	must(err)
	r.Memory, err = sbatch.Memory(f[15])
	must(err)
	r.Limit, err = sbatch.Limit(f[16])
	must(err)
	r.State = map[string]sbatch.State{"R": sbatch.Running, "PD": sbatch.Pending, "F": sbatch.Failed,
		"CD": sbatch.Completed, "CA": sbatch.Cancelled}[f[6]]
	switch {
	case r.State == sbatch.Running:
		r.Started = stamp(f[19])
		seconds, err := strconv.Atoi(strings.TrimPrefix(f[17], "0:"))
		must(err)
		now = r.Started.Add(time.Duration(seconds) * time.Second)
	case r.State.Ended():
		r.Started, r.Ended = stamp(f[19]), stamp(f[20])
	}
	return r, now
}

// TestWhatGantryCannotHonour is refused by name, or reported.
func TestWhatGantryCannotHonour(t *testing.T) {
	for _, c := range []struct{ args, refused, noted string }{
		{"--gres=gpu:tesla:1", "--gres", ""},
		{"-G tesla:1,kepler:1", "--gpus", ""},
		{"--cpus-per-gpu=2", "--cpus-per-gpu", ""},
		{"--gres=fast:1", "--gres", ""},
		{"-G -1", "--gpus", ""},
		{"--gpus-per-task=1000000 -n 2", "more than any host", ""},
		{"--gres=NONE --gpus=", "", ""},
		{"--gres=gpu:", "--gres", ""},
		{"--begin=now+1hour", "--begin", ""},
		{"-H", "--hold", ""},
		{"--requeue", "--requeue", ""},
		{"-w n1", "--nodelist", ""},
		{"--constraint=fast", "--constraint", ""},
		{"--exclusive", "--exclusive", ""},
		{"-N 2", "--nodes", ""},
		{"--ntasks-per-node=2 -n 4", "more than one node", ""},
		{"-d afterany:1,afternotok:2_3", "", ""},
		{"-d aftercorr:1", "aftercorr", ""},
		{"-d singleton", "singleton", ""},
		{"-d afterok:1?afterok:2", "not for one of several", ""},
		{"-d afterok:1+5", "no job", ""},
		{"--array 0-9%", "run at once", ""},
		{"--array 0-9%2,12", "run at once", ""},
		{"--array 0-9%two", "run at once", ""},
		{"-o /etc/passwd", "outside", ""},
		{"-o ../x", "outside", ""},
		{"-e sub/../../x", "outside", ""},
		{"-o %q.txt", "%q", ""},
		{"--export=ALL", "", "--export=ALL"},
		{"--export=A,B-C", "B-C", ""},
		{"--export=MISSING", "", "MISSING"},
		{"--mail-type=END", "", "--mail-type"},
		{"--qos high", "", "--qos"},
		{"--signal USR1@5", "", "--signal"},
		{"--nice", "", "--nice"},
		{"--mem 0", "", "--mem=0"},
		{"--no-requeue -p short -A lab", "", ""},
	} {
		j, err := sbatch.Parse(append(shellWords(c.args), "t.sh"), host(map[string]string{"t.sh": "#!/bin/sh\n"}, ""))
		switch {
		case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%s: %v; want an error with %q", c.args, err, c.refused)
		case c.refused == "" && err != nil:
			t.Errorf("%s: %v", c.args, err)
		case c.refused == "" && (len(j.Notes) > 0) != (c.noted != ""),
			c.noted != "" && !strings.Contains(strings.Join(j.Notes, "\n"), c.noted):
			t.Errorf("%s: notes %q; want one with %q", c.args, j.Notes, c.noted)
		}
	}
}

// TestLevels: the command line counts more than variables, and those more than the script.
func TestLevels(t *testing.T) {
	script := map[string]string{"t.sh": "#!/bin/sh\n#SBATCH -J script -t 3 --mem 1G\n"}
	for _, c := range []struct {
		args, env, want string
	}{
		{"", "", "script 3m0s 1024M"},
		{"", "SBATCH_JOB_NAME=variable", "variable 3m0s 1024M"},
		{"-J line", "SBATCH_JOB_NAME=variable", "line 3m0s 1024M"},
		{"-t 4", "SBATCH_TIMELIMIT=7", "script 4m0s 1024M"},
		{"--mem-per-cpu 5 -c 2", "", "script 3m0s 10M"},
		{"", "SBATCH_MEM_PER_NODE=77", "script 3m0s 77M"},
	} {
		j, err := sbatch.Parse(append(shellWords(c.args), "t.sh"), host(script, "", c.env))
		if err != nil {
			t.Errorf("%s %s: %v", c.args, c.env, err)
			continue
		}
		if got := fmt.Sprintf("%s %s %dM", j.Name, j.Limit, j.Memory>>20); got != c.want {
			t.Errorf("%s %s: %s; want %s", c.args, c.env, got, c.want)
		}
	}
}

func TestCancelReads(t *testing.T) {
	rows := []sbatch.Row{{ID: 1, User: "ann", UID: 1000}, {ID: 2, About: sbatch.About{Name: "b"}, User: "bob",
		UID: 1001},
		{ID: 3, ArrayID: 3, Index: 0, User: "ann"}, {ID: 4, ArrayID: 3, Index: 1, User: "ann", State: sbatch.Running}}
	for _, c := range []struct {
		args, want string
	}{
		{"1 2", "1 2"}, {"3", "3 4"}, {"3_1", "4"}, {"4", "4"}, {"-u ann", "1 3 4"}, {"-u 1001", "2"},
		{"--name b", "2"},
		{"-u ann --state=R", "4"}, {"--me", "1 3 4"}, {"99", ""}, {"1 -Q 2", "1 2"}, {"-s TERM 1", "1"},
		{"", "error"}, {"abc", "error"}, {"1_x", "error"}, {"-s USR1 1", "error"}, {"3_[0-1]", "3 4"},
		{"3_[1]", "4"}, {"3_[1,5-9:2] 1", "1 4"}, {"1,3_[0,7],2", "1 2 3"}, {"3_*", "3 4"}, {"3_[0-9%4]", "3 4"},
		{"3_[", "error"}, {"3_[]", "error"}, {"3_[1", "error"}, {"3_[1-]", "error"}, {"3_[2-1]", "error"},
		{"3_[x]", "error"}, {"3_[0]1", "error"}, {"_[0]", "error"}, {"1,", "error"}, {"0_[1]", "error"},
		{"--nonsense 1", "error"}, {"--wckey x 1", "error"},
	} {
		asked, err := sbatch.ParseCancel(shellWords(c.args), "ann")
		got := "error"
		if err == nil {
			var ids []string
			for i := range rows {
				if asked.Select.Match(&rows[i]) {
					ids = append(ids, strconv.FormatInt(rows[i].ID, 10))
				}
			}
			got = strings.Join(ids, " ")
		}
		if got != c.want {
			t.Errorf("scancel %s: %s (%v); want %s", c.args, got, err, c.want)
		}
	}
	if asked, err := sbatch.ParseCancel([]string{"some", "--help"}, "ann"); err != nil || asked.Ask != sbatch.Help {
		t.Errorf("scancel some --help: %+v, %v", asked, err)
	}
}

// What Slurm 22.05 prints of a running job and two that wait, the later number to begin first.
func TestQueueTellsWhenJobsStart(t *testing.T) {
	at := time.Date(2026, 11, 28, 22, 12, 59, 0, time.Local)
	job := sbatch.About{Name: "s.sh", Partition: "main"}
	rows := []sbatch.Row{
		{ID: 19, About: job, User: "root", State: sbatch.Running, Started: at.Add(-time.Minute)},
		{ID: 20, About: job, User: "root", Reason: "Priority", Begins: at.Add(time.Second)},
		{ID: 21, About: job, User: "root", Reason: "Resources", Begins: at},
		{ID: 22, About: job, User: "root", Reason: "Dependency"},
	}
	for args, want := range map[string]string{
		"--start": strings.ReplaceAll(strings.ReplaceAll(`             JOBID PARTITION     NAME     USER ST          START_TIME  NODES >NODELIST(REASON)
                21      main     s.sh     root PD 2026-11-28T22:12:59      1 <(Resources)
                20      main     s.sh     root PD 2026-11-28T22:13:00      1 <(Priority)
                22      main     s.sh     root PD                 N/A      1 <(Dependency)
`, "<", "(null)               "), ">", "SCHEDNODES           "),
		"-h --start -t all -o %i|%S": "19|2026-11-28T22:11:59\n21|2026-11-28T22:12:59\n" +
			"20|2026-11-28T22:13:00\n22|N/A\n",
	} {
		q, err := sbatch.ParseQueue(shellWords(args), "root", noEnv)
		must(t, err)
		var b bytes.Buffer
		if err := q.Print(&b, rows, at); err != nil || b.String() != want {
			t.Errorf("squeue %s: %v\n%s\nwant\n%s", args, err, b.String(), want)
		}
	}
	if q, err := sbatch.ParseQueue([]string{"word", "--help"}, "root", noEnv); err != nil || q.Ask != sbatch.Help {
		t.Errorf("squeue word --help: %v", err)
	}
	q, err := sbatch.ParseQueue([]string{"-h"}, "root", func(name string) (string, bool) {
		return "JobID:4", name == "SQUEUE_FORMAT2"
	})
	var b bytes.Buffer
	if err != nil || q.Print(&b, rows[:1], at) != nil || strings.TrimSpace(b.String()) != "19" {
		t.Errorf("SQUEUE_FORMAT2: %q, %v", b.String(), err)
	}
	if _, err := sbatch.ParseQueue([]string{"word", "-h"}, "root", noEnv); err == nil {
		t.Error("squeue takes a word")
	}
}

func TestAccountPrints(t *testing.T) {
	at := time.Date(2026, 11, 23, 10, 0, 0, 0, time.Local)
	rows := []sbatch.Row{
		{About: sbatch.About{Name: "align-a-long-name", CPUs: 2, Memory: 1 << 30}, ID: 7, User: "ann", Node: "n1",
			State: sbatch.Completed, Submitted: at, Started: at.Add(time.Second), Ended: at.Add(62 * time.Second),
			Peak: 5000},
		{About: sbatch.About{Name: "call", CPUs: 1}, ID: 8, ArrayID: 8, Index: 3, User: "ann", State: sbatch.Failed,
			Exit: 3, Submitted: at, Started: at, Ended: at.Add(time.Hour)},
		{About: sbatch.About{Name: "other", CPUs: 1}, ID: 9, User: "bob", State: sbatch.Pending, Submitted: at},
	}
	for _, c := range []struct{ args, want string }{
		{"-j 7,8,9 -P -n -b", "7|COMPLETED|0:0\n8_3|FAILED|3:0\n"},
		{"-a -X --parsable2 --noheader --clusters all --format=JobIdRaw,State --starttime 2026-11-23 --endtime now",
			"7|COMPLETED\n8|FAILED\n9|PENDING\n"},
		{"-j 7 -p -o jobid,elapsed,maxrss,reqmem,start", "JobID|Elapsed|MaxRSS|ReqMem|Start|\n" +
			"7|00:01:01|5K|1G|2026-11-23T10:00:01|\n"},
		{"-j 7", "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode \n" +
			"------------ ---------- ---------- ---------- ---------- ---------- -------- \n" +
			"7            align-a-l+                                2  COMPLETED      0:0 \n"},
		{"-u bob -n -o jobid%3,state%-9", "9   PENDING   \n"},
		{"-S 12:00 -n -P -o jobid", ""},
	} {
		asked, err := sbatch.ParseAccount(shellWords(c.args), "ann", noEnv, at.Add(4*time.Hour))
		if err != nil {
			t.Errorf("sacct %s: %v", c.args, err)
			continue
		}
		var b bytes.Buffer
		if err := asked.Print(&b, rows, at.Add(4*time.Hour)); err != nil || b.String() != c.want {
			t.Errorf("sacct %s: %v\n%q\nwant\n%q", c.args, err, b.String(), c.want)
		}
	}
	for _, args := range []string{"-o nosuch", "-l", "-S yesterday", "x", "-M other", "-o jobid%0"} {
		if _, err := sbatch.ParseAccount(shellWords(args), "ann", noEnv, at); err == nil {
			t.Errorf("sacct %s was taken", args)
		}
	}
}

// TestExitCodes are those of sacct and of sbatch --wait of Slurm 22.05 (print.c of sacct, _job_wait of sbatch): a
// signal is one only where the script itself was killed.
func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		row    sbatch.Row
		sacct  string
		waited int
	}{
		{sbatch.Row{State: sbatch.Completed}, "0:0", 0},
		{sbatch.Row{State: sbatch.Failed, Exit: 42}, "42:0", 42},
		{sbatch.Row{State: sbatch.Failed, Exit: 127}, "127:0", 127},
		{sbatch.Row{State: sbatch.Failed, Exit: 128}, "0:0", 128},
		{sbatch.Row{State: sbatch.Failed, Exit: 139}, "11:0", 139},
		{sbatch.Row{State: sbatch.Failed, Exit: 254}, "126:0", 254},
		{sbatch.Row{State: sbatch.Failed, Signal: syscall.SIGSEGV}, "0:11", 1},
		{sbatch.Row{State: sbatch.Failed, Signal: syscall.SIGKILL}, "0:9", 1},
		{sbatch.Row{State: sbatch.Failed}, "1:0", 1},
		{sbatch.Row{State: sbatch.OutOfMemory, Exit: 3}, "0:125", 1},
		{sbatch.Row{State: sbatch.OutOfMemory, Signal: syscall.SIGKILL}, "0:125", 1},
		{sbatch.Row{State: sbatch.Timeout, Signal: syscall.SIGTERM}, "0:0", 1},
		{sbatch.Row{State: sbatch.Timeout, Exit: 5}, "0:0", 5},
		{sbatch.Row{State: sbatch.Cancelled}, "0:0", 1},
		{sbatch.Row{State: sbatch.NodeFail}, "0:0", 1},
	} {
		asked, err := sbatch.ParseAccount([]string{"-anPo", "exitcode,derivedexitcode,qos"}, "", noEnv, time.Now())
		must(t, err)
		var b bytes.Buffer
		c.row.Ended = time.Now()
		err = asked.Print(&b, []sbatch.Row{c.row}, time.Now())
		if err != nil || b.String() != c.sacct+"|0:0|normal\n" {
			t.Errorf("%+v: sacct prints %q, want %s", c.row, b.String(), c.sacct)
		}
		if got := c.row.Waited(); got != c.waited {
			t.Errorf("%+v: sbatch --wait returns %d, want %d", c.row, got, c.waited)
		}
	}
}

// TestCancelledJobs have, in sacct alone, the number of the user who cancelled them.
func TestCancelledJobs(t *testing.T) {
	root, member := 0, 4294967
	for _, c := range []struct {
		by           *int
		format, want string
	}{
		{&root, "-nPo state", "CANCELLED by 0\n"}, {&member, "-nPo state", "CANCELLED by 4294967\n"},
		{&root, "-no state", "CANCELLED+ \n"}, {&root, "-no state%20", "      CANCELLED by 0 \n"},
		{&member, "-no state%-16", "CANCELLED by 42+ \n"}, {nil, "-no state", " CANCELLED \n"},
	} {
		a, err := sbatch.ParseAccount(append(strings.Fields(c.format), "-a"), "", noEnv, time.Now())
		must(t, err)
		q, err := sbatch.ParseQueue([]string{"-hO", "state:9", "-t", "all"}, "", noEnv)
		must(t, err)
		var said, listed bytes.Buffer
		rows := []sbatch.Row{{State: sbatch.Cancelled, By: c.by, Ended: time.Now()}}
		err = errors.Join(a.Print(&said, rows, time.Now()), q.Print(&listed, rows, time.Now()))
		if err != nil || said.String() != c.want || listed.String() != "CANCELLED\n" {
			t.Errorf("%s: sacct prints %q, want %q; squeue %q: %v", c.format, said.String(), c.want, listed.String(),
				err)
		}
	}
}

// TestAllFieldsOfAQueue are those that a format may name, with bars between.
func TestAllFieldsOfAQueue(t *testing.T) {
	q, err := sbatch.ParseQueue([]string{"-o", "%all"}, "", noEnv)
	must(t, err)
	var b bytes.Buffer
	must(t, q.Print(&b, nil, time.Now()))
	titles := strings.Split(strings.TrimSpace(b.String()), "|")
	if len(titles) < 30 || !slices.Contains(titles, "JOBID") || !slices.Contains(titles, "STATE") {
		t.Errorf("titles %q", titles)
	}
}

// TestTimesAreWrittenAsAsked by SLURM_TIME_FORMAT, as date does that with the formats of strftime.
func TestTimesAreWrittenAsAsked(t *testing.T) {
	now := time.Date(2027, 1, 3, 15, 4, 5, 0, time.Local) // a Sunday, of the last week of 2026
	started := func(env, format string, at time.Time) string {
		t.Helper()
		set := func(name string) (string, bool) { return env, name == "SLURM_TIME_FORMAT" }
		q, err := sbatch.ParseQueue([]string{"-ho", format}, "", set)
		must(t, err)
		a, err := sbatch.ParseAccount([]string{"-nPo", "start"}, "", set, now)
		if err != nil || len(a.Notes) != len(q.Notes) {
			t.Fatal(err, a.Notes, q.Notes)
		}
		var b, sacct bytes.Buffer
		rows := []sbatch.Row{{State: sbatch.Running, Started: at}}
		must(t, errors.Join(q.Print(&b, rows, now), a.Print(&sacct, rows, now)))
		if b.String() != sacct.String() {
			t.Errorf("%s: squeue prints %q, sacct %q", env, b.String(), sacct.String())
		}
		return strings.TrimSuffix(b.String(), "\n")
	}
	day := 24 * time.Hour
	for _, c := range []struct {
		env  string
		at   time.Time
		want string
	}{
		{"", now, "2027-01-03T15:04:05"}, {"standard", now, "2027-01-03T15:04:05"},
		{"relative", now.Add(time.Hour), "16:04:05"}, {"relative", now.Add(-day), "Ystday 15:04"},
		{"relative", now.Add(day), "Tomorr 15:04"}, {"relative", now.Add(3 * day), "Wed 15:04"},
		{"relative", now.Add(20 * day), "23 Jan 15:04"}, {"relative", now.Add(-2 * day), "1 Jan 15:04"},
		{"relative", now.Add(-10 * day), "24 Dec 2026"}, {"relative", now.Add(800 * day), "13 Mar 2029"},
		{"nonsense", now, "2027-01-03T15:04:05"}, {strings.Repeat("%H", 16), now, "2027-01-03T15:04:05"},
		{"%Q%", now, "%Q%"}, {"%% %", now, "% %"}, {"%a %T", now, "Sun 15:04:05"},
	} {
		if got := started(c.env, "%S", c.at); got != c.want {
			t.Errorf("%q of %v: %q, want %q", c.env, c.at, got, c.want)
		}
	}
	formats := []string{"%z"}
	for _, letter := range "aAbBcCdDeFgGhHIjklmMprRsSTuUVwWxXyYZ" {
		for _, flag := range []string{"", "-", "_", "0", "^"} {
			formats = append(formats, "%"+flag+string(letter))
		}
	}
	cmd := exec.Command("date", "-d", now.Format(time.RFC3339), "+"+strings.Join(formats, "|"))
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	printed, err := cmd.Output()
	if err != nil {
		t.Skip("needs date of GNU")
	}
	for i, want := range strings.Split(strings.TrimSuffix(string(printed), "\n"), "|") {
		if got := started(formats[i], "%S", now); got != want {
			t.Errorf("%s: %q, date prints %q", formats[i], got, want)
		}
	}
}

// TestFieldsByName: squeue --Format and sacct --format=ALL have the fields that the letters have.
func TestFieldsByName(t *testing.T) {
	rows := []sbatch.Row{{About: sbatch.About{Name: "call", CPUs: 4}, ID: 9, ArrayID: 7, Index: 2, User: "ann",
		State: sbatch.Running}}
	for _, c := range []struct{ args, want string }{
		{"-hO JobID:5,State:.10,|Name", ""},
		{"-h -O JobID:5,State:.10,Name:6|,JobArrayID:4,numcpus:.3", "9       RUNNINGcall  |7_2   4\n"},
		{"-h --Format=username,statecompact", fmt.Sprintf("%-20s%-20s\n", "ann", "R")},
		{"-h -o %i -O qos:7,prioritylong:2", "normal 1 \n"}, {"-h -O qos -o %q/%Q/%p", "normal/1/0.00000000023283\n"},
		{"-h -O nosuch", ""}, {"-h -O jobid:x9999999", "9x9999999\n"}, {"-h -O jobid:99999999999", ""},
	} {
		q, err := sbatch.ParseQueue(shellWords(c.args), "", noEnv)
		var b bytes.Buffer
		if err == nil {
			err = q.Print(&b, rows, time.Now())
		}
		if b.String() != c.want || (err != nil) != (c.want == "") {
			t.Errorf("squeue %s: %q, %v; want %q", c.args, b.String(), err, c.want)
		}
	}
	asked, err := sbatch.ParseAccount([]string{"-aPo", "all"}, "", noEnv, time.Time{})
	must(t, err)
	var b bytes.Buffer
	must(t, asked.Print(&b, rows, time.Now()))
	title, _, _ := strings.Cut(b.String(), "\n")
	if want := strings.ReplaceAll(sbatch.Fields(), " ", "|"); title != want {
		t.Errorf("sacct --format=all has the fields %s, want %s", title, want)
	}
}

// The paths of jobs are those to which Nextflow links, and those that Snakemake lists.
func TestFilesOfJobs(t *testing.T) {
	for _, c := range []struct{ script, reads, writes string }{
		{"#!/bin/bash\nnxf_stage() {\n    rm -f s1\n    ln -s /w/3f/ab12/s1.bam s1.bam; ln -s '/w/3f/cd/x' \"x\"\n" +
			"}\ncd /w/aa/own; cat /w/aa/own/in\n", "/bin/bash /w/3f/ab12/s1.bam /w/3f/cd/x", "/w/aa/own"},
		{"#!/bin/sh\n# properties = {\"type\": \"single\", \"rule\": \"count\", \"input\": [\"result/one.words\", " +
			"\"/ref/a\"], \"output\": [\"result/one.count\"], \"log\": []}\ncd /elsewhere && snakemake\n",
			"/ref/a /w/aa/own/result/one.words", "/w/aa/own/result/one.count"},
		{"#!/bin/sh\n# properties = {broken\necho /a//b/../c/\n", "/a/c /bin/sh", "/w/aa/own"},
		{"", "", "/w/aa/own"},
	} {
		j := &sbatch.Job{About: sbatch.About{Dir: "/w/aa/own"}, Script: []byte(c.script)}
		reads, writes := j.Files()
		if r, w := strings.Join(reads, " "), strings.Join(writes, " "); r != c.reads || w != c.writes {
			t.Errorf("%q\nreads %q, want %q; writes %q, want %q", c.script, r, c.reads, w, c.writes)
		}
	}
}

// GPUs are counted whatever option asks for them; of one option the last counts, of several the largest.
func TestJobsAskForGPUs(t *testing.T) {
	for args, want := range map[string]float64{"": 0, "--gres=gpu": 1, "--gres=gpu:2": 2, "-G 3": 3, "-G1 -G0": 0,
		"-G0 -G1 --gres=gpu:00,fast:0": 1, "-G tesla:0,kepler:0 --gpus-per-task tesla:0": 0, "--gpus-per-node=2": 2,
		"--gpus-per-task=2 -n 3": 6, "--gpus-per-task=1": 1, "--gpus=4 --gres=gpu:2": 4, "--gres=mps:50": 0.5,
		"--tres-per-task=gres/gpu=0": 0} {
		j, err := sbatch.Parse(append(strings.Fields(args), "--wrap", "true"), host(nil, ""))
		if err != nil || float64(j.GPUs)/1000 != want {
			t.Errorf("%q: %+v, %v; want %g GPUs", args, j, err, want)
		}
	}
}

// must ends a test at an error that it does not look for.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
