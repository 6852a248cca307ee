package cmd

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/session"
	"gantry/cmd/internal/term"
	"gantry/executor/experiment"
	"gantry/executor/experiment/metrics"
	"gantry/planner/unit"
	"gantry/sqlite"

	tables "gantry/sqlite/report"
	"gantry/sqlite/report/columns"
	"gantry/sqlite/report/results"
)

// measuredRun has the metrics of a run of the log and of its workflows.
type measuredRun struct {
	info   sqlite.RunInfo
	values []metrics.Value
	flows  []measuredWorkflow
}

// measuredWorkflow is a workflow with its metrics. Nil is not reached or not defined.
type measuredWorkflow struct {
	Workflow string   `json:"workflow"`
	Tasks    int      `json:"tasks"`
	Counts   bool     `json:"counts"`
	Arrived  float64  `json:"arrived_s"`
	Due      *float64 `json:"due_s"`
	Wait     *float64 `json:"wait_s"`
	Makespan *float64 `json:"makespan_s"`
	Response *float64 `json:"response_s"`
	Work     float64  `json:"work_s"`
	Critical float64  `json:"critical_path_s"`
	Slowdown *float64 `json:"slowdown"`
	SLR      *float64 `json:"slr"`
}

// metricsOf are the metrics of a run: those that were kept when it was over; while it continues, those of now.
func metricsOf(ctx context.Context, log *sqlite.DB, name string) (m measuredRun, err error) {
	if m.info, err = log.Info(ctx, name); err != nil {
		return m, exit.With(exit.Input, err)
	}
	if m.values, err = log.Metrics(ctx, m.info.Name); err != nil {
		return m, session.LogError(err)
	}
	if m.flows, err = sqlite.RowsOf[measuredWorkflow](ctx, log, `SELECT workflow, tasks, counts, arrived_s, due_s,
		wait_s, makespan_s, response_s, work_s, critical_path_s, slowdown, slr FROM v_slowdowns WHERE run = ?
		ORDER BY arrived_s, position`, m.info.Name); err != nil {
		return m, session.LogError(err)
	}
	if len(m.values) == 0 {
		collector, window, err := session.MeasureLog(ctx, log, m.info)
		if err != nil {
			return m, exit.With(exit.Host, err)
		}
		m.values = collector.Run(window)
		counted, all := collector.Counted(window), collector.Workflows()
		for i := range all {
			counts := len(counted) > 0 && counted[0] == &all[i]
			if counts {
				counted = counted[1:]
			}
			m.flows = append(m.flows, measuredNow(&all[i], counts))
		}
	}
	return m, nil
}

// groupedRuns groups runs: those of one policy on one runtime count as repetitions.
func groupedRuns(runs []measuredRun) (cells []*results.Cell) {
	for i := range runs {
		params := map[string]string{"policy": runs[i].info.Policy, "runtime": runs[i].info.Runtime}
		k := slices.IndexFunc(cells, func(c *results.Cell) bool { return maps.Equal(c.Params, params) })
		if k < 0 {
			k = len(cells)
			cells = append(cells, &results.Cell{Params: params})
		}
		run := results.Run{Repetition: len(cells[k].Runs), State: experiment.Done, Values: map[string]float64{}}
		for _, v := range runs[i].values {
			run.Values[v.Name] = v.Value
		}
		cells[k].Runs = append(cells[k].Runs, run)
	}
	return cells
}

// reportRuns prints the means of the metrics of several runs, with intervals, as those of an experiment.
func reportRuns(c *cli.Context, log *sqlite.DB, names []string) error {
	var runs []measuredRun
	for _, name := range names {
		m, err := metricsOf(c.Context, log, name)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(runs, func(r measuredRun) bool { return r.info.Name == m.info.Name }) {
			return exit.Usagef("report: run %s is named twice", m.info.Name)
		}
		runs = append(runs, m)
	}
	of, _ := choice(c)
	set := &results.Set{Name: "Runs " + strings.Join(names, ", "), Cells: groupedRuns(runs)}
	if err := printTables(c, set, of.Metrics, ""); err != nil {
		return err
	}
	return drawn(c, log, runs...)
}

func reportRun(c *cli.Context, log *sqlite.DB) error {
	name := c.Args().First()
	if log.OfOne() {
		return exit.Usagef("report %s: these metrics are of a whole run, and %s is the number of a submission; "+
			"gantry report RUN prints them (gantry ls lists runs), gantry show %s sums the submission up, --html FILE "+
			"makes its page", name, name, name)
	}
	m, err := metricsOf(c.Context, log, name)
	if err != nil {
		return err
	}
	info, values, flows := &m.info, m.values, m.flows
	numbers := map[string]*float64{}
	for _, v := range values {
		numbers[v.Name] = results.Finite(v.Value)
	}
	if asJSON(c, map[string]any{"run": info.Name, "runtime": info.Runtime, "policy": info.Policy, "workflows": flows,
		"metrics": numbers}) {
		return drawn(c, log, m)
	}
	counted := 0
	for i := range flows {
		if flows[i].Counts {
			counted++
		}
	}
	fmt.Fprintf(c.App.Writer, "%s: %s on %s; of %s %d count. Times in seconds.\n\n", info.Name, info.Policy,
		info.Runtime, term.Plural(len(flows), "workflow"), counted)
	printMetrics(c.App.Writer, values)
	return drawn(c, log, m)
}

// drawn draws the figures of runs, if they are asked for.
func drawn(c *cli.Context, log *sqlite.DB, runs ...measuredRun) error {
	var names []string
	for _, m := range runs[:min(len(runs), 4)] {
		names = append(names, m.info.Name)
	}
	return draw(c, strings.Join(names, " "), groupedRuns(runs), func(dir string) ([]string, error) {
		var all []tables.Figure
		for _, m := range runs {
			f, err := figureOf(c.Context, log, m)
			if err != nil {
				return nil, err
			}
			all = append(all, f)
		}
		return tables.RunFigures(all, dir)
	})
}

func figureOf(ctx context.Context, log *sqlite.DB, m measuredRun) (tables.Figure, error) {
	f := tables.Figure{Run: m.info.Name, Policy: m.info.Policy}
	for _, w := range m.flows {
		if w.Counts && w.Slowdown != nil && w.Critical > 0 {
			f.Workflows = append(f.Workflows, results.Point{Tasks: float64(w.Tasks), Slowdown: *w.Slowdown,
				Parallelism: w.Work / w.Critical})
		}
	}
	collector, _, err := session.MeasureLog(ctx, log, m.info)
	if err != nil {
		return f, err
	}
	f.InSystem = collector.InSystem().Thin(seriesPoints)
	if slices.ContainsFunc(m.values, func(m metrics.Value) bool { return m.Name == "jain" }) {
		f.Shares = collector.Shares()
	}
	f.Timeline, err = tables.ReadTimeline(ctx, log, m.info.Name)
	return f, session.LogError(err)
}

// seriesPoints bounds the points of a line over time.
const seriesPoints = 2000

// printMetrics prints the metrics of a run: samples over workflows as a table, then single numbers.
func printMetrics(to io.Writer, values []metrics.Value) {
	byName := map[string]float64{}
	for _, v := range values {
		byName[v.Name] = v.Value
	}
	text := func(name string) string {
		if v, ok := byName[name]; ok && !math.IsNaN(v) {
			return fmt.Sprintf("%.5g", v)
		}
		return "-"
	}
	statistics := []string{"mean", "sd", "min", "p5", "p25", "median", "p75", "p95", "p99", "max"}
	sampled, titles := []string{"slowdown", "wait", "makespan", "response", "slr"}, "|-"+strings.Join(statistics, "|-")
	columns.List(to, sampled, 0, titles, func(metric string) []any {
		row := []any{metric}
		for _, column := range statistics {
			row = append(row, text(metric+"_"+column))
		}
		return row
	})
	fmt.Fprintf(to, "%s\n\n", tables.SlowdownNote)
	single := slices.DeleteFunc(slices.Clone(values), func(v metrics.Value) bool {
		of, column, _ := strings.Cut(v.Name, "_")
		_, inTable := byName[of+"_median"]
		return inTable && slices.Contains(statistics, column)
	})
	columns.List(to, single, 0, "metric|value", func(v metrics.Value) []any {
		return []any{v.Name, text(v.Name)}
	})
}

// measuredNow is a workflow of a run that is not over, as the log would show it.
func measuredNow(w *metrics.Workflow, counts bool) measuredWorkflow {
	out := measuredWorkflow{Workflow: w.Name, Tasks: w.Tasks, Counts: counts, Arrived: w.Arrived.Seconds(),
		Work: w.Work.Seconds(), Critical: w.CriticalPath.Seconds()}
	if w.Due != unit.Never {
		out.Due = results.Finite(w.Due.Seconds())
	}
	if w.Done() {
		out.Wait, out.Makespan = results.Finite(w.Wait().Seconds()), results.Finite(w.Makespan().Seconds())
		out.Response = results.Finite(w.Response().Seconds())
		out.Slowdown, out.SLR = results.Finite(w.Slowdown()), results.Finite(w.ScheduleLengthRatio())
	}
	return out
}
