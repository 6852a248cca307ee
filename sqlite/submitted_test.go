package sqlite_test

import (
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
	must(t, err)
	text, err := sqlite.Unpack(blob, sqlite.UnpackedSize(blob))
	must(t, err)
	got, err := sqlite.DecodeSubmission(text)
	if err != nil || !reflect.DeepEqual(got, s) {
		t.Errorf("%+v, %v\nwas sent as %+v", got, err, s)
	}
}

// The log's own submissions are bounded by nothing but their meaning.
func TestDecodingASubmissionNamesWhatIsWrong(t *testing.T) {
	many := []byte(`{"None":[{}` + strings.Repeat(",{}", 2<<20) + `]}`)
	_, err := (&sqlite.Submitted{Definition: many}).Submission()
	if err == nil || !strings.Contains(err.Error(), "None") {
		t.Errorf("two million objects of the log: %v", err)
	}
	for text, says := range map[string]string{`{"Name":"\xff"}`: "invalid", "{\"Name\":\"\xff\"}": "UTF-8",
		`{"Nam":"w"}`: "Nam", `{"Name":["dw==","dw=="]}`: "array", `{"Name":["-"]}`: "base64",
		`{"Workflow":{"Tasks":[{"ID":"a","Parents":[7]}]}}`:     "parent 7 of 1",
		`{"Workflow":{"Tasks":[{"ID":"a","Parents":[-1]}]}}`:    "parent -1 of 1",
		`{"Workflow":{"Tasks":[{"ID":"a","Children":[null]}]}}`: "Children"} {
		if s, err := sqlite.DecodeSubmission([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %+v, %v, which does not name %s", text, s, err, says)
		}
	}
}
