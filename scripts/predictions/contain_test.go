package predictions

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gantry/planner/predict"
)

// Replays in containers.
const (
	sampled = 40        // tasks of a workflow
	shrink  = 64        // of memory
	busy    = 45.0      // seconds that presets take at least
	shell   = 4 << 20   // memory of the shell and its container
	trims   = 1_000_000 // of inputs
)

// contained is a run as gantry shows it.
type contained struct {
	span
	Attempts int `json:"attempts"`
	Memory   struct {
		Held        float64 `json:"held_gbh"`
		Used        float64 `json:"used_gbh"`
		OutOfMemory int     `json:"out_of_memory"`
	} `json:"memory"`
}

func (c *contained) maq() float64 { return 100 * c.Memory.Used / c.Memory.Held }

// contain replays a sample of the test tasks in containers: with presets, and with limits by the tasks to train on.
func contain(t *testing.T, train, test []predict.Sample) (presets, limited contained) {
	home := t.TempDir()
	writeContained(t, home, train, test)
	run(t, "predict", "--dir", home, "--trace", filepath.Join(home, "train.txt"))
	measured := func(name string, options ...string) contained {
		run(t, append([]string{"run", "--quiet", "--runtime", "oci", "--dir", home, "--policy", "gbf", "--estimator",
			"trained", "--image", "gantry/busybox", "--inputs", home, "--cluster", filepath.Join(home, "node.yaml"),
			"--name", name, filepath.Join(home, "w.makeflow")}, options...)...)
		return asked[contained](t, "show", "--json", "--dir", home, name)
	}
	return measured("presets"), measured("limited", "--predict-memory", "balanced")
}

// writeContained writes a node, a trace of the tasks to train on, and a makeflow of shells that hold as much memory as
// the test tasks did, each for as long, at a scale. A shell that may not hold it fails after as long.
func writeContained(t *testing.T, home string, train, test []predict.Sample) {
	var of []predict.Sample
	node, held, longest := float64(replayed)*sampled/float64(len(test)), 0.0, 0.0
	for i := range sampled {
		s := test[i*len(test)/sampled]
		of, node, longest = append(of, s), max(node, float64(s.Features.Memory)), max(longest, s.Ran.Seconds())
		held += s.Ran.Seconds() * float64(s.Features.Memory)
	}
	pace := busy / max(held/node, longest)
	text := map[string]*strings.Builder{"node.yaml": {}, "train.txt": {}, "w.makeflow": {}}
	fmt.Fprintf(text["node.yaml"], "nodes: [{name: n, cores: 1.6, memory: %d}]\n", int64(node/shrink+2*shell))
	fmt.Fprintln(text["train.txt"], "name\tprocess\trealtime\tpeak_rss\trchar")
	for i, s := range train {
		fmt.Fprintf(text["train.txt"], "t%d\t%s\t%g\t%d\t%d\n", i, s.Kind, 1000*pace*s.Ran.Seconds(),
			s.Peak/shrink+shell, s.Features.Input/trims+1)
	}
	for i, s := range of {
		fmt.Fprintf(text["w.makeflow"], "CATEGORY=%s\no%d: i%[2]d\n@CORES=0.1\n@MEMORY=%d\n\t{ dd if=/dev/zero bs=%d "+
			"count=1 || :; } | { sleep %.2f; head -c 1 >o%[2]d; } && test -s o%[2]d\n", s.Kind, i,
			(s.Features.Memory/shrink+shell)>>20+1, s.Peak/shrink, pace*s.Ran.Seconds())
		input := &strings.Builder{}
		input.Write(make([]byte, s.Features.Input/trims+1))
		text[fmt.Sprint("i", i)] = input
	}
	for name, b := range text {
		must(t, os.WriteFile(filepath.Join(home, name), []byte(b.String()), 0o644))
	}
}
