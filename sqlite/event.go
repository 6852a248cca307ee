package sqlite

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
)

// eventVersion is events.v of what this package writes. It reads older ones too; a body of a newer version is refused,
// never guessed at. Version 2 has checkpoints: attempt exited has kept, and orders have kind 6. In version 3 attempt
// exited says that it is final. Bodies of version 4 leave out what follows from the rest, see terse. In version 5
// workflows grow. In version 6 most bodies of simulations are lists without names; in version 7 they leave out more,
// see encode.
const eventVersion = 7

// bodyVersion is the least version that reads a body right: older gantries continue with logs that have nothing newer
// in them.
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
	case *planner.WorkflowGrown, planner.TaskCancelled:
		return 5
	}
	return 1
}

// terse is how simulations write bodies. Their events are mostly of one kind: a task starts as it was planned, and ends
// after it has run; no more is said of them than which, where and how long.
type terse struct {
	tasks pages[admitted]
	needs []unit.Vector // that tasks have
	plain bool          // the last attempt that ended is one of most, see encode
	usual planner.Usage // of such an attempt: memory
}

// admitted is what later bodies leave out of a task. There are many: it takes little memory.
type admitted struct {
	run  time.Duration // by its trace; 0: not known
	need int32         // in needs
}

// arrived takes in the tasks that later bodies refer to.
func (x *terse) arrived(a *executor.Admission) {
	for i := range a.Arrived.Tasks {
		t := &a.Arrived.Tasks[i]
		known := admitted{need: x.needOf(&t.Need)}
		if runtimeKnown(a, i) {
			known.run = traced(a.Tasks[i])
		}
		x.tasks.put(int(t.ID), known)
	}
}

// needOf returns where a need is in needs. Tasks that follow each other mostly need the same.
func (x *terse) needOf(need *unit.Vector) int32 {
	for i := len(x.needs) - 1; i >= max(0, len(x.needs)-4); i-- {
		if x.needs[i] == *need {
			return int32(i)
		}
	}
	x.needs = append(x.needs, *need)
	return int32(len(x.needs) - 1)
}

// need is what a task needs.
func (x *terse) need(task planner.TaskID) *unit.Vector { return &x.needs[x.tasks.at(int(task)).need] }

// plainUsage is that of an attempt of which nothing was measured and which ran as soon as it was ordered.
func plainUsage(at planner.Time, ran time.Duration) planner.Usage {
	t := at.Add(-ran)
	return planner.Usage{Queued: t, Staged: t, Created: t, Started: t, Ended: at,
		Missing: planner.CountersAll}
}

// order is the first attempt of a task with what it needs, estimated to run for so long from now on.
func (x *terse) order(at planner.Time, attempt planner.AttemptID, task planner.TaskID, node planner.NodeID,
	run time.Duration) (o planner.Order, ok bool) {
	if task < 0 || int(task) >= x.tasks.len() {
		return o, false
	}
	return planner.Order{Kind: planner.OrderStart, Attempt: attempt, Task: task, Node: node,
		Hold: *x.need(task), Try: 1, Until: at.Add(run),
		Est: planner.Estimate{Run: run, Source: planner.SourceDeclared}}, true
}

// starts reports whether order says all there is to say of these.
func (x *terse) starts(at planner.Time, orders []planner.Order) bool {
	for i := range orders {
		o := &orders[i]
		if o.Kind != planner.OrderStart || o.Task < 0 || int(o.Task) >= x.tasks.len() || o.Try != 1 ||
			o.Hold == (unit.Vector{}) || o.Hold != *x.need(o.Task) || o.Until != at.Add(o.Est.Run) ||
			o.Est != (planner.Estimate{Run: o.Est.Run, Source: planner.SourceDeclared}) || o.File != 0 || o.From != 0 {
			return false
		}
	}
	return len(orders) > 0
}

// encode appends the JSON of an event: its distance in time from the one before, its kind, and its body. That is a list
// if the event says no more than most of its kind do, else an object as in version 4. An attempt that starts at the
// instant of the event before is its number alone.
func (x *terse) encode(buf []byte, step time.Duration, at planner.Time, body planner.Body) ([]byte, error) {
	if b, ok := body.(planner.AttemptStarted); ok && step == 0 {
		return appendInt(buf, int64(b.Attempt)), nil
	}
	buf = appendInt(append(buf, '['), int64(step))
	buf = appendInt(append(buf, ','), int64(body.Kind()))
	buf = append(buf, ',')
	switch b := body.(type) {
	case planner.AttemptStarted:
		return append(appendInt(buf, int64(b.Attempt)), ']'), nil
	case *planner.AttemptExited:
		if x.plain = x.ordinary(at, b); x.plain {
			buf = appendInt(buf, int64(b.Attempt))
			return append(appendInt(append(buf, ','), int64(b.Ran)), ']'), nil
		}
	case *planner.PlanCommitted:
		if b.Notes == nil && (b.Orders == nil || x.starts(at, b.Orders)) && (b.Reasons == nil || len(b.Reasons) > 0) {
			buf = appendInt(buf, b.Round)
			buf = appendInt(append(buf, ','), int64(b.Took))
			buf = x.appendStarts(append(buf, ','), b.Orders)
			if len(b.Reasons) > 0 {
				buf = appendWaits(append(buf, ','), b.Reasons)
			}
			return append(buf, ']'), nil
		}
	}
	buf, err := x.object(buf, at, body)
	return append(buf, ']'), err
}

// ordinary says whether all there is to say of the end of an attempt is how long it ran.
func (x *terse) ordinary(at planner.Time, b *planner.AttemptExited) bool {
	if b.Outcome != planner.OK || b.ExitCode != 0 || b.Kept != 0 || b.Final || b.Message != "" {
		return false
	}
	began, u := at.Add(-b.Ran), &x.usual
	u.Queued, u.Staged, u.Created, u.Started, u.Ended, u.Missing = began, began, began, began, at, planner.CountersAll
	return b.Usage == *u
}

// appendStarts leaves out how long a task is to run if its trace says the same.
func (x *terse) appendStarts(buf []byte, orders []planner.Order) []byte {
	buf = append(buf, '[')
	for i := range orders {
		o := &orders[i]
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = appendInt(append(buf, '['), int64(o.Attempt))
		buf = appendInt(append(buf, ','), int64(o.Task))
		buf = appendInt(append(buf, ','), int64(o.Node))
		if o.Est.Run == 0 || o.Est.Run != x.tasks.at(int(o.Task)).run {
			buf = appendInt(append(buf, ','), int64(o.Est.Run))
		}
		buf = append(buf, ']')
	}
	return append(buf, ']')
}

// appendWaits leaves out the end of what a reason has not.
func appendWaits(buf []byte, waits []planner.Wait) []byte {
	for i := range waits {
		w := &waits[i]
		buf = append(buf, "[,"[min(i, 1)], '[')
		buf = appendInt(buf, int64(w.Task))
		buf = appendInt(append(buf, ','), int64(w.Reason.Code))
		if none := (planner.Reason{Code: w.Reason.Code, Node: planner.None}); w.Reason != none {
			buf = appendInt(append(buf, ','), int64(w.Reason.Dim))
			buf = appendInt(append(buf, ','), int64(w.Reason.Node))
			buf = appendInt(append(buf, ','), int64(w.Reason.At))
		}
		buf = append(buf, ']')
	}
	return append(buf, ']')
}

// object appends the JSON of a body of version 4.
func (x *terse) object(buf []byte, at planner.Time, body planner.Body) ([]byte, error) {
	switch b := body.(type) {
	case *planner.AttemptExited:
		short := *b
		if b.Usage == plainUsage(at, b.Ran) {
			short.Usage = planner.Usage{}
		} else if b.Usage == (planner.Usage{}) {
			buf, err := encodeBody(buf, b)
			return append(member(buf[:len(buf)-1], `"usage":`), "{}}"...), err
		}
		return encodeBody(buf, &short)
	case *planner.PlanCommitted:
		if !x.starts(at, b.Orders) {
			break
		}
		rest := *b
		rest.Orders = nil
		buf, err := encodeBody(buf, &rest)
		return append(x.appendStarts(member(buf[:len(buf)-1], `"starts":`), b.Orders), '}'), err
	}
	return encodeBody(buf, body)
}

// decode reads what encode wrote, or decodeBody reads; fields are those after the kind.
func (x *terse) decode(kind planner.EventKind, fields []json.RawMessage, version int64, at planner.Time) (planner.Body,
	error) {
	if len(fields) == 0 {
		return nil, errors.New("it has no body")
	}
	if version < 6 || len(fields) == 1 && fields[0][0] == '{' {
		return decodeBody(kind, fields[0], version, at, x)
	}
	return x.listed(kind, fields, at)
}

// listed reads an event of version 6 whose body is a list.
func (x *terse) listed(kind planner.EventKind, fields []json.RawMessage, at planner.Time) (planner.Body, error) {
	numbers := func(n int) ([]int64, error) {
		if len(fields) < n {
			return nil, fmt.Errorf("its list has %d members, not %d", len(fields), n)
		}
		all := make([]int64, n)
		for i := range all {
			var err error
			if all[i], err = strconv.ParseInt(string(fields[i]), 10, 64); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	switch kind {
	case planner.KindAttemptStarted:
		n, err := numbers(1)
		if err != nil || n[0] != int64(int32(n[0])) {
			return nil, cmp.Or(err, errOutOfRange)
		}
		return planner.AttemptStarted{Attempt: planner.AttemptID(n[0])}, nil
	case planner.KindAttemptExited:
		n, err := numbers(2)
		if err != nil || n[0] != int64(int32(n[0])) {
			return nil, cmp.Or(err, errOutOfRange)
		}
		ran := time.Duration(n[1])
		return &planner.AttemptExited{Attempt: planner.AttemptID(n[0]), Outcome: planner.OK, Ran: ran,
			Usage: plainUsage(at, ran)}, nil
	case planner.KindPlanCommitted:
		n, err := numbers(2)
		if err != nil {
			return nil, err
		}
		plan := &planner.PlanCommitted{Round: n[0], Took: time.Duration(n[1])}
		var starts, waits [][]int64
		if len(fields) > 2 {
			starts, err = numberLists(fields[2])
		}
		if err == nil && len(fields) > 3 {
			waits, err = numberLists(fields[3])
		}
		if err == nil {
			err = x.startsOf(plan, starts, at)
		}
		for _, w := range waits {
			if len(w) == 2 {
				w = append(w, 0, int64(planner.None), 0)
			}
			if len(w) != 5 || w[0] != int64(int32(w[0])) || w[1] != int64(uint8(w[1])) || w[2] != int64(uint8(w[2])) ||
				w[3] != int64(int32(w[3])) {
				return nil, errOutOfRange
			}
			plan.Reasons = append(plan.Reasons, planner.Wait{Task: planner.TaskID(w[0]),
				Reason: planner.Reason{Code: planner.ReasonCode(w[1]), Dim: unit.Dim(w[2]), Node: planner.NodeID(w[3]),
					At: planner.Time(w[4])}})
		}
		return plan, err
	}
	return nil, fmt.Errorf("an event of kind %v is no list", kind)
}

var errOutOfRange = errors.New("a number of it is out of range")

// startsOf adds the orders of first attempts to a plan.
func (x *terse) startsOf(plan *planner.PlanCommitted, starts [][]int64, at planner.Time) error {
	for _, s := range starts {
		if n := len(s); n < 3 || n > 4 || s[0] < 0 || s[0] > math.MaxInt32 || s[2] < 0 || s[2] > math.MaxInt32 {
			return fmt.Errorf("start %v is out of range", s)
		}
		task := planner.TaskID(min(s[1], math.MaxInt32))
		o, ok := x.order(at, planner.AttemptID(s[0]), task, planner.NodeID(s[2]), 0)
		if !ok {
			return fmt.Errorf("start %v is of a task that was not admitted", s)
		}
		if o.Est.Run = x.tasks.at(int(task)).run; len(s) > 3 {
			o.Est.Run = time.Duration(s[3])
		}
		o.Until = at.Add(o.Est.Run)
		plan.Orders = append(plan.Orders, o)
	}
	return nil
}

// encodeBody appends the JSON of a body: the members of its type by their json tags, those that are zero left out. A
// WorkflowArrived is its id; workflows.definition has the rest, and growths.definition that of a WorkflowGrown.
func encodeBody(buf []byte, body planner.Body) ([]byte, error) {
	v := reflect.ValueOf(body)
	switch b := body.(type) {
	case *planner.WorkflowArrived:
		v = reflect.ValueOf(planner.WorkflowCancelled{Workflow: b.Workflow.ID})
	case *planner.WorkflowGrown:
		v = reflect.ValueOf(bodyOfGrowth(b))
	case *planner.AttemptExited, *planner.PlanCommitted, *planner.WorkflowContinued, *planner.TaskReused:
		v = v.Elem()
	case planner.AttemptStarted, planner.AttemptSuspended, planner.AttemptResumed, planner.FileAppeared,
		planner.NodeChanged, planner.Woke,
		planner.WorkflowCancelled, planner.TaskCancelled, planner.PolicyChanged:
	default:
		return nil, fmt.Errorf("an event of type %T has no place in the log", body)
	}
	return appendStruct(buf, v)
}

// The bodies of events as they are read where encoding/json cannot read them as they are in memory.
type (
	exitBody struct {
		planner.AttemptExited
		Final int            `json:"final"`          // 1: true
		Usage *planner.Usage `json:"usage"`          // nil: it follows from the rest, from version 4 on
		Bytes []byte         `json:"message_base64"` // a message that is not UTF-8
	}
	planBody struct {
		planner.PlanCommitted
		Reasons []flat[planner.Wait] `json:"waits"`
		// attempt, task, node, and run_ns if it is not what the trace of the task says: instead of orders
		Starts [][]int64 `json:"starts"`
	}
)

// decodeBody reads what encodeBody or, from version 4 on, terse wrote. Of a WorkflowArrived it gives the id only, of a
// WorkflowGrown also that of the first task.
func decodeBody(kind planner.EventKind, text []byte, version int64, at planner.Time, x *terse) (planner.Body, error) {
	if b := quickBody(kind, text, version); b != nil {
		return b, nil
	}
	return anyBody(kind, text, version, at, x)
}

// quickBody reads a body of one of the frequent kinds as encodeBody writes it; nil: it is none.
func quickBody(kind planner.EventKind, text []byte, version int64) planner.Body {
	switch kind {
	case planner.KindAttemptStarted:
		b := new(planner.AttemptStarted)
		if quickly(text, b) {
			return *b
		}
	case planner.KindAttemptExited:
		b := new(planner.AttemptExited)
		// later ones leave out usage that follows from the rest
		if (version < 4 || bytes.Contains(text, []byte(`"usage":`))) && quickly(text, b) {
			return b
		}
	case planner.KindPlanCommitted:
		b := new(planner.PlanCommitted)
		if quickly(text, b) {
			return b
		}
	}
	return nil
}

func anyBody(kind planner.EventKind, text []byte, version int64, at planner.Time, x *terse) (planner.Body, error) {
	switch kind {
	case planner.KindWorkflowArrived:
		b, err := decode[planner.WorkflowCancelled](text)
		return &planner.WorkflowArrived{Workflow: planner.Workflow{ID: b.Workflow}}, err
	case planner.KindAttemptStarted:
		return decode[planner.AttemptStarted](text)
	case planner.KindAttemptSuspended:
		return decode[planner.AttemptSuspended](text)
	case planner.KindAttemptResumed:
		return decode[planner.AttemptResumed](text)
	case planner.KindAttemptExited:
		b, err := decode[exitBody](text)
		exit := &b.AttemptExited
		exit.Final = b.Final != 0
		if b.Usage != nil {
			exit.Usage = *b.Usage
		} else if version >= 4 {
			exit.Usage = plainUsage(at, exit.Ran)
		}
		if b.Bytes != nil {
			exit.Message = string(b.Bytes)
		}
		return exit, err
	case planner.KindFileAppeared:
		return decode[planner.FileAppeared](text)
	case planner.KindNodeChanged:
		b, err := decode[struct {
			planner.NodeChanged
			Shrinks int `json:"shrinks"` // 1: true
		}](text)
		b.NodeChanged.Shrinks = b.Shrinks != 0
		return b.NodeChanged, err
	case planner.KindWoke:
		return decode[planner.Woke](text)
	case planner.KindPlanCommitted:
		b, err := decode[planBody](text)
		if err != nil {
			return nil, err
		}
		plan := &b.PlanCommitted
		if b.Reasons != nil {
			plan.Reasons = make([]planner.Wait, len(b.Reasons))
		}
		for i := range b.Reasons {
			plan.Reasons[i] = b.Reasons[i].value
		}
		return plan, x.startsOf(plan, b.Starts, at)
	case planner.KindWorkflowCancelled:
		return decode[planner.WorkflowCancelled](text)
	case planner.KindTaskCancelled:
		return decode[planner.TaskCancelled](text)
	case planner.KindWorkflowContinued:
		b, err := decode[planner.WorkflowContinued](text)
		return &b, err
	case planner.KindPolicyChanged:
		return decode[planner.PolicyChanged](text)
	case planner.KindTaskReused:
		b, err := decode[planner.TaskReused](text)
		return &b, err
	case planner.KindWorkflowGrown:
		b, err := decode[grownBody](text)
		return &planner.WorkflowGrown{Workflow: b.Workflow, Tasks: []planner.Task{{ID: b.First}}}, err
	}
	return nil, fmt.Errorf("kind %d is not known to this gantry: use the newer one that wrote it", kind)
}

func decode[T any](text []byte) (T, error) {
	var v T
	err := json.Unmarshal(text, &v)
	return v, err
}
