package reader_test

import (
	"fmt"
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
	for _, b := range bounds() {
		rows = append(rows, "| "+b[0]+" | "+b[1]+" |")
	}
	if want := strings.Join(rows, "\n"); table != want {
		t.Errorf("docs/files.md has\n%s\nwant\n%s", table, want)
	}
}

// bounds are the bounds as docs/files.md lists them: pairs of a thing and its bound.
func bounds() [][2]string {
	return [][2]string{
		{"elements, objects, lists and mappings inside each other", fmt.Sprint(reader.MaxDepth)},
		{"attributes of an element", fmt.Sprint(reader.MaxAttrs)},
		{"profiles of a task, of a transformation or of a workflow", fmt.Sprint(reader.MaxAttrs)},
		{"keys of an object or mapping", fmt.Sprint(reader.MaxKeys)},
		{"a text, a tag or a cell", fmt.Sprintf("%d bytes", reader.MaxText)},
		{"an id, a key, or the name of a file, element or attribute", fmt.Sprintf("%d bytes", reader.MaxName)},
		{"a number of JSON", fmt.Sprintf("%d characters", reader.MaxDigits)},
		{"locations of a file in catalogs", fmt.Sprint(reader.MaxLocations)},
		{"properties in a file of Pegasus", fmt.Sprint(reader.MaxKeys)},
		{"a file of YAML", fmt.Sprintf("%d bytes", reader.MaxYAML)},
		{"values of YAML", fmt.Sprintf("%d, and one for each 8 bytes of the file", reader.MaxValues)},
		{"cores; CPUs of a node", fmt.Sprint(reader.MaxCores)},
		{"bytes, of memory or of a file; bytes per second", fmt.Sprint(reader.MaxBytes)},
		{"runtimes, times and time limits", fmt.Sprintf("%.0f s (100 years)", reader.MaxTime.Seconds())},
		{"text in a compressed file", fmt.Sprintf("%d bytes or %d times its size, whichever is more", reader.MaxInput,
			reader.MaxRatio)},
		{"errors that are shown", fmt.Sprint(reader.MaxErrors)},
		{"a message", fmt.Sprintf("%d bytes", reader.MaxMessage)},
	}
}
