package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gantry/planner"
)

// ArchiveDir is the directory of the archive, in that of the log: a log of its own, which every command reads.
const ArchiveDir = "archive"

// Archived counts what an archive took.
type Archived struct{ Workflows, Submissions, Tasks int }

// mostRetired bounds the tasks of a transaction, so that a server that writes to the log waits for milliseconds.
const mostRetired = 1000

// archived is what the log keeps of a submission whose rows were moved.
type archived struct {
	State               string        `json:"state"`
	Tasks, Done, Failed int           `json:",omitempty"`
	Started, Ended      *planner.Time `json:",omitempty"`
	Exit                *int          `json:",omitempty"`
	Attempt             LastAttempt
}

// archived is nil for a submission whose rows are in the log.
func (s *Submitted) archived() *archived {
	if !strings.Contains(s.Options, `"archived"`) {
		return nil
	}
	var o struct {
		Archived *archived `json:"archived"`
	}
	if json.Unmarshal([]byte(s.Options), &o) != nil {
		return nil
	}
	return o.Archived
}

func (a *archived) outcome(s *Submitted) *Outcome {
	o := &Outcome{Submitted: *s, Tasks: a.Tasks, Done: a.Done, Failed: a.Failed, Started: a.Started, Ended: a.Ended,
		Exit: a.Exit, Attempt: a.Attempt}
	o.State = a.State
	return o
}

// Archive moves workflows that were handed in to servers, and ended before an instant, to the log at path, which it
// makes if it is not there. The log keeps of them what a server needs that continues the run: events, definitions, and
// how each submission ended. It may be called while a server writes to the log. Rows are removed only once they are in
// the archive for good, and those that a killed call left in both are removed by the next one.
func (db *DB) Archive(ctx context.Context, path string, before time.Time) (sum Archived, err error) {
	out, err := Open(path, Durable)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, err := out.conn.Exec("ATTACH DATABASE ? AS whole", []driver.Value{dsn(db.path, "mode=ro")}); err != nil {
		return sum, out.wrap("read", err)
	}
	other, err := out.queryInt("SELECT count(*) FROM main.runs m JOIN whole.runs w USING (id) WHERE m.name <> w.name")
	if err != nil {
		return sum, out.wrap("read", err)
	}
	if other > 0 {
		return sum, fmt.Errorf("archive %s is of another log: its runs have other names; move it away", path)
	}
	if err := out.findOld(before); err != nil {
		return sum, out.wrap("read", err)
	}
	type flow struct{ run, workflow, tasks int64 }
	var flows []flow
	if err := out.numbers("SELECT o.run, o.workflow, w.tasks FROM temp.old o JOIN whole.workflows w USING (run, "+
		"workflow) ORDER BY o.run, o.workflow",
		func(v []int64) { flows = append(flows, flow{v[0], v[1], v[2]}) }); err != nil {
		return sum, out.wrap("read", err)
	}
	if len(flows) > 0 {
		if _, err := db.conn.Exec(batchTables, nil); err != nil {
			return sum, db.wrap("write", err)
		}
	}
	for len(flows) > 0 {
		if err := ctx.Err(); err != nil {
			return sum, err
		}
		n, tasks := 0, int64(0)
		for n < len(flows) && flows[n].run == flows[0].run && (n == 0 || tasks+flows[n].tasks <= mostRetired) {
			tasks += flows[n].tasks
			n++
		}
		var list []string
		for _, f := range flows[:n] {
			list = append(list, fmt.Sprint(f.workflow))
		}
		b := batch{run: flows[0].run, workflows: strings.Join(list, ",")}
		if err := b.copy(out); err != nil {
			return sum, err
		}
		moved, err := b.remove(ctx, db)
		if err != nil {
			return sum, err
		}
		sum.Workflows, sum.Tasks, sum.Submissions = sum.Workflows+n, sum.Tasks+int(tasks), sum.Submissions+moved
		flows = flows[n:]
	}
	return sum, out.countRuns()
}

// batchTables have what a batch is about, on each connection.
const batchTables = "CREATE TEMP TABLE b_task(id INTEGER PRIMARY KEY); CREATE TEMP TABLE b_attempt(id INTEGER " +
	"PRIMARY KEY); CREATE TEMP TABLE b_file(id INTEGER PRIMARY KEY); CREATE TEMP TABLE b_note(id INTEGER PRIMARY KEY);"

// findOld lists what is to be archived, by workflow: most tables have no index for that.
func (db *DB) findOld(before time.Time) error {
	_, err := db.conn.Exec(batchTables+"CREATE TEMP TABLE old(run INTEGER, workflow INTEGER, PRIMARY KEY (run, "+
		"workflow)) WITHOUT ROWID", nil)
	if err != nil {
		return err
	}
	if _, err := db.conn.Exec("INSERT INTO temp.old SELECT w.run, w.workflow FROM whole.workflows w JOIN whole.runs r "+
		"ON r.id = w.run WHERE w.run IN (SELECT id FROM whole.runs WHERE json_extract(settings, '$.serve')) AND "+
		"w.state IN ('done', 'failed', 'cancelled', 'refused') AND r.started_unix_ns + w.ended_ns < ? AND EXISTS ("+
		"SELECT 1 FROM whole.task_rows t WHERE t.run = w.run AND t.task = w.first_task)",
		[]driver.Value{before.UnixNano()}); err != nil {
		return err
	}
	for _, x := range []struct{ name, from string }{
		{"task", "whole.task_rows t JOIN temp.old o USING (run, workflow)"},
		{"file", "whole.files t JOIN temp.old o USING (run, workflow)"},
		{"note", "whole.notes t JOIN temp.old o USING (run, workflow)"},
		{"attempt", "whole.attempt_rows t JOIN temp.of_task o ON o.run = t.run AND o.id = t.task"},
	} {
		key, column := "workflow", x.name
		switch x.name {
		case "note":
			column = "seq"
		case "attempt":
			key = "o.workflow"
			if _, err := db.conn.Exec("CREATE INDEX temp.of_task_by_id ON of_task(run, id)", nil); err != nil {
				return err
			}
		}
		if _, err := db.conn.Exec("CREATE TEMP TABLE of_"+x.name+"(run INTEGER, workflow INTEGER, id INTEGER, PRIMARY "+
			"KEY (run, workflow, id)) WITHOUT ROWID; INSERT OR IGNORE INTO temp.of_"+x.name+" SELECT t.run, "+key+
			", t."+column+" FROM "+x.from, nil); err != nil {
			return err
		}
	}
	return nil
}

// countRuns brings up to date what the archive says of runs as a whole.
func (db *DB) countRuns() error {
	return db.transact(func() error {
		_, err := db.conn.Exec("UPDATE main.runs SET counts = NULL; UPDATE main.runs SET counts = "+
			"(SELECT n.counts FROM main.run_counts n WHERE n.run = runs.id)", nil)
		return err
	})
}

// numbers reads rows of numbers on the writer connection.
func (db *DB) numbers(query string, each func([]int64), args ...driver.Value) error {
	var out []int64
	return written(db.conn, func(row []driver.Value) error {
		out = out[:0]
		for _, v := range row {
			n, _ := v.(int64)
			out = append(out, n)
		}
		each(out)
		return nil
	}, query, args...)
}

// batch is some workflows of a run, and the numbers of what they have.
type batch struct {
	run       int64
	workflows string // numbers, joined by commas
	of        map[string][]int64
}

// Tables whose rows are moved, each with the column that says of what they are. Those that others are found by are the
// last.
var retired = []struct{ table, by string }{{"samples", "attempt"}, {"suspensions", "attempt"}, {"wait_rows", "task"},
	{"notes", "note"}, {"reuses", "task"}, {"replicas", "file"}, {"contents", "file"},
	{"workflow_metrics", "workflow"}, {"attempt_rows", "attempt"}, {"files", "file"}, {"task_rows", "task"}}

// where selects the rows of a table.
func (b *batch) where(by string) string {
	switch by {
	case "workflow":
		return " WHERE run = ?1 AND workflow IN (" + b.workflows + ")"
	case "note":
		return " WHERE run = ?1 AND seq IN (SELECT id FROM temp.b_note) AND workflow IN (" + b.workflows + ")"
	}
	return " WHERE run = ?1 AND " + by + " IN (SELECT id FROM temp.b_" + by + ")"
}

// kinds are what a batch is found by.
var kinds = []string{"task", "attempt", "file", "note"}

// copy brings what is not there yet into the archive, for good.
func (b *batch) copy(out *DB) error {
	b.of = map[string][]int64{}
	return out.transact(func() error {
		for _, k := range kinds {
			if err := out.numbers("SELECT id FROM temp.of_"+k+" WHERE run = ?1 AND workflow IN ("+b.workflows+")",
				func(v []int64) { b.of[k] = append(b.of[k], v[0]) }, b.run); err != nil {
				return err
			}
		}
		if err := b.know(out); err != nil {
			return err
		}
		insert := func(table, where string) error {
			columns, err := out.strings("SELECT name FROM pragma_table_info('" + table + "')")
			if err != nil {
				return err
			}
			names := strings.Join(columns, ", ")
			_, err = out.conn.Exec("INSERT OR IGNORE INTO main."+table+"("+names+") SELECT "+names+" FROM whole."+table+
				where, []driver.Value{b.run})
			return err
		}
		if err := insert("runs", " WHERE id = ?1"); err != nil {
			return err
		}
		for _, table := range []string{"nodes", "images", "policies"} {
			if err := insert(table, " WHERE run = ?1"); err != nil {
				return err
			}
		}
		for _, table := range []string{"workflows", "growths", "submitted"} {
			if err := insert(table, b.where("workflow")); err != nil {
				return err
			}
		}
		for _, x := range slices.Backward(retired) {
			if err := insert(x.table, b.where(x.by)); err != nil {
				return err
			}
		}
		// The archive has no events but the clock of the run.
		_, err := out.conn.Exec("INSERT OR IGNORE INTO main.events(run, seq, at_ns, kind, body, v) SELECT run, seq, "+
			"at_ns, ?2, '{}', 1 FROM whole.events WHERE run = ?1 ORDER BY seq DESC LIMIT 1",
			[]driver.Value{b.run, int64(planner.KindPlanCommitted)})
		if err == nil {
			_, err = out.conn.Exec("UPDATE main.runs SET state = 'finished', archived = NULL, "+
				"ended_ns = coalesce(ended_ns, (SELECT max(at_ns) FROM main.events WHERE run = ?1)) WHERE id = ?1",
				[]driver.Value{b.run})
		}
		return err
	})
}

// know gives a connection what the batch is about.
func (b *batch) know(db *DB) error {
	for _, k := range kinds {
		if _, err := db.conn.Exec("DELETE FROM temp.b_"+k, nil); err != nil {
			return err
		}
		for part := range slices.Chunk(b.of[k], 500) {
			text := make([]string, len(part))
			for i, id := range part {
				text[i] = fmt.Sprintf("(%d)", id)
			}
			_, err := db.conn.Exec("INSERT OR IGNORE INTO temp.b_"+k+" VALUES "+strings.Join(text, ","), nil)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// remove takes from the log what is in the archive. It returns how many submissions that were.
func (b *batch) remove(ctx context.Context, db *DB) (moved int, err error) {
	ids, err := columnOf[int64](ctx, db, "SELECT id FROM submitted WHERE run = ?1 AND workflow IN ("+
		b.workflows+")", b.run)
	if err != nil {
		return 0, err
	}
	kept := make([]string, len(ids))
	for i, id := range ids {
		o, err := db.Outcome(ctx, id)
		if err != nil {
			return 0, err
		}
		text, err := json.Marshal(archived{o.State, o.Tasks, o.Done, o.Failed, o.Started, o.Ended, o.Exit, o.Attempt})
		if err != nil {
			return 0, err
		}
		kept[i] = string(text)
	}
	return len(ids), db.transact(func() error {
		for i, id := range ids {
			if _, err := db.conn.Exec("UPDATE submitted SET options = json_set(coalesce(options, '{}'), '$.archived', "+
				"json(?)) WHERE id = ?", []driver.Value{kept[i], id}); err != nil {
				return err
			}
		}
		if err := b.know(db); err != nil {
			return err
		}
		if _, err := db.conn.Exec("UPDATE main.runs SET archived = (SELECT json_group_object(x.state, x.n) FROM ("+
			"SELECT y.state, sum(y.n) AS n FROM (SELECT a.key AS state, a.value AS n FROM json_each(runs.archived) a "+
			"UNION ALL SELECT t.state, 1 FROM main.task_rows t"+b.where("task")+") y GROUP BY y.state) x) "+
			"WHERE id = ?1", []driver.Value{b.run}); err != nil {
			return err
		}
		for _, x := range retired {
			if _, err := db.conn.Exec("DELETE FROM main."+x.table+b.where(x.by),
				[]driver.Value{b.run}); err != nil {
				return err
			}
		}
		return nil
	})
}

// Shrink gives space that is not used back to the file system, if it is most of the file and nobody reads it.
func (db *DB) Shrink() error { return db.shrink() }

// holding returns the log that has the rows of a submission: this one, or its archive, which is to be closed.
func (db *DB) holding(s *Submitted) (path string, err error) {
	if s.archived() == nil {
		return db.path, nil
	}
	path = filepath.Join(filepath.Dir(db.path), ArchiveDir, FileName)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("submission %d is archived: %w; bring the archive back to its place", s.ID, err)
	}
	return path, nil
}
