package container

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/errdefs"

	"gantry/executor"
	"gantry/executor/container/stage"
	"gantry/planner"
)

// clock is the clock of a time limit, which stands still while the container is frozen. Under Runtime.mu.
type clock struct {
	wantPaused bool
	paused     bool      // by gantry
	held       bool      // by somebody else
	stopped    time.Time // since when it stands still; zero if it goes
	frozenFor  time.Duration
	limit      *time.Timer // nil: none
	left       time.Duration
	from       time.Time

	pausing sync.Mutex // held while the engine pauses or unpauses the container
}

// stopClock has it stand still.
func (c *clock) stopClock(now time.Time) {
	if !c.stopped.IsZero() {
		return
	}
	c.stopped = now
	if c.limit != nil {
		c.limit.Stop() // it would go off now, and once more after the pause
		c.left -= now.Sub(c.from)
	}
}

// startClock has it go again.
func (c *clock) startClock(now time.Time) {
	c.frozenFor += now.Sub(c.stopped)
	c.stopped = time.Time{}
	c.arm(now)
}

// arm starts the timer, if there is a limit.
func (c *clock) arm(now time.Time) {
	if c.limit != nil {
		c.from = now
		c.limit.Reset(max(c.left, 0))
	}
}

// suspended is how long the container was frozen.
func (c *clock) suspended() time.Duration {
	if c.stopped.IsZero() {
		return c.frozenFor
	}
	return c.frozenFor + time.Since(c.stopped)
}

// limitTime sets the time limit of a program that runs since an instant. r.mu is held.
func (a *attempt) limitTime(since time.Time) {
	limit := a.l.Spec.TimeLimit
	if limit <= 0 {
		return
	}
	a.left = limit - time.Since(since) + a.suspended()
	if a.l.From != nil {
		a.left -= a.l.From.In
	}
	a.from = time.Now()
	a.limit = time.AfterFunc(max(a.left, 0), func() {
		a.r.mu.Lock()
		defer a.r.mu.Unlock()
		if a.phase == running && a.stopped.IsZero() && !a.r.closing {
			a.r.kill(a, planner.TimedOut, a.r.cfg.Grace)
		}
	})
	if !a.stopped.IsZero() {
		a.limit.Stop()
	}
}

// pause makes the container as frozen as is wanted.
func (a *attempt) pause() {
	defer a.r.work.Done()
	a.applyPause(true)
}

// applyPause freezes or thaws the container until it is as wanted; announce informs the engine's loop.
func (a *attempt) applyPause(announce bool) {
	r := a.r
	a.pausing.Lock()
	defer a.pausing.Unlock()
	for {
		r.mu.Lock()
		want, is, over := a.wantPaused, a.paused, a.phase != running
		r.mu.Unlock()
		if want == is || over || r.ctx.Err() != nil {
			return
		}
		if err := a.freeze(want); err != nil {
			if !errdefs.IsConflict(err) && !errdefs.IsNotFound(err) && r.ctx.Err() == nil {
				r.warn("pause", fmt.Sprintf("suspend or resume %s: %v", a, err))
			}
			return // it has ended, and that is reported, or the host does not freeze it, and it runs on
		}
		r.mu.Lock()
		if a.phase == running {
			a.hold(false) // even if somebody else paused it: from here on it is gantry's
			a.paused = want
			var news planner.Body = planner.AttemptResumed{Attempt: a.l.Attempt}
			if want {
				a.stopClock(time.Now())
				news = planner.AttemptSuspended{Attempt: a.l.Attempt}
			} else {
				a.startClock(time.Now())
			}
			if announce {
				r.emit(news)
			}
		}
		r.mu.Unlock()
	}
}

// freeze pauses or unpauses the container; one that is so already is no error. The freezer of cgroup v1 gives up on
// processes that have used up their CPU quota and cannot come to be frozen: they can a little later.
func (a *attempt) freeze(want bool) error {
	const tries = 40
	for try := 1; ; try++ {
		err := a.r.call(a.r.ctx, func(ctx context.Context) error { return a.r.engine.Freeze(ctx, a.id, want) })
		if try == tries || !errors.Is(err, ErrBusy) {
			return err
		}
		select {
		case <-a.done:
			return err
		case <-a.r.ctx.Done():
			return err
		// at another moment of the quota's period each time
		case <-time.After(time.Duration(23+7*(try%12)) * time.Millisecond):
		}
	}
}

// pauseEvery is how often gantry looks whether somebody else has paused a container.
const pauseEvery = time.Second

// watchPauses looks for containers that somebody else has paused, or let continue. Any other act of others on a
// container ends its program, and is judged then.
func (r *Runtime) watchPauses() {
	for stage.Sleep(r.ctx, pauseEvery) == nil {
		for _, a := range r.live() {
			frozen := r.tree.Frozen(a.group)
			r.mu.Lock()
			known := frozen == (a.paused || a.held)
			r.mu.Unlock()
			if !known {
				a.lookAtPause()
			}
		}
	}
}

// live are the attempts that run.
func (r *Runtime) live() (live []*attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.attempts {
		if a.phase == running {
			live = append(live, a)
		}
	}
	return live
}

// lookAtPause looks once more, beside no pause of gantry's own.
func (a *attempt) lookAtPause() {
	a.pausing.Lock()
	defer a.pausing.Unlock()
	frozen := a.r.tree.Frozen(a.group)
	a.r.mu.Lock()
	defer a.r.mu.Unlock()
	if a.phase == running && !a.paused && !a.wantPaused {
		a.hold(frozen)
	}
}

// hold notes that somebody else has paused the container, or let it continue. r.mu is held.
func (a *attempt) hold(paused bool) {
	if paused == a.held {
		return
	}
	a.held = paused
	rule, text := "continued", fmt.Sprintf("%s continues after a pause by somebody else", a)
	if paused {
		a.stopClock(time.Now())
		how := fmt.Sprintf(": thaw the control group %s to continue it", a.group)
		if cmd := a.r.host.Command; cmd != "" {
			how = fmt.Sprintf(" (%s pause): %s unpause "+AttemptName+" continues it", cmd, cmd, a.r.name, a.l.Attempt)
		}
		rule, text = "paused", fmt.Sprintf("%s is paused by somebody else%s", a, how)
	} else {
		a.startClock(time.Now())
	}
	a.say("%s", text)
	if a.r.cfg.Warn != nil { // each time, and not while r.mu is held
		go a.r.cfg.Warn(fmt.Sprintf("%s-a%d", rule, a.l.Attempt), text)
	}
}

// letGo unpauses a container that somebody else has paused, so that it can end.
func (a *attempt) letGo() {
	a.r.mu.Lock()
	held := a.held
	a.r.mu.Unlock()
	if held && (a.freeze(false) == nil || a.r.tree.Freeze(a.r.ctx, a.group, false) == nil) { // not by the engine
		a.r.mu.Lock()
		a.hold(false)
		a.r.mu.Unlock()
	}
}

// Paused lists the tasks of a run whose containers are paused, by the names of the containers.
func Paused(ctx context.Context, engine Engine, run, dir string) (map[string]string, error) {
	defer engine.Close()
	all, err := engine.List(ctx, LabelHostName, executor.HostName(run, dir))
	if err != nil {
		return nil, fmt.Errorf("list paused containers of run %s: %w", run, err)
	}
	tasks := map[string]string{}
	for _, c := range all {
		if c.Paused {
			tasks[c.Name] = c.Labels[LabelTask]
		}
	}
	return tasks, nil
}
