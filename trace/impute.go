package trace

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
)

// UnknownRuntime is the runtime of a task of which nothing tells how long it runs.
const UnknownRuntime = time.Second

// Defaults are the values that Impute takes where a trace gives nothing to go by.
type Defaults struct {
	Runtime  time.Duration // of a task where no task of the workflow has a runtime; 0: 1 s
	FileSize int64         // bytes of a file without a size; 0 leaves it unknown, which then counts as empty
}

// Imputation says how many values one rule filled in.
type Imputation struct {
	Field string `json:"field"` // as Fields.String, or "file-size"
	Rule  string `json:"rule"`
	Count int    `json:"count"`
}

func (i Imputation) String() string { return fmt.Sprintf("%s of %d: %s", i.Field, i.Count, i.Rule) }

// ruleOneCore is the rule of Impute and of archives for the cores of a task of which nothing tells.
const ruleOneCore = "1 core"

// Impute fills in the values that w lacks and marks them in Imputed. The rules, in this order:
//
//	cores     AvgCPU / 100 rounded up, at least 1; without AvgCPU 1
//	runtime   median of the known runtimes of the same Kind; else of the workflow; else Defaults.Runtime;
//	          0 for a sub-workflow node
//	memory    maximum of the known of the same Kind; else it stays unknown, and the task gets its share of the node it
//	          runs on
//	avg-cpu   100 × cores
//	file size Defaults.FileSize, if any
//
// A specification of WfBench has its numbers among the arguments of the program, and takes them from there.
//
// Commands, images and bytes read and written are never made up: a task without a command is emulated, and its I/O is
// its files.
func Impute(w *Workflow, d Defaults) []Imputation {
	if d.Runtime <= 0 {
		d.Runtime = UnknownRuntime
	}
	var done []Imputation
	note := func(f Fields, rule string) {
		field := "file-size"
		if f != 0 {
			field = fieldNames[bits.TrailingZeros(uint(f))]
		}
		done = counted(done, field, rule)
	}
	for i := range w.Tasks {
		w.Tasks[i].benchmark(note)
	}
	runtimes, memory := map[string][]time.Duration{}, map[string]int64{}
	var all []time.Duration
	for i := range w.Tasks {
		t := &w.Tasks[i]
		if t.Known.Has(Runtime) {
			runtimes[t.Kind] = append(runtimes[t.Kind], t.Runtime)
			all = append(all, t.Runtime)
		}
		if t.Known.Has(Memory) {
			memory[t.Kind] = max(memory[t.Kind], t.MemoryBytes)
		}
	}
	medians := map[string]time.Duration{}
	for kind, rs := range runtimes {
		medians[kind] = median(rs)
	}
	typical := d.Runtime
	if len(all) > 0 {
		typical = median(all)
	}
	for i := range w.Tasks {
		t := &w.Tasks[i]
		fill := func(f Fields, rule string) {
			t.Imputed |= f
			note(f, rule)
		}
		lacks := func(f Fields) bool { return !(t.Known | t.Imputed).Has(f) }
		if lacks(Cores) {
			t.Cores = 1
			if t.Known.Has(AvgCPU) {
				t.Cores = max(1, math.Ceil(t.AvgCPU/100))
				fill(Cores, "average CPU use / 100%, rounded up")
			} else {
				fill(Cores, ruleOneCore)
			}
		}
		if lacks(Runtime) {
			m, ok := medians[t.Kind]
			switch {
			case ok:
				t.Runtime = m
				fill(Runtime, "median of the tasks of the same type")
			case t.SubWorkflow:
				fill(Runtime, "0 s for a sub-workflow node, which is not expanded")
			case len(all) > 0:
				t.Runtime = typical
				fill(Runtime, "median of all tasks of the workflow")
			default:
				t.Runtime = typical
				fill(Runtime, fmt.Sprintf("unknown; plans and simulations take %v", d.Runtime))
			}
		}
		if m := memory[t.Kind]; m > 0 && lacks(Memory) {
			t.MemoryBytes = m
			fill(Memory, "maximum of the tasks of the same type")
		}
		if lacks(AvgCPU) {
			t.AvgCPU = 100 * t.Cores
			fill(AvgCPU, "100% of each core")
		}
	}
	if d.FileSize > 0 {
		for i := range w.Files {
			if f := &w.Files[i]; !f.Sized {
				f.Size, f.Sized, f.Imputed = d.FileSize, true, true
				note(0, fmt.Sprintf("default of %d B", d.FileSize))
			}
		}
	}
	slices.SortStableFunc(done, func(a, b Imputation) int { return strings.Compare(a.Field, b.Field) })
	return done
}

// median sorts s; of an even number it is the lower of the middle two, which really occurred.
func median(s []time.Duration) time.Duration {
	slices.Sort(s)
	return s[(len(s)-1)/2]
}

// benchmark takes the numbers of a task of WfBench from its arguments, where it was not measured: specifications have
// the runtime 0. The instances that WfCommons measured took 25 ms for a unit of --cpu-work (median of 746 tasks).
func (t *Task) benchmark(note func(f Fields, rule string)) {
	if t.Runtime > 0 {
		return
	}
	numbers := map[string]float64{}
	words := strings.Fields(strings.Join(t.Command, " "))
	for i := range len(words) - 1 {
		if n, err := strconv.ParseFloat(words[i+1], 64); err == nil && n > 0 && n <= 1e9 {
			numbers[words[i]] = n
		}
	}
	work := numbers["--cpu-work"]
	if work == 0 {
		return
	}
	t.Runtime, t.Known = time.Duration(work*25e6), t.Known|Runtime
	note(Runtime, "25 ms for each unit of WfBench's --cpu-work")
	if share := numbers["--percent-cpu"]; share > 0 && share <= 1 && !t.Known.Has(AvgCPU) {
		t.AvgCPU, t.Imputed = 100*share, t.Imputed|AvgCPU
		note(AvgCPU, "WfBench's --percent-cpu")
	}
	if mb := numbers["--mem"]; mb > 0 && !t.Known.Has(Memory) {
		t.MemoryBytes, t.Imputed = int64(mb*1e6), t.Imputed|Memory
		note(Memory, "WfBench's --mem, in MB")
	}
}
