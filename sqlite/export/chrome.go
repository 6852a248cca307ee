package export

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"gantry/executor"
	"gantry/planner"
	"gantry/sqlite"
)

// micros is an instant or a span in nanoseconds; the Trace Event Format counts microseconds.
type micros int64

func (m micros) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "%d.%03d", m/1000, m%1000), nil
}

// traceEvent is an event of the Trace Event Format, with its names: ph is the kind, pid the process, tid the thread.
type traceEvent struct {
	Name  string  `json:"name"`
	Cat   string  `json:"cat,omitempty"`
	Ph    string  `json:"ph"`
	TS    micros  `json:"ts"`
	Dur   *micros `json:"dur,omitempty"`
	PID   int     `json:"pid"`
	TID   int     `json:"tid"`
	ID    string  `json:"id,omitempty"`
	BP    string  `json:"bp,omitempty"`
	Scope string  `json:"s,omitempty"`
	Args  any     `json:"args,omitempty"`
}

// place is where and when the last attempt of a task was, for the flows of its files.
type place struct {
	from, to int64
	pid, tid int32
	ok       bool
}

// chrome writes the events of a run one by one.
type chrome struct {
	ctx    context.Context
	db     *sqlite.DB
	run    string
	id     int64 // of the run in the log
	clock  int64
	out    *bufio.Writer
	events int
	err    error // the first of out
	slots  sqlite.Slots
	places []place              // by task
	away   map[int64][][2]int64 // by attempt: when it was frozen
}

// Chrome writes a run in the Trace Event Format, which chrome://tracing and Perfetto open. Nodes are processes, slots
// are threads. An attempt is a slice, and its phases are slices within it. Workflows are asynchronous slices of a
// process of their own. Counters show the cores and the memory that tasks held and used. Flows lead from the task that
// wrote a file to those that read it. Only the place of each task's last attempt is kept in memory.
func Chrome(ctx context.Context, w io.Writer, db *sqlite.DB, run string) error {
	info, err := db.Info(ctx, run)
	if err != nil {
		return err
	}
	c := &chrome{ctx: ctx, db: db, run: info.Name, out: bufio.NewWriter(w)}
	row, err := sqlite.RowOf[struct {
		ID, Clock int64
		State     string
	}](ctx, db, `SELECT r.id, coalesce(k.at_ns, 0), r.state FROM runs r LEFT JOIN clocks k ON k.run = r.id
		WHERE r.name = ?`, info.Name)
	if err != nil {
		return err
	}
	c.id, c.clock = row.ID, row.Clock
	head, err := json.Marshal(map[string]any{"run": info.Name, "policy": info.Policy, "runtime": info.Runtime,
		"state": row.State, "started": info.Started, "version": info.Version, "time_scale": info.TimeScale})
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "{\"displayTimeUnit\":\"ms\",\"otherData\":%s,\n\"traceEvents\":[", head)
	for i, n := range info.Platform.Nodes {
		c.process(i+1, "node "+n.Name)
	}
	for _, part := range []func() error{c.frozen, c.attempts, c.reused, c.workflows, c.loads, c.files} {
		if err := part(); err != nil {
			return err
		}
	}
	for node, rows := range c.slots {
		for k := range rows {
			c.meta("thread_name", node+1, k+1, map[string]any{"name": "slot " + strconv.Itoa(k+1)})
			c.meta("thread_sort_index", node+1, k+1, map[string]any{"sort_index": k})
		}
	}
	c.out.WriteString("\n]}\n")
	if c.err != nil {
		return c.err
	}
	return c.out.Flush()
}

func (c *chrome) event(e traceEvent) {
	text, err := json.Marshal(e)
	if err != nil {
		c.err = err
		return
	}
	if c.events++; c.events > 1 {
		c.out.WriteByte(',')
	}
	c.out.WriteByte('\n')
	if _, err := c.out.Write(text); err != nil && c.err == nil {
		c.err = err
	}
}

func (c *chrome) meta(name string, pid, tid int, args map[string]any) {
	c.event(traceEvent{Name: name, Ph: "M", PID: pid, TID: tid, Args: args})
}

func (c *chrome) process(pid int, name string) {
	c.meta("process_name", pid, 0, map[string]any{"name": name})
	c.meta("process_sort_index", pid, 0, map[string]any{"sort_index": pid})
}

// slice is an event with a beginning and an end.
func (c *chrome) slice(name, cat string, p place, from, to int64, args any) {
	dur := micros(max(0, to-from))
	e := traceEvent{Name: name, Cat: cat, Ph: "X", TS: micros(from), Dur: &dur, PID: int(p.pid), TID: int(p.tid),
		Args: args}
	c.event(e)
}

// chromeAttempt are the arguments of an attempt. Nil is not known.
type chromeAttempt struct {
	Workflow string   `json:"workflow"`
	Task     string   `json:"task"`
	Type     string   `json:"type"`
	Attempt  int64    `json:"attempt"`
	Try      int64    `json:"try"`
	Outcome  *string  `json:"outcome"`
	ExitCode *int64   `json:"exit_code"`
	Message  *string  `json:"message,omitempty"`
	Estimate *float64 `json:"estimate_s"`
	Planned  *float64 `json:"planned_end_s"`
	CPU      *float64 `json:"cpu_s"`
	Peak     *int64   `json:"peak_memory_bytes"`
	Read     *int64   `json:"read_bytes"`
	Written  *int64   `json:"written_bytes"`
	GPU      *float64 `json:"gpu_s,omitempty"`
	GPUPeak  *int64   `json:"peak_gpu_memory_bytes,omitempty"`
	Cores    float64  `json:"held_cores"`
	Memory   int64    `json:"held_memory_bytes"`
}

func (c *chrome) attempts() error {
	return sqlite.EachRow(c.ctx, c.db, func(r *struct {
		Task, Node      int
		A               chromeAttempt
		Queued, Ended   int64
		Staged, Started *int64
	}) error {
		if r.Node < 0 { // a task without time has no place
			return nil
		}
		end := max(r.Ended, r.Queued)
		p := place{r.Queued, end, int32(r.Node + 1), int32(c.slots.Take(r.Node, r.Queued, end) + 1), false}
		c.slice(r.A.Task, r.A.Type, p, r.Queued, end, &r.A)
		c.phases(p, r.A.Attempt, r.Staged, r.Started)
		p.ok = r.A.Outcome != nil && *r.A.Outcome == planner.OK.String()
		for len(c.places) <= r.Task {
			c.places = append(c.places, place{})
		}
		c.places[r.Task] = p
		return nil
	}, `SELECT a.task, a.node, w.name, t.name, t.kind, a.attempt, a.try, a.outcome, a.exit_code, a.message,
		a.estimate_ns / 1e9, a.planned_end_ns / 1e9, (a.cpu_user_ns + a.cpu_system_ns) / 1e9, a.peak_memory_bytes,
		a.read_bytes, a.written_bytes, a.gpu_ns / 1e9, a.peak_gpu_memory_bytes, a.hold_millicores / 1e3,
		a.hold_memory_bytes,
		a.queued_ns, coalesce(a.ended_ns, ?), a.staged_ns, a.started_ns
		FROM attempts a CROSS JOIN tasks t ON t.run = a.run AND t.task = a.task
		CROSS JOIN workflows w ON w.run = a.run AND w.workflow = t.workflow
		WHERE a.run = ? AND a.queued_ns IS NOT NULL ORDER BY a.attempt`, c.clock, c.id)
}

// reused writes tasks that took over outputs of an earlier attempt as instants of their node.
func (c *chrome) reused() error {
	return sqlite.EachRow(c.ctx, c.db, func(r *struct {
		At                        micros
		Node                      int
		Workflow, Task, Kind, Run string
		Attempt                   int64
		Ran                       *float64
	}) error {
		c.event(traceEvent{Name: r.Task, Cat: "reused", Ph: "i", TS: r.At, PID: r.Node + 1, Scope: "p",
			Args: map[string]any{"workflow": r.Workflow, "task": r.Task, "type": r.Kind, "outcome": "reused",
				"from_run": r.Run, "from_attempt": r.Attempt, "ran_s": r.Ran}})
		return nil
	}, `SELECT u.at_ns, coalesce(t.node, 0), w.name, t.name, t.kind, u.from_run, u.from_attempt, u.ran_ns / 1e9
		FROM reuses u CROSS JOIN tasks t ON t.run = u.run AND t.task = u.task
		CROSS JOIN workflows w ON w.run = u.run AND w.workflow = t.workflow
		WHERE u.run = ? AND u.from_run <> '' AND t.state = 'done' ORDER BY u.at_ns, u.task`, c.id)
}

// phases writes where the time of an attempt went. While it is under way, the log may not have its phases yet.
func (c *chrome) phases(p place, attempt int64, staged, started *int64) {
	at := p.from
	phase := func(name string, until int64) {
		if until = min(max(until, at), p.to); until > at {
			c.slice(name, "phase", p, at, until, nil)
		}
		at = until
	}
	starting := "starting"
	if staged != nil {
		starting = "container start"
		phase("staging", *staged)
	}
	if started == nil {
		phase(starting, p.to)
		return
	}
	phase(starting, *started)
	ran := at
	phase("running", p.to)
	for _, span := range c.away[attempt] {
		if from, until := max(span[0], ran), min(span[1], p.to); until > from {
			c.slice("suspended", "phase", p, from, until, nil)
		}
	}
}

// frozen reads the suspensions of attempts that kept their places.
func (c *chrome) frozen() error {
	c.away = map[int64][][2]int64{}
	return sqlite.EachRow(c.ctx, c.db, func(x *struct {
		Attempt int64
		Span    [2]int64
	}) error {
		c.away[x.Attempt] = append(c.away[x.Attempt], x.Span)
		return nil
	}, `SELECT attempt, since_ns, coalesce(until_ns, ?) FROM suspensions
		WHERE run = ? AND how = 'freeze' AND since_ns IS NOT NULL ORDER BY attempt, since_ns`, c.clock, c.id)
}

// workflows writes them as asynchronous slices, since they overlap, and deadlines as instants.
func (c *chrome) workflows() error {
	pid := 0
	return sqlite.EachRow(c.ctx, c.db, func(w *struct {
		ID                         int64
		Name, Tenant, Class, State string
		Tasks                      int64
		Arrived, Ended             micros
		Due                        *micros
	}) error {
		if w.ID == 0 {
			c.process(pid, "workflows")
		}
		e := traceEvent{Name: w.Name, Cat: "workflow", Ph: "b", TS: w.Arrived, PID: pid,
			ID:   "workflow " + strconv.FormatInt(w.ID, 10),
			Args: map[string]any{"tenant": w.Tenant, "class": w.Class, "state": w.State, "tasks": w.Tasks}}
		c.event(e)
		e.Ph, e.TS, e.Args = "e", w.Ended, nil
		c.event(e)
		if w.Due != nil {
			c.event(traceEvent{Name: "deadline of " + w.Name, Cat: "deadline", Ph: "i", TS: *w.Due, PID: pid,
				Scope: "p"})
		}
		return nil
	}, `SELECT workflow, name, tenant, class, state, tasks, arrived_ns, max(arrived_ns, coalesce(ended_ns, ?)), due_ns
		FROM workflows WHERE run = ? ORDER BY workflow`, c.clock, c.id)
}

// loads writes the cores and memory of each node that tasks held and used, as counters.
func (c *chrome) loads() error {
	for _, l := range []struct {
		name, series string
		of           sqlite.Load
		unit         float64
	}{{"cores held", "cores", sqlite.CoresHeld, 1e3}, {"memory held", "MB", sqlite.MemoryHeld, 1e6},
		{"cores used", "cores", sqlite.CoresUsed, 1e3}, {"memory used at most", "MB", sqlite.MemoryPeaks, 1e6}} {
		sums := map[int]int64{}
		err := c.db.Changes(c.ctx, c.run, l.of, func(x sqlite.Change) error {
			sums[x.Node] += x.By
			c.event(traceEvent{Name: l.name, Ph: "C", TS: micros(x.At), PID: x.Node + 1,
				Args: map[string]any{l.series: float64(sums[x.Node]) / l.unit}})
			return c.err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// files writes a flow from the task that wrote a file to each that read it. Both ends lie within the slices that they
// belong to, a microsecond from their edges at most.
func (c *chrome) files() error {
	const edge = 1000
	at := func(id planner.TaskID) *place {
		if int(id) >= len(c.places) || c.places[id].to <= c.places[id].from {
			return nil
		}
		return &c.places[id]
	}
	flows := 0
	return c.db.Admissions(c.ctx, c.run, func(a *executor.Admission) error {
		names := make(map[planner.FileID]string, len(a.Files))
		for _, f := range a.Files {
			names[f.ID] = f.Name
		}
		writers := map[planner.FileID]*place{}
		for _, t := range a.Arrived.Tasks {
			if p := at(t.ID); p != nil && p.ok {
				for _, f := range t.Outputs {
					writers[f] = p
				}
			}
		}
		for _, t := range a.Arrived.Tasks {
			to := at(t.ID)
			for _, f := range t.Inputs {
				from := writers[f]
				if from == nil || to == nil || from.to > to.from {
					continue
				}
				flows++
				e := traceEvent{Name: names[f], Cat: "file", Ph: "s", PID: int(from.pid), TID: int(from.tid),
					TS: micros(from.to - min(edge, (from.to-from.from+1)/2)), ID: strconv.Itoa(flows)}
				c.event(e)
				e.Ph, e.BP, e.PID, e.TID = "f", "e", int(to.pid), int(to.tid)
				e.TS = micros(to.from + min(edge, (to.to-to.from)/2))
				c.event(e)
			}
		}
		return c.err
	})
}
