package sqlite

import (
	"bytes"
	"reflect"
	"testing"

	"gantry/planner"
	"gantry/planner/unit"
)

// Every text that can be read as the body of an event is written so that it is read as the same again.
func FuzzBodies(f *testing.F) {
	for kind, text := range map[uint8]string{1: `{}`, 2: `{}`, 6: `{"node":2}`,
		7: `{"capacity":[1,2,3]}`, 8: `{}`, 10: `{}`, 13: `{"first_task":40}`,
		5: `{"outcome":2,"exit_code":-1,"ran_ns":5,"kept":0.25,"final":true,` +
			`"usage":{"cpu_user_ns":1,"missing":15,"applied":{"pids":9}},"message":"<a>"}`,
		9: `{"orders":[[1,0,3,0,1,1000,0,0,0,9,4,1]],"waits":[[1,3,0,-1,9]],"notes":[{"topic":"t","text":"x"}]}`} {
		f.Add(kind, int64(7), []byte(text))
	}
	f.Add(uint8(2), int64(1)<<40, []byte(`{}`))
	f.Add(uint8(5), int64(0), []byte("{\"message\":\"\xff\"}"))
	f.Add(uint8(5), int64(7), []byte(`{"ran_ns":5}`))
	f.Add(uint8(5), int64(-1), []byte(`{"message":"\u00e9\n"}`))
	f.Fuzz(func(t *testing.T, kind uint8, about int64, text []byte) {
		const at = planner.Time(1e9)
		body, err := decodeBody(planner.EventKind(kind), at, about, text)
		if err != nil {
			return
		}
		var buf bytes.Buffer
		subject, err := encodeBody(&buf, at, body)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		n, some := subject.(int64)
		if some && n != about {
			t.Fatalf("%s: it is about %d, and was about %d", text, n, about)
		}
		written := buf.Bytes()
		if again, err := decodeBody(body.Kind(), at, n, written); err != nil || !reflect.DeepEqual(again, body) {
			t.Fatalf("%s\nis read as   %+v\nwritten as   %s\nread again as %+v, %v", text, body, written, again, err)
		}
	})
}

// Most orders and waits end in zeros, and vectors without GPUs do.
func TestBodiesLeaveOutZerosAtTheEndOfNumbers(t *testing.T) {
	for text, want := range map[string]planner.Body{
		`{"capacity":[1]}`:       planner.NodeChanged{Capacity: unit.Vector{1}},
		`{"capacity":[1,2,3,4]}`: planner.NodeChanged{Capacity: unit.Vector{1, 2, 3, 4}},
		`{"orders":[[1,0,3,0,1,1000,0,0,0,9,4,1]],"waits":[[3,2]]}`: &planner.PlanCommitted{Orders: []planner.Order{{
			Kind: planner.OrderStart, Task: 3, Try: 1, Hold: unit.Cores(1), Until: 9,
			Est: planner.Estimate{Run: 4, Source: 1}}},
			Reasons: []planner.Wait{{Task: 3, Reason: planner.Reason{Code: 2}}}},
		`{"orders":[[1,0,3,0,1,1000,0,0,2,9,4,1,0,0,0,0,5]]}`: &planner.PlanCommitted{Orders: []planner.Order{{
			Kind: planner.OrderStart, Task: 3, Try: 1, Hold: unit.Vector{1000, 0, 0, 2}, Until: 9,
			Est: planner.Estimate{Run: 4, Source: 1}, GPUs: 0b101}}},
		`{"ran_ns":5}`:              &planner.AttemptExited{Outcome: planner.OK, Ran: 5, Usage: plainUsage(0, 5)},
		`{"capacity":[1,2,3,4,5]}`:  nil,
		`{"waits":[[1,2,3,4,5,6]]}`: nil,
		`{"waits":[[1,300]]}`:       nil,
	} {
		kind := planner.KindNodeChanged
		switch text[2] {
		case 'o', 'w':
			kind = planner.KindPlanCommitted
		case 'r':
			kind = planner.KindAttemptExited
		}
		got, err := decodeBody(kind, 0, 0, []byte(text))
		if (err == nil) != (want != nil) || err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as %+v, %v", text, got, err)
		}
		if err != nil {
			continue
		}
		var buf bytes.Buffer
		if _, err := encodeBody(&buf, 0, got); err != nil || buf.String() != text {
			t.Errorf("%s is written as %s, %v", text, &buf, err)
		}
	}
}
