package sqlite

import (
	"context"
	"time"

	"gantry/executor"
	"gantry/executor/reuse"
	"gantry/planner"
)

// Known returns the known content of a file of the run; ok is false if there is none.
func (r *Run) Known(ctx context.Context, f planner.FileID) (c reuse.Content, ok bool, err error) {
	err = r.db.Each(ctx, func(scan Scan) error {
		ok = true
		return scanContent(scan, &c, &c.Node)
	}, "SELECT node, "+contentColumns+" FROM contents c WHERE run = ? AND file = ?", r.id, f)
	return c, ok, err
}

const contentColumns = "c.file, c.size_bytes, c.mtime_ns, c.ctime_ns, c.inode, c.device, c.sha256, c.removed"

// scanContent reads contentColumns, and some before.
func scanContent(scan Scan, c *reuse.Content, before ...any) error {
	var inode, device int64
	var sum []byte
	err := scan(append(before, &c.File, &c.Stamp.Size, &c.Stamp.Modified, &c.Stamp.Changed, &inode, &device, &sum,
		&c.Removed)...)
	c.Stamp.Inode, c.Stamp.Device = uint64(inode), uint64(device)
	if len(sum) == len(reuse.Sum{}) {
		c.Sum = (*reuse.Sum)(sum)
	}
	return err
}

// Remembered implements reuse.Memory.
func (db *DB) Remembered(ctx context.Context, s reuse.Stamp) (was reuse.Stamp, sum reuse.Sum, hashed time.Time, ok bool,
	err error) {
	db.hashing.Lock()
	h, ok := db.hashes[[2]uint64{s.Device, s.Inode}]
	db.hashing.Unlock()
	if ok {
		return h.Stamp, h.Sum, h.at, true, nil
	}
	row, err := RowOf[struct {
		Size, Modified, Changed, At int64
		Sum                         []byte
	}](ctx, db, "SELECT size_bytes, mtime_ns, ctime_ns, hashed_ns, sha256 FROM hashes WHERE device = ? AND inode = ?",
		int64(s.Device), int64(s.Inode))
	if err != nil || len(row.Sum) != len(sum) {
		return s, sum, hashed, false, err
	}
	s.Size, s.Modified, s.Changed = row.Size, row.Modified, row.Changed
	return s, reuse.Sum(row.Sum), time.Unix(0, row.At), true, nil
}

type hash struct {
	reuse.Stamp
	reuse.Sum
	at time.Time
}

// Remember implements reuse.Memory. The next transaction writes it: nobody waits for the disk, as the file can be
// hashed again.
func (db *DB) Remember(s reuse.Stamp, sum reuse.Sum, hashed time.Time) {
	db.hashing.Lock()
	defer db.hashing.Unlock()
	if db.hashes == nil {
		db.hashes = map[[2]uint64]hash{}
	}
	db.hashes[[2]uint64{s.Device, s.Inode}] = hash{s, sum, hashed}
}

func (db *DB) insertHashes() error {
	if len(db.hashes) == 0 {
		return nil
	}
	ctx := context.Background()
	insert, err := db.conn.PrepareContext(ctx, "INSERT OR REPLACE INTO hashes(device, inode, size_bytes, mtime_ns, "+
		"ctime_ns, sha256, hashed_ns) VALUES (?, ?, ?, ?, ?, ?, ?)")
	if err != nil {
		return err
	}
	defer insert.Close()
	for _, h := range db.hashes {
		if _, err := insert.ExecContext(ctx, int64(h.Device), int64(h.Inode), h.Size, h.Modified, h.Changed, h.Sum[:],
			h.at.UnixNano()); err != nil {
			return err
		}
	}
	return nil
}

// Candidates returns the attempts of all runs that ended well, or took over outputs of one, of tasks of that identity;
// the latest run first. At most most of them.
func (db *DB) Candidates(ctx context.Context, identity []byte, most int) ([]reuse.Candidate, error) {
	return RowsOf[reuse.Candidate](ctx, db, `SELECT r.id, w.workflow, r.name, w.name, x.task, x.attempt, x.ran_ns,
		x.from_run, coalesce(i.id, '') FROM (
		SELECT t.run, t.task, t.workflow, t.image, a.attempt, a.ran_ns, '' AS from_run FROM tasks t
			JOIN attempts a ON a.run = t.run
			AND a.attempt = t.attempt AND a.task = t.task WHERE t.identity = ?1 AND a.outcome = 'ok'
		UNION ALL SELECT t.run, t.task, t.workflow, t.image, u.from_attempt, u.ran_ns, u.from_run FROM tasks t
			JOIN reuses u ON u.run = t.run AND u.task = t.task WHERE t.identity = ?1 AND u.from_run <> '') x
		JOIN runs r ON r.id = x.run JOIN workflows w ON w.run = x.run AND w.workflow = x.workflow
		LEFT JOIN images i ON i.run = x.run AND i.image = x.image ORDER BY x.run DESC, x.attempt DESC LIMIT ?2`,
		identity, most)
}

// ContentsOf returns the known contents of the files of a workflow, by the names of the files, with the name of the
// node on which each lies.
func (db *DB) ContentsOf(ctx context.Context, run int64, workflow int64) (map[string]reuse.Content, error) {
	out := map[string]reuse.Content{}
	return out, db.Each(ctx, func(scan Scan) error {
		var name string
		var c reuse.Content
		err := scanContent(scan, &c, &name, &c.Place)
		out[name] = c
		return err
	}, `SELECT f.name, coalesce(n.name, ''), `+contentColumns+` FROM files f
		JOIN contents c ON c.run = f.run AND c.file = f.file LEFT JOIN nodes n ON n.run = c.run AND n.node = c.node
		WHERE f.run = ? AND f.workflow = ?`, run, workflow)
}

// Forerunner returns the latest task of that name that succeeded in a workflow of that label, as it was admitted then,
// and when its run began; nil if there is none.
func (db *DB) Forerunner(ctx context.Context, label, task string) (run string, began time.Time, spec *executor.TaskSpec,
	err error) {
	was, err := RowOf[struct {
		Run      string
		ID, At   int64
		Workflow int64
		Position int
	}](ctx, db, `SELECT r.name, r.id, r.started_unix_ns, w.workflow, `+positionOfTask+`
		FROM workflows w JOIN runs r ON r.id = w.run JOIN tasks t ON t.run = w.run AND t.workflow = w.workflow
		WHERE w.label = ? AND t.name = ? AND t.identity IS NOT NULL AND t.state IN ('done', 'continued')
		AND (t.attempt IS NOT NULL OR EXISTS (SELECT 1 FROM reuses u WHERE u.run = t.run AND u.task = t.task
		AND u.from_run <> '')) ORDER BY r.id DESC, t.task DESC LIMIT 1`, label, task)
	if err != nil || was.Run == "" {
		return "", began, nil, err
	}
	adm, err := db.admission(ctx, was.ID, was.Workflow)
	if err != nil || was.Position < 0 || was.Position >= len(adm.Tasks) {
		return "", began, nil, err
	}
	return was.Run, time.Unix(0, was.At), adm.Tasks[was.Position], nil
}

// NotReused logs why a task of the run takes over nothing.
func (r *Run) NotReused(t planner.TaskID, at planner.Time, reason string) error {
	return r.db.change("INSERT OR REPLACE INTO reuses(run, task, at_ns, reason) VALUES (?, ?, ?, ?)", r.id, t, at,
		reason)
}

// Hashed keeps the hash of a file of a run.
func (db *DB) Hashed(run int64, f planner.FileID, sum reuse.Sum) error {
	return db.change("UPDATE contents SET sha256 = ? WHERE run = ? AND file = ?", sum[:], run, f)
}
