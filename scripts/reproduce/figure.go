package main

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gantry/scripts/measure"
	"gantry/sqlite/report/study"
)

// shown matches the figures and tables that an experiment shows: figures 5-1, 5-5 to 5-7; table 10; figures 3a, 4a.
var (
	shownKind = regexp.MustCompile(`(figure|table)s? ((?:[0-9]+(?:-[0-9]+)?[a-d]?(?: to |, )?)+)`)
	shownOne  = regexp.MustCompile(`([0-9]+(?:-[0-9]+)?)[a-d]?(?: to ([0-9]+(?:-[0-9]+)?))?`)
	asked     = regexp.MustCompile(`^t?[0-9]+(-[0-9]+)?[a-d]?$`)
)

// shows reports whether a text names a figure N, or a table N as tN. A part of a figure, such as 3a, counts as the
// figure.
func shows(text, n string) bool {
	if !asked.MatchString(n) {
		return false
	}
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

// directory is that of a paper in the suite.
func directory(paper string) string { return strings.Replace(paper, "ccgrid", ".", 1) }

// choose leaves the experiments behind one figure, or table, of a paper.
func (r *runner) choose(name, n string) error {
	paper := directory(name)
	if !slices.Contains(r.Papers, paper) {
		return fmt.Errorf("paper %q: it is ccgrid, %s", name, strings.Join(r.Papers[1:], ", "))
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
		return fmt.Errorf("no experiment shows figure %q of %s (tN is table N); they show: %s. Other figures "+
			"and tables have tests, which %s names", n, name, strings.Join(known, "; "),
			filepath.Join(r.examples, "ARTEFACT.md"))
	}
	r.Experiments = slices.DeleteFunc(r.Experiments, func(x runnable) bool { return !slices.Contains(files, x.File) })
	return nil
}

// figure runs the experiments behind one figure, or table, of a paper, and prints their means. It draws the figures of
// the paper that they show, and writes the paper's page of them alone.
func (r *runner) figure(ctx context.Context, paper, n string) error {
	if err := r.choose(paper, n); err != nil {
		return err
	}
	drawn, page := filepath.Join(r.dir, "figures", paper), filepath.Join(r.dir, paper+"-"+n+".html")
	report := []string{"report", "--study", filepath.Join(r.examples, directory(paper), "study.yaml")}
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
		report = append(report, r.out(x))
	}
	if _, err := measure.Built.Run(ctx, append(report, "--markdown", "--out", drawn)...); err != nil {
		return err
	}
	fmt.Printf("figures and their data are in %s\n", drawn)
	return gantry(ctx, append(report, "--html", page)...)
}
