package predict

import (
	"math"
	"time"

	"gantry/planner"
	"gantry/planner/unit"
)

// History estimates runtimes as measured of tasks of the same kind: the mean of all runs that ended well, normalised by
// the speed of their nodes. It learns while the run continues, and from earlier runs beforehand. Kinds that never ran,
// and tasks whose workload gives a runtime per node, are estimated as declared.
type History struct {
	Declared *Declared // also has the time that starting a container takes
	kinds    []measured
	prior    map[string]measured // by name of kind
}

var (
	_ planner.Ranker   = (*History)(nil)
	_ planner.Observer = (*History)(nil)
)

// measured sums runs up by Welford's method, in nanoseconds at speed 1.
type measured struct {
	n        int32
	mean, m2 float64
}

func (m *measured) add(ns float64) {
	m.n++
	delta := ns - m.mean
	m.mean += delta / float64(m.n)
	m.m2 += delta * (ns - m.mean)
}

func (m *measured) deviation() time.Duration {
	if m.n < 2 {
		return 0
	}
	return time.Duration(math.Round(math.Sqrt(m.m2 / float64(m.n-1))))
}

// Prior takes in a run of an earlier log, before this one begins.
func (h *History) Prior(kind string, ran time.Duration, speed float64) {
	if h.prior == nil {
		h.prior = map[string]measured{}
	}
	m := h.prior[kind]
	m.add(float64(ran) * normal(speed))
	h.prior[kind] = m
}

// Name says which kind has that name: it begins with the runs of that name that Prior took in.
func (h *History) Name(k planner.KindID, name string) {
	if m, ok := h.prior[name]; ok {
		*h.kind(k) = m
	}
}

// Learn takes in a run that ended well.
func (h *History) Learn(k planner.KindID, ran time.Duration, speed float64) {
	h.kind(k).add(float64(ran) * normal(speed))
}

func (h *History) kind(k planner.KindID) *measured {
	h.kinds = planner.Extend(h.kinds, int(k)+1)
	return &h.kinds[k]
}

// Observe implements planner.Observer.
func (h *History) Observe(v planner.View, e planner.Event) {
	if x, ok := e.Body.(*planner.AttemptExited); ok && x.Outcome == planner.OK {
		att := v.Attempt(x.Attempt)
		h.Learn(v.Task(att.Task).Kind, planner.Whole(x.Ran, att.Done), v.Nodes()[att.Node].Speed)
	}
}

// Run implements planner.Estimator.
func (h *History) Run(t *planner.Task, n *planner.Node) planner.Estimate {
	if !h.knows(t) {
		return h.Declared.Run(t, n)
	}
	m := &h.kinds[t.Kind]
	return planner.Estimate{Run: unit.AtSpeed(time.Duration(math.Round(m.mean)), n.Speed) + h.Declared.Start(t),
		Spread: unit.AtSpeed(m.deviation(), n.Speed), Samples: m.n, Source: planner.SourceHistory}
}

// Remaining implements planner.Estimator.
func (h *History) Remaining(t *planner.Task, n *planner.Node, ran time.Duration) time.Duration {
	return Overrun(h.Run(t, n).Run, ran)
}

// Unscaled implements planner.Ranker.
func (h *History) Unscaled(t *planner.Task, n *planner.Node) (time.Duration, uint64) {
	return h.Run(t, n).Run, 1
}

// Work implements planner.Ranker.
func (h *History) Work(t *planner.Task) (planner.Work, bool) {
	w, ok := h.Declared.Work(t)
	if ok && h.knows(t) {
		w.Run = time.Duration(math.Round(h.kinds[t.Kind].mean))
	}
	w.Unscaled, w.Weight = w.Run, 1
	return w, ok
}

// knows reports whether t is estimated by measurements.
func (h *History) knows(t *planner.Task) bool {
	return int(t.Kind) < len(h.kinds) && h.kinds[t.Kind].n > 0 && h.Declared.BySpeed(t)
}

// BySpeed implements planner.Ranker.
func (h *History) BySpeed(t *planner.Task) bool { return h.Declared.BySpeed(t) }

// normal is the speed to normalise by: a node that does not tell counts as the reference.
func normal(speed float64) float64 {
	if speed <= 0 {
		return 1
	}
	return speed
}
