package main

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gantry/sqlite/report/study"
)

// shown matches the figures and tables that an experiment shows: figures 5-1, 5-5 to 5-7; table 10.
var (
	shownKind = regexp.MustCompile(`(figure|table)s? ((?:[0-9]+(?:-[0-9]+)?(?: to |, )?)+)`)
	shownOne  = regexp.MustCompile(`([0-9]+(?:-[0-9]+)?)(?: to ([0-9]+(?:-[0-9]+)?))?`)
)

// shows reports whether a text names a figure N, or a table N as tN.
func shows(text, n string) bool {
	kind := "figure"
	if rest, table := strings.CutPrefix(n, "t"); table {
		kind, n = "table", rest
	}
	order := func(n string) (chapter, number int) {
		if _, err := fmt.Sscanf(n, "%d-%d", &chapter, &number); err != nil {
			chapter, number = 0, 0
			_, _ = fmt.Sscanf(n, "%d", &number)
		}
		return chapter, number
	}
	chapter, number := order(n)
	for _, part := range shownKind.FindAllStringSubmatch(text, -1) {
		for _, x := range shownOne.FindAllStringSubmatch(part[2], -1) {
			inChapter, from := order(x[1])
			to := from
			if x[2] != "" {
				_, to = order(x[2])
			}
			if part[1] == kind && inChapter == chapter && number >= from && number <= to {
				return true
			}
		}
	}
	return false
}

// figure runs the experiments behind one figure, or table, of a paper, and prints their means; its figures go to the
// directory of results. The paper is a directory of the suite, or ccgrid.
func (r *runner) figure(ctx context.Context, paper, n string) error {
	if paper == "ccgrid" {
		paper = "."
	}
	if !slices.Contains(r.Papers, paper) {
		return fmt.Errorf("paper %q: it is ccgrid, %s", paper, strings.Join(r.Papers[1:], ", "))
	}
	s, err := study.Read(filepath.Join(r.examples, paper, "study.yaml"))
	if err != nil {
		return err
	}
	var known, files []string
	for _, x := range s.Experiments {
		if known = append(known, x.Shows); shows(x.Shows, n) {
			files = append(files, filepath.Join(paper, x.File))
		}
	}
	if len(files) == 0 {
		return fmt.Errorf("no experiment shows %s of %s; they show: %s", n, paper, strings.Join(known, "; "))
	}
	r.Experiments = slices.DeleteFunc(r.Experiments, func(x runnable) bool { return !slices.Contains(files, x.File) })
	for i := range r.Experiments {
		x := &r.Experiments[i]
		want, err := r.wanted(x)
		if err != nil {
			return err
		}
		fmt.Printf("%s: %s of CPU time\n", x.name(), round(r.cost(x, want, want)))
		if err := r.experiment(ctx, x, want); err != nil {
			return err
		}
		if err := gantry(ctx, "compare", r.out(x)); err != nil {
			return err
		}
		if err := gantry(ctx, "report", "--out", filepath.Join(r.dir, "figures"), r.out(x)); err != nil {
			return err
		}
	}
	return nil
}
