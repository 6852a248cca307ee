package sqlite

import (
	"context"
	"time"
)

// Remove deletes a run, given by its whole name, with everything that the log has of it. Models that were trained on it
// stay. It returns an *UnknownRunError if the log does not have the run.
func (db *DB) Remove(ctx context.Context, run string) error {
	id, err := db.whole(ctx, run)
	if err != nil {
		return err
	}
	if err := db.change("DELETE FROM runs WHERE id = ?", id); err != nil {
		return err
	}
	return db.shrink()
}

// Ended returns the names of the runs that ended before an instant, the oldest first.
func (db *DB) Ended(ctx context.Context, before time.Time) ([]string, error) {
	return RowsOf[string](ctx, db, "SELECT name FROM runs WHERE state IN ('finished', 'failed') AND "+
		"unixepoch(ended_wall) < ? ORDER BY id", before.Unix())
}

// shrink gives the space of removed runs back to the file system if it is most of the file. Readers may keep it from
// doing so: then the next removal tries again.
func (db *DB) shrink() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	pages, err := db.queryInt("PRAGMA page_count")
	if err != nil {
		return err
	}
	free, err := db.queryInt("PRAGMA freelist_count")
	if err != nil {
		return err
	}
	if 2*free > pages {
		_ = db.exec("VACUUM")
	}
	return nil
}

// whole finds a run by its whole name.
func (db *DB) whole(ctx context.Context, run string) (id int64, err error) {
	id, name, err := db.find(ctx, run)
	if err == nil && name != run {
		err = &UnknownRunError{Name: run, Known: []string{name}}
	}
	return id, err
}
