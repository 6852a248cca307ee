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

// Empty is p₀, the probability that nobody is there.
func (q MMn) Empty() float64 { return q.Holds(0) }

// Holds is p_k, the probability that k jobs are in the system.
func (q MMn) Holds(k int) float64 {
	switch {
	case !q.Stable() || k < 0:
		return 0
	case q.Arrival == 0:
		if k == 0 {
			return 1
		}
		return 0
	}
	// C(n, a) = p_n/(1-ρ), and p_k follows from p_n.
	n := q.Servers
	pn := q.Waits() * (1 - q.Utilisation())
	if k >= n {
		return pn * math.Pow(q.Utilisation(), float64(k-n))
	}
	nf, _ := math.Lgamma(float64(n) + 1)
	kf, _ := math.Lgamma(float64(k) + 1)
	return pn * math.Exp(nf-kf-float64(n-k)*math.Log(q.Load()))
}

// Queue is E(L_wai) = C·ρ/(1-ρ), the mean number of jobs that wait.
func (q MMn) Queue() float64 {
	if !q.Stable() {
		return math.Inf(1)
	}
	return q.Waits() * q.Utilisation() / (1 - q.Utilisation())
}

// QueueVariance is σ² of the number of jobs that wait: L((1+ρ)/(1-ρ) - L).
func (q MMn) QueueVariance() float64 {
	l, rho := q.Queue(), q.Utilisation()
	return l * ((1+rho)/(1-rho) - l)
}

// System is E(L_sys), the mean number of jobs that wait or are served.
func (q MMn) System() float64 { return q.Queue() + q.Load() }

// Wait is E(W_wai), the mean time that a job waits.
func (q MMn) Wait() float64 {
	if !q.Stable() {
		return math.Inf(1)
	}
	return q.Waits() / (float64(q.Servers)*q.Service - q.Arrival)
}

// Sojourn is E(W_soj), the mean time from arrival to end.
func (q MMn) Sojourn() float64 { return q.Wait() + 1/q.Service }

// WaitsLonger is P(W_wai > x) = C·e^(-(nμ-λ)x). The paper's last form of it has a slip in the exponent.
func (q MMn) WaitsLonger(x float64) float64 {
	if !q.Stable() {
		return 1
	}
	return q.Waits() * math.Exp(-(float64(q.Servers)*q.Service-q.Arrival)*x)
}

// SojournsLonger is P(W_soj > x).
func (q MMn) SojournsLonger(x float64) float64 {
	if !q.Stable() {
		return 1
	}
	mx := q.Service * x
	d := float64(q.Servers) - 1 - q.Load()
	return math.Exp(-mx) * (1 + q.Waits()*growth(d, mx))
}

// growth is (1-e^(-dx))/d, which is x at d = 0.
func growth(d, x float64) float64 {
	if d == 0 {
		return x
	}
	return -math.Expm1(-d*x) / d
}
