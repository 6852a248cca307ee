package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gantry/planner"
)

// NotArrivedError is of a submission that no run has any rows of: it waits, or was settled before it arrived.
type NotArrivedError struct {
	ID             int64
	State, Message string
}

func (e *NotArrivedError) Error() string {
	switch {
	case e.State == Accepted:
		return fmt.Sprintf("submission %d has not arrived, so there is nothing of it yet: gantry queue says why", e.ID)
	case e.Message == "":
		return fmt.Sprintf("submission %d was %s before it arrived, so there is nothing of it", e.ID, e.State)
	}
	return fmt.Sprintf("submission %d was %s before it arrived, so there is nothing of it: %s", e.ID, e.State,
		e.Message)
}

// Extract returns a log with one submission alone, as a run of its own: the rows of its workflow, or of its one task.
// It is found by the number of the submission as well as by the name of its run, which it keeps, as files lie below
// that. It is a copy in a directory for temporary files, which goes with Close.
func (db *DB) Extract(ctx context.Context, id int64) (_ *DB, err error) {
	s, err := db.Submitted(ctx, id)
	if err == nil && s.Workflow == planner.None {
		err = &NotArrivedError{ID: id, State: s.State, Message: s.Message}
	}
	if err != nil {
		return nil, err
	}
	from, err := db.holding(s)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "gantry-submission-")
	if err != nil {
		return nil, fmt.Errorf("submission %d: %w", id, err)
	}
	// A directory that this process alone sees needs no care for crashes.
	out, err := Open(filepath.Join(dir, FileName), Bulk)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	out.remove, out.aliases = dir, map[string]string{strconv.FormatInt(id, 10): s.Run}
	if err := out.fill(from, s); err != nil {
		return nil, errors.Join(fmt.Errorf("submission %d: %w", id, err), out.Close())
	}
	out.path = db.path
	return out, nil
}

// OfOne reports whether this is the log of one submission alone, as Extract returns it.
func (db *DB) OfOne() bool { return db.remove != "" }

// Save writes the log to a new file.
func (db *DB) Save(path string) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if _, err := db.conn.Exec("VACUUM INTO ?", []driver.Value{path}); err != nil {
		return db.wrap("copy", err)
	}
	return nil
}

// OpenExtract opens a copy of what Extract returned, which lies in a directory of its own that goes with Close.
func OpenExtract(path string, id int64) (*DB, error) {
	db, err := Open(path, ReadOnly)
	if err != nil {
		return nil, err
	}
	db.remove = filepath.Dir(path)
	run := ""
	if err := db.readers.QueryRow("SELECT name FROM runs").Scan(&run); err != nil {
		return nil, errors.Join(db.wrap("read", err), db.Close())
	}
	db.aliases = map[string]string{strconv.FormatInt(id, 10): run}
	return db, nil
}

// Name lets the run of a submission be found by the number of that, too. It comes before the log is asked from several
// goroutines.
func (db *DB) Name(ctx context.Context, id int64) error {
	s, err := db.Submitted(ctx, id)
	if err == nil {
		db.aliases = map[string]string{strconv.FormatInt(id, 10): s.Run}
	}
	return err
}

// fill copies the rows of a submission from another log.
func (db *DB) fill(from string, s *Submitted) error {
	if _, err := db.conn.Exec("ATTACH DATABASE ? AS whole", []driver.Value{dsn(from, "mode=ro")}); err != nil {
		return db.wrap("read", err)
	}
	defer db.conn.Exec("DETACH DATABASE whole", nil)
	return db.transact(func() error {
		run, err := db.queryInt("SELECT id FROM whole.runs WHERE name = ?", s.Run)
		if err != nil {
			return err
		}
		tables, err := db.strings("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
		if err != nil {
			return err
		}
		bounds := map[string]func(run int64, s *Submitted) (string, error){"task_rows": db.tasksOf,
			"attempt_rows": db.attemptsOf, "files": db.filesOf}
		of := map[string]string{
			"workflow": fmt.Sprintf("workflow = %d", s.Workflow),
			"task":     "task IN (SELECT task FROM main.task_rows)",
			"child":    "child IN (SELECT task FROM main.task_rows)",
			"attempt":  "attempt IN (SELECT attempt FROM main.attempt_rows)",
			"file":     "file IN (SELECT file FROM main.files)",
		}
		copyRows := func(table string) error {
			columns, err := db.strings("SELECT name FROM pragma_table_info('" + table + "')")
			if err != nil {
				return err
			}
			where := ""
			for _, c := range []string{"workflow", "child", "attempt", "task", "file"} {
				// an attempt is known by its task before it is there
				if slices.Contains(columns, c) && !(table == "attempt_rows" && c == "attempt") {
					where = of[c]
					break
				}
			}
			switch {
			case table == "runs":
				where = "id = ?1"
			case !slices.Contains(columns, "run"):
				return nil
			case bounds[table] != nil:
				numbers, err := bounds[table](run, s)
				if err != nil {
					return err
				}
				where = "run = ?1 AND " + where + numbers
			case where != "":
				where = "run = ?1 AND " + where
			case slices.Contains([]string{"nodes", "images", "policies"}, table):
				where = "run = ?1"
			case table == "events": // the last one, which is the clock of the run
				where = "run = ?1 AND seq = (SELECT max(seq) FROM whole.events WHERE run = ?1)"
			default:
				return nil // of the run as a whole
			}
			names := strings.Join(columns, ", ")
			_, err = db.conn.Exec("INSERT OR IGNORE INTO main."+table+"("+names+") SELECT "+names+" FROM whole."+table+
				" WHERE "+where, []driver.Value{run})
			return err
		}
		first := []string{"runs", "workflows", "task_rows", "attempt_rows", "files"}
		rest := slices.DeleteFunc(tables, func(t string) bool { return slices.Contains(first, t) })
		for _, table := range slices.Concat(first, rest) {
			if err := copyRows(table); err != nil {
				return err
			}
		}
		// The last event may be of another submission: its time alone is taken.
		if _, err := db.conn.Exec("UPDATE main.events SET kind = ?, body = '{}'",
			[]driver.Value{int64(planner.KindPlanCommitted)}); err != nil {
			return err
		}
		_, err = db.conn.Exec(`UPDATE main.runs SET exit_code = NULL, peak_disk_bytes = NULL, archived = NULL,
			counts = (SELECT json_group_object(x.state, x.n) FROM (
				SELECT t.state, count(*) AS n FROM main.task_rows t GROUP BY t.state
				UNION ALL SELECT 'workflows', 1) x),
			(state, ended_ns, makespan_ns) = (SELECT
				CASE WHEN w.state = 'done' THEN 'finished'
					WHEN w.state IN ('failed', 'cancelled', 'refused') THEN 'failed'
					ELSE runs.state END,
				w.ended_ns, w.ended_ns - w.arrived_ns FROM main.workflows w)`, nil)
		return err
	})
}

// tasksOf is a condition that bounds the numbers of the tasks of a submission, as a log may have many others.
func (db *DB) tasksOf(run int64, s *Submitted) (string, error) {
	if s.Task != planner.None {
		return fmt.Sprintf(" AND task = %d", s.Task), nil
	}
	const of = " FROM whole.workflows w WHERE run = ? AND workflow = ? AND NOT EXISTS (SELECT 1 FROM whole.growths g " +
		"WHERE g.run = w.run AND g.workflow = w.workflow)"
	first, err := db.queryInt("SELECT coalesce(max(first_task), -1)"+of, run, int64(s.Workflow))
	if err != nil || first < 0 {
		return "", err
	}
	n, err := db.queryInt("SELECT max(tasks)"+of, run, int64(s.Workflow))
	return fmt.Sprintf(" AND task BETWEEN %d AND %d", first, first+n-1), err
}

// attemptsOf is the same of its attempts: those ordered between its arrival and its end. Their numbers are in the order
// of time. Its workflow and tasks are copied already.
func (db *DB) attemptsOf(run int64, s *Submitted) (string, error) {
	ends := "main.workflows"
	if s.Task != planner.None {
		ends = "main.task_rows"
	}
	began, err := db.queryInt("SELECT coalesce(min(arrived_ns), 0) FROM main.workflows")
	if err != nil {
		return "", err
	}
	ended, err := db.queryInt("SELECT coalesce(max(ended_ns), -1) FROM " + ends)
	if err != nil {
		return "", err
	}
	const later = "SELECT queued_ns >= ? FROM whole.attempt_rows WHERE run = ? AND attempt >= ? AND queued_ns IS NOT " +
		"NULL ORDER BY attempt LIMIT 1"
	most, err := db.queryInt("SELECT coalesce(max(attempt), -1) FROM whole.attempt_rows WHERE run = ?", run)
	if err != nil {
		return "", err
	}
	first, err := db.bisect(later, began, run, most)
	if err != nil || ended < 0 {
		return fmt.Sprintf(" AND attempt >= %d", first), err
	}
	next, err := db.bisect(later, ended+1, run, most)
	if err != nil {
		return "", err
	}
	last, err := db.queryInt("SELECT coalesce(max(attempt), -1) FROM main.task_rows")
	return fmt.Sprintf(" AND attempt BETWEEN %d AND %d", first, max(next-1, last)), err
}

// filesOf is the same of its files, which have the order of workflows but for those of workflows that grew.
func (db *DB) filesOf(run int64, s *Submitted) (string, error) {
	if s.Task != planner.None {
		return "", nil
	}
	const later = "SELECT workflow >= ? FROM whole.files WHERE run = ? AND file >= ? AND workflow NOT IN (SELECT " +
		"workflow FROM whole.growths) ORDER BY file LIMIT 1"
	most, err := db.queryInt("SELECT coalesce(max(file), -1) FROM whole.files WHERE run = ?", run)
	if err != nil {
		return "", err
	}
	first, err := db.bisect(later, int64(s.Workflow), run, most)
	if err != nil {
		return "", err
	}
	next, err := db.bisect(later, int64(s.Workflow)+1, run, most)
	return fmt.Sprintf(" AND file BETWEEN %d AND %d", first, next-1), err
}

// bisect returns the smallest number from which on later holds of all rows of the run, most+1 if there is none. later
// takes a bound, the run and a number, and asks the first row from there on.
func (db *DB) bisect(later string, bound, run, most int64) (int64, error) {
	low, high := int64(0), most+1
	for low < high {
		middle := (low + high) / 2
		holds, err := db.queryInt("SELECT coalesce(("+later+"), 1)", bound, run, middle)
		if err != nil {
			return 0, err
		}
		if holds != 0 {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low, nil
}
