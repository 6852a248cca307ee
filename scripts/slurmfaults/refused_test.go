package slurmfaults

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gantry/executor/container/slurm/slurmtest"
)

// What cannot be is said, with exit code 4, before anything starts.
func TestRefused(t *testing.T) {
	s := newSite(t)
	var another, ended, mine string // allocations
	var shared string               // a directory
	for _, c := range []struct {
		name  string
		setUp func(t *testing.T, w *work)
		end   func(t *testing.T)
		args  func() []string
		words []string
	}{
		{"an allocation of another user", func(t *testing.T, _ *work) {
			another = s.Command(t, "sbatch", "--parsable", "--uid=nobody", "--chdir=/", "--output=/dev/null",
				"--wrap=sleep 300")
			slurmtest.Eventually(t, "it runs", func() bool {
				return s.Command(t, "squeue", "-h", "-j", another, "-o", "%T") == "RUNNING"
			})
		}, func(t *testing.T) { s.Command(t, "scancel", another) },
			func() []string { return []string{"--slurm-job", another} },
			[]string{"is not yours: it belongs to nobody", "squeue --me"}},
		{"an allocation that has ended", func(t *testing.T, _ *work) {
			ended = s.Allocate(t, "--nodes=1", "--job-name=ended")
			s.Command(t, "scancel", ended)
			slurmtest.Eventually(t, "its end", func() bool { return len(s.jobs(t)) == 0 })
		}, nil, func() []string { return []string{"--slurm-job", ended} },
			[]string{"cannot be used", "was cancelled"}},
		{"an allocation that never was", nil, nil, func() []string { return []string{"--slurm-job", "4000"} },
			[]string{"allocation 4000 cannot be used", "does not know it"}},
		{"a node without the runtime", func(t *testing.T, w *work) {
			t.Setenv("DOCKER_HOST", "unix://"+w.note("nothing"))
			mine = s.Allocate(t, "--nodes=2")
		}, nil, func() []string {
			return []string{"--slurm-job", mine, "--node-runtime", "docker", "--image", "gantry/busybox"}
		}, []string{"has no runtime for containers", "install crun or runc there"}},
		{"a node that does not see the shared directory", func(t *testing.T, w *work) {
			shared = filepath.Join(w.dir, "shared")
			w.must(os.Mkdir(shared, 0o755))
			s.hide(t, s.Nodes[1], shared)
			mine = s.Allocate(t, "--nodes=2", "--nodelist="+s.Nodes[0]+","+s.Nodes[1])
		}, func(t *testing.T) { s.show(t, s.Nodes[1]) }, func() []string {
			return []string{"--slurm-job", mine, "--shared", shared}
		}, []string{s.Nodes[1] + " does not see ", "--shared"}},
		{"a node that does not see the directory of runs", func(t *testing.T, w *work) {
			shared = filepath.Join(w.dir, "top")
			w.must(os.MkdirAll(filepath.Join(shared, "runs"), 0o755))
			s.hide(t, s.Nodes[1], shared)
			mine = s.Allocate(t, "--nodes=2", "--nodelist="+s.Nodes[0]+","+s.Nodes[1])
		}, func(t *testing.T) { s.show(t, s.Nodes[1]) }, func() []string {
			return []string{"--slurm-job", mine, "--dir", filepath.Join(shared, "runs")}
		}, []string{"node " + s.Nodes[1] + " does not see ", "--shared"}},
		{"no commands of Slurm", func(t *testing.T, _ *work) { t.Setenv("PATH", t.TempDir()) }, nil,
			func() []string { return []string{"--slurm-job", "1"} }, []string{"there is no command squeue here"}},
		{"munge does not run", func(t *testing.T, _ *work) { s.KillMunge(t) }, func(t *testing.T) { s.StartMunge(t) },
			func() []string { return []string{"--slurm-job", "1"} }, []string{"munge"}}, // squeue says nothing in 20 s
		{"slurmctld does not answer", func(t *testing.T, _ *work) { s.KillController(t) },
			func(t *testing.T) { s.StartController(t) }, func() []string { return []string{"--slurm-job", "1"} },
			[]string{"slurmctld) does not answer"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := os.Getenv("PATH")
			w := s.newWork(t, rule{name: "a"})
			if c.setUp != nil {
				c.setUp(t, w)
			}
			w.run(c.args()...).ends(host, append(c.words, "nothing was started")...)
			t.Setenv("PATH", path)
			if c.end != nil {
				c.end(t)
			}
			if w.begun("a") > 0 {
				t.Error("a task began")
			}
			if _, err := os.Lstat(filepath.Join(w.runs(), "it")); !os.IsNotExist(err) {
				t.Errorf("the run has a directory: %v", err)
			}
			if left, _ := filepath.Glob(filepath.Join(w.runs(), "*check*")); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			if mine != "" {
				if left := s.job(t); left != mine {
					t.Errorf("allocation %s, which is not gantry's, was ended", mine)
				}
				mine = ""
			}
			s.idle(t)
		})
	}
	if out, err := exec.Command("squeue", "-h").CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "" {
		t.Errorf("left: %v %s", err, out)
	}
}

// hide starts the slurmd of a node again so that its steps see an empty directory in place of dir.
func (s *site) hide(t *testing.T, node, dir string) {
	t.Helper()
	s.KillNode(t, node)
	script := `mount -t tmpfs -o mode=755 tmpfs "$1" && exec slurmd -f "$2" -N "$3"`
	s.Command(t, "unshare", "--mount", "sh", "-c", script, "hide", dir, filepath.Join(s.Dir, "slurm.conf"), node)
	s.Resume(t, node)
}

// show ends that.
func (s *site) show(t *testing.T, node string) {
	t.Helper()
	s.KillNode(t, node)
	s.StartNode(t, node)
	s.Resume(t, node)
}
