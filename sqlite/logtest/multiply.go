package logtest

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Multiply copies all runs of a log, so that there are n times as many: run NAME is there as NAME-1, NAME-2 and so on,
// too. The time to read one run must not depend on the number of others, and real runs would take hours to be made. The
// log must not be in use.
func Multiply(ctx context.Context, path string, n int) error {
	raw, err := sql.Open("sqlite3", (&url.URL{Scheme: "file", Path: path, RawQuery: "_synchronous=OFF"}).String())
	if err != nil {
		return err
	}
	defer raw.Close()
	raw.SetMaxOpenConns(1)
	runs, err := texts(ctx, raw, "SELECT name FROM runs")
	if err != nil {
		return err
	}
	tables, err := texts(ctx, raw, "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
	if err != nil {
		return err
	}
	copies := []string{} // statements; ?1 is the run, ?2 the suffix of its name
	for _, table := range append([]string{"runs"}, tables...) {
		names, err := texts(ctx, raw, "SELECT name FROM pragma_table_info('"+table+"')")
		if err != nil {
			return err
		}
		own, values := names, slices.Clone(names)
		where, source := "run = (SELECT id FROM runs WHERE name = ?1) AND ?2 = ?2", "(SELECT max(id) FROM runs)"
		switch {
		case table == "runs" && len(copies) == 0:
			own, values = names[1:], values[1:] // without its number
			where, source = "name = ?1", "name || ?2"
		case table == "runs", table == "submitted", !slices.Contains(names, "run"):
			continue
		}
		for i, name := range own {
			if name == "run" || name == "name" && table == "runs" {
				values[i] = source
			}
		}
		copies = append(copies, fmt.Sprintf("INSERT INTO %s(%s) SELECT %s FROM %[1]s WHERE %[4]s", table,
			strings.Join(own, ", "), strings.Join(values, ", "), where))
	}
	for i := 1; i < n; i++ {
		for _, run := range runs {
			tx, err := raw.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			for _, c := range copies {
				if _, err = tx.ExecContext(ctx, c, run, fmt.Sprint("-", i)); err != nil {
					_ = tx.Rollback()
					return fmt.Errorf("copy run %s: %s: %w", run, c, err)
				}
			}
			if err := tx.Commit(); err != nil {
				return err
			}
		}
	}
	_, err = raw.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	return err
}

// texts are those that a query finds.
func texts(ctx context.Context, raw *sql.DB, query string) (out []string, err error) {
	rows, err := raw.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, rows.Err()
}
