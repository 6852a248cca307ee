// Package export writes runs out of the log for other programs: tables as CSV, JSON and Parquet, WfFormat, and traces.
package export

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"gantry/sqlite"
	"gantry/sqlite/report/summary"
)

// The tables of a run. The same columns come first in each; the names of columns show their units.
const (
	ofTask = `SELECT r.name AS run, r.policy, r.runtime, w.name AS workflow, t.name AS task, t.task AS id, t.kind,
	t.stage, t.parents, %s AS state, ` + readyAt + ` AS ready_ns, max(0, t.queued_ns - t.ready_ns) AS wait_ns,
	(SELECT group_concat(DISTINCT y.reason) FROM waits y WHERE y.run = r.id AND y.task = t.task) AS waited_for,
	coalesce(pn.name, n.name) AS planned_node, coalesce(p.until_ns, t.queued_ns) AS planned_start_ns,
	t.need_millicores, t.need_memory_bytes, t.need_disk_bps, t.time_limit_ns, t.trace_runtime_ns, t.imputed,
	t.image, coalesce(i.digest, i.id) AS image_digest, t.command,
	(SELECT ` + filesIn + ` json_each(t.inputs) x CROSS JOIN files f ON f.run = r.id AND f.file = x.value) AS inputs,
	(SELECT ` + filesIn + ` json_each(t.outputs) x CROSS JOIN files f ON f.run = r.id AND f.file = x.value) AS outputs`
	// also of a task that was not given its place, as v_tasks has it
	readyAt = `coalesce(t.ready_ns, (SELECT CASE WHEN total(p.state <> 'done') = 0 THEN max(w.arrived_ns, w.release_ns,
		coalesce(max(p.ended_ns), 0)) END FROM json_each(t.parents) d CROSS JOIN tasks p ON p.run = r.id AND
		p.task = d.value))`
	filesIn    = `json_group_array(json_object('name', f.name, 'size_bytes', f.size_bytes)) FROM`
	reusedFrom = `iif(u.from_run <> '', u.from_run || ', attempt ' || u.from_attempt, NULL) AS reused_from`
	joined     = ` JOIN workflows w ON w.run = r.id AND w.workflow = t.workflow
	LEFT JOIN nodes n ON n.run = r.id AND n.node = t.node LEFT JOIN images i ON i.run = r.id AND i.image = t.image
	LEFT JOIN reuses u ON u.run = r.id AND u.task = t.task
	LEFT JOIN waits p ON p.run = r.id AND p.task = t.task AND p.seq = (SELECT max(y.seq) FROM waits y
		WHERE y.run = r.id AND y.task = t.task AND y.reason = 'planned-later')
	LEFT JOIN nodes pn ON pn.run = r.id AND pn.node = p.node `
	restOfTasks = `, n.name AS node, t.attempts, t.queued_ns, a.started_ns, t.ended_ns, a.ran_ns, a.planned_end_ns,
	a.estimate_ns, a.estimate_source, a.outcome, ` + reusedFrom + `, u.reason AS not_reused
	FROM runs r JOIN tasks t ON t.run = r.id AND t.state <> 'continued'
	LEFT JOIN attempts a ON a.run = r.id AND a.attempt = t.attempt` + joined + `WHERE r.name = ?1 ORDER BY t.task`
	// Attempts find their tasks by key; the other way round there is no index.
	fromAttempts = ` FROM runs r JOIN v_attempts v ON v.run = r.name
	JOIN attempts a ON a.run = r.id AND a.attempt = v.attempt
	JOIN tasks t ON t.run = r.id AND t.task = a.task` + joined + `WHERE r.name = ?1 `
	withoutAttempts = ` FROM runs r
	JOIN tasks t ON t.run = r.id AND t.attempts = 0 AND t.state <> 'continued'` + joined + `WHERE r.name = ?1 `
	stateThen = `iif(t.state = 'continued', coalesce((SELECT x.state FROM tasks x WHERE x.run = r.id
		AND x.attempt = a.attempt AND x.state <> 'continued'), t.state), t.state)`
	attemptColumnsQuery = `SELECT group_concat('v.' || name || ' AS ' || name, ', '), group_concat('NULL', ', ')
		FROM pragma_table_info('v_attempts')
	WHERE name NOT IN ('run', 'workflow', 'task', 'kind')`
)

// Writer writes tables of runs; they need not have the same runtime.
type Writer func(ctx context.Context, w io.Writer, db *sqlite.DB, runs ...string) error

// The tables of runs by format: Both has a row for each attempt, and for each task that has none.
var (
	CSV     = Format{table(writeCSV, tasks), table(writeCSV, attempts), table(writeCSV, both)}
	Parquet = Format{table(writeParquet, tasks), table(writeParquet, attempts), table(writeParquet, both)}
	JSON    = Format{jsonTasks, jsonAttempts, objects}
)

var jsonTasks, jsonAttempts = table(writeJSON, tasks), table(writeJSON, attempts)

// Format writes the tables in one format.
type Format struct{ Tasks, Attempts, Both Writer }

// query is that of a table; it has the name of a run as ?1. Its columns are the same for all runs.
type query func(ctx context.Context, db *sqlite.DB) (string, error)

func tasks(context.Context, *sqlite.DB) (string, error) {
	return fmt.Sprintf(ofTask, "t.state") + restOfTasks, nil
}

func attempts(ctx context.Context, db *sqlite.DB) (string, error) {
	columns, _, err := attemptColumns(ctx, db)
	return fmt.Sprintf(ofTask, stateThen) + ", " + columns + fromAttempts + "ORDER BY v.attempt", err
}

func both(ctx context.Context, db *sqlite.DB) (string, error) {
	columns, nulls, err := attemptColumns(ctx, db)
	return fmt.Sprintf(ofTask, stateThen) + ", " + columns + ", NULL AS reused_from" + fromAttempts + "UNION ALL " +
		fmt.Sprintf(ofTask, "t.state") + ", " + nulls + ", " + reusedFrom + withoutAttempts + "ORDER BY id, try", err
}

// attemptColumns are those of v_attempts that a task does not have, and as many NULLs.
func attemptColumns(ctx context.Context, db *sqlite.DB) (columns, nulls string, err error) {
	of, err := sqlite.RowOf[[2]string](ctx, db, attemptColumnsQuery)
	return of[0], of[1], err
}

func table(write func(ctx context.Context, w io.Writer, db *sqlite.DB, query string, runs []string) error,
	of query) Writer {
	return func(ctx context.Context, w io.Writer, db *sqlite.DB, runs ...string) error {
		query, err := of(ctx, db)
		if err != nil {
			return err
		}
		return write(ctx, w, db, query, runs)
	}
}

// objects writes one object with the summaries, the tasks and the attempts of runs. An unknown value is null.
func objects(ctx context.Context, w io.Writer, db *sqlite.DB, runs ...string) error {
	summaries := make([]*summary.Run, len(runs))
	for i, run := range runs {
		var err error
		if summaries[i], err = summary.Of(ctx, db, run); err != nil {
			return err
		}
	}
	head, err := json.Marshal(summaries)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "{\"runs\":%s,\n\"tasks\":", head)
	if err := jsonTasks(ctx, w, db, runs...); err != nil {
		return err
	}
	io.WriteString(w, ",\n\"attempts\":")
	if err := jsonAttempts(ctx, w, db, runs...); err != nil {
		return err
	}
	_, err = io.WriteString(w, "}\n")
	return err
}

// writeJSON writes an array with an object for each row.
func writeJSON(ctx context.Context, w io.Writer, db *sqlite.DB, query string, runs []string) error {
	out := bufio.NewWriter(w)
	sep := "[\n{"
	var columns []string
	var row, dest []any
	err := eachRow(ctx, db, query, runs, func(types []*sql.ColumnType) ([]any, error) {
		columns, row, dest = anything(types)
		return dest, nil
	}, func() error {
		out.WriteString(sep)
		sep = ",\n{"
		for i, v := range row {
			if i > 0 {
				out.WriteByte(',')
			}
			if x, ok := v.(float64); ok {
				v = json.RawMessage(float(x))
			}
			text, err := json.Marshal(v)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "%q:%s", columns[i], text)
		}
		return out.WriteByte('}')
	})
	if err != nil {
		return err
	}
	if sep[0] == '[' {
		out.WriteByte('[')
	}
	out.WriteString("]")
	return out.Flush()
}

// float writes a number such that a reader that guesses types knows that it is no integer.
func float(x float64) string {
	text := strconv.FormatFloat(x, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// writeCSV writes the rows of a query; unknown values are empty.
func writeCSV(ctx context.Context, w io.Writer, db *sqlite.DB, query string, runs []string) error {
	out := csv.NewWriter(w)
	var line []string
	var row []any
	err := eachRow(ctx, db, query, runs, func(types []*sql.ColumnType) (dest []any, err error) {
		line, row, dest = anything(types)
		return dest, out.Write(line)
	}, func() error {
		for i, v := range row {
			switch v := v.(type) {
			case nil:
				line[i] = ""
			case int64:
				line[i] = strconv.FormatInt(v, 10)
			case float64:
				line[i] = float(v)
			default:
				line[i] = fmt.Sprint(v)
			}
		}
		return out.Write(line)
	})
	out.Flush()
	if err != nil {
		return err
	}
	return out.Error()
}

// anything has the names of columns, and places for a row of int64, float64, string or nil.
func anything(types []*sql.ColumnType) (columns []string, row, dest []any) {
	row = make([]any, len(types))
	for i, t := range types {
		columns, dest = append(columns, t.Name()), append(dest, &row[i])
	}
	return columns, row, dest
}

// eachRow gives the columns of a query to head, which has the places for their values, and calls row for each row of
// each run.
func eachRow(ctx context.Context, db *sqlite.DB, query string, runs []string,
	head func([]*sql.ColumnType) (dest []any, err error), row func() error) error {
	var dest []any
	for k, run := range runs {
		rows, err := db.Query(ctx, query, run)
		if err != nil {
			return err
		}
		defer rows.Close()
		if k == 0 {
			types, err := rows.ColumnTypes()
			if err != nil {
				return fmt.Errorf("read log %s: %w", db.Path(), err)
			}
			if dest, err = head(types); err != nil {
				return err
			}
		}
		if err := db.EachOf(rows, func(scan sqlite.Scan) error {
			if err := scan(dest...); err != nil {
				return err
			}
			return row()
		}); err != nil {
			return err
		}
	}
	return nil
}
