package sqlite

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"gantry/planner"
)

// plainUsage is that of an attempt of which nothing was measured and which ran as soon as it was ordered, as most of
// simulations do: a body leaves it out.
func plainUsage(at planner.Time, ran time.Duration) planner.Usage {
	t := at.Add(-ran)
	return planner.Usage{Queued: t, Staged: t, Created: t, Started: t, Ended: at, Missing: planner.CountersAll}
}

// encodeBody appends the JSON of the body of an event: the members of its type by their json tags, those that are zero
// left out. A WorkflowArrived is its id; workflows.definition has the rest, and growths.definition that of a
// WorkflowGrown.
func encodeBody(buf []byte, at planner.Time, body planner.Body) ([]byte, error) {
	v := reflect.ValueOf(body)
	switch b := body.(type) {
	case *planner.WorkflowArrived:
		v = reflect.ValueOf(planner.WorkflowCancelled{Workflow: b.Workflow.ID})
	case *planner.WorkflowGrown:
		v = reflect.ValueOf(bodyOfGrowth(b))
	case *planner.AttemptExited:
		if b.Usage == plainUsage(at, b.Ran) {
			short := *b
			short.Usage = planner.Usage{}
			b = &short
		}
		v = reflect.ValueOf(b).Elem()
	case *planner.PlanCommitted, *planner.WorkflowContinued, *planner.TaskReused:
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
		Final int    `json:"final"`          // 1: true
		Bytes []byte `json:"message_base64"` // a message that is not UTF-8
	}
	planBody struct {
		planner.PlanCommitted
		Reasons []flat[planner.Wait] `json:"waits"`
	}
)

// decodeBody reads what encodeBody wrote. Of a WorkflowArrived it gives the id only, of a WorkflowGrown also that of
// the first task.
func decodeBody(kind planner.EventKind, at planner.Time, text []byte) (planner.Body, error) {
	body := quickBody(kind, text)
	if body == nil {
		var err error
		if body, err = anyBody(kind, text); err != nil {
			return nil, err
		}
	}
	if b, ok := body.(*planner.AttemptExited); ok && b.Usage == (planner.Usage{}) {
		b.Usage = plainUsage(at, b.Ran)
	}
	return body, nil
}

// anyBody reads a body however it is written.
func anyBody(kind planner.EventKind, text []byte) (planner.Body, error) {
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
		return plan, nil
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

// quickBody reads a body of one of the frequent kinds as encodeBody writes it; nil: it is none.
func quickBody(kind planner.EventKind, text []byte) planner.Body {
	switch kind {
	case planner.KindAttemptStarted:
		b := new(planner.AttemptStarted)
		if quickly(text, b) {
			return *b
		}
	case planner.KindAttemptExited:
		b := new(planner.AttemptExited)
		if quickly(text, b) {
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

func decode[T any](text []byte) (T, error) {
	var v T
	err := json.Unmarshal(text, &v)
	return v, err
}
