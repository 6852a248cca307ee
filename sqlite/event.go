package sqlite

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"gantry/planner"
	"gantry/planner/unit"
)

// eventVersion is events.v of what this package writes. It reads older ones too; a body of a newer version is refused, never guessed at.
// Version 2 has checkpoints: attempt exited has kept, and orders have kind 6. In version 3 attempt exited tells that it is
// final. Bodies of version 4 leave out what follows from the rest, see terse.
const eventVersion = 4

// bodyVersion is the least version that reads a body right: older gantries go on with logs that have nothing newer in them.
func bodyVersion(body planner.Body) int64 {
	switch b := body.(type) {
	case *planner.AttemptExited:
		if b.Final {
			return 3
		}
		if b.Kept != 0 {
			return 2
		}
	case *planner.PlanCommitted:
		for i := range b.Orders {
			if b.Orders[i].Kind >= planner.OrderCheckpoint {
				return 2
			}
		}
	}
	return 1
}

// terse is how simulations write bodies. Their events are mostly of one kind: a task starts as it was planned, and ends after it has run; no
// more is said of them than which, where and how long.
type terse struct {
	needs []unit.Vector // by task
}

// arrived takes in the tasks that later bodies refer to.
func (x *terse) arrived(a *planner.WorkflowArrived) {
	for i := range a.Tasks {
		x.needs = put(x.needs, a.Tasks[i].ID, a.Tasks[i].Need)
	}
}

// usage is that of an attempt of which nothing was measured and which ran as soon as it was ordered.
func (x *terse) usage(at planner.Time, ran time.Duration) planner.Usage {
	t := at.Add(-ran)
	return planner.Usage{Queued: t, Staged: t, Created: t, Started: t, Ended: at,
		Missing: planner.CounterCPU | planner.CounterMemory | planner.CounterIO | planner.CounterThrottled}
}

// order is the first attempt of a task with what it needs, believed to run for so long from now on.
func (x *terse) order(at planner.Time, attempt planner.AttemptID, task planner.TaskID, node planner.NodeID, run time.Duration) (o planner.Order, ok bool) {
	if task < 0 || int(task) >= len(x.needs) {
		return o, false
	}
	return planner.Order{Kind: planner.OrderStart, Attempt: attempt, Task: task, Node: node, Hold: x.needs[task], Try: 1, Until: at.Add(run),
		Est: planner.Estimate{Run: run, Source: planner.SourceDeclared}}, true
}

// starts reports whether order says all there is to say of these.
func (x *terse) starts(at planner.Time, orders []planner.Order) bool {
	for i := range orders {
		o := &orders[i]
		if plain, ok := x.order(at, o.Attempt, o.Task, o.Node, o.Est.Run); !ok || *o != plain || o.Hold == (unit.Vector{}) {
			return false
		}
	}
	return len(orders) > 0
}

// encode appends the JSON of a body of version 4.
func (x *terse) encode(buf []byte, at planner.Time, body planner.Body) ([]byte, error) {
	o := object(append(buf, '{'))
	switch b := body.(type) {
	case *planner.WorkflowArrived:
		x.arrived(b)
	case *planner.AttemptExited:
		o = o.exit(b)
		if b.Message == "" && b.Usage == x.usage(at, b.Ran) {
			return append(o, '}'), nil
		}
		if b.Usage == (planner.Usage{}) {
			o = append(o.key("usage"), "{}"...)
		}
		o, err := o.usage(&b.Usage).message(b)
		return append(o, '}'), err
	case *planner.PlanCommitted:
		if !x.starts(at, b.Orders) {
			break
		}
		o = append(o.num("round", b.Round).num("took_ns", int64(b.Took)).key("starts"), '[')
		for i := range b.Orders {
			s := &b.Orders[i]
			if i > 0 {
				o = append(o, ',')
			}
			o = strconv.AppendInt(append(o, '['), int64(s.Attempt), 10)
			o = strconv.AppendInt(append(o, ','), int64(s.Task), 10)
			o = strconv.AppendInt(append(o, ','), int64(s.Node), 10)
			o = append(strconv.AppendInt(append(o, ','), int64(s.Est.Run), 10), ']')
		}
		o, err := append(o, ']').reasons(b)
		return append(o, '}'), err
	}
	return encodeBody(buf, body)
}

// The bodies of events as the log has them. Members that are zero are left out; an instant that was not reached is the largest int64.
// encodeBody writes by hand what decodeBody reads by these types: events are written for every step of every task, and reflection costs
// three times as much. A property test holds the two together.
type (
	wireAttempt struct {
		Attempt planner.AttemptID `json:"attempt"`
	}
	wireExit struct {
		Attempt  planner.AttemptID `json:"attempt"`
		Outcome  planner.Outcome   `json:"outcome"`
		ExitCode int               `json:"exit_code"`
		Ran      time.Duration     `json:"ran_ns"`
		Kept     float64           `json:"kept"`
		Final    int64             `json:"final"` // 1: there is no other attempt
		Usage    *wireUsage        `json:"usage"`
		Message  string            `json:"message"`
		Bytes    []byte            `json:"message_base64"` // in place of Message, where it is not UTF-8
	}
	wireUsage struct {
		Queued       planner.Time     `json:"queued_ns"`
		Staged       planner.Time     `json:"staged_ns"`
		Created      planner.Time     `json:"created_ns"`
		Started      planner.Time     `json:"started_ns"`
		Ended        planner.Time     `json:"ended_ns"`
		CPUUser      time.Duration    `json:"cpu_user_ns"`
		CPUSystem    time.Duration    `json:"cpu_system_ns"`
		CPUThrottled time.Duration    `json:"cpu_throttled_ns"`
		PeakMemory   unit.Bytes       `json:"peak_memory_bytes"`
		ReadBytes    unit.Bytes       `json:"read_bytes"`
		WrittenBytes unit.Bytes       `json:"written_bytes"`
		ReadOps      int64            `json:"read_ops"`
		WriteOps     int64            `json:"write_ops"`
		InputBytes   unit.Bytes       `json:"input_bytes"`
		CopiedBytes  unit.Bytes       `json:"copied_bytes"`
		MovedBytes   unit.Bytes       `json:"moved_bytes"`
		OOMKills     int64            `json:"oom_kills"`
		Missing      planner.Counters `json:"missing"`
		Applied      wireLimits       `json:"applied"`
	}
	wireLimits struct {
		CPUMillicores int64               `json:"cpu_millicores"`
		Memory        unit.Bytes          `json:"memory_bytes"`
		MemorySwap    unit.Bytes          `json:"memory_swap_bytes"`
		PIDs          int64               `json:"pids"`
		ReadBps       unit.BytesPerSecond `json:"read_bps"`
		WriteBps      unit.BytesPerSecond `json:"write_bps"`
		ReadIOPS      int64               `json:"read_iops"`
		WriteIOPS     int64               `json:"write_iops"`
	}
	wireFile struct {
		File planner.FileID `json:"file"`
		Node planner.NodeID `json:"node"`
	}
	wireNode struct {
		Node     planner.NodeID `json:"node"`
		Capacity unit.Vector    `json:"capacity"`
	}
	wireWorkflow struct {
		Workflow planner.WorkflowID `json:"workflow"`
	}
	wirePlan struct {
		Round  int64         `json:"round"`
		Took   time.Duration `json:"took_ns"`
		Orders []wireOrder   `json:"orders"`
		Starts [][4]int64    `json:"starts"` // attempt, task, node, run_ns: instead of orders
		Waits  [][5]int64    `json:"waits"`  // task, reason, dim, node, at_ns
		Notes  []wireNote    `json:"notes"`
	}
	wireNote struct {
		Topic    string             `json:"topic"`
		Workflow planner.WorkflowID `json:"workflow"`
		Task     planner.TaskID     `json:"task"`
		At       planner.Time       `json:"at_ns"`
		Text     string             `json:"text"`
	}
	wireOrder struct {
		Kind    planner.OrderKind `json:"kind"`
		Attempt planner.AttemptID `json:"attempt"`
		Task    planner.TaskID    `json:"task"`
		Node    planner.NodeID    `json:"node"`
		Hold    unit.Vector       `json:"hold"`
		Try     int32             `json:"try"`
		Until   planner.Time      `json:"until_ns"`
		Est     wireEstimate      `json:"estimate"`
		File    planner.FileID    `json:"file"`
		From    planner.NodeID    `json:"from"`
	}
	wireEstimate struct {
		Run     time.Duration  `json:"run_ns"`
		Spread  time.Duration  `json:"spread_ns"`
		Samples int32          `json:"samples"`
		Source  planner.Source `json:"source"`
	}
)

// object builds a JSON object.
type object []byte

func (o object) key(k string) object {
	if n := len(o); n > 0 && o[n-1] != '{' {
		o = append(o, ',')
	}
	o = append(o, '"')
	o = append(o, k...)
	return append(o, '"', ':')
}

// num appends a member unless it is zero.
func (o object) num(k string, v int64) object {
	if v == 0 {
		return o
	}
	return strconv.AppendInt(o.key(k), v, 10)
}

func (o object) vector(k string, v unit.Vector) object {
	if v == (unit.Vector{}) {
		return o
	}
	o = append(o.key(k), '[')
	for i, x := range v {
		if i > 0 {
			o = append(o, ',')
		}
		o = strconv.AppendInt(o, x, 10)
	}
	return append(o, ']')
}

func (o object) estimate(e planner.Estimate) object {
	if e == (planner.Estimate{}) {
		return o
	}
	o = append(o.key("estimate"), '{')
	o = o.num("run_ns", int64(e.Run)).num("spread_ns", int64(e.Spread)).num("samples", int64(e.Samples)).num("source", int64(e.Source))
	return append(o, '}')
}

func (o object) usage(u *planner.Usage) object {
	if *u == (planner.Usage{}) {
		return o
	}
	o = append(o.key("usage"), '{')
	o = o.num("queued_ns", int64(u.Queued)).num("staged_ns", int64(u.Staged)).num("created_ns", int64(u.Created)).
		num("started_ns", int64(u.Started)).num("ended_ns", int64(u.Ended)).
		num("cpu_user_ns", int64(u.CPUUser)).num("cpu_system_ns", int64(u.CPUSystem)).num("cpu_throttled_ns", int64(u.CPUThrottled)).
		num("peak_memory_bytes", int64(u.PeakMemory)).num("read_bytes", int64(u.ReadBytes)).num("written_bytes", int64(u.WrittenBytes)).
		num("read_ops", u.ReadOps).num("write_ops", u.WriteOps).num("input_bytes", int64(u.InputBytes)).num("copied_bytes", int64(u.CopiedBytes)).
		num("moved_bytes", int64(u.MovedBytes)).num("oom_kills", u.OOMKills).
		num("missing", int64(u.Missing))
	if a := &u.Applied; *a != (planner.Limits{}) {
		o = append(o.key("applied"), '{')
		o = o.num("cpu_millicores", a.CPUMillicores).num("memory_bytes", int64(a.Memory)).num("memory_swap_bytes", int64(a.MemorySwap)).
			num("pids", a.PIDs).num("read_bps", int64(a.ReadBps)).num("write_bps", int64(a.WriteBps)).
			num("read_iops", a.ReadIOPS).num("write_iops", a.WriteIOPS)
		o = append(o, '}')
	}
	return append(o, '}')
}

// exit is how an attempt ended, without what was measured of it.
func (o object) exit(b *planner.AttemptExited) object {
	o = o.num("attempt", int64(b.Attempt)).num("outcome", int64(b.Outcome)).num("exit_code", int64(b.ExitCode)).num("ran_ns", int64(b.Ran))
	if b.Kept != 0 {
		o = strconv.AppendFloat(o.key("kept"), b.Kept, 'g', -1, 64)
	}
	if b.Final {
		o = o.num("final", 1)
	}
	return o
}

// message is what an attempt said of its end, if anything.
func (o object) message(b *planner.AttemptExited) (object, error) {
	if b.Message == "" {
		return o, nil
	}
	key, value := "message", any(b.Message)
	if !utf8.ValidString(b.Message) {
		key, value = "message_base64", []byte(b.Message)
	}
	text, err := json.Marshal(value)
	return append(o.key(key), text...), err
}

// reasons is what a plan says beyond orders.
func (o object) reasons(b *planner.PlanCommitted) (object, error) {
	if b.Reasons != nil {
		o = append(o.key("waits"), '[')
		for i, w := range b.Reasons {
			if i > 0 {
				o = append(o, ',')
			}
			o = append(o, '[')
			for j, x := range [5]int64{int64(w.Task), int64(w.Reason.Code), int64(w.Reason.Dim), int64(w.Reason.Node), int64(w.Reason.At)} {
				if j > 0 {
					o = append(o, ',')
				}
				o = strconv.AppendInt(o, x, 10)
			}
			o = append(o, ']')
		}
		o = append(o, ']')
	}
	if b.Notes != nil {
		notes := make([]wireNote, len(b.Notes))
		for i, n := range b.Notes {
			notes[i] = wireNote(n)
		}
		text, err := json.Marshal(notes)
		if err != nil {
			return o, err
		}
		o = append(o.key("notes"), text...)
	}
	return o, nil
}

// encodeBody appends the JSON of a body. What a WorkflowArrived admits is in workflows.definition.
func encodeBody(buf []byte, body planner.Body) ([]byte, error) {
	// key looks at the byte before it, so each body starts in an empty object.
	o := object(append(buf, '{'))
	switch b := body.(type) {
	case *planner.WorkflowArrived:
		o = o.num("workflow", int64(b.Workflow.ID))
	case planner.AttemptStarted:
		o = o.num("attempt", int64(b.Attempt))
	case planner.AttemptSuspended:
		o = o.num("attempt", int64(b.Attempt))
	case planner.AttemptResumed:
		o = o.num("attempt", int64(b.Attempt))
	case *planner.AttemptExited:
		o, err := o.exit(b).usage(&b.Usage).message(b)
		return append(o, '}'), err
	case planner.FileAppeared:
		o = o.num("file", int64(b.File)).num("node", int64(b.Node))
	case planner.NodeChanged:
		o = o.num("node", int64(b.Node)).vector("capacity", b.Capacity)
	case planner.Woke:
	case *planner.PlanCommitted:
		o = o.num("round", b.Round).num("took_ns", int64(b.Took))
		if b.Orders != nil {
			o = append(o.key("orders"), '[')
			for i, x := range b.Orders {
				if i > 0 {
					o = append(o, ',')
				}
				o = append(o, '{')
				o = o.num("kind", int64(x.Kind)).num("attempt", int64(x.Attempt)).num("task", int64(x.Task)).num("node", int64(x.Node)).
					vector("hold", x.Hold).num("try", int64(x.Try)).num("until_ns", int64(x.Until)).estimate(x.Est).
					num("file", int64(x.File)).num("from", int64(x.From))
				o = append(o, '}')
			}
			o = append(o, ']')
		}
		o, err := o.reasons(b)
		return append(o, '}'), err
	case planner.WorkflowCancelled:
		o = o.num("workflow", int64(b.Workflow))
	default:
		return nil, fmt.Errorf("an event of type %T has no place in the log", body)
	}
	return append(o, '}'), nil
}

// decodeBody reads what encodeBody or, from version 4 on, terse wrote. Of a WorkflowArrived it gives the id only.
func decodeBody(kind planner.EventKind, text []byte, version int64, at planner.Time, x *terse) (planner.Body, error) {
	switch kind {
	case planner.KindWorkflowArrived:
		w, err := decode[wireWorkflow](text)
		return &planner.WorkflowArrived{Workflow: planner.Workflow{ID: w.Workflow}}, err
	case planner.KindAttemptStarted:
		w, err := decode[wireAttempt](text)
		return planner.AttemptStarted(w), err
	case planner.KindAttemptSuspended:
		w, err := decode[wireAttempt](text)
		return planner.AttemptSuspended(w), err
	case planner.KindAttemptResumed:
		w, err := decode[wireAttempt](text)
		return planner.AttemptResumed(w), err
	case planner.KindAttemptExited:
		w, err := decode[wireExit](text)
		b := &planner.AttemptExited{Attempt: w.Attempt, Outcome: w.Outcome, ExitCode: w.ExitCode, Ran: w.Ran, Kept: w.Kept, Final: w.Final != 0,
			Message: w.Message}
		if u := w.Usage; u != nil {
			b.Usage = planner.Usage{Queued: u.Queued, Staged: u.Staged, Created: u.Created, Started: u.Started, Ended: u.Ended,
				CPUUser: u.CPUUser, CPUSystem: u.CPUSystem, CPUThrottled: u.CPUThrottled, PeakMemory: u.PeakMemory,
				ReadBytes: u.ReadBytes, WrittenBytes: u.WrittenBytes, ReadOps: u.ReadOps, WriteOps: u.WriteOps,
				InputBytes: u.InputBytes, CopiedBytes: u.CopiedBytes, MovedBytes: u.MovedBytes, OOMKills: u.OOMKills,
				Missing: u.Missing, Applied: planner.Limits(u.Applied)}
		} else if version >= 4 {
			b.Usage = x.usage(at, w.Ran)
		}
		if w.Bytes != nil {
			b.Message = string(w.Bytes)
		}
		return b, err
	case planner.KindFileAppeared:
		w, err := decode[wireFile](text)
		return planner.FileAppeared(w), err
	case planner.KindNodeChanged:
		w, err := decode[wireNode](text)
		return planner.NodeChanged(w), err
	case planner.KindWoke:
		_, err := decode[struct{}](text)
		return planner.Woke{}, err
	case planner.KindPlanCommitted:
		w, err := decode[wirePlan](text)
		b := &planner.PlanCommitted{Round: w.Round, Took: w.Took}
		if w.Orders != nil {
			b.Orders = make([]planner.Order, len(w.Orders))
		}
		for i, x := range w.Orders {
			b.Orders[i] = planner.Order{Kind: x.Kind, Attempt: x.Attempt, Task: x.Task, Node: x.Node, Hold: x.Hold, Try: x.Try,
				Until: x.Until, Est: planner.Estimate(x.Est), File: x.File, From: x.From}
		}
		for _, s := range w.Starts {
			if s[0] < 0 || s[0] > math.MaxInt32 || s[2] < 0 || s[2] > math.MaxInt32 {
				return nil, fmt.Errorf("start %v is out of range", s)
			}
			o, ok := x.order(at, planner.AttemptID(s[0]), planner.TaskID(min(s[1], math.MaxInt32)), planner.NodeID(s[2]), time.Duration(s[3]))
			if !ok {
				return nil, fmt.Errorf("start %v is of a task that was not admitted", s)
			}
			b.Orders = append(b.Orders, o)
		}
		if w.Waits != nil {
			b.Reasons = make([]planner.Wait, len(w.Waits))
		}
		for i, x := range w.Waits {
			if x[0] < math.MinInt32 || x[0] > math.MaxInt32 || x[1] < 0 || x[1] > math.MaxUint8 || x[2] < 0 || x[2] > math.MaxUint8 {
				return nil, fmt.Errorf("wait %v is out of range", x)
			}
			b.Reasons[i] = planner.Wait{Task: planner.TaskID(x[0]), Reason: planner.Reason{Code: planner.ReasonCode(x[1]),
				Dim: unit.Dim(x[2]), Node: planner.NodeID(x[3]), At: planner.Time(x[4])}}
		}
		if w.Notes != nil {
			b.Notes = make([]planner.Note, len(w.Notes))
		}
		for i, n := range w.Notes {
			b.Notes[i] = planner.Note(n)
		}
		return b, err
	case planner.KindWorkflowCancelled:
		w, err := decode[wireWorkflow](text)
		return planner.WorkflowCancelled(w), err
	}
	return nil, fmt.Errorf("kind %d is not known to this gantry: use the newer one that wrote it", kind)
}

func decode[T any](text []byte) (T, error) {
	var v T
	err := json.Unmarshal(text, &v)
	return v, err
}
