package study

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gantry/sqlite/report"
	"gantry/sqlite/report/results"
)

// OutputError means that figures cannot be written.
type OutputError struct{ Err error }

func (e *OutputError) Error() string { return e.Err.Error() }

func (e *OutputError) Unwrap() error { return e.Err }

// Plain is a page of results that no study explains: all tables and all figures.
func Plain(ctx context.Context, paths []string, figures, command string) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("# Results of experiments\n\nMeans over repetitions with 95 % confidence intervals by Student's t.\n")
	if command != "" {
		fmt.Fprintf(&b, "\nMade by `%s`.\n", command)
	}
	for _, path := range paths {
		if err := plain(ctx, &b, path, figures); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

func plain(ctx context.Context, b *bytes.Buffer, path, figures string) error {
	set, err := results.Load(ctx, path)
	if err != nil {
		return err
	}
	w := writer{&Page{}, &Study{Experiments: []Experiment{{Name: set.Name, File: set.Source, Shows: set.Title}}},
		data{set.Name: set}}
	fmt.Fprintf(b, "\n## %s\n\n%s", cell(cmp.Or(set.Title, set.Name)), w.Sources())
	if set.Repetitions > 0 {
		fmt.Fprintf(b, "\n%s\n", w.Complete())
	}
	tables, err := report.Tables(set.Cells, nil, "")
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, t := range tables {
		b.WriteString(tableOf(&t))
	}
	if len(set.Searches) > 0 {
		b.WriteString("\n```\n")
		if err := report.WriteSearches(b, set.Searches); err != nil {
			return err
		}
		b.WriteString("```\n")
	}
	if figures == "" {
		return nil
	}
	files, err := report.Figures(set, figures)
	if err != nil {
		return &OutputError{err}
	}
	for _, f := range files {
		if base, ok := strings.CutSuffix(f, ".svg"); ok {
			at := filepath.ToSlash(base)
			fmt.Fprintf(b, "\n![%s](%s.svg)\n\n[Data](%s.csv)\n", filepath.Base(base), at, at)
		}
	}
	return nil
}

// inWords names the usual metrics with their units.
var inWords = map[string]string{
	"slowdown_mean": "mean slowdown", "slowdown_sd": "standard deviation of slowdown",
	"slowdown_median": "median slowdown", "slowdown_p95": "95th percentile of slowdown",
	"wait_mean": "mean wait (s)", "response_mean": "mean response (s)", "turnaround_mean": "mean turnaround (s)",
	"in_system_mean": "workflows in the system", "utilisation": "utilisation of cores",
	"late_share": "share of late workflows", "mapping_mean": "mean mapping time (s)",
	"mapping_p99": "99th percentile of mapping times (s)", "mapping_share": "mapping time over turnaround",
	"qos_rate": "share of deadlines kept", "throughput": "throughput (job units per second)",
	"locality_rate": "share of bytes read locally", "completion_time": "completion time (s)",
	"utilisation_memory": "utilisation of memory", "utilisation_disk": "utilisation of disk I/O",
	"jain": "Jain's index of tenants",
}

func tableOf(t *report.Table) string {
	title := ""
	if t.Title != "" {
		title = fmt.Sprintf("\n### %s\n", cell(t.Title))
	}
	head := []string{"policy", "runs"}
	for _, m := range t.Metrics {
		head = append(head, cmp.Or(inWords[m], m))
	}
	rows := [][]string{append(head, "stable by Wieland's test", "stable by drift", "cut off")}
	for _, r := range t.Rows {
		row := []string{cell(r.Policy), strconv.Itoa(r.Runs)}
		for _, m := range t.Metrics {
			row = append(row, r.Values[m].String())
		}
		rows = append(rows, append(row, r.Wieland.String(), r.Drift.String(), strconv.Itoa(r.Diverged)))
	}
	return title + "\n" + grid(rows...)
}

// grid is a table of Markdown, whose first row is its heading.
func grid(rows ...[]string) string {
	var b strings.Builder
	for i, row := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(&b, "|%s\n", strings.Repeat(" --- |", len(row)))
		}
	}
	return b.String()
}

// WritePage makes the page of studies, or of plain results without any: Markdown, whose figures are drawn into a
// directory if one is given, or one HTML file that has them.
func WritePage(ctx context.Context, studies, paths []string, figures, command string, asHTML bool) ([]byte, error) {
	if asHTML && figures == "" {
		dir, err := os.MkdirTemp("", "gantry-figures-")
		if err != nil {
			return nil, &OutputError{err}
		}
		defer os.RemoveAll(dir)
		figures = dir
	}
	paths, err := files(paths)
	if err != nil {
		return nil, err
	}
	text, err := markdown(ctx, studies, paths, figures, command)
	if err != nil || !asHTML {
		return text, err
	}
	return HTML("Results of experiments", text)
}

func markdown(ctx context.Context, studies, paths []string, figures, command string) ([]byte, error) {
	if len(studies) == 0 {
		return Plain(ctx, paths, figures, command)
	}
	p := &Page{Figures: figures, Command: command}
	for _, path := range studies {
		s, err := Read(path)
		if err != nil {
			return nil, err
		}
		p.Studies = append(p.Studies, s)
	}
	for _, path := range paths {
		set, err := results.Load(ctx, path)
		if err != nil {
			return nil, err
		}
		p.Sets = append(p.Sets, set)
	}
	for i, s := range p.Studies {
		if err := s.unknown(p.Sets); err != nil {
			return nil, fmt.Errorf("study %s: %w", studies[i], err)
		}
	}
	return p.Markdown()
}

// files returns the files of results that paths name: a directory names all in it.
func files(paths []string) (out []string, err error) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil || !info.IsDir() {
			out = append(out, path)
			continue
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), ".jsonl") || strings.HasSuffix(e.Name(), ".sqlite") {
				out = append(out, filepath.Join(path, e.Name()))
			}
		}
	}
	return out, nil
}
