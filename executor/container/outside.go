package container

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"gantry/executor"
	"gantry/executor/container/stage"
	"gantry/planner"
)

// listen hears of containers of the run that somebody pauses or unpauses. Any other act of others on a container ends
// its program, and is judged then. The engine sends nothing while nobody does.
func (r *Runtime) listen() {
	defer r.work.Done()
	look := time.NewTicker(r.cfg.Patience / 2)
	defer look.Stop()
	r.work.Go(func() {
		for {
			select {
			case <-look.C:
				r.lookAtPauses()
			case <-r.ctx.Done():
				return
			}
		}
	})
	for r.ctx.Err() == nil {
		r.engine.Pauses(r.ctx, r.name, func(attempt string) {
			id, err := strconv.Atoi(attempt)
			if err != nil {
				r.lookAtPauses() // of which nobody has informed us
				return
			}
			r.mu.Lock()
			a := r.attempts[planner.AttemptID(id)]
			r.mu.Unlock()
			if a != nil {
				a.lookAtPause()
			}
		})
		_ = stage.Sleep(r.ctx, time.Second)
	}
}

// lookAtPauses looks for containers that somebody else has paused, or let continue.
func (r *Runtime) lookAtPauses() {
	r.mu.Lock()
	var live []*attempt
	for _, a := range r.attempts {
		if a.phase == running {
			live = append(live, a)
		}
	}
	r.mu.Unlock()
	if len(live) == 0 {
		return
	}
	all, err := r.engine.List(r.ctx, LabelHostName, r.name)
	if err != nil {
		return
	}
	paused := map[string]bool{}
	for _, c := range all {
		paused[c.ID] = c.Paused
	}
	for _, a := range live {
		r.mu.Lock()
		known := paused[a.id] == (a.paused || !a.held.IsZero())
		r.mu.Unlock()
		if !known {
			a.lookAtPause()
		}
	}
}

// lookAtPause asks whether somebody else has paused the container, or let it continue.
func (a *attempt) lookAtPause() {
	r := a.r
	a.pausing.Lock() // gantry's own pauses are over, or did not begin
	defer a.pausing.Unlock()
	c, err := r.engine.Inspect(r.ctx, a.id)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.phase == running && !a.paused && !a.wantPaused {
		a.hold(c.Paused)
	}
}

// hold notes that somebody else has paused the container, or let it continue. The clock of its time limit stands still
// meanwhile. r.mu is held.
func (a *attempt) hold(paused bool) {
	now := time.Now()
	if paused == !a.held.IsZero() {
		return
	}
	name := fmt.Sprintf(AttemptName, a.r.name, a.l.Attempt)
	say := func(rule, text string) {
		a.say("%s", text)
		if a.r.cfg.Warn != nil { // each time, and not while r.mu is held
			go a.r.cfg.Warn(fmt.Sprintf("%s-a%d", rule, a.l.Attempt), text)
		}
	}
	if paused {
		a.held = now
		if a.limit != nil && a.limit.Stop() {
			a.limitLeft -= now.Sub(a.limitFrom)
		}
		how := fmt.Sprintf(": thaw the control group %s to continue it", a.group)
		if cmd := a.r.host.Command; cmd != "" {
			how = fmt.Sprintf(" (%s pause): %s unpause %s continues it", cmd, cmd, name)
		}
		say("paused", fmt.Sprintf("%s is paused by somebody else%s", a, how))
		return
	}
	a.pausedFor += now.Sub(a.held)
	a.held = time.Time{}
	if a.l.Spec.TimeLimit > 0 {
		a.armLimit()
	}
	say("continued", fmt.Sprintf("%s continues after a pause by somebody else", a))
}

// letGo unpauses a container that somebody else has paused, so that it can end.
func (a *attempt) letGo() {
	a.r.mu.Lock()
	held := !a.held.IsZero()
	a.r.mu.Unlock()
	if held && a.freeze(false) == nil {
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
