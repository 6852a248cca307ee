package calibrate

import (
	"math"
	"time"

	"gantry/executor/sim/hostmodel"
	"gantry/planner"
	"gantry/planner/unit"
)

// Ended is an attempt of a run, as the log has it.
type Ended struct {
	planner.Usage
	Reported planner.Time // when its end was
	Outcome  planner.Outcome
}

const (
	// leastEnded is how many attempts a run needs to say anything of its host.
	leastEnded = 8
	// mostStep is by how much a run changes a phase.
	mostStep = 1.1
	// driftStep is the weight of one run in the drift of a phase.
	driftStep = 0.1
	// absurd is how many times longer or shorter than the model says a measurement may be that counts.
	absurd = 5
)

// Refine moves a model towards the measurements of the attempts of a run, within bounds, and reports whether it did.
// Busy is how many cores others used during the run; starts is how many containers started at once. The model is
// compared with each attempt under the load that it met. A run on a busy host, or one of few attempts, changes nothing.
func Refine(m *hostmodel.Model, all []Ended, busy float64, starts int) bool {
	if busy > quietCores || math.IsNaN(busy) {
		return false
	}
	type phase struct {
		name    string
		factors []float64
	}
	phases := []phase{{name: "create"}, {name: "start"}, {name: "end"}}
	for i := range all {
		a := &all[i]
		if a.Outcome != planner.OK || a.Staged == unit.Never || a.Created == unit.Never || a.Started == unit.Never ||
			a.Ended == unit.Never || a.CopiedBytes > 0 {
			continue
		}
		together, cores := around(all, i)
		if together > starts { // it waited for its place
			continue
		}
		for k, took := range []time.Duration{a.Created.Sub(a.Staged), a.Started.Sub(a.Created),
			a.Reported.Sub(a.Ended)} {
			p := m.Phases.Named(phases[k].name)
			says := p.Wall.BaseNanos * p.Slowdown.At(float64(together), cores)
			if phases[k].name == "end" { // the log has no instant between the two
				q := &m.Phases.Publish
				says += q.Wall.BaseNanos * q.Slowdown.At(1, cores)
			}
			if f := float64(took) / says; says > 0 && f > 1.0/absurd && f < absurd {
				phases[k].factors = append(phases[k].factors, f)
			}
		}
	}
	var common []float64
	changed := false
	for _, x := range phases {
		if len(x.factors) < leastEnded {
			continue
		}
		p := m.Phases.Named(x.name)
		mid := median(x.factors)
		// The more it rests on, the less a run moves it.
		weight := float64(len(x.factors)) / float64(len(x.factors)+p.Samples)
		p.Wall.BaseNanos *= clamp(math.Pow(mid, weight), 1/mostStep, mostStep)
		p.Spread = blend(p.Spread, hostmodel.SpreadOf(x.factors), weight)
		p.Samples = min(p.Samples+len(x.factors), 1000)
		common = append(common, clamp(mid, 1.0/absurd, absurd))
		if len(p.Drift) > 0 {
			p.Drift = blend(p.Drift, hostmodel.Spread{clamp(mid, 1.0/absurd, absurd)}, driftStep)
		}
		changed = true
	}
	if changed {
		m.Measured.Runs++
		m.Measured.Steadied = 0
		m.Common = blend(m.Common, hostmodel.SpreadOf(common), 1/float64(m.Measured.Runs+4))
	}
	return changed
}

// around returns how many attempts were starting when one was created, and how many cores the programs of others kept
// busy.
func around(all []Ended, i int) (together int, cores float64) {
	at := all[i].Staged
	for k := range all {
		o := &all[k]
		if o.Staged == unit.Never || o.Started == unit.Never {
			continue
		}
		if o.Staged <= all[i].Started && o.Started >= at {
			together++
		}
		if k != i && o.Started <= at && o.Ended != unit.Never && o.Ended > at && o.Ended > o.Started &&
			o.Missing&planner.CounterCPU == 0 {
			cores += float64(o.CPUUser+o.CPUSystem) / float64(o.Ended.Sub(o.Started))
		}
	}
	return max(1, together), cores
}

// blend mixes quantiles; b has the given weight.
func blend(a, b hostmodel.Spread, weight float64) hostmodel.Spread {
	if len(a) == 0 {
		return b
	}
	out := make(hostmodel.Spread, len(a))
	for i := range a {
		p := float64(i) / float64(max(1, len(a)-1))
		out[i] = clamp(a[i]+(b.At(p)-a[i])*weight, 0.01, 1000)
	}
	return out
}
