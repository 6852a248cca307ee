package page

import (
	"math"
	"strings"

	"gantry/sqlite/report/history"
	"gantry/trace/shown"
)

// counter turns nanoseconds into units.
type counter int64

func (c counter) count(ns int64) int64 { return int64(math.Round(float64(ns) / float64(c))) }

const kilo = 1000

// columns writes the records that were read as columns, by units.
func (r *reader) columns() {
	o := r.out
	o.Unit = unitOf(r.Clock, len(r.Attempts))
	c := counter(o.Unit)
	for _, x := range r.Away {
		o.Away.Attempt, o.Away.How = append(o.Away.Attempt, int64(x.Attempt)), append(o.Away.How, x.How)
		o.Away.Since, o.Away.Until = append(o.Away.Since, c.count(x.Since)), append(o.Away.Until, c.count(x.Until))
	}
	for i, since := range o.Wait.Since {
		o.Wait.Since[i], o.Wait.Until[i] = c.count(since), c.count(o.Wait.Until[i])
	}
	r.taskColumns(c)
	r.attemptColumns(c)
}

func (r *reader) taskColumns(c counter) {
	o, t := r.out, &r.out.Task
	var names strings.Builder
	for i := range r.Tasks {
		x := &r.Tasks[i]
		names.WriteString(shown.Line(x.Name) + "\n")
		t.Workflow, t.Kind = append(t.Workflow, int64(x.Workflow)), append(t.Kind, x.Kind)
		t.State, t.Imputed = append(t.State, x.State), append(t.Imputed, x.Imputed)
		t.Cores, t.Memory = append(t.Cores, x.Cores), append(t.Memory, x.Memory/kilo)
		t.Disk, t.Limit = append(t.Disk, x.Disk/kilo), append(t.Limit, c.count(x.Limit))
		for _, p := range r.Parents(x) {
			o.Edges[0], o.Edges[1] = append(o.Edges[0], int64(i)), append(o.Edges[1], int64(p))
		}
	}
	o.Names, o.Kinds, o.Imputations = names.String(), []string{}, r.Imputed.Texts
	for _, kind := range r.Kinds.Texts {
		o.Kinds = append(o.Kinds, shown.Line(kind))
	}
}

// attemptColumns writes a column of each of the numbers of attempts, in the order of their orders.
func (r *reader) attemptColumns(c counter) {
	names := c.numbers(&history.Attempt{}, &history.Task{}, r.Clock)
	columns := make([]column, len(names))
	for i := range r.Attempts {
		l := &r.Attempts[i]
		for k, x := range c.numbers(l, &r.Tasks[l.Task], r.Clock) {
			columns[k] = append(columns[k], x.value)
		}
	}
	r.out.Attempt = map[string]column{}
	for k, x := range names {
		r.out.Attempt[x.name] = columns[k]
	}
	r.out.Outcomes, r.out.Sources = r.Outcomes.Texts, r.Sources.Texts
}

type number struct {
	name  string
	value int64
}

// numbers are those of an attempt.
func (c counter) numbers(l *history.Attempt, t *history.Task, clock int64) [29]number {
	known := int64(0)
	mark := func(bit int64, v int64) int64 {
		if v < 0 {
			return 0
		}
		known |= bit
		return v
	}
	end := c.count(l.End(clock))
	queued, staged := c.count(l.Queued), c.count(max(l.Staged, l.Queued))
	started := staged
	if l.Started >= 0 {
		started, known = c.count(l.Started), known|knowsStart
	} else if l.Ended >= 0 {
		started = end
	}
	mark(knowsEnd, l.Ended)
	over, wrong := int64(0), int64(0)
	if mark(knowsPlan, l.Planned); l.Planned >= 0 {
		over = end - c.count(l.Planned)
	}
	if mark(knowsEstimate, l.Estimate); l.Estimate >= 0 {
		wrong = c.count(l.Estimate) - (end - staged)
	}
	out := [...]number{
		{"task", int64(l.Task)},
		{"try", int64(l.Try)},
		{"node", int64(l.Node)}, // -1: none, for a task without time
		{"lane", int64(l.Lane)},
		{"wait", queued - c.count(l.Ready)}, // from ready, or the end of the try before, to the order
		{"queued", queued},                  // instant of the order
		{"staging", staged - queued},        // from the order until the inputs were there
		{"begin", started - staged},         // from then until the program ran
		{"run", end - started},              // from then to its end, or so far
		{"over", over},                      // the end less the planned one
		{"error", wrong},                    // the estimate less the time from inputs in place to the end
		{"spread", c.count(l.Spread)},       // of the estimate
		{"samples", l.Samples},
		{"source", l.Source},
		{"outcome", l.Outcome},            // 0: under way
		{"cores", l.Millicores - t.Cores}, // held, less the need of the task
		{"memory", l.Memory/kilo - t.Memory/kilo},
		{"disk", l.Disk/kilo - t.Disk/kilo},
		{"cpu", c.count(mark(knowsCPU, l.CPU))}, // used
		{"throttled", c.count(mark(knowsThrottled, l.Throttled))},
		{"peak", mark(knowsMemory, l.Peak) / kilo},
		{"read", mark(knowsDisk, l.Read) / kilo},
		{"written", mark(knowsDisk, l.Written) / kilo},
		{"copied", l.Copied / kilo},       // inputs from other nodes
		{"applied_cores", l.AppliedCores}, // limits as the kernel has them; 0: none, or not readable
		{"applied_memory", l.AppliedMemory / kilo},
		{"applied_read", l.AppliedRead / kilo}, // kB/s
		{"applied_write", l.AppliedWrite / kilo},
		{"known", 0},
	}
	out[len(out)-1].value = known // by all marks
	return out
}
