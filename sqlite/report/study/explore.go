package study

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"gantry/sqlite/report/results"
)

// Trial is a reading that was tried, with the verdict on each statement of a study; marked statements are Unmeasured.
type Trial struct {
	Name     string
	Verdicts []Verdict
}

// count is how many statements agree.
func (t *Trial) count() (n int) {
	for _, v := range t.Verdicts {
		if v == Agrees {
			n++
		}
	}
	return n
}

// within reports whether all statements that agree under t agree under another, under which more do.
func (t *Trial) within(o *Trial) bool {
	for i, v := range t.Verdicts {
		if v == Agrees && o.Verdicts[i] != Agrees {
			return false
		}
	}
	return t.count() < o.count()
}

// Try judges the statements by results; instead says what stands for policies.
func (s *Study) Try(name string, sets []*results.Set, instead map[string]map[string]string) (Trial, error) {
	t, d, r := Trial{Name: name}, (&Page{Sets: sets}).data(), &Reading{Instead: instead}
	for i := range s.Relations {
		o := s.judge(d, &s.Relations[i], r)
		if o.Mark != "" {
			o.Verdict = Unmeasured
		}
		t.Verdicts = append(t.Verdicts, o.Verdict)
	}
	return t, s.unknown(sets)
}

// Best is the first trial under which most statements agree.
func Best(trials []Trial) int {
	best := 0
	for i := range trials {
		if trials[i].count() > trials[best].count() {
			best = i
		}
	}
	return best
}

// WriteTrials writes the matrix of readings and of the statements with a verdict; the reading under which most
// statements agree; the Pareto front, which are the readings whose statements no other has all of, and more; and the
// pairs of statements that each agree under some reading, and together under none. The trials are all readings, so that
// is proven by enumeration, for a pair that no reading leaves open.
func (s *Study) WriteTrials(w io.Writer, trials []Trial) {
	rows := [][]string{{"statement"}}
	for k := range trials {
		rows[0] = append(rows[0], strconv.Itoa(k+1))
	}
	for i := range s.Relations {
		row, judged := []string{cell(s.Relations[i].Says)}, false
		for _, t := range trials {
			row = append(row, map[Verdict]string{Agrees: "x", Undecided: "?"}[t.Verdicts[i]])
			judged = judged || t.Verdicts[i] != Unmeasured
		}
		if judged {
			rows = append(rows, row)
		}
	}
	fmt.Fprintf(w, "x: agrees; ?: not decided. %d of %d statements are left out: they are marked, or these "+
		"experiments do not measure them.\n\n%s\n", len(s.Relations)-len(rows)+1, len(s.Relations), grid(rows...))
	for k, t := range trials {
		fmt.Fprintf(w, "%d. %s: %d of %d\n", k+1, t.Name, t.count(), len(s.Relations))
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
	// under are the readings under which each statement has one of the verdicts.
	under := func(verdicts []Verdict, statements ...int) (names []string) {
		for k, t := range trials {
			if !slices.ContainsFunc(statements, func(i int) bool { return !slices.Contains(verdicts, t.Verdicts[i]) }) {
				names = append(names, strconv.Itoa(k+1))
			}
		}
		return names
	}
	agrees, pairs := []Verdict{Agrees}, ""
	for a := range s.Relations {
		for b := range a {
			if under(agrees, a) == nil || under(agrees, b) == nil || under(agrees, a, b) != nil {
				continue
			}
			pairs += "- " + cell(s.Relations[b].Says) + " | " + cell(s.Relations[a].Says)
			if open := under([]Verdict{Agrees, Undecided}, a, b); open != nil {
				pairs += " (" + strings.Join(open, " ") + ")"
			}
			pairs += "\n"
		}
	}
	if pairs != "" {
		fmt.Fprintf(w, ".\n\nStatements that agree under some of the %d readings, and never together; in brackets the "+
			"readings that leave open whether they do:\n\n%s", len(trials), pairs)
	} else {
		fmt.Fprintln(w, ".\n\nAll statements that agree under some reading agree together under one, two by two.")
	}
}
