package study

import (
	"fmt"
	"io"
	"slices"
	"strconv"

	"gantry/sqlite/report/results"
)

// Trial is a reading that was tried: what it holds of the statements of a study, one by one.
type Trial struct {
	Name  string
	Holds []bool
}

// count is how many statements hold.
func (t *Trial) count() (n int) {
	for _, holds := range t.Holds {
		if holds {
			n++
		}
	}
	return n
}

// within reports whether all that holds under t holds under another, which holds more.
func (t *Trial) within(o *Trial) bool {
	for i, holds := range t.Holds {
		if holds && !o.Holds[i] {
			return false
		}
	}
	return t.count() < o.count()
}

// Try judges the statements by results; instead says what stands for policies. Marked statements hold under none.
func (s *Study) Try(name string, sets []*results.Set, instead map[string]map[string]string) (Trial, error) {
	t, d, r := Trial{Name: name}, (&Page{Sets: sets}).data(), &Reading{Instead: instead}
	for i := range s.Relations {
		o := s.judge(d, &s.Relations[i], r)
		t.Holds = append(t.Holds, o.Mark == "" && o.Verdict == Agrees)
	}
	return t, s.unknown(sets)
}

// Best is the first trial under which most statements hold.
func Best(trials []Trial) int {
	best := 0
	for i := range trials {
		if trials[i].count() > trials[best].count() {
			best = i
		}
	}
	return best
}

// WriteTrials writes the matrix of statements and readings, the reading that most statements hold under, the Pareto
// front (the readings whose statements no other has all of, and more), and the pairs of statements that each hold under
// some reading and together under none: the trials are all readings, so that is proven by enumeration.
func (s *Study) WriteTrials(w io.Writer, trials []Trial) {
	rows := [][]string{{"statement"}}
	for i := range s.Relations {
		rows = append(rows, []string{cell(s.Relations[i].Says)})
	}
	for k, t := range trials {
		rows[0] = append(rows[0], strconv.Itoa(k+1))
		for i, holds := range t.Holds {
			rows[i+1] = append(rows[i+1], map[bool]string{true: "x"}[holds])
		}
	}
	fmt.Fprintln(w, grid(rows...))
	for k, t := range trials {
		fmt.Fprintf(w, "%d. %s: %d statements\n", k+1, t.Name, t.count())
	}
	if len(trials) == 1 {
		return
	}
	best := Best(trials)
	fmt.Fprintf(w, "\nMost statements: reading %d, %d of %d.\n\nPareto front:", best+1, trials[best].count(),
		len(s.Relations))
	for k := range trials {
		if !slices.ContainsFunc(trials, func(o Trial) bool { return trials[k].within(&o) }) {
			fmt.Fprintf(w, " %d", k+1)
		}
	}
	fmt.Fprintf(w, ".\n\nStatements that hold under some of the %d readings, and never together:\n\n", len(trials))
	some := func(statements ...int) bool {
		return slices.ContainsFunc(trials, func(t Trial) bool {
			return !slices.ContainsFunc(statements, func(i int) bool { return !t.Holds[i] })
		})
	}
	for a := range s.Relations {
		for b := range a {
			if some(a) && some(b) && !some(a, b) {
				fmt.Fprintf(w, "- %s | %s\n", cell(s.Relations[b].Says), cell(s.Relations[a].Says))
			}
		}
	}
}
