package slurmfaults

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// An experiment runs on the nodes of the allocation around it, a node for each of its cluster, and beside a simulation.
func TestExperiment(t *testing.T) {
	w := newSite(t).newWork(t)
	for name, text := range map[string]string{
		"load.yaml": "{count: 1, mix: [{generator: montage}], tasks: 13, seed: 1}\n",
		"two.yaml": "nodes: [{name: a, cores: 1, memory: 500MB}, " +
			"{name: b, cores: 1, speed: 0.5, memory: 500MB}]\n",
		"x.yaml": "{name: x, workload: load.yaml, cluster: two.yaml, repetitions: 1, time_scale: 0.01, " +
			"runtime: slurm, factors: {policy: [heft]}}\n",
	} {
		w.must(os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o644))
	}
	w.start("experiment", "x.yaml").ends(usage, "gantry does not run in an allocation of Slurm", "salloc")
	inside := func(nodes, output string) *gantry {
		g := &gantry{exec.Command("salloc", "-Q", "-N", nodes, w.gantry, "experiment", "--dir", w.runs(), "-o", output,
			"x.yaml"), w, &said{}}
		g.Stdout, g.Stderr, g.Dir = g.said, g.said, w.dir
		w.must(g.Start())
		return g
	}
	inside("2", "two.sqlite").ends(ok, "two.sqlite: 2 runs")
	out, err := exec.Command(w.gantry, "compare", "--json", filepath.Join(w.dir, "two.sqlite")).Output()
	for _, runtime := range []string{`"sim"`, `"slurm"`} {
		if err != nil || !strings.Contains(string(out), runtime) {
			t.Errorf("%v, no means of %s in %s", err, runtime, out)
		}
	}
	inside("1", "one.sqlite").ends(tasksFailed, "no node of allocation", "is left for node b of the cluster",
		"request more nodes")
}
