package benchmark

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"gantry/scripts/measure"
	"gantry/trace"
)

const (
	experiments = "examples/experiments/"
	homogeneous = experiments + "homogeneous.yaml"
)

// inputs are files that several parts read.
type inputs struct {
	nodes        string   // a cluster of 16
	small, large string   // DAX of 10,000 and 100,000 tasks
	wfformat     string   // the large one
	load         []string // Workload I and its cluster, as arguments
}

// inputs writes them, unless they are there.
func (b *bench) inputs() (in inputs, err error) {
	nodes, err1 := b.cluster(16, 4)
	small, err2 := b.layered(10_000)
	large, err3 := b.layered(100_000)
	in = inputs{nodes, small, large, filepath.Join(b.dir, "large.json"),
		[]string{"--cluster", homogeneous, experiments + "workload-1.yaml"}}
	if err := errors.Join(err1, err2, err3); err != nil {
		return in, err
	}
	if _, err := os.Stat(in.wfformat); err != nil {
		// The peak memory of a process counts for those that it starts, so another one reads and writes it.
		_, err = measure.Gantry(b.gantry).Run(b.ctx, "convert", "-o", in.wfformat, large)
		return in, err
	}
	return in, nil
}

// cluster writes a cluster file of that many nodes.
func (b *bench) cluster(nodes, cores int) (string, error) {
	path := filepath.Join(b.dir, fmt.Sprintf("cluster-%d-%d.yaml", nodes, cores))
	return path, os.WriteFile(path, fmt.Appendf(nil, "name: bench\nnodes:\n  - {name: n, count: %d, cores: %d, "+
		"speed: 1, memory: 4GB, read: 1000MB/s, write: 1000MB/s, group: g}\n"+
		"links:\n  - {from: g, to: g, bandwidth: 100MB/s, latency: 1ms}\n", nodes, cores), 0o644)
}

// streamOf writes a workload of so many workflows of 10 tasks.
func (b *bench) streamOf(workflows int) (string, error) {
	path := filepath.Join(b.dir, fmt.Sprintf("stream-%d.yaml", workflows))
	return path, os.WriteFile(path, fmt.Appendf(nil, "name: stream\nseed: 1\ncount: %d\nmix: [{generator: random, "+
		"fraction: 1, tasks: 10}]\nfiles: false\ntotal_runtime: {distribution: constant, mean: 1h}\n"+
		"arrivals: {process: poisson, utilisation: 0.9}\n", workflows), 0o644)
}

// shorter writes a workload of the experiments with fewer workflows.
func (b *bench) shorter(of string, count int) (string, error) {
	text, err := os.ReadFile(experiments + of)
	if err != nil {
		return "", err
	}
	text = regexp.MustCompile(`(?m)^count: .*$`).ReplaceAll(text, fmt.Appendf(nil, "count: %d", count))
	text = regexp.MustCompile(`(?m)^(warm_up|cool_down): .*\n`).ReplaceAll(text, nil)
	path := filepath.Join(b.dir, filepath.Base(of))
	return path, os.WriteFile(path, text, 0o644)
}

// layered writes a DAX of tasks in layers of 100, each with three parents in the layer above and a file for each of its
// children.
func (b *bench) layered(tasks int) (string, error) {
	const width = 100
	path := filepath.Join(b.dir, fmt.Sprintf("layered-%d.dax", tasks))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	s := bufio.NewWriter(f) // the peak memory of this process counts for those that it starts
	var edges strings.Builder
	s.WriteString(`<adag xmlns="http://pegasus.isi.edu/schema/DAX" version="2.1" name="layered">` + "\n")
	for i := range tasks {
		fmt.Fprintf(s,
			`<job id="ID%d" name="kind%d" runtime="%d.%d"><profile namespace="globus" key="maxmemory">16</profile>`+
				`<uses file="f%d" link="output" size="%d"/>`,
			i, i/width%7, 1+i*7919%30, i%10, i, 1000+i*104729%900_000)
		if i >= width {
			fmt.Fprintf(&edges, `<child ref="ID%d">`, i)
			for _, offset := range []int{0, 1, 7} {
				p := (i/width-1)*width + (i+offset)%width
				fmt.Fprintf(s, `<uses file="f%d" link="input" size="%d"/>`, p, 1000+p*104729%900_000)
				fmt.Fprintf(&edges, `<parent ref="ID%d"/>`, p)
			}
			edges.WriteString("</child>\n")
		}
		s.WriteString("</job>\n")
	}
	s.WriteString(edges.String() + "</adag>\n")
	return path, s.Flush()
}

// trivial writes a workflow of n tasks that do nothing in a container, one after the other if it is a chain.
func (b *bench) trivial(n int, chain bool) (string, error) {
	w := &trace.Workflow{Name: "trivial", Label: "trivial"}
	for i := range n {
		t := trace.Task{ID: fmt.Sprint("t", i), Kind: "true", Runtime: 10 * time.Millisecond, MemoryBytes: 16_000_000,
			Known: trace.Runtime | trace.Memory, Command: []string{"true"}, Image: image, Retries: -1}
		if chain && i > 0 {
			t.Parents = []int32{int32(i - 1)}
			w.Tasks[i-1].Children = []int32{int32(i)}
		}
		w.Tasks = append(w.Tasks, t)
	}
	path := filepath.Join(b.dir, fmt.Sprintf("trivial-%d-%t.json", n, chain))
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	return path, errors.Join(trace.WriteWfFormat(f, w), f.Close())
}
