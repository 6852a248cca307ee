package cgroup_test

import (
	"os"
	"path/filepath"
	"testing"

	"gantry/cgroup"
)

func TestCpusetsLeaveCores(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  int
	}{
		{"none", nil, 0},
		{"v1", map[string]string{"cpuset/docker/cpuset.effective_cpus": "0-1\n"}, 2},
		{"v2", map[string]string{"gantry/cpuset.cpus.effective": "0,2-4,7\n"}, 5},
		{"the fewest", map[string]string{"cpuset/docker/cpuset.effective_cpus": "0-7\n",
			"cpuset/gantry/cpuset.effective_cpus": "3\n"}, 1},
		{"empty", map[string]string{"cpuset/docker/cpuset.effective_cpus": "\n"}, 0},
		{"damaged", map[string]string{"cpuset/docker/cpuset.effective_cpus": "4-1,x\n"}, 0},
	} {
		root := t.TempDir()
		for name, text := range c.files {
			path := filepath.Join(root, name)
			must(t, os.MkdirAll(filepath.Dir(path), 0o755))
			must(t, os.WriteFile(path, []byte(text), 0o644))
		}
		if got := cgroup.Cores(root, "gantry", "docker"); got != c.want {
			t.Errorf("%s: %d cores, want %d", c.name, got, c.want)
		}
	}
}
