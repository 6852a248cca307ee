// Package adversary searches for small instances on which one policy does much worse than another: the workflows, the
// nodes and the speed of their network are changed step by step by simulated annealing (PISA: Coleman and
// Krishnamachari, arXiv 2403.07120). A search is a function of its settings alone.
package adversary

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"gantry/executor"
	"gantry/planner"
	"gantry/trace"
	"gantry/trace/scenario"
)

// Instance is a load on a cluster. Nodes have one core, tasks take one.
type Instance struct {
	Speeds    []float64 `json:"speeds"`
	Bandwidth int64     `json:"bandwidth"` // between nodes, bytes per second
	Flows     []Flow    `json:"workflows"`
	// Seed is that of wrong estimates, with an error model, and of random choices of policies; 0: that of the search.
	Seed uint64 `json:"seed,omitempty"`
}

// Flow is a workflow. Arrive and Allowed, the time from there to its deadline, are milliseconds.
type Flow struct {
	Arrive  int64  `json:"arrive_ms"`
	Allowed int64  `json:"allowed_ms,omitempty"` // 0: it has no deadline
	Tenant  string `json:"tenant,omitempty"`
	Tasks   []Task `json:"tasks"`
}

// Task is a task. Reads has the bytes of a file from each earlier task, 0 where it does not depend on it.
type Task struct {
	Runtime int64   `json:"runtime_ms"` // at speed 1
	Reads   []int64 `json:"reads"`
}

// Bounds of instances: those of small workflows on a workstation. Tasks last long beside the start of a container, no
// core of a host is faster than 1, and quotas below leastSpeed are not exact.
const (
	leastRuntime, mostRuntime     = 1_000, 10_000 // ms
	leastFile, mostFile           = 1_000, 10_000_000
	leastBandwidth, mostBandwidth = 250_000, 100_000_000
	leastSpeed, mostSpeed         = 0.2, 1
	mostArrival, arrivalStep      = 10_000, 100 // ms: less than a step is sometimes at once
	taskMemory                    = 16_000_000
)

// between draws from low to high, uniform in the logarithm.
func between(r *rand.Rand, low, high float64) float64 { return low * math.Pow(high/low, r.Float64()) }

// first is a random instance.
func (s *Search) first(r *rand.Rand) *Instance {
	x := &Instance{Bandwidth: int64(between(r, leastBandwidth, mostBandwidth))}
	for range s.Nodes {
		x.Speeds = append(x.Speeds, bounded(s.Cores/float64(s.Nodes)*between(r, 0.3, 1)))
	}
	for range s.Workflows {
		f := Flow{}
		s.anew(r, &f)
		for range 2 + r.IntN(max(1, s.Tasks-1)) {
			f.Tasks = append(f.Tasks, task(r, len(f.Tasks)))
		}
		x.Flows = append(x.Flows, f)
	}
	x.shift()
	return x
}

// shift has the first workflow arrive at 0.
func (x *Instance) shift() {
	first := slices.MinFunc(x.Flows, func(a, b Flow) int { return cmp.Compare(a.Arrive, b.Arrive) }).Arrive
	for i := range x.Flows {
		x.Flows[i].Arrive -= first
	}
}

// anew draws all of a workflow but its tasks.
func (s *Search) anew(r *rand.Rand, f *Flow) {
	if s.Workflows > 1 {
		f.Arrive = arrivalStep * r.Int64N(mostArrival/arrivalStep)
	}
	if s.Metric == Lateness {
		f.Allowed = int64(between(r, leastRuntime, 10*mostRuntime))
	}
	if s.Tenants > 1 {
		f.Tenant = fmt.Sprint("t", 1+r.IntN(s.Tenants))
	}
}

// bounded is a speed within the bounds, in hundredths, as files have it.
func bounded(x float64) float64 { return min(mostSpeed, max(leastSpeed, math.Floor(x*100)/100)) }

// task draws task i of a workflow.
func task(r *rand.Rand, i int) Task {
	t := Task{Runtime: int64(between(r, leastRuntime, mostRuntime)), Reads: make([]int64, i)}
	for j := range t.Reads {
		if r.IntN(3) == 0 {
			t.Reads[j] = int64(between(r, leastFile, mostFile))
		}
	}
	return t
}

func (x *Instance) clone() *Instance {
	out := *x
	out.Speeds, out.Flows = slices.Clone(x.Speeds), slices.Clone(x.Flows)
	for i := range out.Flows {
		out.Flows[i].Tasks = slices.Clone(x.Flows[i].Tasks)
		for k := range out.Flows[i].Tasks {
			out.Flows[i].Tasks[k].Reads = slices.Clone(x.Flows[i].Tasks[k].Reads)
		}
	}
	return &out
}

// changed is the instance with one thing changed.
func (s *Search) changed(r *rand.Rand, x *Instance) *Instance {
	x = x.clone()
	f := &x.Flows[r.IntN(len(x.Flows))]
	i := r.IntN(len(f.Tasks))
	t := &f.Tasks[i]
	kinds := 8
	if cmp.Or(s.Errors, noErrors) != noErrors {
		kinds++
	}
	switch r.IntN(kinds) {
	case 0: // a node, as long as the host has the cores
		n := r.IntN(len(x.Speeds))
		rest := s.Cores
		for k, speed := range x.Speeds {
			if k != n {
				rest -= speed
			}
		}
		x.Speeds[n] = bounded(between(r, leastSpeed, max(leastSpeed, min(mostSpeed, rest))))
	case 1:
		x.Bandwidth = int64(between(r, leastBandwidth, mostBandwidth))
	case 2: // another dependency, or one less
		if i > 0 {
			k := r.IntN(i)
			if t.Reads[k] > 0 {
				t.Reads[k] = 0
			} else {
				t.Reads[k] = int64(between(r, leastFile, mostFile))
			}
		}
	case 3: // another file
		if k := slices.IndexFunc(t.Reads, func(n int64) bool { return n > 0 }); k >= 0 {
			t.Reads[k] = int64(between(r, leastFile, mostFile))
		}
	case 4:
		if len(f.Tasks) < s.Tasks {
			f.Tasks = append(f.Tasks, task(r, len(f.Tasks)))
		}
	case 5:
		if len(f.Tasks) > 2 {
			f.Tasks = slices.Delete(f.Tasks, i, i+1)
			for k := i; k < len(f.Tasks); k++ {
				f.Tasks[k].Reads = slices.Delete(f.Tasks[k].Reads, i, i+1)
			}
		}
	case 6:
		s.anew(r, f)
	case 8: // other estimates are wrong
		x.Seed = 1 + r.Uint64N(1<<31)
	default:
		t.Runtime = int64(between(r, leastRuntime, mostRuntime))
	}
	x.shift()
	return x
}

// Workflow makes workflow i.
func (x *Instance) Workflow(i int) *trace.Workflow {
	f := &x.Flows[i]
	w := &trace.Workflow{Name: fmt.Sprint("w", i+1), Label: fmt.Sprint("w", i+1), Format: trace.WfFormat,
		Tasks: make([]trace.Task, len(f.Tasks))}
	for k := range f.Tasks {
		t := &w.Tasks[k]
		t.ID, t.Name, t.Kind, t.Retries = fmt.Sprintf("ID%05d", k), fmt.Sprint("t", k+1), fmt.Sprint("t", k+1), -1
		t.Runtime, t.Cores, t.MemoryBytes = time.Duration(f.Tasks[k].Runtime)*time.Millisecond, 1, taskMemory
		t.Known = trace.Runtime | trace.Cores | trace.Memory
		for j, bytes := range f.Tasks[k].Reads {
			if bytes == 0 {
				continue
			}
			file := int32(len(w.Files))
			w.Files = append(w.Files, trace.File{Name: fmt.Sprintf("f%d-%d", j+1, k+1), Size: bytes, Sized: true,
				Producer: int32(j)})
			from := &w.Tasks[j]
			from.Children, from.Outputs = append(from.Children, int32(k)), append(from.Outputs, file)
			t.Parents, t.Inputs = append(t.Parents, int32(j)), append(t.Inputs, file)
		}
	}
	trace.Impute(w, trace.Defaults{})
	return w
}

// Cluster makes the nodes.
func (x *Instance) Cluster() *scenario.Cluster {
	c := &scenario.Cluster{Name: "adversary"}
	for i, speed := range x.Speeds {
		name := fmt.Sprint("n", i+1)
		c.Nodes = append(c.Nodes, scenario.ClusterNode{Name: name, Group: "all", Cores: 1, Speed: speed,
			Memory: nodeMemory})
	}
	c.Links = []scenario.Link{{From: "all", To: "all", Bandwidth: x.Bandwidth}}
	executor.FillDisk(c)
	return c
}

const nodeMemory = 256_000_000

// submissions makes the load.
func (x *Instance) submissions() []executor.Submission {
	subs := make([]executor.Submission, len(x.Flows))
	for i := range x.Flows {
		f := &x.Flows[i]
		w := x.Workflow(i)
		subs[i] = executor.Submission{ID: int64(i + 1), Workflow: w, Name: w.Name, Tenant: f.Tenant,
			At: planner.Time(f.Arrive) * planner.Time(time.Millisecond)}
		if f.Allowed > 0 {
			subs[i].Class = planner.Deadline
			subs[i].Due = subs[i].At.Add(time.Duration(f.Allowed) * time.Millisecond)
		}
	}
	slices.SortStableFunc(subs, func(a, b executor.Submission) int { return cmp.Compare(a.At, b.At) })
	return subs
}

// WriteCluster writes the cluster file.
func (x *Instance) WriteCluster(to io.Writer) error {
	text := "name: adversary\nnodes:\n"
	for i, speed := range x.Speeds {
		text += fmt.Sprintf("  - {name: n%d, group: all, cores: 1, speed: %g, memory: %d}\n", i+1, speed, nodeMemory)
	}
	_, err := fmt.Fprintf(to, "%slinks:\n  - {from: all, to: all, bandwidth: %d/s}\n", text, x.Bandwidth)
	return err
}

// WriteWorkload writes the workload file; name returns the path of workflow i from there.
func (x *Instance) WriteWorkload(to io.Writer, name func(i int) string) error {
	text := "scale_times: true\nworkflows:\n"
	for i := range x.Flows {
		f := &x.Flows[i]
		text += fmt.Sprintf("  - {trace: %q, arrive: %dms", name(i), f.Arrive)
		if f.Allowed > 0 {
			text += fmt.Sprintf(", class: deadline, deadline: %dms", f.Arrive+f.Allowed)
		}
		if f.Tenant != "" {
			text += ", tenant: " + f.Tenant
		}
		text += "}\n"
	}
	_, err := io.WriteString(to, text)
	return err
}
