package metrics

import (
	"time"

	"gantry/planner"
)

// preempted counts the preemptions of a run, and the work that was lost.
type preempted struct {
	orders [planner.Checkpoint + 1]int      // by way
	kept   map[planner.TaskID]time.Duration // work that checkpoints stand for
	again  int                              // attempts that ended badly, and not by order
	lost   time.Duration                    // of attempts that did not end well, less the work that checkpoints kept
}

// ended takes in the end of an attempt, by the rules of planner.State.
func (p *preempted) ended(att *planner.Attempt, b *planner.AttemptExited) {
	if b.Outcome != planner.OK && b.Outcome != planner.Preempted {
		p.again++
	}
	switch {
	case b.Outcome == planner.OK:
		delete(p.kept, att.Task)
	case b.Outcome.OfProgram():
		p.lost += b.Ran + p.kept[att.Task]
		delete(p.kept, att.Task)
	case b.Kept > att.Done:
		p.kept[att.Task] += b.Ran
	default:
		p.lost += b.Ran
	}
}

func (p *preempted) values(put func(name string, v float64)) {
	freeze, checkpoint, restart := p.orders[planner.Suspend], p.orders[planner.Checkpoint], p.orders[planner.Requeue]
	put("preemptions", float64(freeze+checkpoint+restart))
	put("preemptions_freeze", float64(freeze))
	put("preemptions_checkpoint", float64(checkpoint))
	put("preemptions_restart", float64(restart))
	put("work_lost", p.lost.Seconds())
}
