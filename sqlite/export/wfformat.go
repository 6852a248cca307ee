package export

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/sqlite"
	"gantry/trace"
)

// WfFormat returns a function that writes one workflow of a run, as it really ran, as WfFormat 1.5: its tasks and files
// with the sizes that they had, the nodes it ran on as machines, and the measurements of the attempt of each task that
// succeeded. The runtimes of a simulated run are simulated, and its runtime system says so: on has the capabilities of
// the runtime of the run. Estimates tell how it estimated runtimes; nil: as its trace tells.
func WfFormat(ctx context.Context, db *sqlite.DB, run string, on *executor.Capabilities,
	estimates *trace.Estimates) (write func(w io.Writer, workflow string) error, err error) {
	info, err := db.Info(ctx, run)
	if err != nil {
		return nil, err
	}
	flows, err := db.Flows(ctx, info.Name)
	if err != nil {
		return nil, err
	}
	heard, err := sqlite.MapOf[int64, int64](ctx, db, `SELECT e.subject, e.at_ns FROM runs r
		JOIN events e ON e.run = r.id AND e.kind = ? WHERE r.name = ?`, planner.KindAttemptExited, info.Name)
	return func(w io.Writer, workflow string) error {
		i := slices.IndexFunc(flows, func(f sqlite.Flow) bool { return f.Name == workflow })
		if i < 0 {
			return fmt.Errorf("run %s has no workflow %q", info.Name, workflow)
		}
		a, err := db.Admission(ctx, info.Name, flows[i].ID)
		if err != nil {
			return err
		}
		flow, did, err := executionOf(ctx, db, &info, a, heard, on, estimates)
		if err != nil {
			return err
		}
		return trace.WriteExecution(w, flow, did)
	}, err
}

// executedQuery has the tasks that succeeded. The time around the program until its end (heard: or later) belongs to an
// attempt; of copies between nodes, what they took longer than in a simulation. A formal task took no time on no node.
const executedQuery = `SELECT t.task, coalesce(a.attempt, -1), coalesce(a.node, -1),
	coalesce(a.hold_millicores, t.need_millicores), coalesce(a.hold_memory_bytes, t.need_memory_bytes),
	iif(r.runtime <> 'sim' AND a.copied_bytes > 0, a.copied_bytes, 0),
	t.trace_runtime_ns, coalesce(a.queued_ns, t.ended_ns), a.started_ns, coalesce(a.ended_ns, t.ended_ns),
	a.ended_ns - a.ran_ns - iif(r.runtime = 'sim' OR coalesce(a.moved_bytes, 0) > 0, a.staged_ns, a.queued_ns)
		- coalesce((SELECT sum(s.until_ns - s.since_ns) FROM suspensions s
			WHERE s.run = r.id AND s.attempt = a.attempt), 0), iif(t.attempts = 0, 0, a.ran_ns),
	a.cpu_user_ns + a.cpu_system_ns, a.peak_memory_bytes, a.read_bytes, a.written_bytes
	FROM runs r JOIN tasks t ON t.run = r.id AND t.workflow = ?1 AND t.state = 'done'
	LEFT JOIN attempts a ON a.run = r.id AND a.attempt = t.attempt AND a.outcome = 'ok'
	WHERE r.name = ?2 AND (a.attempt IS NOT NULL OR t.attempts = 0 AND NOT EXISTS (
		SELECT 1 FROM reuses u WHERE u.run = r.id AND u.task = t.task AND u.from_run <> '')) ORDER BY a.queued_ns`

// executedTask is a row of executedQuery. Nil is not known.
type executedTask struct {
	Task, Attempt, Node, Hold, Memory, Copied int64
	Work, Queued, Start, End, Around, Ran     *int64
	Used                                      measured
}

// execution is a workflow of a run with the sizes and images that it had, and its measurements so far.
type execution struct {
	info  *sqlite.RunInfo
	a     *executor.Admission
	flow  *trace.Workflow
	did   *trace.Execution
	heard map[int64]int64 // when gantry knew of the end of each attempt
	place map[int64]int   // in flow, of tasks by number
	parts map[int64]*part
	at    places
	used  []bool // nodes
}

// executionOf returns a workflow of a run with the sizes and images that it had, and its measurements.
func executionOf(ctx context.Context, db *sqlite.DB, info *sqlite.RunInfo, a *executor.Admission,
	heard map[int64]int64, on *executor.Capabilities, estimates *trace.Estimates) (*trace.Workflow, *trace.Execution,
	error) {
	if a.Submission.Workflow == nil || len(a.Submission.Workflow.Tasks) != len(a.Arrived.Tasks) {
		return nil, nil, fmt.Errorf("workflow %s of run %s: the log has no trace of it", a.Submission.Name, info.Name)
	}
	e := &execution{info: info, a: a, flow: asRun(info, a), heard: heard, place: map[int64]int{}, at: whereabouts(a),
		used: make([]bool, len(info.Platform.Nodes))}
	e.did = &trace.Execution{System: "gantry", Version: info.Version, Tasks: make([]trace.TaskExecution,
		len(e.flow.Tasks)), ExecutedAt: info.Started}
	if e.did.Estimates = estimates; !on.Programs {
		e.did.System, e.did.Simulated = "gantry ("+info.Runtime+")", true
		e.did.Estimates = cmp.Or(estimates, e.flow.Estimates)
	}
	for i, spec := range a.Tasks {
		e.place[int64(a.Arrived.Tasks[i].ID)] = i
		if t := &e.flow.Tasks[i]; estimates != nil { // policies knew this, not the measurements
			if t.Reads, t.Estimate = (*int64)(&spec.Reads), spec.Declared; !t.Imputed.Has(trace.Runtime) {
				t.Estimate = cmp.Or(t.Estimate, spec.Run)
			}
		}
	}
	var err error
	if e.parts, err = keptParts(ctx, db, info.Name, int64(a.Spec.ID)); err != nil {
		return nil, nil, err
	}
	began, ended := int64(math.MaxInt64), int64(math.MinInt64)
	if err := sqlite.EachRow(ctx, db, func(r *executedTask) error {
		if i, ok := e.place[r.Task]; ok && r.Ran != nil {
			e.did.Tasks[i] = e.task(i, r)
			if r.Queued != nil {
				began = min(began, *r.Queued)
			}
			if r.End != nil {
				ended = max(ended, *r.End)
			}
		}
		return nil
	}, executedQuery, int64(a.Spec.ID), info.Name); err != nil {
		return nil, nil, err
	}
	reused, err := sqlite.MapOf[int64, string](ctx, db, `SELECT u.task, u.from_run FROM runs r
		JOIN reuses u ON u.run = r.id AND u.from_run <> '' WHERE r.name = ?`, info.Name)
	if err != nil {
		return nil, nil, err
	}
	for task, from := range reused {
		if i, ok := e.place[task]; ok {
			e.did.Tasks[i].ReusedFrom = from
		}
	}
	if began != math.MaxInt64 && ended != math.MinInt64 {
		e.did.Makespan, e.did.ExecutedAt = time.Duration(ended-began), info.Started.Add(time.Duration(began))
	}
	for i, n := range info.Platform.Nodes {
		if e.used[i] {
			e.did.Machines = append(e.did.Machines, machine(info, &n, on))
		}
	}
	return e.flow, e.did, nil
}

// task has the measurements of task i, of the parts of it that checkpoints kept included.
func (e *execution) task(i int, r *executedTask) trace.TaskExecution {
	t, last := &e.flow.Tasks[i], part{*r.Ran, r.Used}
	t.Cores, t.Known = float64(r.Hold)/1000, t.Known|trace.Cores
	if p := e.parts[r.Task]; p != nil {
		if r.Node >= 0 {
			p.ran = int64(unit.AtSpeed(time.Duration(p.ran), e.info.Platform.Nodes[r.Node].Speed))
		}
		last.add(p)
	}
	x := last.execution()
	x.Cores, x.Known = t.Cores, x.Known|trace.Cores
	copying := e.at.bring(&e.info.Platform, &e.a.Arrived.Tasks[i], planner.NodeID(r.Node))
	if r.Around != nil {
		x.Overhead = time.Duration(max(0, *r.Around+max(0, e.heard[r.Attempt]-*r.End)))
		if r.Copied > 0 && !e.info.Platform.Overlapped {
			x.Overhead = max(0, x.Overhead-copying)
		}
	}
	if (t.Known | t.Imputed).Has(trace.Memory) {
		if x.MemoryNeeded = r.Memory; e.a.Tasks[i].Emulated() { // an admission adds it again
			x.MemoryNeeded = max(1, x.MemoryNeeded-executor.EmulatorMemory)
		}
	}
	if r.Node >= 0 && int(r.Node) < len(e.info.Platform.Nodes) {
		n := &e.info.Platform.Nodes[r.Node]
		e.used[r.Node], x.Machine = true, n.Name
		if w := r.Work; w != nil && (unit.AtSpeed(time.Duration(*w), n.Speed)-x.Runtime).Abs() <= roundings {
			x.Work, x.Speed = time.Duration(*w), n.Speed
		}
	}
	if r.Start != nil {
		x.ExecutedAt = e.info.Started.Add(time.Duration(*r.Start))
	}
	return x
}

// places has the files of a workflow, and the nodes where each is.
type places map[planner.FileID]*stored

type stored struct {
	size unit.Bytes
	on   []planner.NodeID // none: everywhere
}

func whereabouts(a *executor.Admission) places {
	at := places{}
	for i := range a.Arrived.Files {
		f := &a.Arrived.Files[i]
		at[f.ID] = &stored{f.Size, slices.Clone(f.Homes)}
	}
	return at
}

// bring puts the files of a task on a node, and returns how long a simulation takes to copy its inputs there.
func (p places) bring(on *planner.Platform, t *planner.Task, n planner.NodeID) (copying time.Duration) {
	if n < 0 {
		return 0
	}
	for _, f := range t.Inputs {
		at := p[f]
		if at == nil || len(at.on) == 0 || slices.Contains(at.on, n) {
			continue
		}
		least := on.MoveTime(at.size, at.on[0], n)
		for _, from := range at.on[1:] {
			least = min(least, on.MoveTime(at.size, from, n))
		}
		at.on, copying = append(at.on, n), copying+least
	}
	for _, f := range t.Outputs {
		if at := p[f]; at != nil {
			at.on = append(at.on, n)
		}
	}
	return copying
}

// asRun is the trace of a workflow with the sizes that its files had, and the digests of its images: a tag may move, a
// digest never does.
func asRun(info *sqlite.RunInfo, a *executor.Admission) *trace.Workflow {
	flow := *a.Submission.Workflow
	flow.Files = append([]trace.File(nil), flow.Files...)
	for i := range min(len(flow.Files), len(a.Files)) {
		flow.Files[i].Size, flow.Files[i].Sized = int64(a.Files[i].Size), a.Files[i].Sized
		flow.Files[i].Imputed = false
	}
	flow.Tasks = append([]trace.Task(nil), flow.Tasks...)
	var set struct{ Needs []string } // of the command line
	_ = json.Unmarshal(info.Settings, &set)
	for i, t := range a.Tasks {
		flow.Tasks[i].TimeLimit = t.TimeLimit
		flow.Tasks[i].GPUs = int32(a.Arrived.Tasks[i].Need[unit.GPU])
		flow.Tasks[i].Tokens = executor.NeededTokens(set.Needs, &flow.Tasks[i])
		for _, m := range info.Images {
			if t.Image == m.Ref && m.Digest != "" {
				flow.Tasks[i].Image = m.Digest
			}
		}
	}
	return &flow
}

// machine is a node as WfFormat has it: with the host's facts if programs ran there.
func machine(info *sqlite.RunInfo, n *planner.Node, on *executor.Capabilities) trace.Machine {
	m := trace.Machine{Name: n.Name, Speed: n.Speed, SpeedMHz: max(1, int64(1000*n.Speed+0.5))}
	if c := n.Capacity[unit.CPU]; c != unit.Unlimited {
		m.Cores = c / 1000
	}
	if b := n.Capacity[unit.Memory]; b != unit.Unlimited {
		m.MemoryBytes = b
	}
	if h := info.Host; h != nil && on.Programs {
		m.System, m.Architecture, m.Release, m.Vendor = h.System, h.Architecture, h.Release, h.Vendor
		m.SpeedMHz = int64(float64(h.MHz)*n.Speed + 0.5)
	}
	return m
}

// roundings bounds the difference between the work of a task and its runtime in parts, as each part is rounded.
const roundings = 20 * time.Nanosecond

// part has the measurements of attempts of a task whose work a checkpoint kept.
type part struct {
	ran int64
	measured
}

// measured are measurements; nil is not known.
type measured struct{ CPU, Memory, Read, Written *int64 }

// add adds the measurements of an earlier attempt. A sum is unknown if either term is.
func (p *part) add(before *part) {
	p.ran += before.ran
	p.CPU, p.Read, p.Written = sum(p.CPU, before.CPU), sum(p.Read, before.Read), sum(p.Written, before.Written)
	if p.Memory != nil && before.Memory != nil {
		*p.Memory = max(*p.Memory, *before.Memory)
	}
}

// execution returns the measurements as WfFormat has them.
func (p *part) execution() trace.TaskExecution {
	x := trace.TaskExecution{Ran: true, Runtime: time.Duration(p.ran)}
	if p.CPU != nil && p.ran > 0 {
		x.AvgCPU, x.Known = 100*float64(*p.CPU)/float64(p.ran), trace.AvgCPU
	}
	for _, m := range []struct {
		from, to *int64
		field    trace.Fields
	}{{p.Memory, &x.MemoryBytes, trace.Memory}, {p.Read, &x.ReadBytes, trace.ReadBytes},
		{p.Written, &x.WrittenBytes, trace.WrittenBytes}} {
		if m.from != nil {
			*m.to, x.Known = *m.from, x.Known|m.field
		}
	}
	return x
}

// keptParts returns, for the tasks of a workflow that continued from checkpoints, the measurements of the attempts
// before the last one, with their runtimes at speed 1.
func keptParts(ctx context.Context, db *sqlite.DB, run string, workflow int64) (map[int64]*part, error) {
	out := map[int64]*part{}
	err := sqlite.EachRow(ctx, db, func(r *struct {
		Task          int64
		Ran           *int64
		Used          measured
		Kept, Resumed bool
		Speed         float64
	}) error {
		if !r.Resumed { // it began again: earlier attempts count no more
			delete(out, r.Task)
		}
		if !r.Kept || r.Ran == nil {
			return nil
		}
		p := part{int64(math.Round(float64(*r.Ran) * r.Speed)), r.Used}
		if before := out[r.Task]; before != nil {
			p.add(before)
		}
		out[r.Task] = &p
		return nil
	}, `SELECT a.task, a.ran_ns, a.cpu_user_ns + a.cpu_system_ns, a.peak_memory_bytes,
		a.read_bytes, a.written_bytes, coalesce(a.kept > coalesce(a.done, 0), 0), a.done IS NOT NULL,
		coalesce(n.speed, 1.0)
		FROM runs r JOIN attempts a ON a.run = r.id JOIN tasks t ON t.run = r.id AND t.task = a.task AND t.workflow = ?
		LEFT JOIN nodes n ON n.run = r.id AND n.node = a.node
		WHERE r.name = ? AND (a.kept IS NOT NULL OR a.done IS NULL) ORDER BY a.attempt`, workflow, run)
	return out, err
}

// sum is nil if one of them is not known.
func sum(a, b *int64) *int64 {
	if a == nil || b == nil {
		return nil
	}
	return new(*a + *b)
}
