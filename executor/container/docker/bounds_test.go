package docker_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/container"
	"gantry/planner"
)

func TestOutputIsKeptUpToABound(t *testing.T) {
	if onOne(t, TestOutputIsKeptUpToABound) {
		return
	}
	const most = 1000
	r := newRig(t, func(c *container.Config) { c.MaxOutput = most })
	line := "yes 123456789 | head -n " // ten bytes a line
	for _, c := range []struct {
		name, script string
		out, err     int64
		dropped      int64
	}{
		{"nothing", "true", 0, 0, 0},
		{"as much as is kept", line + "100", most, 0, 0},
		{"a byte more", line + "100; echo", most, 0, 1},
		{"both", line + "150; " + line + "1000000 >&2", most, most, 500 + 10_000_000 - most},
		{"by another way", "echo a >/dev/stdout; echo b >/dev/stderr; (echo c & wait)", 4, 2, 0},
		{"a child continues", "yes 12345 & sleep 0.2; exit 0", most, 0, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r.t = t
			s := r.sh(c.script)
			x := r.exit(r.launch(s, nil))
			r.wants(x, planner.OK)
			for file, want := range map[string]int64{".command.out": c.out, ".command.err": c.err} {
				if st, err := os.Stat(filepath.Join(r.work(s), file)); err != nil || st.Size() != want {
					t.Errorf("%s: %v, want %d bytes", file, st.Size(), want)
				}
			}
			if got := int64(x.Usage.DroppedBytes); got != c.dropped && !(c.dropped < 0 && got > 0) {
				t.Errorf("%d bytes were dropped, want %d", got, c.dropped)
			}
			if says := strings.Contains(x.Message, "--max-output: 1 kB"); says != (c.dropped != 0) {
				t.Errorf("message %q", x.Message)
			}
		})
	}
	t.Run("a declared file has no bound", func(t *testing.T) {
		r.t = t
		s := r.sh(line+"1000", r.file("said"))
		s.Stdout = "said"
		x := r.exit(r.launch(s, nil))
		r.wants(x, planner.OK)
		if st, err := os.Stat(r.node(0, "said")); err != nil || st.Size() != 10_000 || x.Usage.DroppedBytes != 0 {
			t.Errorf("%v, %v, %d dropped", st.Size(), err, x.Usage.DroppedBytes)
		}
	})
	t.Run("killed before it is counted", func(t *testing.T) {
		r.t = t
		s := r.sh(line + "100000; touch written; sleep 100") // more than a pipe holds
		a := r.launch(s, nil)
		r.started(a)
		r.made(s, "written")
		r.must(r.Kill(r.ctx, a, planner.Killed, 0))
		r.wants(r.exit(a), planner.Killed, "not all of its standard output")
	})
}

// made waits until a program has made a file in its work directory.
func (r *rig) made(s *executor.TaskSpec, name string) {
	r.t.Helper()
	waitFor(r.t, func() bool {
		_, err := os.Lstat(filepath.Join(r.work(s), name))
		return err == nil
	})
}

// release makes a file in the work directory of a program.
func (r *rig) release(s *executor.TaskSpec) {
	r.t.Helper()
	r.must(os.WriteFile(filepath.Join(r.work(s), "released"), nil, 0o644))
}

// waitFor waits until a condition holds, for two minutes at most.
func waitFor(t testing.TB, f func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !f(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not come about")
		}
	}
}

func TestDiskIsLimited(t *testing.T) {
	if onOne(t, TestDiskIsLimited) {
		return
	}
	r := newRig(t, func(c *container.Config) { c.Disk = 4 << 20 })
	for _, c := range []struct {
		name, script string
		outcome      planner.Outcome
	}{
		{"within it, with two names of one file, a sparse file and links",
			"dd if=/dev/zero of=a bs=1M count=3 2>/dev/null; ln a b; ln a c; truncate -s 1G d; ln -s /bin x; " +
				"ln -s . y; mkdir -p e; ln -s .. e/up", planner.OK},
		{"beyond it, and waiting", "dd if=/dev/zero of=a bs=1M count=6 2>/dev/null; sleep 100", planner.OutOfDisk},
		{"beyond it, and over at once", "dd if=/dev/zero of=a bs=1M count=6 2>/dev/null", planner.OutOfDisk},
		{"beyond it, and failed", "dd if=/dev/zero of=a bs=1M count=6 2>/dev/null; exit 3", planner.OutOfDisk},
		{"many files", "mkdir d; for i in $(seq 1500); do echo $i >d/$i; done; sleep 100", planner.OutOfDisk},
		{"too deep", "for i in $(seq 200); do mkdir d; cd d; done; sleep 100", planner.OutOfDisk},
		{"beyond its own", "dd if=/dev/zero of=a bs=1M count=3 2>/dev/null; sleep 100", planner.OutOfDisk},
	} {
		t.Run(c.name, func(t *testing.T) {
			r.t = t
			s, limit := r.sh(c.script), "limit is 4.194 MB"
			if c.name == "beyond its own" {
				s.DiskLimit, limit = 1<<20, "limit is 1.049 MB"
			}
			x := r.exit(r.launch(s, nil))
			r.wants(x, c.outcome)
			if c.outcome == planner.OutOfDisk && !strings.Contains(x.Message, limit) {
				t.Errorf("message %q", x.Message)
			}
		})
	}
	t.Run("an emulated task", func(t *testing.T) {
		r.t = t
		s := r.emulated()
		f := r.file("large")
		f.Size, f.Sized = 8<<20, true
		s.Outputs = append(s.Outputs, f)
		r.wants(r.exit(r.launch(s, nil)), planner.OutOfDisk)
		if _, err := os.Stat(r.node(0, "large")); err == nil {
			t.Error("its output was published all the same")
		}
	})
}
