package container

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/errdefs"

	"gantry/planner"
)

// clock is the clock of a time limit, which stands still while the container is frozen. Under Runtime.mu.
type clock struct {
	wantPaused bool
	paused     bool
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

// wantPause makes the container frozen or not, as soon as its program runs. r.mu is held.
func (a *attempt) wantPause(want bool) {
	if a.wantPaused = want; a.phase == running {
		a.r.work.Go(func() { a.applyPause(true) })
	}
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

// thaw has a container continue that somebody else has paused, so that it can end.
func (a *attempt) thaw() {
	if a.r.tree.Frozen(a.group) && a.freeze(false) != nil { // not by the engine
		_ = a.r.tree.Freeze(a.r.ctx, a.group, false)
	}
}
