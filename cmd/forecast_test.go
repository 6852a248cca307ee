package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A dry run says what would happen, and leaves nothing behind.
func TestADryRunStartsNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs")
	out := expect(t, exitOK, []string{"start 10 tasks on 3 nodes", "Nothing is started", "expected makespan",
		"tasks end at once"}, "run", "--dir="+dir, "--dry-run", "--runtime", "null", "--cluster",
		"../examples/heft/cluster.yaml", "--policy", "heft", "../examples/heft/workload.yaml")
	if n := strings.Count(out, "emulated"); n != 10 {
		t.Errorf("%d lines of tasks:\n%s", n, out)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the directory of runs was made")
	}
}
