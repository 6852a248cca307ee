package columns_test

import (
	"strings"
	"testing"

	"gantry/sqlite"
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
	table := columns.New(w, "-task|-ordered|-started|-ended")
	table.Row("a", "1s", "2s", new(sqlite.Span(30e9)))
	table.End()
	const want = "  task  ordered  started\n     a       1s       2s\n\n  task    ended\n     a  30.00 s\n\n"
	if w.String() != want {
		t.Errorf("%q, want %q", w.String(), want)
	}
}

func TestTablesSayHowMuchIsLeftOut(t *testing.T) {
	var b strings.Builder
	row := func(i int) []any { return []any{"t\n" + strings.Repeat("x", i), "-", (*sqlite.Span)(nil), 1 + 10*i} }
	const titles = "task|?none|?-wait|-runs"
	columns.List(&b, nil, 2, titles, row)
	columns.List(&b, []int{0, 1, 2, 3, 4}, 2, titles, row)
	columns.List(&b, []int{0, 1, 2}, 2, titles, row)
	want := "  task        runs\n  t^J            1\n  t^Jx          11\n  ... 3 more\n\n" +
		"  task   runs\n  t^J       1\n  t^Jx     11\n  t^Jxx    21\n\n"
	if b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}
