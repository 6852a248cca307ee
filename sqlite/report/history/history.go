// Package history reads a run of the log into memory: its nodes, workflows and tasks, and when attempts were where. The
// page, the figures and the comparison of runs are made of it.
package history

import (
	"context"
	"fmt"
	"slices"

	"gantry/planner"
	"gantry/sqlite"
)

// Run is a run, or as much of it as there is so far. Instants are nanoseconds since the run began, sizes are bytes;
// below 0 is not known.
type Run struct {
	ID        int64 // this and all to Clock are the columns of one query
	Name      string
	Policy    string
	State     string
	Started   string // RFC 3339
	Resumes   int
	Makespan  *int64 // nil: it is under way
	Clock     int64  // how far it got
	Nodes     []Node
	Workflows []Workflow
	Tasks     []Task
	Attempts  []Attempt // in the order of their orders
	Away      []Away    // by time

	Kinds, Imputed, Outcomes, Sources List

	parents                   []int // of all tasks, those of one together
	flowAt, taskAt, attemptAt places
}

// Node is a node of a run.
type Node struct {
	Name       string  `json:"name"`
	Group      string  `json:"group,omitempty"`
	Millicores int64   `json:"millicores"` // 0: unlimited
	Memory     *int64  `json:"memory"`     // nil: unlimited
	Disk       *int64  `json:"disk"`       // bytes a second; nil: unlimited
	Speed      float64 `json:"speed"`
	Lanes      int     `json:"lanes"` // attempts that were there at once
}

// Workflow is a workflow of a run, also one that another continues.
type Workflow struct {
	Name    string `json:"name"`
	Source  string `json:"source"`
	Tenant  string `json:"tenant,omitempty"`
	Class   string `json:"class"`
	State   string `json:"state"`
	Arrived int64  `json:"arrived"`
	Release int64  `json:"release"`
	Due     *int64 `json:"due"`
	Ended   *int64 `json:"ended"`
	Tasks   int    `json:"tasks"`
	Started *int64 `json:"-"`
}

// States are those of tasks, by number.
var States = []string{"waiting", "starting", "running", "suspended", "done", "failed", "skipped", "continued"}

// Task has the facts of a task besides its attempts. Like an attempt it has few pointers: there may be very many, and
// the collector would look at each again and again.
type Task struct {
	Name                       string
	Cores, Memory, Disk, Limit int64 // needed: millicores, bytes, bytes a second, nanoseconds; 0: none
	Ended                      int64
	Result                     int // the attempt whose results it has, perhaps of a task that it continues; -1: none
	Last                       int // its last attempt; -1: none
	Workflow                   int
	Kind, State, Imputed       int64 // in lists

	first, count int // parents: where they begin, and how many they are
}

// Attempt is an attempt of a task.
type Attempt struct {
	Number, Task, Try, Node, Lane                          int   // Node, Lane: -1 if it took no time and no place
	Ready                                                  int64 // its task, or the end of the try before
	Heard                                                  int64 // when gantry knew of the end
	Queued, Staged, Started, Ended, Ran, Planned           int64
	Estimate, Spread, Samples                              int64 // Estimate: -1 if it was the default
	CPU, Throttled, Peak, Read, Written, Copied            int64
	Millicores, Memory, Disk                               int64 // held
	AppliedCores, AppliedMemory, AppliedRead, AppliedWrite int64
	Exit                                                   int64
	Outcome, Source                                        int64 // in lists
}

// End is when the attempt left its node, or how far the run got.
func (a *Attempt) End(clock int64) int64 {
	if a.Ended < 0 {
		return clock
	}
	return a.Ended
}

// Away is a suspension of an attempt.
type Away struct {
	Attempt      int
	Since, Until int64
	How          string // freeze, checkpoint, restart
}

// List gives texts that repeat numbers.
type List struct {
	Texts   []string
	numbers map[string]int64
}

// NewList returns a list that begins with some texts.
func NewList(first ...string) List {
	l := List{Texts: []string{}, numbers: map[string]int64{}}
	for _, text := range first {
		l.Number(text)
	}
	return l
}

// Number is that of a text.
func (l *List) Number(text string) int64 {
	n, ok := l.numbers[text]
	if !ok {
		n = int64(len(l.Texts))
		l.numbers[text], l.Texts = n, append(l.Texts, text)
	}
	return n
}

// places are where things stand in the lists of a run, by their numbers in the log: the same but in the log of one
// submission, which keeps the numbers of the run.
type places map[int]int

func (p places) of(number int) int {
	if at, ok := p[number]; ok {
		return at
	}
	return -1
}

// Flow is where a workflow of a number in the log stands; -1: nowhere.
func (r *Run) Flow(number int) int { return r.flowAt.of(number) }

// Task is where a task of a number in the log stands; -1: nowhere.
func (r *Run) Task(number int) int { return r.taskAt.of(number) }

// Attempt is where an attempt of a number in the log stands; -1: nowhere.
func (r *Run) Attempt(number int) int { return r.attemptAt.of(number) }

// Parents are those of a task.
func (r *Run) Parents(t *Task) []int { return r.parents[t.first:][:t.count] }

// Read reads a run, given by its whole name. Its clock is at least at goesOn, which gets the state; nil: it is not.
func Read(ctx context.Context, db sqlite.Asked, name string, goesOn func(state string) int64) (*Run, error) {
	r, err := sqlite.RowOf[Run](ctx, db, `SELECT r.id, r.name, r.policy, r.state, r.started_wall, r.resumes,
		r.makespan_ns, coalesce(c.at_ns, 0) FROM runs r LEFT JOIN clocks c ON c.run = r.id WHERE r.name = ?`, name)
	if err == nil && r.ID == 0 {
		err = fmt.Errorf("the log has no such run")
	}
	if err != nil {
		return nil, err
	}
	r.Kinds, r.Imputed, r.Outcomes, r.Sources = NewList(), NewList(""), NewList(""), NewList("")
	r.flowAt, r.taskAt, r.attemptAt = places{}, places{}, places{}
	if goesOn != nil {
		r.Clock = max(r.Clock, goesOn(r.State))
	}
	q := sqlite.Ask(ctx, db)
	sqlite.Into(q, &r.Nodes, `SELECT name, coalesce(node_group, ''), coalesce(capacity_millicores, 0),
		capacity_memory_bytes, capacity_disk_bps, speed FROM nodes WHERE run = ? ORDER BY node`, r.ID)
	r.readWorkflows(q)
	r.readTasks(q)
	r.readParents(q)
	r.readAttempts(q)
	r.readEnds(q)
	sqlite.Into(q, &r.Away, `SELECT attempt, since_ns, coalesce(until_ns, ?), how FROM suspensions
		WHERE run = ? AND since_ns IS NOT NULL ORDER BY since_ns`, r.Clock, r.ID)
	if q.Err != nil {
		return nil, q.Err
	}
	for i := range r.Away {
		r.Away[i].Attempt = r.Attempt(r.Away[i].Attempt)
	}
	var slots sqlite.Slots
	for i := range r.Attempts {
		if a := &r.Attempts[i]; a.Node >= 0 {
			a.Lane = slots.Take(a.Node, a.Queued, a.End(r.Clock))
		}
	}
	for n, rows := range slots {
		r.Nodes[n].Lanes = len(rows)
	}
	return &r, nil
}

func (r *Run) readWorkflows(q *sqlite.Questions) {
	sqlite.For(q, func(w *struct {
		Number   int
		Workflow Workflow
	}) error {
		r.flowAt[w.Number] = len(r.Workflows)
		r.Workflows = append(r.Workflows, w.Workflow)
		return nil
	}, `SELECT workflow, name, source, coalesce(tenant, ''), class, state, arrived_ns, coalesce(release_ns, 0), due_ns,
		ended_ns, tasks, started_ns FROM workflows WHERE run = ? ORDER BY workflow`, r.ID)
}

func (r *Run) readTasks(q *sqlite.Questions) {
	sqlite.For(q, func(row *struct {
		Number, Flow         int
		Kind, State, Imputed string
		Task                 Task
	}) error {
		t := row.Task
		t.Kind, t.State, t.Imputed = r.Kinds.Number(row.Kind), max(0, int64(slices.Index(States, row.State))),
			r.Imputed.Number(row.Imputed)
		if t.Workflow = r.Flow(row.Flow); t.Workflow < 0 {
			return fmt.Errorf("task %d names workflow %d, which the run does not have: the log is damaged", row.Number,
				row.Flow)
		}
		r.taskAt[row.Number] = len(r.Tasks)
		r.Tasks = append(r.Tasks, t)
		return nil
	}, `SELECT task, workflow, kind, state, coalesce(imputed, ''), name, need_millicores, need_memory_bytes,
		need_disk_bps, coalesce(time_limit_ns, 0), coalesce(ended_ns, -1), coalesce(attempt, -1), -1 FROM tasks
		WHERE run = ? ORDER BY task`, r.ID)
}

func (r *Run) readParents(q *sqlite.Questions) {
	sqlite.For(q, func(edge *[2]int) error {
		if child, parent := r.Task(edge[0]), r.Task(edge[1]); child >= 0 && parent >= 0 {
			t := &r.Tasks[child]
			if t.count == 0 {
				t.first = len(r.parents)
			}
			t.count++
			r.parents = append(r.parents, parent)
		}
		return nil
	}, `SELECT child, parent FROM edges WHERE run = ? ORDER BY child, parent`, r.ID)
}

func (r *Run) readAttempts(q *sqlite.Questions) {
	r.Attempts = make([]Attempt, 0, len(r.Tasks))
	sqlite.For(q, func(row *struct {
		Outcome, Source string
		Attempt         Attempt
	}) error {
		a := row.Attempt
		if a.Task = r.Task(row.Attempt.Task); a.Task < 0 || a.Node >= len(r.Nodes) {
			return fmt.Errorf("attempt %d names task %d and node %d, which the run does not have: the log is damaged",
				a.Number, row.Attempt.Task, a.Node)
		}
		a.Outcome, a.Source = r.Outcomes.Number(row.Outcome), r.Sources.Number(row.Source)
		t := &r.Tasks[a.Task]
		if a.Ready = r.ready(t); t.Last >= 0 {
			a.Ready = r.Attempts[t.Last].End(r.Clock)
		}
		a.Ready = min(a.Ready, a.Queued)
		t.Last, r.attemptAt[a.Number] = len(r.Attempts), len(r.Attempts)
		r.Attempts = append(r.Attempts, a)
		return nil
	}, `SELECT coalesce(outcome, ''), coalesce(estimate_source, ''), attempt, task, try, node, -1, queued_ns,
		coalesce(ended_ns, -1), queued_ns, coalesce(staged_ns, -1), coalesce(started_ns, -1), coalesce(ended_ns, -1),
		coalesce(ran_ns, -1), coalesce(planned_end_ns, -1),
		coalesce(CASE WHEN estimate_source <> 'default' THEN estimate_ns END, -1), coalesce(estimate_spread_ns, 0),
		coalesce(estimate_samples, 0), coalesce(cpu_user_ns + cpu_system_ns, -1), coalesce(cpu_throttled_ns, -1),
		coalesce(peak_memory_bytes, -1), coalesce(read_bytes, -1), coalesce(written_bytes, -1),
		coalesce(copied_bytes, 0), coalesce(hold_millicores, 0), coalesce(hold_memory_bytes, 0),
		coalesce(hold_disk_bps, 0), coalesce(applied_cpu_millicores, 0), coalesce(applied_memory_bytes, 0),
		coalesce(applied_read_bps, 0), coalesce(applied_write_bps, 0), coalesce(exit_code, -1)
		FROM attempts WHERE run = ? AND queued_ns IS NOT NULL ORDER BY queued_ns, attempt`, r.ID)
	for i := range r.Tasks {
		r.Tasks[i].Result = r.Attempt(r.Tasks[i].Result)
	}
}

// ready is when a task could have been ordered: its parents had ended, and its workflow was there. Attempts are read in
// the order of their orders: those of its parents are there.
func (r *Run) ready(t *Task) int64 {
	w := &r.Workflows[t.Workflow]
	at := max(w.Arrived, w.Release)
	for _, p := range r.Parents(t) {
		if last := r.Tasks[p].Last; last >= 0 {
			at = max(at, r.Attempts[last].End(r.Clock))
		}
	}
	return at
}

// readEnds reads when gantry knew of the ends of attempts: in a simulation at once.
func (r *Run) readEnds(q *sqlite.Questions) {
	sqlite.For(q, func(end *struct {
		Number int
		At     int64
	}) error {
		if i := r.Attempt(end.Number); i >= 0 && r.Attempts[i].Ended >= 0 {
			r.Attempts[i].Heard = max(end.At, r.Attempts[i].Ended)
		}
		return nil
	}, `SELECT subject, at_ns FROM events WHERE run = ? AND kind = ?`, r.ID, planner.KindAttemptExited)
}
