package slurmfaults

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gantry/executor/slurm/slurmtest"
)

// hidden has the nodes not see the directory of runs.
func (w *work) hidden() {
	w.t.Helper()
	w.must(os.Mkdir(w.runs(), 0o755))
	for _, n := range w.Nodes {
		w.Hide(w.t, n, w.runs())
	}
}

// clean fails if a node has anything below the directory of runs.
func (w *work) clean() {
	w.t.Helper()
	for _, n := range w.Nodes {
		if left := w.On(w.t, n, "find", w.runs(), "-mindepth", "1"); left != "" {
			w.t.Errorf("left on node %s:\n%s", n, left)
		}
	}
}

// Nodes that share no directory with gantry: sbcast brings files, and job steps fetch them.
func TestNothingShared(t *testing.T) {
	s := newSite(t)
	run := func(name string, f func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			defer s.idle(t)
			f(t)
		})
	}
	run("a container engine that does not see the directory, either", func(t *testing.T) {
		if exec.Command("docker", "image", "inspect", "gantry/busybox").Run() != nil {
			t.Skip("needs the image gantry/busybox (make images)")
		}
		w := s.newWork(t, rule{name: "a"})
		w.hidden()
		w.start("run", "--runtime", "slurm", "--slurm", "nodes=1,time=10m", "--node-runtime", "docker", "--image",
			"gantry/busybox", "--name", "it", filepath.Join(w.dir, "Makeflow")).ends(tasksFailed,
			"bind source path does not exist")
		w.tried("a", "host-error")
	})
	run("files", func(t *testing.T) {
		w := s.newWork(t)
		w.hidden()
		// An input, a large file from task to task, a program that fails and says why, and one that leaves nothing.
		w.must(os.WriteFile(filepath.Join(w.dir, "in.txt"), []byte("from outside\n"), 0o644))
		w.must(os.WriteFile(filepath.Join(w.dir, "Makeflow"), []byte(`big: in.txt
	(cat in.txt; head -c 60000000 /dev/urandom) >big

sum: big
	sha256sum <big >sum

bad: in.txt
	echo this is why >&2; exit 7

lazy: in.txt
	true
`), 0o644))
		w.run("--slurm", "nodes=4,time=10m").ends(tasksFailed, "do not see "+w.runs(), "sbcast brings files there",
			"exit code 7", `output "lazy" was not written`)
		w.tried("big", "ok")
		w.tried("bad", "exit-code")
		w.tried("lazy", "output-missing")
		results := filepath.Join(w.runs(), "it", "results", "Makeflow")
		sum, err := os.ReadFile(filepath.Join(results, "sum"))
		w.must(err)
		big, err := filepath.Glob(filepath.Join(w.runs(), "it", "nodes", "*", "Makeflow", "big"))
		w.must(err)
		if len(big) == 0 {
			t.Fatal("the large file is not here")
		}
		here, err := exec.Command("sh", "-c", `sha256sum <"$1"`, "sh", big[0]).Output()
		w.must(err)
		if string(sum) != string(here) {
			t.Errorf("the large file is another one here: %s, there %s", here, sum)
		}
		said, err := exec.Command(w.gantry, "logs", "--dir", w.runs(), "it", "bad").CombinedOutput()
		if err != nil || !strings.Contains(string(said), "this is why") {
			t.Errorf("output of the task: %s, %v", said, err)
		}
		w.clean()
	})
	run("gantry killed", func(t *testing.T) {
		w := s.newWork(t, rule{name: "ended", held: true}, rule{name: "running", held: true},
			rule{name: "next", after: "ended"})
		w.hidden()
		g := w.run("--slurm", "nodes=2,time=10m")
		w.untilBegun(1, "ended", "running")
		g.kill()
		w.release("ended")
		slurmtest.Eventually(t, "the end of a step", func() bool { return len(s.steps(t, "")) == 1 })
		r := w.start("resume", "it")
		w.untilBegun(1, "next")
		w.release("running")
		r.ends(ok)
		w.once("ended", "running", "next")
		w.result("running", "next")
		w.clean()
	})
	run("a job step ended by somebody else", func(t *testing.T) {
		w := s.newWork(t, rule{name: "a", held: true})
		w.hidden()
		g := w.run("--slurm", "nodes=1,time=10m")
		w.untilBegun(1, "a")
		s.Command(t, "scancel", s.steps(t, "")[0])
		w.untilBegun(2, "a")
		w.release("a")
		g.ends(ok)
		w.tried("a", "lost", "ok")
		w.result("a")
	})
	run("Ctrl-C twice", func(t *testing.T) {
		w := s.newWork(t, rule{name: "a", held: true})
		w.hidden()
		g := w.run("--slurm", "nodes=1,time=10m")
		w.untilBegun(1, "a")
		for range 2 {
			w.must(g.Process.Signal(os.Interrupt))
			slurmtest.Eventually(t, "gantry says that it stops", func() bool { return g.says("stopping") })
		}
		g.ends(interrupted, "stopping running tasks")
		w.release("a")
		w.start("resume", "it").ends(ok)
		w.result("a")
	})
	run("a full disk of a node", func(t *testing.T) {
		w := s.newWork(t)
		w.must(os.WriteFile(filepath.Join(w.dir, "Makeflow"), []byte("sum: in\n\tsha256sum <in >sum\n"), 0o644))
		w.must(os.WriteFile(filepath.Join(w.dir, "in"), make([]byte, 100<<20), 0o644))
		w.hidden()
		full := s.Nodes[0]
		w.On(t, full, "mount", "-o", "remount,size=90m", w.runs())
		w.run("--slurm", "nodes=4,time=10m").ends(ok)
		ends := w.outcomes("sum")
		if len(ends) == 0 || ends[len(ends)-1] != "ok" {
			t.Errorf("ended as %v", ends)
		}
		t.Log(fmt.Sprint(ends))
	})
}
