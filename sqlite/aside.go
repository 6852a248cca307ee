package sqlite

import (
	"time"

	"gantry/executor/reuse"
	"gantry/planner"
	"gantry/planner/unit"
)

// Sample is one reading of the counters of a running attempt. Counters in Missing were not readable.
type Sample struct {
	Attempt planner.AttemptID
	At      planner.Time
	CPU     time.Duration // user and system since the start
	Memory  unit.Bytes    // now
	Read    unit.Bytes    // since the start
	Written unit.Bytes
	Missing planner.Counters
}

// mostAside is how much may wait to be written when samples are still taken.
const mostAside = 100_000

// later takes in something beside the events: the next batch brings it to the log, or a second does. Nobody waits for
// the disk.
func (r *Run) later(write func() error) {
	r.mu.Lock()
	r.aside = append(r.aside, write)
	r.mu.Unlock()
}

// Sample takes a reading, unless the log could not be written for long: a warning tells how many are missing.
func (r *Run) Sample(s Sample) {
	r.mu.Lock()
	full := len(r.aside) >= mostAside
	if full {
		r.dropped++
	}
	r.mu.Unlock()
	if !full {
		r.later(func() error { return r.rows.addSample(&s) })
	}
}

// Contents takes in files that came to a node.
func (r *Run) Contents(rows ...reuse.Content) {
	r.later(func() error { return r.insertContents(rows) })
}

// Identity takes in the identity of the results of a task.
func (r *Run) Identity(t planner.TaskID, identity reuse.Sum) {
	r.later(func() error {
		return r.db.exec("UPDATE tasks SET identity = ? WHERE run = ? AND task = ?", identity[:], r.id, t)
	})
}

// OnDisk takes in how much the files of the run take on disk now; the log keeps the most.
func (r *Run) OnDisk(bytes int64) {
	r.mu.Lock()
	more := bytes > r.most
	r.most = max(r.most, bytes)
	r.mu.Unlock()
	if more {
		r.later(func() error {
			return r.db.exec("UPDATE runs SET peak_disk_bytes = max(coalesce(peak_disk_bytes, 0), ?) WHERE id = ?",
				bytes, r.id)
		})
	}
}

// writeAside writes every second, until the run is closed.
func (r *Run) writeAside() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = r.with(nil, nil) // it stays for the next time
		case <-r.stop:
			return
		}
	}
}

// with writes all that was taken in aside, after something else in the same transaction, and follows events. What
// cannot be written stays for the next time.
func (r *Run) with(first func() error, events []planner.Event) error {
	r.mu.Lock()
	aside, dropped := r.aside, r.dropped
	r.aside, r.dropped = nil, 0
	r.mu.Unlock()
	r.db.hashing.Lock()
	idle := first == nil && len(aside)+len(r.db.hashes) == 0
	r.db.hashing.Unlock()
	if idle {
		return nil
	}
	err := r.db.transact(func() (err error) {
		// A statement that fails may have undone the transaction, and a later one would be one of its own.
		if first != nil {
			err = first()
		}
		for i := 0; i < len(aside) && err == nil; i++ {
			err = aside[i]()
		}
		if err == nil && dropped > 0 {
			err = r.warn("samples-dropped", "readings of counters are missing: the log could not be written for long",
				dropped)
		}
		if err == nil {
			err = r.follow(events)
		}
		return err
	})
	if err != nil {
		r.mu.Lock()
		r.aside, r.dropped = append(aside, r.aside...), r.dropped+dropped
		r.mu.Unlock()
	}
	return err
}

func (r *Run) insertContents(rows []reuse.Content) error {
	for i := range rows {
		c := &rows[i]
		if c.Removed {
			if err := r.db.exec("UPDATE contents SET removed = 1 WHERE run = ? AND file = ?", r.id,
				c.File); err != nil {
				return err
			}
			continue
		}
		var sum any
		if c.Sum != nil {
			sum = c.Sum[:]
		}
		if err := r.rows.exec(insertContent, int64(c.File), int64(c.Node), c.Stamp.Size, c.Stamp.Modified,
			c.Stamp.Changed, int64(c.Stamp.Inode), int64(c.Stamp.Device), sum); err != nil {
			return err
		}
	}
	return nil
}

// follow has outputs of tasks that stay in a continued workflow known there, too, once all rows of a batch are written.
func (r *Run) follow(events []planner.Event) (err error) {
	for i := 0; i < len(events) && err == nil; i++ {
		if x, ok := events[i].Body.(*planner.WorkflowContinued); ok {
			err = r.db.exec(`INSERT OR REPLACE INTO contents SELECT c.run, n.file, c.node, c.size_bytes,
				c.mtime_ns, c.ctime_ns, c.inode, c.device, c.sha256, c.removed FROM files o
				JOIN contents c ON c.run = o.run AND c.file = o.file
				JOIN files n ON n.run = o.run AND n.workflow = ?2 AND n.name = o.name
				JOIN reuses u ON u.run = n.run AND u.task = n.producer AND u.from_run IS NOT NULL
				WHERE o.run = ?1 AND o.workflow = ?3`, r.id, x.Workflow, x.Of)
		}
	}
	return err
}
