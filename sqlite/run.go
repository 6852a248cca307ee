package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
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
// goroutine; Sample, Warn and the like from any.
type Run struct {
	db   *DB
	id   int64
	info RunInfo
	rows *tables
	*projection
	bulk *bulk // of a simulation: writes what is projected

	mu      sync.Mutex // guards the three that follow
	aside   []func() error
	dropped int      // samples, as aside was full
	most    int64    // bytes that files took on disk
	reserve *os.File // space for its last words; nil of a simulation
	stop    chan struct{}
	stopped sync.WaitGroup
	closing sync.Once
}

var _ executor.Store = (*Run)(nil)

// CreateRun begins the log of a run and keeps, in the same transaction, its submissions, by arrival: a workflow that
// has not arrived when gantry dies still arrives when the run is resumed. The name of the run must be new.
func (db *DB) CreateRun(ctx context.Context, info RunInfo, subs ...executor.Submission) (*Run, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var id int64
	err := db.transact(func() error {
		if n, err := db.queryInt("SELECT count(*) FROM runs WHERE name = ?", info.Name); err != nil {
			return err
		} else if n > 0 {
			return Taken(info.Name)
		}
		var err error
		if id, err = db.queryInt(`INSERT INTO runs(name, runtime, policy, command, version, started_wall,
			started_unix_ns, seed, time_scale, size_scale, cluster, platform, host, settings)
			VALUES (?,?,?,?,?,?,?,?,?,?,nullif(?,'null'),?,nullif(?,'null'),nullif(?,'null')) RETURNING id`,
			info.Name, info.Runtime, info.Policy, asJSON{append([]string{}, info.Command...)}, info.Version,
			wall(info.Started), info.Started.UnixNano(), info.Seed, info.TimeScale, info.SizeScale,
			asJSON{info.Cluster}, asJSON{info.Platform}, asJSON{info.Host}, asJSON{info.Settings}); err != nil {
			return err
		}
		for _, n := range info.Platform.Nodes {
			group := ""
			if int(n.Group) < len(info.Platform.Groups) {
				group = info.Platform.Groups[n.Group]
			}
			if err := db.exec("INSERT INTO nodes VALUES (?1,?2,?3,?4,nullif(?5,?9),nullif(?6,?9),nullif(?7,?9),?8)", id,
				n.ID, n.Name, group, n.Capacity[unit.CPU], n.Capacity[unit.Memory], n.Capacity[unit.Disk], n.Speed,
				unit.Unlimited); err != nil {
				return err
			}
		}
		if err := db.insertImages(id, info.Images); err != nil {
			return err
		}
		return db.insertSubmissions(id, subs)
	})
	if err != nil {
		return nil, err
	}
	return db.newRun(id, info), nil
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
	return db.newRun(id, info), nil
}

func (db *DB) newRun(id int64, info RunInfo) *Run {
	db.mu.Lock()
	defer db.mu.Unlock()
	r := &Run{db: db, id: id, info: info, stop: make(chan struct{}), rows: &tables{conn: db.conn, run: id,
		nodes: info.Platform.Nodes, made: map[string]*statement{}}}
	r.projection = newProjection(r.rows, db.mode == Bulk)
	db.runs[r] = struct{}{}
	if db.mode == Bulk {
		r.bulk = &bulk{db: db, projection: r.projection}
		return r
	}
	r.reserve = newReserve(db.path)
	r.stopped.Go(r.writeAside)
	return r
}

// runInfo reads the RunInfo that CreateRun wrote.
func (db *DB) runInfo(ctx context.Context, name string) (int64, RunInfo, error) {
	id, found, err := db.Find(ctx, name)
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
	images, err := db.ImagesOf(ctx, id)
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
		wall(at), at.UnixNano(), r.id)
}

// Append makes a batch durable. It does not heed the cancellation of ctx: events are logged even while gantry is being
// stopped. After an error nothing of the batch is in the log, and the same batch may be tried again. In Bulk mode a
// batch is written later, and an error, which may be that of an earlier batch, ends the log.
func (r *Run) Append(_ context.Context, b executor.Batch) error {
	if r.bulk != nil {
		if err := r.bulk.gather(b); err != nil {
			return fmt.Errorf("log run %s: %w", r.info.Name, err)
		}
		return nil
	}
	definitions, err := definitionsOf(&b)
	if err == nil {
		err = r.catchUp(b.Events)
	}
	if err != nil {
		return fmt.Errorf("log run %s: %w", r.info.Name, err)
	}
	write := func() error {
		if err := r.append(&b, definitions); err != nil {
			return err
		}
		return r.settle(&b)
	}
	if err := r.with(write, b.Events); err != nil {
		r.undone()
		return fmt.Errorf("log run %s: %w", r.info.Name, err)
	}
	return nil
}

// undone forgets a batch that is not in the log, and all else: the log is read back before the next one.
func (r *Run) undone() {
	r.db.mu.Lock()
	defer r.db.mu.Unlock()
	r.projection = newProjection(r.rows, false)
}

// catchUp brings the projection to the end of the log, unless events follow it: after a batch that failed, or if
// nothing was replayed.
func (r *Run) catchUp(next []planner.Event) error {
	if r.seq > 0 || len(next) > 0 && next[0].Seq == 1 {
		return nil
	}
	return r.Replay(context.Background(), func(planner.Event, *executor.Admission) error { return nil })
}

// Identify has the log keep the commands of tasks and, if told, their identities, so that other runs can reuse their
// results. It comes before the first batch.
func (r *Run) Identify(identities bool) { r.rows.commands, r.rows.identify = true, identities }

// Warned reports whether an earlier run on the same host has a warning.
func (r *Run) Warned(message string) (known bool, err error) {
	err = r.db.one(context.Background(), `SELECT count(*) > 0 FROM warnings w JOIN runs e ON e.id = w.run JOIN runs r ON
		r.id = ?1 WHERE w.run <> ?1 AND w.message = ?2 AND e.host ->> 'name' = r.host ->> 'name'`, []any{r.id, message},
		&known)
	return known, err
}

// Warn logs a warning of the run under a stable rule name; equal ones are counted.
func (r *Run) Warn(rule, message string) error {
	return r.db.transact(func() error { return r.warn(rule, message, 1) })
}

func (r *Run) warn(rule, message string, times int) error {
	return r.db.exec("INSERT INTO warnings(run, rule, message, count) VALUES (?1,?2,?3,?4) ON CONFLICT DO UPDATE SET "+
		"count = count + ?4", r.id, rule, message, times)
}

// Finish says how the run stands now that gantry leaves it, with gantry's exit code, and closes it. The makespan is
// from the first arrival to the end of the last attempt. Unless the run was interrupted, tasks that never started are
// marked as skipped.
func (r *Run) Finish(_ context.Context, state State, exit int) error {
	over := state != Interrupted && state != Running
	var written error
	if r.bulk != nil {
		written = r.bulk.end(over)
	} else {
		written = errors.Join(r.with(nil, nil), r.catchUp(nil))
	}
	finish := func() error {
		return r.db.transact(func() error {
			if r.bulk == nil && over {
				r.over()
				if err := r.write(); err != nil {
					return err
				}
			}
			if err := r.db.exec("DELETE FROM predictions WHERE run = ? AND scope = ?", r.id, ScopeRest); err != nil {
				return err
			}
			p := r.projection
			return r.db.exec("UPDATE runs SET state = ?, exit_code = ?, ended_wall = ?, ended_ns = ?, makespan_ns = "+
				"?, counts = (SELECT n.counts FROM run_counts n WHERE n.run = runs.id) WHERE id = ?",
				state, exit, wall(time.Now()), known(int64(p.at), p.seq > 0),
				known(int64(p.last-p.first), p.last != unit.Never && p.first != unit.Never), r.id)
		})
	}
	err := finish()
	if IsDisk(err) && r.reserve.Close() == nil {
		r.undone()
		if err = r.catchUp(nil); err == nil {
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
			r.bulk.wait()
		} else {
			err = r.with(nil, nil)
		}
		r.db.mu.Lock()
		defer r.db.mu.Unlock()
		r.rows.close()
		r.reserve.Close()
		delete(r.db.runs, r)
	})
	return err
}
