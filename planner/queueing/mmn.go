// Package queueing has the M/M/n model that PDSonQueue predicts waiting and service times by (3DSF, section 7.2;
// Sztrik, Basic Queueing Theory, 2012): jobs arrive by a Poisson process, take exponential times, and n servers serve
// one queue.
package queueing

import "math"

// MMn is a queueing system. Times are in seconds, rates per second.
type MMn struct {
	Servers int     // n, at least 1
	Arrival float64 // λ
	Service float64 // μ of one server, above 0
}

// Load is a = λ/μ, the mean number of busy servers if the queue is stable (ρ₁ of the paper).
func (q MMn) Load() float64 { return q.Arrival / q.Service }

// Utilisation is ρ = λ/(nμ).
func (q MMn) Utilisation() float64 { return q.Load() / float64(q.Servers) }

// Stable reports whether ρ < 1. The quantities below are infinite or NaN where it is not.
func (q MMn) Stable() bool { return q.Utilisation() < 1 }

// Blocking is Erlang's B(n, a), by its recursion, which does not overflow.
func (q MMn) Blocking() float64 {
	a, b := q.Load(), 1.0
	for k := 1; k <= q.Servers; k++ {
		b = a * b / (float64(k) + a*b)
	}
	return b
}

// Waits is Erlang's C(n, a), the probability that a job has to wait; 1 for a queue that is not stable.
func (q MMn) Waits() float64 {
	if !q.Stable() {
		return 1
	}
	b := q.Blocking()
	return b / (1 - q.Utilisation()*(1-b))
}

// Wait is E(W_wai), the mean time that a job waits.
func (q MMn) Wait() float64 {
	if !q.Stable() {
		return math.Inf(1)
	}
	return q.Waits() / (float64(q.Servers)*q.Service - q.Arrival)
}

// WaitsLonger is P(W_wai > x) = C·e^(-(nμ-λ)x). The paper's last form of it has a slip in the exponent.
func (q MMn) WaitsLonger(x float64) float64 {
	if !q.Stable() {
		return 1
	}
	return q.Waits() * math.Exp(-(float64(q.Servers)*q.Service-q.Arrival)*x)
}
