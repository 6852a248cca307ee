package evidence_test

import (
	"fmt"
	"testing"

	"gantry/executor/container/control"
	"gantry/executor/container/evidence"
	"gantry/planner"
)

// The model is one task, the attempts at it, the engine's containers, the launcher in each, and gantry, which is killed
// up to three times and resumes. Every step of gantry is one effect; a kill falls between any two steps, which is
// before the one and after the other. A request to the engine has its effect at any later time, also when gantry is
// gone, and may be lost with an engine that is restarted. All states that can be reached are visited, with Recover and
// Judge deciding as they do in gantry.

const (
	attempts = 5 // as many as kills and restarts can cost
	kills    = 3
	restarts = 1
)

// program is how far the launcher and its program are.
type program uint8

const (
	idle     program = iota // no process
	entering                // the launcher has not claimed yet
	working
	wrote // the outputs are there
)

// try is the state of one attempt.
type try struct {
	ordered, over bool            // by the log: it began; it has ended
	outcome       planner.Outcome // logged

	control        bool
	creating       bool // a request to create is on its way
	starting       bool
	state          evidence.Container
	program        program
	code           int
	claim          control.Maker
	ended, removed bool // the launcher's account; gantry's, of a removal
	broke          bool // the engine was restarted meanwhile

	note, published bool
	succeeded       bool // the program returned 0
}

// step is the next effect of a gantry that lives.
type step uint8

const (
	dead step = iota
	// of a resumed run
	look
	giveUp
	noteRemoval
	discard
	logLost
	// of an attempt
	order
	makeControl
	askCreate
	awaitCreate
	askStart
	await
	judge
	leaveNote
	publish
	logOK
	// after its end
	remove
	forget
	sweep
	finished
)

type world struct {
	tries    [attempts]try
	at       step
	now      int8 // attempt that gantry works on
	kills    int8
	restarts int8
}

// live is the attempt under way by the log, or -1.
func (w *world) live() int8 {
	for i := range w.tries {
		if w.tries[i].ordered && !w.tries[i].over {
			return int8(i)
		}
	}
	return -1
}

// next is the first attempt that was not ordered.
func (w *world) next() int8 {
	for i := range w.tries {
		if !w.tries[i].ordered {
			return int8(i)
		}
	}
	return attempts
}

// done reports whether the log has the task as ended well.
func (w *world) done() bool {
	for i := range w.tries {
		if w.tries[i].over && w.tries[i].outcome == planner.OK {
			return true
		}
	}
	return false
}

// leftover is an attempt that has ended by the log and of which something is left, or -1.
func (w *world) leftover() int8 {
	for i := range w.tries {
		if t := &w.tries[i]; t.over && (t.state != evidence.Absent || t.control) {
			return int8(i)
		}
	}
	return -1
}

func (w *world) found(i int8) evidence.Found {
	t := &w.tries[i]
	return evidence.Found{Container: t.state, Control: t.control, Claim: t.claim, Over: t.ended}
}

func (w *world) evidence(i int8) evidence.Evidence {
	t := &w.tries[i]
	return evidence.Evidence{Code: t.code, Gone: t.state == evidence.Absent, Claim: t.claim,
		End: control.End{Over: t.ended}, EngineDown: t.broke,
		Removed: t.removed}
}

// gantry makes the next step, if it can.
func (w world) gantry(r rules) (world, bool) {
	t := &w.tries[min(w.now, attempts-1)]
	switch w.at {
	case look:
		if i := w.leftover(); i >= 0 {
			w.now, w.at = i, remove
			return w, true
		}
		if w.now = w.live(); w.now < 0 {
			if w.now, w.at = w.next(), order; w.done() {
				w.at = sweep
			}
			return w, true
		}
		switch r.recover(w.found(w.now)) {
		case evidence.GiveUp:
			w.at = giveUp
		case evidence.Lose:
			w.at = noteRemoval
		case evidence.Adopt:
			w.at = await
		}
	case giveUp:
		if t.claim == control.Nobody {
			t.claim = control.Gantry
		}
		w.at = look
	case noteRemoval:
		if w.at = discard; t.state != evidence.Absent {
			t.removed = true
		}
	case discard:
		t.state, t.program, w.at = evidence.Absent, idle, logLost
	case logLost:
		t.over, t.outcome, w.at = true, planner.Lost, remove
	case order:
		if w.now >= attempts {
			return w, false
		}
		t.ordered, w.at = true, makeControl
	case makeControl:
		t.control, w.at = true, askCreate
	case askCreate:
		t.creating, w.at = true, awaitCreate
	case awaitCreate:
		switch {
		case t.creating:
			return w, false
		case t.state == evidence.Absent: // the engine was restarted: ask again
			w.at = askCreate
		default:
			w.at = askStart
		}
	case askStart:
		t.starting, w.at = true, await
	case await:
		switch {
		case t.starting && t.state == evidence.Created:
			return w, false
		// the request was lost: gantry gives it up
		case t.state == evidence.Created && t.program == idle && t.claim == control.Nobody:
			w.at = giveUp
		case t.program == idle && t.state != evidence.Created || t.ended && t.state == evidence.Absent:
			w.at = judge
		case t.program == idle && t.claim == control.Launcher: // the engine forgot the start
			w.at = noteRemoval
		case t.program == idle && t.claim == control.Gantry:
			w.at = noteRemoval
		default:
			return w, false
		}
	case judge:
		switch v := r.judge(w.evidence(w.now)); v.Outcome {
		case planner.OK:
			w.at = leaveNote
		default:
			t.over, t.outcome, w.at = true, v.Outcome, remove
		}
	case leaveNote:
		t.note, w.at = true, publish
	case publish:
		t.published, w.at = true, logOK
	case logOK:
		t.over, t.outcome, w.at = true, planner.OK, remove
	case remove:
		t.state, t.program, w.at = evidence.Absent, idle, forget
	case forget:
		t.control, t.note, w.at = false, false, look
	case sweep:
		for i := range w.tries {
			if w.tries[i].creating { // gantry asks the engine for a list only when that has done what was asked before
				return w, false
			}
			w.tries[i].state = evidence.Absent
		}
		w.at = finished
	default:
		return w, false
	}
	return w, true
}

// others are the steps of everything else.
func (w world) others() (all []world) {
	for i := range w.tries {
		t := w.tries[i]
		add := func(change func(t *try)) {
			n := w
			change(&n.tries[i])
			all = append(all, n)
		}
		if t.creating {
			add(func(t *try) {
				if t.creating = false; t.control && t.state == evidence.Absent && !t.over {
					t.state = evidence.Created
				} else if t.control || t.over {
					t.state = max(t.state, evidence.Created) // late: its attempt is over
				}
			})
		}
		if t.starting {
			add(func(t *try) {
				// without its control directory it cannot be started
				if t.starting = false; t.state == evidence.Created && t.control {
					t.state, t.program = evidence.Running, entering
				}
			})
		}
		switch t.program {
		case entering:
			add(func(t *try) {
				if t.claim == control.Nobody {
					t.claim, t.program = control.Launcher, working
				} else {
					t.state, t.program, t.code = evidence.Exited, idle, 125
				}
			})
		case working:
			add(func(t *try) { t.program = wrote })
		case wrote:
			add(func(t *try) {
				t.succeeded, t.ended, t.program = true, true, idle
				t.state, t.code = evidence.Exited,
					0
			})
		}
	}
	if w.restarts < restarts { // the engine goes, with all that runs and all that it was asked for
		n := w
		n.restarts++
		for i := range n.tries {
			t := &n.tries[i]
			t.broke = t.ordered && !t.over
			t.creating, t.starting = false, false
			if t.program != idle {
				t.state, t.program, t.code = evidence.Exited, idle, 137
			}
		}
		all = append(all, n)
	}
	return all
}

// wrong says what must never be.
func (w *world) wrong() string {
	succeeded, running, published := 0, 0, 0
	for i := range w.tries {
		t := &w.tries[i]
		if t.succeeded {
			succeeded++
		}
		if t.program >= working {
			running++
		}
		if t.program >= working && !t.ordered {
			return fmt.Sprintf("attempt %d runs, and nobody has ordered it", i)
		}
		if t.published {
			published++
		}
		if t.over && t.outcome != planner.OK && t.outcome != planner.Lost {
			return fmt.Sprintf("attempt %d ended as %v: blamed on the task", i, t.outcome)
		}
		if t.over && t.program >= working {
			return fmt.Sprintf("attempt %d runs after it has ended", i)
		}
		if t.outcome == planner.Lost && t.succeeded {
			return fmt.Sprintf("attempt %d has succeeded and is lost", i)
		}
		if t.outcome == planner.OK && !t.published {
			return fmt.Sprintf("attempt %d is ok without its outputs", i)
		}
	}
	switch {
	case succeeded > 1 || published > 1:
		return fmt.Sprintf("%d programs succeeded, %d outputs were published", succeeded, published)
	case running > 1 || running+succeeded > 1:
		return "a program runs although another one does, or has succeeded"
	}
	if w.at != finished {
		return ""
	}
	for i := range w.tries {
		if t := &w.tries[i]; t.state != evidence.Absent || t.control || t.note || t.program != idle {
			return fmt.Sprintf("attempt %d has left something behind: %+v", i, *t)
		}
	}
	if !w.done() {
		return "the task is lost"
	}
	return ""
}

// rules are how gantry decides; a test breaks them to see that the model finds out.
type rules struct {
	recover func(evidence.Found) evidence.Action
	judge   func(evidence.Evidence) evidence.Verdict
}

func TestEveryReachableStateOfRecovery(t *testing.T) {
	states, why := explore(rules{evidence.Recover, evidence.Evidence.Judge})
	if why != "" {
		t.Fatal(why)
	}
	t.Logf("%d states", states)
	if states < 100_000 {
		t.Errorf("only %d states: the model does not do what it should", states)
	}
}

func TestTheModelFindsWhatIsWrong(t *testing.T) {
	for name, r := range map[string]rules{
		"a container that was not started is removed without a claim": {func(f evidence.Found) evidence.Action {
			if a := evidence.Recover(f); a != evidence.GiveUp {
				return a
			}
			return evidence.Lose
		}, evidence.Evidence.Judge},
		"a claim does not say who made it": {func(f evidence.Found) evidence.Action {
			if f.Claim == control.Gantry {
				f.Claim = control.Launcher
			}
			return evidence.Recover(f)
		}, func(e evidence.Evidence) evidence.Verdict {
			if e.Claim == control.Gantry {
				e.Claim = control.Launcher
			}
			return e.Judge()
		}},
		"what is gone is lost, whatever the launcher noted": {func(f evidence.Found) evidence.Action {
			f.Over = false
			if f.Container == evidence.Exited {
				return evidence.Lose
			}
			return evidence.Recover(f)
		}, evidence.Evidence.Judge},
		"the engine's end of a program is the program's": {evidence.Recover,
			func(e evidence.Evidence) evidence.Verdict {
				e.EngineDown = false
				return e.Judge()
			}},
	} {
		if _, why := explore(r); why == "" {
			t.Errorf("%s: the model finds nothing wrong", name)
		}
	}
}

// explore visits all states that can be reached, and says what is wrong with the first that should not be.
func explore(r rules) (states int, wrong string) {
	start := world{at: look}
	seen := map[world]world{start: start} // by state, the one before
	before := map[world][]world{}
	queue, ends := []world{start}, []world{}
	for len(queue) > 0 {
		w := queue[0]
		queue = queue[1:]
		if why := w.wrong(); why != "" {
			return len(seen), why + "\n" + story(seen, w)
		}
		var all []world
		if w.at != finished {
			all = w.others()
			if w.at == dead {
				n := w
				n.at = look
				all = append(all, n)
			} else {
				if n, ok := w.gantry(r); ok {
					all = append(all, n)
				}
				if w.kills < kills {
					n := w
					n.at, n.now, n.kills = dead, 0, n.kills+1
					all = append(all, n)
				}
			}
		}
		if len(all) == 0 {
			if w.at != finished {
				return len(seen), "stuck\n" + story(seen, w)
			}
			ends = append(ends, w)
		}
		for _, n := range all {
			before[n] = append(before[n], w)
			if _, ok := seen[n]; !ok {
				seen[n] = w
				queue = append(queue, n)
			}
		}
	}
	// From everywhere the run can be brought to its end.
	ok := map[world]bool{}
	for queue = ends; len(queue) > 0; queue = queue[1:] {
		for _, w := range append(before[queue[0]], queue[0]) {
			if !ok[w] {
				ok[w] = true
				queue = append(queue, w)
			}
		}
	}
	for w := range seen {
		if !ok[w] {
			return len(seen), "from here the run cannot end\n" + story(seen, w)
		}
	}
	return len(seen), ""
}

// story is the way to a state.
func story(seen map[world]world, w world) (s string) {
	for range 60 {
		s = fmt.Sprintf("step %d on attempt %d, %d kills, %d restarts: %+v\n%s", w.at, w.now, w.kills, w.restarts,
			w.tries[:2], s)
		if p := seen[w]; p == w {
			break
		} else {
			w = p
		}
	}
	return s
}
