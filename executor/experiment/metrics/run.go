package metrics

import (
	"cmp"
	"math"

	"gantry/planner"
	"gantry/planner/unit"
)

// Value is one metric of a run.
type Value struct {
	Name  string
	Value float64 // NaN: it has no value in this run
}

// Window is the part of a run that counts: the workflows after the first WarmUp and before the last CoolDown of Total.
type Window struct {
	WarmUp, CoolDown int
	Total            int // workflows that are to arrive; 0: those that did
}

// Counted returns the workflows of the window that have ended well, by arrival.
func (c *Collector) Counted(win Window) []*Workflow {
	first, last := c.bounds(win)
	var out []*Workflow
	for i := first; i < last; i++ {
		if w := &c.workflows[i]; w.Done() && !w.Continued {
			out = append(out, w)
		}
	}
	return out
}

func (c *Collector) bounds(win Window) (first, last int) {
	last = max(0, min(cmp.Or(win.Total, len(c.workflows))-win.CoolDown, len(c.workflows)))
	return min(win.WarmUp, last), last
}

// horizon is the span of time over which numbers in system and utilisation are averaged: from the arrival of the first
// workflow that counts to that of the first one of the cool-down, or to the end of the run if there is none.
func (c *Collector) horizon(win Window) (from, to planner.Time, busy float64) {
	first, last := c.bounds(win)
	if first >= last {
		return 0, 0, 0
	}
	from, to, busy = c.workflows[first].Arrived, c.now, c.busy
	if last < len(c.workflows) {
		to, busy = c.workflows[last].Arrived, c.busyAt[last]
	}
	return from, to, busy - c.busyAt[first]
}

// Run returns the metrics of a run: of the workflows that count, and of the system. The unit of times is the second.
func (c *Collector) Run(win Window) []Value {
	counted := c.Counted(win)
	var out []Value
	put := func(name string, v float64) { out = append(out, Value{name, v}) }
	put("workflows", float64(len(counted)))
	failed, unfinished, refused := 0, 0, 0
	var late, lateness []float64 // 1 or 0 of each workflow with a deadline that was not refused; seconds after it
	first, last := c.bounds(win)
	for i := first; i < last; i++ {
		w := &c.workflows[i]
		switch {
		case w.Continued:
			continue
		case w.Refused:
			refused++
			continue
		case w.Ended == unit.Never:
			unfinished++
		case w.Failed > 0:
			failed++
		}
		if w.Due != unit.Never {
			late = append(late, truth(w.Late()))
			if w.Ended != unit.Never {
				lateness = append(lateness, w.Ended.Sub(w.Due).Seconds())
			}
		}
	}
	put("failed", float64(failed))
	put("unfinished", float64(unfinished))
	if refused > 0 {
		put("refused", float64(refused))
	}
	if len(late) > 0 {
		put("late_share", Confidence(late).Mean)
		put("late_share_half", BatchConfidence(late).Half)
		turnaround := make([]float64, len(counted))
		for i, w := range counted {
			turnaround[i] = w.Turnaround().Seconds()
		}
		put("turnaround_half", BatchConfidence(turnaround).Half)
	}
	sample := make([]float64, len(counted))
	for _, m := range perWorkflow {
		for i, w := range counted {
			sample[i] = m.of(w)
		}
		s := Summarise(sample)
		put(m.name+"_mean", s.Mean)
		if !m.spread {
			continue
		}
		for _, v := range []Value{{"sd", s.SD}, {"min", s.Min}, {"p5", s.P5}, {"p25", s.P25}, {"median", s.Median},
			{"p75", s.P75}, {"p95", s.P95}, {"p99", s.P99}, {"max", s.Max}, {"low_whisker", s.LowWhisker},
			{"high_whisker", s.HighWhisker}} {
			put(m.name+"_"+v.Name, v.Value)
		}
	}
	c.timing(win, counted, put)
	if c.searched {
		for i, w := range counted {
			sample[i] = float64(w.Searched)
		}
		put("searched_mean", Summarise(sample).Mean)
	}
	from, to, busy := c.horizon(win)
	span := to.Sub(from).Seconds()
	var cores int64
	for i := range c.platform.Nodes {
		cores += c.platform.Nodes[i].Capacity[unit.CPU]
	}
	put("horizon", span)
	put("utilisation", ratio(busy, float64(cores)/1000*span))
	c.tenancy.values(c, first, last, span, put)
	c.preempted.values(put)
	if c.Faulty {
		put("retries", float64(c.preempted.again))
		if len(lateness) > 0 {
			put("lateness_mean", Summarise(lateness).Mean)
		}
	}
	put("in_system_mean", c.steps.Mean(from, to))
	if to > from {
		put("in_system_max", float64(c.steps.Max(from, to)))
	} else { // cut off before anything counts: that it had grown so far is why
		put("in_system_max", float64(c.steps.Max(0, c.now)))
	}
	if n := len(c.workflows); n > 0 {
		begun := c.workflows[0].Arrived
		put("span", c.now.Sub(begun).Seconds())
		arrivals := c.workflows[n-1].Arrived
		// Stability is judged while workflows arrive: the drain that follows looks stable under any load.
		if means := c.steps.BatchMeans(begun, arrivals); means != nil && n >= 2*Batches {
			statistic, stable := Wieland(means)
			put("wieland", statistic)
			put("wieland_stable", truth(stable))
			if drift, stable := c.steps.MeanDrift(begun, arrivals); !math.IsNaN(drift) {
				put("drift", drift)
				put("drift_stable", truth(stable))
			}
		}
	}
	if c.load != nil {
		c.load.values(put)
	}
	put("backfilled", float64(c.backfills))
	put("events", float64(c.events))
	return out
}

var perWorkflow = []struct {
	name   string
	spread bool
	of     func(*Workflow) float64
}{
	{"slowdown", true, (*Workflow).Slowdown},
	{"wait", true, func(w *Workflow) float64 { return w.Wait().Seconds() }},
	{"makespan", true, func(w *Workflow) float64 { return w.Makespan().Seconds() }},
	{"response", true, func(w *Workflow) float64 { return w.Response().Seconds() }},
	{"turnaround", false, func(w *Workflow) float64 { return w.Turnaround().Seconds() }},
	{"slr", true, (*Workflow).ScheduleLengthRatio},
	{"work", false, func(w *Workflow) float64 { return w.Work.Seconds() }},
	{"critical_path", false, func(w *Workflow) float64 { return w.CriticalPath.Seconds() }},
	{"parallelism", false, (*Workflow).Parallelism},
	{"tasks", false, func(w *Workflow) float64 { return float64(w.Tasks) }},
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func ratio(a, b float64) float64 {
	if b <= 0 {
		return math.NaN()
	}
	return a / b
}
