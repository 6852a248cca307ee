package queueing_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gantry/planner"
	"gantry/planner/queueing"
	"gantry/planner/seed/seedtest"
)

// The check table: with μ = 1, times are in units of the mean service.
var table = []struct {
	n                                                              int
	a, waits, queue, system, wait, sojourn, variance, pw, ps, loss float64
}{
	{1, .5, .500000, .500000, 1.0, 1.0, 2.0, 1.25, .303265, .606531, .333333},
	{2, 1, .333333, .333333, 1.333333, .333333, 1.333333, .888889, .122626, .490506, .200000},
	{2, 1.5, .642857, 1.928571, 3.428571, 1.285714, 2.285714, 9.780612, .389913, .674717, .310345},
	{3, 2, .444444, .888889, 2.888889, .444444, 1.444444, 3.654321, .163502, .531381, .210526},
	{4, 3, .509434, 1.528302, 4.528302, .509434, 1.509434, 8.362407, .187410, .555290, .206107},
	{5, 4, .554113, 2.216450, 6.216450, .554113, 1.554113, 15.035400, .203847, .571726, .199067},
	{5, 4.5, .762493, 6.862439, 11.362439, 1.524986, 2.524986, 83.293272, .462476, .731819, .243021},
	{10, 8, .409180, 1.636721, 9.636721, .204590, 1.204590, 12.051631, .055377, .463032, .121661},
	{10, 9, .668732, 6.018584, 15.018584, .668732, 1.668732, 78.129741, .246013, .613892, .167963},
	{20, 18, .550769, 4.956921, 22.956921, .275385, 1.275385, 69.610434, .074538, .495958, .109213},
	{50, 45, .363864, 3.274780, 48.274780, .072773, 1.072773, 51.496639, .002452, .400731, .054104},
	{100, 98, .775101, 37.979925, 135.979925, .387550, 1.387550, 2317.537875, .104898, .548125, .064484},
}

func TestCheckTable(t *testing.T) {
	for _, c := range table {
		q := queueing.MMn{Servers: c.n, Arrival: c.a, Service: 1}
		for _, x := range []struct {
			name      string
			got, want float64
		}{
			{"C", q.Waits(), c.waits}, {"L_q", q.Queue(), c.queue}, {"L", q.System(), c.system},
			{"W_q", q.Wait(), c.wait},
			{"W", q.Sojourn(), c.sojourn}, {"Var(L_q)", q.QueueVariance(), c.variance}, {"P(W_q>1/μ)", q.WaitsLonger(1),
				c.pw},
			{"P(S>1/μ)", q.SojournsLonger(1), c.ps}, {"B", q.Blocking(), c.loss},
		} {
			if math.Abs(x.got-x.want) > 1e-6*max(1, x.want) {
				t.Errorf("n=%d a=%v: %s is %.6f, expected %.6f", c.n, c.a, x.name, x.got, x.want)
			}
		}
	}
	for _, c := range []struct {
		n     int
		a, p0 float64
	}{{2, 1, 1. / 3}, {3, 2, 1. / 9}, {4, 3, .0377358}, {5, 4, .0129870}} {
		if got := (queueing.MMn{Servers: c.n, Arrival: c.a, Service: 1}).Empty(); math.Abs(got-c.p0) > 1e-7 {
			t.Errorf("n=%d a=%v: p0 is %v, expected %v", c.n, c.a, got, c.p0)
		}
	}
}

// The probabilities of the numbers in system sum to 1 and have the stated means and variance; the mean of P(W>x) is the
// mean wait.
func TestMomentsAgreeWithTheDistribution(t *testing.T) {
	seedtest.Check(t, func(t *rapid.T) {
		n, mu := rapid.IntRange(1, 60).Draw(t, "n"), rapid.Float64Range(0.1, 10).Draw(t, "mu")
		q := queueing.MMn{Servers: n, Arrival: rapid.Float64Range(0.05, 0.93).Draw(t, "rho") * float64(n) * mu,
			Service: mu}
		var sum, system, queue, squares float64
		for k := range n + 600 {
			p := q.Holds(k)
			sum += p
			system += p * float64(k)
			w := float64(max(0, k-n))
			queue += p * w
			squares += p * w * w
		}
		close := func(name string, got, want float64) {
			if math.Abs(got-want) > 1e-6*max(1, math.Abs(want)) {
				t.Fatalf("%s is %v, expected %v (%+v)", name, got, want, q)
			}
		}
		close("sum of p", sum, 1)
		close("L", system, q.System())
		close("L_q", queue, q.Queue())
		close("Var(L_q)", squares-queue*queue, q.QueueVariance())
		close("Little's law", q.Arrival*q.Sojourn(), q.System())
		integral, h := 0.0, q.Sojourn()/200
		for x := 0.0; x < 40*q.Sojourn(); x += h {
			integral += h * (q.SojournsLonger(x) + 4*q.SojournsLonger(x+h/2) + q.SojournsLonger(x+h)) / 6
		}
		if math.Abs(integral-q.Sojourn()) > 1e-3*q.Sojourn() {
			t.Fatalf("P(S>x) integrates to %v, expected W = %v", integral, q.Sojourn())
		}
	})
}

func TestOverloadedQueueGrowsWithoutEnd(t *testing.T) {
	q := queueing.MMn{Servers: 2, Arrival: 3, Service: 1}
	if q.Stable() || !math.IsInf(q.Wait(), 1) || !math.IsInf(q.Queue(), 1) || q.WaitsLonger(1e9) != 1 ||
		q.SojournsLonger(5) != 1 {
		t.Errorf("a queue of utilisation 1.5 has wait %v, queue %v", q.Wait(), q.Queue())
	}
}

// A simulated queue of five servers: what is learned from it predicts what it does.
func TestRatesLearnedFromASimulatedQueuePredictItsWaits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	rates := queueing.NewRates(200_000)
	const n, lambda, mu = 5, 4.0, 1.0
	free := make([]float64, n)
	now, waited := 0.0, 0.0
	const jobs = 200_000
	for range jobs {
		now += r.ExpFloat64() / lambda
		rates.Arrived(planner.Time(now * 1e9))
		best := 0
		for i := range free {
			if free[i] < free[best] {
				best = i
			}
		}
		start, service := max(now, free[best]), r.ExpFloat64()/mu
		free[best] = start + service
		waited += start - now
		rates.Served(int64(service * 1e9))
	}
	q, ok := rates.Model(n)
	if !ok || math.Abs(q.Arrival-lambda) > 0.05 || math.Abs(q.Service-mu) > 0.02 {
		t.Fatalf("learned %+v of λ=4, μ=1", q)
	}
	if mean := waited / jobs; math.Abs(q.Wait()-mean) > 0.08*mean || math.Abs(mean-.554113) > 0.05 {
		t.Errorf("predicted wait %v, mean of the simulated queue %v, in theory 0.554", q.Wait(), mean)
	}
}

func TestRatesForgetWhatIsOld(t *testing.T) {
	r := queueing.NewRates(3)
	if _, ok := r.Model(1); ok {
		t.Fatal("a model of nothing")
	}
	for i, at := range []time.Duration{0, time.Second, 2 * time.Second, 2500 * time.Millisecond, 3 * time.Second} {
		r.Arrived(planner.Time(at))
		r.Served(int64(time.Duration(i+1) * time.Second))
	}
	q, ok := r.Model(4)
	if !ok || q.Servers != 4 || math.Abs(q.Arrival-2) > 1e-9 || math.Abs(q.Service-0.25) > 1e-9 {
		t.Errorf("of the last three, 2 s, 2.5 s, 3 s and services of 3, 4 and 5 s: %+v; expected rates 2 and 1/4", q)
	}
}

func TestRatesBeginWithEarlierRuns(t *testing.T) {
	r := queueing.NewRates(4)
	r.Recall([]queueing.Job{{After: -1, Service: time.Second}, {After: 2 * time.Second, Service: 3 * time.Second},
		{After: 4 * time.Second}})
	r.Arrived(planner.Time(time.Minute)) // no gap to an earlier run's
	if q, ok := r.Model(2); !ok || math.Abs(q.Arrival-1.0/3) > 1e-9 || math.Abs(q.Service-0.5) > 1e-9 {
		t.Errorf("of gaps of 2 and 4 s and services of 1 and 3 s: %+v", q)
	}
	r.Arrived(planner.Time(time.Minute + 6*time.Second))
	r.Arrived(planner.Time(time.Minute + 11*time.Second)) // the first gap leaves
	if q, _ := r.Model(2); math.Abs(q.Arrival-0.2) > 1e-9 {
		t.Errorf("of gaps of 4, 6 and 5 s: %+v", q)
	}
}
