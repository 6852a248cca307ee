package queueing

import (
	"time"

	"gantry/planner"
)

// Rates learns the parameters of an M/M/n queue from events: the arrival rate and the mean service time of the last
// jobs, as many as its window has.
type Rates struct {
	gaps     window // between arrivals
	services window
	last     planner.Time // arrival
	begun    bool
}

// Job is a job of an earlier run to learn from.
type Job struct {
	After   time.Duration // since the job before it arrived; below 0: it was the first of its run
	Service time.Duration // the sum of the runs of its tasks; 0: it did not end well
}

// NewRates returns rates of the last n arrivals and services, n at least 2.
func NewRates(last int) *Rates {
	last = max(2, last)
	return &Rates{gaps: window{last: last - 1}, services: window{last: last}}
}

// Jobs is how many jobs the rates are learned from.
func (r *Rates) Jobs() int { return r.services.last }

// Recall takes in jobs of earlier runs, in the order of their arrivals, before any of this one.
func (r *Rates) Recall(jobs []Job) {
	for _, j := range jobs {
		if j.After >= 0 {
			r.gaps.push(int64(j.After))
		}
		if j.Service > 0 {
			r.Served(int64(j.Service))
		}
	}
}

// Arrived takes in an arrival.
func (r *Rates) Arrived(at planner.Time) {
	if r.begun {
		r.gaps.push(int64(at.Sub(r.last)))
	}
	r.last, r.begun = at, true
}

// Served takes in that a service took d nanoseconds.
func (r *Rates) Served(d int64) { r.services.push(d) }

// Model returns the M/M/n queue of n servers that fits; false as long as too little is known.
func (r *Rates) Model(n int) (MMn, bool) {
	gap, service := r.gaps.mean(), r.services.mean()
	if gap <= 0 || service <= 0 || n < 1 {
		return MMn{}, false
	}
	return MMn{Servers: n, Arrival: 1e9 / gap, Service: 1e9 / service}, true
}

// window keeps the last values, up to its size, and their sum.
type window struct {
	last int
	all  []int64
	next int
	sum  float64
}

// push adds a value; the oldest leaves.
func (w *window) push(v int64) {
	w.sum += float64(v)
	if len(w.all) < w.last {
		w.all = append(w.all, v)
		return
	}
	w.sum -= float64(w.all[w.next])
	w.all[w.next] = v
	w.next = (w.next + 1) % w.last
}

// mean returns 0 if there is no value.
func (w *window) mean() float64 { return w.sum / float64(max(1, len(w.all))) }
