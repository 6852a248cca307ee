package main

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"gantry/executor"
	"gantry/executor/metrics"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/sqlite"
)

// reportRun prints the metrics of a run of the log.
func reportRun(c *cli.Context, name string) error {
	log, err := readLog(c)
	if err != nil {
		return err
	}
	defer log.Close()
	info, err := log.Info(c.Context, name)
	if err != nil {
		return fail(exitInput, err)
	}
	set := &settings{}
	if err := json.Unmarshal(info.Settings, set); err != nil {
		return failf(exitInternal, "settings of run %s: %w", info.Name, err)
	}
	collector, err := measure(c, log, info, set)
	if err != nil {
		return fail(exitHost, err)
	}
	window := metrics.Window{WarmUp: set.WarmUp, CoolDown: set.CoolDown}
	values := collector.Run(window)
	if c.Bool("json") {
		printMetricsJSON(c, info, collector.Counted(window), values)
		return nil
	}
	fmt.Fprintf(c.App.Writer, "%s: %s on %s; of %s %d count. Times in seconds.\n\n", info.Name, info.Policy, info.Runtime,
		plural(len(collector.Workflows()), "workflow"), len(collector.Counted(window)))
	byName := map[string]float64{}
	for _, v := range values {
		byName[v.Name] = v.Value
	}
	number := func(name string) string {
		if v, ok := byName[name]; ok && !math.IsNaN(v) {
			return fmt.Sprintf("%.5g", v)
		}
		return "-"
	}
	t := tabwriter.NewWriter(c.App.Writer, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\t")
	columns := []string{"mean", "sd", "min", "p5", "p25", "median", "p75", "p95", "p99", "max"}
	for _, column := range columns {
		fmt.Fprint(t, column+"\t")
	}
	fmt.Fprintln(t)
	for _, metric := range []string{"slowdown", "wait", "makespan", "response", "slr"} {
		fmt.Fprint(t, metric+"\t")
		for _, column := range columns {
			fmt.Fprint(t, number(metric+"_"+column)+"\t")
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(c.App.Writer)
	t = tabwriter.NewWriter(c.App.Writer, 0, 0, 2, ' ', 0)
	for _, v := range values {
		of, column, _ := strings.Cut(v.Name, "_")
		if _, inTable := byName[of+"_median"]; !inTable || !slices.Contains(columns, column) {
			fmt.Fprintf(t, "%s\t%s\n", v.Name, number(v.Name))
		}
	}
	return t.Flush()
}

// measure takes the metrics of a run from its events.
func measure(c *cli.Context, log *sqlite.DB, info sqlite.RunInfo, set *settings) (*metrics.Collector, error) {
	rules, err := retryRules(set.Retries)
	if err != nil {
		return nil, err
	}
	measured, err := measuredRuntimes(c, log, info.Name)
	if err != nil {
		return nil, err
	}
	collector := metrics.NewCollector(&info.Platform)
	state := planner.NewState(&info.Platform, rules)
	err = log.Events(c.Context, info.Name, func(e planner.Event, a *executor.Admission) error {
		if err := state.Apply(e); err != nil {
			return err
		}
		var admitted []*executor.Admission
		if a != nil {
			for _, spec := range a.Tasks {
				// A cost matrix stays: it tells what one measurement on one node cannot.
				if ran, ok := measured[measuredKey{workflow: a.Spec.Name, task: spec.Name}]; ok && spec.RunOn == nil {
					spec.Run = ran
				}
			}
			admitted = []*executor.Admission{a}
		}
		collector.Watch(state.View(), []planner.Event{e}, admitted)
		return nil
	})
	return collector, err
}

// measuredRuntimes returns for every task that ended well how long its program ran, brought to speed 1.
func measuredRuntimes(c *cli.Context, log *sqlite.DB, run string) (map[measuredKey]time.Duration, error) {
	rows, err := log.Query(c.Context, `SELECT w.name, t.name, a.ran_ns * n.speed FROM runs r JOIN tasks t ON t.run = r.id
		JOIN workflows w ON w.run = r.id AND w.workflow = t.workflow JOIN attempts a ON a.run = r.id AND a.attempt = t.attempt
		JOIN nodes n ON n.run = r.id AND n.node = a.node WHERE r.name = ? AND a.outcome = 'ok' AND a.ran_ns IS NOT NULL`, run)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[measuredKey]time.Duration{}
	for rows.Next() {
		var k measuredKey
		var ran float64
		if err := rows.Scan(&k.workflow, &k.task, &ran); err != nil {
			return nil, fmt.Errorf("read the runtimes of run %s: %w", run, err)
		}
		out[k] = time.Duration(ran)
	}
	return out, rows.Err()
}

func printMetricsJSON(c *cli.Context, info sqlite.RunInfo, counted []*metrics.Workflow, values []metrics.Value) {
	number := func(x float64) *float64 {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil
		}
		return &x
	}
	type row struct {
		Workflow string   `json:"workflow"`
		Tasks    int      `json:"tasks"`
		Arrived  float64  `json:"arrived_s"`
		Due      *float64 `json:"due_s"`
		Wait     float64  `json:"wait_s"`
		Makespan float64  `json:"makespan_s"`
		Response float64  `json:"response_s"`
		Work     float64  `json:"work_s"`
		Critical float64  `json:"critical_path_s"`
		Slowdown *float64 `json:"slowdown"`
		SLR      *float64 `json:"slr"`
	}
	out := struct {
		Run       string              `json:"run"`
		Runtime   string              `json:"runtime"`
		Policy    string              `json:"policy"`
		Metrics   map[string]*float64 `json:"metrics"`
		Workflows []row               `json:"workflows"`
	}{info.Name, info.Runtime, info.Policy, map[string]*float64{}, []row{}}
	for _, v := range values {
		out.Metrics[v.Name] = number(v.Value)
	}
	for _, w := range counted {
		r := row{w.Name, w.Tasks, w.Arrived.Seconds(), nil, w.Wait().Seconds(), w.Makespan().Seconds(), w.Response().Seconds(), w.Work.Seconds(),
			w.CriticalPath.Seconds(), number(w.Slowdown()), number(w.ScheduleLengthRatio())}
		if w.Due != unit.Never {
			r.Due = number(w.Due.Seconds())
		}
		out.Workflows = append(out.Workflows, r)
	}
	printJSON(c.App.Writer, out)
}
