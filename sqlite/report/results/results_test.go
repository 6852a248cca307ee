package results_test

import (
	"bytes"
	"database/sql"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gantry/executor/experiment"
	"gantry/executor/experiment/metrics"
	"gantry/planner/unit"
	"gantry/sqlite/report"
	"gantry/sqlite/report/results"
	"gantry/trace/scenario"
)

const text = `name: small
workload: w.yaml
cluster: c.yaml
repetitions: 3
factors:
  policy: [cpp, fdws]
  errors: [none, "random2:2", "random2:9"]
  utilisation: [0.7, 0.9]
`

const workload = `count: 60
mix: [{generator: montage}, {generator: sipht}]
tasks: 30..60
files: false
total_runtime: {distribution: constant, mean: 1h}
arrivals: {process: poisson, utilisation: 0.9}
warm_up: 5
cool_down: 5
`

func read(t *testing.T, text string) *scenario.Experiment {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"w.yaml": workload, "v.yaml": workload,
		"c.yaml": "nodes: [{name: n, count: 10}]\n"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	x, err := scenario.ReadExperiment(strings.NewReader(text), filepath.Join(dir, "x.yaml"), false, "")
	must(t, err)
	return x
}

func create(t *testing.T, path string) *results.DB {
	t.Helper()
	db, err := results.Create(path, results.Info{Name: "small", Settings: settings})
	must(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

var settings = map[string]int{"seed": 1}

func run(t *testing.T, x *scenario.Experiment, path string) experiment.Progress {
	t.Helper()
	db := create(t, path)
	defer db.Close()
	var last experiment.Progress
	r := experiment.Runner{File: x, Store: db, Jobs: 2, Report: func(p experiment.Progress) { last = p }}
	must(t, r.Run(t.Context()))
	return last
}

func TestWhatIsKeptIsReadBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.sqlite")
	if p := run(t, read(t, text), path); p.Done != 36 || p.Kept != 0 || p.Failed != 0 {
		t.Fatalf("first run: %+v", p)
	}
	set := load(t, path)
	all := set.Cells
	if len(all) != 12 {
		t.Fatalf("%d cells", len(all))
	}
	for _, c := range all {
		if len(c.Runs) != 3 || c.Count(experiment.Done) != 3 {
			t.Fatalf("%v: %d runs, %d done", c.Params, len(c.Runs), c.Count(experiment.Done))
		}
		points := set.Dots[c.ID]
		if len(points) != 150 {
			t.Fatalf("%v: %d workflows", c.Params, len(points))
		}
		var slowdowns [3][]float64
		for i, p := range points {
			slowdowns[i/50] = append(slowdowns[i/50], p.Slowdown)
		}
		for i := range slowdowns {
			// The table of workflows and the metrics of runs tell the same.
			if got, want := metrics.Summarise(slowdowns[i]).SD,
				c.Runs[i].Values["slowdown_sd"]; math.Abs(got-want) > 1e-9*want {
				t.Errorf("%v: deviation %v by workflows, %v by runs", c.Params, got, want)
			}
		}
		series := set.Series[c.ID]
		if len(series) < 2 || float64(series.Max(0, unit.Never)) < c.Runs[0].Values["in_system_max"] {
			t.Errorf("%v: series of %d up to %d", c.Params, len(series), series.Max(0, unit.Never))
		}
	}
	if p := run(t, read(t, text), path); p.Kept != 36 {
		t.Errorf("again: %+v", p)
	}
	// More values and repetitions are added; what is left out of the file is left out of the report.
	more := strings.NewReplacer("repetitions: 3", "repetitions: 4", "[0.7, 0.9]", "[0.9, 0.5]").Replace(text)
	if p := run(t, read(t, more), path); p.Done != 48 || p.Kept != 18 {
		t.Errorf("with more values: %+v", p)
	}
	if all := load(t, path).Cells; len(all) != 12 || all[0].Params["utilisation"] == "0.7" {
		t.Errorf("%d cells, the first %v", len(all), all[0].Params)
	}
}

func TestOneFileHasOneExperimentAndOneWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.sqlite")
	db := create(t, path)
	_, err := results.Create(path, results.Info{Name: "small", Settings: settings})
	if !errors.Is(err, results.ErrHeld) {
		t.Errorf("a second writer: %v", err)
	}
	db.Close()
	_, err = results.Create(path, results.Info{Name: "other", Settings: settings})
	if !errors.Is(err, results.ErrOther) {
		t.Errorf("another experiment: %v", err)
	}
	if _, err := results.Create(path, results.Info{Name: "small", Settings: 2}); !errors.Is(err, results.ErrOther) {
		t.Errorf("other settings: %v", err)
	}
	create(t, path)
}

func TestFilesThatAreNoResults(t *testing.T) {
	dir := t.TempDir()
	text, other := filepath.Join(dir, "text"), filepath.Join(dir, "other.sqlite")
	must(t, os.WriteFile(text, []byte(strings.Repeat("this is no database\n", 100)), 0o644))
	db, err := sql.Open("sqlite3", other)
	must(t, err)
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE t (x)"); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{text, other, filepath.Join(dir, "none")} {
		if _, err := results.Load(t.Context(), path); err == nil {
			t.Errorf("%s was opened", path)
		}
		if results.IsResults(path) {
			t.Errorf("%s passes for results", path)
		}
	}
	for _, path := range []string{text, other} {
		before, _ := os.ReadFile(path)
		if _, err := results.Create(path, results.Info{}); !errors.Is(err, results.ErrOther) {
			t.Errorf("%s: %v", path, err)
		}
		if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
			t.Errorf("%s was changed", path)
		}
	}
}

func TestTablesAndFigures(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.sqlite")
	run(t, read(t, text), path)
	all := load(t, path).Cells
	tables, err := report.Tables(all, report.DefaultMetrics, "")
	if err != nil || len(tables) != 6 {
		t.Fatalf("%d tables, %v", len(tables), err)
	}
	for _, table := range tables {
		if len(table.Rows) != 2 || table.Rows[0].Policy != "cpp" || table.Rows[1].Runs != 3 ||
			table.Rows[0].Wieland.Of != 3 {
			t.Errorf("table %s: %+v", table.Title, table.Rows)
		}
		if !strings.Contains(table.Title, "errors=") || strings.Contains(table.Title, "cluster") {
			t.Errorf("title %q: it should have what differs", table.Title)
		}
	}
	against, err := report.Tables(all, []string{"slowdown_mean"}, "cpp")
	must(t, err)
	for i, table := range against {
		zero, other := table.Rows[0].Values["slowdown_mean"], table.Rows[1].Values["slowdown_mean"]
		difference := tables[i].Rows[1].Values["slowdown_mean"].Mean - tables[i].Rows[0].Values["slowdown_mean"].Mean
		if zero.Mean != 0 || zero.Half != 0 || math.Abs(other.Mean-difference) > 1e-9 {
			t.Errorf("%s: differences to cpp are %v and %v, not 0 and %v", table.Title, zero, other, difference)
		}
	}
	if _, err := report.Tables(all, []string{"nix"}, ""); err == nil {
		t.Error("an unknown metric has a table")
	}
	if _, err := report.Tables(all, report.DefaultMetrics, "gbf"); err == nil {
		t.Error("differences to a policy that was not run")
	}
	dir := filepath.Join(t.TempDir(), "figures")
	files, err := report.Figures(load(t, path), dir)
	must(t, err)
	kinds := map[string]int{}
	for _, f := range files {
		check(t, f)
		kinds[strings.Split(filepath.Base(f), "-")[1]]++
	}
	// In three formats, and as CSV: one of each per utilisation; one over time per error model too. Without deadlines
	// turnaround is response.
	want := map[string]int{"slowdown": 8, "deviation": 8, "size": 8, "in": 24, "utilisation": 12}
	if !reflect.DeepEqual(kinds, want) {
		t.Errorf("figures %v, want %v", kinds, want)
	}
	for _, f := range files {
		if strings.Contains(f, "-deviation-") && strings.HasSuffix(f, ".svg") {
			legendsHideNothing(t, f, "cpp", "fdws")
		}
		if strings.Contains(f, "-slowdown-") && strings.HasSuffix(f, ".svg") {
			labelsAreLevel(t, f, "none", "random2:2", "random2:9")
		}
	}
}

// labelsAreLevel holds the labels of an axis against each other.
func labelsAreLevel(t *testing.T, path string, labels ...string) {
	t.Helper()
	svg, err := os.ReadFile(path)
	must(t, err)
	heights := map[string]int{}
	text := regexp.MustCompile(`<text x="[0-9.]+" y="([-0-9.]+)"[^>]*>([^<]*)<`)
	for _, m := range text.FindAllStringSubmatch(string(svg), -1) {
		if slices.Contains(labels, m[2]) {
			heights[m[1]]++
		}
	}
	n := 0
	for _, of := range heights {
		n = max(n, of)
	}
	if n != len(labels) {
		t.Errorf("%s: the labels %v stand at heights %v", path, labels, heights)
	}
}

// The chosen figures of the results are drawn: metrics against a parameter, and differences as the tables have them.
func TestChosenFigures(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.sqlite")
	run(t, read(t, text), path)
	all := load(t, path).Cells
	draw := func(of report.Choice) map[string][][]string {
		t.Helper()
		files, err := report.Chosen("mine", all, of, filepath.Join(t.TempDir(), "new"))
		must(t, err)
		data := map[string][][]string{}
		for _, f := range files {
			check(t, f)
			if name, is := strings.CutSuffix(filepath.Base(f), ".csv"); is {
				text, err := os.ReadFile(f)
				must(t, err)
				if data[name], err = csv.NewReader(strings.NewReader(string(text))).ReadAll(); err != nil {
					t.Fatal(err)
				}
				svg, err := os.ReadFile(strings.TrimSuffix(f, ".csv") + ".svg")
				if err != nil || !strings.Contains(string(svg), of.Title) {
					t.Errorf("%s has no title %q: %v", f, of.Title, err)
				}
			}
		}
		return data
	}
	data := draw(report.Choice{Metrics: []string{"wait_p95", "span"}, X: "utilisation", Title: "What I ask"})
	rows := data["mine-wait_p95-by-utilisation-errors-random2-9"]
	if len(data) != 6 || len(rows) != 5 || rows[1][0] != "wait_p95" || rows[1][2] != "0.7" || rows[2][2] != "0.9" {
		t.Errorf("%d figures, %v", len(data), rows)
	}
	tables, err := report.Tables(all, []string{"slowdown_mean"}, "fdws")
	must(t, err)
	differences := draw(report.Choice{Metrics: []string{"slowdown_mean"}, X: "policy", Against: "fdws"})
	if len(differences) != len(tables) {
		t.Errorf("%d figures of %d tables", len(differences), len(tables))
	}
	for _, table := range tables {
		want := table.Rows[0].Values["slowdown_mean"]
		found := false
		for name, rows := range differences {
			got, err := strconv.ParseFloat(rows[1][4], 64)
			found = found || err == nil && len(rows) == 2 && rows[1][1] == "cpp" && rows[1][2] == "cpp" &&
				strings.HasPrefix(name, "mine-slowdown_mean-less-fdws-by-policy-") && math.Abs(got-want.Mean) < 1e-5
		}
		if !found {
			t.Errorf("no figure has the difference %v of %s: %v", want, table.Title, differences)
		}
	}
	if _, err := report.Chosen("mine", all, report.Choice{X: "nix"}, t.TempDir()); err == nil ||
		!strings.Contains(err.Error(), "utilisation") {
		t.Errorf("a parameter that there is not: %v", err)
	}
}

func TestBatchesAndSweptParametersAreDrawn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.sqlite")
	run(t, read(t, `name: small
workload: w.yaml
cluster: c.yaml
repetitions: 2
factors:
  workload.arrivals: {process: batch}
  workload.warm_up: 0
  workload.cool_down: 0
  workload.tasks: [30, 40]
  policy: cpp
`), path)
	files, err := report.Figures(load(t, path), t.TempDir())
	must(t, err)
	for _, want := range []string{"small-span-workload.tasks-30.png", "small-deviation-workload.tasks-40.svg",
		"small-mean-response-tasks.svg",
		"small-mean-slowdown-tasks.png"} {
		if !slices.ContainsFunc(files, func(f string) bool { return filepath.Base(f) == want }) {
			t.Errorf("no %s among %v", want, files)
		}
	}
}

// legendsHideNothing holds the names of a legend against the labels of the axes, which end where the data do.
func legendsHideNothing(t *testing.T, path string, names ...string) {
	t.Helper()
	svg, err := os.ReadFile(path)
	must(t, err)
	labels, legend := 0.0, math.Inf(1)
	found := 0
	for _, m := range regexp.MustCompile(`<text x="([0-9.]+)"[^>]*>([^<]*)<`).FindAllStringSubmatch(string(svg), -1) {
		x, _ := strconv.ParseFloat(m[1], 64)
		switch _, err := strconv.ParseFloat(m[2], 64); {
		case slices.Contains(names, m[2]):
			legend = min(legend, x)
			found++
		case err == nil:
			labels = max(labels, x)
		}
	}
	if found != len(names) || labels == 0 || legend <= labels {
		t.Errorf("%s: %d names of %d in the legend, which begins at %v; the axis is labelled up to %v", path, found,
			len(names), legend, labels)
	}
}

// check reads a figure to its end.
func check(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	switch filepath.Ext(path) {
	case ".png":
		if _, err := png.Decode(f); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		return
	case ".pdf":
		if text, err := io.ReadAll(f); err != nil || !strings.HasPrefix(string(text), "%PDF-") ||
			!strings.HasSuffix(string(text), "%%EOF\n") {
			t.Errorf("%s is no whole PDF: %v", path, err)
		}
		return
	case ".csv":
		if rows, err := csv.NewReader(f).ReadAll(); err != nil || len(rows) < 2 {
			t.Errorf("%s: %d rows, %v", path, len(rows), err)
		}
		return
	}
	for d := xml.NewDecoder(f); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Errorf("%s: %v", path, err)
			return
		}
	}
}

func TestTheEndOfASearchIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.sqlite")
	x := read(t, "name: small\nworkload: w.yaml\ncluster: c.yaml\nlimit: {in_system: 25}\nfactors: {policy: [cpp, "+
		"fdws]}\nsearch: {from: 0.2, to: 5, step: 1.2}\n")
	run(t, x, path)
	if p := run(t, x, path); p.Kept == 0 || p.Kept != p.Done {
		t.Errorf("again: %+v", p)
	}
	set := load(t, path)
	for _, c := range set.Cells {
		if place := c.Params["policy"] == "cpp"; place != (c.ID <= 5) || c.ID > 10 { // 5 values each
			t.Errorf("cell %d is %v: its number depends on when the search came to it", c.ID, c.Params)
		}
	}
	found := set.Searches
	if len(found) != 2 || found[0].Value == nil || found[0].Params["policy"] != "cpp" ||
		found[0].Parameter != "utilisation" {
		t.Errorf("searches %+v", found)
	}
}

func TestRunsThatWereAllCutOffHaveATable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.sqlite")
	run(t, read(t, "workload: w.yaml\ncluster: c.yaml\nlimit: {events: 10}\nrepetitions: 2\nfactors: {policy: [hr, "+
		"cpp]}\n"), path)
	all := load(t, path).Cells
	tables, err := report.Tables(all, nil, "")
	if err != nil || len(tables) != 1 || len(tables[0].Rows) != 2 || tables[0].Rows[0].Diverged != 2 ||
		tables[0].Rows[0].Values["slowdown_mean"].String() != "-" {
		t.Errorf("%+v, %v", tables, err)
	}
	if _, err := report.Figures(load(t, path), t.TempDir()); err != nil {
		t.Error(err)
	}
}

func TestIntervalsAreInTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.sqlite")
	x := read(t, "workload: w.yaml\ncluster: c.yaml\nlimit: {in_system: 30}\nrepetitions: 3\nfactors: {policy: hr, "+
		"utilisation: [0.8, 9]}\n")
	run(t, x, path)
	all := load(t, path).Cells
	raw, err := sql.Open("sqlite3", path)
	must(t, err)
	defer raw.Close()
	db := create(t, path)
	must(t, (&experiment.Runner{File: x, Store: db}).Run(t.Context()))
	must(t, db.Summarise(t.Context()))
	want := metrics.Confidence(all[0].Sample("slowdown_mean"))
	var runs int
	var mean, half float64
	must(t, raw.QueryRow("SELECT runs, mean, half_95 FROM v_intervals WHERE utilisation = 0.8 AND metric = "+
		"'slowdown_mean'").Scan(&runs, &mean, &half))
	if runs != 3 || want.N != 3 || math.Abs(mean-want.Mean) > 1e-12 || math.Abs(half-want.Half) > 1e-12 {
		t.Errorf("%d runs, %v ±%v; want %+v", runs, mean, half, want)
	}
	for view, query := range map[string]string{"v_metrics": "SELECT mean FROM v_metrics WHERE policy = 'hr' AND " +
		"utilisation = 0.8 AND metric = 'slowdown_mean'",
		"v_workflows": "SELECT avg(slowdown) FROM v_workflows WHERE policy = 'hr' AND utilisation = 0.8"} {
		if err := raw.QueryRow(query).Scan(&mean); err != nil || math.Abs(mean-want.Mean) > 1e-9 {
			t.Errorf("mean slowdown %v by %s, want %v: %v", mean, view, want.Mean, err)
		}
	}
	if err := raw.QueryRow("SELECT count(*) FROM v_intervals WHERE utilisation = 9").Scan(&runs); err != nil ||
		runs != 0 {
		t.Errorf("%d intervals of runs that were all cut off, %v", runs, err)
	}
}

// FORMAT.md documents each table, view and column, which columns may be NULL, and a query that runs.
func TestFormatDocumentsResults(t *testing.T) {
	format, err := os.ReadFile("../../FORMAT.md")
	must(t, err)
	_, page, _ := strings.Cut(string(format), "# Results of experiments")
	path := filepath.Join(t.TempDir(), "r.sqlite")
	run(t, read(t, strings.NewReplacer("fdws", "heft", `, "random2:2", "random2:9"`, "", "0.7, ", "").Replace(text)),
		path)
	db, err := sql.Open("sqlite3", path)
	must(t, err)
	defer db.Close()
	rows, err := db.Query(`SELECT m.type, m.name, c.name, m.type = 'table' AND c."notnull" = 0 AND c.pk = 0
		FROM sqlite_schema m, pragma_table_xinfo(m.name) c WHERE m.type IN ('table', 'view') ORDER BY m.name`)
	must(t, err)
	defer rows.Close()
	columns := 0
	for rows.Next() {
		var kind, table, column string
		var null bool
		must(t, rows.Scan(&kind, &table, &column, &null))
		columns++
		begin, end := "\n**"+table+"**", "\n\n"
		if kind == "view" {
			begin, end = "\n| `"+table+"` |", "\n"
		}
		_, section, found := strings.Cut(page, begin)
		section, _, _ = strings.Cut(section, end)
		if !found || !regexp.MustCompile(`\b`+regexp.QuoteMeta(column)+`\b`).MatchString(section) {
			t.Errorf("FORMAT.md says nothing of %s %s.%s", kind, table, column)
		}
		if null && !strings.Contains(section, "NULL") {
			t.Errorf("FORMAT.md does not say what NULL is in %s.%s", table, column)
		}
	}
	if rows.Err() != nil || columns < 60 {
		t.Errorf("%d columns, %v", columns, rows.Err())
	}
	_, query, _ := strings.Cut(page, "```sql\n")
	query, _, _ = strings.Cut(query, "```")
	var policy, metric string
	var pairs int
	var difference float64
	if err := db.QueryRow(query).Scan(&policy, &metric, &pairs, &difference); err != nil || pairs != 3 {
		t.Errorf("%s: %s %s: %d pairs, difference %v: %v", query, policy, metric, pairs, difference, err)
	}
}

// load reads a file of results.
func load(t *testing.T, path string) *results.Set {
	t.Helper()
	set, err := results.Load(t.Context(), path)
	must(t, err)
	return set
}

// must ends a test at an error that it does not look for.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
