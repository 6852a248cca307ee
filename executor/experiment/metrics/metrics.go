// Package metrics measures runs from their events: per workflow and over a run, on any runtime, without a log of tasks.
package metrics

import (
	"math"
	"strconv"
	"time"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
)

// Workflow is the course of one workflow. Instants are on the axis of the run; unit.Never marks one that was not
// reached. The terms are those of Ilyushkin and Epema, CCGrid 2018, section II-B.
type Workflow struct {
	ID     planner.WorkflowID
	Name   string // unique in the run
	Label  string
	Tenant string
	Tasks  int
	Failed int // tasks that failed or were skipped
	// Continued says that another workflow stands for it: it counts for nothing.
	Continued bool
	Refused   bool // the policy did not take it, as it would have been late; see planner.Refuser
	Arrived   planner.Time
	Release   planner.Time // earliest start; 0 where that is the arrival
	Started   planner.Time // of the first task's program
	Ended     planner.Time // of the last task
	Due       planner.Time // unit.Never: no deadline
	// Work is the execution time t_e: the sum of the true runtimes of all tasks on a node of speed 1.
	Work time.Duration
	// CriticalPath is c: the longest path by true runtimes on a node of speed 1, without copies.
	CriticalPath time.Duration
	// Lowest is the longest path by the lowest true runtime of each task over the nodes: no schedule is shorter.
	Lowest time.Duration
	// Mapping is the time of the rounds at its arrival, by the clock of the engine, in equal shares if several arrived
	// at once; 0 where rounds are not timed.
	Mapping time.Duration
	// Searched is how many reservations a search resource by resource looks at to map it; see planner.TopicSearched.
	Searched int64
}

// Done reports whether all tasks of the workflow have ended well.
func (w *Workflow) Done() bool { return w.Ended != unit.Never && w.Failed == 0 }

// Wait is the time from the arrival to the start of the first task.
func (w *Workflow) Wait() time.Duration { return w.Started.Sub(w.Arrived) }

// Makespan is the time from the start of the first task to the end of the last one.
func (w *Workflow) Makespan() time.Duration { return w.Ended.Sub(w.Started) }

// Response is the time from the arrival to the end of the last task.
func (w *Workflow) Response() time.Duration { return w.Ended.Sub(w.Arrived) }

// Turnaround is the time from the earliest start to the end of the last task (Lim et al. 2017, section on the
// experimental setup).
func (w *Workflow) Turnaround() time.Duration { return w.Ended.Sub(max(w.Arrived, w.Release)) }

// Late reports whether the workflow ended after its deadline, or not well; one that ends at its deadline is on time,
// one that was refused neither.
func (w *Workflow) Late() bool {
	return w.Due != unit.Never && !w.Refused && (w.Ended > w.Due || w.Failed > 0)
}

// Slowdown is the response over the critical path; NaN if that has no length.
func (w *Workflow) Slowdown() float64 { return over(w.Response(), w.CriticalPath) }

// ScheduleLengthRatio is the response over the lowest possible one (Topcuoglu et al. 2002, equation 11); NaN if that is
// zero.
func (w *Workflow) ScheduleLengthRatio() float64 { return over(w.Response(), w.Lowest) }

// Parallelism is the work over the critical path, an approximation of how many tasks can run at once; NaN if that has
// no length.
func (w *Workflow) Parallelism() float64 { return over(w.Work, w.CriticalPath) }

func over(a, b time.Duration) float64 {
	if b <= 0 {
		return math.NaN()
	}
	return float64(a) / float64(b)
}

// Collector follows a run. Its Watch is an executor.Engine.Watch.
type Collector struct {
	Faulty bool // faults are brought about: the metrics then have how tasks fare under them

	platform  *planner.Platform
	fastest   float64    // speed of a node
	workflows []Workflow // by id
	busyAt    []float64  // by workflow: core-seconds held until it arrived
	steps     Steps
	present   int
	busy      float64 // core-seconds held until now
	now       planner.Time
	backfills int // tasks allocated ahead of others before them in the queue
	events    uint64
	fresh     int           // workflows that arrived at this instant
	planned   time.Duration // time of rounds until now
	plannedAt []time.Duration
	tenancy   tenancy
	preempted preempted
	searched  bool       // searches were counted
	load      *loadStats // nil: not asked for
	paths     [][]paths  // by workflow and admission, of workflows that have not ended
}

// NewCollector returns a collector for a run on p.
func NewCollector(p *planner.Platform) *Collector {
	c := &Collector{platform: p, tenancy: newTenancy(p),
		preempted: preempted{kept: map[planner.TaskID]time.Duration{}}}
	for i := range p.Nodes {
		c.fastest = max(c.fastest, p.Nodes[i].Speed)
	}
	return c
}

// Watch takes in a batch of events.
func (c *Collector) Watch(v planner.View, events []planner.Event, admitted []*executor.Admission) {
	now := v.Now()
	if now > c.now {
		c.fresh = 0
	}
	c.busy += c.tenancy.held[unit.CPU] / 1000 * now.Sub(c.now).Seconds()
	c.now = now
	c.events += uint64(len(events))
	c.tenancy.pass(now)
	for _, adm := range admitted {
		if adm.Grown() {
			c.grow(adm)
			c.tenancy.grow(adm)
			continue
		}
		c.arrive(adm)
		c.tenancy.arrive(adm)
	}
	for i := range events {
		switch b := events[i].Body.(type) {
		case *planner.PlanCommitted:
			c.tenancy.changed(v, &events[i])
			for i := range b.Notes {
				switch b.Notes[i].Topic {
				case "backfilled":
					c.backfills++
				case planner.TopicRefused:
					c.workflows[b.Notes[i].Workflow].Refused = true
				case planner.TopicSearched:
					c.workflows[b.Notes[i].Workflow].Searched, _ = strconv.ParseInt(b.Notes[i].Text, 10, 64)
					c.searched = true
				}
			}
			c.planned += b.Took
			for i := len(c.workflows) - c.fresh; i < len(c.workflows); i++ {
				c.workflows[i].Mapping += b.Took / time.Duration(c.fresh)
			}
			for o := range b.Orders {
				c.preempted.orders[b.Orders[o].Kind.Vacates()]++
			}
		case planner.AttemptSuspended:
			c.tenancy.changed(v, &events[i])
		case *planner.AttemptExited:
			c.tenancy.changed(v, &events[i])
			att := v.Attempt(b.Attempt)
			c.preempted.ended(att, b)
			task := v.Task(att.Task)
			c.tenancy.ended(task, b)
			if !task.Formal {
				c.began(task.Workflow, b.Usage.Started)
			}
			c.end(v, task.Workflow)
		case planner.TaskCancelled:
			c.end(v, v.Task(b.Task).Workflow)
		case planner.WorkflowCancelled:
			c.end(v, b.Workflow)
		case *planner.WorkflowContinued:
			c.workflows[b.Of].Continued = true
		case *planner.TaskReused:
			c.began(v.Task(b.Task).Workflow, events[i].At)
			c.end(v, v.Task(b.Task).Workflow)
		}
	}
	c.tenancy.settle()
}

func (c *Collector) arrive(adm *executor.Admission) {
	a := &adm.Arrived
	w := Workflow{ID: a.Workflow.ID, Name: adm.Spec.Name, Label: adm.Spec.Label, Tenant: adm.Submission.Tenant,
		Tasks: len(a.Tasks), Arrived: a.Workflow.Arrived, Started: unit.Never, Ended: unit.Never, Due: a.Workflow.Due}
	w.Work, w.CriticalPath, w.Lowest = c.lengths(adm)
	if w.Release = a.Workflow.Release; w.Release <= w.Arrived {
		w.Release = 0
	}
	if c.load != nil {
		c.load.arrive(c, adm, &w)
	}
	c.fresh++
	c.workflows = append(c.workflows, w)
	c.plannedAt = append(c.plannedAt, c.planned)
	c.busyAt = append(c.busyAt, c.busy)
	c.present++
	c.steps = c.steps.add(w.Arrived, c.present)
}

// grow takes in tasks that were added to a workflow.
func (c *Collector) grow(adm *executor.Admission) {
	w := &c.workflows[adm.Spec.ID]
	work, critical, lowest := c.lengths(adm)
	w.Tasks, w.Work = w.Tasks+len(adm.Tasks), w.Work+work
	w.CriticalPath, w.Lowest = max(w.CriticalPath, critical), max(w.Lowest, lowest)
}

// lengths computes the sum of the true runtimes of the tasks of an admission, and the two critical paths that end with
// one of them.
func (c *Collector) lengths(adm *executor.Admission) (work, critical, lowest time.Duration) {
	first := planner.TaskID(0)
	if len(adm.Arrived.Tasks) > 0 {
		first = adm.Arrived.Tasks[0].ID
	}
	ends := make([][2]time.Duration, len(adm.Tasks))
	c.paths = planner.Extend(c.paths, int(adm.Spec.ID)+1)
	c.paths[adm.Spec.ID] = append(c.paths[adm.Spec.ID], paths{first, ends})
	for _, id := range adm.Arrived.Workflow.Tasks {
		t, spec := &adm.Arrived.Tasks[id-first], adm.Tasks[id-first]
		run, least := c.runtimes(spec)
		var from [2]time.Duration
		for _, p := range t.Parents {
			e := c.path(adm.Spec.ID, p)
			from[0], from[1] = max(from[0], e[0]), max(from[1], e[1])
		}
		ends[id-first] = [2]time.Duration{from[0] + run, from[1] + least}
		work += run
		critical, lowest = max(critical, from[0]+run), max(lowest, from[1]+least)
	}
	return work, critical, lowest
}

// paths are the lengths of the longest paths up to tasks that were admitted together: at speed 1, and as short as nodes
// let them be.
type paths struct {
	first planner.TaskID
	ends  [][2]time.Duration
}

// path returns those up to a task of a workflow that has not ended.
func (c *Collector) path(w planner.WorkflowID, t planner.TaskID) [2]time.Duration {
	for i := range c.paths[w] {
		p := &c.paths[w][i]
		if t >= p.first && int(t-p.first) < len(p.ends) {
			return p.ends[t-p.first]
		}
	}
	return [2]time.Duration{}
}

// runtimes returns the true runtime of a task at speed 1, and the lowest one over the nodes. With a cost matrix the
// runtime at speed 1 is the mean over the nodes.
func (c *Collector) runtimes(spec *executor.TaskSpec) (run, least time.Duration) {
	if spec.RunOn != nil {
		var sum time.Duration
		least = math.MaxInt64
		for _, d := range spec.RunOn {
			sum += d
			least = min(least, d)
		}
		return sum / time.Duration(len(spec.RunOn)), least
	}
	run = spec.Run
	if c.fastest > 0 && c.fastest != 1 {
		return run, time.Duration(float64(run) / c.fastest)
	}
	return run, run
}

// began takes in when a program of a workflow began, which is before its runtime could tell.
func (c *Collector) began(id planner.WorkflowID, at planner.Time) {
	if w := &c.workflows[id]; at != unit.Never && w.Ended == unit.Never && (w.Started == unit.Never || at < w.Started) {
		w.Started = at
	}
}

// end takes in that a workflow may have ended.
func (c *Collector) end(v planner.View, id planner.WorkflowID) {
	w := &c.workflows[id]
	started, ended := v.Times(id)
	if ended == unit.Never || w.Ended != unit.Never {
		return
	}
	w.Ended = ended
	if int(id) < len(c.paths) {
		c.paths[id] = nil
	}
	if w.Started == unit.Never {
		w.Started = started
	}
	_, w.Failed = v.Progress(id)
	c.present--
	c.tenancy.left(v.Workflow(id).Tenant)
	c.steps = c.steps.add(ended, c.present)
}

// Workflows returns all that have arrived, by arrival. It must not be changed.
func (c *Collector) Workflows() []Workflow { return c.workflows }

// InSystem returns how many workflows were present over time.
func (c *Collector) InSystem() Steps { return c.steps }

// Present returns how many workflows are present now.
func (c *Collector) Present() int { return c.present }

// Events returns how many events there were.
func (c *Collector) Events() uint64 { return c.events }
