package columns_test

import (
	"fmt"
	"strings"
	"testing"

	"gantry/sqlite/report/columns"
)

var rows = [][]string{{"workflow", "tasks", "makespan", "response"}, {"montage", "25", "1m16s", "1m17s"},
	{"pi", "4", "2s", "3s"}}

func print(t *testing.T, width int) string {
	t.Helper()
	var b strings.Builder
	if err := columns.Print(&b, width, "  ", rows, []bool{false, true, true, true}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestATableThatFitsIsOne(t *testing.T) {
	const want = `
  workflow  tasks  makespan  response
  montage      25     1m16s     1m17s
  pi            4        2s        3s
`
	for _, width := range []int{0, 37} {
		if got := "\n" + print(t, width); got != want {
			t.Errorf("%d columns:%s", width, got)
		}
	}
}

func TestColumnsThatDoNotFitGoBelow(t *testing.T) {
	const want = `
  workflow  tasks  makespan
  montage      25     1m16s
  pi            4        2s

  workflow  response
  montage      1m17s
  pi              3s
`
	if got := "\n" + print(t, 36); got != want {
		t.Errorf("got%s", got)
	}
}

func TestLongCellsAreCutToHalfTheWidth(t *testing.T) {
	var b strings.Builder
	if err := columns.Print(&b, 20, "", [][]string{{"name", "n"}, {"a-very-long-name", "1"}}, nil); err != nil {
		t.Fatal(err)
	}
	if want := "name        n\na-very-lo…  1\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

type narrow struct {
	strings.Builder
	columns int
}

func (n *narrow) Columns() int { return n.columns }

func TestATableFitsItsWriter(t *testing.T) {
	w := &narrow{columns: 24}
	table := columns.New(w, true)
	fmt.Fprint(table, "task\tordered\tstarted\tended\t\na\t1s\t2s\t30s\t\n\nThat was all.\n")
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	const want = "  task  ordered  started\n     a       1s       2s\n\n  task  ended\n     a    30s\n\nThat was all.\n"
	if w.String() != want {
		t.Errorf("%q, want %q", w.String(), want)
	}
}
