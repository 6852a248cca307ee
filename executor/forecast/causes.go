package forecast

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Key names a task in two runs.
type Key struct{ Workflow, Task string }

// Phases are those of an attempt, one after the other.
type Phases struct {
	Staging time.Duration // from the order until its inputs are in place
	Start   time.Duration // from there until its program runs
	Run     time.Duration // of the program, suspensions left out
	End     time.Duration // from there until its end is known, its outputs published
}

const phaseCount = 4

func (p *Phases) all() [phaseCount]*time.Duration {
	return [phaseCount]*time.Duration{&p.Staging, &p.Start, &p.Run, &p.End}
}

// Happened is how the attempt of a task that succeeded went in a run. Instants are on the axis of the run.
type Happened struct {
	Phases
	Queued time.Duration // when it was ordered
	Speed  float64       // of its node
	Node   string
}

// bounds are the instants between its phases, suspensions left out.
func (h *Happened) bounds() (at [phaseCount + 1]time.Duration) {
	at[0] = h.Queued
	for i, d := range h.all() {
		at[i+1] = at[i] + *d
	}
	return at
}

// Cause is a part of the difference between the makespans of a run and of a simulation of it; above 0, reality took
// longer.
type Cause struct {
	Name string        `json:"cause"`
	Took time.Duration `json:"ns"`
}

// The causes, in the order in which they are put in.
const (
	CauseDurations  = "durations"
	CauseStaging    = "staging"
	CauseStart      = "start"
	CauseEnd        = "end"
	CauseContention = "contention"
	CauseDecisions  = "decisions"
)

// Difference is the difference to split.
type Difference struct {
	Run, Sim map[Key]Happened
	// Makespans of both.
	RunMakespan, SimMakespan time.Duration
	// Simulate simulates the workflows of the simulation with its policy, and attempts whose phases, on a node of that
	// speed, are as given.
	Simulate func(phases func(k Key, speed float64) (Phases, bool)) (time.Duration, error)
}

// Split attributes the difference between the makespans of a run and of a simulation of it to causes. Measured times
// take the place of simulated ones, one cause after the other, and the change of the makespan is put down to the cause:
//
//  1. durations: the programs, without the contention of theirs
//  2. staging, 3. start, 4. end: these phases, without their contention
//  5. contention: the delay of the phases while other containers are prepared, started and ended; see contention
//  6. decisions: the rest, as starts in another order and on other nodes, attempts that failed and were repeated,
//     and gantry's time between phases
//
// The sum is the difference of the makespans, exactly.
func Split(d Difference) ([]Cause, error) {
	if len(d.Run) == 0 || len(d.Sim) == 0 {
		return nil, fmt.Errorf("nothing was measured of the attempts of both")
	}
	ran, simulated := contention(d.Run, d.Sim), contention(d.Sim, nil)
	phases := func(measured [phaseCount]bool, contended bool) func(Key, float64) (Phases, bool) {
		return func(k Key, speed float64) (Phases, bool) {
			r, inRun := d.Run[k]
			s, inSim := d.Sim[k]
			switch {
			case !inRun && !inSim:
				return Phases{}, false
			case !inRun:
				r = s
			case !inSim:
				s = r
			}
			r.Run, s.Run = atSpeed(r.Run, r.Speed, speed), atSpeed(s.Run, s.Speed, speed)
			out := s.Phases
			for i, to := range out.all() {
				if measured[i] {
					*to = *r.all()[i]
					if !contended && inRun && inSim {
						*to += simulated[k][i] - ran[k][i]
					}
					*to = max(0, *to)
				}
			}
			return out, true
		}
	}
	steps := []struct {
		cause     string
		measured  [phaseCount]bool // staging, start, run, end
		contended bool
	}{
		{"", [phaseCount]bool{}, false},
		{CauseDurations, [phaseCount]bool{2: true}, false},
		{CauseStaging, [phaseCount]bool{true, false, true, false}, false},
		{CauseStart, [phaseCount]bool{true, true, true, false}, false},
		{CauseEnd, [phaseCount]bool{true, true, true, true}, false},
		{CauseContention, [phaseCount]bool{true, true, true, true}, true},
	}
	var causes []Cause
	var last, all time.Duration
	for _, step := range steps {
		m, err := d.Simulate(phases(step.measured, step.contended))
		if err != nil {
			return nil, err
		}
		if step.cause != "" {
			causes = append(causes, Cause{step.cause, m - last})
			all += m - last
		}
		last = m
	}
	return append(causes, Cause{CauseDecisions, d.RunMakespan - d.SimMakespan - all}), nil
}

// atSpeed brings a time from a node of one speed to another.
func atSpeed(d time.Duration, was, is float64) time.Duration {
	if was <= 0 || is <= 0 || was == is {
		return d
	}
	return time.Duration(float64(d) * was / is)
}

// Bounds of contention.
const (
	contendedShare = 0.1 // of a phase
	contendedLeast = 3   // attempts of each group
)

// contention estimates by how much each phase of each attempt took longer as other containers were prepared, started
// and ended meanwhile. A phase is contended if others were at that for more than a tenth of it. The excess of a
// contended phase is the median of the contended ones less the median of those that are not. Programs differ, so their
// times are divided by those of the simulation first, and the excess is in proportion; without a simulation they have
// none. Neither has a phase of which there are fewer than three attempts of either sort.
func contention(all, against map[Key]Happened) map[Key][phaseCount]time.Duration {
	keys := slices.SortedFunc(maps.Keys(all), compareKeys)
	contended := contendedPhases(keys, all)
	out := map[Key][phaseCount]time.Duration{}
	for phase := range phaseCount {
		value := func(k Key) (x float64, ok bool) {
			h := all[k]
			d := float64(*h.all()[phase])
			if phase != 2 {
				return d, true
			}
			s, ok := against[k]
			return d / float64(max(1, atSpeed(s.Run, s.Speed, h.Speed))), ok && s.Run > 0
		}
		var groups [2][]float64
		for _, k := range keys {
			if x, ok := value(k); ok {
				g := &groups[0]
				if contended[k][phase] {
					g = &groups[1]
				}
				*g = append(*g, x)
			}
		}
		if len(groups[0]) < contendedLeast || len(groups[1]) < contendedLeast {
			continue
		}
		alone, together := middle(groups[0]), middle(groups[1])
		if together <= alone {
			continue
		}
		for _, k := range keys {
			if !contended[k][phase] {
				continue
			}
			h, e := all[k], out[k]
			d := *h.all()[phase]
			if e[phase] = min(d, time.Duration(together-alone)); phase == 2 {
				e[phase] = time.Duration(float64(d) * (1 - alone/together))
			}
			out[k] = e
		}
	}
	return out
}

// contendedPhases says of each attempt which of its phases others disturbed.
func contendedPhases(keys []Key, all map[Key]Happened) map[Key][phaseCount]bool {
	type span struct {
		from, to time.Duration
		of       int
	}
	var busy []span // when containers were prepared and started, or ended
	bounds := make([][phaseCount + 1]time.Duration, len(keys))
	for i, k := range keys {
		h := all[k]
		bounds[i] = h.bounds()
		busy = append(busy, span{bounds[i][0], bounds[i][2], i}, span{bounds[i][3], bounds[i][4], i})
	}
	slices.SortStableFunc(busy, func(a, b span) int { return int(min(1, max(-1, a.from-b.from))) })
	longest := time.Duration(0)
	for _, b := range busy {
		longest = max(longest, b.to-b.from)
	}
	out := map[Key][phaseCount]bool{}
	for i, k := range keys {
		var c [phaseCount]bool
		for phase := range phaseCount {
			from, to := bounds[i][phase], bounds[i][phase+1]
			first, _ := slices.BinarySearchFunc(busy, from-longest,
				func(b span, at time.Duration) int { return int(min(1, max(-1, b.from-at))) })
			var sum time.Duration
			end := from // of the time that is counted already
			for _, b := range busy[first:] {
				if b.from >= to {
					break
				}
				if b.of != i && b.to > end {
					sum += min(b.to, to) - max(b.from, end)
					end = max(end, min(b.to, to))
				}
			}
			c[phase] = to > from && float64(sum) > contendedShare*float64(to-from)
		}
		out[k] = c
	}
	return out
}

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(a.Task, b.Task))
}

func middle(all []float64) float64 {
	s := slices.Sorted(slices.Values(all))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
