package main_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gantry/executor/emulate"
)

var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "gantry-task")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "gantry-task")
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// ended is how a run of the emulator ended.
type ended struct {
	code   int
	stderr string
	cpu    time.Duration // as the kernel counted it
	maxRSS int64         // bytes
}

// emulated runs the emulator in dir.
func emulated(t *testing.T, dir string, s emulate.Spec) (ended, *emulate.Report) {
	t.Helper()
	must(t, s.Write(filepath.Join(dir, "spec.json")))
	e := invoke(t, dir, "spec.json")
	r, err := emulate.ReadReport(dir)
	if err != nil {
		t.Fatalf("no report: %v; exit code %d, %s", err, e.code, e.stderr)
	}
	return e, r
}

func invoke(t *testing.T, dir string, args ...string) ended {
	t.Helper()
	cmd := exec.Command(binary, args...)
	var stderr bytes.Buffer
	cmd.Dir, cmd.Stderr = dir, &stderr
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return ended{cmd.ProcessState.ExitCode(), stderr.String(), cmd.ProcessState.UserTime() +
		cmd.ProcessState.SystemTime(), usage.Maxrss << 10}
}

func put(t *testing.T, path string, size int) {
	t.Helper()
	must(t, os.WriteFile(path, bytes.Repeat([]byte{7}, size), 0o644))
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	st, err := os.Stat(path)
	must(t, err)
	return st.Size()
}

func TestZeroSpecDoesNothing(t *testing.T) {
	dir := t.TempDir()
	e, r := emulated(t, dir, emulate.Spec{})
	if e.code != emulate.ExitOK || e.stderr != "" || len(r.Misses) != 0 {
		t.Fatalf("exit code %d, %q, misses %v", e.code, e.stderr, r.Misses)
	}
	if p := r.Phases; r.Read.Achieved != 0 || r.Write.Achieved != 0 || r.Memory.Achieved != 0 || p.WallNanos <= 0 {
		t.Errorf("a spec of nothing led to %+v", r)
	}
	left, _ := os.ReadDir(dir)
	if len(left) != 2 { // spec and report
		t.Errorf("files left: %v", left)
	}
}

func TestCPUTimeIsSpentWhateverTheThreads(t *testing.T) {
	for _, c := range []struct {
		threads int
		duty    int64
	}{{1, 100}, {2, 100}, {5, 100}, {1, 25}, {3, 60}} {
		t.Run(fmt.Sprintf("%d threads at %v percent", c.threads, c.duty), func(t *testing.T) {
			const asked = 300 * time.Millisecond
			run := int64(asked) / int64(c.threads) * 100 / c.duty
			e, r := emulated(t, t.TempDir(), emulate.Spec{CPUNanos: int64(asked), Threads: c.threads, RunNanos: run})
			if e.code != 0 {
				t.Fatalf("exit code %d: %s", e.code, e.stderr)
			}
			if e.cpu < asked*98/100 {
				t.Errorf("the kernel counted %v of %v", e.cpu, asked)
			}
			if got := time.Duration(r.CPU.Achieved); r.CPU.Asked != int64(asked) || got < asked*98/100 ||
				got > asked*102/100 {
				t.Errorf("report %+v", r.CPU)
			}
			// However slow the machine, the work is spread over nine tenths of the run, and the task lasts it all.
			if p := r.Phases; p.ComputeNanos < run*8/10 || p.WallNanos < run {
				t.Errorf("computed for %v of %v, asked for %v", time.Duration(p.ComputeNanos),
					time.Duration(p.WallNanos), time.Duration(run))
			}
		})
	}
}

func TestIOCountsAsCPUTimeAsked(t *testing.T) {
	const asked = 400 * time.Millisecond
	var spent time.Duration
	for range 5 { // a try beside other work may spend more than it can take back
		e, r := emulated(t, t.TempDir(), emulate.Spec{CPUNanos: int64(asked), MemoryBytes: 64 << 20,
			Outputs: []emulate.File{{Path: "out", Bytes: 16 << 20}}})
		if e.code != 0 {
			t.Fatalf("exit code %d: %s", e.code, e.stderr)
		}
		spent = time.Duration(r.CPU.Achieved)
		if spent >= asked*98/100 && spent <= asked*102/100 && r.OwnCPUNanos > 0 && r.OwnCPUNanos < int64(asked) {
			return
		}
	}
	t.Errorf("asked %v for everything, spent %v", asked, spent)
}

// A thousand synced files take more CPU time than their bytes tell.
func TestWhatWritingCostsIsNoMiss(t *testing.T) {
	s := emulate.Spec{CPUNanos: int64(300 * time.Millisecond)}
	for i := range 1000 {
		s.Outputs = append(s.Outputs, emulate.File{Path: fmt.Sprint("out", i), Bytes: 1})
	}
	if e, r := emulated(t, t.TempDir(), s); e.code != 0 || r.CPU.Achieved < s.CPUNanos {
		t.Errorf("exit code %d: %s; %+v, own %v", e.code, e.stderr, r.CPU, time.Duration(r.OwnCPUNanos))
	}
}

// However long starting took and however little is to be computed, the runtime of the trace is kept; CPU time and bytes
// are spread over it.
func TestATaskLastsItsRuntime(t *testing.T) {
	const run = 400 * time.Millisecond
	for name, s := range map[string]emulate.Spec{
		"two percent CPU":     {CPUNanos: int64(run) / 50},
		"reads and writes":    {CPUNanos: int64(run) / 4, Outputs: []emulate.File{{Path: "out", Bytes: 4 << 20}}},
		"more threads":        {CPUNanos: int64(run), Threads: 4},
		"nothing but to wait": {},
	} {
		t.Run(name, func(t *testing.T) {
			s.RunNanos = int64(run)
			dir := t.TempDir()
			put(t, filepath.Join(dir, "in"), 4<<20)
			s.Inputs = []emulate.File{{Path: "in", Bytes: 4 << 20}}
			e, r := emulated(t, dir, s)
			if e.code != 0 || r.Phases.WallNanos < int64(run) {
				t.Errorf("exit code %d, %s, lasted %v", e.code, e.stderr, time.Duration(r.Phases.WallNanos))
			}
			if s.CPUNanos == 0 && e.cpu > 150*time.Millisecond {
				t.Errorf("waiting took %v of CPU time", e.cpu)
			}
			if (r.LateNanos > 0) != (r.LimitedBy != "") || r.LateNanos > r.Phases.WallNanos-int64(run) {
				t.Errorf("%v late, limited by %q", time.Duration(r.LateNanos), r.LimitedBy)
			}
		})
	}
}

// A task that cannot do its work in its time lasts as long as the work does, and says which part it was.
func TestWhatLimitsATaskIsNamed(t *testing.T) {
	s := emulate.Spec{RunNanos: int64(20 * time.Millisecond)}
	for i := range 300 {
		s.Outputs = append(s.Outputs, emulate.File{Path: fmt.Sprint("out", i), Bytes: 1})
	}
	if e, r := emulated(t, t.TempDir(), s); e.code != 0 || r.LimitedBy != "write" || r.LateNanos <= 0 {
		t.Errorf("exit code %d, %s; limited by %q, %v late", e.code, e.stderr, r.LimitedBy, time.Duration(r.LateNanos))
	}
}

func TestMemoryIsReallyHeld(t *testing.T) {
	const asked = 120 << 20
	e, r := emulated(t, t.TempDir(), emulate.Spec{MemoryBytes: asked})
	if e.code != 0 {
		t.Fatalf("exit code %d: %s", e.code, e.stderr)
	}
	for what, got := range map[string]int64{"kernel's peak": e.maxRSS, "report": r.Memory.Achieved} {
		if got < asked*95/100 || got > asked*105/100+(2<<20) {
			t.Errorf("%s: %d bytes of %d", what, got, asked)
		}
	}
	if r.OwnMemoryBytes <= 0 || r.OwnMemoryBytes > 16<<20 {
		t.Errorf("own memory %d", r.OwnMemoryBytes)
	}
}

// Touching a gigabyte takes the kernel longer than a program is taken to go without a look at the clock.
func TestTakingMemoryIsPartOfTheRun(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a gigabyte of memory")
	}
	const run = 5 * time.Second
	e, r := emulated(t, t.TempDir(), emulate.Spec{RunNanos: int64(run), MemoryBytes: 1 << 30})
	if e.code != 0 {
		t.Fatalf("exit code %d: %s", e.code, e.stderr)
	}
	wall, touching := time.Duration(r.Phases.WallNanos), time.Duration(r.Phases.MemoryNanos)
	if touching < 300*time.Millisecond || touching > run*4/5 {
		t.Skipf("touching memory took %v, which shows nothing", touching)
	}
	if most := run + touching/2; wall > most {
		t.Errorf("it lasted %v and touched memory for %v, %v longer than asked", wall, touching, wall-run)
	}
}

func TestFilesAreReadAndWrittenByteForByte(t *testing.T) {
	for _, direct := range []bool{false, true} {
		for _, bytes := range []int64{0, 1, 4095, 4096, 4097, 1 << 20, 5<<20 + 123} {
			t.Run(fmt.Sprintf("%d bytes, direct %v", bytes, direct), func(t *testing.T) {
				dir := t.TempDir()
				put(t, filepath.Join(dir, "in"), int(bytes))
				e, r := emulated(t, dir, emulate.Spec{Direct: direct,
					Inputs:  []emulate.File{{Path: "in", Bytes: bytes}, {Path: "in", Bytes: -1}},
					Outputs: []emulate.File{{Path: "deep/er/out", Bytes: bytes}, {Path: "out", Bytes: bytes}}})
				if e.code != 0 {
					t.Fatalf("exit code %d: %s", e.code, e.stderr)
				}
				if r.Read.Achieved != 2*bytes || r.Write.Achieved != 2*bytes {
					t.Errorf("read %d, written %d", r.Read.Achieved, r.Write.Achieved)
				}
				if a, b := size(t, filepath.Join(dir, "deep/er/out")), size(t, filepath.Join(dir, "out")); a != bytes ||
					b != bytes {
					t.Errorf("sizes %d and %d", a, b)
				}
			})
		}
	}
}

func TestOutputsDoNotCompressAndRepeatWithTheirSeed(t *testing.T) {
	content := func(seed uint64, name string) []byte {
		dir := t.TempDir()
		e, _ := emulated(t, dir, emulate.Spec{Seed: seed, Outputs: []emulate.File{{Path: name, Bytes: 1<<20 + 5}}})
		if e.code != 0 {
			t.Fatal(e.stderr)
		}
		b, err := os.ReadFile(filepath.Join(dir, name))
		must(t, err)
		return b
	}
	a := content(1, "a")
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	w.Write(a)
	w.Close()
	if z.Len() < len(a) {
		t.Errorf("%d bytes compress to %d", len(a), z.Len())
	}
	if !bytes.Equal(a, content(1, "a")) {
		t.Error("the same seed gave other bytes")
	}
	if bytes.Equal(a, content(2, "a")) || bytes.Equal(a, content(1, "b")) {
		t.Error("another seed or name gave the same bytes")
	}
}

func TestOutputNeverOverwritesTheInputItIsLinkedTo(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "kept"), 100)
	must(t, os.Link(filepath.Join(dir, "kept"), filepath.Join(dir, "f")))
	e, _ := emulated(t, dir, emulate.Spec{Inputs: []emulate.File{{Path: "f", Bytes: 100}},
		Outputs: []emulate.File{{Path: "f", Bytes: 5}}})
	if e.code != 0 || size(t, filepath.Join(dir, "kept")) != 100 || size(t, filepath.Join(dir, "f")) != 5 {
		t.Errorf("exit code %d: %s", e.code, e.stderr)
	}
}

func TestMissedTargetFailsTheTask(t *testing.T) {
	for _, c := range []struct {
		name    string
		arrange func(t *testing.T, dir string)
		spec    emulate.Spec
		says    string
	}{
		{"input too short", func(t *testing.T, dir string) { put(t, filepath.Join(dir, "in"), 10) },
			emulate.Spec{Inputs: []emulate.File{{Path: "in", Bytes: 11}}}, "input in: asked 11 bytes, there were 10"},
		{"input too long", func(t *testing.T, dir string) { put(t, filepath.Join(dir, "in"), 12) },
			emulate.Spec{Inputs: []emulate.File{{Path: "in", Bytes: 11}}}, "input in: asked 11 bytes, there were 12"},
		{"no input", nil, emulate.Spec{CPUNanos: int64(time.Hour), Inputs: []emulate.File{{Path: "in", Bytes: 1}}},
			"input in: no such file"},
		{"input is a device", func(t *testing.T, dir string) { os.Symlink("/dev/null", filepath.Join(dir, "in")) },
			emulate.Spec{Inputs: []emulate.File{{Path: "in", Bytes: -1}}}, "input in: not a regular file"},
		{"output directory is a file", func(t *testing.T, dir string) { put(t, filepath.Join(dir, "d"), 1) },
			emulate.Spec{Outputs: []emulate.File{{Path: "d/out", Bytes: 1}}}, "output d/out: asked 1 bytes, wrote 0: "},
		{"more memory than there can be", nil, emulate.Spec{MemoryBytes: 1 << 60}, "memory: asked"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if c.arrange != nil {
				c.arrange(t, dir)
			}
			e, r := emulated(t, dir, c.spec)
			if e.code != emulate.ExitMissed || !strings.Contains(e.stderr, "missed: "+c.says) || len(r.Misses) != 1 {
				t.Errorf("exit code %d, %q, misses %q", e.code, e.stderr, r.Misses)
			}
		})
	}
}

func TestFullDiskIsAMiss(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("needs root, to mount a file system of 1 MB: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, 0) })
	for _, direct := range []bool{true, false} {
		e := func() ended {
			must(t, (&emulate.Spec{Direct: direct,
				Outputs: []emulate.File{{Path: "out", Bytes: 4 << 20}}}).Write(
				filepath.Join(dir, "spec.json")))
			return invoke(t, dir, "spec.json")
		}()
		if e.code != emulate.ExitMissed || !strings.Contains(e.stderr, "no space left on device") {
			t.Errorf("direct %v: exit code %d, %q", direct, e.code, e.stderr)
		}
		os.Remove(filepath.Join(dir, "out"))
	}
}

func TestBadSpecIsRefused(t *testing.T) {
	for name, content := range map[string]string{
		"not JSON":       "cpu",
		"truncated":      `{"cpu_nanos": 1`,
		"negative CPU":   `{"cpu_nanos": -1}`,
		"negative run":   `{"run_nanos": -1}`,
		"output unsized": `{"outputs": [{"path": "a", "bytes": -1}]}`,
		"nameless input": `{"inputs": [{"path": "", "bytes": 1}]}`,
		"many threads":   `{"threads": 1000000}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, os.WriteFile(filepath.Join(dir, "s.json"), []byte(content), 0o644))
			if e := invoke(t, dir, "s.json"); e.code != emulate.ExitSpec || !strings.Contains(e.stderr, "s.json") {
				t.Errorf("exit code %d, %q", e.code, e.stderr)
			}
		})
	}
	if e := invoke(t, t.TempDir(), "absent.json"); e.code != emulate.ExitSpec {
		t.Errorf("absent spec: exit code %d", e.code)
	}
	if e := invoke(t, t.TempDir()); e.code != emulate.ExitUsage || !strings.Contains(e.stderr, "usage") {
		t.Errorf("no spec: exit code %d, %q", e.code, e.stderr)
	}
}

func TestTermStopsAtOnce(t *testing.T) {
	const memory = 64 << 20
	for name, s := range map[string]emulate.Spec{
		"computing":  {CPUNanos: int64(time.Hour), Threads: 4, MemoryBytes: memory},
		"duty cycle": {CPUNanos: int64(6 * time.Minute), RunNanos: int64(time.Hour), MemoryBytes: memory},
		"idle":       {RunNanos: int64(time.Hour), MemoryBytes: memory},
	} {
		t.Run(name, func(t *testing.T) {
			e := interrupted(t, t.TempDir(), s, func(pid int) bool { // it would take an hour
				statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
				must(t, err)
				pages := 0
				fmt.Sscanf(string(statm), "%d %d", new(int), &pages)
				return pages*os.Getpagesize() >= memory/2 // it is well beyond its start
			})
			if e.code != emulate.ExitStopped {
				t.Errorf("ended with %d: %s", e.code, e.stderr)
			}
		})
	}
}

func TestWorkFollowsTheTrace(t *testing.T) {
	for _, c := range []struct {
		name   string
		cores  int64
		avgCPU float64
		want   emulate.Spec
	}{
		{"one busy core", 1, 100, emulate.Spec{CPUNanos: 1e9, Threads: 1}},
		{"not known", 2, -1, emulate.Spec{CPUNanos: 2e9, Threads: 2}},
		{"half of two cores", 2, 100, emulate.Spec{CPUNanos: 1e9, Threads: 2}},
		{"more than the cores can", 1, 178, emulate.Spec{CPUNanos: 1e9, Threads: 1}},
		{"no CPU at all", 1, 0, emulate.Spec{Threads: 1}},
		{"no cores said", 0, 50, emulate.Spec{CPUNanos: 5e8, Threads: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got emulate.Spec
			got.Work(2*time.Second, time.Second, c.cores, c.avgCPU)
			c.want.RunNanos = 2e9
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if err := got.Validate(); err != nil {
				t.Error(err)
			}
		})
	}
}

// must ends a test at an error that it does not look for.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
