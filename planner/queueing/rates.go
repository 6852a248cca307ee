package queueing

import (
	"gantry/planner"
)

// Rates learns the parameters of an M/M/n queue from what happens: the arrival rate and the mean service time of the last so many.
type Rates struct {
	arrivals ring // instants
	services ring // nanoseconds
	sum      float64
}

// NewRates returns rates of the last so many arrivals and services, at least 2.
func NewRates(last int) *Rates {
	last = max(2, last)
	return &Rates{arrivals: ring{last: last}, services: ring{last: last}}
}

// Arrived takes in an arrival.
func (r *Rates) Arrived(at planner.Time) { r.arrivals.push(int64(at)) }

// Served takes in that a service took d nanoseconds.
func (r *Rates) Served(d int64) { r.sum += float64(d) - float64(r.services.push(d)) }

// Model returns the M/M/n queue of n servers that fits; false as long as too little is known.
func (r *Rates) Model(n int) (MMn, bool) {
	k := len(r.arrivals.all)
	if k < 2 || len(r.services.all) == 0 || r.sum <= 0 || n < 1 {
		return MMn{}, false
	}
	span := float64(r.arrivals.newest() - r.arrivals.oldest())
	if span <= 0 {
		return MMn{}, false
	}
	return MMn{Servers: n, Arrival: float64(k-1) / span * 1e9, Service: float64(len(r.services.all)) / r.sum * 1e9}, true
}

// ring keeps the last so many values.
type ring struct {
	last int
	all  []int64
	next int
}

// push adds a value and returns the one that it takes the place of; 0 if there was none.
func (r *ring) push(v int64) (old int64) {
	if len(r.all) < r.last {
		r.all = append(r.all, v)
		return 0
	}
	old, r.all[r.next] = r.all[r.next], v
	r.next = (r.next + 1) % r.last
	return old
}

func (r *ring) oldest() int64 { return r.all[r.next%len(r.all)] }

func (r *ring) newest() int64 { return r.all[(r.next+len(r.all)-1)%len(r.all)] }
