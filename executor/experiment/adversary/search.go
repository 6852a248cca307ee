package adversary

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"gantry/executor"
	"gantry/executor/estimate"
	"gantry/executor/experiment/metrics"
	"gantry/executor/sim"
	"gantry/planner"
	"gantry/planner/policy"
	"gantry/planner/predict"
	"gantry/trace/scenario"
)

// Metric is compared by its ratio between two policies; smaller is better.
type Metric string

const (
	Makespan Metric = "makespan" // from the first arrival to the last end, seconds
	Slowdown Metric = "slowdown" // the mean of response over critical path at speed 1
	Lateness Metric = "lateness" // the mean of 1 + (end - deadline) / (deadline - arrival), 1 if it is in time
)

// Metrics are all of them.
var Metrics = []Metric{Makespan, Slowdown, Lateness}

// Search is a search for instances on which policy A is worse than B.
type Search struct {
	A, B      string  `json:"-"`
	Metric    Metric  `json:"metric"`
	Workflows int     `json:"workflows"`
	Tasks     int     `json:"tasks"` // of a workflow, at most
	Nodes     int     `json:"nodes"`
	Tenants   int     `json:"tenants"`
	Cores     float64 `json:"cores"` // of the host: the sum of the speeds of nodes is at most this
	Errors    string  `json:"errors"`
	Steps     int     `json:"steps"` // of a chain
	Seed      uint64  `json:"seed"`
}

// Found is the worst instance of a chain, and the metric of both policies there.
type Found struct {
	Chain    int       `json:"chain"`
	A        float64   `json:"a"`
	B        float64   `json:"b"`
	Instance *Instance `json:"instance"`
}

// Ratio is how many times as much A has as B.
func (f *Found) Ratio() float64 { return f.A / f.B }

// Temperatures of the annealing: a step that divides the ratio by x is taken with probability x^(-1/temperature).
const hot, cold = 0.3, 0.01

// Chain anneals from a random instance. Its result depends on the search and the number of the chain alone.
func (s *Search) Chain(ctx context.Context, chain int) (*Found, error) {
	r := rand.New(rand.NewPCG(s.Seed, uint64(chain)))
	now, err := s.at(ctx, s.first(r))
	if err != nil {
		return nil, err
	}
	best := now
	for step := range s.Steps {
		next, err := s.at(ctx, s.changed(r, now.Instance))
		if err != nil {
			return nil, err
		}
		temperature := hot * math.Pow(cold/hot, float64(step)/float64(s.Steps))
		if gain := math.Log(next.Ratio() / now.Ratio()); gain >= 0 || r.Float64() < math.Exp(gain/temperature) {
			now = next
		}
		if now.Ratio() > best.Ratio() {
			best = now
		}
	}
	best.Chain = chain
	return best, nil
}

// at measures both policies on an instance.
func (s *Search) at(ctx context.Context, x *Instance) (*Found, error) {
	f := &Found{Instance: x}
	var err error
	if f.A, err = s.measure(ctx, s.A, x); err == nil {
		f.B, err = s.measure(ctx, s.B, x)
	}
	return f, err
}

// measure simulates an instance under a policy.
func (s *Search) measure(ctx context.Context, spec string, x *Instance) (float64, error) {
	p, err := executor.PlatformOf(x.Cluster())
	if err != nil {
		return 0, err
	}
	pol, err := policy.Parse(spec)
	if err != nil {
		return 0, err
	}
	model, err := predict.ParseErrorModel(cmp.Or(s.Errors, "none"))
	if err != nil {
		return 0, err
	}
	model.Seed = s.Seed
	admit := &executor.Admitter{Platform: p, TimeScale: 1, SizeScale: 1, Preempt: scenario.DefaultPreempt()}
	est := estimate.Make(predict.Spec{}, 0, model, nil, admit).Estimator
	collector := metrics.NewCollector(p)
	e := &executor.Engine{Planner: planner.New(p, planner.DefaultRetryRules(), pol, est, s.Seed),
		Runtime: sim.New(sim.Config{Platform: p}), Admit: admit, Arrivals: x.submissions(), Watch: collector.Watch}
	res, err := e.Run(ctx)
	if err == nil {
		err = errors.Join(res.Refused...)
	}
	if err != nil {
		return 0, fmt.Errorf("policy %s: %w", spec, err)
	}
	return s.Metric.of(collector), nil
}

// of takes the metric of a run.
func (m Metric) of(c *metrics.Collector) float64 {
	all := c.Workflows()
	first, last, sum := all[0].Arrived, all[0].Ended, 0.0
	for i := range all {
		w := &all[i]
		first, last = min(first, w.Arrived), max(last, w.Ended)
		switch m {
		case Slowdown:
			sum += w.Slowdown()
		case Lateness:
			sum += 1 + max(0, w.Ended.Sub(w.Due).Seconds())/w.Due.Sub(w.Arrived).Seconds()
		}
	}
	if m == Makespan {
		return last.Sub(first).Seconds()
	}
	return sum / float64(len(all))
}

// Run does the chains from 0 to n that done does not have, side by side on jobs cores, and keeps each.
func (s *Search) Run(ctx context.Context, n, jobs int, done map[int]bool, keep func(*Found) error) error {
	var mu sync.Mutex
	g, all := errgroup.WithContext(ctx)
	g.SetLimit(jobs)
	for chain := range n {
		if done[chain] {
			continue
		}
		g.Go(func() error {
			f, err := s.Chain(all, chain)
			mu.Lock()
			defer mu.Unlock()
			if err = cmp.Or(err, all.Err()); err == nil {
				err = keep(f)
			}
			return err
		})
	}
	err := g.Wait()
	return cmp.Or(context.Cause(ctx), err)
}

// Text is a value of the metric for people.
func (m Metric) Text(v float64) string {
	if m == Makespan {
		return time.Duration(v * float64(time.Second)).Round(time.Millisecond).String()
	}
	return fmt.Sprintf("%.4g", v)
}
