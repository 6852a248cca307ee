package predictions

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gantry/planner"
	"gantry/planner/alloc"
	"gantry/planner/order"
	"gantry/planner/policy"
	"gantry/planner/retain"
	"gantry/trace"
)

// A study of pipelines.
const (
	driven  = "docs/drive.md"
	servers = 8    // cores of the host
	chances = 10   // runs of gbf, which draws
	counted = 10   // pipelines: those with most tasks
	lasting = 80.0 // seconds that first come, first served takes in containers, or less
)

// pipeline is a recorded one, with makespans on some number of cores.
type pipeline struct {
	*trace.Workflow
	path                    string
	parallel                float64 // its work over its critical path
	gbf, kinds, ranks, heft float64
	least                   float64 // that no schedule is below
}

// Test the pipelines of WfInstances on a host of their own: first come, first served against ranks of kinds, as servers
// learn them, ranks of the graph, and HEFT. A bound says how much any policy could gain.
func TestPipelinesAgainstFirstComeFirstServed(t *testing.T) {
	data, w := begin(t, false, "GANTRY_WFINSTANCES"), &strings.Builder{}
	all := readPipelines(t, data)
	atMost := 0.0 // of all pipelines on a host of any size
	for cores := 1; cores <= 2*servers; cores++ {
		atMost = max(atMost, mean(all, func(p *pipeline) float64 {
			return p.schedule(t, cores, false).gain(p.least)
		}))
	}
	wide := mean(all, func(p *pipeline) float64 {
		p.schedule(t, max(2, int(math.Round(p.parallel))), true)
		return p.gain(p.ranks)
	})
	fmt.Fprintf(w, `
The gain of ranks: each of the %d pipelines of nf-core that Nextflow ran for
[WfInstances](https://github.com/wfcommons/WfInstances) is alone on a host with %d cores, simulated, a core for each
task. `+"`make predictions`"+` does this if `+"`GANTRY_WFINSTANCES`"+` names a clone. First come, first served is
`+"`gbf`"+`, the mean of %d draws. Ranks by kinds are those that a server has learned from an earlier run, ranks by the
graph are `+"`cpp`"+`. Parallelism is work over critical path. Per cents are of the makespan under first come, first
served.

| pipeline | tasks | parallelism | first come, first served | by kinds | by the graph | %s | no schedule gains more than |
| --- | --- | --- | --- | --- | --- | --- | --- |
`, len(all), servers, chances, "`heft`")
	row := func(name, rest string, of []*pipeline) {
		fmt.Fprintf(w, "| %s | %s |", name, rest)
		for _, makespan := range []func(*pipeline) float64{func(p *pipeline) float64 { return p.kinds },
			func(p *pipeline) float64 { return p.ranks }, func(p *pipeline) float64 { return p.heft },
			func(p *pipeline) float64 { return p.least }} {
			gain := mean(of, func(p *pipeline) float64 { return p.gain(makespan(p)) })
			fmt.Fprintf(w, " %.1f %% |", math.Abs(gain)) // not -0.0
		}
		fmt.Fprintln(w)
	}
	for _, p := range all {
		p.schedule(t, servers, true)
		row(p.Name, fmt.Sprintf("%d | %.1f | %.0f s", len(p.Tasks), p.parallel, p.gbf), []*pipeline{p})
	}
	row(fmt.Sprintf("mean of the %d with most tasks", counted), "| |", all[:counted])
	row(fmt.Sprintf("mean of all %d", len(all)), "| |", all)
	fmt.Fprintf(w, `
The %d with most tasks are those of the highest parallelism, too. The others cannot keep %d cores busy, so that a tenth in
the mean of all %d is beyond any policy: their bound is %.1f %% at most, whatever number of cores all get. If each gets as many
cores as its parallelism, at least two, ranks by the graph gain %.1f %% in the mean of all.
`, counted, servers, len(all), atMost, wide)
	bar(t, "makespans of the ten are shorter by ranks of kinds, %", mean(all[:counted], func(p *pipeline) float64 {
		return p.gain(p.kinds)
	}), 10, 100)
	if *large {
		pipelinesInContainers(t, w, all[:counted])
	}
	publish(t, driven, "## Recorded pipelines", w.String())
}

func mean(of []*pipeline, f func(*pipeline) float64) (m float64) {
	for _, p := range of {
		m += f(p) / float64(len(of))
	}
	return m
}

// gain is how many per cent a makespan is below that of first come, first served.
func (p *pipeline) gain(makespan float64) float64 { return 100 * (1 - makespan/p.gbf) }

// readPipelines reads those that Nextflow ran, by their tasks.
func readPipelines(t *testing.T, data string) (all []*pipeline) {
	paths, err := filepath.Glob(filepath.Join(data, "nextflow", "*.json"))
	must(t, err)
	for _, path := range paths {
		w, faults, err := trace.Open(path, trace.ReadOptions{})
		must(t, err)
		for _, f := range faults {
			if f.Severity == trace.Error {
				t.Fatal(path, f)
			}
		}
		work := 0.0
		for i := range w.Tasks {
			task := &w.Tasks[i]
			task.Cores, task.Known = 1, task.Known|trace.Cores // their commands say --threads 1
			work += task.Runtime.Seconds()
		}
		all = append(all, &pipeline{Workflow: w, path: path, parallel: work / w.Stats().CriticalPathSeconds})
	}
	slices.SortStableFunc(all, func(a, b *pipeline) int { return cmp.Compare(len(b.Tasks), len(a.Tasks)) })
	return all
}

// schedule simulates first come, first served and computes the bound; whole: the other policies, too.
func (p *pipeline) schedule(t *testing.T, cores int, whole bool) *pipeline {
	t.Helper()
	p.gbf, p.least = 0, p.bound(cores)
	for seed := range chances {
		p.gbf += p.simulate(t, cores, seed+1, parsed(t, "gbf")) / chances
	}
	if whole {
		ranks := p.kindRanks()
		p.kinds = p.simulate(t, cores, 1, byKey(func(id planner.TaskID) int64 {
			return -int64(ranks[p.Tasks[id].Kind])
		}))
		p.ranks = p.simulate(t, cores, 1, parsed(t, "cpp"))
		p.heft = p.simulate(t, cores, 1, parsed(t, "heft"))
	}
	return p
}

func parsed(t *testing.T, name string) planner.Policy {
	pol, err := policy.Parse(name)
	must(t, err)
	return pol
}

func byKey(key func(planner.TaskID) int64) planner.Policy {
	q := &order.Keyed{Key: func(_ *planner.Cycle, id planner.TaskID) order.Key { return order.Key{Major: key(id)} }}
	return &planner.Pipeline[alloc.Skipper]{Retain: retain.Drop{Requeue: q}, Queue: q, Allocate: &alloc.List{}}
}

// kindRanks are the upward ranks of the graph of task types, with mean runtimes: as a server has them of earlier jobs.
func (p *pipeline) kindRanks() map[string]time.Duration {
	sum, runs, below := map[string]time.Duration{}, map[string]int{}, map[string]map[string]bool{}
	for i := range p.Tasks {
		task := &p.Tasks[i]
		sum[task.Kind], runs[task.Kind] = sum[task.Kind]+task.Runtime, runs[task.Kind]+1
		if below[task.Kind] == nil {
			below[task.Kind] = map[string]bool{}
		}
		for _, c := range task.Children {
			below[task.Kind][p.Tasks[c].Kind] = true
		}
	}
	ranks := map[string]time.Duration{}
	var visit func(kind string) time.Duration
	visit = func(kind string) time.Duration {
		if rank, known := ranks[kind]; known {
			return rank
		}
		ranks[kind] = 0 // in a circle of kinds
		longest := time.Duration(0)
		for child := range below[kind] {
			longest = max(longest, visit(child))
		}
		ranks[kind] = sum[kind]/time.Duration(runs[kind]) + longest
		return ranks[kind]
	}
	for kind := range below {
		visit(kind)
	}
	return ranks
}

// simulate returns the makespan on a node with that number of cores, in seconds.
func (p *pipeline) simulate(t *testing.T, cores, seed int, pol planner.Policy) float64 {
	t.Helper()
	e := alone(p.Workflow, cores, 64<<30, pol, uint64(seed), nil)
	e.Admit.Fit, e.Admit.Emulate = true, true
	_, err := e.Run(t.Context())
	must(t, err)
	return time.Duration(e.Planner.View().Now()).Seconds()
}

// bound is a lower bound of the makespan on that number of cores, in seconds: for each earliest start (head) and each
// path that follows (tail), the head, the work of all tasks with no less of both over the cores, and the tail.
func (p *pipeline) bound(cores int) (least float64) {
	n := len(p.Tasks)
	head, tail, order := make([]float64, n), make([]float64, n), p.Order()
	run := func(i int32) float64 { return p.Tasks[i].Runtime.Seconds() }
	for _, i := range order {
		for _, c := range p.Tasks[i].Children {
			head[c] = max(head[c], head[i]+run(i))
		}
	}
	for _, i := range slices.Backward(order) {
		for _, c := range p.Tasks[i].Children {
			tail[i] = max(tail[i], tail[c]+run(c))
		}
		least = max(least, head[i]+run(i)+tail[i])
	}
	byTail := slices.SortedFunc(slices.Values(order), func(a, b int32) int { return cmp.Compare(tail[b], tail[a]) })
	for _, first := range head {
		work := 0.0
		for _, i := range byTail {
			if head[i] >= first {
				work += run(i)
				least = max(least, first+work/float64(cores)+tail[i])
			}
		}
	}
	return least
}

// pipelinesInContainers runs stand-ins that mostly sleep: a small host has the nodes of a large one.
func pipelinesInContainers(t *testing.T, w *strings.Builder, all []*pipeline) {
	home := t.TempDir()
	cluster := filepath.Join(home, "node.yaml")
	must(t, os.WriteFile(cluster, fmt.Appendf(nil, "nodes: [{name: n, cores: %d, memory: 8GB}]\n", servers), 0o644))
	shorter, simulated := 0.0, 0.0
	for _, p := range all {
		for i := range p.Tasks {
			task := &p.Tasks[i]
			task.AvgCPU, task.MemoryBytes, task.ReadBytes, task.WrittenBytes, task.Command = 2, 8<<20, 0, 0, nil
			task.Known = trace.Runtime | trace.Cores | trace.AvgCPU | trace.Memory
		}
		for i := range p.Files {
			p.Files[i].Size = 0
		}
		path := filepath.Join(home, p.Name+".json")
		f, err := os.Create(path)
		must(t, err)
		must(t, trace.WriteWfFormat(f, p.Workflow))
		must(t, f.Close())
		p.schedule(t, servers, true)
		took := map[string]float64{}
		for i, pol := range []string{"gbf", "cpp", "cpp", "gbf"} {
			name := fmt.Sprint(p.Name, i)
			run(t, "run", "--quiet", "--dir", home, "--name", name, "--runtime", "oci", "--oversubscribe",
				"--policy", pol, "--seed", fmt.Sprint(i+1), "--estimator", "declared",
				"--time-scale", fmt.Sprint(min(1, lasting/p.gbf)), "--size-scale", "0.01", "--cluster", cluster, path)
			took[pol] += asked[span](t, "show", "--json", "--dir", home, name).Makespan
		}
		shorter += 100 * (1 - took["cpp"]/took["gbf"]) / float64(len(all))
		simulated += p.gain(p.ranks) / float64(len(all))
	}
	fmt.Fprintf(w, `
In containers (`+"`--runtime oci`"+`, stand-ins that mostly sleep) ranks by the graph gain %.1f %% in the mean of those %d, each
policy run twice, and simulated %.1f %%.
`, shorter, len(all), simulated)
	bar(t, "makespans in containers are shorter by, %", shorter, 10, 100)
}
