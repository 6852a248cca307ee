package sqlite

import (
	"bytes"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"gantry/planner"
	"gantry/planner/unit"
)

// logJSON is how the log has events and submissions as JSON: members by their json tags, those that are zero left out.
// An order and a wait are arrays of their numbers, as there are many. Vectors may lack dimensions that are younger.
var logJSON = json.JoinOptions(json.OmitZeroStructFields(true), jsontext.AllowInvalidUTF8(true),
	jsonv1.FormatDurationAsNano(true),
	json.WithMarshalers(json.JoinMarshalers(
		json.MarshalToFunc(func(to *jsontext.Encoder, o planner.Order) error {
			n := numbersOfOrder(&o)
			if n[withoutGPUs] == 0 && n[withoutGPUs+1] == 0 {
				return json.MarshalEncode(to, n[:withoutGPUs])
			}
			return json.MarshalEncode(to, n)
		}),
		json.MarshalToFunc(func(to *jsontext.Encoder, w planner.Wait) error {
			return json.MarshalEncode(to, numbersOf(w))
		}))),
	json.WithUnmarshalers(json.JoinUnmarshalers(
		json.UnmarshalFromFunc(func(from *jsontext.Decoder, o *planner.Order) error {
			var n [withoutGPUs + 2]int64
			if err := numbersFrom(from, n[:]); err != nil {
				return err
			}
			*o = planner.Order{Kind: planner.OrderKind(n[0]), Attempt: planner.AttemptID(n[1]),
				Task: planner.TaskID(n[2]), Node: planner.NodeID(n[3]), Try: int32(n[4]),
				Hold:  unit.Vector{n[5], n[6], n[7], n[withoutGPUs]},
				Until: planner.Time(n[8]), Est: planner.Estimate{Run: time.Duration(n[9]), Spread: time.Duration(n[10]),
					Samples: int32(n[11]), Source: planner.Source(n[12])},
				File: planner.FileID(n[13]), From: planner.NodeID(n[14]), GPUs: planner.Devices(n[withoutGPUs+1])}
			return fitting(n, numbersOfOrder(o))
		}),
		readVector,
		json.UnmarshalFromFunc(func(from *jsontext.Decoder, w *planner.Wait) error {
			var n [5]int64
			if err := json.UnmarshalDecode(from, &n); err != nil {
				return err
			}
			*w = planner.Wait{Task: planner.TaskID(n[0]), Reason: planner.Reason{Code: planner.ReasonCode(n[1]),
				Dim: unit.Dim(n[2]), Node: planner.NodeID(n[3]), At: planner.Time(n[4])}}
			return fitting(n, numbersOf(*w))
		}))))

var readVector = json.UnmarshalFromFunc(func(from *jsontext.Decoder, v *unit.Vector) error {
	return numbersFrom(from, v[:])
})

// numbersFrom reads as many numbers or fewer: those at the end may be younger than a log.
func numbersFrom(from *jsontext.Decoder, to []int64) error {
	n := to[:0]
	err := json.UnmarshalDecode(from, &n)
	if err == nil && (len(n) < len(to)-2 || len(n) > len(to)) {
		err = fmt.Errorf("there are %d numbers, where %d are expected", len(n), len(to))
	}
	copy(to, n)
	return err
}

// withoutGPUs is how many numbers an order has that gives no GPU.
const withoutGPUs = 15

func numbersOfOrder(o *planner.Order) [withoutGPUs + 2]int64 {
	return [...]int64{int64(o.Kind), int64(o.Attempt), int64(o.Task), int64(o.Node), int64(o.Try), o.Hold[0], o.Hold[1],
		o.Hold[2], int64(o.Until), int64(o.Est.Run), int64(o.Est.Spread), int64(o.Est.Samples), int64(o.Est.Source),
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

// encodeBody writes the body of an event. A WorkflowArrived is its id; workflows.definition has the rest, and
// growths.definition that of a WorkflowGrown.
func encodeBody(to *bytes.Buffer, at planner.Time, body planner.Body) error {
	var v any = body
	switch b := body.(type) {
	case *planner.WorkflowArrived:
		v = planner.WorkflowCancelled{Workflow: b.Workflow.ID}
	case *planner.WorkflowGrown:
		v = bodyOfGrowth(b)
	case *planner.AttemptExited:
		if b.Usage == plainUsage(at, b.Ran) {
			short := *b
			short.Usage = planner.Usage{}
			v = &short
		}
	}
	return json.MarshalWrite(to, v, logJSON)
}

// decodeBody reads the text of encodeBody. Of a WorkflowArrived it gives the id only, of a WorkflowGrown also that of
// the first task.
func decodeBody(kind planner.EventKind, at planner.Time, text []byte) (planner.Body, error) {
	switch kind {
	case planner.KindWorkflowArrived:
		b, err := decode[planner.WorkflowCancelled](text)
		return &planner.WorkflowArrived{Workflow: planner.Workflow{ID: b.Workflow}}, err
	case planner.KindAttemptStarted:
		return decodeValue[planner.AttemptStarted](text)
	case planner.KindAttemptSuspended:
		return decodeValue[planner.AttemptSuspended](text)
	case planner.KindAttemptResumed:
		return decodeValue[planner.AttemptResumed](text)
	case planner.KindAttemptExited:
		b, err := decode[planner.AttemptExited](text)
		if b.Usage == (planner.Usage{}) {
			b.Usage = plainUsage(at, b.Ran)
		}
		return b, err
	case planner.KindFileAppeared:
		return decodeValue[planner.FileAppeared](text)
	case planner.KindNodeChanged:
		return decodeValue[planner.NodeChanged](text)
	case planner.KindWoke:
		return decodeValue[planner.Woke](text)
	case planner.KindPlanCommitted:
		return decode[planner.PlanCommitted](text)
	case planner.KindWorkflowCancelled:
		return decodeValue[planner.WorkflowCancelled](text)
	case planner.KindTaskCancelled:
		return decodeValue[planner.TaskCancelled](text)
	case planner.KindWorkflowContinued:
		return decode[planner.WorkflowContinued](text)
	case planner.KindPolicyChanged:
		return decodeValue[planner.PolicyChanged](text)
	case planner.KindTaskReused:
		return decode[planner.TaskReused](text)
	case planner.KindWorkflowGrown:
		b, err := decode[grownBody](text)
		return &planner.WorkflowGrown{Workflow: b.Workflow, Tasks: []planner.Task{{ID: b.First}}}, err
	}
	return nil, fmt.Errorf("kind %d is not known to this gantry: use the newer one that wrote it", kind)
}

func decode[T any](text []byte) (*T, error) {
	v := new(T)
	return v, json.Unmarshal(text, v, logJSON)
}

func decodeValue[T planner.Body](text []byte) (T, error) {
	v, err := decode[T](text)
	return *v, err
}
