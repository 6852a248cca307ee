package session

import (
	"maps"
	"os"
	"strings"
	"testing"

	"gantry/executor/container/slurm"
	"gantry/executor/container/slurm/allocation"
	"gantry/trace/scenario"
)

// Speeds come from the cluster file, else from gantry calibrate; equal nodes have equal speeds.
func TestSpeedsOfNodesOfSlurm(t *testing.T) {
	got := relative([]slurm.Report{{Node: "v1", Rate: 1.01e9}, {Node: "v2", Rate: 0.99e9}, {Node: "v3", Rate: 1e9},
		{Node: "v4", Rate: 0.52e9}, {Node: "v5", Rate: 1}})
	want := map[string]float64{"v1": 1, "v2": 1, "v3": 1, "v4": 0.55, "v5": 0.05}
	if !maps.Equal(got, want) {
		t.Errorf("speeds %v, want %v", got, want)
	}
	nodes := []allocation.Node{{Name: "v1", Cores: 2}, {Name: "v2", Cores: 2}}
	file := &scenario.Cluster{Nodes: []scenario.ClusterNode{{Name: "v1", Speed: 3}}}
	for _, c := range []struct {
		given  bool
		v1, v2 float64
	}{{false, 0.5, 2}, {true, 3, 2}} {
		cluster, err := clusterOf("1", nodes, file, c.given, map[string]float64{"v1": 0.5, "v2": 2, "other": 7})
		if err != nil {
			t.Fatal(err)
		}
		if n := cluster.Nodes; n[0].Speed != c.v1 || n[1].Speed != c.v2 {
			t.Errorf("with a file %v: speeds %v and %v", c.given, n[0].Speed, n[1].Speed)
		}
	}
	file.Nodes[0].GPUs = 1
	if _, err := clusterOf("1", nodes, file, true, nil); err == nil || !strings.Contains(err.Error(), "GPUs of Slurm") {
		t.Errorf("GPUs of a node are taken: %v", err)
	}
	dir := t.TempDir()
	for _, text := range []string{"{", `{"v1": 0}`, `{"v1": -1}`, `[]`} {
		if err := os.WriteFile(speedsFile(dir), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := readSpeeds(dir); err == nil || !strings.Contains(err.Error(), speedsFile(dir)) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if speeds, err := readSpeeds(t.TempDir()); speeds != nil || err != nil {
		t.Errorf("nothing was measured: %v, %v", speeds, err)
	}
}
