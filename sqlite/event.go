package sqlite

import (
	"bytes"
	"cmp"
	"database/sql/driver"
	"fmt"
	"reflect"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"gantry/planner"
	"gantry/planner/unit"
)

// logJSON is how the log has events and submissions as JSON: members by their json tags, those that are zero left out.
// Orders and waits are arrays of their numbers, as there are many, and vectors are.
var logJSON = json.JoinOptions(json.OmitZeroStructFields(true), jsontext.AllowInvalidUTF8(true),
	jsonv1.FormatDurationAsNano(true),
	json.WithMarshalers(json.JoinMarshalers(json.MarshalToFunc(numbersTo[planner.Order]),
		json.MarshalToFunc(numbersTo[planner.Wait]), json.MarshalToFunc(numbersTo[unit.Vector]))),
	json.WithUnmarshalers(json.JoinUnmarshalers(json.UnmarshalFromFunc(numbersFrom[planner.Order]),
		json.UnmarshalFromFunc(numbersFrom[planner.Wait]), readVector)))

var readVector = json.UnmarshalFromFunc(numbersFrom[unit.Vector])

// numbersTo writes the numbers of a value without the zeros at their end.
func numbersTo[T any](to *jsontext.Encoder, x T) error {
	n := make([]int64, 0, 32)
	eachNumber(reflect.ValueOf(&x).Elem(), func(v reflect.Value) {
		if v.CanUint() {
			n = append(n, int64(v.Uint()))
		} else {
			n = append(n, v.Int())
		}
	})
	for len(n) > 0 && n[len(n)-1] == 0 {
		n = n[:len(n)-1]
	}
	return to.WriteValue(appendList(to.AvailableBuffer(), n))
}

func numbersFrom[T any](from *jsontext.Decoder, x *T) error {
	var n []int64
	if err := json.UnmarshalDecode(from, &n); err != nil {
		return err
	}
	all, k, fits := len(n), 0, true
	eachNumber(reflect.ValueOf(x).Elem(), func(v reflect.Value) {
		var to int64
		if k < all {
			to = n[k]
		}
		if k++; v.CanUint() {
			fits = fits && !v.OverflowUint(uint64(to))
			v.SetUint(uint64(to))
		} else {
			fits = fits && !v.OverflowInt(to)
			v.SetInt(to)
		}
	})
	if all > k || !fits {
		return fmt.Errorf("a number of %v is too large, or there are more than %d", n, k)
	}
	return nil
}

// eachNumber calls f for the numbers within a value, in order.
func eachNumber(v reflect.Value, f func(reflect.Value)) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			eachNumber(v.Field(i), f)
		}
	case reflect.Array:
		for i := range v.Len() {
			eachNumber(v.Index(i), f)
		}
	default:
		f(v)
	}
}

// plainUsage is that of an attempt of which nothing was measured and which ran as soon as it was ordered, as most of
// simulations do: a body leaves it out.
func plainUsage(at planner.Time, ran time.Duration) planner.Usage {
	t := at.Add(-ran)
	return planner.Usage{Queued: t, Staged: t, Created: t, Started: t, Ended: at, Missing: planner.CountersAll}
}

// form is how the log has the bodies of a kind.
type form struct {
	of      planner.Body
	subject []int // the field with the number that has a column of its own; nil: none
	body    bool  // there is more, which is JSON
}

var first = []int{0}

// forms are those of all kinds. Of a WorkflowArrived workflows.definition has the rest, and of a WorkflowGrown
// growths.definition.
var forms = map[planner.EventKind]form{
	planner.KindWorkflowArrived:   {&planner.WorkflowArrived{}, []int{0, 0}, false},
	planner.KindWorkflowGrown:     {&planner.WorkflowGrown{}, first, true},
	planner.KindWorkflowCancelled: {planner.WorkflowCancelled{}, first, false},
	planner.KindWorkflowContinued: {&planner.WorkflowContinued{}, first, true},
	planner.KindTaskCancelled:     {planner.TaskCancelled{}, first, false},
	planner.KindTaskReused:        {&planner.TaskReused{}, first, true},
	planner.KindAttemptStarted:    {planner.AttemptStarted{}, first, false},
	planner.KindAttemptSuspended:  {planner.AttemptSuspended{}, first, false},
	planner.KindAttemptResumed:    {planner.AttemptResumed{}, first, false},
	planner.KindAttemptExited:     {&planner.AttemptExited{}, first, true},
	planner.KindFileAppeared:      {planner.FileAppeared{}, first, true},
	planner.KindNodeChanged:       {planner.NodeChanged{}, first, true},
	planner.KindWoke:              {planner.Woke{}, nil, false},
	planner.KindPlanCommitted:     {&planner.PlanCommitted{}, first, true},
	planner.KindPolicyChanged:     {planner.PolicyChanged{}, nil, true},
}

// encodeBody returns the subject of an event, and writes the rest of its body: nothing if there is no more.
func encodeBody(to *bytes.Buffer, at planner.Time, body planner.Body) (subject driver.Value, err error) {
	var rest any = body
	switch b := body.(type) {
	case *planner.WorkflowGrown:
		rest = grownBody{b.Task.ID}
	case *planner.AttemptExited:
		short := *b
		if b.Usage == plainUsage(at, b.Ran) {
			short.Usage = planner.Usage{}
		}
		if b.Outcome == planner.OK {
			short.Outcome = 0
		}
		rest = &short
	}
	f := forms[body.Kind()]
	if f.subject != nil {
		subject = reflect.Indirect(reflect.ValueOf(body)).FieldByIndex(f.subject).Int()
	}
	if f.body {
		err = json.MarshalWrite(to, rest, logJSON)
	}
	return subject, err
}

func decodeBody(kind planner.EventKind, at planner.Time, subject int64, text []byte) (planner.Body, error) {
	f, known := forms[kind]
	if !known {
		return nil, fmt.Errorf("kind %d is not known to this gantry: use the newer one that wrote it", kind)
	}
	t := reflect.TypeOf(f.of)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	v := reflect.New(t)
	if f.subject != nil {
		to := v.Elem().FieldByIndex(f.subject)
		if to.OverflowInt(subject) {
			return nil, fmt.Errorf("its subject %d is too large", subject)
		}
		to.SetInt(subject)
	}
	var grown grownBody
	rest := v.Interface()
	if kind == planner.KindWorkflowGrown {
		rest = &grown
	}
	if f.body {
		if err := json.Unmarshal(text, rest, logJSON); err != nil {
			return nil, err
		}
	}
	switch b := v.Interface().(type) {
	case *planner.WorkflowGrown:
		b.Task.ID = grown.First
	case *planner.AttemptExited:
		b.Outcome = cmp.Or(b.Outcome, planner.OK)
		if b.Usage == (planner.Usage{}) {
			b.Usage = plainUsage(at, b.Ran)
		}
	}
	if reflect.TypeOf(f.of) == t {
		v = v.Elem()
	}
	return v.Interface().(planner.Body), nil
}
