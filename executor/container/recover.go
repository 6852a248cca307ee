package container

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/containerd/errdefs"

	"gantry/executor"
	"gantry/executor/container/control"
	"gantry/executor/container/evidence"
	"gantry/executor/container/fault"
	"gantry/executor/container/stage"
	"gantry/planner"
	"gantry/planner/unit"
)

// Recover finds the outcomes of attempts of a gantry that ended, see executor.Recoverer. evidence.Recover chooses the
// action for each.
func (r *Runtime) Recover(ctx context.Context, live []executor.Launch) error {
	r.announceNodes()
	if e, ok := r.engine.(Tidier); ok {
		if err := e.Tidy(); err != nil {
			return fmt.Errorf("recover run %s: %w", r.cfg.Run, err)
		}
	}
	var all []Listed
	err := r.call(ctx, func(ctx context.Context) (err error) {
		all, err = r.engine.List(ctx, LabelHostName, r.name)
		return err
	})
	if err != nil {
		return fmt.Errorf("recover run %s: list its containers: %w", r.cfg.Run, err)
	}
	attempts := map[planner.AttemptID]*recovered{}
	for _, l := range live {
		attempts[l.Attempt] = &recovered{attempt: newAttempt(r, l)}
	}
	for _, c := range all {
		var a *recovered
		if id, err := strconv.Atoi(c.Labels[LabelAttempt]); err == nil {
			a = attempts[planner.AttemptID(id)]
		}
		if a != nil {
			a.id, a.listed = c.ID, c
		} else if err := r.discardContainer(ctx, c, ""); err != nil {
			return err
		}
	}
	inUse := map[string]bool{} // the control group of an ended attempt still has its counters
	for _, a := range attempts {
		if a.gone, err = r.decide(a); err != nil {
			return fmt.Errorf("recover run %s: %s: %w", r.cfg.Run, a, err)
		}
		if !a.gone {
			inUse[a.parent] = true
		} else if a.id != "" {
			if err := r.discardContainer(ctx, a.listed, a.ctl); err != nil {
				return err
			}
		}
	}
	r.tidy(inUse, attempts)
	for _, l := range live {
		a := attempts[l.Attempt]
		r.mu.Lock()
		r.attempts[l.Attempt] = a.attempt
		if a.gone {
			a.lost("gantry ended while it was under way, and its program had not begun or its container is gone")
			r.mu.Unlock()
			continue
		}
		a.adopted, a.wantPaused, a.lose = true, l.Suspended, l.Leaving == planner.Requeue
		r.work.Go(a.adopt)
		r.mu.Unlock()
	}
	return nil
}

// recovered is an attempt that was under way when a gantry ended.
type recovered struct {
	*attempt
	listed Listed
	gone   bool // its program has not begun, or its container is gone
}

// decide chooses the action for an attempt: it gives the attempt up, loses it or has it adopted.
func (r *Runtime) decide(a *recovered) (lose bool, err error) {
	for {
		f := evidence.Found{Container: a.listed.Status}
		if f.Claim, _, err = a.ctl.Claimed(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		end, err := a.ctl.End()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		f.Over = end.Over
		_, err = os.Lstat(string(a.ctl))
		f.Control = err == nil
		action := evidence.Recover(f)
		if action != evidence.GiveUp {
			return action == evidence.Lose, nil
		}
		err = fault.Do("give-up", func() error { return a.ctl.Claim(control.Gantry, time.Now()) })
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return false, err
		}
	}
}

// discardContainer has a container of an attempt that is over or lost removed. One whose program may run is gone when
// it returns, before another attempt begins. Nothing waits for the others: an engine that was stopped may take long to
// remove a container, or need a restart before it can. Ctl is that of an attempt which is under way by the log, where
// the removal is noted first; its container goes at the latest when the attempt is forgotten.
func (r *Runtime) discardContainer(ctx context.Context, c Listed, ctl control.Dir) error {
	if ctl != "" {
		err := fault.Do("ask", func() error { return ctl.Ask(0, control.Remove) })
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("recover run %s: container %.12s: %w", r.cfg.Run, c.ID, err)
		}
	}
	if c.Status == evidence.Running {
		limited, cancel := context.WithTimeout(ctx, r.cfg.Patience/4)
		defer cancel()
		err := fault.Do("discard", func() error { return r.engine.Remove(limited, c.ID) })
		if err == nil {
			return nil
		}
		now, e := r.engine.Inspect(ctx, c.ID)
		if !errdefs.IsNotFound(e) && (e != nil || now.running()) {
			return fmt.Errorf("recover run %s: remove container %.12s, which may run: %w", r.cfg.Run, c.ID, err)
		}
	}
	if ctl == "" {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.throwAway(garbage{attempt: planner.None, container: c.ID})
	}
	return nil
}

// tidy removes control groups and control directories that no attempt under way needs.
func (r *Runtime) tidy(inUse map[string]bool, attempts map[planner.AttemptID]*recovered) {
	for i := range r.groups {
		for _, name := range r.tree.Children(r.groups[i]) {
			if group := filepath.Join(r.groups[i], name); !inUse[group] {
				_ = r.removeAttemptGroup(group, true) // groups that stay now go with the run
			}
		}
	}
	keep := map[string]bool{}
	for _, a := range attempts {
		keep[string(a.ctl)] = true
	}
	dirs, _ := filepath.Glob(filepath.Join(r.cfg.Dir, "control", "a*"))
	for _, path := range dirs {
		if !keep[path] {
			_ = stage.RemoveAll(path)
		}
	}
}

// lost ends an attempt of which nothing is left. r.mu is held.
func (a *attempt) lost(message string) {
	a.usage.Ended = max(a.l.Queued, a.r.Now())
	a.usage.Missing = planner.CountersAll
	a.end(&planner.AttemptExited{Attempt: a.l.Attempt, Outcome: planner.Lost, ExitCode: -1, Usage: a.usage,
		Message: message})
}

// errNeverBegan says that the engine never noted the start of a container whose program had claimed the attempt.
var errNeverBegan = errors.New("the engine was stopped while it started the container")

// adopt continues with a container that a former gantry started, or judges the end of one.
func (a *attempt) adopt() {
	r := a.r
	defer a.abandon()
	why, _, err := a.ctl.Asked()
	if err != nil {
		r.warn("control", fmt.Sprintf("%s: %v", a, err))
	}
	a.earlier = planner.Outcome(why)
	a.recallFacts()
	if a.id == "" { // only the launcher's account is left
		a.running(time.Now(), false)
		a.harvest(State{}, evidence.Evidence{Gone: true, EngineDown: r.far != nil})
		return
	}
	a.group = a.groupOf(a.id)
	c, err := a.settled()
	switch {
	case r.ctx.Err() != nil:
		return
	case errors.Is(err, errNeverBegan):
		a.running(time.Now(), false)
		a.harvest(State{}, evidence.Evidence{Gone: true, EngineDown: true})
		return
	case err != nil:
		a.notStarted(fmt.Errorf("adopt %s: %w", a, err))
		return
	}
	a.say("adopted by another gantry, container %s", a.id)
	if err := r.watcher.Watch(int64(a.l.Attempt), a.group, a.wanted()); err != nil && c.running() {
		r.warn("watch", err.Error())
	}
	a.adoptPause(c)
	a.running(c.Started, c.running())
	a.follow()
}

// settled asks the engine about a container until that knows of its start: a program that began is in a container that
// runs or did, unless the engine itself was killed in the middle.
func (a *attempt) settled() (c State, err error) {
	err = a.r.call(a.r.ctx, func(ctx context.Context) (err error) {
		for begun := time.Now(); time.Since(begun) < settleTime; {
			if c, err = a.r.engine.Inspect(ctx, a.id); err != nil || c.Status != evidence.Created {
				return err
			}
			if err := stage.Sleep(ctx, 100*time.Millisecond); err != nil {
				return err
			}
		}
		return errNeverBegan
	})
	return c, err
}

// adoptPause makes a container as frozen as the log has it, silently. Somebody else may have paused it meanwhile.
func (a *attempt) adoptPause(c State) {
	r, now := a.r, time.Now()
	frozen := c.Paused
	if c.running() && frozen != a.l.Suspended && a.freeze(a.l.Suspended) == nil {
		frozen = a.l.Suspended
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	a.frozenFor = a.l.Paused
	if frozen {
		a.paused = true
		a.stopClock(now)
	}
	if frozen && a.l.Suspended {
		a.stopped = now.Add(-r.Now().Sub(a.l.Since))
	}
}

// keepFacts keeps the facts of the attempt for a gantry that adopts it.
func (a *attempt) keepFacts() error {
	u := &a.usage
	return a.ctl.Keep(control.Facts{Read: int64(u.InputBytes), Copied: int64(u.CopiedBytes),
		Moved: int64(u.MovedBytes), Staged: int64(u.Staged)})
}

// recallFacts recalls those of an earlier gantry.
func (a *attempt) recallFacts() {
	if f, err := a.ctl.Facts(); err == nil {
		a.usage.InputBytes, a.usage.CopiedBytes = unit.Bytes(f.Read), unit.Bytes(f.Copied)
		a.usage.MovedBytes, a.usage.Staged = unit.Bytes(f.Moved), planner.Time(f.Staged)
	}
}
