package slurmtest

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestAClusterOfFourNodesComesAndGoes(t *testing.T) {
	var nodes []string
	t.Run("up", func(t *testing.T) {
		c := Up(t)
		nodes = c.Nodes
		if len(nodes) != 4 {
			t.Fatalf("nodes %q, want four", nodes)
		}
		got := c.Command(t, "srun", "-N4", "-n4", "-Q", "-l", "printenv", "SLURMD_NODENAME")
		if len(strings.Fields(got)) != 8 {
			t.Errorf("a step on all nodes printed %q", got)
		}
		// What is up is left as it is.
		before := c.Command(t, "cat", filepath.Join(c.Dir, "slurmctld.pid"))
		c.Command(t, filepath.Join(root(t), "scripts", "slurm"), "up", c.Dir)
		if after := c.Command(t, "cat", filepath.Join(c.Dir, "slurmctld.pid")); after != before {
			t.Errorf("the second scripts/slurm up started another slurmctld: %s, was %s", after, before)
		}
		c.KillNode(t, nodes[2])
		c.KillController(t)
		c.KillMunge(t)
		c.Command(t, filepath.Join(root(t), "scripts", "slurm"), "up", c.Dir)
		// The new slurmctld may have the job above as running: its end was not saved yet.
		c.Command(t, "scancel", "--me")
		c.Command(t, "srun", "-Q", "-w", nodes[2], "true")
		// A step that nobody waits for any more ends with the cluster.
		step := exec.Command("srun", "-Q", "-w", nodes[1], "sleep", "271828")
		if err := step.Start(); err != nil {
			t.Fatal(err)
		}
		Eventually(t, "a step begins", func() bool { return pgrep() })
		_ = step.Process.Kill()
		_ = step.Wait()
	})
	if len(nodes) == 0 {
		t.SkipNow()
	}
	if pgrep() {
		t.Error("a process of a step is left")
	}
	for _, n := range nodes {
		if left, _ := filepath.Glob("/sys/fs/cgroup/*/slurm_" + n); len(left) > 0 {
			t.Errorf("control groups are left: %q", left)
		}
	}
}

func pgrep() bool { return exec.Command("pgrep", "-f", "^[a-z/]*sleep 271828$").Run() == nil }
