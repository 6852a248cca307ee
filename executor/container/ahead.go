package container

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"gantry/executor"
	"gantry/executor/container/control"
	"gantry/executor/container/fault"
	"gantry/planner/unit"
)

// ahead is the containers that are started before anybody ordered an attempt. Each has a ticket in the place of the
// attempt: the name of its control directory, control group and, until an attempt uses it, container. Its launcher
// waits there. An order binds the container to its attempt by a link to that directory, stages the inputs, and releases
// the launcher. Containers not bound when gantry ends are removed without a trace. Under Runtime.mu.
//
// The engine foresees the starts (planner.Foresee) and gives the list to this executor.Preparer after each turn; starts
// no longer in the list are given up. No policy sees any of it, no event of it is logged, and a simulation does the
// same in virtual time. No ticket ever comes again. The launcher waits, before it claims anything, at a pipe that
// gantry holds open: if the pipe closes without a release, as when gantry is killed, the launcher ends. The file of the
// release appears whole, and has the facts that were unknown before, such as arguments that depend on files.
//
// So a crash finds a container that was bound or was not. One that was not belongs to no attempt, and is removed. One
// that was bound and not released is given up by a claim, and its attempt is lost without blame. From the release on
// the attempt is like all others.
type ahead struct {
	list    map[executor.Likely]*attempt
	lead    executor.Lead
	life    string // of this gantry: no ticket of an earlier one comes again
	tickets int
}

func newAhead() (ahead, error) {
	var life [4]byte
	if _, err := rand.Read(life[:]); err != nil {
		return ahead{}, fmt.Errorf("random numbers: %w", err)
	}
	return ahead{list: map[executor.Likely]*attempt{}, life: hex.EncodeToString(life[:])}, nil
}

// Prepares implements executor.Preparer.
func (r *Runtime) Prepares() executor.Preparing {
	if !r.cfg.Ahead || r.far != nil { // an order to a container that waits would have to cross the network
		return executor.Preparing{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return executor.Preparing{Lead: r.ahead.lead.Before(), Most: r.cfg.Starts, Memory: executor.WaitingMemory}
}

// Prepare implements executor.Preparer.
func (r *Runtime) Prepare(_ context.Context, soon []executor.Preparation) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		return nil
	}
	wanted := make(map[executor.Likely]bool, len(soon))
	for i := range soon {
		wanted[soon[i].Likely()] = true
	}
	r.giveUpAhead(wanted) // first: it may be the same task, for another place
	for i := range soon {
		key := soon[i].Likely()
		if a := r.ahead.list[key]; a != nil {
			if !r.watcher.Over(a.key) {
				continue
			}
			a.abandon() // somebody removed it, or the engine was stopped
		}
		a := r.newPrepared(soon[i].Launch)
		var after []*attempt
		for _, p := range soon[i].After {
			if parent := r.attempts[p]; parent != nil {
				after = append(after, parent)
			}
		}
		r.ahead.list[key] = a
		r.removing++
		r.work.Go(func() { a.getReady(after) })
	}
	return nil
}

// giveUpAhead gives up the containers that are no longer wanted. r.mu is held.
func (r *Runtime) giveUpAhead(wanted map[executor.Likely]bool) {
	for key, a := range r.ahead.list {
		if !wanted[key] {
			delete(r.ahead.list, key)
			a.abandon()
		}
	}
}

// takeAhead returns the attempt that was prepared for a launch; nil if there is none. r.mu is held.
func (r *Runtime) takeAhead(l *executor.Launch) *attempt {
	a := r.ahead.list[l.Likely()]
	delete(r.ahead.list, l.Likely())
	for key, other := range r.ahead.list {
		if key.Task == l.Task { // for another place
			delete(r.ahead.list, key)
			other.abandon()
		}
	}
	return a
}

// newPrepared returns an attempt that nobody has ordered. r.mu is held.
func (r *Runtime) newPrepared(l executor.Launch) *attempt {
	r.ahead.tickets++
	a := newAttempt(r, l)
	a.useTicket("p" + r.ahead.life + "-" + strconv.Itoa(r.ahead.tickets))
	a.key = -int64(r.ahead.tickets)
	a.ordered = make(chan executor.Launch, 1)
	return a
}

// useTicket says that the container is one that was started ahead.
func (a *attempt) useTicket(ticket string) {
	a.ticket = ticket
	a.ctl = control.Dir(filepath.Join(a.r.cfg.Dir, "control", ticket))
	a.parent = a.r.attemptGroup(a.l.Node, ticket)
}

// getReady starts the container once the parents have begun, and continues as the attempt that is ordered, if one is.
func (a *attempt) getReady(after []*attempt) {
	r := a.r
	defer a.abandon()
	failed := a.prepare(after)
	var l executor.Launch
	ordered := true
	select {
	case l = <-a.ordered:
	case <-a.staging.Done():
		r.mu.Lock() // an order and the end of the wish for it exclude each other, a kill may follow an order
		select {
		case l = <-a.ordered:
		default:
			ordered = false
		}
		r.mu.Unlock()
	}
	usable := ordered && failed == nil && !r.watcher.Over(a.key)
	if !usable {
		a.discard()
	}
	r.mu.Lock()
	r.removing--
	r.dump.Broadcast()
	r.mu.Unlock()
	if !ordered {
		return
	}
	r.mu.Lock()
	a.l, a.aways, a.usage.Queued = l, r.aways.Load(), l.Queued
	r.mu.Unlock()
	start := a.release
	if usable {
		r.watcher.Rename(a.key, int64(l.Attempt))
		a.key = int64(l.Attempt)
	} else { // as if it had not been prepared
		a.ticket, a.key, a.ctl = "", int64(l.Attempt), r.controlDir(l.Attempt)
		a.parent = r.attemptGroup(l.Node, attemptName(l.Attempt))
		start = a.start
	}
	if err := start(); err != nil && !a.beganAnyway() {
		a.closePipe()
		a.notStarted(err)
		return
	}
	if e, ok := r.engine.(Renamer); ok && usable {
		r.work.Go(func() { a.rename(e) })
	}
	a.follow()
}

// prepare does the part of a start that needs no order, once the programs of the attempts before it have begun.
func (a *attempt) prepare(after []*attempt) error {
	r := a.r
	for _, before := range after {
		select {
		case <-before.runs:
		case <-a.staging.Done():
			return a.staging.Err()
		}
	}
	from := time.Now()
	if err := a.clear(); err != nil {
		return err
	}
	err := fault.Do("control", func() (err error) {
		if err = a.makeControl(); err == nil {
			a.pipe, err = a.ctl.Await()
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := a.launch(); err != nil {
		return err
	}
	r.mu.Lock()
	r.ahead.lead.Took(time.Since(from))
	r.mu.Unlock()
	return nil
}

// clear makes the work directory, which is also that of an attempt that starts in another way once this one is given
// up.
func (a *attempt) clear() error {
	a.r.clearing.Lock()
	defer a.r.clearing.Unlock()
	if err := a.staging.Err(); err != nil {
		return err
	}
	return fault.Do("ahead", func() error { return a.r.files.Clear(&a.l) })
}

// discard throws away the prepared container and its files.
func (a *attempt) discard() {
	r := a.r
	_ = fault.Do("give-up-ahead", func() error { a.closePipe(); return nil }) // the launcher ends
	r.watcher.Final(a.key)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.throwAway(a.garbage())
	a.id, a.group, a.spec, a.final = "", "", nil, nil
	a.usage.Created = unit.Never
}

func (a *attempt) closePipe() {
	if a.pipe != nil {
		a.pipe.Close()
		a.pipe = nil
	}
}

// release brings the inputs, makes the container that of its attempt and lets its launcher begin.
func (a *attempt) release() error {
	r := a.r
	err := fault.Do("stage", func() error { return a.stage(a.staging) })
	if err == nil {
		err = a.r.call(a.staging, a.expand)
	}
	a.usage.Staged = r.Now()
	a.usage.Created = a.usage.Staged
	if err == nil {
		r.mu.Lock()
		a.link = r.controlDir(a.l.Attempt)
		r.mu.Unlock()
		err = fault.Do("bind", func() error { return a.ctl.Bind(a.link) })
	}
	if err != nil {
		return fmt.Errorf("prepare %s: %w", a, err)
	}
	if err := a.staging.Err(); err != nil {
		return err
	}
	err = fault.Do("release", func() error {
		defer a.closePipe()
		return a.keepFacts()
	})
	if err != nil {
		return fmt.Errorf("release the container of %s: %w", a, err)
	}
	a.usage.Started = r.Now()
	a.running(time.Now(), true)
	return nil
}

// Renamer is an Engine that can give a container another name.
type Renamer interface {
	Rename(ctx context.Context, id, name string) error
}

// renameAfter is how long a program has run before its container gets another name: a rename costs the engine several
// milliseconds of CPU time, and a write to the disk. Looking for a container by name takes a user longer than that.
const renameAfter = 2 * time.Second

// rename gives the container the name that those of attempts have. Nothing of gantry depends on it.
func (a *attempt) rename(e Renamer) {
	wait := time.NewTimer(renameAfter)
	defer wait.Stop()
	select {
	case <-wait.C:
		_ = e.Rename(a.r.ctx, a.id, fmt.Sprintf(AttemptName, a.r.name, a.l.Attempt))
	case <-a.done:
	case <-a.r.ctx.Done():
	}
}

// seal makes sure that a container which was started ahead, and has ended without beginning its program, never does:
// then the attempt is nobody's fault.
func (a *attempt) seal() {
	if a.ticket == "" {
		return
	}
	if by, _, err := a.ctl.Claimed(); err == nil && by == control.Nobody {
		_ = a.ctl.Claim(control.Gantry, time.Now())
	}
}

// wait waits for the end of the container: seen, or else reported by the engine, some 30 ms later.
func (a *attempt) wait(broken bool) (seen bool, code int, err error) {
	r := a.r
	over := make(chan struct{})
	var told struct {
		code int
		err  error
	}
	r.work.Go(func() {
		defer close(over)
		told.code, told.err = r.engine.Wait(r.ctx, a.id)
	})
	ends := r.watcher.Ends(a.key)
	for {
		select {
		case <-over:
			return false, told.code, told.err
		case <-ends:
			if code, seen := a.sawEnd(); seen && !broken {
				r.mu.Lock()
				a.told = over
				r.mu.Unlock()
				return true, code, nil
			}
		}
	}
}

// sawEnd reports whether the program has ended by itself, and gantry saw all of it. Ends by signals, and reports of
// failed emulators, are left to the engine.
func (a *attempt) sawEnd() (code int, seen bool) {
	r := a.r
	if a.adopted || a.doubtful || !r.watcher.Over(a.key) {
		return 0, false
	}
	end, err := a.ctl.End()
	if err != nil || end.Signal != 0 || end.Outside != 0 || end.Again {
		return 0, false
	}
	if code = end.Code; !end.Over { // as on a full disk
		by, _, err := a.ctl.Claimed()
		s, told := r.watcher.Status(a.key)
		if err != nil || by != control.Launcher || !told || !s.Exited() || s.ExitStatus() != 0 {
			return 0, false // other codes may be the launcher's own
		}
		code = 0
	}
	return code, (code == 0 || !a.l.Spec.Emulated()) && a.sawAll()
}
