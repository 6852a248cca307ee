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
	"gantry/planner/seed"
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

	Startup time.Duration `json:"startup_ns"` // that starting a container takes
	Longest time.Duration `json:"longest_ns"` // from the first arrival to the last end, under either policy
}

// noErrors is the error model of exact estimates.
const noErrors = "none"

// SeedOf is the seed of all random choices in an instance.
func (s *Search) SeedOf(x *Instance) uint64 { return cmp.Or(x.Seed, s.Seed) }

// Found is the worst instance of a chain, and the metric of both policies there.
type Found struct {
	Chain    int       `json:"chain"`
	A        float64   `json:"a"`
	B        float64   `json:"b"`
	Instance *Instance `json:"instance"`
	long     bool      // one of the schedules is too long
}

// Ratio is how many times as much A has as B.
func (f *Found) Ratio() float64 { return f.A / f.B }

// Temperatures of the annealing: a step that divides the ratio by x is taken with probability x^(-1/temperature).
const hot, cold = 0.3, 0.01

// Chain anneals from a random instance. Its result depends on the search and the number of the chain alone.
func (s *Search) Chain(ctx context.Context, chain int) (*Found, error) {
	r := rand.New(rand.NewPCG(s.Seed, uint64(chain)))
	now, err := s.begin(ctx, r)
	if err != nil {
		return nil, err
	}
	best := now
	for step := range s.Steps {
		next, err := s.at(ctx, s.changed(r, now.Instance), asTold)
		if err != nil {
			return nil, err
		}
		temperature := hot * math.Pow(cold/hot, float64(step)/float64(s.Steps))
		if gain := math.Log(next.Ratio() / now.Ratio()); gain >= 0 || r.Float64() < math.Exp(gain/temperature) {
			if holds, err := s.holds(ctx, next); err != nil {
				return nil, err
			} else if holds {
				now = next
			}
		}
		if now.Ratio() > best.Ratio() {
			best = now
		}
	}
	best.Chain = chain
	return best, nil
}

// draws is how many random instances a chain tries to begin with.
const draws = 1000

// begin is a random instance that holds.
func (s *Search) begin(ctx context.Context, r *rand.Rand) (*Found, error) {
	for range draws {
		f, err := s.at(ctx, s.first(r), asTold)
		if err != nil {
			return nil, err
		}
		if holds, err := s.holds(ctx, f); holds || err != nil {
			return f, err
		}
	}
	return nil, fmt.Errorf("none of %d random instances ends within %s with a steady ratio: raise --longest, or lower "+
		"--tasks or --workflows", draws, s.Longest)
}

// A host differs a little from its simulation. Each world has a factor of Startup, and but for the first, asTold, lets
// each task run longer by another part of at most longer. A host does not repeat a ratio that changes there by more
// than steady: it depends on a tie, or on a few milliseconds.
var worlds = []float64{1, 0.5, 1, 2}

const (
	asTold         = 0
	longer, steady = 0.05, 0.05
)

// holds reports whether an instance counts: neither schedule is too long, and its ratio is steady in all worlds.
func (s *Search) holds(ctx context.Context, f *Found) (bool, error) {
	for world := asTold + 1; !f.long && world < len(worlds); world++ {
		other, err := s.at(ctx, f.Instance, world)
		if err != nil || math.Abs(other.Ratio()/f.Ratio()-1) > steady {
			return false, err
		}
	}
	return !f.long, nil
}

// at measures both policies on an instance in a world.
func (s *Search) at(ctx context.Context, x *Instance, world int) (*Found, error) {
	f := &Found{Instance: x}
	values := []*float64{&f.A, &f.B}
	for i, spec := range []string{s.A, s.B} {
		c, err := s.simulate(ctx, spec, x, world)
		if err != nil {
			return nil, fmt.Errorf("policy %s: %w", spec, err)
		}
		*values[i] = s.Metric.of(c)
		f.long = f.long || Makespan.of(c) > s.Longest.Seconds()
	}
	return f, nil
}

func (s *Search) simulate(ctx context.Context, spec string, x *Instance, world int) (*metrics.Collector, error) {
	p, err := executor.PlatformOf(x.Cluster())
	if err != nil {
		return nil, err
	}
	pol, err := policy.Parse(spec)
	if err != nil {
		return nil, err
	}
	model, err := predict.ParseErrorModel(cmp.Or(s.Errors, noErrors))
	if err != nil {
		return nil, err
	}
	model.Seed = s.SeedOf(x)
	admit := &executor.Admitter{Platform: p, TimeScale: 1, SizeScale: 1, Preempt: scenario.DefaultPreempt()}
	est := estimate.Make(predict.Spec{}, s.Startup, model, nil, admit).Estimator
	collector := metrics.NewCollector(p)
	cfg := sim.Config{Platform: p, Startup: time.Duration(float64(s.Startup) * worlds[world])}
	if world != asTold {
		cfg.Actual = func(t planner.TaskID, run time.Duration) time.Duration {
			part := seed.Fraction(seed.Mix(seed.Repetition(s.Seed, world) + uint64(t)))
			return run + time.Duration(longer*part*float64(run))
		}
	}
	e := &executor.Engine{Planner: planner.New(p, planner.DefaultRetryRules(), pol, est, model.Seed),
		Runtime: sim.New(cfg), Admit: admit, Arrivals: x.submissions(), Watch: collector.Watch}
	res, err := e.Run(ctx)
	if err == nil {
		err = errors.Join(res.Refused...)
	}
	return collector, err
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
