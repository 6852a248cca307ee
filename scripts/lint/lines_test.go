package lint_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxClauses bounds the lines of comments with a word that begins a clause as subject or object. Such sentences name no
// thing.
const maxClauses = 100

var clause = regexp.MustCompile(`//.*\b([Ww]hat|[Ww]ho|[Ww]hom|[Ww]hoever|[Ww]hatever|[Tt]hat which)\b`)

func TestCommentsNameThings(t *testing.T) {
	n := 0
	eachFile(t, func(file, text string) {
		if !strings.HasSuffix(file, "_test.go") {
			n += len(clause.FindAllString(text, -1))
		}
	})
	t.Logf("%d lines of comments have a clause of what, who or that which; at most %d", n, maxClauses)
	if n > maxClauses {
		t.Errorf("%d lines of comments have a clause of what, who or that which, more than %d", n, maxClauses)
	}
}

// eachFile reads all files of Go that git knows.
func eachFile(t *testing.T, do func(file, text string)) {
	t.Helper()
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
		do(file, string(text))
	}
}

// maxLine bounds lines of Go, in characters, of which a tab is four.
const maxLine = 120

// Raw strings of tests are data: their lines may be longer.
func TestLinesAreShort(t *testing.T) {
	eachFile(t, func(file, text string) {
		raw, at, long := false, 0, []int{}
		for line := range strings.Lines(text) {
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
	})
}
