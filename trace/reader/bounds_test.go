package reader_test

import (
	"os"
	"strings"
	"testing"

	"gantry/trace/reader"
)

// The page has every bound, as the code has it, and no other.
func TestBoundsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/files.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| what | at most |\n| --- | --- |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var rows []string
	for _, b := range reader.Bounds() {
		rows = append(rows, "| "+b[0]+" | "+b[1]+" |")
	}
	if want := strings.Join(rows, "\n"); table != want {
		t.Errorf("docs/files.md has\n%s\nwant\n%s", table, want)
	}
}
