package page

import (
	"fmt"
	"slices"
	"strings"
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

// step is a part of the critical path.
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
	for i := range r.lives {
		if l := &r.lives[i]; l.ended >= 0 && (last < 0 || l.ended > r.lives[last].ended) {
			last = i
		}
	}
	suspended := map[int]int64{}
	for k, a := range r.out.Away.Attempt {
		suspended[int(a)] += r.out.Away.Until[k] - r.out.Away.Since[k]
	}
	add := func(i int, what, why string, from, to int64) {
		if to > from {
			o.Steps = append(o.Steps, step{i, what, why, from, to})
			o.Parts[what] += to - from
		}
	}
	failed := false
	for i := last; i >= 0; {
		l := &r.lives[i]
		t := &r.tasks[l.task]
		staged := max(l.staged, l.queued)
		started := max(l.started, staged)
		if failed {
			add(i, retrying, r.outcomes.texts[l.outcome], l.queued, l.ended)
		} else {
			add(i, computing, r.kinds.texts[t.kind], started, l.ended)
			if s := min(suspended[i], l.ended-started); s > 0 {
				o.Parts[computing] -= s
				o.Parts[away] += s
			}
			add(i, starting, "", staged, started)
			add(i, staging, "", l.queued, staged)
		}
		next := r.before(i)
		failed = next >= 0 && r.lives[next].task == l.task
		heard := l.ready
		if next >= 0 {
			heard = min(max(heard, r.lives[next].heard), l.queued)
		}
		add(i, waiting, r.why(l.task, heard, l.queued), heard, l.queued)
		add(next, ending, "", l.ready, heard)
		i = next
	}
	slices.Reverse(o.Steps)
	r.bound()
	o.Advice = r.advice()
}

// before is the attempt that an attempt waited for: the try before, or that of the parent that ended last. It is -1 if
// the attempt waited for the arrival of its workflow.
func (r *reader) before(i int) int {
	l := &r.lives[i]
	t := &r.tasks[l.task]
	if l.try > 1 {
		for k := i - 1; k >= 0; k-- {
			if r.lives[k].task == l.task {
				return k
			}
		}
		return -1
	}
	next := -1
	for _, p := range r.parents(t) {
		if k := r.tasks[p].last; k >= 0 && k != i && (next < 0 || r.lives[k].ended > r.lives[next].ended) {
			next = k
		}
	}
	if w := &r.out.Workflows[t.workflow]; next >= 0 && max(w.Arrived, w.Release) >= r.lives[next].ended {
		return -1
	}
	return next
}

// bound is the longest path of measured runs from the arrival of a workflow.
func (r *reader) bound() {
	type visit struct {
		length int64
		state  uint8
	}
	seen := make([]visit, len(r.tasks))
	var length func(t int) int64
	length = func(t int) int64 {
		v := &seen[t]
		if v.state > 0 {
			return v.length
		}
		v.state = 1
		best := int64(0)
		for _, p := range r.parents(&r.tasks[t]) {
			best = max(best, length(p))
		}
		if last := r.tasks[t].last; last >= 0 {
			if l := &r.lives[last]; l.started >= 0 {
				best += l.end(r.clock) - l.started
			}
		}
		v.length = best
		return best
	}
	for t := range r.tasks { // parents are numbered before their children, so the recursion is shallow
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
		reason, dim, _ := strings.Cut(r.out.Reasons[w.Reason[k]], " ")
		since, last = w.Since[k], reasonText(reason, dim)
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
	share := fmt.Sprintf("%s of the %s of the critical path (%d %%)", seconds(most), seconds(total), most*100/total)
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
	case staging:
		return "Moving less data would have shortened the run most: " + share + " went into staging inputs."
	case starting:
		return "Fewer, longer tasks would have shortened the run most: " + share + " went into starting containers."
	case ending:
		return "Fewer, longer tasks would have shortened the run most: " + share + " passed between the end of a " +
			"program and the moment at which gantry knew of it."
	case away:
		return "Fewer preemptions would have shortened the run most: tasks were suspended for " + share + "."
	}
	return "Fewer failures would have shortened the run most: " + share + " went into attempts that failed."
}

// held is the percentage of the cores that tasks held, over the whole run.
func (r *reader) held() int64 {
	var held, there float64
	for i := range r.lives {
		l := &r.lives[i]
		held += float64(l.millicores) * float64(l.end(r.clock)-l.queued)
	}
	for _, n := range r.out.Nodes {
		there += float64(n.Millicores) * float64(r.clock)
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
	for i := range r.lives {
		if l := &r.lives[i]; l.cpu >= 0 && l.started >= 0 && l.node >= 0 {
			used += 1000 * float64(l.cpu)
			held += float64(l.millicores) * r.out.Nodes[l.node].Speed * float64(l.end(r.clock)-l.started)
		}
	}
	if held == 0 {
		return 100
	}
	return int64(min(100, 100*used/held))
}

func seconds(ns int64) string {
	return fmt.Sprintf("%.3g s", time.Duration(ns).Seconds())
}

func (a *answer) scale(count func(int64) int64) {
	a.Bound = count(a.Bound)
	for k, v := range a.Parts {
		a.Parts[k] = count(v)
	}
	for i := range a.Steps {
		a.Steps[i].From, a.Steps[i].To = count(a.Steps[i].From), count(a.Steps[i].To)
	}
}
