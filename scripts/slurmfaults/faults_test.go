package slurmfaults

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gantry/executor/container/slurm/slurmtest"
)

// One cluster for all: each test leaves it as it was.
func TestFaults(t *testing.T) {
	s := newSite(t)
	// This one takes one to two minutes of Slurm's time, and a node, while others go on.
	limit := s.newWork(t, rule{name: "a", held: true})
	shortJob := s.Allocate(t, "--nodes=1", "--time=1")
	short := limit.run("--slurm-job", shortJob)
	limit.untilBegun(1, "a")

	run := func(name string, f func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			defer func() {
				for _, id := range s.jobs(t) {
					if id != shortJob {
						s.Command(t, "scancel", id)
					}
				}
				slurmtest.Eventually(t, "the jobs are gone", func() bool {
					left := strings.Fields(s.Command(t, "squeue", "-h", "-o", "%A"))
					return !slices.ContainsFunc(left, func(id string) bool { return id != shortJob })
				})
			}()
			f(t)
		})
	}
	job := func(t *testing.T) (id string) {
		t.Helper()
		for _, x := range s.jobs(t) {
			if x != shortJob {
				id = x
			}
		}
		return id
	}

	run("gantry killed", func(t *testing.T) {
		w := s.newWork(t, rule{name: "ended", held: true}, rule{name: "running", held: true},
			rule{name: "next", after: "ended"})
		g := w.run(s.on(t, 2)...)
		w.untilBegun(1, "ended", "running")
		id := job(t)
		g.kill()
		w.release("ended") // it ends while no gantry is there
		slurmtest.Eventually(t, "the end of a step", func() bool { return len(s.stepsOf(t, id)) == 1 })
		r := w.start("resume", "it")
		w.untilBegun(1, "next")
		w.release("running")
		r.ends(ok)
		w.once("ended", "running", "next")
		for _, f := range []string{"ended", "running", "next"} {
			w.tried(f, "ok")
		}
		w.result("running", "next")
	})
	run("the allocation ended by somebody else", func(t *testing.T) {
		w := s.newWork(t, rule{name: "before"}, rule{name: "a", after: "before", held: true})
		g := w.run(s.on(t, 1)...)
		w.untilBegun(1, "a")
		s.Command(t, "scancel", job(t))
		g.ends(interrupted, "was cancelled", "gantry resume it")
		w.release("a")
		w.start("resume", "it").ends(host, "name another allocation with --slurm-job")
		w.start(append(append([]string{"resume"}, s.on(t, 1)...), "it")...).ends(ok)
		w.once("before")
		// On a busy host gantry itself may have stopped it before Slurm did.
		if strings.Join(w.outcomes("a"), " ") != "preempted ok" {
			w.tried("a", "lost", "ok")
		}
		w.result("a")
	})
	run("Ctrl-C", func(t *testing.T) {
		w := s.newWork(t, rule{name: "a", held: true}, rule{name: "b", after: "a"})
		g := w.run(s.on(t, 1)...)
		w.untilBegun(1, "a")
		w.must(g.Process.Signal(os.Interrupt))
		slurmtest.Eventually(t, "gantry says that it stops", func() bool { return g.says("stopping") })
		w.release("a") // it may end, and b does not begin
		g.ends(interrupted, "stopping: running tasks may end", "gantry resume it")
		w.tried("a", "ok")
		if w.begun("b") > 0 {
			t.Error("a task began after Ctrl-C")
		}
		w.start("resume", "it").ends(ok)
		w.once("a", "b")
	})
	run("Ctrl-C twice", func(t *testing.T) {
		w := s.newWork(t, rule{name: "a", held: true})
		g := w.run(s.on(t, 1)...)
		w.untilBegun(1, "a")
		w.must(g.Process.Signal(os.Interrupt))
		slurmtest.Eventually(t, "gantry says that it stops", func() bool { return g.says("stopping") })
		w.must(g.Process.Signal(os.Interrupt))
		g.ends(interrupted, "stopping running tasks")
		w.release("a")
		w.start("resume", "it").ends(ok)
		w.result("a")
	})
	run("full shared directory", func(t *testing.T) {
		w := s.newWork(t, rule{name: "a", held: true}, rule{name: "b", after: "a"})
		full := filepath.Join(w.dir, "full")
		w.must(os.Mkdir(full, 0o755))
		if err := syscall.Mount("tmpfs", full, "tmpfs", 0, "size=160m"); err != nil {
			t.Skipf("mount: %v", err)
		}
		defer func() { _ = syscall.Unmount(full, syscall.MNT_DETACH) }()
		g := w.run(append(s.on(t, 1), "--shared", full)...)
		w.untilBegun(1, "a")
		// All that is left, as others may take it.
		hog := filepath.Join(full, "hog")
		f, err := os.Create(hog)
		w.must(err)
		for block := make([]byte, 1<<20); err == nil; {
			_, err = f.Write(block)
		}
		for block := make([]byte, 1); ; {
			if _, err := f.Write(block); err != nil {
				break
			}
		}
		f.Close()
		w.release("a")
		g.ends(tasksFailed, "exit code 1", "the file system of the run may be full")
		w.must(os.Remove(hog))
		if w.begun("b") > 0 {
			t.Error("a task began whose input could not be made")
		}
	})
	run("slurmd killed", func(t *testing.T) {
		w := s.newWork(t, rule{name: "a", held: true})
		g := w.run(s.on(t, 2)...)
		w.untilBegun(1, "a")
		on := s.nodeOf(t, s.stepsOf(t, job(t))[0])
		s.KillNode(t, on)
		w.untilBegun(2, "a") // Slurm notices after SlurmdTimeout
		w.release("a")
		g.ends(ok)
		w.tried("a", "lost", "ok")
		w.result("a")
		s.StartNode(t, on)
		s.Resume(t, on)
	})

	limit.t = t
	short.ends(interrupted, "it reached its time limit", "gantry resume it")
	limit.release("a")
	limit.start(append(append([]string{"resume"}, s.on(t, 1)...), "it")...).ends(ok)
	limit.tried("a", "lost", "ok")
	limit.result("a")
}

// stepsOf are the numbers of the job steps of an allocation that run tasks.
func (s *site) stepsOf(t *testing.T, job string) []string {
	t.Helper()
	return slices.DeleteFunc(s.steps(t, ""), func(id string) bool { return !strings.HasPrefix(id, job+".") })
}

// nodeOf is the node of a job step.
func (s *site) nodeOf(t *testing.T, step string) string {
	t.Helper()
	return s.Command(t, "squeue", "-h", "--steps="+step, "-o", "%N")
}

// What a killed gantry left running can be given up.
func TestGivenUp(t *testing.T) {
	s := newSite(t)
	for _, verb := range []string{"rm", "clean"} {
		t.Run(verb, func(t *testing.T) {
			defer s.idle(t)
			w := s.newWork(t, rule{name: "a", held: true})
			g := w.run(s.on(t, 2)...)
			w.untilBegun(1, "a")
			job := s.job(t)
			w.start(verb, "it").endsHeld(verb)
			g.kill()
			w.start(verb, "it").ends(ok)
			if left := s.steps(t, ""); len(left) > 0 {
				t.Errorf("job steps %v continue", left)
			}
			if left := s.jobs(t); !slices.Contains(left, job) {
				t.Errorf("allocation %s, which is not gantry's, was ended", job)
			}
			if verb == "rm" {
				if _, err := os.Lstat(filepath.Join(w.runs(), "it")); err == nil {
					t.Error("the run is there")
				}
				return
			}
			w.release("a")
			w.start("resume", "it").ends(ok)
			w.tried("a", "lost", "ok")
		})
	}
}

// endsHeld fails unless gantry left a run alone that another one works on.
func (g *gantry) endsHeld(verb string) {
	g.w.t.Helper()
	const held = 75
	if verb == "rm" {
		g.ends(held, "another gantry works on run it")
	} else {
		g.ends(ok, "a gantry works on it")
	}
}

// Secrets come to the nodes without a trace.
func TestSecrets(t *testing.T) {
	if exec.Command("docker", "image", "inspect", "gantry/busybox").Run() != nil {
		t.Skip("needs the image gantry/busybox (make images)")
	}
	s := newSite(t)
	const value = "correct horse battery"
	t.Setenv("TOKEN", value)
	w := s.newWork(t)
	w.must(os.WriteFile(filepath.Join(w.dir, "Makeflow"), []byte(
		"out:\n\tsha256sum </run/secrets/TOKEN >out; tr a-z A-Z </run/secrets/TOKEN >&2\n"), 0o644))
	g := w.start(append(append([]string{"run"}, s.on(t, 1)...), "--runtime", "slurm", "--node-runtime", "oci",
		"--image", "gantry/busybox", "--secret", "TOKEN", "--name", "it", filepath.Join(w.dir, "Makeflow"))...)
	g.ends(ok)
	got, err := os.ReadFile(filepath.Join(w.runs(), "it", "results", "Makeflow", "out"))
	if want := fmt.Sprintf("%x  -\n", sha256.Sum256([]byte(value))); err != nil || string(got) != want {
		t.Errorf("the program read %q, %v, want %q", got, err, want)
	}
	if out, err := exec.Command("grep", "-rl", value, w.dir, s.Dir).Output(); err == nil {
		t.Errorf("the value is in %s", out)
	}
	if left, _ := filepath.Glob("/dev/shm/gantry-????????????????-*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	s.idle(t)
}

// Ctrl-C while nodes are asked about their abilities leaves nothing.
func TestStoppedBeforeTheRun(t *testing.T) {
	s := newSite(t)
	defer s.idle(t)
	w := s.newWork(t, rule{name: "a"})
	slow := filepath.Join(w.dir, "slow")
	w.must(os.Mkdir(slow, 0o755))
	script := "#!/bin/sh\n: >" + w.note("asked") + "\nexec sleep 600\n"
	w.must(os.WriteFile(filepath.Join(slow, "srun"), []byte(script), 0o755))
	t.Setenv("PATH", slow+":"+os.Getenv("PATH"))
	g := w.run(s.on(t, 1)...)
	slurmtest.Eventually(t, "a question", func() bool {
		_, err := os.Stat(w.note("asked"))
		return err == nil
	})
	w.must(g.Process.Signal(os.Interrupt))
	g.ends(interrupted, "nothing was started")
	if left, _ := filepath.Glob(filepath.Join(w.runs(), "*check*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
