package page

import (
	"math"
	"strings"
	"time"
)

// list gives texts that repeat numbers.
type list struct {
	texts   []string
	numbers map[string]int64
}

func newList(first ...string) *list {
	l := &list{texts: []string{}, numbers: map[string]int64{}}
	for _, text := range first {
		l.number(text)
	}
	return l
}

func (l *list) number(text string) int64 {
	n, ok := l.numbers[text]
	if !ok {
		n = int64(len(l.texts))
		l.numbers[text] = n
		l.texts = append(l.texts, text)
	}
	return n
}

// counter turns nanoseconds into units.
type counter int64

func (c counter) count(ns int64) int64 { return int64(math.Round(float64(ns) / float64(c))) }

// all counts in place; nil stays nil.
func (c counter) all(spans ...*int64) {
	for _, p := range spans {
		if p != nil {
			*p = c.count(*p)
		}
	}
}

// span counts in place.
func (c counter) span(d *time.Duration) { *d = time.Duration(c.count(int64(*d))) }

const kilo = 1000

// columns writes the records that were read as columns, by units.
func (r *reader) columns() {
	o := r.out
	o.Unit = unitOf(r.clock, len(r.lives))
	c := counter(o.Unit)
	o.End = c.count(r.clock)
	c.all(o.Makespan)
	if p := o.Predicted; p != nil {
		c.all(&p.Makespan, &p.Low, &p.High, &p.Made)
	}
	for i := range o.Workflows {
		w := &o.Workflows[i]
		c.all(&w.Arrived, &w.Release, w.Due, w.Ended)
	}
	for i := range o.Notes {
		c.all(&o.Notes[i].At, o.Notes[i].Instant)
	}
	for i := range o.Reused {
		c.all(&o.Reused[i].At, &o.Reused[i].Ran)
	}
	for i := range o.Odd {
		c.all(o.Odd[i].Before, o.Odd[i].Lost, o.Odd[i].GPU)
	}
	for i := range o.Away.Since {
		c.all(&o.Away.Since[i], &o.Away.Until[i])
	}
	for i := range o.Wait.Since {
		c.all(&o.Wait.Since[i], &o.Wait.Until[i])
	}
	for i := range o.Copies {
		if c.all(&o.Copies[i].Since); o.Copies[i].Until >= 0 {
			c.all(&o.Copies[i].Until)
		}
	}
	for i := range o.Changes {
		c.all(&o.Changes[i].At)
	}
	r.taskColumns(c)
	r.lanes()
	r.attemptColumns(c)
	o.Answer.scale(c.count)
	o.Waits.Bin /= float64(o.Unit)
}

func (r *reader) taskColumns(c counter) {
	o, t := r.out, &r.out.Task
	var names strings.Builder
	for i := range r.tasks {
		x := &r.tasks[i]
		names.WriteString(strings.ReplaceAll(x.name, "\n", " "))
		names.WriteByte('\n')
		t.Workflow, t.Kind = append(t.Workflow, int64(x.workflow)), append(t.Kind, x.kind)
		t.State, t.Imputed = append(t.State, x.state), append(t.Imputed, x.imputed)
		t.Cores, t.Memory = append(t.Cores, x.cores), append(t.Memory, x.memory/kilo)
		t.Disk, t.Limit = append(t.Disk, x.disk/kilo), append(t.Limit, c.count(x.limit))
		for _, p := range r.parents(x) {
			o.Edges[0], o.Edges[1] = append(o.Edges[0], int64(i)), append(o.Edges[1], int64(p))
		}
	}
	o.Names, o.Kinds, o.Imputations = names.String(), r.kinds.texts, r.imputed.texts
}

// attemptColumns writes a column of each of the numbers of attempts, in the order of their orders.
func (r *reader) attemptColumns(c counter) {
	names := c.numbers(&life{}, &task{}, r.clock)
	columns := make([]column, len(names))
	for i := range r.lives {
		l := &r.lives[i]
		for k, x := range c.numbers(l, &r.tasks[l.task], r.clock) {
			columns[k] = append(columns[k], x.value)
		}
	}
	r.out.Attempt = map[string]column{}
	for k, x := range names {
		r.out.Attempt[x.name] = columns[k]
	}
	r.out.Outcomes, r.out.Sources = r.outcomes.texts, r.sources.texts
}

type number struct {
	name  string
	value int64
}

// numbers are those of an attempt.
func (c counter) numbers(l *life, t *task, clock int64) [29]number {
	known := int64(0)
	mark := func(bit int64, v int64) int64 {
		if v < 0 {
			return 0
		}
		known |= bit
		return v
	}
	end := c.count(l.end(clock))
	queued, staged := c.count(l.queued), c.count(max(l.staged, l.queued))
	started := staged
	if l.started >= 0 {
		started, known = c.count(l.started), known|knowsStart
	} else if l.ended >= 0 {
		started = end
	}
	mark(knowsEnd, l.ended)
	over, wrong := int64(0), int64(0)
	if mark(knowsPlan, l.planned); l.planned >= 0 {
		over = end - c.count(l.planned)
	}
	if mark(knowsEstimate, l.estimate); l.estimate >= 0 {
		wrong = c.count(l.estimate) - (end - staged)
	}
	out := [...]number{
		{"task", int64(l.task)},
		{"try", int64(l.try)},
		{"node", int64(l.node)}, // -1: none, for a task without time
		{"lane", int64(l.lane)},
		{"wait", queued - c.count(l.ready)}, // from ready, or the end of the try before, to the order
		{"queued", queued},                  // instant of the order
		{"staging", staged - queued},        // from the order until the inputs were there
		{"begin", started - staged},         // from then until the program ran
		{"run", end - started},              // from then to its end, or so far
		{"over", over},                      // the end less the planned one
		{"error", wrong},                    // the estimate less the time from inputs in place to the end
		{"spread", c.count(l.spread)},       // of the estimate
		{"samples", l.samples},
		{"source", l.source},
		{"outcome", l.outcome},            // 0: under way
		{"cores", l.millicores - t.cores}, // held, less the need of the task
		{"memory", l.memory/kilo - t.memory/kilo},
		{"disk", l.disk/kilo - t.disk/kilo},
		{"cpu", c.count(mark(knowsCPU, l.cpu))}, // used
		{"throttled", c.count(mark(knowsThrottled, l.throttled))},
		{"peak", mark(knowsMemory, l.peak) / kilo},
		{"read", mark(knowsDisk, l.read) / kilo},
		{"written", mark(knowsDisk, l.written) / kilo},
		{"copied", l.copied / kilo},       // inputs from other nodes
		{"applied_cores", l.appliedCores}, // limits as the kernel has them; 0: none, or not readable
		{"applied_memory", l.appliedMemory / kilo},
		{"applied_read", l.appliedRead / kilo}, // kB/s
		{"applied_write", l.appliedWrite / kilo},
		{"known", 0},
	}
	out[len(out)-1].value = known // by all marks
	return out
}
