package sqlite

import (
	"time"

	"gantry/executor/reuse"
	"gantry/planner"
	"gantry/planner/unit"
)

// aside has all that a run takes in beside its events: the next batch brings it to the log, or a second does. Nobody
// waits for the disk.
type aside struct {
	samples    []Sample
	contents   []reuse.Content
	identities []identified
	onDisk     int64 // the most bytes that files took; 0: no more than is in the log
}

// identified is a task whose identity is to be kept.
type identified struct {
	task     planner.TaskID
	identity reuse.Sum
}

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

// Sample takes a reading.
func (r *Run) Sample(s Sample) {
	r.mu.Lock()
	r.aside.samples = append(r.aside.samples, s)
	r.mu.Unlock()
}

// Contents takes in files that came to a node.
func (r *Run) Contents(rows ...reuse.Content) {
	r.mu.Lock()
	r.aside.contents = append(r.aside.contents, rows...)
	r.mu.Unlock()
}

// Identity takes in the identity of the results of a task.
func (r *Run) Identity(t planner.TaskID, identity reuse.Sum) {
	r.mu.Lock()
	r.aside.identities = append(r.aside.identities, identified{t, identity})
	r.mu.Unlock()
}

// OnDisk takes in how much the files of the run take on disk now; the log keeps the most.
func (r *Run) OnDisk(bytes int64) {
	r.mu.Lock()
	if bytes > r.most {
		r.most, r.aside.onDisk = bytes, bytes
	}
	r.mu.Unlock()
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

// mostSamples bounds the samples that are kept while the log cannot be written.
const mostSamples = 100_000

// with writes all that was taken in aside, after something else in the same transaction, and follows events. Rows that
// cannot be written stay for the next time.
func (r *Run) with(first func() error, events []planner.Event) error {
	r.mu.Lock()
	a := r.aside
	r.aside = aside{}
	r.mu.Unlock()
	if first == nil && len(a.samples)+len(a.contents)+len(a.identities) == 0 && a.onDisk == 0 {
		return nil
	}
	err := r.db.transact(func() error {
		if first != nil {
			if err := first(); err != nil {
				return err
			}
		}
		// A statement that fails may have undone the transaction, and a later one would be one of its own.
		for _, write := range []func() error{
			func() error { return r.insertIdentities(a.identities) },
			func() error { return r.insertContents(a.contents) },
			func() error { return r.follow(events) },
			func() error { return r.insertOnDisk(a.onDisk) },
			func() error { return r.w.insertSamples(a.samples) },
		} {
			if err := write(); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	samples := append(a.samples, r.aside.samples...)
	r.aside = aside{samples[max(0, len(samples)-mostSamples):], append(a.contents, r.aside.contents...),
		append(a.identities, r.aside.identities...), max(a.onDisk, r.aside.onDisk)}
	return err
}

func (r *Run) insertIdentities(rows []identified) error {
	for _, x := range rows {
		if err := r.db.exec("UPDATE tasks SET identity = ? WHERE run = ? AND task = ?", x.identity[:], r.id,
			x.task); err != nil {
			return err
		}
	}
	return nil
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
		if err := r.db.exec("INSERT OR REPLACE INTO contents(run, file, node, size_bytes, mtime_ns, ctime_ns, inode, "+
			"device, sha256) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", r.id, c.File, c.Node, c.Stamp.Size, c.Stamp.Modified,
			c.Stamp.Changed, int64(c.Stamp.Inode), int64(c.Stamp.Device), sum); err != nil {
			return err
		}
	}
	return nil
}

func (r *Run) insertOnDisk(most int64) error {
	if most == 0 {
		return nil
	}
	return r.db.exec("UPDATE runs SET peak_disk_bytes = max(coalesce(peak_disk_bytes, 0), ?) WHERE id = ?", most, r.id)
}

// follow writes the rows that events change beside those of the projection. Outputs of tasks that stay in a continued
// workflow are known there, too.
func (r *Run) follow(events []planner.Event) error {
	for i := range events {
		var err error
		switch x := events[i].Body.(type) {
		case planner.PolicyChanged:
			if err = r.db.exec("INSERT INTO policies(run, seq, at_ns, policy) VALUES (?, ?, ?, ?)", r.id, events[i].Seq,
				events[i].At, x.Policy); err == nil {
				err = r.db.exec("UPDATE runs SET policy = ? WHERE id = ?", x.Policy, r.id)
			}
		case *planner.WorkflowContinued:
			err = r.db.exec(`INSERT OR REPLACE INTO contents SELECT c.run, n.file, c.node, c.size_bytes,
				c.mtime_ns, c.ctime_ns, c.inode, c.device, c.sha256, c.removed FROM files o
				JOIN contents c ON c.run = o.run AND c.file = o.file
				JOIN files n ON n.run = o.run AND n.workflow = ?2 AND n.name = o.name
				JOIN reuses u ON u.run = n.run AND u.task = n.producer AND u.from_run IS NOT NULL
				WHERE o.run = ?1 AND o.workflow = ?3`, r.id, x.Workflow, x.Of)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
