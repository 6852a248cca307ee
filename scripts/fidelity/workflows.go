package main

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"gantry/executor/sim/calibrate"
)

// workflow is one of the page.
type workflow struct {
	name string
	what string // for the page
	// One of these: tasks made here, an application that gantry generate knows, or a file of programs.
	tasks    []calibrate.SampleTask
	generate []string
	file     string
	// sizeScale is the factor by which gantry multiplies sizes of files; 0: 1. Applications have inputs of tens of
	// gigabytes.
	sizeScale float64
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

// workflows are those of the page. Each takes some three seconds on a node of a core and one of half a core: under
// four policies, three times each, all fit into 15 minutes.
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
	generated := func(kind string, tasks, seconds int) []string {
		return []string{kind, "--tasks", fmt.Sprint(tasks), "--seed", "3", "--total-runtime",
			fmt.Sprintf("%ds", seconds)}
	}
	return []workflow{
		{name: "cpu", what: "CPU-bound", tasks: cpu},
		{name: "io", what: "I/O-bound", tasks: disk},
		{name: "short", what: "many short tasks", tasks: short},
		{name: "long", what: "few long tasks", tasks: long},
		{name: "idle", what: "tasks that use 3 % of a core", tasks: idle},
		{name: "fan", what: "one task, five at once, one task", tasks: fan},
		{name: "chain", what: "one task after the other", tasks: chain},
		{name: "mixed", what: "a mix of the above", tasks: mixed},
		{name: "montage", what: "the shape of Montage", generate: generated("montage", 13, 2)},
		{name: "cybershake", what: "the shape of CyberShake", generate: generated("cybershake", 5, 2),
			sizeScale: 0.001},
		{name: "mosaic", what: "real programs: examples/mosaic", file: "examples/mosaic/workflow.yml"},
		{name: "variants", what: "real programs: examples/variants", file: "examples/variants/workflow.yml"},
	}
}

// fingerprint names the workflows: others have another one.
func fingerprint() string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%+v", workflows())))
}

// write writes the workflow as WfFormat, unless it has a file, and returns the path.
func (w *workflow) write(x *harness) (string, error) {
	if w.file != "" {
		return w.file, nil
	}
	path := filepath.Join(x.dir, "workflows", w.name+".json")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	if w.generate != nil {
		_, err := x.gantry(append(append([]string{"generate"}, w.generate...), "--output", path)...)
		return path, err
	}
	return path, (&calibrate.SampleWorkflow{Name: w.name, Tasks: w.tasks}).Write(path, 20*mb)
}
