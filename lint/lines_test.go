package lint_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxLine bounds lines of Go, in characters.
const maxLine = 120

// longLines are the files with longer lines, and how many they may have. Shorten them, never add to them.
var longLines = map[string]int{
	"cmd/gantry/estimates.go":          9,
	"executor/docker/preempt_test.go":  1,
	"executor/metrics/timing.go":       1,
	"executor/stage/publish.go":        1,
	"executor/stage/quota_test.go":     3,
	"planner/state_test.go":            2,
	"scenario/experiment.go":           1,
	"scenario/stream.go":               9,
	"scenario/workload.go":             1,
	"scripts/benchmark/main.go":        2,
	"scripts/crashtest/rounds_test.go": 19,
	"trace/impute.go":                  2,
}

// Lines of raw strings are data: they may be longer.
func TestLinesAreShort(t *testing.T) {
	cmd := exec.Command("git", "ls-files", "*.go")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("needs git to list the files: %v", err)
	}
	for file := range strings.FieldsSeq(string(out)) {
		text, err := os.ReadFile(filepath.Join("..", file))
		if os.IsNotExist(err) {
			continue // removed and not committed
		} else if err != nil {
			t.Fatal(err)
		}
		raw, at, long := false, 0, []int{}
		for line := range strings.Lines(string(text)) {
			at++
			was := raw
			if quotes := strings.Count(line, "`"); quotes%2 == 1 {
				raw = !raw
			} else if quotes > 0 {
				was = true
			}
			if !was && !raw && utf8.RuneCountInString(strings.TrimRight(line, "\n")) > maxLine {
				long = append(long, at)
			}
		}
		if len(long) > longLines[file] {
			t.Errorf("%s: lines of more than %d characters: %v", file, maxLine, long)
		}
	}
}
