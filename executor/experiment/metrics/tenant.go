package metrics

import (
	"time"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
)

// jobUnit is the unit of throughput, so that jobs of different kinds can be added up (3DSF, section 9).
const jobUnit = 100 * time.Millisecond

// SharePoint says that a tenant has a dominant share from an instant on.
type SharePoint struct {
	At    planner.Time
	Share float64
}

// Shares is the dominant share of a tenant over time, ascending by time, a point for each instant at which it changed;
// it is 0 before the first.
type Shares struct {
	Tenant string
	Points []SharePoint
}

// tenancy measures the criteria of 3DSF (section 9): holdings of tenants, service, locality, utilisation in all
// dimensions.
type tenancy struct {
	total   unit.Vector
	held    [unit.Dims]float64
	busy    [unit.Dims]float64 // amount times seconds held until now
	busyAt  [][unit.Dims]float64
	service []time.Duration // by workflow: runtime of its attempts whose work counts
	read    unit.Bytes
	local   unit.Bytes
	first   unit.Bytes  // of local, read by tasks without predecessors
	later   []bool      // by task: it has predecessors; a task that has ended no longer says so
	names   []string    // by tenant
	moved   unit.Vector // at this instant, of one tenant: not in the members below yet
	moving  planner.TenantID
	used    []unit.Vector
	share   []float64
	jobs    []int // by tenant: present
	since   []planner.Time
	meanOf  []float64 // by tenant: share times seconds until since
	points  [][]SharePoint
	sum     float64 // of the shares of tenants that have jobs
	squares float64
	active  int
	fair    float64 // Jain's index times seconds while several tenants have jobs
	fairFor float64 // those seconds
	now     planner.Time
}

func newTenancy(p *planner.Platform) tenancy {
	t := tenancy{}
	for i := range p.Nodes {
		t.total = t.total.Add(p.Nodes[i].Capacity)
	}
	return t
}

// pass lets time pass.
func (t *tenancy) pass(now planner.Time) {
	span := now.Sub(t.now).Seconds()
	t.now = now
	if span <= 0 {
		return
	}
	for d := range t.held {
		t.busy[d] += t.held[d] * span
	}
	if t.active > 1 && t.squares > 0 {
		t.fair += t.sum * t.sum / (float64(t.active) * t.squares) * span
		t.fairFor += span
	}
}

// grow takes in tasks that were admitted.
func (t *tenancy) grow(adm *executor.Admission) {
	for i := range adm.Arrived.Tasks {
		task := &adm.Arrived.Tasks[i]
		t.later = planner.Extend(t.later, int(task.ID)+1)
		t.later[task.ID] = len(task.Parents) > 0
	}
}

func (t *tenancy) arrive(adm *executor.Admission) {
	t.grow(adm)
	m := adm.Arrived.Workflow.Tenant
	for int(m) >= len(t.names) {
		t.names, t.used, t.share = append(t.names, ""), append(t.used, unit.Vector{}), append(t.share, 0)
		t.jobs, t.since, t.meanOf, t.points = append(t.jobs, 0), append(t.since, t.now), append(t.meanOf, 0),
			append(t.points, nil)
	}
	t.names[m] = adm.Submission.Tenant
	t.busyAt = append(t.busyAt, t.busy)
	t.service = append(t.service, 0)
	if t.jobs[m]++; t.jobs[m] == 1 {
		t.active++
		t.sum += t.share[m]
		t.squares += t.share[m] * t.share[m]
	}
}

// left takes in that a workflow of m has ended.
func (t *tenancy) left(m planner.TenantID) {
	t.settle()
	if t.jobs[m]--; t.jobs[m] == 0 {
		t.active--
		t.sum -= t.share[m]
		t.squares -= t.share[m] * t.share[m]
		if t.active == 0 {
			t.sum, t.squares = 0, 0 // no rounding is carried on
		}
	}
}

// changed takes in by how much an event changed the holdings of attempts. The changes of an instant count once settle
// is called: mostly an end is followed by a start, and nothing has changed.
func (t *tenancy) changed(v planner.View, e *planner.Event) {
	for a, change := range v.Changes(e) {
		m := planner.TenantID(0)
		if len(t.names) > 1 {
			m = v.Workflow(v.Task(v.Attempt(a).Task).Workflow).Tenant
		}
		if m != t.moving {
			t.settle()
			t.moving = m
		}
		t.moved = t.moved.Add(*change)
	}
}

// ended takes in the end of an attempt of a task.
func (t *tenancy) ended(task *planner.Task, b *planner.AttemptExited) {
	if b.Outcome == planner.OK || b.Kept > 0 {
		t.service[task.Workflow] += b.Ran
	}
	t.read += b.Usage.InputBytes
	local := b.Usage.InputBytes - b.Usage.CopiedBytes
	t.local += local
	if local != 0 && !t.later[task.ID] {
		t.first += local
	}
}

// settle takes in by how much the holdings of a tenant have changed.
func (t *tenancy) settle() {
	if t.moved == (unit.Vector{}) {
		return
	}
	m := t.moving
	used, share := &t.used[m], 0.0
	*used = used.Add(t.moved)
	for d := range used {
		t.held[d] += float64(t.moved[d])
		if t.total[d] > 0 && t.total[d] != unit.Unlimited {
			share = max(share, float64(used[d])/float64(t.total[d]))
		}
	}
	t.moved = unit.Vector{}
	if t.jobs[m] > 0 {
		t.sum += share - t.share[m]
		t.squares += share*share - t.share[m]*t.share[m]
	}
	t.meanOf[m] += t.share[m] * t.now.Sub(t.since[m]).Seconds()
	t.since[m], t.share[m] = t.now, share
	p := t.points[m]
	if n := len(p); n > 0 && p[n-1].At == t.now {
		p = p[:n-1]
	}
	if n := len(p); n == 0 || p[n-1].Share != share {
		p = append(p, SharePoint{t.now, share})
	}
	t.points[m] = p
}

// Shares returns the dominant share of each tenant over time, by the order of their first workflows; none if there is
// but one tenant.
func (c *Collector) Shares() (out []Shares) {
	for m, points := range c.tenancy.points {
		if len(c.tenancy.names) > 1 {
			out = append(out, Shares{c.tenancy.names[m], points})
		}
	}
	return out
}

// values puts the metrics of tenants: qos_rate, the share of the deadline jobs that ended well and in time; throughput
// in job units of 100 ms per second, by the time in service (the sum of the runtimes of tasks) and by the sojourn;
// locality_rate, bytes read where they lay over all bytes read by tasks from nodes, and locality_rate_splits, the same
// with the reads of tasks with predecessors counted as read elsewhere; completion_time, from the first arrival to the
// end of the last job; utilisation of memory and of disk I/O by holdings; where there are several tenants, Jain's index
// of the dominant shares of those with jobs, averaged over time, and each tenant's mean share.
func (t *tenancy) values(c *Collector, first, last int, span float64, put func(string, float64)) {
	late, due := 0, 0
	var service, sojourn time.Duration
	for i := range c.workflows {
		w := &c.workflows[i]
		if i >= first && i < last && w.Due != unit.Never {
			due++
			if w.Late() || w.Refused {
				late++
			}
		}
		if w.Done() {
			service += t.service[i]
			sojourn += w.Response()
		}
	}
	if due > 0 {
		put("qos_rate", 1-float64(late)/float64(due))
	}
	if len(c.workflows) == 0 {
		return
	}
	run := c.now.Sub(c.workflows[0].Arrived).Seconds()
	put("completion_time", run)
	put("throughput", ratio(float64(service)/float64(jobUnit), run))
	put("throughput_sojourn", ratio(float64(sojourn)/float64(jobUnit), run))
	if t.read > 0 {
		put("locality_rate", float64(t.local)/float64(t.read))
		put("locality_rate_splits", float64(t.first)/float64(t.read))
	}
	from, to := [unit.Dims]float64{}, t.busy
	if first < last {
		from = t.busyAt[first]
		if last < len(t.busyAt) {
			to = t.busyAt[last]
		}
	}
	for _, d := range []unit.Dim{unit.Memory, unit.Disk} {
		if t.total[d] != unit.Unlimited {
			put("utilisation_"+d.String(), ratio(to[d]-from[d], float64(t.total[d])*span))
		}
	}
	if len(t.names) < 2 {
		return
	}
	put("jain", ratio(t.fair, t.fairFor))
	for m, name := range t.names {
		put("share_"+name, ratio(t.meanOf[m]+t.share[m]*t.now.Sub(t.since[m]).Seconds(), run))
	}
}
