package page

import (
	"fmt"
	"slices"
	"time"
)

// answer is why the run took as long as it did: the measured critical path, from the last end back to the first
// arrival.
type answer struct {
	Steps  []step           `json:"steps"` // in the order of time
	Parts  map[string]int64 `json:"parts"` // of the path, by kind of step
	Advice string           `json:"advice"`
	// Bound is the longest path of the measured runs: no number of nodes would have made the run shorter.
	Bound int64 `json:"bound"`
}

type step struct {
	Attempt int    `json:"attempt"`
	What    string `json:"what"`
	Why     string `json:"why,omitempty"`
	From    int64  `json:"from"`
	To      int64  `json:"to"`
}

// Kinds of steps.
const (
	computing = "computing"
	waiting   = "waiting for a node"
	staging   = "staging"
	starting  = "container start"
	ending    = "ending"
	away      = "suspended"
	retrying  = "lost to failed attempts"
)

// answer walks back from the attempt that ended last, each time to the parent that ended last, or to the task's own try
// before.
func (r *reader) answer() {
	o := &r.out.Answer
	o.Steps, o.Parts = []step{}, map[string]int64{}
	last := -1
	for i := range r.Attempts {
		if l := &r.Attempts[i]; l.Ended >= 0 && (last < 0 || l.Ended > r.Attempts[last].Ended) {
			last = i
		}
	}
	suspended := map[int]int64{}
	for _, x := range r.Away {
		suspended[x.Attempt] += x.Until - x.Since
	}
	add := func(i int, what, why string, from, to int64) {
		if to > from {
			o.Steps = append(o.Steps, step{i, what, why, from, to})
			o.Parts[what] += to - from
		}
	}
	failed := false
	for i := last; i >= 0; {
		l := &r.Attempts[i]
		t := &r.Tasks[l.Task]
		staged := max(l.Staged, l.Queued)
		started := max(l.Started, staged)
		if failed {
			add(i, retrying, r.Outcomes.Texts[l.Outcome], l.Queued, l.Ended)
		} else {
			add(i, computing, r.Kinds.Texts[t.Kind], started, l.Ended)
			if s := min(suspended[i], l.Ended-started); s > 0 {
				o.Parts[computing] -= s
				o.Parts[away] += s
			}
			add(i, starting, "", staged, started)
			add(i, staging, "", l.Queued, staged)
		}
		next := r.before(i)
		failed = next >= 0 && r.Attempts[next].Task == l.Task
		heard := l.Ready
		if next >= 0 {
			heard = min(max(heard, r.Attempts[next].Heard), l.Queued)
		}
		add(i, waiting, r.why(l.Task, heard, l.Queued), heard, l.Queued)
		add(next, ending, "", l.Ready, heard)
		i = next
	}
	slices.Reverse(o.Steps)
	r.bound()
	o.Advice = r.advice()
}

// before is the attempt that an attempt waited for: the try before, or that of the parent that ended last. It is -1 if
// the attempt waited for the arrival of its workflow.
func (r *reader) before(i int) int {
	l := &r.Attempts[i]
	t := &r.Tasks[l.Task]
	if l.Try > 1 {
		for k := i - 1; k >= 0; k-- {
			if r.Attempts[k].Task == l.Task {
				return k
			}
		}
		return -1
	}
	next := -1
	for _, p := range r.Parents(t) {
		if k := r.Tasks[p].Last; k >= 0 && k != i && (next < 0 || r.Attempts[k].Ended > r.Attempts[next].Ended) {
			next = k
		}
	}
	if w := &r.Workflows[t.Workflow]; next >= 0 && max(w.Arrived, w.Release) >= r.Attempts[next].Ended {
		return -1
	}
	return next
}

// bound is the longest path of measured runs from the arrival of a workflow.
func (r *reader) bound() {
	lengths := slices.Repeat([]int64{-1}, len(r.Tasks)) // -1: not known yet
	var length func(t int) int64
	length = func(t int) int64 {
		if lengths[t] >= 0 {
			return lengths[t]
		}
		lengths[t] = 0 // a damaged log may have circles
		best := int64(0)
		for _, p := range r.Parents(&r.Tasks[t]) {
			best = max(best, length(p))
		}
		if last := r.Tasks[t].Last; last >= 0 {
			if l := &r.Attempts[last]; l.Started >= 0 {
				best += l.End(r.Clock) - l.Started
			}
		}
		lengths[t] = best
		return best
	}
	for t := range r.Tasks { // parents are numbered before their children, so the recursion is shallow
		r.out.Answer.Bound = max(r.out.Answer.Bound, length(t))
	}
}

// why is the reason that a task gave for most of a span.
func (r *reader) why(task int, from, to int64) string {
	if to <= from {
		return ""
	}
	var best string
	var most int64
	var since int64 = -1
	var last string
	take := func(until int64) {
		if span := min(until, to) - max(since, from); since >= 0 && span > most {
			best, most = last, span
		}
	}
	w := &r.out.Wait // by task and time
	for k, _ := slices.BinarySearch(w.Task, int64(task)); k < len(w.Task) && w.Task[k] == int64(task); k++ {
		take(w.Since[k])
		since, last = w.Since[k], r.out.Causes[w.Reason[k]]
	}
	take(to)
	return best
}

// advice names the change that would have shortened the run most.
func (r *reader) advice() string {
	o := &r.out.Answer
	what, most, total := "", int64(0), int64(0)
	for _, part := range []string{computing, waiting, staging, starting, ending, away, retrying} {
		total += o.Parts[part]
		if o.Parts[part] > most {
			what, most = part, o.Parts[part]
		}
	}
	if total == 0 {
		return ""
	}
	inner := map[string]int64{}
	var names []string
	for _, s := range o.Steps {
		if s.What == what {
			if inner[s.Why] == 0 {
				names = append(names, s.Why)
			}
			inner[s.Why] += s.To - s.From
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return int(min(1, max(-1, inner[b]-inner[a]))) })
	share := fmt.Sprintf("%s of the %s of the critical path (%.0f %%)", seconds(most), seconds(total),
		100*float64(most)/float64(total))
	switch what {
	case computing:
		return fmt.Sprintf(
			"Faster tasks would have shortened the run most: %s went into computing, %s of them into tasks of type %s.",
			share,
			seconds(inner[names[0]]),
			names[0],
		)
	case waiting:
		text := fmt.Sprintf("Waiting less would have shortened the run most: tasks waited %s", share)
		if names[0] != "" {
			text += ", for the most part because: " + names[0]
		}
		if held := r.held(); held >= 80 {
			text += fmt.Sprintf(". Tasks held %d %% of the cores", held)
			if used := r.used(); used >= usedEnough {
				text += ": more cores would help"
			} else {
				text += fmt.Sprintf(", and their programs used %d %% of these: the host was busy with other work, or "+
					"programs waited, so that more cores would help little", used)
			}
		}
		return text + "."
	}
	return fmt.Sprintf(advices[what], share)
}

// advices say of the kinds of steps how less of them would have been.
var advices = map[string]string{
	staging:  "Moving less data would have shortened the run most: %s went into staging inputs.",
	starting: "Fewer, longer tasks would have shortened the run most: %s went into starting containers.",
	ending: "Fewer, longer tasks would have shortened the run most: %s passed between the end of a program and the " +
		"moment at which gantry knew of it.",
	away:     "Fewer preemptions would have shortened the run most: tasks were suspended for %s.",
	retrying: "Fewer failures would have shortened the run most: %s went into attempts that failed.",
}

// held is the percentage of the cores that tasks held, over the whole run.
func (r *reader) held() int64 {
	var held, there float64
	for i := range r.Attempts {
		l := &r.Attempts[i]
		held += float64(l.Millicores) * float64(l.End(r.Clock)-l.Queued)
	}
	for _, n := range r.Nodes {
		there += float64(n.Millicores) * float64(r.Clock)
	}
	return int64(100 * held / max(1, there))
}

// usedEnough is the percentage of the cores they held that programs have to use for more cores to be worth anything:
// with less, more than a quarter of the cores that there were did nothing for the run.
const usedEnough = 75

// used is the percentage of the cores they held that programs used while they ran, as far as it was measured; 100 if it
// was not, as in simulations.
func (r *reader) used() int64 {
	var used, held float64
	for i := range r.Attempts {
		if l := &r.Attempts[i]; l.CPU >= 0 && l.Started >= 0 && l.Node >= 0 {
			used += 1000 * float64(l.CPU)
			held += float64(l.Millicores) * r.Nodes[l.Node].Speed * float64(l.End(r.Clock)-l.Started)
		}
	}
	if held == 0 {
		return 100
	}
	return int64(min(100, 100*used/held))
}

func seconds(ns int64) string {
	s := time.Duration(ns).Seconds()
	for _, unit := range []struct {
		least, seconds float64
		name           string
	}{{172800, 86400, "d"}, {7200, 3600, "h"}, {600, 60, "min"}} {
		if s >= unit.least {
			return fmt.Sprintf("%.3g %s", s/unit.seconds, unit.name)
		}
	}
	if s >= 100 {
		return fmt.Sprintf("%.0f s", s)
	}
	return fmt.Sprintf("%.3g s", s)
}
