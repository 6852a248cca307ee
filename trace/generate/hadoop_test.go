package generate_test

import (
	"math"
	"testing"

	"gantry/trace/generate"
)

// The dominant resource of each application on a node of 8 cores, 16 GB and 300 MB/s is what 3DSF says it is intensive
// in; jobs have the shape of MapReduce.
func TestApplicationsOf3DSFAreIntensiveInWhatThePaperSays(t *testing.T) {
	for kind, want := range map[string]struct {
		dominant string
		seconds  float64 // of a map task
		split    int64
	}{"terasort": {"cpu memory disk", 0.1, 2e6}, "pi": {"cpu", 0.16, 1e3}, "malloc": {"memory", 0.12, 1e3},
		"readwrite": {"disk", 0.12, 4e6},
		"telecom":   {"cpu memory disk", 2.2, 32e6}, "plates": {"cpu", 2.3, 32e6}, "logsearch": {"memory", 2, 64e6},
		"migration": {"disk", 2.7, 64e6}} {
		mean, count := 0.0, 0
		for seed := range uint64(40) {
			w := made(t, kind, 6, seed)
			if len(w.Tasks) != 6 {
				t.Fatalf("%s: %d tasks", kind, len(w.Tasks))
			}
			reduce := &w.Tasks[5]
			if reduce.Kind != kind+"-reduce" || reduce.Phase != 2 || len(reduce.Parents) != 5 ||
				len(reduce.Inputs) != 5 || len(reduce.Outputs) != 1 {
				t.Fatalf("%s: the reduce task is %+v", kind, reduce)
			}
			for i := range w.Tasks[:5] {
				m := &w.Tasks[i]
				if m.Kind != kind+"-map" || m.Phase != 1 || len(m.Inputs) != 1 || len(m.Outputs) != 1 ||
					w.Files[m.Inputs[0]].Producer != -1 || w.Files[m.Inputs[0]].Size != want.split {
					t.Fatalf("%s: map task %d is %+v", kind, i, m)
				}
				mean += m.Runtime.Seconds()
				count++
				shares := map[string]float64{"cpu": m.Cores / 8, "memory": float64(m.MemoryBytes) / 16e9,
					"disk": float64(m.DiskBps) / 300e6}
				most := math.Max(shares["cpu"], math.Max(shares["memory"], shares["disk"]))
				got := ""
				for _, d := range []string{"cpu", "memory", "disk"} {
					if shares[d] > 0.8*most {
						got += " " + d
					}
				}
				if got != " "+want.dominant {
					t.Fatalf("%s is intensive in%s: shares %v", kind, got, shares)
				}
			}
		}
		if mean /= float64(count); math.Abs(mean-want.seconds) > 0.02*want.seconds {
			t.Errorf("%s: map tasks take %v s on average, expected %v", kind, mean, want.seconds)
		}
		if _, err := generate.New(kind, 1, 1, generate.Options{}); err == nil {
			t.Errorf("%s of one task is made", kind)
		}
	}
}
