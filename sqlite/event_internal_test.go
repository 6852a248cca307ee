package sqlite

import (
	"encoding/json"
	"reflect"
	"strconv"
	"testing"

	"gantry/planner"
	"gantry/planner/unit"
)

// Whatever can be read as the body of an event is written so that it is read as the same again, in either kind of log.
func FuzzBodies(f *testing.F) {
	for kind, text := range map[uint8]string{1: `{"workflow":3}`, 2: `{"attempt":7}`, 6: `{"file":1,"node":2}`,
		7: `{"capacity":[1,2,3]}`, 8: `{}`, 10: `{}`, 13: `{"workflow":2,"first_task":40}`,
		5: `{"attempt":1,"outcome":2,"exit_code":-1,"ran_ns":5,"kept":0.25,"final":1,` +
			`"usage":{"cpu_user_ns":1,"missing":15,"applied":{"pids":9}},"message":"<a>"}`,
		9: `{"round":1,"orders":[{"kind":1,"hold":[1,0,0],"estimate":{"run_ns":4,"source":1}}],` +
			`"waits":[[1,3,0,-1,9]],"notes":[{"topic":"t","text":"x"}]}`} {
		f.Add(kind, []byte(text))
	}
	f.Add(uint8(5), []byte(`{"message_base64":"/w==","usage":{}}`))
	f.Add(uint8(9), []byte(`{"round":3,"took_ns":7,"starts":[[0,0,1,1000]],"waits":[[1,3,0,-1,0],[1,5,0,2,9]]}`))
	f.Add(uint8(9), []byte(`{"round":3,"took_ns":7,"starts":[[0,0,1],[0,0,1,7],[0,0,1,0]]}`))
	f.Add(uint8(5), []byte(`{"attempt":7,"outcome":1,"ran_ns":5}`))
	f.Add(uint8(9), []byte(`{"starts":[[0,0,1,1000]],"orders":null,"waits":[]}`))
	f.Add(uint8(9), []byte(`{"round":07,"waits":[[1,300,0,-1,0]],"notes":[]}`))
	f.Add(uint8(5), []byte(`{"attempt":1,"attempt":9223372036854775807,"message":"\u00e9\n"}`))
	f.Fuzz(func(t *testing.T, kind uint8, text []byte) {
		tasks := new(terse)
		tasks.needs = []unit.Vector{{1, 2, 3}}
		tasks.tasks.add(admitted{run: 1000})
		for version := int64(1); version <= eventVersion; version++ {
			const at = planner.Time(1e9)
			body, err := decodeBody(planner.EventKind(kind), text, version, at, tasks)
			if fast := quickBody(planner.EventKind(kind), text, version); fast != nil {
				slow, err := anyBody(planner.EventKind(kind), text, version, at, tasks)
				if err != nil || !reflect.DeepEqual(fast, slow) {
					t.Fatalf("%s\nis read as       %+v\nand in short as %+v, %v", text, slow, fast, err)
				}
			}
			if err != nil {
				continue
			}
			plain, err := encodeBody(nil, body)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			short, err := tasks.object(nil, at, body)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			listed, err := tasks.encode(nil, 7, at, body)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			var event []json.RawMessage
			if err := json.Unmarshal(listed, &event); err != nil {
				t.Fatalf("%s: %v", listed, err)
			}
			if string(event[0]) != "7" || string(event[1]) != strconv.Itoa(int(kind)) {
				t.Fatalf("%s: step and kind are wrong", listed)
			}
			for v, written := range map[int64][]json.RawMessage{1: {plain}, 4: {short}, 7: event[2:]} {
				if again, err := tasks.decode(body.Kind(), written, v, at); err != nil ||
					!reflect.DeepEqual(again, body) {
					t.Fatalf("%s\nis read as   %+v\nwritten as   %s\nread again as %+v, %v", text, body, written, again,
						err)
				}
			}
		}
	})
}

// A list is split as encoding/json splits it. What that refuses is refused, or one of its members is.
func FuzzSplit(f *testing.F) {
	for _, text := range []string{`[]`, `[1]`, `[ 1, 2]`, `[[1,2],{"a":"],"},-3,"\"]"]`, `[1,,2]`, `[1]]`, `[[1}`, `["a`,
		`[1,2],`, ``} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var want []json.RawMessage
		invalid := json.Unmarshal(text, &want)
		got, err := split(nil, text)
		if invalid == nil {
			if err != nil || len(got) != len(want) {
				t.Fatalf("%s is split into %q, %v", text, got, err)
			}
			for i := range got {
				if string(got[i]) != string(want[i]) {
					t.Fatalf("member %d of %s is %s", i, text, got[i])
				}
			}
			return
		}
		for _, member := range got {
			if !json.Valid(member) {
				err = invalid
			}
		}
		if err == nil {
			t.Fatalf("%s is split into %q", text, got)
		}
	})
}
