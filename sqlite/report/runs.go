package report

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"

	"gantry/sqlite"
	"gantry/sqlite/report/columns"
	"gantry/sqlite/report/history"
)

// Phases is where the time of a task went, in nanoseconds; -1 is not known.
type Phases struct {
	Waiting  int64 `json:"waiting_ns"`  // from the moment all it needs was there to the order to start
	Staging  int64 `json:"staging_ns"`  // copying inputs in
	Starting int64 `json:"starting_ns"` // from there to the running program: creating and starting the container
	Running  int64 `json:"running_ns"`  // the program, suspensions left out
	// from its end to the moment at which gantry knew of it, measured it and could continue
	Ending int64 `json:"ending_ns"`
}

func (p Phases) all() [5]int64 {
	return [5]int64{p.Waiting, p.Staging, p.Starting, p.Running, p.Ending}
}

// phaseNames are in the order of Phases.
var phaseNames = [5]string{"waiting", "staging", "container start", "running", "ending"}

// TaskPair is a task in two runs, A and B.
type TaskPair struct {
	Workflow string    `json:"workflow"`
	Task     string    `json:"task"`
	Kind     string    `json:"kind"`
	Node     [2]string `json:"node"`
	Order    [2]int    `json:"order"`      // its place among the starts of its workflow, from 1
	Started  [2]int64  `json:"started_ns"` // after the arrival of its workflow
	Ended    [2]int64  `json:"ended_ns"`
	Phases   [2]Phases `json:"phases"`
	attempt  [2]int64
}

// WorkflowPair is a workflow in two runs.
type WorkflowPair struct {
	Workflow string   `json:"workflow"`
	Tasks    int      `json:"tasks"` // that ended well in both
	Makespan [2]int64 `json:"makespan_ns"`
	Response [2]int64 `json:"response_ns"`
	// MakespanError is (B - A) / A; NaN is written as null.
	MakespanError Number `json:"makespan_error"`
	Agreement
	// Phases are means per task.
	Phases [2]Phases `json:"mean_phases"`
}

// Agreement is how far the starts of tasks agree in two runs.
type Agreement struct {
	// OrderTau is Kendall's tau between the orders in which the two planners ordered the starts; StartTau between the
	// instants at which the programs began (tau-b: ties are allowed for). Swapped is how many of the pairs of tasks
	// were ordered the other way round.
	OrderTau Number `json:"order_tau"`
	StartTau Number `json:"start_tau"`
	Swapped  int64  `json:"swapped_pairs"`
	Pairs    int64  `json:"pairs"`
}

// Number is one that may be unknown.
type Number float64

// MarshalJSON gives null for NaN.
func (n Number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	return fmt.Appendf(nil, "%v", float64(n)), nil
}

func (n Number) String() string {
	if math.IsNaN(float64(n)) {
		return "-"
	}
	return fmt.Sprintf("%.3f", float64(n))
}

// RunSide is one of two runs that are compared.
type RunSide struct {
	Run       string  `json:"run"`
	Runtime   string  `json:"runtime"`
	Policy    string  `json:"policy"`
	State     string  `json:"state"`
	TimeScale float64 `json:"time_scale"`
	Makespan  *int64  `json:"makespan_ns"`
	// HostModel is nil where the run took none.
	HostModel *sqlite.ModelUsed `json:"host_model"`
}

// Comparison has the likenesses and the differences of two runs of the same workflows. Workflows and tasks are matched
// by their names; the only workflow of each is the same one.
type Comparison struct {
	Runs          [2]RunSide `json:"runs"`
	MakespanError Number     `json:"makespan_error"` // (B - A) / A
	Agreement                // over the tasks of all workflows
	SameNode      int        `json:"tasks_on_same_node"`
	Phases        [2]Phases  `json:"mean_phases"`
	Only          [2]int     `json:"tasks_only_in"` // that ended well in one of the runs only
	// Causes split the difference of the makespans where B is a simulation of A; Unsplit says why there are none.
	Causes    []Cause        `json:"causes,omitempty"`
	Unsplit   string         `json:"unsplit,omitempty"`
	Workflows []WorkflowPair `json:"workflows"`
	Tasks     []TaskPair     `json:"tasks"`
}

// Cause is a part of the difference of two makespans; above 0, A took longer.
type Cause struct {
	Name string `json:"cause"`
	Took int64  `json:"ns"`
}

// taskRow is a task that ended well, by the attempt that its results are of.
type taskRow struct {
	Workflow, Task, Kind, Node string
	arrived                    int64
	attempt                    *history.Attempt
	phases                     Phases
}

// CompareRuns compares two runs of the log.
func CompareRuns(ctx context.Context, db *sqlite.DB, a, b string) (*Comparison, error) {
	c := &Comparison{}
	var rows [2]map[[2]string]taskRow
	var flows [2]map[string][2]int64 // by name: makespan and response
	for i, name := range []string{a, b} {
		info, err := db.Info(ctx, name)
		if err != nil {
			return nil, err
		}
		s, err := db.Overview(ctx, info.Name)
		if err != nil {
			return nil, err
		}
		c.Runs[i] = RunSide{Run: s.Run, Runtime: s.Runtime, Policy: s.Policy, State: fmt.Sprint(s.State),
			TimeScale: info.TimeScale, Makespan: (*int64)(s.Makespan), HostModel: s.HostModel}
		if rows[i], flows[i], err = tasksOf(ctx, db, s.Run); err != nil {
			return nil, err
		}
	}
	if len(flows[0]) == 1 && len(flows[1]) == 1 {
		rows[1], flows[1] = renamed(rows[1], flows)
	}
	c.MakespanError = Number(math.NaN())
	if x, y := c.Runs[0].Makespan, c.Runs[1].Makespan; x != nil && y != nil {
		c.MakespanError = relative(*x, *y)
	}
	for key, x := range rows[0] {
		y, ok := rows[1][key]
		if !ok {
			continue
		}
		p := TaskPair{Workflow: x.Workflow, Task: x.Task, Kind: x.Kind}
		for i, r := range []taskRow{x, y} {
			p.Node[i], p.attempt[i], p.Phases[i] = r.Node, int64(r.attempt.Number), r.phases
			p.Started[i], p.Ended[i] = r.attempt.Started-r.arrived, r.attempt.Heard-r.arrived
		}
		c.Tasks = append(c.Tasks, p)
	}
	c.Only = [2]int{len(rows[0]) - len(c.Tasks), len(rows[1]) - len(c.Tasks)}
	if len(c.Tasks) == 0 {
		return nil, fmt.Errorf("runs %s and %s have no task in common that ended well in both: workflows and tasks "+
			"are matched by their names",
			c.Runs[0].Run, c.Runs[1].Run)
	}
	slices.SortFunc(c.Tasks, func(x, y TaskPair) int { return cmp.Compare(x.attempt[0], y.attempt[0]) })
	byFlow := map[string][]int{}
	var names []string
	for i := range c.Tasks {
		t := &c.Tasks[i]
		if byFlow[t.Workflow] == nil {
			names = append(names, t.Workflow)
		}
		byFlow[t.Workflow] = append(byFlow[t.Workflow], i)
		if t.Node[0] == t.Node[1] {
			c.SameNode++
		}
	}
	for _, name := range names {
		w := WorkflowPair{Workflow: name, Tasks: len(byFlow[name])}
		w.Agreement, w.Phases = c.agreement(byFlow[name])
		for i := range flows {
			w.Makespan[i], w.Response[i] = flows[i][name][0], flows[i][name][1]
		}
		w.MakespanError = relative(w.Makespan[0], w.Makespan[1])
		for i := range 2 {
			order := slices.Clone(byFlow[name])
			slices.SortFunc(order, func(x, y int) int {
				return cmp.Compare(c.Tasks[x].attempt[i], c.Tasks[y].attempt[i])
			})
			for at, t := range order {
				c.Tasks[t].Order[i] = at + 1
			}
		}
		c.Workflows = append(c.Workflows, w)
	}
	all := make([]int, len(c.Tasks))
	for i := range all {
		all[i] = i
	}
	c.Agreement, c.Phases = c.agreement(all)
	return c, nil
}

// agreement says how far the starts of tasks agree, and where their time went on average.
func (c *Comparison) agreement(tasks []int) (_ Agreement, means [2]Phases) {
	orders, starts := make([][2]int64, len(tasks)), make([][2]int64, len(tasks))
	for i, t := range tasks {
		orders[i], starts[i] = c.Tasks[t].attempt, c.Tasks[t].Started
	}
	tau, swapped, pairs := Kendall(orders)
	byTime, _, _ := Kendall(starts)
	for i := range 2 {
		var sums, counts [5]int64
		for _, t := range tasks {
			for k, ns := range c.Tasks[t].Phases[i].all() {
				if ns >= 0 {
					sums[k] += ns
					counts[k]++
				}
			}
		}
		for k := range sums {
			if counts[k] == 0 {
				sums[k] = -1
			} else {
				sums[k] /= counts[k]
			}
		}
		means[i] = Phases{sums[0], sums[1], sums[2], sums[3], sums[4]}
	}
	return Agreement{Number(tau), Number(byTime), swapped, pairs}, means
}

func relative(a, b int64) Number {
	if a <= 0 {
		return Number(math.NaN())
	}
	return Number(float64(b-a) / float64(a))
}

func between(a, b int64) int64 {
	if a < 0 || b < 0 {
		return -1
	}
	return max(0, b-a)
}

// tasksOf returns the tasks of a run that ended well, by the names of workflow and task, and the makespan and response
// of its workflows, by name.
func tasksOf(ctx context.Context, db *sqlite.DB, run string) (map[[2]string]taskRow, map[string][2]int64, error) {
	h, err := history.Read(ctx, db, run, nil)
	if err != nil {
		return nil, nil, err
	}
	out, flows := map[[2]string]taskRow{}, map[string][2]int64{}
	for _, w := range h.Workflows {
		var spans [2]int64
		if w.Ended != nil {
			if spans[1] = *w.Ended - w.Arrived; w.Started != nil {
				spans[0] = *w.Ended - *w.Started
			}
		}
		flows[w.Name] = spans
	}
	for i := range h.Tasks {
		t := &h.Tasks[i]
		if t.Result < 0 {
			continue
		}
		w, a := &h.Workflows[t.Workflow], &h.Attempts[t.Result]
		if h.Outcomes.Texts[a.Outcome] != "ok" || a.Started < 0 || a.Ended < 0 {
			continue
		}
		ready := max(w.Arrived, w.Release) // or once gantry knows of the ends of its parents
		for _, p := range h.Parents(t) {
			ready = max(ready, h.Tasks[p].Ended)
			if of := h.Tasks[p].Result; of >= 0 {
				ready = max(ready, min(h.Attempts[of].Heard, a.Queued))
			}
		}
		r := taskRow{Workflow: w.Name, Task: t.Name, Kind: h.Kinds.Texts[t.Kind], arrived: w.Arrived, attempt: a,
			phases: Phases{between(ready, a.Queued), between(a.Queued, a.Staged), between(a.Staged, a.Started), a.Ran,
				between(a.Ended, a.Heard)}}
		if a.Node >= 0 {
			r.Node = h.Nodes[a.Node].Name
		}
		out[[2]string{w.Name, t.Name}] = r
	}
	return out, flows, nil
}

// renamed has the tasks of the only workflow of B under the name of that of A: both are the same workflow, though their
// files may have different names.
func renamed(rows map[[2]string]taskRow, flows [2]map[string][2]int64) (map[[2]string]taskRow, map[string][2]int64) {
	out, flow := make(map[[2]string]taskRow, len(rows)), map[string][2]int64{}
	for name := range flows[0] {
		for _, x := range flows[1] {
			flow[name] = x
		}
		for key, row := range rows {
			out[[2]string{name, key[1]}] = row
		}
	}
	return out, flow
}

// Kendall returns Kendall's rank correlation tau-b of pairs of numbers, and how many of the pairs of pairs that are
// ordered in both are ordered the other way round. NaN if either side has no order at all. It takes n log n steps
// (Knight, JASA 61, 1966).
func Kendall(values [][2]int64) (tau float64, swapped, ordered int64) {
	n := int64(len(values))
	v := slices.Clone(values)
	slices.SortFunc(v, func(a, b [2]int64) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	ties := func(same func(a, b [2]int64) bool) (sum int64) {
		run := int64(1)
		for i := 1; i <= len(v); i++ {
			if i < len(v) && same(v[i-1], v[i]) {
				run++
				continue
			}
			sum += run * (run - 1) / 2
			run = 1
		}
		return sum
	}
	all := n * (n - 1) / 2
	inA := ties(func(a, b [2]int64) bool { return a[0] == b[0] })
	inBoth := ties(func(a, b [2]int64) bool { return a == b })
	swapped = inversions(v, make([][2]int64, len(v)))
	inB := ties(func(a, b [2]int64) bool { return a[1] == b[1] }) // v is sorted by B now
	ordered = all - inA - inB + inBoth
	// Concordant less discordant pairs, over those that each side orders.
	return float64(ordered-2*swapped) / math.Sqrt(float64(all-inA)*float64(all-inB)), swapped, ordered
}

// inversions sorts v by B and counts how many pairs it has to swap.
func inversions(v, spare [][2]int64) (count int64) {
	if len(v) < 2 {
		return 0
	}
	mid := len(v) / 2
	count = inversions(v[:mid], spare[:mid]) + inversions(v[mid:], spare[mid:])
	i, j := 0, mid
	for k := range spare {
		if j == len(v) || i < mid && v[i][1] <= v[j][1] {
			spare[k] = v[i]
			i++
		} else {
			spare[k] = v[j]
			count += int64(mid - i)
			j++
		}
	}
	copy(v, spare)
	return count
}

// maxShown bounds the workflows and tasks that a text names; JSON has all.
const maxShown = 15

// WriteText prints a comparison for people.
func (c *Comparison) WriteText(w io.Writer) {
	for i, r := range c.Runs {
		fmt.Fprintf(w, "%c  %s: %s on %s, %s", 'A'+i, r.Run, r.Policy, r.Runtime, r.State)
		if r.HostModel != nil || r.Runtime == "sim" {
			fmt.Fprintf(w, ", host model %s", r.HostModel)
		}
		if r.TimeScale != 1 {
			fmt.Fprintf(w, ", time scale %g", r.TimeScale)
		}
		if r.Makespan != nil {
			fmt.Fprintf(w, ", makespan %s", span(*r.Makespan))
		}
		fmt.Fprintln(w)
	}
	if c.Runs[0].TimeScale != c.Runs[1].TimeScale {
		fmt.Fprintln(w, "The time scales differ: so do all durations.")
	}
	fmt.Fprintf(w, "\nMakespan of B against A: %s. Tasks: %d in both, %d on the same node; %d in A only, %d in B "+
		"only.\n", percent(c.MakespanError), len(c.Tasks),
		c.SameNode, c.Only[0], c.Only[1])
	fmt.Fprintf(w, "Order of starts: Kendall's tau %s as ordered (%d of %d pairs swapped), %s as begun.\n\n",
		c.OrderTau, c.Swapped, c.Pairs, c.StartTau)
	t := columns.New(w, "mean per task|-A|-B|-B - A")
	for k, name := range phaseNames {
		a, b := c.Phases[0].all()[k], c.Phases[1].all()[k]
		difference := "-"
		if a >= 0 && b >= 0 {
			difference = spanOf(b - a)
		}
		t.Row(name, span(a), span(b), difference)
	}
	a, b := c.Phases[0].sum(), c.Phases[1].sum()
	t.Row("in all", span(a), span(b), spanOf(b-a))
	t.End()
	c.writeCauses(w)
	columns.List(w, c.Workflows, maxShown, "workflow|-tasks|-makespan A|-B|-error|-response A|-B|-tau ordered|-begun",
		func(f WorkflowPair) []any {
			return []any{f.Workflow, f.Tasks, span(f.Makespan[0]), span(f.Makespan[1]), percent(f.MakespanError),
				span(f.Response[0]), span(f.Response[1]), f.OrderTau, f.StartTau}
		})
	fmt.Fprintln(w, "Where the time of their tasks went, mean per task:")
	columns.List(w, c.Workflows, maxShown, "workflow"+phaseColumns, func(f WorkflowPair) []any {
		return append([]any{f.Workflow}, f.Phases[0].beside(f.Phases[1])...)
	})
	fmt.Fprintln(w, "Tasks that end furthest apart, counted from the arrival of their workflow:")
	apart := slices.Clone(c.Tasks)
	distance := func(x TaskPair) int64 { d := x.Ended[1] - x.Ended[0]; return max(d, -d) }
	slices.SortStableFunc(apart, func(x, y TaskPair) int { return cmp.Compare(distance(y), distance(x)) })
	columns.List(w, apart[:min(maxShown, len(apart))], 0, "workflow|task|-order A|-B|-ended A|-B"+phaseColumns,
		func(x TaskPair) []any {
			return append([]any{x.Workflow, x.Task, x.Order[0], x.Order[1], span(x.Ended[0]), span(x.Ended[1])},
				x.Phases[0].beside(x.Phases[1])...)
		})
}

// writeCauses prints why the makespan of A is longer than that of B.
func (c *Comparison) writeCauses(w io.Writer) {
	if c.Unsplit != "" {
		fmt.Fprintf(w, "The difference of the makespans is not split by cause: %s.\n\n", c.Unsplit)
	}
	if len(c.Causes) == 0 || c.Runs[0].Makespan == nil {
		return
	}
	all := Cause{Name: "in all"}
	for _, x := range c.Causes {
		all.Took += x.Took
	}
	whole := float64(max(1, *c.Runs[0].Makespan))
	columns.List(w, append(slices.Clone(c.Causes), all), 0, "cause|-A longer than B by|-of the makespan of A",
		func(x Cause) []any { return []any{x.Name, spanOf(x.Took), percent(Number(float64(x.Took) / whole))} })
}

// phaseColumns are the headings of the columns of beside.
const phaseColumns = "|-waiting A|-B|-staging A|-B|-start A|-B|-running A|-B|-ending A|-B|-in all A|-B"

// beside has the phases of a task in two runs, side by side.
func (p Phases) beside(other Phases) (cells []any) {
	for k := range phaseNames {
		cells = append(cells, span(p.all()[k]), span(other.all()[k]))
	}
	return append(cells, span(p.sum()), span(other.sum()))
}

// sum is the time from the moment at which a task was ready to the end; unknown phases count for nothing.
func (p Phases) sum() (ns int64) {
	for _, x := range p.all() {
		ns += max(0, x)
	}
	return ns
}

// span prints nanoseconds; -1 is not known.
func span(ns int64) string {
	if ns == -1 {
		return "-"
	}
	return spanOf(ns)
}

// spanOf prints nanoseconds that may be below 0.
func spanOf(ns int64) string { return columns.Span((*sqlite.Span)(&ns)) }

func percent(n Number) string {
	if math.IsNaN(float64(n)) {
		return "-"
	}
	return fmt.Sprintf("%+.2f %%", 100*float64(n))
}
