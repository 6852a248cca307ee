package sqlite_test

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"gantry/executor"
	"gantry/sqlite"
	"gantry/trace"
)

// Programs, their environment and paths are bytes to the kernel, in whichever encoding they were written.
func TestASubmissionKeepsEveryByte(t *testing.T) {
	s := &executor.Submission{Name: "w", Dirs: []string{"/data/\xe9t\xe9"}, Workflow: &trace.Workflow{
		Tasks: []trace.Task{{ID: "a", Command: []string{"echo caf\xe9 >o", "sh"}, Env: []string{"V=\xff\x00x", "E="},
			Outputs: []int32{0}}},
		Files: []trace.File{{Name: "[\"\xf0\"]"}}}}
	blob, err := sqlite.EncodeSubmission(s)
	if err != nil {
		t.Fatal(err)
	}
	got, err := sqlite.DecodeSubmission(blob, within)
	if err != nil || !reflect.DeepEqual(got, s) {
		t.Errorf("%+v, %v\nwas sent as %+v", got, err, s)
	}
}

// within takes as much as a user may have.
func within(a sqlite.Amount) error {
	if !a.Within(sqlite.Most) {
		return fmt.Errorf("%+v is too much", a)
	}
	return nil
}

// Objects and lists are bounded, but not the braces of commands; the log's own submissions are not bounded at all.
func TestDecodingASubmissionIsBounded(t *testing.T) {
	braces := &executor.Submission{Name: "w", Workflow: &trace.Workflow{Tasks: []trace.Task{{ID: "a",
		Command: []string{strings.Repeat("${X}", 3<<20)}}}}}
	blob, err := sqlite.EncodeSubmission(braces)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.DecodeSubmission(blob, within); err != nil {
		t.Errorf("braces of a command: %v", err)
	}
	many := []byte(`{"None":[{}` + strings.Repeat(",{}", 2<<20) + `]}`)
	lists := []byte(`{"None":[""` + strings.Repeat(`,""`, 16<<20) + `]}`)
	for text, says := range map[*[]byte]string{&many: "Objects:2097154", &lists: "Elements:16777218"} {
		if _, err := sqlite.DecodeSubmission(*text, within); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.20s... of a client: %v", *text, err)
		}
	}
	packed := binary.AppendUvarint([]byte{0xff}, 577<<20) // a claim in the encoding of the log
	if _, err := sqlite.DecodeSubmission(append(packed, make([]byte, 4<<20)...), within); err == nil ||
		!strings.Contains(err.Error(), "Bytes:605028352") {
		t.Errorf("577 MiB of a client: %v", err)
	}
	_, err = (&sqlite.Submitted{Definition: many}).Submission()
	if err == nil || !strings.Contains(err.Error(), "None") {
		t.Errorf("two million objects of the log: %v", err)
	}
	for text, says := range map[string]string{`{"Name":"\xff"}`: "invalid", "{\"Name\":\"\xff\"}": "UTF-8",
		`{"Nam":"w"}`: "Nam", `{"Name":["dw==","dw=="]}`: "array", `{"Name":["-"]}`: "base64",
		`{"Workflow":{"Tasks":[{"ID":"a","Parents":[7]}]}}`:     "parent 7 of 1",
		`{"Workflow":{"Tasks":[{"ID":"a","Parents":[-1]}]}}`:    "parent -1 of 1",
		`{"Workflow":{"Tasks":[{"ID":"a","Children":[null]}]}}`: "Children"} {
		if s, err := sqlite.DecodeSubmission([]byte(text), within); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %+v, %v, which does not name %s", text, s, err, says)
		}
	}
}
