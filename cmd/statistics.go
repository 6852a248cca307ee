package cmd

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/term"
	"gantry/sqlite"
	"gantry/sqlite/report/columns"
)

// runStatistics are the numbers of a run that pegasus-statistics has. Nil is not known yet.
type runStatistics struct {
	Run       string       `json:"run"`
	State     sqlite.State `json:"state"`
	Workflows workCounts   `json:"workflows"`
	Tasks     workCounts   `json:"tasks"`
	Jobs      workCounts   `json:"jobs"` // tasks that took a place on a node, or are to
	// WallTime is from the arrival of the first workflow to the end of the last attempt, or so far.
	WallTime *sqlite.Span `json:"workflow_wall_time_s"`
	// JobTime is how long the programs of all attempts ran; SubmitTime is from their orders to their ends. Badput is
	// the part of attempts that did not end well and left no checkpoint.
	JobTime         sqlite.Span      `json:"job_wall_time_s"`
	SubmitTime      sqlite.Span      `json:"job_wall_time_submit_side_s"`
	Badput          sqlite.Span      `json:"badput_wall_time_s"`
	SubmitBadput    sqlite.Span      `json:"badput_wall_time_submit_side_s"`
	Transformations []transformation `json:"transformations"`
}

// workCounts counts workflows, tasks or jobs by outcome.
type workCounts struct {
	Succeeded  int `json:"succeeded"`
	Failed     int `json:"failed"`
	Incomplete int `json:"incomplete"` // not ended, or skipped
	Total      int `json:"total"`
	Retries    int `json:"retries"` // attempts after the first of each
}

// transformation is the attempts of one task type that ran and ended: how many, and how long their programs ran.
type transformation struct {
	Name      string      `json:"transformation"`
	Count     int         `json:"count"`
	Succeeded int         `json:"succeeded"`
	Failed    int         `json:"failed"`
	Min       sqlite.Span `json:"min_s"`
	Max       sqlite.Span `json:"max_s"`
	Mean      sqlite.Span `json:"mean_s"`
	Total     sqlite.Span `json:"total_s"`
}

// countedAs are columns of workCounts. A workflow or task that was continued is another's.
const countedAs = `(SELECT count(*) FILTER (WHERE state = 'done'),
		count(*) FILTER (WHERE state IN ('failed', 'cancelled', 'refused')),
		count(*) FILTER (WHERE state NOT IN ('done', 'failed', 'cancelled', 'refused')),
		count(*), coalesce(sum(max(0, %s - 1)), 0) FROM %s WHERE run = ?1 AND state <> 'continued')`

// statisticsOf counts a run, given by its name, the beginning of that, or "" for the latest.
func statisticsOf(ctx context.Context, db *sqlite.DB, run string) (*runStatistics, error) {
	id, _, err := db.Find(ctx, run)
	if err != nil {
		return nil, err
	}
	// A task without time needs nothing. One that was reused is done and has no attempt.
	s, err := sqlite.RowOf[runStatistics](ctx, db, `SELECT r.name, r.state, w.*, t.*, j.*,
			coalesce(r.makespan_ns, k.at_ns - (SELECT min(arrived_ns) FROM workflows WHERE run = ?1)), a.*
		FROM runs r JOIN clocks k ON k.run = r.id JOIN `+fmt.Sprintf(countedAs, "0", "workflows")+` w
		JOIN `+fmt.Sprintf(countedAs, "attempts", "tasks")+` t JOIN `+fmt.Sprintf(countedAs, "attempts",
		"(SELECT * FROM tasks WHERE need_millicores > 0 AND NOT (state = 'done' AND attempts = 0))")+` j
		JOIN (SELECT CAST(total(ran_ns) AS INTEGER), CAST(total(ended_ns - queued_ns) AS INTEGER),
			CAST(total(ran_ns) FILTER (WHERE outcome <> 'ok' AND kept IS NULL) AS INTEGER),
			CAST(total(ended_ns - queued_ns) FILTER (WHERE outcome <> 'ok' AND kept IS NULL) AS INTEGER)
			FROM attempts WHERE run = ?1 AND outcome IS NOT NULL) a WHERE r.id = ?1`, id)
	if err != nil {
		return nil, err
	}
	s.Transformations, err = sqlite.RowsOf[transformation](ctx, db, `SELECT t.kind, count(*), sum(a.outcome = 'ok'),
			sum(a.outcome <> 'ok'), min(a.ran_ns), max(a.ran_ns), sum(a.ran_ns) / count(*), sum(a.ran_ns)
		FROM attempts a CROSS JOIN tasks t ON t.run = a.run AND t.task = a.task
		WHERE a.run = ? AND a.outcome IS NOT NULL AND a.ran_ns IS NOT NULL AND a.node >= 0
		GROUP BY t.kind ORDER BY t.kind`, id)
	return &s, err
}

func statistics(c *cli.Context, db *sqlite.DB) error {
	var all []*runStatistics
	for i := range max(1, c.NArg()) { // without a name the latest
		s, err := statisticsOf(c.Context, db, c.Args().Get(i))
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	if asJSON(c, all) {
		return nil
	}
	for i, s := range all {
		if i > 0 {
			fmt.Fprintln(c.App.Writer)
		}
		printStatistics(c.App.Writer, s)
	}
	return nil
}

func printStatistics(w io.Writer, s *runStatistics) {
	fmt.Fprintf(w, "%s: %s\n\n", s.Run, s.State)
	t := columns.New(w, "TYPE|-SUCCEEDED|-FAILED|-INCOMPLETE|-TOTAL|-RETRIES|-TOTAL+RETRIES")
	for _, row := range []struct {
		name string
		of   workCounts
	}{{"Tasks", s.Tasks}, {"Jobs", s.Jobs}, {"Workflows", s.Workflows}} {
		t.Row(row.name, row.of.Succeeded, row.of.Failed, row.of.Incomplete, row.of.Total, row.of.Retries,
			row.of.Total+row.of.Retries)
	}
	t.End()
	for _, row := range []struct {
		name string
		of   *sqlite.Span
	}{{"Workflow wall time", s.WallTime}, {"Cumulative job wall time", &s.JobTime},
		{"Cumulative job wall time, submit side", &s.SubmitTime}, {"Cumulative job badput wall time", &s.Badput},
		{"Cumulative job badput wall time, submit side", &s.SubmitBadput}} {
		fmt.Fprintf(w, "  %-44s  %s\n", row.name, term.Span(row.of))
	}
	if len(s.Transformations) > 0 {
		fmt.Fprintln(w, "\nSeconds by transformation:")
	}
	seconds := func(s sqlite.Span) string { return fmt.Sprintf("%.3f", time.Duration(s).Seconds()) }
	columns.List(w, s.Transformations, 0, "TRANSFORMATION|-COUNT|-SUCCEEDED|-FAILED|-MIN|-MAX|-MEAN|-TOTAL",
		func(x transformation) []any {
			return []any{x.Name, x.Count, x.Succeeded, x.Failed, seconds(x.Min), seconds(x.Max), seconds(x.Mean),
				seconds(x.Total)}
		})
}
