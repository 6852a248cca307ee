// Package remap plans an open stream of workflows with deadlines so that few are late: RM-DCWF of Lim, Majumdar and
// Ashwood-Smith, Journal of Cloud Computing 6(1), 2017, with the FIFO scheduler it is compared with.
//
// A workflow (job) is mapped whole when it arrives; if that makes it late, the jobs in its way are mapped again with
// it, in order of their deadlines, then of their normalized laxities. Slots being alike, the plan is when tasks run and
// in which pool of alike nodes (capacity, speed, group), not on which of them: a task is bound to a node, and enters
// the draft, when it starts. A remapping copies the usage that it changes, and comes back to it if it fails.
//
// The usage of a pool is counted in one of two ways (usage.go), and the pool changes from the first to the second with
// the first task that makes it necessary; the tasks that are planned stay as they are.
//
//   - Slots: all tasks have the same need, or needs that fill a node side by side. One profile for each kind of need
//     is exact for a whole pool; a profile for each node would cost as many times more as there are nodes. Only
//     dimensions that can be short count: CPU, and those of which a task needs a larger part than of CPU.
//   - Packed: needs of different sizes. Every stay has a node, and each node has a profile. A new stay goes to the
//     node where it can be first, or last before its sub-deadline; the first of equals.
//
// The paper lets estimates be exact. This package adds its own rules for wrong ones (keeper.go): the plan bends, and a
// job whose deadline gets into danger is remapped. As long as everything ends at its estimated end none of these rules
// applies: a simulation with exact estimates is the paper's algorithm. TSP2 plans up to sub-deadlines, so that any
// delay outside of the estimates makes it late: Config.Margin leaves time before them. Starts of containers are in the
// estimates, but not their variation.
//
// After a restart, when a node changes, and when the first workflow with runtimes by node comes, all tasks that have
// not started are mapped again, job by job in order of deadlines. With runtimes by node, or inputs to copy ahead, each
// node is a pool of its own from then on. Notes in the log have the prediction on arrival, sub-deadlines, each
// remapping with its outcome, the limits that were met, and the planned end of each task that starts.
package remap

import (
	"context"
	"slices"
	"time"

	"gantry/planner"
	"gantry/planner/budget"
)

// Topics of the notes that Policy leaves, beside planner.TopicPredicted and planner.TopicRefused.
const (
	TopicSubDeadline = "sub-deadline" // of a task, once its job was mapped first
	TopicPlanned     = "planned"      // when a task that starts should end by the plan that its job was mapped by last
	TopicRemapped    = "remapped"     // jobs were mapped again and all meet their deadlines
	TopicRemapFailed = "remap-failed" // they would not, and all stayed as it was
	TopicRemapLimit  = "remap-limit"  // an attempt was not made, or made with fewer jobs, because of a limit
)

// Config says which of the algorithms' variants is meant.
type Config struct {
	Distribution budget.Distribution // x of the configuration x-y-z: PD or ED
	TrueLaxity   bool                // y: SET_j on the present load (TL) instead of the empty system (SL)
	// z: tasks as late as their sub-deadlines allow (TSP2) instead of as early as possible (TSP1)
	Latest bool

	// FIFO maps jobs in order of arrival, each task as early as possible, and remaps nothing.
	FIFO bool

	Margin      time.Duration // TSP2 lets tasks end that long before their sub-deadlines
	MaxAttempts int           // remapping attempts for one job, nested ones included; 0: any number
	MaxJobs     int           // jobs of an attempt, those with the least urgent deadlines or laxities; 0: any number

	// Readings of points that the paper leaves open.
	Contained bool // only jobs that execute wholly within [s_j, d_j] are remapped, not all that overlap it
	PastOnly  bool // jobs count as late once their deadline has passed, not when they are planned to miss it
	// after each placement the longest task that is ready comes next, instead of the rest of the sweep first
	Restart bool
}

// Policy plans by a Config. It implements planner.Policy. Of its three layers each knows those below: the keeper
// follows the plan and keeps it true, the mapper has the algorithms of the paper, and the plan says what is where.
type Policy struct{ keeper }

// New returns a policy.
func New(config Config) *Policy { return &Policy{keeper{mapper: mapper{Config: config}}} }

// RejectLate makes the policy refuse jobs that it cannot map to meet their deadlines; see planner.Refuser.
func (p *Policy) RejectLate() { p.reject = true }

// CountSearches implements planner.SearchCounter.
func (p *Policy) CountSearches() { p.counts = true }

// Plan implements planner.Policy.
func (p *Policy) Plan(ctx context.Context, c *planner.Cycle) error {
	p.c = c
	if p.outdated() {
		p.rebuild()
	} else {
		for k := range p.pools {
			p.pools[k].usage.prune(c.Now())
		}
		p.regrow()
		p.hear()
		p.admit(slices.Concat(c.News.Grown, c.News.Arrived))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	p.rescueEndangered()
	if err := p.startDue(); err != nil {
		return err
	}
	p.copyAhead()
	p.explain()
	c.WakeAt(p.wake())
	p.c = nil
	return nil
}

// rebuild plans all jobs again, as after a restart or when a node changed.
func (p *Policy) rebuild() {
	p.makePools()
	p.present, p.spans, p.follow = p.present[:0], p.spans[:0], newFollow(len(p.pools), p.adrift)
	p.sought, p.mappedNow = nil, nil
	clear(p.jobs)
	var unordered []planner.TaskID // by the last round
	for n := range p.c.NodeCount() {
		for seg := range p.c.Draft.Planned(n) {
			unordered = append(unordered, seg.Task)
		}
	}
	for _, t := range unordered {
		p.c.Draft.Release(t)
	}
	p.admit(p.c.Present())
}

// regrow takes jobs out of the plan that have got further tasks: they are mapped again as if they arrived, but for
// running tasks.
func (p *Policy) regrow() {
	for _, w := range p.c.News.Grown {
		if int(w) >= len(p.jobs) || p.jobs[w] == nil {
			continue
		}
		j := p.jobs[w]
		for i := range j.at {
			t := j.task(int32(i))
			at := &j.at[i]
			if at.stage == active && p.c.Phase(t) != planner.Running && p.c.Phase(t) != planner.Starting {
				p.adrift, p.eased = p.adrift || at.end != p.c.Now(), p.eased || at.end > p.c.Now()
			}
			p.vacate(j, int32(i))
			j.at[i] = placement{}
		}
		p.dismiss(j)
	}
}
