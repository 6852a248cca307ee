package trace_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"

	"gantry/trace"
	"gantry/trace/reader/readertest"
)

// archive reads a text as an archive; it shows its jobs, a line each, and its faults.
func archive(t *testing.T, name, text string, opt trace.ReadOptions) (a *trace.Archive, jobs, faults string) {
	t.Helper()
	a, all, err := trace.ReadArchive(strings.NewReader(text), name, opt)
	must(t, err)
	if trace.HasErrors(all) {
		return a, "", fmt.Sprint(all)
	}
	for i := range a.Len() {
		jobs += fmt.Sprintf("%v %s %q:", a.At(i), a.Name(i), a.Tenant(i))
		w := a.Workflow(i)
		for k := range w.Tasks {
			x := &w.Tasks[k]
			jobs += fmt.Sprintf(" %s(%s %v est %v cores %g mem %d after %v)", x.ID, x.Kind, x.Runtime, x.Estimate,
				x.Cores, x.MemoryBytes, x.Parents)
		}
		jobs += "\n"
	}
	return a, jobs, fmt.Sprint(all)
}

const swfHead = "; Version: 2.2\n;  MaxProcs: 128\n"

func TestSWFIsAStreamOfJobsWithTheirUsersEstimates(t *testing.T) {
	a, jobs, faults := archive(t, "kth.swf", swfHead+
		"  1 100 5 60 4 -1 -1 8 120 -1 1 7 1 3 1 1 -1 -1\n"+
		"2 90 0 30 2 20.5 1024 -1 -1 2048 0 -1 1 -1 1 1 -1 -1\n"+
		"3 95 -1 -1 -1 -1 -1 8 120 -1 5 7 1 3 1 1 -1 -1\n"+ // cancelled before it ran
		"4 96 0 10 1 -1 -1 1 50 -1 2 7 1 3 1 1 -1 -1\n"+ // part of a job
		"\n5 200 0 0 1 -1 -1 1 50 -1 1 8 1 -1 1 1 -1 -1", trace.ReadOptions{})
	want := "0s kth-2 \"\": job(job 30s est 0s cores 2 mem 4194304 after [])\n" +
		"10s kth-1 \"user7\": job(user7-program3 1m0s est 2m0s cores 8 mem 0 after [])\n" +
		"1m50s kth-5 \"user8\": job(user8 0s est 50s cores 1 mem 0 after [])\n"
	if jobs != want || faults != "[]" {
		t.Errorf("got\n%swant\n%s%s", jobs, want, faults)
	}
	if s := fmt.Sprint(a.Left, a.Imputed); !strings.Contains(s, "left out of 1: jobs that never ran") ||
		!strings.Contains(s, "parts of jobs") || !strings.Contains(s, "estimate of 1: the runtime itself") ||
		!strings.Contains(s, "memory of 2") {
		t.Error(s)
	}
	if a.From(10*time.Second) != 1 || a.From(11*time.Second) != 2 || a.Work != 540*time.Second {
		t.Error(a.From(10*time.Second), a.From(11*time.Second), a.Work)
	}
}

func TestSacctIsAStreamOfJobs(t *testing.T) {
	a, jobs, faults := archive(t, "sacct.txt",
		"JobID|JobName|User|Submit|Start|End|Elapsed|AllocCPUS|ReqMem|MaxRSS|State|Timelimit\n"+
			"7|align|ann|2026-01-31T10:00:00|2026-01-31T10:00:05|2026-01-31T10:01:05|00:01:00|"+
			"4|2Gc||COMPLETED|1-00:00:00\n"+
			"7.batch|batch||2026-01-31T10:00:00|2026-01-31T10:00:05|2026-01-31T10:01:05|00:01:00|"+
			"4||500000K|COMPLETED|\n"+
			"8_3|call|bob|2026-01-31T09:59:00|2026-01-31T10:00:00|2026-01-31T10:00:30|00:00:30|1|||TIMEOUT|00:00:30\n"+
			"8_3.extern|extern||2026-01-31T09:59:00|2026-01-31T10:00:00|2026-01-31T10:00:30|00:00:30|"+
			"1||3M|COMPLETED|\n"+
			"9|call|bob|2026-01-31T10:00:00|Unknown|Unknown|00:00:00|0|||PENDING|00:30:00\n"+
			"10|call|bob|2026-01-31T10:00:00|2026-01-31T10:00:00|Unknown|00:10:00|1|||RUNNING|UNLIMITED\n"+
			"11|call|bob|2026-01-31T10:00:00|None|2026-01-31T10:00:00|00:00:00|0|||CANCELLED by 5|UNLIMITED\n",
		trace.ReadOptions{})
	want := "0s sacct-8_3 \"bob\": job(call 30s est 30s cores 1 mem 3145728 after [])\n" +
		"1m0s sacct-7 \"ann\": job(align 1m0s est 24h0m0s cores 4 mem 8589934592 after [])\n"
	if jobs != want || faults != "[]" || fmt.Sprint(a.Left) != "[left out of 3: jobs that have not run to their end]" {
		t.Errorf("got\n%swant\n%s%s%v", jobs, want, faults, a.Left)
	}
}

const batch = "M1,2,j_1,1,Terminated,100,160,50,0.3\n" +
	"R2_1,1,j_1,1,Terminated,160,170,100,0.3\n" +
	"task_Nzg=,1,j_9,12,Terminated,90,95,100,\n" + // between the rows of another job
	"J3_1_2,1,j_1,1,Failed,170,190,,0.3\n" +
	"R4_7,1,j_1,1,Terminated,170,190,100,0.3\n" + // 7 is not there
	"M1,1,j_12,1,Running,100,0,100,0.3\n"

func TestAlibabaBatchTasksAreWorkflows(t *testing.T) {
	a, jobs, faults := archive(t, "batch_task.csv", batch, trace.ReadOptions{})
	want := "0s batch_task-j_9 \"\": task_Nzg=(type12 5s est 0s cores 1 mem 0 after [])\n" +
		"10s batch_task-j_1 \"\": M1(type1 1m0s est 0s cores 0.5 mem 0 after [])" +
		" R2_1(type1 10s est 0s cores 1 mem 0 after [0]) J3_1_2(type1 20s est 0s cores 0 mem 0 after [0 1])" +
		" R4_7(type1 20s est 0s cores 1 mem 0 after [])\n"
	if jobs != want || faults != "[]" {
		t.Errorf("got\n%swant\n%s%s", jobs, want, faults)
	}
	if s := fmt.Sprint(a.Left); !strings.Contains(s, "tasks that have not run") ||
		!strings.Contains(s, "dependencies on") {
		t.Error(s)
	}
	quoted := regexp.MustCompile(`(?m)\b[A-Za-z][\w=]*`).ReplaceAllString(batch, `"$0"`) // as R writes a table
	if _, again, faults := archive(t, "batch_task.csv", quoted, trace.ReadOptions{}); again != jobs || faults != "[]" {
		t.Errorf("with quotes:\n%s%s", again, faults)
	}
	a, jobs, _ = archive(t, "batch_task.csv", batch, trace.ReadOptions{Instances: true})
	// A task for form gathers the instances.
	if want := "10s batch_task-j_1 \"\": M1.1(type1 1m0s est 0s cores 0.5 mem 0 after [])" +
		" M1.2(type1 1m0s est 0s cores 0.5 mem 0 after []) M1(type1 0s est 0s cores 0 mem 0 after [0 1])" +
		" R2_1(type1 10s est 0s cores 1 mem 0 after [2])"; !strings.Contains(jobs, want) || a.Tasks() != 6 {
		t.Errorf("got\n%swant\n%s\n%d", jobs, want, a.Tasks())
	}
}

// Archives are written by many programs.
func TestDialectsOfArchives(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"pandas.swf", "1.0 5.0 3.0 60.0 4.0 -1.0 -1.0 -1.0 90.0 -1.00 1.0 3.0 -1.0 -1.0 -1.0 -1.0 -1.0 -1.0\n",
			"0s pandas-1 \"user3\": job(user3 1m0s est 1m30s cores 4 mem 0 after [])\n"},
		{"raw.txt", "JobIDRaw|Submit|Elapsed|NCPUS|NNodes|ReqMem|MaxRSS|\n" +
			"5|2026-01-31T10:00:00|00:01:00|4|2|1Gn||\n" +
			"5.batch|2026-01-31T10:00:00|00:01:00|2|1||3G|\n" + // more than it asked for
			"6|2026-01-31T10:00:00|00:01:00|4|2|0n||\n6.0|2026-01-31T10:00:00|00:01:00|4|2|0n|1M|\n",
			"0s raw-5 \"\": job(job 1m0s est 0s cores 4 mem 2147483648 after [])\n" +
				"0s raw-6 \"\": job(job 1m0s est 0s cores 4 mem 1048576 after [])\n"},
		{"no-state.csv", "M1,1,j_1,1,,100,160,100,\n",
			"0s no-state-j_1 \"\": M1(type1 1m0s est 0s cores 1 mem 0 after [])\n"},
	} {
		if _, jobs, faults := archive(t, c.name, c.text, trace.ReadOptions{}); jobs != c.want || faults != "[]" {
			t.Errorf("%s: got\n%swant\n%s%s", c.name, jobs, c.want, faults)
		}
	}
}

// What is wrong is said with its line, or repaired, and never costs more than the file lets expect.
func TestHostileArchives(t *testing.T) {
	row := func(fields ...string) string {
		f := strings.Fields("1 0 0 60 4 -1 -1 4 120 -1 1 7 1 3 1 1 -1 -1")
		for i := 0; i < len(fields); i += 2 {
			var n int
			fmt.Sscan(fields[i], &n)
			f[n-1] = fields[i+1]
		}
		return strings.Join(f, " ") + "\n"
	}
	sacct := "JobID|Submit|Elapsed|AllocCPUS|State\n"
	for _, c := range []struct{ name, text, says, repaired string }{
		{"a.swf", swfHead + row() + "2 5 0 60", "fields", "left out"},
		{"a.swf", swfHead + row("4", "1e300"), "above the bound", "no job"},
		{"a.swf", swfHead + row("4", "NaN"), "not a number", "no job"},
		{"a.swf", swfHead + row("8", "99999999"), "above the bound", "no job"},
		{"a.swf", swfHead + row("10", "9e15"), "above the bound", "no job"},
		{"a.swf", swfHead + row("2", "-5"), "negative", "no job"},
		{"a.swf", swfHead + row() + row(), "twice", "left out"},
		{"a.swf", swfHead + row("2", "5") + row("1", "2", "2", "9000000000"), "spread", "spread"},
		{"a.swf", swfHead, "no job", "no job"},
		{"a.swf", swfHead + strings.Repeat("1", 2<<20), "a line of more", "a line of more"},
		{"s", sacct + "1|2026-02-30T00:00:00|00:01:00|1|COMPLETED", "not a time", "no job"},
		{"s", sacct + "1|2026-02-03T00:00:00|-1-00:01:00|1|COMPLETED", "not a time", "no job"},
		{"s", sacct + "1|2026-02-03T00:00:00|99999-00:01:00|1|COMPLETED", "not a time", "no job"},
		{"s", sacct + "1|2|3", "fields", "left out"},
		{"s", "JobID|State\n1|COMPLETED\n", "no column", "no column"},
		{"s", "JobID|State|state\n", "two columns", "two columns"},
		{"b", "M1_2,1,j_1,1,Terminated,1,2,1,1\nM2_1,1,j_1,1,Terminated,1,2,1,1\n",
			"wait for each other: M1_2 -> M2_1 -> M1_2", "dropped"},
		{"b", "M1,1,j_1,1,Terminated,1,2,1,1\nM1,1,j_1,1,Terminated,1,2,1,1\n", "task M1 twice", "left out"},
		{"b", "M1,1000000000,j_1,1,Terminated,1,2,1,1\n", "above the bound", "no job"},
		{"b", "M1,1,j_1,1,Terminated,1,2,inf,1\n", "not a number", "no job"},
	} {
		readertest.Bounded(t, len(c.text), func() {
			_, _, faults := archive(t, c.name, c.text, trace.ReadOptions{})
			if !oneOf(faults, c.says) {
				t.Errorf("%.80q: %s", c.text, faults)
			}
			_, _, faults = archive(t, c.name, c.text, trace.ReadOptions{Repair: true})
			if !strings.Contains(faults, c.repaired) {
				t.Errorf("%.80q repaired: %s", c.text, faults)
			}
		})
	}
}

func oneOf(text, wanted string) bool {
	for part := range strings.SplitSeq(wanted, "|") {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

func TestAnArchiveIsNoSingleWorkflow(t *testing.T) {
	_, faults, err := trace.Read(strings.NewReader(batch), "batch_task.csv", trace.ReadOptions{})
	if err != nil || !strings.Contains(fmt.Sprint(faults), "archives.md") {
		t.Error(faults, err)
	}
}

// FuzzArchive reads archives.
func FuzzArchive(f *testing.F) {
	for _, s := range []string{swfHead + "1 0 0 60 4 -1 -1 4 120 -1 1 7 1 3 1 1 -1 -1\n", batch,
		"JobID|Submit|Elapsed|AllocCPUS|ReqMem|State|Timelimit\n1_[2]|1000|1-00:00:10.5|1|3Gn|COMPLETED|UNLIMITED\n" +
			"1.0|1000|00:10|1|3Gc|COMPLETED|1:1:1\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		readertest.Bounded(t, len(data), func() {
			for _, opt := range []trace.ReadOptions{{}, {Repair: true, Instances: true}} {
				a, faults, err := trace.ReadArchive(bytes.NewReader(data), "fuzz", opt)
				must(t, err)
				bounded(t, faults)
				names := map[string]bool{}
				for i := 0; !trace.HasErrors(faults) && i < min(a.Len(), 100); i++ {
					w := a.Workflow(i)
					if names[w.Name] || a.At(i) < 0 || i > 0 && a.At(i) < a.At(i-1) || w.Stats().Cyclic ||
						len(w.Tasks) == 0 {
						t.Fatalf("%d: %+v", i, w)
					}
					names[w.Name] = true
				}
			}
		})
	})
}

// wtaTask has the columns of the Workflow Trace Archive that count, and one that does not.
type wtaTask struct {
	ID       int64   `parquet:"id"`
	Type     string  `parquet:"type"`
	Submit   int64   `parquet:"ts_submit"`
	Runtime  int64   `parquet:"runtime"`
	Cores    float64 `parquet:"resource_amount_requested"`
	Parents  []int64 `parquet:"parents,list"`
	User     int32   `parquet:"user_id"`
	Workflow int64   `parquet:"workflow_id"`
	Nfrs     string  `parquet:"nfrs"`
}

// wta writes tasks as a directory of the archive, in two files.
func wta(t testing.TB, tasks ...wtaTask) string {
	dir := filepath.Join(t.TempDir(), "spec")
	must(t, os.MkdirAll(filepath.Join(dir, "tasks", "schema-1.0"), 0o755))
	for i, part := range [][]wtaTask{tasks[:len(tasks)/2], tasks[len(tasks)/2:]} {
		must(t, parquet.WriteFile(filepath.Join(dir, "tasks", "schema-1.0", fmt.Sprintf("part.%d.parquet", i)), part))
	}
	return dir
}

func TestTheWorkflowTraceArchiveIsAStreamOfWorkflows(t *testing.T) {
	dir := wta(t, wtaTask{ID: -7, Type: "M", Submit: 5000, Runtime: 1500, Cores: 2, User: 3, Workflow: -1},
		wtaTask{ID: 9, Submit: 2000, Runtime: 100, Cores: -1, User: -1, Workflow: 4},
		wtaTask{ID: 8, Type: "R", Submit: 4000, Runtime: 10, Cores: 1, Parents: []int64{-7, -7, 9, 77}, User: 3,
			Workflow: -1},
		wtaTask{ID: 5, Submit: 4000, Runtime: -1, Workflow: 4})
	if !trace.IsArchive(dir) || trace.IsArchive(t.TempDir()) {
		t.Error("which directory is an archive?")
	}
	if files, _, err := trace.Find([]string{dir}); err != nil || len(files) != 1 || files[0] != dir {
		t.Error(files, err)
	}
	part := filepath.Join(dir, "tasks", "schema-1.0", "part.0.parquet")
	one, _, err := trace.OpenArchive(part, nil, trace.ReadOptions{})
	if err != nil || one.Len() != 2 {
		t.Error(one, err)
	}
	a, faults, err := trace.OpenArchive(dir, nil, trace.ReadOptions{})
	if err != nil || len(faults) > 0 {
		t.Fatal(faults, err)
	}
	w := a.Workflow(1)
	got := fmt.Sprintln(a.Len(), a.Name(0), a.Tenant(1), a.At(1), a.Left)
	if want := "2 spec-4 user3 2s [left out of 1: tasks without a runtime or an instant of submission " +
		"left out of 2: dependencies on tasks that the workflow does not have]\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	first, second := w.Tasks[0], w.Tasks[1]
	if got := fmt.Sprintln(first.Runtime, first.Cores, second.ID, second.Kind, second.Parents); got !=
		"1.5s 2 t2 R [0]\n" {
		t.Error(got)
	}
	local, faults, err := trace.OpenArchive(wta(t, wtaTask{ID: 1, Workflow: 1}, wtaTask{ID: 2, Workflow: 1},
		wtaTask{ID: 1, Workflow: 2}, wtaTask{ID: 2, Workflow: 2, Parents: []int64{1}}), nil, trace.ReadOptions{})
	if err != nil || len(faults) > 0 || local.Len() != 2 || fmt.Sprint(local.Workflow(0).Tasks[1].Parents,
		local.Workflow(1).Tasks[1].Parents) != "[] [0]" {
		t.Error("ids that each workflow counts anew:", faults, err)
	}
	for _, c := range []struct {
		says  string
		tasks []wtaTask
	}{
		{"wait for each other", []wtaTask{{ID: 1, Parents: []int64{2}}, {ID: 2, Parents: []int64{1}}}},
		{"twice", []wtaTask{{ID: 1}, {ID: 1}}},
		{"beyond", []wtaTask{{ID: 1, Runtime: 1 << 62}, {ID: 2}}},
		{"above the bound", []wtaTask{{ID: 1, Cores: 1e300}, {ID: 2}}},
		{"above the bound", []wtaTask{{ID: 1, Cores: math.NaN()}, {ID: 2}}},
	} {
		if _, faults, err := trace.OpenArchive(wta(t, c.tasks...), nil, trace.ReadOptions{}); err != nil ||
			!strings.Contains(fmt.Sprint(faults), c.says) {
			t.Error(c.says, faults, err)
		}
	}
}

// Truncated and changed Parquet ends in a fault.
func TestDamagedParquetIsAFault(t *testing.T) {
	dir := wta(t, wtaTask{ID: 1}, wtaTask{ID: 2, Parents: []int64{1}})
	path := filepath.Join(dir, "tasks", "schema-1.0", "part.1.parquet")
	whole, err := os.ReadFile(path)
	must(t, err)
	for i := 0; i < len(whole); i += 5 {
		broken := bytes.Clone(whole)
		broken[i] ^= 0xff
		if i%2 == 0 {
			broken = broken[:i]
		}
		must(t, os.WriteFile(path, broken, 0o644))
		readertest.Bounded(t, len(whole), func() {
			if _, faults, err := trace.OpenArchive(dir, nil, trace.ReadOptions{}); err != nil {
				t.Fatal(i, faults, err)
			}
		})
	}
}

// A page may claim to be small: it is unpacked up to its claim before the library unpacks all of it.
func TestPagesHaveNoMoreBytesThanTheyClaim(t *testing.T) {
	for name, codec := range map[string]compress.Codec{"snappy": &parquet.Snappy, "gzip": &parquet.Gzip,
		"zstd": &parquet.Zstd, "brotli": &parquet.Brotli} {
		path := filepath.Join(t.TempDir(), "tasks.parquet")
		must(t, parquet.WriteFile(path, []wtaTask{{ID: 1, Type: strings.Repeat("x", 4000), Workflow: 1}},
			parquet.Compression(codec)))
		read := func() []trace.Fault {
			_, faults, err := trace.OpenArchive(path, nil, trace.ReadOptions{})
			must(t, err)
			return faults
		}
		if faults := read(); name != "brotli" && len(faults) > 0 || name == "brotli" && !strings.Contains(
			fmt.Sprint(faults), "gantry reads snappy, gzip and zstd; write it with one of these") {
			t.Errorf("%s: %v", name, faults)
		}
		text, err := os.ReadFile(path)
		must(t, err)
		f, err := parquet.OpenFile(bytes.NewReader(text), int64(len(text)))
		must(t, err)
		for i := range f.Metadata().RowGroups[0].Columns { // the size is the second number of a page's header
			if size := text[f.Metadata().RowGroups[0].Columns[i].MetaData.DataPageOffset+3:]; size[1]&0x80 == 0 &&
				size[0]&0x80 != 0 && size[1] > 0x20 {
				copy(size, []byte{0x82, 0x00})
			}
		}
		must(t, os.WriteFile(path, text, 0o600))
		if faults := read(); len(faults) != 1 || faults[0].Rule != "bad-archive" {
			t.Errorf("%s: %v, want a refusal", name, faults)
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
