package page

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"gantry/sqlite"
)

// run is what the page shows of a run. Instants and spans are counted in units of Unit nanoseconds.
type run struct {
	Name      string          `json:"name"`
	Policy    string          `json:"policy"`
	Runtime   string          `json:"runtime"`
	State     string          `json:"state"`
	Started   string          `json:"started"`
	Version   string          `json:"version"`
	Command   []string        `json:"command"`
	Seed      int64           `json:"seed"`
	TimeScale float64         `json:"time_scale"`
	SizeScale float64         `json:"size_scale"`
	Host      json.RawMessage `json:"host,omitempty"`
	Settings  json.RawMessage `json:"settings,omitempty"`
	Resumes   int             `json:"resumes"`

	Unit      int64               `json:"unit"`
	End       int64               `json:"end"`      // of the last event
	Makespan  *int64              `json:"makespan"` // of the run; null while it is under way
	Nodes     []node              `json:"nodes"`
	Kinds     []string            `json:"kinds"`
	Workflows []workflow          `json:"workflows"`
	Outcomes  []string            `json:"outcomes"`
	Sources   []string            `json:"sources"` // of estimates
	Names     string              `json:"names"`   // of tasks, one a line
	Task      taskColumns         `json:"task"`
	Attempt   attemptColumns      `json:"attempt"`
	Away      awayColumns         `json:"away"` // suspensions
	Edges     [2]column           `json:"edges"`
	Waits     waits               `json:"waits"`
	Answer    answer              `json:"answer"`
	Warnings  []warning           `json:"warnings"`
	Failures  []failure           `json:"failures"`
	Metrics   map[string]*float64 `json:"metrics"` // null: it has no value in this run
}

type node struct {
	Name       string  `json:"name"`
	Group      string  `json:"group,omitempty"`
	Millicores int64   `json:"millicores"`
	Memory     *int64  `json:"memory"` // bytes; null: unlimited
	Speed      float64 `json:"speed"`
	Lanes      int     `json:"lanes"` // attempts that were there at once
}

type workflow struct {
	Name     string `json:"name"`
	Tenant   string `json:"tenant,omitempty"`
	Class    string `json:"class"`
	State    string `json:"state"`
	Arrived  int64  `json:"arrived"`
	Release  int64  `json:"release"`
	Due      *int64 `json:"due"`
	Ended    *int64 `json:"ended"`
	Tasks    int    `json:"tasks"`
	Finished bool   `json:"-"`
}

type taskColumns struct {
	Workflow column `json:"workflow"`
	Kind     column `json:"kind"`
	State    column `json:"state"` // of states
}

// states are those of tasks, by number.
var states = []string{"waiting", "starting", "running", "suspended", "done", "failed", "skipped"}

// Bits of attemptColumns.Known.
const (
	knowsStart = 1 << iota
	knowsEnd
	knowsCPU
	knowsMemory
	knowsDisk
)

// attemptColumns has a number of each attempt, in the order of their orders.
type attemptColumns struct {
	Task    column `json:"task"`
	Try     column `json:"try"`
	Node    column `json:"node"`
	Lane    column `json:"lane"`
	Wait    column `json:"wait"`    // from ready, or the end of the try before, to the order
	Queued  column `json:"queued"`  // instant of the order
	Staging column `json:"staging"` // from the order until the inputs were there
	Begin   column `json:"begin"`   // from then until the program ran
	Run     column `json:"run"`     // from then to its end, or so far
	Over    column `json:"over"`    // the end less the planned one
	Error   column `json:"error"`   // the estimate less the time from inputs in place to the end
	Source  column `json:"source"`  // of the estimate
	Outcome column `json:"outcome"` // 0: under way
	Known   column `json:"known"`
	Cores   column `json:"cores"`  // asked, millicores
	Memory  column `json:"memory"` // asked, kB
	CPU     column `json:"cpu"`    // used
	Peak    column `json:"peak"`   // kB
	Read    column `json:"read"`   // kB
	Written column `json:"written"`
}

type awayColumns struct {
	Attempt column   `json:"attempt"`
	Since   column   `json:"since"`
	Until   column   `json:"until"`
	How     []string `json:"how"`
}

type warning struct {
	Message string `json:"message"`
	Count   int    `json:"count"`
}

type failure struct {
	Task    string `json:"task"`
	Outcome string `json:"outcome"`
	Exit    *int64 `json:"exit"`
	Message string `json:"message"`
}

// life is an attempt as the log has it, in nanoseconds; below 0 is not known.
type life struct {
	task, try, node, lane                                  int
	ready, queued, staged, started, ended, planned         int64
	estimate, cpu, peak, read, written, millicores, memory int64
	outcome, source                                        string
}

// end is when the attempt left its node, or how far the run got.
func (l *life) end(clock int64) int64 {
	if l.ended < 0 {
		return clock
	}
	return l.ended
}

// task is what is known of a task besides its attempts.
type task struct {
	name, kind, state string
	workflow          int
	parents           []int
	last              int // attempt; -1: none
}

// reader collects what the parts of a page need.
type reader struct {
	ctx   context.Context
	db    *sqlite.DB
	id    int64
	out   *run
	tasks []task
	lives []life
	clock int64
}

func read(ctx context.Context, db *sqlite.DB, name string) (*run, error) {
	info, err := db.Info(ctx, name)
	if err != nil {
		return nil, err
	}
	r := &reader{
		ctx: ctx,
		db:  db,
		out: &run{
			Name:      info.Name,
			Policy:    info.Policy,
			Runtime:   info.Runtime,
			Version:   info.Version,
			Command:   info.Command,
			Seed:      info.Seed,
			TimeScale: info.TimeScale,
			SizeScale: info.SizeScale,
			Settings:  info.Settings,
		},
	}
	if info.Host != nil {
		if r.out.Host, err = json.Marshal(info.Host); err != nil {
			return nil, err
		}
	}
	steps := []func() error{r.head, r.nodes, r.workflows, r.readTasks, r.edges, r.attempts, r.suspensions, r.waits,
		r.rest}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	r.answer()
	r.columns()
	return r.out, nil
}

// each runs a query and hands every row to scan.
func (r *reader) each(scan func(func(...any) error) error, query string, args ...any) error {
	rows, err := r.db.Query(r.ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (r *reader) head() error {
	o := r.out
	found := false
	err := r.each(func(scan func(...any) error) error {
		found = true
		return scan(&r.id, &o.State, &o.Started, &o.Resumes, &o.Makespan, &r.clock)
	}, `SELECT r.id, r.state, r.started_wall, r.resumes, r.makespan_ns, coalesce(c.at_ns, 0) FROM runs r
		LEFT JOIN clocks c ON c.run = r.id WHERE r.name = ?`, o.Name)
	if err == nil && !found {
		err = fmt.Errorf("the log has no such run")
	}
	return err
}

func (r *reader) nodes() error {
	return r.each(func(scan func(...any) error) error {
		var n node
		if err := scan(&n.Name, &n.Group, &n.Millicores, &n.Memory, &n.Speed); err != nil {
			return err
		}
		r.out.Nodes = append(r.out.Nodes, n)
		return nil
	}, `SELECT name, coalesce(node_group, ''), coalesce(capacity_millicores, 0), capacity_memory_bytes, speed
		FROM nodes WHERE run = ? ORDER BY node`, r.id)
}

func (r *reader) workflows() error {
	return r.each(func(scan func(...any) error) error {
		var w workflow
		err := scan(&w.Name, &w.Tenant, &w.Class, &w.State, &w.Arrived, &w.Release, &w.Due, &w.Ended, &w.Tasks)
		if err != nil {
			return err
		}
		r.out.Workflows = append(r.out.Workflows, w)
		return nil
	}, `SELECT name, coalesce(tenant, ''), class, state, arrived_ns, coalesce(release_ns, 0), due_ns, ended_ns,
		tasks FROM workflows WHERE run = ? ORDER BY workflow`, r.id)
}

func (r *reader) readTasks() error {
	return r.each(func(scan func(...any) error) error {
		t := task{last: -1}
		if err := scan(&t.name, &t.kind, &t.state, &t.workflow); err != nil {
			return err
		}
		r.tasks = append(r.tasks, t)
		return nil
	}, `SELECT name, kind, state, workflow FROM tasks WHERE run = ? ORDER BY task`, r.id)
}

func (r *reader) edges() error {
	return r.each(func(scan func(...any) error) error {
		var child, parent int
		if err := scan(&child, &parent); err != nil {
			return err
		}
		if child < len(r.tasks) && parent < len(r.tasks) {
			r.tasks[child].parents = append(r.tasks[child].parents, parent)
		}
		return nil
	}, `SELECT child, parent FROM edges WHERE run = ? ORDER BY child, parent`, r.id)
}

func (r *reader) attempts() error {
	err := r.each(func(scan func(...any) error) error {
		l := life{lane: -1}
		if err := scan(&l.task, &l.try, &l.node, &l.queued, &l.staged, &l.started, &l.ended, &l.planned, &l.estimate,
			&l.source, &l.outcome, &l.cpu, &l.peak, &l.read, &l.written, &l.millicores, &l.memory); err != nil {
			return err
		}
		if l.task >= len(r.tasks) || l.node >= len(r.out.Nodes) {
			return fmt.Errorf(
				"an attempt names task %d and node %d, which the run does not have: the log is damaged",
				l.task,
				l.node,
			)
		}
		r.lives = append(r.lives, l)
		return nil
	}, `SELECT task, try, node, queued_ns, coalesce(staged_ns, -1), coalesce(started_ns, -1), coalesce(ended_ns,
		-1), coalesce(planned_end_ns, -1),
		coalesce(estimate_ns, -1), coalesce(estimate_source, ''), coalesce(outcome, ''),
		coalesce(cpu_user_ns + cpu_system_ns, -1),
		coalesce(peak_memory_bytes, -1), coalesce(read_bytes, -1), coalesce(written_bytes, -1),
		coalesce(hold_millicores, 0), coalesce(hold_memory_bytes, 0)
		FROM attempts WHERE run = ? AND queued_ns IS NOT NULL ORDER BY queued_ns, attempt`, r.id)
	for i := range r.lives {
		l := &r.lives[i]
		t := &r.tasks[l.task]
		l.ready = r.ready(t)
		if t.last >= 0 {
			l.ready = r.lives[t.last].end(r.clock)
		}
		l.ready = min(l.ready, l.queued)
		t.last = i
	}
	return err
}

// ready is when a task could have been ordered: its parents had ended, and its workflow was there.
func (r *reader) ready(t *task) int64 {
	w := &r.out.Workflows[t.workflow]
	at := max(w.Arrived, w.Release)
	for _, p := range t.parents {
		if last := r.tasks[p].last; last >= 0 {
			at = max(at, r.lives[last].end(r.clock))
		}
	}
	return at
}

func (r *reader) suspensions() error {
	o := r.out
	number := map[int64]int64{}
	if err := r.each(func(scan func(...any) error) error {
		var id int64
		if err := scan(&id); err != nil {
			return err
		}
		number[id] = int64(len(number))
		return nil
	}, `SELECT attempt FROM attempts WHERE run = ? AND queued_ns IS NOT NULL ORDER BY queued_ns, attempt`,
		r.id); err != nil {
		return err
	}
	return r.each(func(scan func(...any) error) error {
		var id, since, until int64
		var how string
		if err := scan(&id, &since, &until, &how); err != nil {
			return err
		}
		if until < 0 {
			until = r.clock
		}
		o.Away.Attempt, o.Away.How = append(o.Away.Attempt, number[id]), append(o.Away.How, how)
		o.Away.Since, o.Away.Until = append(o.Away.Since, since), append(o.Away.Until, until)
		return nil
	}, `SELECT attempt, since_ns, coalesce(until_ns, -1), how FROM suspensions WHERE run = ?
		AND since_ns IS NOT NULL ORDER BY since_ns`, r.id)
}

// rest are the lists at the end of the page.
func (r *reader) rest() error {
	o := r.out
	o.Warnings, o.Failures = []warning{}, []failure{}
	if err := r.each(func(scan func(...any) error) error {
		var w warning
		err := scan(&w.Message, &w.Count)
		o.Warnings = append(o.Warnings, w)
		return err
	}, `SELECT message, count FROM warnings WHERE run = ?`, r.id); err != nil {
		return err
	}
	const most = 100
	if err := r.each(func(scan func(...any) error) error {
		var f failure
		err := scan(&f.Task, &f.Outcome, &f.Exit, &f.Message)
		o.Failures = append(o.Failures, f)
		return err
	}, fmt.Sprintf(`SELECT w.name || '/' || t.name, a.outcome, a.exit_code, coalesce(a.message, '') FROM attempts a
		CROSS JOIN tasks t ON t.run = a.run AND t.task = a.task CROSS JOIN workflows w ON w.run = a.run
		AND w.workflow = t.workflow
		WHERE a.run = ? AND a.outcome NOT IN ('ok', 'preempted') ORDER BY a.ended_ns LIMIT %d`, most),
		r.id); err != nil {
		return err
	}
	metrics, err := r.db.Metrics(r.ctx, o.Name)
	o.Metrics = map[string]*float64{}
	for _, m := range metrics {
		o.Metrics[m.Name] = nil
		if !math.IsNaN(m.Value) && !math.IsInf(m.Value, 0) {
			o.Metrics[m.Name] = &m.Value
		}
	}
	return err
}

// unitOf is the time that columns count in: fine enough to draw, and coarse enough for a small page.
func unitOf(end int64, attempts int) int64 {
	most := int64(1e8)
	if attempts > 20_000 {
		most = 2e6
	}
	unit := int64(1000)
	for end/unit > most {
		unit *= 10
	}
	return unit
}

// columns writes what was read as columns, by units.
func (r *reader) columns() {
	o := r.out
	o.Unit = unitOf(r.clock, len(r.lives))
	count := func(ns int64) int64 { return int64(math.Round(float64(ns) / float64(o.Unit))) }
	o.End = count(r.clock)
	if o.Makespan != nil {
		*o.Makespan = count(*o.Makespan)
	}
	for i := range o.Workflows {
		w := &o.Workflows[i]
		w.Arrived, w.Release = count(w.Arrived), count(w.Release)
		for _, p := range []*int64{w.Due, w.Ended} {
			if p != nil {
				*p = count(*p)
			}
		}
	}
	number := func(list *[]string, name string) int64 {
		i := slices.Index(*list, name)
		if i < 0 {
			i = len(*list)
			*list = append(*list, name)
		}
		return int64(i)
	}
	kinds := map[string]int64{}
	var names strings.Builder
	for i := range r.tasks {
		t := &r.tasks[i]
		k, ok := kinds[t.kind]
		if !ok {
			k = int64(len(kinds))
			kinds[t.kind] = k
			o.Kinds = append(o.Kinds, t.kind)
		}
		names.WriteString(strings.ReplaceAll(t.name, "\n", " "))
		names.WriteByte('\n')
		o.Task.Workflow, o.Task.Kind = append(o.Task.Workflow, int64(t.workflow)), append(o.Task.Kind, k)
		o.Task.State = append(o.Task.State, int64(max(0, slices.Index(states, t.state))))
		for _, p := range t.parents {
			o.Edges[0], o.Edges[1] = append(o.Edges[0], int64(i)), append(o.Edges[1], int64(p))
		}
	}
	o.Names = names.String()
	r.lanes()
	o.Outcomes, o.Sources = []string{""}, []string{""}
	a := &o.Attempt
	for i := range r.lives {
		l := &r.lives[i]
		known := int64(0)
		mark := func(bit int64, v int64) int64 {
			if v < 0 {
				return 0
			}
			known |= bit
			return v
		}
		end := l.end(r.clock)
		queued, staged := count(l.queued), count(max(l.staged, l.queued))
		started := staged
		if l.started >= 0 {
			started, known = count(l.started), known|knowsStart
		} else if l.ended >= 0 {
			started = count(end)
		}
		mark(knowsEnd, l.ended)
		over := int64(0)
		if l.planned >= 0 {
			over = count(end) - count(l.planned)
		}
		a.Task, a.Try, a.Node, a.Lane = append(
			a.Task,
			int64(l.task),
		), append(
			a.Try,
			int64(l.try),
		), append(
			a.Node,
			int64(l.node),
		), append(
			a.Lane,
			int64(l.lane),
		)
		a.Wait, a.Queued = append(a.Wait, queued-count(l.ready)), append(a.Queued, queued)
		a.Staging, a.Begin, a.Run = append(
			a.Staging,
			staged-queued,
		), append(
			a.Begin,
			started-staged,
		), append(
			a.Run,
			count(end)-started,
		)
		a.Over, a.Error = append(a.Over, over), append(a.Error, count(l.estimate)-(count(end)-staged))
		a.Source, a.Outcome = append(
			a.Source,
			number(&o.Sources, l.source),
		), append(
			a.Outcome,
			number(&o.Outcomes, l.outcome),
		)
		a.Cores, a.Memory = append(a.Cores, l.millicores), append(a.Memory, l.memory/1000)
		a.CPU, a.Peak = append(a.CPU, count(mark(knowsCPU, l.cpu))), append(a.Peak, mark(knowsMemory, l.peak)/1000)
		a.Read, a.Written = append(
			a.Read,
			mark(knowsDisk, l.read)/1000,
		), append(
			a.Written,
			mark(knowsDisk, l.written)/1000,
		)
		a.Known = append(a.Known, known)
	}
	for i := range o.Away.Since {
		o.Away.Since[i], o.Away.Until[i] = count(o.Away.Since[i]), count(o.Away.Until[i])
	}
	o.Answer.scale(count)
	o.Waits.Bin /= float64(o.Unit)
}

// lanes gives each attempt a row of its node, such that those of one row never overlap.
func (r *reader) lanes() {
	ends := make([][]int64, len(r.out.Nodes))
	for i := range r.lives {
		l := &r.lives[i]
		e := ends[l.node]
		l.lane = slices.IndexFunc(e, func(end int64) bool { return end <= l.queued })
		if l.lane < 0 {
			l.lane = len(e)
			e = append(e, 0)
		}
		e[l.lane] = max(l.end(r.clock), l.queued+1)
		ends[l.node] = e
	}
	for n := range ends {
		r.out.Nodes[n].Lanes = len(ends[n])
	}
}
