package policy

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"gantry/planner"
	"gantry/planner/alloc"
	"gantry/planner/order"
	"gantry/planner/queueing"
	"gantry/planner/rank"
	"gantry/planner/retain"
	"gantry/planner/share"
	"gantry/planner/unit"
)

// tenancy is a policy for the jobs of several tenants. It learns all holds from events, so that a replay brings them
// back.
type tenancy struct {
	planner.Pipeline[alloc.Tenancy]
	queue *order.Tenants
	suite *suite // nil: none
}

func newTenancy(q *order.Tenants, a *alloc.Tenants, s *suite) *tenancy {
	kept := retain.Drop{Requeue: q, Promised: true}
	return &tenancy{Pipeline: planner.Pipeline[alloc.Tenancy]{Retain: kept, Queue: q, Allocate: a}, queue: q, suite: s}
}

// Plan implements planner.Policy.
func (t *tenancy) Plan(ctx context.Context, c *planner.Cycle) error {
	if t.suite != nil {
		t.queue.Ranks.Update(c)
		for _, w := range c.News.Arrived {
			t.suite.profile(c, c.Workflow(w))
		}
	}
	return t.Pipeline.Plan(ctx, c)
}

// Suspends implements planner.Suspender.
func (t *tenancy) Suspends() {}

// Observe implements planner.Observer.
func (t *tenancy) Observe(v planner.View, e planner.Event) {
	t.queue.Observe(v, e)
	if t.suite != nil {
		t.suite.observe(v, e)
	}
}

// Recaller is a policy that learns from the jobs of earlier runs, too, such as the M/M/n model of 3DSF. Package session
// reads them from the log.
type Recaller interface {
	// Jobs is how many of the latest it learns from; 0: none.
	Jobs() int
	// Recall takes them in, in the order of their arrivals, before the run begins or continues.
	Recall(jobs []queueing.Job)
}

// Jobs implements Recaller.
func (t *tenancy) Jobs() int {
	if t.suite == nil {
		return 0
	}
	return t.suite.rates.Jobs()
}

// Recall implements Recaller.
func (t *tenancy) Recall(jobs []queueing.Job) { t.suite.rates.Recall(jobs) }

const tenantsSource = "Ru, Yang, Grundy, Keung and Li, 3DSF"

// Parameters that several policies of this family share.
var (
	levelParam  = Param{"level", []string{"1", "1..3"}, "Lev: which of a tenant's shares counts, from the largest down"}
	misfitParam = Param{"misfit", []string{"skip", "stop"},
		"what happens when the task of the tenant with the least share does not fit: others are served, or nobody is"}
	orderParam = Param{"order", []string{"emwtf", "edf"},
		"tasks of deadline jobs: earliest maximal waiting time first, or earliest deadline first"}
	lateParam = Param{"late", []string{"behind", "ahead"},
		"deadline jobs that cannot end in time any more (deadline - now is less than the run times along their " +
			"critical path on the " +
			"fastest nodes, without copies): they take turns with regular jobs, or keep their place"}
	roomParam = Param{"room", []string{"suspend", "freeze", "leave", "never"},
		"how regular tasks make room for deadline jobs: frozen where they are, their memory with them (freeze); " +
			"leaving the node with a checkpoint, or by a restart where that is allowed (leave); frozen where that is " +
			"enough, else leaving (suspend); or not at all (never)"}
	recentParam = Param{"recent", []string{"500", "2..1000000"},
		"arrivals and completed jobs, those of earlier runs in the log among them, that the rates of the M/M/n " +
			"model are learned from"}
	largeParam = Param{"large", []string{"64", "0.0..1000000000"},
		"input of a task, in MB, from which on it is put where its data is"}
	hopsParam = Param{"hops", []string{"0", "0..2"},
		"how far from a node its data may lie: 0 on it, 1 in its rack, 2 anywhere"}
	batchParam = Param{"batch", []string{"0", "0..100000"},
		"most tasks that are matched to nodes at once, fewer where less is free; 0: four for each node"}
	heartbeatParam = Param{"heartbeat", []string{"0", "0.001..60"},
		"seconds between two heartbeats of a node, at which it reports its free room and receives tasks; 0: at once"}
	matchParam = Param{"match", []string{"nodes", "bytes"},
		"weights of the matching: how idle the node is, or that times the part of the input that it holds"}
)

// tenants has the policies for jobs of several tenants.
func tenants() []Row {
	return []Row{
		{
			Name: "3dsf", Title: "deadlines, data locality and fair shares for many tenants", Source: tenantsSource +
				", Algorithm 6",
			About: "The adaptive suite: tasks of deadline jobs first, by PDSonQueue, with preemption; the rest by " +
				"the tenant's dominant share (DRF on CPU, memory and disk I/O); tasks with large inputs where their " +
				"data is, by DLAforBT. What was chosen for a job, and why, is noted.",
			Params: []Param{levelParam, misfitParam, orderParam, lateParam, roomParam, recentParam, largeParam,
				hopsParam, batchParam, matchParam, heartbeatParam},
			New: func(p Params) planner.Policy {
				q := urgentQueue(p)
				q.Rule, q.OnMisfit = enhanced(p), misfit(p)
				data := locality(p)
				return newTenancy(q, &alloc.Tenants{Room: room(p), Data: data, Heartbeat: heartbeat(p)},
					&suite{large: data, urgent: q, shares: true, rates: rates(p)})
			},
		},
		{
			Name: "pds", Title: "PDSonQueue: deadlines with preemption", Source: tenantsSource +
				", section 7, Algorithm 5",
			About: "Tasks of deadline jobs by earliest maximal waiting time, then regular ones first come, first " +
				"served, both apart by dominant resource; what a deadline job cannot wait for is taken from regular " +
				"tasks, the newest of low priority first, which continue when there is room again. Expected waits by " +
				"M/M/n are noted.",
			Params: []Param{orderParam, lateParam, roomParam, recentParam},
			New: func(p Params) planner.Policy {
				q := urgentQueue(p)
				return newTenancy(q, &alloc.Tenants{Room: room(p)}, &suite{urgent: q, rates: rates(p)})
			},
		},
		{
			Name: "dla", Title: "DLAforBT: data locality by matching", Source: tenantsSource +
				", section 6, Algorithms 2 to 4",
			About: "Jobs first come, first served; tasks with large inputs are matched to the idlest nodes that " +
				"hold their data, and those left over wait for such a node if it is released before their data " +
				"could be moved.",
			Params: []Param{largeParam, hopsParam, batchParam, matchParam},
			New: func(p Params) planner.Policy {
				return newTenancy(&order.Tenants{Split: true, OnMisfit: share.Skip}, &alloc.Tenants{Data: locality(p)},
					nil)
			},
		},
		{
			Name: "drf", Title: "dominant resource fairness", Source: "Ghodsi et al., NSDI 2011, as enhanced in " +
				tenantsSource + ", section 5, Algorithm 1",
			About: "The tenant with the least dominant share is served next, its jobs first come, first served.",
			Params: []Param{levelParam, misfitParam,
				{"dims", []string{"3", "2"}, "dimensions that count: CPU, memory and disk I/O, or the first two " +
					"(naive DRF)"}},
			New: func(p Params) planner.Policy {
				rule := enhanced(p)
				if p["dims"] == "2" {
					rule.Dims = share.Naive().Dims
				}
				return newTenancy(&order.Tenants{Rule: rule, OnMisfit: misfit(p)}, &alloc.Tenants{}, nil)
			},
		},
		{
			Name: "capacity", Title: "capacity scheduler",
			Source: "Hadoop YARN's Capacity Scheduler, the baseline of " + tenantsSource + ", section 9",
			About: "Queues with capacities: nodes with room ask in turn, and the queue that uses least of its " +
				"capacity is served, its jobs first come, first served, tasks whose data is on the node before " +
				"others of the job. The first task of a queue that does not fit holds back those behind it. No " +
				"preemption. YARN's nodes ask by heartbeats of a second; these ask whenever they have room, unless " +
				"told otherwise.",
			Params: []Param{
				{"queues", []string{"tenant", "class"}, "a queue for each tenant, in the order of their first jobs, " +
					"or for each class: deadline, regular, low"},
				{"shares", []string{"equal", "N/N/…"}, "the capacities of the queues relative to each other, such " +
					"as 50/30/20; queues beyond them have the last one's"},
				{"by", []string{"memory", "dominant"}, "what use is counted in: memory, as YARN does unless told " +
					"otherwise, or the dominant resource"},
				{"elastic", []string{"yes", "no"}, "whether a queue may use what the others leave; if not, its part " +
					"is its share of those of all queues: the three classes and the queues that shares lists count " +
					"from the start, other tenants from their first job on"},
				misfitParam,
				{"data", []string{"looked-at", "ignored"}, "whether a node that asks is given a task of the job " +
					"whose data it has, if there is one"},
				heartbeatParam,
				{"remote", []string{"one", "any"}, "with heartbeats, of tasks whose data a node does not have it is " +
					"given one a heartbeat, as by YARN, or any number"},
			},
			New: func(p Params) planner.Policy {
				rule := share.Rule{Level: 1, Dims: unit.Of(unit.Memory)}
				if p["by"] == "dominant" {
					rule = share.Enhanced(1)
				}
				q := &order.Tenants{Rule: &rule, OnMisfit: misfit(p), Capped: p["elastic"] == "no"}
				if p["queues"] == "class" {
					q.Member = func(w *planner.Workflow) planner.TenantID {
						return [...]planner.TenantID{planner.Deadline: 0, planner.Regular: 1, planner.Low: 2}[w.Class]
					}
					q.Members = 3
				}
				if text := p["shares"]; text != "equal" {
					weights := numbers(text)
					q.Members = max(q.Members, len(weights))
					q.Weight = func(m planner.TenantID) int64 { return weights[min(int(m), len(weights)-1)] }
				}
				beat := heartbeat(p)
				return newTenancy(q, &alloc.Tenants{Turns: true, Heartbeat: beat, One: beat > 0 && p["remote"] == "one",
					Blind: p["data"] == "ignored"}, nil)
			},
		},
	}
}

func urgentQueue(p Params) *order.Tenants {
	q := &order.Tenants{Urgency: order.EMWTF, Late: p["late"] == "ahead", Split: true, OnMisfit: share.Skip,
		Ranks: &rank.Upward{Bound: true}}
	if p["order"] == "edf" {
		q.Urgency = order.EDF
	}
	return q
}

func enhanced(p Params) *share.Rule {
	return new(share.Enhanced(int(p.Number("level"))))
}

func misfit(p Params) share.OnMisfit {
	if p["misfit"] == "stop" {
		return share.Stop
	}
	return share.Skip
}

func room(p Params) alloc.Room {
	return map[string]alloc.Room{"suspend": alloc.Suspend, "freeze": alloc.Freeze, "leave": alloc.Leave,
		"never": alloc.Never}[p["room"]]
}

func rates(p Params) *queueing.Rates { return queueing.NewRates(int(p.Number("recent"))) }

func heartbeat(p Params) time.Duration {
	return time.Duration(p.Number("heartbeat") * float64(time.Second))
}

func locality(p Params) *alloc.Locality {
	return &alloc.Locality{Large: unit.Bytes(p.Number("large") * 1e6), Hops: int(p.Number("hops")),
		Most: int(p.Number("batch")), ByBytes: p["match"] == "bytes"}
}

// numbers reads "50/30/20", which was checked.
func numbers(text string) (out []int64) {
	for _, part := range strings.Split(text, "/") {
		n, err := strconv.ParseInt(part, 10, 64)
		if err != nil {
			panic(fmt.Sprintf("policy parameter %q is no list of numbers: %v", text, err))
		}
		out = append(out, n)
	}
	return out
}

// suite is the adaptive suite of 3DSF (section 8, Algorithm 6): it profiles jobs as they arrive and says which modules
// serve them. With the M/M/n model it warns of deadlines that the queue is not expected to leave time for.
type suite struct {
	large  *alloc.Locality // nil: data is not looked at
	urgent *order.Tenants
	shares bool // regular jobs take turns by shares
	rates  *queueing.Rates

	works map[planner.WorkflowID]time.Duration // of jobs under way: the sum of the runs of their tasks
	need  [unit.Dims]float64                   // sum over all tasks that arrived
	tasks float64
}

func (s *suite) observe(v planner.View, e planner.Event) {
	switch b := e.Body.(type) {
	case *planner.WorkflowArrived:
		s.rates.Arrived(e.At)
		s.needs(b.Tasks)
	case *planner.WorkflowGrown: // it is still one job
		s.needs([]planner.Task{b.Task})
	case *planner.AttemptExited:
		w := v.Task(v.Attempt(b.Attempt).Task).Workflow
		if s.works == nil {
			s.works = map[planner.WorkflowID]time.Duration{}
		}
		s.works[w] += b.Ran
		if left, _ := v.Progress(w); left == 0 {
			s.rates.Served(int64(s.works[w]))
			delete(s.works, w)
		}
	}
}

// needs counts the needs of tasks.
func (s *suite) needs(tasks []planner.Task) {
	for i := range tasks {
		for d, x := range tasks[i].Need {
			s.need[d] += float64(x)
		}
		s.tasks++
	}
}

// servers is how many tasks of the mean need the cluster holds: the n of the model.
func (s *suite) servers(c *planner.Cycle) int {
	servers := -1.0
	for d, x := range c.Total() {
		if mean := s.need[d] / max(1, s.tasks); x != unit.Unlimited && mean > 0 && (servers < 0 ||
			float64(x)/mean < servers) {
			servers = float64(x) / mean
		}
	}
	return max(1, int(servers))
}

// profile notes which modules serve a job and why (topic module), and for deadline jobs the expected wait (topic
// deadline).
func (s *suite) profile(c *planner.Cycle, w *planner.Workflow) {
	if w.Arrived < c.Now() {
		return // it was told before a restart
	}
	if s.large != nil {
		var most unit.Bytes
		for _, t := range w.Tasks {
			most = max(most, alloc.Input(c, c.Task(t)))
		}
		text := "regular: first come, first served"
		if s.shares {
			text = "regular job: DRF"
		}
		if w.Due != unit.Never && w.Class == planner.Deadline {
			text = "deadline job: PDSonQueue"
		}
		mega := func(b unit.Bytes) string { return strconv.FormatFloat(float64(b)/1e6, 'f', -1, 64) + " MB" }
		if most >= s.large.Large && most > 0 {
			text += "; a task reads " + mega(most) + ", at least " + mega(s.large.Large) + ": DLAforBT"
		} else {
			text += "; no task reads " + mega(s.large.Large) + " (at most " + mega(most) + "): no DLAforBT"
		}
		c.Note(planner.Note{Topic: "module", Workflow: w.ID, Task: planner.None, At: unit.Never, Text: text})
	}
	if w.Due == unit.Never || w.Class != planner.Deadline {
		return
	}
	slack := w.Due.Sub(c.Now()) - s.urgent.Ranks.LengthTime(w.ID)
	text := fmt.Sprintf("may wait %v", slack.Round(time.Millisecond))
	if slack < 0 {
		text = fmt.Sprintf("cannot end in time: %v too late by its estimates", (-slack).Round(time.Millisecond))
	}
	if m, ok := s.rates.Model(s.servers(c)); !ok {
		text += "; too little is known yet to expect a wait"
	} else if !m.Stable() {
		text += fmt.Sprintf("; the queue grows: M/M/%d with %.3g jobs/s of %.3g s (utilisation %.2f)", m.Servers,
			m.Arrival, 1/m.Service, m.Utilisation())
	} else {
		text += fmt.Sprintf("; M/M/%d with %.3g jobs/s of %.3g s expects a wait of %.3g s, and to wait longer than "+
			"it may with probability %.2g",
			m.Servers, m.Arrival, 1/m.Service, m.Wait(), m.WaitsLonger(max(0, slack.Seconds())))
	}
	c.Note(planner.Note{Topic: "deadline", Workflow: w.ID, Task: planner.None, At: w.Due, Text: text})
}
