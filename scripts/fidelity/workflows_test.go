package fidelity

import (
	"fmt"
	"math/rand/v2"

	"gantry/executor/sim/calibrate"
)

// workflow has one of these: tasks made here, an application that gantry generate knows, or a file of real programs.
type workflow struct {
	name      string
	tasks     []calibrate.SampleTask
	generate  []string
	path      string
	real      bool
	sizeScale float64 // of files; 0: 1. Applications have inputs of tens of gigabytes
}

const mb = 1_000_000

// level adds n tasks that follow all of after, with runtimes drawn around a mean, and returns their positions.
func level(to *[]calibrate.SampleTask, r *rand.Rand, kind string, n int, seconds, cpu float64, read, write int64,
	after ...int) (at []int) {
	for range n {
		at = append(at, len(*to))
		*to = append(*to, calibrate.SampleTask{Kind: kind, Seconds: seconds * (0.7 + 0.6*r.Float64()), CPU: cpu,
			Reads: read, Bytes: write, After: after})
	}
	return at
}

// workflows take some three seconds each on a node of a core and one of half a core: under four policies, three times
// each, all fit into 15 minutes.
func workflows() []workflow {
	r := rand.New(rand.NewPCG(17, 17))
	var cpu, disk, short, long, idle, fan, chain, mixed []calibrate.SampleTask
	level(&cpu, r, "reduce", 1, 0.5, 100, 0, mb/10, level(&cpu, r, "compute", 4, 0.5, 100, mb/10, mb/10)...)
	level(&disk, r, "merge", 1, 0.3, 20, 0, 10*mb, level(&disk, r, "copy", 3, 0.5, 15, 20*mb, 15*mb)...)
	level(&short, r, "last", 1, 0.05, 80, 0, 1000, level(&short, r, "short", 10, 0.05, 80, 1000, 1000)...)
	level(&long, r, "long", 3, 0.9, 90, mb, mb)
	level(&idle, r, "wait", 4, 0.5, 3, 1000, 1000)
	first := level(&fan, r, "split", 1, 0.3, 90, mb, mb)
	level(&fan, r, "join", 1, 0.3, 90, 0, mb, level(&fan, r, "part", 5, 0.3, 70, 0, mb/10, first...)...)
	last := []int{}
	for range 4 {
		last = level(&chain, r, "link", 1, 0.35, 60, 0, mb/10, last...)
	}
	a := level(&mixed, r, "fetch", 2, 0.4, 5, 10*mb, 10*mb)
	b := level(&mixed, r, "compute", 2, 0.7, 100, 0, mb, a[0])
	level(&mixed, r, "check", 1, 0.1, 50, 0, 1000, a[1])
	level(&mixed, r, "report", 1, 0.3, 80, 0, 5*mb, b...)
	generated := func(kind string, tasks int) []string {
		return []string{kind, "--tasks", fmt.Sprint(tasks), "--seed", "3", "--total-runtime", "2s"}
	}
	return []workflow{{name: "cpu", tasks: cpu}, {name: "io", tasks: disk}, {name: "short", tasks: short},
		{name: "long", tasks: long}, {name: "idle", tasks: idle}, {name: "fan", tasks: fan},
		{name: "chain", tasks: chain}, {name: "mixed", tasks: mixed},
		{name: "montage", generate: generated("montage", 13)},
		{name: "cybershake", generate: generated("cybershake", 5), sizeScale: 0.001},
		{name: "mosaic", path: "examples/mosaic/workflow.yml", real: true},
		{name: "variants", path: "examples/variants/workflow.yml", real: true}}
}

// write makes the file of the workflow. Real programs run: a first time so that the host has read them from the disk,
// and a second time for the log that their predictions rest on.
func (w *workflow) write(x *harness) {
	x.Helper()
	if w.real {
		for _, name := range []string{"warm-" + w.name, "first-" + w.name} {
			x.gantry("run", "--dir", x.at(name), "--name", "first", "--quiet", "--policy", "cpp", "--cluster", cluster,
				w.path)
		}
		return
	}
	w.path = x.at(w.name + ".json")
	if w.generate != nil {
		x.gantry(append(append([]string{"generate"}, w.generate...), "--output", w.path)...)
	} else if err := (&calibrate.SampleWorkflow{Name: w.name, Tasks: w.tasks}).Write(w.path, 20*mb); err != nil {
		x.Fatal(err)
	}
}
