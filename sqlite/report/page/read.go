package page

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"gantry/executor"
	"gantry/planner"
	"gantry/sqlite"
	"gantry/trace/shown"
)

// life is an attempt as the log has it, in nanoseconds and bytes; below 0 is not known. It has no pointers: there may
// be very many, and the collector would look at each again and again.
type life struct {
	id int
	// heard is when gantry knew of the end.
	heard                                                  int64
	task, try, node, lane                                  int
	ready, queued, staged, started, ended, planned         int64
	estimate, spread, samples                              int64
	cpu, throttled, peak, read, written, copied            int64
	millicores, memory, disk                               int64
	appliedCores, appliedMemory, appliedRead, appliedWrite int64
	outcome, source                                        int64 // in the lists of the reader
	exit                                                   int64 // -1: not known
}

// end is when the attempt left its node, or how far the run got.
func (l *life) end(clock int64) int64 {
	if l.ended < 0 {
		return clock
	}
	return l.ended
}

// task has the facts of a task besides its attempts.
type task struct {
	name                       string
	kind, state, imputed       int64 // in states and the lists of the reader
	workflow                   int
	first, parents             int // of the parents of the run: where those of the task begin, and how many they are
	last                       int // attempt; -1: none
	cores, memory, disk, limit int64
}

// reader collects the data that the parts of a page need.
type reader struct {
	ctx   context.Context
	log   *sqlite.Snapshot
	id    int64
	out   *run
	tasks []task
	lives []life
	clock int64

	ancestors                         []int // parents of all tasks, those of one together
	kinds, imputed, outcomes, sources *list

	flowAt, taskAt, attemptAt places
}

// places are where things stand on the page, by their numbers in the log: the same but in the log of one submission,
// which keeps the numbers of the run.
type places map[int]int

// of is the place of a number, or -1.
func (p places) of(number int) int {
	if at, ok := p[number]; ok {
		return at
	}
	return -1
}

// read reads a run. All parts are of one moment.
func read(ctx context.Context, db *sqlite.DB, name string, o *Options) (*run, error) {
	info, err := db.Info(ctx, name)
	if err != nil {
		return nil, err
	}
	log, err := db.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	r := &reader{
		ctx:   ctx,
		log:   log,
		kinds: newList(), imputed: newList(""), outcomes: newList(""), sources: newList(""),
		flowAt: places{}, taskAt: places{}, attemptAt: places{},
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
			Without:   []string{},
		},
	}
	if info.Host != nil {
		if r.out.Host, err = json.Marshal(info.Host); err != nil {
			return nil, err
		}
	}
	steps := []func() error{r.head, r.predicted, r.memory, func() error { return r.goesOn(info.Started, o) }, r.nodes,
		r.workflows, r.readTasks, r.edges, r.attempts, r.reused, r.ends, r.suspensions, r.copied, r.changed,
		r.waits, r.notes, r.warnings,
		func() error { return r.failures(o) }, r.metrics, func() error { return r.programs(db, o) }}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	r.answer()
	r.columns()
	if r.out.Results = []Result{}; o.Results != nil && (!o.Live || r.out.State != string(sqlite.Running)) {
		flows := make([]string, len(r.out.Workflows))
		for i := range flows {
			flows[i] = r.out.Workflows[i].Name
		}
		if all, more := o.Results(info.Name, flows); len(all) > 0 {
			r.out.Results, r.out.More = all, more
		}
	}
	return r.out, r.others(ctx, o)
}

// each calls f for each row of a query.
func (r *reader) each(f func(sqlite.Scan) error, query string, args ...any) error {
	return r.log.Each(r.ctx, f, query, args...)
}

func (r *reader) head() error {
	o := r.out
	err := r.each(func(scan sqlite.Scan) error {
		return scan(&r.id, &o.State, &o.Started, &o.Resumes, &o.Makespan, &r.clock)
	}, `SELECT r.id, r.state, r.started_wall, r.resumes, r.makespan_ns, coalesce(c.at_ns, 0) FROM runs r
		LEFT JOIN clocks c ON c.run = r.id WHERE r.name = ?`, o.Name)
	if err == nil && r.id == 0 {
		err = fmt.Errorf("the log has no such run")
	}
	return err
}

func (r *reader) predicted() error {
	all, err := sqlite.RowsOf[predicted](r.ctx, r.log, `SELECT expected_ns, low_ns, high_ns, at_ns FROM predictions
		WHERE run = ? AND scope = ? ORDER BY at_ns DESC LIMIT 1`, r.id, sqlite.ScopeRun)
	if len(all) > 0 {
		r.out.Predicted = &all[0]
	}
	return err
}

// goesOn lets the clock of a run that is watched advance between its events.
func (r *reader) goesOn(started time.Time, o *Options) error {
	if r.out.State != string(sqlite.Running) {
		return nil
	}
	r.out.Left = o.Left != nil && o.Left(r.out.Name, r.out.Runtime)
	if o.Live && !r.out.Left {
		r.clock = max(r.clock, int64(o.Now.Sub(started)))
	}
	return nil
}

func (r *reader) memory() (err error) {
	r.out.Memory, err = sqlite.RowsOf[memory](r.ctx, r.log, `SELECT kind, held_gbh, used_gbh, wasted_gbh, saved_gbh
		FROM v_memory WHERE run = ? AND held_gbh > 0 ORDER BY held_gbh DESC LIMIT 200`, r.out.Name)
	return err
}

func (r *reader) nodes() (err error) {
	r.out.Nodes, err = sqlite.RowsOf[node](r.ctx, r.log, `SELECT name, coalesce(node_group, ''),
		coalesce(capacity_millicores, 0), capacity_memory_bytes, capacity_disk_bps, speed
		FROM nodes WHERE run = ? ORDER BY node`, r.id)
	return err
}

func (r *reader) workflows() error {
	return sqlite.EachRow(r.ctx, r.log, func(w *struct {
		Number   int
		Workflow workflow
	}) error {
		r.flowAt[w.Number] = len(r.out.Workflows)
		r.out.Workflows = append(r.out.Workflows, w.Workflow)
		return nil
	}, `SELECT workflow, name, source, coalesce(tenant, ''), class, state, arrived_ns, coalesce(release_ns, 0), due_ns,
		ended_ns, tasks FROM workflows WHERE run = ? ORDER BY workflow`, r.id)
}

func (r *reader) readTasks() error {
	return r.each(func(scan sqlite.Scan) error {
		t := task{last: -1}
		var number, of int
		var kind, state, imputed string
		if err := scan(&number, &t.name, &kind, &state, &of, &imputed, &t.cores, &t.memory, &t.disk,
			&t.limit); err != nil {
			return err
		}
		t.name = shown.Line(t.name)
		t.kind, t.state, t.imputed = r.kinds.number(shown.Line(kind)), max(0, int64(slices.Index(states, state))),
			r.imputed.number(imputed)
		if t.workflow = r.flowAt.of(of); t.workflow < 0 {
			return fmt.Errorf("task %d names workflow %d, which the run does not have: the log is damaged", number, of)
		}
		r.taskAt[number] = len(r.tasks)
		r.tasks = append(r.tasks, t)
		return nil
	}, `SELECT task, name, kind, state, workflow, coalesce(imputed, ''), need_millicores, need_memory_bytes,
		need_disk_bps, coalesce(time_limit_ns, 0) FROM tasks WHERE run = ? ORDER BY task`, r.id)
}

func (r *reader) edges() error {
	return sqlite.EachRow(r.ctx, r.log, func(edge *[2]int) error {
		if child, parent := r.taskAt.of(edge[0]), r.taskAt.of(edge[1]); child >= 0 && parent >= 0 {
			t := &r.tasks[child]
			if t.parents == 0 {
				t.first = len(r.ancestors)
			}
			t.parents++
			r.ancestors = append(r.ancestors, parent)
		}
		return nil
	}, `SELECT child, parent FROM edges WHERE run = ? ORDER BY child, parent`, r.id)
}

// parents are those of a task.
func (r *reader) parents(t *task) []int { return r.ancestors[t.first:][:t.parents] }

// reused reads tasks that ended without an attempt of their own.
func (r *reader) reused() (err error) {
	r.out.Reused, err = sqlite.RowsOf[reused](r.ctx, r.log, `SELECT task, at_ns, from_run, coalesce(ran_ns, 0)
		FROM reuses WHERE run = ? AND from_attempt IS NOT NULL ORDER BY task`, r.id)
	for i := range r.out.Reused {
		r.out.Reused[i].Task = r.taskAt.of(r.out.Reused[i].Task)
	}
	return err
}

func (r *reader) attempts() error {
	r.out.Odd = []odd{}
	r.lives = make([]life, 0, len(r.tasks))
	err := r.each(func(scan sqlite.Scan) error {
		l := life{lane: -1}
		var x odd
		var source, outcome string
		var exit *int64
		if err := scan(&l.id, &l.task, &l.try, &l.node, &l.queued, &l.staged, &l.started, &l.ended, &l.planned,
			&l.estimate, &l.spread, &l.samples, &source, &outcome, &l.cpu, &l.throttled, &l.peak, &l.read,
			&l.written, &l.copied, &l.millicores, &l.memory, &l.disk, &l.appliedCores, &l.appliedMemory, &l.appliedRead,
			&l.appliedWrite, &exit, &x.Message, &x.OOM, &x.Dropped, &x.Moved, &x.Done, &x.Kept, &x.Before,
			&x.Lost, &x.GPUs, &x.GPU, &x.GPUPeak); err != nil {
			return err
		}
		number := l.task
		if l.task = r.taskAt.of(number); l.task < 0 || l.node >= len(r.out.Nodes) {
			return fmt.Errorf("an attempt names task %d and node %d, which the run does not have: the log is damaged",
				number, l.node)
		}
		l.source, l.outcome, l.exit = r.sources.number(source), r.outcomes.number(outcome), -1
		if exit != nil {
			l.exit = *exit
		}
		if l.exit > 0 {
			x.Exit = exit
		}
		if x != (odd{}) {
			x.Attempt, x.Message = len(r.lives), cut(x.Message, maxMessage)
			r.out.Odd = append(r.out.Odd, x)
		}
		l.heard, r.attemptAt[l.id] = l.ended, len(r.lives)
		r.lives = append(r.lives, l)
		return nil
	}, `SELECT attempt, task, try, node, queued_ns, coalesce(staged_ns, -1), coalesce(started_ns, -1),
		coalesce(ended_ns, -1), coalesce(planned_end_ns, -1),
		coalesce(CASE WHEN estimate_source <> 'default' THEN estimate_ns END, -1),
		coalesce(estimate_spread_ns, 0), coalesce(estimate_samples, 0),
		coalesce(estimate_source, ''), coalesce(outcome, ''),
		coalesce(cpu_user_ns + cpu_system_ns, -1), coalesce(cpu_throttled_ns, -1),
		coalesce(peak_memory_bytes, -1), coalesce(read_bytes, -1), coalesce(written_bytes, -1),
		coalesce(copied_bytes, 0), coalesce(hold_millicores, 0), coalesce(hold_memory_bytes, 0),
		coalesce(hold_disk_bps, 0), coalesce(applied_cpu_millicores, 0), coalesce(applied_memory_bytes, 0),
		coalesce(applied_read_bps, 0), coalesce(applied_write_bps, 0), exit_code, coalesce(message, ''),
		nullif(oom_kills, 0), nullif(dropped_bytes, 0), nullif(moved_bytes, 0), nullif(done, 0), nullif(kept, 0),
		nullif(before_ns, 0), nullif(lost_ns, 0), coalesce(gpus, ''), gpu_ns, peak_gpu_memory_bytes
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
	for _, p := range r.parents(t) {
		if last := r.tasks[p].last; last >= 0 {
			at = max(at, r.lives[last].end(r.clock))
		}
	}
	return at
}

// ends reads when gantry knew of the ends of attempts: in a simulation at once.
func (r *reader) ends() error {
	return sqlite.EachRow(r.ctx, r.log, func(end *struct {
		ID int
		At int64
	}) error {
		if i := r.attemptAt.of(end.ID); i >= 0 && r.lives[i].ended >= 0 {
			r.lives[i].heard = max(end.At, r.lives[i].ended)
		}
		return nil
	}, `SELECT subject, at_ns FROM events WHERE run = ? AND kind = ?`, r.id, planner.KindAttemptExited)
}

func (r *reader) suspensions() error {
	o := r.out
	return sqlite.EachRow(r.ctx, r.log, func(s *struct {
		ID           int
		Since, Until int64
		How          string
	}) error {
		o.Away.Attempt, o.Away.How = append(o.Away.Attempt, int64(r.attemptAt[s.ID])), append(o.Away.How, s.How)
		o.Away.Since, o.Away.Until = append(o.Away.Since, s.Since), append(o.Away.Until, s.Until)
		return nil
	}, `SELECT attempt, since_ns, coalesce(until_ns, ?), how FROM suspensions WHERE run = ?
		AND since_ns IS NOT NULL ORDER BY since_ns`, r.clock, r.id)
}

// mostCopies bounds the copies of files that a page has.
const mostCopies = 5000

// copied reads when files were ordered to nodes, and when they were there.
func (r *reader) copied() error {
	under := map[[2]int64]int{} // way: the last copy of a file to a node
	return sqlite.EachRow(r.ctx, r.log, func(x *struct {
		At, File, Node, From int64
		Name                 *string // nil: the file is there
	}) error {
		at := [2]int64{x.File, x.Node}
		if k, ok := under[at]; ok && x.Name == nil {
			r.out.Copies[k].Until = x.At
			delete(under, at)
		}
		if x.Name != nil && len(r.out.Copies) < mostCopies {
			under[at] = len(r.out.Copies)
			r.out.Copies = append(r.out.Copies, copied{*x.Name, x.Node, x.From, x.At, -1})
		}
		return nil
	}, `SELECT at_ns, x.file, node, source, f.name FROM (
			SELECT e.seq, e.at_ns, coalesce(o.value ->> 14, 0) AS file, coalesce(o.value ->> 3, 0) AS node,
				coalesce(o.value ->> 15, 0) AS source, 1 AS ordered
			FROM events e CROSS JOIN json_each(e.body, '$.orders') o
			WHERE e.run = ?1 AND e.kind = 9 AND e.body LIKE '%[5,%' AND o.value ->> 0 = 5
			UNION ALL SELECT seq, at_ns, subject, coalesce(body ->> 'node', 0), 0, 0 FROM events
			WHERE run = ?1 AND kind = 6) x
		LEFT JOIN files f ON x.ordered AND f.run = ?1 AND f.file = x.file ORDER BY seq`, r.id)
}

// changed reads the new capacities of nodes.
func (r *reader) changed() (err error) {
	r.out.Changes, err = sqlite.RowsOf[change](r.ctx, r.log, `SELECT subject, at_ns,
		coalesce(body ->> '$.capacity[0]', 0) FROM events WHERE run = ? AND kind = 7 ORDER BY seq`, r.id)
	return err
}

func (r *reader) warnings() (err error) {
	r.out.Warnings, err = sqlite.RowsOf[warning](r.ctx, r.log, `SELECT message, count FROM warnings WHERE run = ?`,
		r.id)
	return err
}

// Bounds of the failures and notes of a page, and of the length of a message in bytes.
const (
	maxFailures = 100
	maxNotes    = 20_000
	maxMessage  = 4000
)

// cut shortens a message of a program or of the kernel.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// failures are the attempts that did not end well, the first of many.
func (r *reader) failures(o *Options) error {
	r.out.Failures = []failure{}
	messages := map[int]string{}
	for _, x := range r.out.Odd {
		messages[x.Attempt] = x.Message
	}
	var failed []int
	for i := range r.lives {
		if o := r.outcomes.texts[r.lives[i].outcome]; o != "" && o != "ok" && o != "preempted" {
			failed = append(failed, i)
		}
	}
	tried := func(i int) int { // in vain, but not for the last time
		if t := &r.tasks[r.lives[i].task]; t.last == i && states[t.state] == "failed" {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(failed, func(a, b int) int {
		return cmp.Or(tried(a)-tried(b), cmp.Compare(r.lives[a].ended, r.lives[b].ended))
	})
	r.out.Failed = len(failed)
	for _, i := range failed[:min(len(failed), maxFailures)] {
		l := &r.lives[i]
		t := &r.tasks[l.task]
		w := r.out.Workflows[t.workflow].Name
		f := failure{Attempt: i, Task: w + "/" + t.name, Outcome: r.outcomes.texts[l.outcome], Message: messages[i],
			Output: []string{}}
		if l.exit >= 0 {
			f.Exit = &l.exit
		}
		if o.Output != nil {
			f.Output = append(f.Output, o.Output(r.out.Name, w, t.name, l.try)...)
		}
		r.out.Failures = append(r.out.Failures, f)
	}
	return nil
}

// Ran are the programs of a run.
type Ran struct {
	tasks int
	by    map[planner.TaskID]ran
}

// Bounds of the programs that a page has, and of the length of one and of its list of files.
const (
	maxRan      = 20_000
	maxLiveRan  = 3000
	maxRanText  = 4 << 20
	maxRanFiles = 20
)

// programs reads what tasks run.
func (r *reader) programs(db *sqlite.DB, o *Options) error {
	most := maxRan
	if o.Live {
		most = maxLiveRan
	}
	if o.Command == nil || len(r.tasks) > most {
		return nil
	}
	kept := cmp.Or(o.Ran, new(Ran))
	if kept.tasks != len(r.tasks) {
		kept.tasks, kept.by = len(r.tasks), map[planner.TaskID]ran{}
		text := 0
		info, err := db.Info(r.ctx, r.out.Name)
		if err != nil {
			return err
		}
		if err := db.Admissions(r.ctx, r.out.Name, func(a *executor.Admission) error {
			besides := info.Besides(a)
			for i, t := range a.Tasks {
				x := ran{shown.Text(cut(o.Command(t), maxMessage)), t.Image, filesOf(t.Inputs), filesOf(t.Outputs),
					besides(i)}
				text += len(x.Command) + len(strings.Join(x.Inputs, "")) + len(strings.Join(x.Outputs, ""))
				if text <= maxRanText {
					kept.by[a.Arrived.Tasks[i].ID] = x
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	r.out.Ran = make([]ran, len(r.tasks))
	for id, x := range kept.by {
		if at := r.taskAt.of(int(id)); at >= 0 {
			r.out.Ran[at] = x
		}
	}
	if len(kept.by) < len(r.tasks) {
		r.out.Without = append(r.out.Without, fmt.Sprintf("The page has the commands of %d of %d tasks; gantry "+
			"explain has all of them.", len(kept.by), len(r.tasks)))
	}
	return nil
}

// filesOf are the names of files, of many the first.
func filesOf(files []*executor.FileSpec) (names []string) {
	for i, f := range files {
		if i == maxRanFiles {
			return append(names, fmt.Sprintf("and %d more", len(files)-i))
		}
		names = append(names, shown.Line(cut(f.Name, maxMessage/maxRanFiles)))
	}
	return names
}

// notes are the notes of the policy.
func (r *reader) notes() (err error) {
	r.out.Notes, err = sqlite.RowsOf[note](r.ctx, r.log, `SELECT at_ns, coalesce(workflow, -1), coalesce(task, -1),
		topic, text, instant_ns FROM notes WHERE run = ? ORDER BY seq, position LIMIT ?`, r.id, maxNotes+1)
	for i := range r.out.Notes {
		n := &r.out.Notes[i]
		n.Workflow, n.Task = r.flowAt.of(n.Workflow), r.taskAt.of(n.Task)
	}
	if len(r.out.Notes) > maxNotes {
		r.out.Notes = r.out.Notes[:maxNotes]
		r.out.Without = append(r.out.Without, fmt.Sprintf("The page has the first %d notes of the policy; gantry "+
			"explain has all of them.", maxNotes))
	}
	return err
}

func (r *reader) metrics() (err error) {
	r.out.Metrics, err = sqlite.MapOf[string, *float64](r.ctx, r.log,
		`SELECT name, value FROM run_metrics WHERE run = ?`, r.id)
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

// lanes gives each attempt a row of its node, such that those of one row never overlap.
func (r *reader) lanes() {
	var slots sqlite.Slots
	for i := range r.lives {
		if l := &r.lives[i]; l.node >= 0 { // else it took no time and no place
			l.lane = slots.Take(l.node, l.queued, l.end(r.clock))
		}
	}
	for n, rows := range slots {
		r.out.Nodes[n].Lanes = len(rows)
	}
}
