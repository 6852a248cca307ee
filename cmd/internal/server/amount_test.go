package server

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"gantry/executor"
	"gantry/sqlite"
	"gantry/trace"
)

// Objects and lists are bounded, but not the braces of commands.
func TestDecodingASubmissionIsBounded(t *testing.T) {
	within := func(a amount) error {
		if !a.within(mostAmount) {
			return fmt.Errorf("%+v is too much", a)
		}
		return nil
	}
	braces := &executor.Submission{Name: "w", Workflow: &trace.Workflow{Tasks: []trace.Task{{ID: "a",
		Command: []string{strings.Repeat("${X}", 3<<20)}}}}}
	blob, err := sqlite.EncodeSubmission(braces)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := submissionOf(blob, within); err != nil {
		t.Errorf("braces of a command: %v", err)
	}
	many := []byte(`{"None":[{}` + strings.Repeat(",{}", 2<<20) + `]}`)
	lists := []byte(`{"None":[""` + strings.Repeat(`,""`, 16<<20) + `]}`)
	for text, says := range map[*[]byte]string{&many: "objects:2097154", &lists: "elements:16777218"} {
		if _, err := submissionOf(*text, within); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.20s... of a client: %v", *text, err)
		}
	}
	packed := binary.AppendUvarint([]byte{0xff}, 577<<20) // a claim in the encoding of the log
	if _, err := submissionOf(append(packed, make([]byte, 4<<20)...), within); err == nil ||
		!strings.Contains(err.Error(), "bytes:605028352") {
		t.Errorf("577 MiB of a client: %v", err)
	}
}
