package sqlite

import (
	"bytes"
	"cmp"
	"database/sql/driver"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"gantry/planner"
	"gantry/planner/unit"
)

// logJSON is how the log has events and submissions as JSON: members by their json tags, those that are zero left out.
// An order and a wait are arrays of their numbers, as there are many. These and vectors leave out zeros at their end.
var logJSON = json.JoinOptions(json.OmitZeroStructFields(true), jsontext.AllowInvalidUTF8(true),
	jsonv1.FormatDurationAsNano(true),
	json.WithMarshalers(json.JoinMarshalers(
		json.MarshalToFunc(func(to *jsontext.Encoder, o planner.Order) error {
			n := numbersOfOrder(&o)
			return numbersTo(to, n[:])
		}),
		json.MarshalToFunc(func(to *jsontext.Encoder, w planner.Wait) error {
			n := numbersOf(w)
			return numbersTo(to, n[:])
		}),
		json.MarshalToFunc(func(to *jsontext.Encoder, v unit.Vector) error { return numbersTo(to, v[:]) }))),
	json.WithUnmarshalers(json.JoinUnmarshalers(
		json.UnmarshalFromFunc(func(from *jsontext.Decoder, o *planner.Order) error {
			var n [17]int64
			if err := numbersFrom(from, n[:]); err != nil {
				return err
			}
			*o = planner.Order{Kind: planner.OrderKind(n[0]), Attempt: planner.AttemptID(n[1]),
				Task: planner.TaskID(n[2]), Node: planner.NodeID(n[3]), Try: int32(n[4]),
				Hold:  unit.Vector{n[5], n[6], n[7], n[15]},
				Until: planner.Time(n[8]), Est: planner.Estimate{Run: time.Duration(n[9]),
					Source: planner.Source(n[10]), Spread: time.Duration(n[11]), Samples: int32(n[12])},
				File: planner.FileID(n[13]), From: planner.NodeID(n[14]), GPUs: planner.Devices(n[16])}
			return fitting(n, numbersOfOrder(o))
		}),
		readVector,
		json.UnmarshalFromFunc(func(from *jsontext.Decoder, w *planner.Wait) error {
			var n [5]int64
			if err := numbersFrom(from, n[:]); err != nil {
				return err
			}
			*w = planner.Wait{Task: planner.TaskID(n[0]), Reason: planner.Reason{Code: planner.ReasonCode(n[1]),
				Dim: unit.Dim(n[2]), Node: planner.NodeID(n[3]), At: planner.Time(n[4])}}
			return fitting(n, numbersOf(*w))
		}))))

var readVector = json.UnmarshalFromFunc(func(from *jsontext.Decoder, v *unit.Vector) error {
	return numbersFrom(from, v[:])
})

// numbersTo writes an array without the zeros at its end.
func numbersTo(to *jsontext.Encoder, n []int64) error {
	for len(n) > 0 && n[len(n)-1] == 0 {
		n = n[:len(n)-1]
	}
	return json.MarshalEncode(to, n)
}

// numbersFrom reads the numbers of numbersTo.
func numbersFrom(from *jsontext.Decoder, to []int64) error {
	n := to[:0]
	err := json.UnmarshalDecode(from, &n)
	if err == nil && len(n) > len(to) {
		err = fmt.Errorf("there are %d numbers, where at most %d are expected", len(n), len(to))
	}
	copy(to, n)
	return err
}

// numbersOfOrder has those at the end that most orders lack.
func numbersOfOrder(o *planner.Order) [17]int64 {
	return [...]int64{int64(o.Kind), int64(o.Attempt), int64(o.Task), int64(o.Node), int64(o.Try), o.Hold[0], o.Hold[1],
		o.Hold[2], int64(o.Until), int64(o.Est.Run), int64(o.Est.Source), int64(o.Est.Spread), int64(o.Est.Samples),
		int64(o.File), int64(o.From), o.Hold[unit.GPU], int64(o.GPUs)}
}

func numbersOf(w planner.Wait) [5]int64 {
	r := &w.Reason
	return [5]int64{int64(w.Task), int64(r.Code), int64(r.Dim), int64(r.Node), int64(r.At)}
}

// fitting refuses numbers that were cut when they were read.
func fitting[N comparable](read, kept N) error {
	if read != kept {
		return fmt.Errorf("an order or a wait has a number that is too large: %v", read)
	}
	return nil
}

// plainUsage is that of an attempt of which nothing was measured and which ran as soon as it was ordered, as most of
// simulations do: a body leaves it out.
func plainUsage(at planner.Time, ran time.Duration) planner.Usage {
	t := at.Add(-ran)
	return planner.Usage{Queued: t, Staged: t, Created: t, Started: t, Ended: at, Missing: planner.CountersAll}
}

// encodeBody returns the subject of an event, and writes the rest of its body: nothing if there is no more. Of a
// WorkflowArrived workflows.definition has the rest, and of a WorkflowGrown growths.definition.
func encodeBody(to *bytes.Buffer, at planner.Time, body planner.Body) (subject driver.Value, err error) {
	var rest any = body
	switch b := body.(type) {
	case *planner.WorkflowArrived:
		return int64(b.Workflow.ID), nil
	case planner.WorkflowCancelled:
		return int64(b.Workflow), nil
	case planner.TaskCancelled:
		return int64(b.Task), nil
	case planner.AttemptStarted:
		return int64(b.Attempt), nil
	case planner.AttemptSuspended:
		return int64(b.Attempt), nil
	case planner.AttemptResumed:
		return int64(b.Attempt), nil
	case *planner.WorkflowGrown:
		subject, rest = int64(b.Workflow), grownBody{b.Tasks[0].ID}
	case *planner.WorkflowContinued:
		subject = int64(b.Workflow)
	case *planner.AttemptExited:
		short := *b
		if b.Usage == plainUsage(at, b.Ran) {
			short.Usage = planner.Usage{}
		}
		if b.Outcome == planner.OK {
			short.Outcome = 0
		}
		subject, rest = int64(b.Attempt), &short
	case planner.FileAppeared:
		subject = int64(b.File)
	case planner.NodeChanged:
		subject = int64(b.Node)
	case *planner.PlanCommitted:
		subject = b.Round
	case *planner.TaskReused:
		subject = int64(b.Task)
	case planner.Woke:
		return nil, nil
	}
	return subject, json.MarshalWrite(to, rest, logJSON)
}

// decodeBody reads what encodeBody wrote. Of a WorkflowArrived it gives the id only, of a WorkflowGrown also that of
// the first task.
func decodeBody(kind planner.EventKind, at planner.Time, subject int64, text []byte) (planner.Body, error) {
	n := int32(subject)
	if kind != planner.KindPlanCommitted && int64(n) != subject {
		return nil, fmt.Errorf("its subject %d is too large", subject)
	}
	switch kind {
	case planner.KindWorkflowArrived:
		return &planner.WorkflowArrived{Workflow: planner.Workflow{ID: planner.WorkflowID(n)}}, nil
	case planner.KindWorkflowCancelled:
		return planner.WorkflowCancelled{Workflow: planner.WorkflowID(n)}, nil
	case planner.KindTaskCancelled:
		return planner.TaskCancelled{Task: planner.TaskID(n)}, nil
	case planner.KindAttemptStarted:
		return planner.AttemptStarted{Attempt: planner.AttemptID(n)}, nil
	case planner.KindAttemptSuspended:
		return planner.AttemptSuspended{Attempt: planner.AttemptID(n)}, nil
	case planner.KindAttemptResumed:
		return planner.AttemptResumed{Attempt: planner.AttemptID(n)}, nil
	case planner.KindWorkflowGrown:
		b, err := decode[grownBody](text)
		return &planner.WorkflowGrown{Workflow: planner.WorkflowID(n), Tasks: []planner.Task{{ID: b.First}}}, err
	case planner.KindWorkflowContinued:
		b, err := decode[planner.WorkflowContinued](text)
		b.Workflow = planner.WorkflowID(n)
		return b, err
	case planner.KindAttemptExited:
		b, err := decode[planner.AttemptExited](text)
		b.Attempt, b.Outcome = planner.AttemptID(n), cmp.Or(b.Outcome, planner.OK)
		if b.Usage == (planner.Usage{}) {
			b.Usage = plainUsage(at, b.Ran)
		}
		return b, err
	case planner.KindFileAppeared:
		b, err := decode[planner.FileAppeared](text)
		b.File = planner.FileID(n)
		return *b, err
	case planner.KindNodeChanged:
		b, err := decode[planner.NodeChanged](text)
		b.Node = planner.NodeID(n)
		return *b, err
	case planner.KindWoke:
		return planner.Woke{}, nil
	case planner.KindPlanCommitted:
		b, err := decode[planner.PlanCommitted](text)
		b.Round = subject
		return b, err
	case planner.KindPolicyChanged:
		b, err := decode[planner.PolicyChanged](text)
		return *b, err
	case planner.KindTaskReused:
		b, err := decode[planner.TaskReused](text)
		b.Task = planner.TaskID(n)
		return b, err
	}
	return nil, fmt.Errorf("kind %d is not known to this gantry: use the newer one that wrote it", kind)
}

func decode[T any](text []byte) (*T, error) {
	v := new(T)
	return v, json.Unmarshal(text, v, logJSON)
}
