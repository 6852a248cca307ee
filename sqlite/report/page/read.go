package page

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"gantry/executor"
	"gantry/planner"
	"gantry/sqlite"
	"gantry/sqlite/report/history"
	"gantry/trace/shown"
)

// reader collects the data that the parts of a page need.
type reader struct {
	*history.Run
	*sqlite.Questions
	out *run
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
	left := false
	h, err := history.Read(ctx, log, info.Name, func(state string) int64 {
		running := state == string(sqlite.Running)
		if left = running && o.Left != nil && o.Left(info.Name, info.Runtime); !running || left || !o.Live {
			return 0
		}
		return int64(o.Now.Sub(info.Started)) // the clock of a run that is watched advances between its events
	})
	if err != nil {
		return nil, err
	}
	r := &reader{h, sqlite.Ask(ctx, log), &run{Name: h.Name, Submission: db.Submission(), Policy: h.Policy,
		Runtime: info.Runtime, State: h.State, Left: left, Started: h.Started, Version: info.Version,
		Command: info.Command, Seed: info.Seed,
		TimeScale: info.TimeScale, SizeScale: info.SizeScale, Settings: info.Settings, Resumes: h.Resumes,
		End: h.Clock, Makespan: h.Makespan, Nodes: h.Nodes, Workflows: h.Workflows, Without: []string{}}}
	if info.Host != nil {
		if r.out.Host, err = json.Marshal(info.Host); err != nil {
			return nil, err
		}
	}
	r.tables()
	r.waits()
	if info.Platform.Overlapped { // else files come with their tasks
		r.copied()
	}
	if r.Err != nil {
		return nil, r.Err
	}
	r.failures(o)
	if err := r.programs(ctx, db, o); err != nil {
		return nil, err
	}
	r.answer()
	r.columns()
	if r.out.Results = []Result{}; o.Results != nil && (!o.Live || r.out.State != string(sqlite.Running)) {
		var flows []string
		for i := range r.out.Workflows {
			if w := &r.out.Workflows[i]; w.State != "continued" { // another one of its name is in its place
				flows = append(flows, w.Name)
			}
		}
		if all, more := o.Results(info.Name, flows); len(all) > 0 {
			r.out.Results, r.out.More = all, more
		}
	}
	return r.out, r.others(ctx, o)
}

// tables reads the parts of a page that are tables of the log.
func (r *reader) tables() {
	o := r.out
	var all []predicted
	sqlite.Into(r.Questions, &all, `SELECT expected_ns, low_ns, high_ns, at_ns FROM predictions
		WHERE run = ? AND scope = ? ORDER BY at_ns DESC LIMIT 1`, r.ID, sqlite.ScopeRun)
	if len(all) > 0 {
		o.Predicted = &all[0]
	}
	var ends []int64
	sqlite.Into(r.Questions, &ends, "SELECT expected_ns FROM predictions WHERE run = ? AND scope = ?", r.ID,
		sqlite.ScopeRest)
	if len(ends) > 0 {
		o.Ends = &ends[0]
	}
	sqlite.Into(r.Questions, &o.Memory, `SELECT kind, held_gbh, used_gbh, wasted_gbh, saved_gbh
		FROM v_memory WHERE run = ? AND held_gbh > 0 ORDER BY held_gbh DESC LIMIT 200`, o.Name)
	sqlite.Into(r.Questions, &o.Reused, `SELECT task, at_ns, from_run, coalesce(ran_ns, 0)
		FROM reuses WHERE run = ? AND from_attempt IS NOT NULL ORDER BY task`, r.ID)
	for i := range o.Reused {
		o.Reused[i].Task = r.Task(o.Reused[i].Task)
	}
	sqlite.Into(r.Questions, &o.Odd, `SELECT attempt, nullif(max(exit_code, 0), 0),
		coalesce(message, ''), nullif(oom_kills, 0), nullif(dropped_bytes, 0), nullif(moved_bytes, 0), nullif(done, 0),
		nullif(kept, 0), nullif(before_ns, 0), nullif(lost_ns, 0), coalesce(gpus, ''), gpu_ns, peak_gpu_memory_bytes
		FROM attempts WHERE run = ? AND queued_ns IS NOT NULL AND (exit_code > 0 OR message IS NOT NULL OR
			oom_kills > 0 OR dropped_bytes > 0 OR moved_bytes > 0 OR done > 0 OR kept > 0 OR before_ns > 0 OR
			lost_ns > 0 OR gpus IS NOT NULL OR gpu_ns IS NOT NULL OR peak_gpu_memory_bytes IS NOT NULL)
		ORDER BY queued_ns, attempt`, r.ID)
	for i := range o.Odd {
		x := &o.Odd[i]
		x.Attempt, x.Message = r.Attempt(x.Attempt), cut(x.Message, maxMessage)
	}
	sqlite.Into(r.Questions, &o.Changes, `SELECT subject, at_ns, coalesce(body ->> '$.capacity[0]', 0) FROM events
		WHERE run = ? AND kind = 7 ORDER BY seq`, r.ID)
	sqlite.Into(r.Questions, &o.Notes, `SELECT at_ns, coalesce(workflow, -1), coalesce(task, -1), topic, text,
		instant_ns FROM notes WHERE run = ? ORDER BY seq, position LIMIT ?`, r.ID, maxNotes+1)
	for i := range o.Notes {
		n := &o.Notes[i]
		n.Workflow, n.Task = r.Flow(n.Workflow), r.Task(n.Task)
	}
	if len(o.Notes) > maxNotes {
		o.Notes = o.Notes[:maxNotes]
		o.Without = append(o.Without, fmt.Sprintf("The page has the first %d notes of the policy; gantry explain has "+
			"all of them.", maxNotes))
	}
	sqlite.Into(r.Questions, &o.Warnings, `SELECT message, count FROM warnings WHERE run = ?`, r.ID)
	o.Metrics = map[string]*float64{}
	sqlite.For(r.Questions, func(x *struct {
		Name  string
		Value *float64
	}) error {
		o.Metrics[x.Name] = x.Value
		return nil
	}, `SELECT name, value FROM run_metrics WHERE run = ?`, r.ID)
}

// mostCopies bounds the copies of files that a page has.
const mostCopies = 5000

// copied reads when files were ordered to nodes, and when they were there.
func (r *reader) copied() {
	under := map[[2]int64]int{} // way: the last copy of a file to a node
	sqlite.For(r.Questions, func(x *struct {
		At, File, Node, From int64
		Name                 *string // nil: the file is there
	}) error {
		at := [2]int64{x.File, x.Node}
		if k, ok := under[at]; ok && x.Name == nil {
			r.out.Copies[k].Until = new(x.At)
			delete(under, at)
		}
		if x.Name != nil && len(r.out.Copies) < mostCopies {
			under[at] = len(r.out.Copies)
			r.out.Copies = append(r.out.Copies, copied{*x.Name, x.Node, x.From, x.At, nil})
		}
		return nil
	}, `SELECT at_ns, x.file, node, source, f.name FROM (
			SELECT e.seq, e.at_ns, coalesce(o.value ->> 14, 0) AS file, coalesce(o.value ->> 3, 0) AS node,
				coalesce(o.value ->> 15, 0) AS source, 1 AS ordered
			FROM events e CROSS JOIN json_each(e.body, '$.orders') o
			WHERE e.run = ?1 AND e.kind = 9 AND o.value ->> 0 = 5
			UNION ALL SELECT seq, at_ns, subject, coalesce(body ->> 'node', 0), 0, 0 FROM events
			WHERE run = ?1 AND kind = 6) x
		LEFT JOIN files f ON x.ordered AND f.run = ?1 AND f.file = x.file ORDER BY seq`, r.ID)
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
func (r *reader) failures(o *Options) {
	r.out.Failures = []failure{}
	messages := map[int]string{}
	for _, x := range r.out.Odd {
		messages[x.Attempt] = x.Message
	}
	var failed []int
	for i := range r.Attempts {
		if o := r.Outcomes.Texts[r.Attempts[i].Outcome]; o != "" && o != "ok" && o != "preempted" {
			failed = append(failed, i)
		}
	}
	tried := func(i int) int { // in vain, but not for the last time
		if t := &r.Tasks[r.Attempts[i].Task]; t.Last == i && history.States[t.State] == "failed" {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(failed, func(a, b int) int {
		return cmp.Or(tried(a)-tried(b), cmp.Compare(r.Attempts[a].Ended, r.Attempts[b].Ended))
	})
	r.out.Failed = len(failed)
	for _, i := range failed[:min(len(failed), maxFailures)] {
		l := &r.Attempts[i]
		t := &r.Tasks[l.Task]
		w := r.out.Workflows[t.Workflow].Name
		f := failure{Attempt: i, Task: w + "/" + shown.Line(t.Name), Outcome: r.Outcomes.Texts[l.Outcome],
			Message: messages[i], Output: []string{}}
		if l.Exit >= 0 {
			f.Exit = &l.Exit
		}
		if o.Output != nil {
			f.Output = append(f.Output, o.Output(r.out.Name, w, t.Name, l.Try)...)
		}
		r.out.Failures = append(r.out.Failures, f)
	}
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

func (r *reader) programs(ctx context.Context, db *sqlite.DB, o *Options) error {
	most := maxRan
	if o.Live {
		most = maxLiveRan
	}
	if o.Command == nil || len(r.Tasks) > most {
		return nil
	}
	kept := cmp.Or(o.Ran, new(Ran))
	if kept.tasks != len(r.Tasks) {
		kept.tasks, kept.by = len(r.Tasks), map[planner.TaskID]ran{}
		text := 0
		info, err := db.Info(ctx, r.out.Name)
		if err != nil {
			return err
		}
		if err := db.Admissions(ctx, r.out.Name, func(a *executor.Admission) error {
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
	r.out.Ran = make([]ran, len(r.Tasks))
	for id, x := range kept.by {
		if at := r.Task(int(id)); at >= 0 {
			r.out.Ran[at] = x
		}
	}
	if len(kept.by) < len(r.Tasks) {
		r.out.Without = append(r.out.Without, fmt.Sprintf("The page has the commands of %d of %d tasks; gantry "+
			"explain has all of them.", len(kept.by), len(r.Tasks)))
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
