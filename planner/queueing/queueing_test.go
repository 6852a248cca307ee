package queueing_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gantry/planner"
	"gantry/planner/queueing"
)

// The check table: with μ = 1, times are in units of the mean service.
var table = []struct {
	n                        int
	a, waits, wait, pw, loss float64
}{
	{1, .5, .500000, 1.0, .303265, .333333},
	{2, 1, .333333, .333333, .122626, .200000},
	{2, 1.5, .642857, 1.285714, .389913, .310345},
	{3, 2, .444444, .444444, .163502, .210526},
	{4, 3, .509434, .509434, .187410, .206107},
	{5, 4, .554113, .554113, .203847, .199067},
	{5, 4.5, .762493, 1.524986, .462476, .243021},
	{10, 8, .409180, .204590, .055377, .121661},
	{10, 9, .668732, .668732, .246013, .167963},
	{20, 18, .550769, .275385, .074538, .109213},
	{50, 45, .363864, .072773, .002452, .054104},
	{100, 98, .775101, .387550, .104898, .064484},
}

func TestCheckTable(t *testing.T) {
	for _, c := range table {
		q := queueing.MMn{Servers: c.n, Arrival: c.a, Service: 1}
		for _, x := range []struct {
			name      string
			got, want float64
		}{
			{"C", q.Waits(), c.waits}, {"W_q", q.Wait(), c.wait}, {"P(W_q>1/μ)", q.WaitsLonger(1), c.pw},
			{"B", q.Blocking(), c.loss},
		} {
			if math.Abs(x.got-x.want) > 1e-6*max(1, x.want) {
				t.Errorf("n=%d a=%v: %s is %.6f, expected %.6f", c.n, c.a, x.name, x.got, x.want)
			}
		}
	}
}

func TestOverloadedQueueGrowsWithoutEnd(t *testing.T) {
	q := queueing.MMn{Servers: 2, Arrival: 3, Service: 1}
	if q.Stable() || !math.IsInf(q.Wait(), 1) || q.WaitsLonger(1e9) != 1 {
		t.Errorf("a queue of utilisation 1.5 has wait %v", q.Wait())
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
