package lint_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxLine bounds lines of Go, in characters, of which a tab is four.
const maxLine = 120

// Raw strings of tests are data: their lines may be longer.
func TestLinesAreShort(t *testing.T) {
	cmd := exec.Command("git", "ls-files", "*.go")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("needs git to list the files: %v", err)
	}
	for file := range strings.FieldsSeq(string(out)) {
		text, err := os.ReadFile(filepath.Join("..", "..", file))
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
			data := (was || raw) && strings.HasSuffix(file, "_test.go")
			wide := strings.ReplaceAll(strings.TrimRight(line, "\n"), "\t", "    ")
			if !data && utf8.RuneCountInString(wide) > maxLine {
				long = append(long, at)
			}
		}
		if len(long) > 0 {
			t.Errorf("%s: lines of more than %d characters: %v", file, maxLine, long)
		}
	}
}
