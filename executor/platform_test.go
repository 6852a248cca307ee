package executor_test

import (
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"gantry/executor"
	"gantry/trace/scenario"
)

// A cluster of thousands of groups is read in about a second, and in memory that grows with the file.
func TestALargeClusterFileIsReadQuickly(t *testing.T) {
	var b strings.Builder
	b.WriteString("nodes:\n")
	for i := range 9500 {
		fmt.Fprintf(&b, "- {name: n%d, group: g%d}\n", i, i)
	}
	b.WriteString("links:\n- {from: g1, to: g9499, bandwidth: 1GB/s}\n")
	used := func() (cpu time.Duration, memory uint64) {
		var r syscall.Rusage
		must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &r))
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return time.Duration(r.Utime.Nano() + r.Stime.Nano()), m.TotalAlloc
	}
	cpu, memory := used()
	c, err := scenario.ReadCluster(strings.NewReader(b.String()), "c.yaml")
	must(t, err)
	p, err := executor.PlatformOf(c)
	if err != nil || len(p.Nodes) != 9500 || p.Nodes[9499].Group == p.Nodes[1].Group {
		t.Fatalf("%d nodes, %v", len(p.Nodes), err)
	}
	cpuNow, memoryNow := used()
	if took := cpuNow - cpu; took > 5*time.Second { // ten times as long as it takes without the race detector
		t.Errorf("it took %v of CPU time", took)
	}
	if took := memoryNow - memory; took > 100<<20 {
		t.Errorf("it took %d MB of memory", took>>20)
	}
}
