package sim

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
)

// Prepares implements executor.Preparer.
func (r *Runtime) Prepares() executor.Preparing {
	if r.cfg.Startup == 0 {
		return executor.Preparing{}
	}
	return executor.Preparing{Lead: 2 * r.cfg.Startup, Most: r.cfg.Ahead, Memory: executor.WaitingMemory}
}

// Prepare implements executor.Preparer: the start of a container takes its time, from now or from when the last parent
// begins.
func (r *Runtime) Prepare(_ context.Context, soon []executor.Preparation) error {
	ready := make(map[executor.Likely]planner.Time, len(soon))
	for i := range soon {
		key := soon[i].Likely()
		at, known := r.ahead[key]
		if !known {
			from := r.now
			for _, p := range soon[i].After {
				if a := r.at(p); a != nil && a.state == staging {
					from = max(from, a.begins)
				}
			}
			at = from.Add(r.cfg.Startup)
		}
		ready[key] = at
	}
	r.ahead = ready
	return nil
}

// takeReady returns when the container of an attempt is ready, if it was started ahead; else unit.Never.
func (r *Runtime) takeReady(l *executor.Launch) planner.Time {
	if len(r.ahead) == 0 {
		return unit.Never
	}
	at, ok := r.ahead[l.Likely()]
	if !ok {
		return unit.Never
	}
	delete(r.ahead, l.Likely())
	return at
}

// readiness is a container that is started ahead: a course without an attempt takes it through its phases.
type readiness struct {
	c       *course
	ready   bool
	over    bool
	wanted  func() // of the attempt that it belongs to, once the container is ready
	parents int    // that have not begun
	begun   planner.Time
}

// Prepares implements executor.Preparer.
func (h *Hosted) Prepares() executor.Preparing {
	return executor.Preparing{Lead: h.lead.Before(), Most: h.cfg.Ahead, Memory: executor.WaitingMemory}
}

// Prepare implements executor.Preparer. Prepared starts take places for starts, and CPU time of the host.
func (h *Hosted) Prepare(_ context.Context, soon []executor.Preparation) error {
	next := make(map[executor.Likely]*readiness, len(soon))
	for i := range soon {
		key := soon[i].Likely()
		if next[key] = h.ahead[key]; next[key] == nil {
			next[key] = h.ready(&soon[i])
		}
	}
	for r := range h.inOrder(next) {
		h.giveUp(r)
	}
	h.ahead = next
	return nil
}

// inOrder yields containers that are no longer wanted, in the order of their tasks.
func (h *Hosted) inOrder(next map[executor.Likely]*readiness) iter.Seq[*readiness] {
	var gone []executor.Likely
	for key := range h.ahead {
		if next[key] == nil {
			gone = append(gone, key)
		}
	}
	slices.SortFunc(gone, func(a, b executor.Likely) int {
		return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(a.Try, b.Try), cmp.Compare(a.Node, b.Node))
	})
	return func(yield func(*readiness) bool) {
		for _, key := range gone {
			if !yield(h.ahead[key]) {
				return
			}
		}
	}
}

// ready begins to start a container once the parents run.
func (h *Hosted) ready(p *executor.Preparation) *readiness {
	r := &readiness{c: &course{l: p.Launch, outcome: planner.OK}}
	r.c.soon = r
	begin := func() {
		if r.parents--; r.parents < 0 && !r.over {
			r.begun = h.now
			h.place(r.c)
		}
	}
	for _, id := range p.After {
		if parent := h.at(id); parent != nil && parent.step == cPrepares {
			r.parents++
			parent.onRun = append(parent.onRun, begin)
		}
	}
	begin()
	return r
}

func (h *Hosted) onRun(c *course) {
	waiting := c.onRun
	c.onRun = nil
	for _, f := range waiting {
		f()
	}
}

func (h *Hosted) isReady(r *readiness) {
	h.lead.Took(h.now.Sub(r.begun))
	if r.ready = true; r.wanted != nil {
		r.wanted()
	}
}

// giveUp drops a container that was started ahead and is not needed. The engine is not stopped in the midst of a
// request: a container that is being created or started keeps its place until that is over, and is removed then.
func (h *Hosted) giveUp(r *readiness) {
	if r.over {
		return
	}
	r.over = true
	switch {
	case r.ready:
		h.remove()
		r.c.step = cOver
	case !r.c.place: // it waits for its parents, or for a place
		r.c.step = cOver
	}
}

// thrownAway removes the container of a course that was given up meanwhile, and reports whether it was.
func (h *Hosted) thrownAway(c *course) bool {
	if c.l.Attempt != planner.None || !c.soon.over {
		return false
	}
	h.release(c)
	c.step = cOver
	h.remove()
	return true
}

// takeReadiness returns the container that was started ahead for an attempt; nil if there is none.
func (h *Hosted) takeReadiness(l *executor.Launch) *readiness {
	r := h.ahead[l.Likely()]
	delete(h.ahead, l.Likely())
	return r
}

// whenReady continues an attempt once the container that was started ahead for it is ready: as in runs, its inputs are
// brought then, and not before.
func (h *Hosted) whenReady(c *course, then func()) {
	if c.soon.ready {
		then()
		return
	}
	c.soon.wanted = func() {
		if c.step == cPrepares {
			then()
		}
	}
}

// useReadiness begins the program of an attempt in the container that was started ahead for it.
func (h *Hosted) useReadiness(c *course) {
	c.soon.over = true // it is the attempt's now
	c.usage.Created, c.usage.Started = c.usage.Staged, h.now
	h.run(c)
	h.answer(c)
}
