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
	var state string
	err = db.Each(ctx, func(scan sqlite.Scan) error { return scan(&c.id, &c.clock, &state) },
		`SELECT r.id, coalesce(k.at_ns, 0), r.state FROM runs r LEFT JOIN clocks k ON k.run = r.id WHERE r.name = ?`,
		info.Name)
	if err != nil {
		return err
	}
	head, err := json.Marshal(map[string]any{"run": info.Name, "policy": info.Policy, "runtime": info.Runtime,
		"state": state, "started": info.Started, "version": info.Version, "time_scale": info.TimeScale})
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
	Cores    float64  `json:"held_cores"`
	Memory   int64    `json:"held_memory_bytes"`
}

func (c *chrome) attempts() error {
	return c.db.Each(c.ctx, func(scan sqlite.Scan) error {
		var a chromeAttempt
		var task int
		var node int
		var queued int64
		var staged, started, ended *int64
		if err := scan(&task, &node, &a.Workflow, &a.Task, &a.Type, &a.Attempt, &a.Try, &a.Outcome, &a.ExitCode,
			&a.Message, &a.Estimate, &a.Planned, &a.CPU, &a.Peak, &a.Read, &a.Written, &a.Cores, &a.Memory,
			&queued, &staged, &started, &ended); err != nil {
			return err
		}
		if node < 0 { // a task without time has no place
			return nil
		}
		end := c.clock
		if ended != nil {
			end = *ended
		}
		end = max(end, queued)
		p := place{queued, end, int32(node + 1), int32(c.slots.Take(node, queued, end) + 1), false}
		c.slice(a.Task, a.Type, p, queued, end, &a)
		c.phases(p, a.Attempt, staged, started)
		p.ok = a.Outcome != nil && *a.Outcome == planner.OK.String()
		for len(c.places) <= task {
			c.places = append(c.places, place{})
		}
		c.places[task] = p
		return nil
	}, `SELECT a.task, a.node, w.name, t.name, t.kind, a.attempt, a.try, a.outcome, a.exit_code, a.message,
		a.estimate_ns / 1e9, a.planned_end_ns / 1e9, (a.cpu_user_ns + a.cpu_system_ns) / 1e9, a.peak_memory_bytes,
		a.read_bytes, a.written_bytes, a.hold_millicores / 1e3, a.hold_memory_bytes,
		a.queued_ns, a.staged_ns, a.started_ns, a.ended_ns
		FROM attempts a CROSS JOIN tasks t ON t.run = a.run AND t.task = a.task
		CROSS JOIN workflows w ON w.run = a.run AND w.workflow = t.workflow
		WHERE a.run = ? AND a.queued_ns IS NOT NULL ORDER BY a.attempt`, c.id)
}

// reused writes tasks that took over outputs of an earlier attempt as instants of their node.
func (c *chrome) reused() error {
	return c.db.Each(c.ctx, func(scan sqlite.Scan) error {
		var at, node, attempt int64
		var workflow, task, kind, run string
		var ran *float64
		if err := scan(&at, &node, &workflow, &task, &kind, &run, &attempt, &ran); err != nil {
			return err
		}
		c.event(traceEvent{Name: task, Cat: "reused", Ph: "i", TS: micros(at), PID: int(node + 1), Scope: "p",
			Args: map[string]any{"workflow": workflow, "task": task, "type": kind, "outcome": "reused",
				"from_run": run, "from_attempt": attempt, "ran_s": ran}})
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
	return c.db.Each(c.ctx, func(scan sqlite.Scan) error {
		var attempt, since, until int64
		err := scan(&attempt, &since, &until)
		c.away[attempt] = append(c.away[attempt], [2]int64{since, until})
		return err
	}, `SELECT attempt, since_ns, coalesce(until_ns, ?) FROM suspensions
		WHERE run = ? AND how = 'freeze' AND since_ns IS NOT NULL ORDER BY attempt, since_ns`, c.clock, c.id)
}

// workflows writes them as asynchronous slices, since they overlap, and deadlines as instants.
func (c *chrome) workflows() error {
	pid := 0
	return c.db.Each(c.ctx, func(scan sqlite.Scan) error {
		var name, tenant, class, state string
		var id, tasks, arrived, ended int64
		var due *int64
		if err := scan(&id, &name, &tenant, &class, &state, &tasks, &arrived, &ended, &due); err != nil {
			return err
		}
		if id == 0 {
			c.process(pid, "workflows")
		}
		e := traceEvent{Name: name, Cat: "workflow", Ph: "b", TS: micros(arrived), PID: pid,
			ID:   "workflow " + strconv.FormatInt(id, 10),
			Args: map[string]any{"tenant": tenant, "class": class, "state": state, "tasks": tasks}}
		c.event(e)
		e.Ph, e.TS, e.Args = "e", micros(ended), nil
		c.event(e)
		if due != nil {
			c.event(traceEvent{Name: "deadline of " + name, Cat: "deadline", Ph: "i", TS: micros(*due), PID: pid,
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
