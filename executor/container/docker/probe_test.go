package docker_test

import (
	"os"
	"testing"

	"gantry/executor/container"
	"gantry/executor/container/docker"
)

func factsOf(t *testing.T, host, dir, binary string) ([]container.Fact, error) {
	return container.Probe(t.Context(), func(string) (container.Engine, error) {
		return docker.Open(t.Context(), host, binary, 0)
	}, dir, binary)
}

func TestProbeTriesEverything(t *testing.T) {
	t.Parallel()
	cfg := settings(t, nil)
	facts, err := factsOf(t, "", cfg.Dir, cfg.TaskBinary)
	must(t, err)
	known := map[string]container.Fact{}
	for _, f := range facts {
		t.Logf("%-18s %-8v %s (%s)", f.Name, f.Verdict, f.Evidence, f.Advice)
		known[f.Name] = f
		if f.Evidence == "" || f.Verdict != container.Yes && f.Verdict != container.Unknown && f.Advice == "" {
			t.Errorf("%s: no evidence or no advice", f.Name)
		}
	}
	for _, name := range []string{"docker-engine", "cgroups", "block-device", "node-limits", "swap-limit", "cpu-quota",
		"memory-limit", "pids-limit", "freezer", "final-counters"} {
		if _, ok := known[name]; !ok {
			t.Errorf("nothing is said of %s", name)
		}
	}
	if os.Geteuid() == 0 && known["cpu-quota"].Verdict == container.No {
		t.Errorf("CPU quota: %+v", known["cpu-quota"])
	}
	if left, _ := os.ReadDir(cfg.Dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
