package metrics

import (
	"fmt"

	"gantry/executor"
)

// loadStats describes the workflows that arrived, as figures 1 and 2 of Ilyushkin and Epema (CCGrid 2018) do.
type loadStats struct {
	runtimes  []float64 // of each task, seconds at speed 1
	branching []float64 // of each workflow: dependencies over tasks
	totals    []float64 // of each workflow: its work, seconds
	parallel  []float64 // of each workflow: its work over its critical path
}

// DescribeLoad makes Run return statistics of the workflows of the load, those of warm-up and cool-down included. It is
// called before the run.
func (c *Collector) DescribeLoad() { c.load = &loadStats{} }

func (l *loadStats) arrive(c *Collector, adm *executor.Admission, w *Workflow) {
	edges := 0
	for i := range adm.Arrived.Tasks {
		edges += len(adm.Arrived.Tasks[i].Parents)
	}
	for _, spec := range adm.Tasks {
		run, _ := c.runtimes(spec)
		l.runtimes = append(l.runtimes, run.Seconds())
	}
	l.branching = append(l.branching, ratio(float64(edges), float64(len(adm.Tasks))))
	l.totals = append(l.totals, w.Work.Seconds())
	l.parallel = append(l.parallel, w.Parallelism())
}

// values puts the statistics of each quantity, and how many values each of 30 bins of equal width holds:
// load_QUANTITY_from_X counts those from X to the next X; the last bin has all above.
func (l *loadStats) values(put func(string, float64)) {
	const bins = 30
	for _, q := range []struct {
		name   string
		values []float64
		width  float64
	}{
		{"task_runtime", l.runtimes, 150},
		{"total_runtime", l.totals, 1200},
		{"branching", l.branching, 0.25},
		{"parallelism", l.parallel, 4},
	} {
		name := "load_" + q.name
		s := Summarise(q.values)
		for _, v := range []Value{{"mean", s.Mean}, {"sd", s.SD}, {"min", s.Min}, {"median", s.Median}, {"p99", s.P99},
			{"max", s.Max}, {"range", s.Max - s.Min}} {
			put(name+"_"+v.Name, v.Value)
		}
		counts := make([]float64, bins)
		for _, v := range q.values {
			counts[max(0, min(bins-1, int(v/q.width)))]++
		}
		for i, n := range counts {
			put(fmt.Sprintf("%s_from_%g", name, float64(i)*q.width), n)
		}
	}
}
