package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/trace/scenario"
)

// State is how a run stands.
type State string

const (
	Running     State = "running"     // or ended by a crash: nobody was left to say so
	Interrupted State = "interrupted" // stopped in good order; gantry resume continues
	Finished    State = "finished"    // every task succeeded
	Failed      State = "failed"      // ended, and tasks failed or were skipped
)

// Host is the machine a run was on. Zero and "" are not known.
type Host struct {
	Name         string     `json:"name,omitempty"`
	System       string     `json:"system,omitempty"` // linux
	Architecture string     `json:"architecture,omitempty"`
	Release      string     `json:"release,omitempty"` // of the kernel
	Cores        int        `json:"cores,omitempty"`
	MHz          int        `json:"mhz,omitempty"`
	Vendor       string     `json:"vendor,omitempty"` // of the CPU
	Model        string     `json:"model,omitempty"`
	Memory       unit.Bytes `json:"memory_bytes,omitempty"`
	Cgroup       string     `json:"cgroup,omitempty"` // v1, hybrid, v2
	Docker       string     `json:"docker,omitempty"` // version of the Engine
}

// RunInfo has the facts of a run that are known when it begins.
type RunInfo struct {
	Name      string
	Runtime   string // such as docker or sim
	Policy    string
	Command   []string // the command line
	Version   string   // of gantry
	Started   time.Time
	Seed      int64
	TimeScale float64
	SizeScale float64
	Cluster   *scenario.Cluster // as the cluster file has it; nil without one
	Platform  planner.Platform
	Host      *Host           // nil where nothing is measured
	Settings  json.RawMessage // further settings that the run needs to continue as it began; nil for none
	Images    []Image         // that its programs run in
}

// Run is the log of one run, open for writing. It is an executor.Store. Append and Finish are called from one
// goroutine; Sample and Warn from any.
type Run struct {
	db   *DB
	id   int64
	info RunInfo
	w    *writer // of a real run
	bulk *bulk   // of a simulation

	samples struct {
		sync.Mutex
		rows []Sample
		err  error
	}
	noted                    // guarded by samples
	onDisk, onDiskKept int64 // the most bytes that files took; guarded by samples
	reserve            *reserve
	stop               chan struct{}
	stopped            sync.WaitGroup
	closing            sync.Once
}

var _ executor.Store = (*Run)(nil)

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

// sampleEvery is how long a sample waits at most until it can be read from the log.
const sampleEvery = time.Second

// CreateRun begins the log of a run and keeps, in the same transaction, its submissions, by arrival: a workflow that
// has not arrived when gantry dies still arrives when the run is resumed. The name of the run must be new.
func (db *DB) CreateRun(ctx context.Context, info RunInfo, subs ...executor.Submission) (*Run, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var id int64
	texts := make([]driver.Value, 5)
	for i, v := range []any{info.Command, info.Cluster, info.Platform, info.Host, info.Settings} {
		text, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("log run %s: %w", info.Name, err)
		}
		if string(text) != "null" {
			texts[i] = string(text)
		}
	}
	if texts[0] == nil {
		texts[0] = "[]"
	}
	blobs, err := encodeSubmissions(subs)
	if err != nil {
		return nil, fmt.Errorf("log run %s: %w", info.Name, err)
	}
	err = db.transact(func() error {
		if n, err := db.queryInt("SELECT count(*) FROM runs WHERE name = ?", info.Name); err != nil {
			return err
		} else if n > 0 {
			return Taken(info.Name)
		}
		var err error
		if id, err = db.queryInt(`INSERT INTO runs(name, runtime, policy, command, version, started_wall,
			started_unix_ns, seed, time_scale, size_scale, cluster, platform, host, settings)
			VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?) RETURNING id`, info.Name, info.Runtime, info.Policy, texts[0],
			info.Version, info.Started.UTC().Format(time.RFC3339Nano), info.Started.UnixNano(), info.Seed,
			info.TimeScale, info.SizeScale, texts[1], texts[2], texts[3], texts[4]); err != nil {
			return err
		}
		for _, n := range info.Platform.Nodes {
			group := ""
			if int(n.Group) < len(info.Platform.Groups) {
				group = info.Platform.Groups[n.Group]
			}
			if err := db.exec("INSERT INTO nodes VALUES (?,?,?,?,?,?,?,?)", id, n.ID, n.Name, group,
				limited(n.Capacity[unit.CPU]), limited(n.Capacity[unit.Memory]), limited(n.Capacity[unit.Disk]),
				n.Speed); err != nil {
				return err
			}
		}
		if err := db.insertImages(id, info.Images); err != nil {
			return err
		}
		return db.insertSubmissions(id, subs, blobs)
	})
	if err != nil {
		return nil, err
	}
	return db.newRun(id, info)
}

// OpenRun opens the log of a run to continue with it, and counts a resumption. Replay gives its events.
func (db *DB) OpenRun(ctx context.Context, name string) (*Run, error) {
	id, info, err := db.runInfo(ctx, name)
	if err != nil {
		return nil, err
	}
	if info.Runtime == "sim" {
		return nil, fmt.Errorf("run %q is a simulation, which cannot be resumed: start it again", name)
	}
	if err = db.change("UPDATE runs SET state = 'running', resumes = resumes + 1, exit_code = NULL, ended_wall = "+
		"NULL, ended_ns = NULL, makespan_ns = NULL, counts = NULL WHERE id = ?", id); err != nil {
		return nil, err
	}
	return db.newRun(id, info)
}

func (db *DB) newRun(id int64, info RunInfo) (r *Run, err error) {
	r = &Run{db: db, id: id, info: info, stop: make(chan struct{})}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.mode == Bulk {
		r.bulk, err = newBulk(db, id)
	} else {
		r.w, err = newWriter(db.conn, id, false)
	}
	if r.w != nil {
		r.w.rows.nodes = info.Platform.Nodes
	}
	if err != nil {
		return nil, db.wrap("write", err)
	}
	db.runs[r] = struct{}{}
	if r.w == nil { // nothing is sampled in a simulation
		return r, nil
	}
	r.reserve = newReserve(db.path)
	r.stopped.Go(func() {
		tick := time.NewTicker(sampleEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				r.flushSamples()
			case <-r.stop:
				return
			}
		}
	})
	return r, nil
}

// runInfo reads the RunInfo that CreateRun wrote.
func (db *DB) runInfo(ctx context.Context, name string) (int64, RunInfo, error) {
	id, found, err := db.find(ctx, name)
	if err != nil {
		return 0, RunInfo{}, err
	}
	info := RunInfo{Name: found}
	var started int64
	if err := db.one(ctx, `SELECT runtime, policy, version, started_unix_ns, seed, time_scale, size_scale, command,
		cluster, platform, host, settings FROM runs WHERE id = ?`, []any{id}, &info.Runtime, &info.Policy,
		&info.Version, &started, &info.Seed, &info.TimeScale, &info.SizeScale, asJSON{&info.Command},
		asJSON{&info.Cluster}, asJSON{&info.Platform}, asJSON{&info.Host}, asJSON{&info.Settings}); err != nil {
		return 0, RunInfo{}, fmt.Errorf("run %s: %w", found, err)
	}
	info.Started = time.Unix(0, started).UTC()
	images, err := db.images(ctx, id)
	if len(images) > 0 {
		info.Images = images
	}
	return id, info, err
}

// Info returns the RunInfo that CreateRun was given.
func (r *Run) Info() RunInfo { return r.info }

// Began says when the run began, where that is later than it was created.
func (r *Run) Began(at time.Time) error {
	return r.db.change("UPDATE runs SET started_wall = ?, started_unix_ns = ? WHERE id = ?",
		at.UTC().Format(time.RFC3339Nano), at.UnixNano(), r.id)
}

// Append makes a batch durable. It does not heed the cancellation of ctx: events are logged even while gantry is being
// stopped. After an error nothing of the batch is in the log, and the same batch may be tried again. In Bulk mode a
// batch is written later, and an error, which may be that of an earlier batch, ends the log.
func (r *Run) Append(_ context.Context, b executor.Batch) error {
	if r.bulk != nil {
		if err := r.bulk.append(b); err != nil {
			return fmt.Errorf("log run %s: %w", r.info.Name, err)
		}
		return nil
	}
	encoded, err := encode(b)
	if err == nil {
		err = r.catchUp(b.Events)
	}
	if err != nil {
		return fmt.Errorf("log run %s: %w", r.info.Name, err)
	}
	samples, noted := r.takeSamples(), r.takeNoted()
	err = r.db.transact(func() error {
		if err := errors.Join(r.w.append(encoded), r.settle(&b), r.notePolicy(&b)); err != nil {
			return err
		}
		if err := errors.Join(r.insertNoted(noted), r.keepContents(&b), r.putOnDisk()); err != nil {
			return err
		}
		return r.w.insertSamples(samples)
	})
	if err != nil {
		r.db.mu.Lock()
		r.w.undone()
		r.db.mu.Unlock()
		r.returnSamples(samples, nil)
		r.returnNoted(noted)
		return fmt.Errorf("log run %s: %w", r.info.Name, err)
	}
	return nil
}

// catchUp brings the projection to the end of the log, unless events follow it: after a batch that failed, or if
// nothing was replayed.
func (r *Run) catchUp(next []planner.Event) error {
	if r.w.seq > 0 || len(next) > 0 && next[0].Seq == 1 {
		return nil
	}
	return r.Replay(context.Background(), func(planner.Event, *executor.Admission) error { return nil })
}

// Identify has the log keep the commands of tasks and, if told, their identities, so that other runs can reuse their
// results. It comes before the first batch.
func (r *Run) Identify(identities bool) { r.w.rows.commands, r.w.rows.identify = true, identities }

// OnDisk takes in how much the files of the run take on disk now; the log keeps the most. It may be called from any
// goroutine.
func (r *Run) OnDisk(bytes int64) {
	r.samples.Lock()
	r.onDisk = max(r.onDisk, bytes)
	r.samples.Unlock()
}

// putOnDisk writes the most that was taken on disk, within a transaction.
func (r *Run) putOnDisk() error {
	r.samples.Lock()
	most := r.onDisk
	r.samples.Unlock()
	if most == r.onDiskKept {
		return nil
	}
	r.onDiskKept = most
	return r.db.exec("UPDATE runs SET peak_disk_bytes = max(coalesce(peak_disk_bytes, 0), ?) WHERE id = ?", most, r.id)
}

// Sample takes a reading; it is in the log within a second. It never waits for the disk.
func (r *Run) Sample(s Sample) {
	r.samples.Lock()
	r.samples.rows = append(r.samples.rows, s)
	r.samples.Unlock()
}

func (r *Run) takeSamples() []Sample {
	r.samples.Lock()
	defer r.samples.Unlock()
	rows := r.samples.rows
	r.samples.rows = nil
	return rows
}

// returnSamples keeps samples that could not be written for the next time, within reason.
func (r *Run) returnSamples(rows []Sample, err error) {
	r.samples.Lock()
	defer r.samples.Unlock()
	r.samples.err = err
	const most = 100_000
	r.samples.rows = append(rows, r.samples.rows...)
	if drop := len(r.samples.rows) - most; drop > 0 {
		r.samples.rows = r.samples.rows[drop:]
	}
}

func (r *Run) flushSamples() error {
	rows, noted := r.takeSamples(), r.takeNoted()
	if len(rows)+len(noted.contents)+len(noted.identities) == 0 || r.w == nil { // nothing is sampled in a simulation
		return nil
	}
	err := r.db.transact(func() error {
		if err := errors.Join(r.insertNoted(noted), r.putOnDisk()); err != nil {
			return err
		}
		return r.w.insertSamples(rows)
	})
	if err != nil {
		r.returnSamples(rows, err)
		r.returnNoted(noted)
	}
	return err
}

// Warned reports whether an earlier run on the same host has a warning.
func (r *Run) Warned(message string) (known bool, err error) {
	err = r.db.one(context.Background(), `SELECT count(*) > 0 FROM warnings w JOIN runs e ON e.id = w.run JOIN runs r ON
		r.id = ?1 WHERE w.run <> ?1 AND w.message = ?2 AND e.host ->> 'name' = r.host ->> 'name'`, []any{r.id, message},
		&known)
	return known, err
}

// Warn logs a warning of the run under a stable rule name; equal ones are counted.
func (r *Run) Warn(rule, message string) error {
	return r.db.change("INSERT INTO warnings(run, rule, message, count) VALUES (?,?,?,1) ON CONFLICT DO UPDATE SET "+
		"count = count + 1", r.id, rule, message)
}

// Finish says how the run stands now that gantry leaves it, with gantry's exit code, and closes it. The makespan is
// from the first arrival to the end of the last attempt. Unless the run was interrupted, tasks that never started are
// marked as skipped.
func (r *Run) Finish(_ context.Context, state State, exit int) error {
	over := state != Interrupted && state != Running
	var written error
	var p *projection
	if r.bulk != nil {
		written, p = r.bulk.end(over), r.bulk.w.projection
	} else {
		written = errors.Join(r.flushSamples(), r.catchUp(nil))
		p = r.w.projection
	}
	finish := func() error {
		return r.db.transact(func() error {
			if r.bulk == nil && over {
				if err := r.w.end(); err != nil {
					return err
				}
			}
			return r.db.exec("UPDATE runs SET state = ?, exit_code = ?, ended_wall = ?, ended_ns = ?, makespan_ns = "+
				"?, counts = (SELECT n.counts FROM run_counts n WHERE n.run = runs.id) WHERE id = ?",
				state, exit, time.Now().UTC().Format(time.RFC3339Nano), known(int64(p.at), p.seq > 0),
				known(int64(p.last-p.first), p.last != unit.Never && p.first != unit.Never), r.id)
		})
	}
	err := finish()
	if IsDisk(err) && r.reserve.release() {
		r.w.undone()
		if err = r.catchUp(nil); err == nil {
			p = r.w.projection
			err = finish()
		}
	}
	return errors.Join(written, err, r.Close())
}

// Close writes buffered rows and lets go of the run, whose state stays as it is.
func (r *Run) Close() error {
	var err error
	r.closing.Do(func() {
		close(r.stop)
		r.stopped.Wait()
		if r.bulk != nil {
			if r.bulk.err == nil {
				err = r.bulk.end(false)
			}
			r.bulk.close()
		} else {
			err = r.flushSamples()
		}
		r.db.mu.Lock()
		defer r.db.mu.Unlock()
		if r.w != nil {
			r.w.rows.close()
			r.reserve.release()
		}
		delete(r.db.runs, r)
	})
	return err
}

// limited is NULL for an unlimited amount.
func limited(v int64) driver.Value {
	if v == unit.Unlimited {
		return nil
	}
	return v
}
