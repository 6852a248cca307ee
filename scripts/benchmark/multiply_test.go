package benchmark

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"

	"gantry/sqlite"
)

// multiply copies all runs of a log, so that there are n times as many: run NAME is there as NAME-1, NAME-2 and so on,
// too. The time to read one run must not depend on the number of others, and real runs would take hours to be made. The
// log must not be in use.
func multiply(ctx context.Context, path string, n int) error {
	raw, err := sql.Open("sqlite3", (&url.URL{Scheme: "file", Path: path,
		RawQuery: "_synchronous=OFF&_journal_mode=OFF"}).String())
	if err != nil {
		return err
	}
	defer raw.Close()
	raw.SetMaxOpenConns(1)
	copied := []string{"CREATE TEMP TABLE numbers AS WITH RECURSIVE i(n) AS (VALUES(1) UNION ALL SELECT n + 1 FROM i " +
		fmt.Sprintf("WHERE n < %d) SELECT n FROM i", n-1)}
	reader := &sqlite.Reader{From: raw, Failed: func(err error) error { return err }}
	type table struct{ Name, Columns string }
	tables, err := sqlite.RowsOf[table](ctx, reader, `SELECT s.name, group_concat(c.name) FROM sqlite_schema s
		JOIN pragma_table_info(s.name) c WHERE s.type = 'table' AND s.name <> 'submitted' AND c.name <> 'run'
		AND (s.name = 'runs' AND c.name NOT IN ('id', 'name') OR EXISTS (SELECT 1 FROM pragma_table_info(s.name)
		WHERE name = 'run')) GROUP BY s.name ORDER BY s.name <> 'runs'`)
	for _, t := range tables {
		if t.Name == "runs" {
			copied = append(copied, "INSERT INTO runs(name, "+t.Columns+") SELECT name || '-' || n, "+t.Columns+
				" FROM runs CROSS JOIN numbers", "CREATE TEMP TABLE copies AS SELECT r.id AS was, c.id AS becomes "+
				"FROM runs r CROSS JOIN numbers JOIN runs c ON c.name = r.name || '-' || n")
			continue
		}
		copied = append(copied, "INSERT INTO "+t.Name+"(run, "+t.Columns+") SELECT becomes, "+t.Columns+
			" FROM copies CROSS JOIN "+t.Name+" ON run = was")
	}
	for _, statement := range append(copied, "PRAGMA journal_mode = WAL") {
		if _, failed := raw.ExecContext(ctx, statement); err == nil && failed != nil {
			err = fmt.Errorf("%s: %w", statement, failed)
		}
	}
	return err
}
