package sqlite

import (
	"context"
	"time"
)

// Remove deletes a run, given by its whole name, with everything that the log has of it. Models that were trained on it
// stay. It returns an *Unknown if the log does not have the run.
func (db *DB) Remove(ctx context.Context, run string) error {
	if _, err := db.State(ctx, run); err != nil {
		return err
	}
	if err := db.change("DELETE FROM runs WHERE name = ?", run); err != nil {
		return err
	}
	return db.shrink()
}

// Ended returns the names of the runs that ended before an instant, the oldest first.
func (db *DB) Ended(ctx context.Context, before time.Time) ([]string, error) {
	return RowsOf[string](ctx, db, "SELECT name FROM runs WHERE state IN ('finished', 'failed') AND "+
		"unixepoch(ended_wall) < ? ORDER BY id", before.Unix())
}

// RemoveSubmitted deletes the rows of submissions to servers that ended before an instant, also of runs that are under
// way, and returns how many. Their workflows are part of the run and stay, as do submissions that another one is to
// come after.
func (db *DB) RemoveSubmitted(before time.Time) (n int64, err error) {
	err = db.transact(func() error {
		if err := db.exec(`DELETE FROM submitted WHERE id IN (
				SELECT s.id FROM submitted s JOIN runs r ON r.id = s.run
				LEFT JOIN workflows w ON w.run = s.run AND w.workflow = s.workflow
				WHERE s.state <> 'accepted' AND r.started_unix_ns + CASE WHEN s.workflow IS NULL
					THEN s.options ->> '$.settled_ns'
					WHEN w.state NOT IN ('waiting', 'running') THEN w.ended_ns END < ?
				AND NOT EXISTS (SELECT 1 FROM tasks t INDEXED BY tasks_not_done WHERE t.run = s.run AND
					t.state IN ('starting', 'running', 'suspended') AND t.state <> 'done' AND t.workflow = s.workflow))
			AND id NOT IN (SELECT o.value ->> '$.id' FROM submitted a, json_each(a.options, '$.after') o
				WHERE a.state = 'accepted')`, before.UnixNano()); err != nil {
			return err
		}
		n, err = db.queryInt("SELECT changes()")
		return err
	})
	if err != nil || n == 0 {
		return 0, err
	}
	return n, db.shrink()
}

// shrink gives the space of removed runs back to the file system if it is most of the file. Readers may keep it from
// doing so: then the next removal tries again.
func (db *DB) shrink() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	most, err := db.queryInt("SELECT 2 * freelist_count > page_count FROM pragma_freelist_count, pragma_page_count")
	if most > 0 {
		_ = db.exec("VACUUM")
	}
	return err
}
