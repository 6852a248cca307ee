package node

import (
	"os"
	"path/filepath"
	"testing"

	"gantry/executor/container"
)

func TestLimitsAreThoseOfSlurmsGroups(t *testing.T) {
	const v1 = "9:memory:/slurm_n1/uid_0/job_7/step_2/task_0\n5:cpuset:/slurm_n1/uid_0/job_7/step_2\n3:cpu,cpuacct:/\n"
	const v2 = "0::/system.slice/slurmstepd.scope/job_7/step_2/user/task_0\n"
	for name, c := range map[string]struct {
		table         string
		files         map[string]string
		memory, cores container.Verdict
		evidence      string
	}{
		"v1": {v1, map[string]string{
			"memory/slurm_n1/uid_0/job_7/step_2/task_0/memory.limit_in_bytes": unlimited,
			"memory/slurm_n1/uid_0/job_7/step_2/memory.limit_in_bytes":        "104857600\n",
			"cpuset/slurm_n1/uid_0/job_7/step_2/cpuset.cpus":                  "0-1\n",
		}, container.Yes, container.Yes,
			"Slurm limits the memory of job steps: 100 MB for this one (/slurm_n1/uid_0/job_7/step_2)"},
		"v2": {v2, map[string]string{
			"system.slice/slurmstepd.scope/job_7/step_2/user/task_0/memory.max": "max\n",
			"system.slice/slurmstepd.scope/job_7/step_2/memory.max":             "209715200\n",
			"system.slice/slurmstepd.scope/job_7/cpuset.cpus":                   "3\n",
		}, container.Yes, container.Yes,
			"Slurm limits the memory of job steps: 200 MB for this one (/system.slice/slurmstepd.scope/job_7/step_2)"},
		"none": {"9:memory:/user.slice\n0::/user.slice/session\n", map[string]string{
			"memory/user.slice/memory.limit_in_bytes": "100\n", "user.slice/session/memory.max": "100\n",
		}, container.No, container.No, "Slurm does not limit the memory of job steps on this node"},
		"odd": {"9:memory\n::\n\n", nil, container.No, container.No,
			"Slurm does not limit the memory of job steps on this node"},
	} {
		root := t.TempDir()
		for path, text := range c.files {
			if err := os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		facts := limits(c.table, root)
		if facts[0].Verdict != c.memory || facts[1].Verdict != c.cores || facts[0].Evidence != c.evidence {
			t.Errorf("%s: %+v", name, facts)
		}
	}
}
