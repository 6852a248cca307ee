package docker_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gantry/executor"
	"gantry/executor/container"
	"gantry/executor/container/stage"
	"gantry/planner"
	"gantry/planner/unit"
)

func TestShortTaskIsMeasured(t *testing.T) {
	if onOne(t, TestShortTaskIsMeasured) {
		return
	}
	r := newRig(t, nil)
	s := r.sh("dd if=/dev/zero of=big bs=64k count=16 conv=fsync 2>/dev/null; echo out; echo err >&2")
	x := r.exit(r.launch(s, nil))
	// On a host that is busy with other things, the last reading may come too late for what no parent keeps; not three
	// times in a row. Nor does the kernel write on its own account three times.
	for try := 1; try < 3 && (x.Usage.Missing != 0 || x.Usage.WrittenBytes < 1<<20); try++ {
		x = r.exit(r.launch(s, func(l *executor.Launch) { l.Try = int32(try + 1) }))
	}
	r.wants(x, planner.OK)
	u := x.Usage
	if os.Geteuid() == 0 && u.Missing != 0 {
		t.Errorf("missing counters %b", u.Missing)
	}
	if u.CPUUser+u.CPUSystem <= 0 || u.PeakMemory <= 0 {
		t.Errorf("no CPU time or memory: %+v", u)
	}
	if u.Missing&planner.CounterIO == 0 && (u.WrittenBytes < 1<<20 || u.WriteOps == 0) {
		t.Errorf("wrote %d bytes in %d operations, not 1 MiB", u.WrittenBytes, u.WriteOps)
	}
	if u.Staged < u.Queued || u.Created < u.Staged || u.Started < u.Created || u.Ended <= u.Started ||
		x.Ran != u.Ended.Sub(u.Started) {
		t.Errorf("instants out of order, or ran %v: %+v", x.Ran, u)
	}
	for range 2 { // the engine notes their start after their end
		if x := r.exit(r.launch(r.sh("true"), nil)); x.Ran <= 0 || x.Ran > 10*time.Second {
			t.Errorf("ran %v", x.Ran)
		}
	}
	if out, err := r.read(filepath.Join(r.work(s), ".command.out")),
		r.read(filepath.Join(r.work(s), ".command.err")); out != "out\n" || err != "err\n" {
		t.Errorf("output %q, error %q", out, err)
	}
	if code := r.read(filepath.Join(r.work(s), ".exitcode")); code != "0" {
		t.Errorf(".exitcode %q", code)
	}
}

func TestEndsAreClasses(t *testing.T) {
	if onOne(t, TestEndsAreClasses) {
		return
	}
	r := newRig(t, nil)
	limited := func(l *executor.Launch) { l.Hold[unit.Memory] = 32 << 20 }
	hog := "tail -c 200000000 /dev/zero | wc -c" // tail keeps all of it
	cases := []struct {
		name    string
		task    func() *executor.TaskSpec
		change  func(*executor.Launch)
		outcome planner.Outcome
		code    int
		says    []string
	}{
		{"exit code and last words", func() *executor.TaskSpec {
			return r.sh("echo first >&2; echo " +
				"$'second\\x1b[31m' >&2; exit 3")
		}, nil, planner.ExitCode, 3,
			[]string{"exit code 3", "first", "second"}},
		{"command not found", func() *executor.TaskSpec {
			s := r.sh("")
			s.Command, s.Shell = []string{"no-such-program", "x"}, false
			return s
		}, nil, planner.ExitCode, 127, []string{"no-such-program"}},
		{"too many arguments once they are expanded", func() *executor.TaskSpec {
			s := r.sh("")
			s.Command, s.Shell, s.Expand = []string{"echo", strings.Repeat(" $PART", 30)}, false, true
			s.Env = []string{"PART=" + strings.Repeat("p", 100_000)}
			return s
		}, nil, planner.ExitCode, 126, []string{"argument list too long", "take 31"}},
		{"patterns match files of the task alone", func() *executor.TaskSpec {
			s := r.sh("")
			s.Command, s.Shell, s.Expand = []string{"sh", `-c 'echo "$0" "$@" >&2; exit 3' /et[c]/passwd /* .command.s*`},
				false, true
			return s
		}, nil, planner.ExitCode, 3, []string{"/et[c]/passwd /* .command.sh"}},
		{"crash", func() *executor.TaskSpec { return r.sh("sh -c 'kill -SEGV $$'; exit $?") }, nil, planner.ExitCode,
			139, []string{"segmentation"}},
		{"out of memory", func() *executor.TaskSpec { return r.sh("exec tail -c 200000000 /dev/zero") }, limited,
			planner.OutOfMemory, 137, []string{"33.55 MB"}},
		{"out of memory in a child, reported", func() *executor.TaskSpec { return r.sh(hog + "; exit 5") }, limited,
			planner.OutOfMemory, 5, nil},
		{"out of memory in a child, ignored", func() *executor.TaskSpec { return r.sh(hog + "; exit 0") }, limited,
			planner.OK, 0, []string{"succeeded, although"}},
		{"exit 137 is no evidence", func() *executor.TaskSpec { return r.sh("exit 137") }, nil, planner.ExitCode, 137,
			nil},
		{"a program that looks for the claim", func() *executor.TaskSpec {
			return r.sh("rm -rf /.gantry/control/* /proc/1/fd/* /proc/1/cwd/* 2>/dev/null; ls -A " +
				"/.gantry/control && exit 9; " +
				"for f in /proc/1/fd/*; do echo exit 0 1 >>$f; done 2>/dev/null; exit 7")
		}, nil, planner.ExitCode, 7, []string{"exit code 7"}},
		{"a program without rights", func() *executor.TaskSpec {
			return r.sh("grep -E 'Cap(Inh|Prm|Eff|Bnd|Amb)' /proc/self/status | grep -v 0000000000000000 >&2; id -u " +
				">&2; id -G >&2; exit 8")
		}, nil, planner.ExitCode, 8, []string{fmt.Sprintf("exit code 8: %d | %d", programUser(), programUser())}},
		{"a shell that is asked to end", func() *executor.TaskSpec { return r.sh("kill -TERM 1; sleep 30; exit 6") },
			nil, planner.Killed, 143, []string{"SIGTERM"}},
		{"orphans are reaped", func() *executor.TaskSpec {
			return r.sh("for i in 1 2 3 4 5; do (sh -c 'sleep 0.1 & exit 0') & done; sleep 1; grep -l '(sleep) Z' " +
				"/proc/[0-9]*/stat && exit 9; exit 4")
		}, nil, planner.ExitCode, 4, nil},
		{"a program that clears its directory", func() *executor.TaskSpec { return r.sh("rm -f .command.*; exit 2") },
			nil, planner.ExitCode, 2, nil},
		{"time limit", func() *executor.TaskSpec {
			s := r.sh("trap 'exit 5' TERM; sleep 100 & wait")
			s.TimeLimit = 2 * time.Second
			return s
		}, nil, planner.TimedOut, 5, []string{"2s"}},
		{"output missing", func() *executor.TaskSpec { return r.sh("echo > b", r.file("a"), r.file("b")) }, nil,
			planner.OutputMissing, 0, []string{`"a" was not written`}},
		{"no such image", func() *executor.TaskSpec {
			s := r.sh("true")
			s.Image = "gantry/no-such-image:1"
			return s
		}, nil, planner.HostError, -1, []string{"gantry/no-such-image", "image is not on this host"}},
		{"emulated, with nothing to do", func() *executor.TaskSpec { return r.emulated() }, nil, planner.OK, 0, nil},
		{"emulated, an input too short", func() *executor.TaskSpec {
			s := r.emulated()
			f := r.file("short")
			r.must(os.MkdirAll(filepath.Dir(r.node(0, "short")), 0o755))
			r.must(os.WriteFile(r.node(0, "short"), []byte("12345"), 0o644))
			f.Size, f.Sized = 100, true
			s.Inputs = []*executor.FileSpec{f}
			return s
		}, nil, planner.ExitCode, 70, []string{"missed", "short"}},
		{"emulated, out of memory", func() *executor.TaskSpec {
			s := r.emulated()
			s.Memory = 100 << 20
			return s
		}, limited, planner.OutOfMemory, 137, nil},
		{"a file name that leaves its directory", func() *executor.TaskSpec {
			return r.sh("true",
				r.file("../../etc/passwd"))
		}, nil, planner.HostError, -1, []string{"unsafe path", "../../etc/passwd"}},
		{"an absolute file name", func() *executor.TaskSpec { return r.sh("true", r.file("/etc/passwd")) }, nil,
			planner.HostError, -1, []string{"unsafe path"}},
	}
	running := make([]planner.AttemptID, len(cases))
	for i, c := range cases { // side by side
		running[i] = r.launch(c.task(), c.change)
	}
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r.t = t
			x := r.exit(running[i])
			r.wants(x, c.outcome, c.says...)
			if x.ExitCode != c.code {
				t.Errorf("exit code %d, not %d", x.ExitCode, c.code)
			}
			if c.outcome == planner.OutOfMemory && x.Usage.OOMKills == 0 {
				t.Error("no out-of-memory kill was counted")
			}
			if _, err := os.Lstat(r.node(0, "b")); err == nil {
				t.Error("one output was published without the other")
			}
			if strings.Contains(x.Message, "\x1b") {
				t.Errorf("escape sequence in message %q", x.Message)
			}
		})
	}
}

// programUser is the id of the user and of the group that run programs.
func programUser() int {
	return stage.ProgramUser().UID
}

// A program has time to end. One that returns 0 and has written its outputs has succeeded, though it was asked to stop;
// others were stopped.
func TestSuccessCountsAlthoughItWasToStop(t *testing.T) {
	if onOne(t, TestSuccessCountsAlthoughItWasToStop) {
		return
	}
	r := newRig(t, nil)
	for _, c := range []struct {
		script string
		want   planner.Outcome
	}{{"echo done > out; exit 0", planner.OK}, {"exit 0", planner.Preempted}, {"exit 1", planner.Preempted}} {
		s := r.sh("trap 'echo bye; "+c.script+"' TERM; touch ready; sleep 300 & wait", r.file("out"))
		a := r.launch(s, nil)
		r.made(s, "ready")
		r.must(r.Kill(r.ctx, a, planner.Preempted, 30*time.Second))
		r.wants(r.exit(a), c.want)
		if out := r.read(filepath.Join(r.work(s), ".command.out")); out != "bye\n" {
			t.Errorf("it said %q", out)
		}
	}
}

func TestForkBombIsHeld(t *testing.T) {
	if onEach(t, TestForkBombIsHeld) {
		return
	}
	r := newRig(t, func(c *container.Config) { c.PIDs = 20 })
	x := r.exit(r.launch(r.sh("for i in $(seq 100); do sleep 1 & done 2>/dev/null; wait; exit 4"), nil))
	// limits are read with the counters
	if x.Outcome != planner.ExitCode || x.Usage.Applied.PIDs != 20 && x.Usage.Missing == 0 {
		t.Errorf("%v (%s), applied %+v", x.Outcome, x.Message, x.Usage.Applied)
	}
	if x.Usage.Missing == 0 && !strings.Contains(x.Message, "refused by the limit") {
		t.Errorf("message %q does not tell of refused forks", x.Message)
	}
}

func TestLimitsAreReadBack(t *testing.T) {
	if onEach(t, TestLimitsAreReadBack) {
		return
	}
	r := newRig(t, func(c *container.Config) {
		c.Platform.Nodes[0].Speed = 0.5
		c.Platform.Nodes[0].Capacity[unit.Disk] = 20 << 20
		c.IO = []container.IOLimits{{ReadBps: 20 << 20, WriteBps: 10 << 20, ReadIOPS: 500, WriteIOPS: 400}}
	})
	x := r.exit(r.launch(r.sh("true"), func(l *executor.Launch) {
		l.Hold = unit.Vector{unit.CPU: 500, unit.Memory: 48 << 20, unit.Disk: 15 << 20}
	}))
	r.wants(x, planner.OK)
	want := planner.Limits{CPUMillicores: 250, Memory: 48 << 20, MemorySwap: 48 << 20, PIDs: container.DefaultPIDs,
		ReadBps: 15 << 20, WriteBps: 10 << 20,
		ReadIOPS: 500, WriteIOPS: 400}
	for try := 0; try < 2 && x.Usage.Missing != 0; try++ { // they are read with the last counters
		x = r.exit(r.launch(r.sh("true"), func(l *executor.Launch) {
			l.Hold = unit.Vector{unit.CPU: 500, unit.Memory: 48 << 20, unit.Disk: 15 << 20}
		}))
	}
	got := x.Usage.Applied
	if r.warned["blkio-device"] != "" || r.warned["blkio"] != "" {
		got.ReadBps, got.WriteBps, got.ReadIOPS, got.WriteIOPS = want.ReadBps, want.WriteBps, want.ReadIOPS,
			want.WriteIOPS
	}
	if got.MemorySwap == 0 { // no swap accounting
		got.MemorySwap = want.MemorySwap
	}
	if got != want {
		t.Errorf("applied %+v\nwant    %+v", got, want)
	}
}

func TestSuspendedTimeIsNotRunningTime(t *testing.T) {
	if onOne(t, TestSuspendedTimeIsNotRunningTime) {
		return
	}
	r := newRig(t, nil)
	for limit := 2 * time.Second; ; limit *= 2 {
		s := r.sh("touch ready; until [ -e released ]; do sleep 0.1; done")
		s.TimeLimit = limit // would strike if the suspension counted
		a := r.launch(s, nil)
		r.made(s, "ready")
		r.started(a)
		r.must(r.Suspend(r.ctx, a))
		r.until(func(b planner.Body) bool { return b == planner.AttemptSuspended{Attempt: a} })
		suspended := limit + 100*time.Millisecond // and more
		r.release(s)
		time.Sleep(suspended)
		r.must(r.Resume(r.ctx, a))
		x := r.exit(a)
		if x.Outcome == planner.TimedOut && x.Ran > limit && limit < time.Minute {
			continue // the host is slow
		}
		if whole := x.Usage.Ended.Sub(x.Usage.Started); x.Ran > whole-suspended {
			t.Errorf("ran %v of %v, though suspended for %v of it", x.Ran, whole, suspended)
		}
		r.wants(x, planner.OK)
		return
	}
}

// ownedBy returns whom a file belongs to.
func ownedBy(t *testing.T, path string) uint32 {
	t.Helper()
	st, err := os.Lstat(path)
	must(t, err)
	return st.Sys().(*syscall.Stat_t).Uid
}

// What programs need can be read by them, whatever umask gantry is started with.
func TestProgramsReadTheirFilesWhateverTheUmask(t *testing.T) {
	if _, err := taskBinary(); err != nil { // a build would take the umask
		t.Fatal(err)
	}
	defer unix.Umask(unix.Umask(0o077))
	onBoth(t, func(t *testing.T, _ string) {
		r := newRig(t, nil)
		out := r.file("dir/out")
		s := r.sh("mkdir -p dir && echo content >dir/out", out)
		r.wants(r.exit(r.launch(s, nil)), planner.OK)
		next := r.sh("test $(cat dir/out) = content && umask")
		next.Inputs = []*executor.FileSpec{out}
		r.wants(r.exit(r.launch(next, nil)), planner.OK)
		if said := r.read(filepath.Join(r.work(next), ".command.out")); said != "0022\n" {
			t.Errorf("%q in the container", said)
		}
		r.wants(r.exit(r.launch(r.emulated(), nil)), planner.OK)
	})
}

// A name that a message has stays within its line.
func TestNamesInMessagesStayWithinTheirLine(t *testing.T) {
	onBoth(t, func(t *testing.T, _ string) {
		r := newRig(t, nil)
		for script, want := range map[string]string{
			"true >'a\nb'":         `left an empty output: "a^Jb"`,
			"true":                 `output "a^Jb" was not written`,
			"ln -s '/x\ty' 'a\nb'": `output "a^Jb" `,
		} {
			x := r.exit(r.launch(r.sh(script, r.file("a\nb")), nil))
			if !strings.Contains(x.Message, want) || strings.ContainsAny(x.Message, "\n\t") {
				t.Errorf("%q: %v, %q, want %q", script, x.Outcome, x.Message, want)
			}
		}
	})
}
