// Package export writes runs out of the log for other programs: CSV, JSON, Nextflow's trace.txt and WfFormat.
package export

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"gantry/sqlite"
)

const (
	// ofTask are columns of a task that say how it was planned and why it waited, of the tables that planned joins.
	ofTask = `r.policy, r.runtime, t.task AS id, t.parents, t.ready_ns, t.queued_ns - t.ready_ns AS wait_ns,
		(SELECT group_concat(DISTINCT y.reason) FROM waits y WHERE y.run = r.id AND y.task = t.task) AS waited_for,
		coalesce(pn.name, tn.name) AS planned_node, coalesce(p.until_ns, t.queued_ns) AS planned_start_ns`
	planned = ` LEFT JOIN nodes tn ON tn.run = r.id AND tn.node = t.node
	LEFT JOIN waits p ON p.run = r.id AND p.task = t.task AND p.seq = (SELECT max(y.seq) FROM waits y
		WHERE y.run = r.id AND y.task = t.task AND y.reason = 'planned-later')
	LEFT JOIN nodes pn ON pn.run = r.id AND pn.node = p.node `
	tasksQuery = `SELECT r.name AS run, w.name AS workflow, t.name AS task, t.kind, t.stage, t.state, n.name AS node,
		t.attempts, t.need_millicores, t.need_memory_bytes, t.need_disk_bps, t.time_limit_ns, t.trace_runtime_ns,
		t.imputed, t.queued_ns, t.ended_ns, t.image, coalesce(i.digest, i.id) AS image_digest,
	iif(u.from_run <> '', u.from_run || ', attempt ' || u.from_attempt, NULL) AS reused_from, u.reason AS not_reused,
	` + ofTask + `, a.planned_end_ns
	FROM runs r JOIN tasks t ON t.run = r.id AND t.state <> 'continued'
	LEFT JOIN reuses u ON u.run = r.id AND u.task = t.task JOIN workflows w ON w.run = r.id AND w.workflow = t.workflow
	LEFT JOIN nodes n ON n.run = r.id AND n.node = t.node LEFT JOIN images i ON i.run = r.id AND i.image = t.image
	LEFT JOIN attempts a ON a.run = r.id AND a.attempt = t.attempt` + planned + `WHERE r.name = ?1 ORDER BY t.task`
	attemptsQuery = "SELECT * FROM v_attempts WHERE run = ?1 ORDER BY attempt"
	// bothQuery has %[1]s for columns of v_attempts, and %[2]s for as many NULLs. Attempts find their tasks by key; the
	// other way round there is no index.
	bothQuery = `SELECT r.name AS run, w.name AS workflow, t.name AS task, t.kind, t.stage, iif(t.state = 'continued',
	coalesce((SELECT x.state FROM tasks x WHERE x.run = r.id AND x.attempt = a.attempt AND x.state <> 'continued'),
		t.state), t.state) AS state,
	t.need_millicores, t.need_memory_bytes, t.need_disk_bps,
	t.time_limit_ns, t.trace_runtime_ns, t.imputed, %[1]s,
	t.image, coalesce(i.digest, i.id) AS image_digest, NULL AS reused_from, ` + ofTask + `, t.task AS by_task
	FROM runs r JOIN v_attempts v ON v.run = r.name JOIN attempts a ON a.run = r.id AND a.attempt = v.attempt
	JOIN tasks t ON t.run = r.id AND t.task = a.task JOIN workflows w ON w.run = r.id AND w.workflow = t.workflow
	LEFT JOIN images i ON i.run = r.id AND i.image = t.image` + planned + `WHERE r.name = ?1
	UNION ALL SELECT r.name, w.name, t.name, t.kind, t.stage, t.state, t.need_millicores, t.need_memory_bytes,
	t.need_disk_bps, t.time_limit_ns, t.trace_runtime_ns, t.imputed, %[2]s, t.image, coalesce(i.digest, i.id),
	iif(u.from_run <> '', u.from_run || ', attempt ' || u.from_attempt, NULL), ` + ofTask + `, t.task
	FROM runs r JOIN tasks t ON t.run = r.id AND t.attempts = 0 AND t.state <> 'continued'
	LEFT JOIN reuses u ON u.run = r.id AND u.task = t.task
	JOIN workflows w ON w.run = r.id AND w.workflow = t.workflow
	LEFT JOIN images i ON i.run = r.id AND i.image = t.image` + planned + `WHERE r.name = ?1
	ORDER BY by_task, 13`
	attemptColumnsQuery = `SELECT group_concat('v.' || name || ' AS ' || name, ', '), group_concat('NULL', ', ')
		FROM pragma_table_info('v_attempts')
	WHERE ?1 IS NOT NULL AND name NOT IN ('run', 'workflow', 'task', 'kind', 'attempt')`
)

// Tables of a run, as CSV and as Parquet files. The names of columns show their units.
var (
	Tasks           = table(writeCSV, tasks)        // a row for each task
	Attempts        = table(writeCSV, attempts)     // a row for each attempt
	CSV             = table(writeCSV, both)         // a row for each attempt, and for each task that has none
	ParquetTasks    = table(writeParquet, tasks)    // what Tasks writes
	ParquetAttempts = table(writeParquet, attempts) // what Attempts writes
	Parquet         = table(writeParquet, both)     // what CSV writes
)

// query is that of a table.
type query func(ctx context.Context, db *sqlite.DB, run string) (string, error)

func tasks(context.Context, *sqlite.DB, string) (string, error)    { return tasksQuery, nil }
func attempts(context.Context, *sqlite.DB, string) (string, error) { return attemptsQuery, nil }

// both is bothQuery with the columns of v_attempts.
func both(ctx context.Context, db *sqlite.DB, run string) (query string, err error) {
	err = db.Each(ctx, func(scan sqlite.Scan) error {
		var columns, nulls string
		err := scan(&columns, &nulls)
		query = fmt.Sprintf(bothQuery, columns, nulls)
		return err
	}, attemptColumnsQuery, run)
	return query, err
}

func table(write func(ctx context.Context, w io.Writer, db *sqlite.DB, query, run string) error,
	of query) func(ctx context.Context, w io.Writer, db *sqlite.DB, run string) error {
	return func(ctx context.Context, w io.Writer, db *sqlite.DB, run string) error {
		query, err := of(ctx, db, run)
		if err != nil {
			return err
		}
		return write(ctx, w, db, query, run)
	}
}

// JSON writes one object with the summary, the tasks and the attempts of a run. What is not known is null.
func JSON(ctx context.Context, w io.Writer, db *sqlite.DB, run string) error {
	summary, err := db.Summary(ctx, run)
	if err != nil {
		return err
	}
	head, err := json.Marshal(summary)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, `{"summary":%s`, head)
	for _, part := range []struct{ name, query string }{{"tasks", tasksQuery}, {"attempts", attemptsQuery}} {
		fmt.Fprintf(out, ",\n%q:[", part.name)
		first := true
		err := eachRow(ctx, db, part.query, run, func([]string) error { return nil }, func(columns []string,
			row []any) error {
			sep := ",\n{"
			if first {
				sep, first = "\n{", false
			}
			out.WriteString(sep)
			for i, v := range row {
				if i > 0 {
					out.WriteByte(',')
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
		out.WriteString("]")
	}
	out.WriteString("}\n")
	return out.Flush()
}

// writeCSV writes the rows of a query; what is not known is empty.
func writeCSV(ctx context.Context, w io.Writer, db *sqlite.DB, query, run string) error {
	out := csv.NewWriter(w)
	var line []string
	head := func(columns []string) error { return out.Write(named(columns)) }
	err := eachRow(ctx, db, query, run, head, func(columns []string, row []any) error {
		line = line[:0]
		for i, v := range row {
			if columns[i] == "by_task" {
				continue
			}
			switch v := v.(type) {
			case nil:
				line = append(line, "")
			case int64:
				line = append(line, strconv.FormatInt(v, 10))
			case float64:
				line = append(line, strconv.FormatFloat(v, 'g', -1, 64))
			default:
				line = append(line, fmt.Sprint(v))
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

// named drops the column that only sorts.
func named(columns []string) []string {
	var names []string
	for _, c := range columns {
		if c != "by_task" {
			names = append(names, c)
		}
	}
	return names
}

// eachRow gives the columns of a query, and then its rows as int64, float64, string or nil.
func eachRow(ctx context.Context, db *sqlite.DB, query, run string, head func(columns []string) error,
	row func(columns []string, row []any) error) error {
	rows, err := db.Query(ctx, query, run)
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	if err := head(columns); err != nil {
		return err
	}
	values, dest := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		dest[i] = &values[i]
	}
	return db.EachOf(rows, func(scan sqlite.Scan) error {
		if err := scan(dest...); err != nil {
			return err
		}
		for i, v := range values {
			if b, ok := v.([]byte); ok {
				values[i] = string(b)
			}
		}
		return row(columns, values)
	})
}
