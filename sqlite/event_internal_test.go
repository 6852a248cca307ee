package sqlite

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/go-json-experiment/json"

	"gantry/planner"
	"gantry/planner/unit"
)

// Every text that can be read as the body of an event is written so that it is read as the same again.
func FuzzBodies(f *testing.F) {
	for kind, text := range map[uint8]string{1: `{"workflow":3}`, 2: `{"attempt":7}`, 6: `{"file":1,"node":2}`,
		7: `{"capacity":[1,2,3]}`, 8: `{}`, 10: `{}`, 13: `{"workflow":2,"first_task":40}`,
		5: `{"attempt":1,"outcome":2,"exit_code":-1,"ran_ns":5,"kept":0.25,"final":true,` +
			`"usage":{"cpu_user_ns":1,"missing":15,"applied":{"pids":9}},"message":"<a>"}`,
		9: `{"round":1,"orders":[[1,0,3,0,1,1000,0,0,9,4,0,0,1,0,0]],` +
			`"waits":[[1,3,0,-1,9]],"notes":[{"topic":"t","text":"x"}]}`} {
		f.Add(kind, []byte(text))
	}
	f.Add(uint8(5), []byte("{\"message\":\"\xff\"}"))
	f.Add(uint8(5), []byte(`{"attempt":7,"outcome":1,"ran_ns":5}`))
	f.Add(uint8(5), []byte(`{"attempt":1,"message":"\u00e9\n"}`))
	f.Fuzz(func(t *testing.T, kind uint8, text []byte) {
		const at = planner.Time(1e9)
		body, err := decodeBody(planner.EventKind(kind), at, text)
		if err != nil {
			return
		}
		var buf bytes.Buffer
		if err := encodeBody(&buf, at, body); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		written := buf.Bytes()
		if again, err := decodeBody(body.Kind(), at, written); err != nil || !reflect.DeepEqual(again, body) {
			t.Fatalf("%s\nis read as   %+v\nwritten as   %s\nread again as %+v, %v", text, body, written, again, err)
		}
	})
}

// A log of an earlier build has no GPUs: vectors and orders have fewer numbers there, as orders without GPUs still do.
func TestBodiesFromBeforeThereWereGPUs(t *testing.T) {
	var d definition
	if err := json.Unmarshal([]byte(`{"Arrived":{"Tasks":[{"Need":[1,2,3]}]}}`), &d, submissionJSON); err != nil ||
		d.Arrived.Tasks[0].Need != (unit.Vector{1, 2, 3}) {
		t.Errorf("a definition is read as %+v, %v", d.Arrived, err)
	}
	for text, want := range map[string]planner.Body{
		`{"capacity":[1,2,3]}`:   planner.NodeChanged{Capacity: unit.Vector{1, 2, 3}},
		`{"capacity":[1,2,3,4]}`: planner.NodeChanged{Capacity: unit.Vector{1, 2, 3, 4}},
		`{"orders":[[1,0,3,0,1,1000,0,0,9,4,0,0,1,0,0]]}`: &planner.PlanCommitted{Orders: []planner.Order{{
			Kind: planner.OrderStart, Task: 3, Try: 1, Hold: unit.Cores(1), Until: 9,
			Est: planner.Estimate{Run: 4, Source: 1}}}},
		`{"orders":[[1,0,3,0,1,1000,0,0,9,4,0,0,1,0,0,2,5]]}`: &planner.PlanCommitted{Orders: []planner.Order{{
			Kind: planner.OrderStart, Task: 3, Try: 1, Hold: unit.Vector{1000, 0, 0, 2}, Until: 9,
			Est: planner.Estimate{Run: 4, Source: 1}, GPUs: 0b101}}},
		`{"capacity":[1]}`:         nil,
		`{"capacity":[1,2,3,4,5]}`: nil,
		`{"orders":[[1,0,3]]}`:     nil,
	} {
		kind := planner.KindNodeChanged
		if text[2] == 'o' {
			kind = planner.KindPlanCommitted
		}
		got, err := decodeBody(kind, 0, []byte(text))
		if (err == nil) != (want != nil) || err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as %+v, %v", text, got, err)
		}
		if err != nil {
			continue
		}
		var buf bytes.Buffer
		if err := encodeBody(&buf, 0, got); err != nil {
			t.Fatal(err)
		}
		if again, err := decodeBody(kind, 0, buf.Bytes()); err != nil || !reflect.DeepEqual(again, want) ||
			kind == planner.KindPlanCommitted && buf.String() != text {
			t.Errorf("%s is written as %s, %v", text, &buf, err)
		}
	}
}
