package session

import (
	"strings"
	"testing"

	"gantry/executor/container/slurm/allocation"
	"gantry/trace/scenario"
)

// A cluster file says how fast the nodes of Slurm are that it names; others have speed 1.
func TestSpeedsOfNodesOfSlurm(t *testing.T) {
	nodes := []allocation.Node{{Name: "v1", Cores: 2}, {Name: "v2", Cores: 2}}
	file := &scenario.Cluster{Nodes: []scenario.ClusterNode{{Name: "v1", Speed: 3}}}
	for given, want := range map[bool]float64{false: 1, true: 3} {
		cluster, err := clusterOf("1", nodes, file, given)
		if err != nil {
			t.Fatal(err)
		}
		if n := cluster.Nodes; n[0].Speed != want || n[1].Speed != 1 {
			t.Errorf("with a file %v: speeds %v and %v", given, n[0].Speed, n[1].Speed)
		}
	}
	file.Nodes[0].GPUs = 1
	if _, err := clusterOf("1", nodes, file, true); err == nil || !strings.Contains(err.Error(), "GPUs of Slurm") {
		t.Errorf("GPUs of a node are taken: %v", err)
	}
}
