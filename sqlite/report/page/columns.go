package page

import (
	"math"
	"strings"
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
		c.all(o.Odd[i].Before, o.Odd[i].Lost)
	}
	for i := range o.Away.Since {
		c.all(&o.Away.Since[i], &o.Away.Until[i])
	}
	for i := range o.Wait.Since {
		c.all(&o.Wait.Since[i], &o.Wait.Until[i])
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

func (r *reader) attemptColumns(c counter) {
	a := &r.out.Attempt
	for i := range r.lives {
		l := &r.lives[i]
		t := &r.tasks[l.task]
		known := int64(0)
		mark := func(bit int64, v int64) int64 {
			if v < 0 {
				return 0
			}
			known |= bit
			return v
		}
		end := c.count(l.end(r.clock))
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
		put := func(to *column, v int64) {
			if i == 0 {
				*to = make(column, 0, len(r.lives))
			}
			*to = append(*to, v)
		}
		put(&a.Task, int64(l.task))
		put(&a.Try, int64(l.try))
		put(&a.Node, int64(l.node))
		put(&a.Lane, int64(l.lane))
		put(&a.Wait, queued-c.count(l.ready))
		put(&a.Queued, queued)
		put(&a.Staging, staged-queued)
		put(&a.Begin, started-staged)
		put(&a.Run, end-started)
		put(&a.Over, over)
		put(&a.Error, wrong)
		put(&a.Spread, c.count(l.spread))
		put(&a.Samples, l.samples)
		put(&a.Source, l.source)
		put(&a.Outcome, l.outcome)
		put(&a.Cores, l.millicores-t.cores)
		put(&a.Memory, l.memory/kilo-t.memory/kilo)
		put(&a.Disk, l.disk/kilo-t.disk/kilo)
		put(&a.CPU, c.count(mark(knowsCPU, l.cpu)))
		put(&a.Throttled, c.count(mark(knowsThrottled, l.throttled)))
		put(&a.Peak, mark(knowsMemory, l.peak)/kilo)
		put(&a.Read, mark(knowsDisk, l.read)/kilo)
		put(&a.Written, mark(knowsDisk, l.written)/kilo)
		put(&a.Copied, l.copied/kilo)
		put(&a.AppliedCores, l.appliedCores)
		put(&a.AppliedMemory, l.appliedMemory/kilo)
		put(&a.AppliedRead, l.appliedRead/kilo)
		put(&a.AppliedWrite, l.appliedWrite/kilo)
		put(&a.Known, known)
	}
	r.out.Outcomes, r.out.Sources = r.outcomes.texts, r.sources.texts
}
