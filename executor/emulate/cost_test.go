package emulate_test

import (
	"testing"
	"time"

	"gantry/executor/emulate"
)

const ms = time.Millisecond

func TestCost(t *testing.T) {
	own := emulate.Own{StartNanos: int64(4 * ms), EndNanos: int64(1 * ms), StartCPUNanos: int64(50 * ms),
		ReadFileNanos: int64(2 * ms), WriteFileNanos: int64(10 * ms), MemoryByteNanos: 0.25, ReadBytesPerSecond: 1e9,
		WriteBytesPerSecond: 5e8}
	files := func(bytes int64, n int) []emulate.File {
		out := make([]emulate.File, n)
		for i := range out {
			out[i] = emulate.File{Path: "f", Bytes: bytes}
		}
		return out
	}
	for _, c := range []struct {
		name string
		spec emulate.Spec
		lim  emulate.Limits
		own  emulate.Own
		wall time.Duration
		cpu  time.Duration
		by   string
	}{
		{"nothing at all", emulate.Spec{}, emulate.Limits{}, emulate.Own{}, 0, 0, ""},
		{"nothing but itself", emulate.Spec{}, emulate.Limits{}, own, 5 * ms, 50 * ms, ""},
		{"shorter than starting", emulate.Spec{RunNanos: 1e6}, emulate.Limits{}, emulate.Own{StartNanos: 20e6}, 21 * ms,
			0, "start"},
		{"one core", emulate.Spec{RunNanos: 2e9, CPUNanos: 2e9}, emulate.Limits{CPUMillicores: 1000}, emulate.Own{},
			2000 * ms, 2000 * ms, ""},
		{"2.4 s at 2 %: starting takes the CPU time, the run stays", emulate.Spec{RunNanos: 24e8, CPUNanos: 48e6},
			emulate.Limits{CPUMillicores: 1000}, own, 2405 * ms, 50 * ms, ""},
		{"half a core", emulate.Spec{RunNanos: 1e9, CPUNanos: 1e9}, emulate.Limits{CPUMillicores: 500}, emulate.Own{},
			2000 * ms, 1000 * ms, "cpu"},
		{"four threads on a quota of two", emulate.Spec{RunNanos: 1e9, CPUNanos: 4e9, Threads: 4},
			emulate.Limits{CPUMillicores: 2000}, emulate.Own{}, 2000 * ms, 4000 * ms, "cpu"},
		{"one thread on two cores", emulate.Spec{RunNanos: 1e9, CPUNanos: 2e9}, emulate.Limits{CPUMillicores: 2000},
			emulate.Own{}, 2000 * ms, 2000 * ms, ""}, // Run is 2 s: one thread needs that
		{"1.6 GB at 200 MB/s within 2 s", emulate.Spec{RunNanos: 2e9, CPUNanos: 1e9, Inputs: files(16e8, 1)},
			emulate.Limits{CPUMillicores: 1000, ReadBps: 200e6}, emulate.Own{}, 8000 * ms, 1000 * ms, "read"},
		{"operations limit", emulate.Spec{RunNanos: 1e9, Outputs: files(10<<20, 1)}, emulate.Limits{WriteIOPS: 5},
			emulate.Own{}, 2000 * ms, 0, "write"},
		{"the disk limits", emulate.Spec{Outputs: files(1e9, 1)}, emulate.Limits{WriteBps: 1e12}, own,
			4*ms + 2000*ms + 10*ms + 1*ms, 50 * ms, ""},
		{"memory counts before the work", emulate.Spec{RunNanos: 1e9, MemoryBytes: 4e9}, emulate.Limits{}, own,
			1005 * ms, 1050 * ms, ""},
		{"files of unknown size are empty", emulate.Spec{RunNanos: 1e7, Inputs: files(-1, 20)}, emulate.Limits{}, own,
			45 * ms, 50 * ms, "read"},
		{"speed of the read part and of the write part together do not add up",
			emulate.Spec{RunNanos: 1e9, Inputs: files(3e8, 1), Outputs: files(2e8, 1)},
			emulate.Limits{ReadBps: 1e8, WriteBps: 1e8}, emulate.Own{}, 3000 * ms, 0, "read"},
	} {
		got := c.spec.Cost(c.lim, c.own)
		if got.Wall != c.wall || got.CPU != c.cpu || got.LimitedBy != c.by {
			t.Errorf("%s: %v of wall time, %v of CPU time, limited by %q; want %v, %v, %q", c.name, got.Wall, got.CPU,
				got.LimitedBy, c.wall, c.cpu, c.by)
		}
	}
}
