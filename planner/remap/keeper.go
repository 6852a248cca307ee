package remap

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"gantry/planner"
	"gantry/planner/heap"
	"gantry/planner/unit"
)

// keeper carries the plan out, and keeps it true when reality departs from it.
//
// A task whose planned start has come is due. It starts as soon as it is ready and a node of its pool has room; of
// several the one that was mapped to the earlier start goes first. A task that runs longer than estimated, or starts
// late, pushes the tasks that depend on it; the slot it holds is not free for the next task, which waits and pushes in
// turn: the plan bends, and is not made again. As far ahead as pushed tasks now reach, others are pushed at once. When
// that makes a job late which was not, it is remapped as on arrival; if that fails the plan stays as it is. A task that
// ends early leaves room: ready tasks of jobs mapped by TSP1 move up into it where that delays no task planned there.
// TSP2 keeps to its times.
//
// A place that turns out not to exist makes its task wait, in the pool where it then ends first, and overbooks nothing.
// A task whose inputs come later than estimated keeps no other due task of its node waiting.
type keeper struct {
	mapper
	reject bool
	follow
}

// follow is what the keeper knows beyond the plan.
type follow struct {
	// something did not end when it was estimated to: as long as all does, nothing moves up, as in the paper
	adrift     bool
	ready      []heap.Heap[item] // by pool: due tasks that are ready, by claim
	starts     heap.Heap[item]   // jobs, by their first planned start
	slips      heap.Heap[item]   // due tasks, by assumed start
	ends       heap.Heap[item]   // active tasks, by estimated end
	waiting    []start           // ready tasks that have not started
	kept       int               // of waiting, when it was last cleaned
	still      []start           // dummies that are ready
	endangered []*job
	lost       []*job       // late, and remapping them failed
	eased      bool         // something ended before it was estimated to: there is room that was not there
	horizon    planner.Time // the latest end of the tasks pushed in this round
}

// start is a task that is to start.
type start struct {
	j *job
	i int32
}

func byStart(a, b start) int {
	return cmp.Or(cmp.Compare(a.j.at[a.i].start, b.j.at[b.i].start), cmp.Compare(a.j.id, b.j.id), cmp.Compare(a.i, b.i))
}

func newFollow(pools int, adrift bool) follow {
	f := follow{adrift: adrift, starts: items(), slips: items(), ends: items()}
	for range pools {
		f.ready = append(f.ready, items())
	}
	return f
}

// grace is how long after an instant it counts as past: the events of one instant may take several rounds.
const grace = time.Millisecond

// limited is how long a task is taken to wait at least that the limit of its tenant keeps from starting.
const limited = time.Second

// hear takes in the events since the last round.
func (p *keeper) hear() {
	now := p.c.Now()
	p.horizon = 0
	for _, t := range p.c.News.Finished {
		p.ended(t)
	}
	for _, t := range p.c.News.Ended {
		p.ended(t)
	}
	p.repeatAll()
	for _, t := range p.c.News.Ready {
		if j, i := p.of(t); j != nil {
			p.becameReady(j, i)
		}
	}
	for p.ends.Len() > 0 && p.ends.Items[0].at < now {
		if x := p.ends.Pop(); x.j.at[x.i].stage == active && x.j.at[x.i].end == x.at {
			at := x.j.at[x.i]
			at.end = p.c.Draft.ActiveEnd(x.j.task(x.i))
			p.adrift = true
			p.put(x.j, x.i, at)
			p.ends.Push(item{at.end, x.j, x.i})
			p.push(x.j, x.i)
		}
	}
	for p.slips.Len() > 0 && p.slips.Items[0].at < now {
		if x := p.slips.Pop(); x.j.at[x.i].stage == due && x.j.at[x.i].start == x.at {
			p.slip(x.j, x.i)
		}
	}
	p.relieve()
}

// relieve pushes tasks that cannot start when they are planned to, because others that go first hold their slots then.
func (p *keeper) relieve() {
	if p.horizon <= p.c.Now() {
		return
	}
	p.nextStart()
	var list []start
	for _, j := range p.present {
		if j.nextAt >= p.horizon {
			continue
		}
		for i := range j.at {
			if at := &j.at[i]; at.stage == planned && at.start < p.horizon && at.pool != nowhere {
				list = append(list, start{j, int32(i)})
			}
		}
	}
	slices.SortFunc(list, byStart)
	for _, s := range list {
		at := s.j.at[s.i]
		need, usage := &s.j.needs[s.i], p.pools[at.pool].usage
		if !s.j.occupies(s.i) || !usage.overdrawn(at.start, need, at.node) {
			continue
		}
		p.put(s.j, s.i, placement{})
		if begin, node, fits := usage.sometime(need, at.end.Sub(at.start), at.start); fits {
			at.start, at.end, at.node = begin, begin.Add(at.end.Sub(at.start)), node
		}
		p.put(s.j, s.i, at)
		p.push(s.j, s.i)
	}
}

// ended takes a task out that ended, in any way.
func (p *keeper) ended(t planner.TaskID) {
	j, i := p.of(t)
	if j == nil || j.at[i].stage == over {
		return
	}
	at, now := j.at[i], p.c.Now()
	held := !j.dummy(i) && at.pool != nowhere && at.end > now // room that is free from now on
	if at.stage == active {
		p.adrift = p.adrift || at.end != now
	} else { // skipped, cancelled, or a dummy that no policy starts
		j.open--
	}
	j.stale = j.stale || at.stage != active || at.end > now
	p.eased = p.eased || held
	late := at.end < now
	p.put(j, i, placement{stage: over, pool: at.pool, start: min(at.start, now), end: now})
	if late {
		p.push(j, i)
	}
	if j.fetches {
		for _, child := range j.tasks[i].Children {
			p.seek(j, j.index(child))
		}
	}
	if j.left--; j.left == 0 {
		p.dismiss(j)
	}
}

// repeatAll gives the tasks whose attempts ended badly other places, by id: in which order ends of one instant are
// reported decides nothing.
func (p *keeper) repeatAll() {
	var list []start
	for _, t := range p.c.News.Ready {
		if j, i := p.of(t); j != nil && j.at[i].stage == active {
			list = append(list, start{j, i})
		}
	}
	slices.SortFunc(list, func(a, b start) int { return cmp.Or(cmp.Compare(a.j.id, b.j.id), cmp.Compare(a.i, b.i)) })
	for _, s := range list {
		p.repeat(s.j, s.i)
	}
}

// repeat gives a task whose attempt ended badly another place.
func (p *keeper) repeat(j *job, i int32) {
	p.adrift, p.latest = true, false
	p.put(j, i, placement{})
	j.open++
	j.fixed = -1 // as many may have started as when the order was made, but not the same
	p.estimateTask(j, i)
	p.put(j, i, p.place(j, i, p.earliestStart(j, i)))
	p.seek(j, i)
	p.push(j, i)
}

// becameReady says that a task may start.
func (p *keeper) becameReady(j *job, i int32) {
	if j.dummy(i) {
		p.still = append(p.still, start{j, i})
		return
	}
	p.waiting = append(p.waiting, start{j, i})
	if j.at[i].stage == due {
		p.claim(j, i)
	}
}

// claim lets a due task that is ready wait for room.
func (p *follow) claim(j *job, i int32) {
	if at := &j.at[i]; at.pool != nowhere {
		p.ready[at.pool].Push(item{at.claim, j, i})
	}
}

// push makes the tasks that depend on a task start no earlier than its end or, where copies overlap other work, than
// its outputs are there.
func (p *keeper) push(j *job, i int32) {
	end := j.at[i].end
	if end < unit.Never {
		p.horizon = max(p.horizon, end)
	}
	for _, child := range j.tasks[i].Children {
		k := j.index(child)
		at := j.at[k]
		if at.stage != planned && at.stage != due || at.start == unit.Never {
			continue
		}
		from := end
		if j.fetches && end < unit.Never && at.pool != nowhere {
			from, _ = p.site(j, k, int(at.pool), j.at, end)
		}
		if at.start >= from {
			continue
		}
		at.start, at.end = from, from.Add(at.end.Sub(at.start))
		p.put(j, k, at)
		if at.stage == due {
			p.slips.Push(item{at.start, j, k})
		}
		p.push(j, k)
	}
	if end > j.end {
		fresh := j.end <= j.due
		j.end = end
		p.span(j)
		if end > j.due && (fresh || !j.lost) {
			p.endanger(j)
		}
	}
}

// endanger lists a job to be remapped.
func (p *keeper) endanger(j *job) {
	if !j.listed && !p.FIFO {
		j.listed = true
		p.endangered = append(p.endangered, j)
	}
}

// slip moves the assumed start of a task that should have started to when there will be room for it, if only for an
// instant: then it has the first claim, and tasks planned to start there slip in turn.
func (p *keeper) slip(j *job, i int32) {
	at := j.at[i]
	p.adrift = true
	p.put(j, i, placement{})
	wait := grace
	if p.c.Draft.Limited(j.task(i)) { // nobody knows until when: as long again, so that others find room before it
		wait = max(limited, p.c.Now().Sub(at.claim))
	} else if p.overdue(j, i) { // nor when its inputs come
		wait = max(grace, p.c.Now().Sub(at.claim))
	}
	est := max(p.earliestStart(j, i), p.c.Now().Add(wait))
	best := placement{end: unit.Never, pool: nowhere}
	for k := range p.pools {
		from, stay, ok := p.room(j, i, k, j.at, est)
		if !ok {
			continue
		}
		begin, node, fits := p.pools[k].usage.sometime(&j.needs[i], stay, from)
		if end := begin.Add(stay); fits && end < best.end {
			best = placement{due, int16(k), node, begin, end, at.claim}
		}
	}
	if best.pool == nowhere { // no node can hold it any more
		best = placement{stage: planned, pool: nowhere, start: unit.Never, end: unit.Never, claim: unit.Never}
	}
	p.put(j, i, best)
	p.seek(j, i)
	if best.stage == due {
		p.slips.Push(item{best.start, j, i})
		if best.pool != at.pool && p.c.Phase(j.task(i)) == planner.Ready {
			p.claim(j, i)
		}
	}
	p.push(j, i)
}

// rescueEndangered remaps the jobs that became late since they were mapped. Those that could not be helped are tried
// again when there is room that was not there; each of them no sooner than a quarter of the time that was left to its
// deadline when that failed. Only the end of a task before its estimated end makes such room. The tries of a job are
// so bounded by the logarithm of the time that it has.
func (p *keeper) rescueEndangered() {
	now := p.c.Now()
	if p.eased {
		p.eased = false
		p.lost = slices.DeleteFunc(p.lost, func(j *job) bool {
			j.lost = p.jobs[j.id] == j && j.open > 0 && j.due >= now
			if j.lost && now >= j.again {
				p.endanger(j)
			}
			return !j.lost
		})
	}
	slices.SortFunc(p.endangered, byDeadline)
	for _, j := range p.endangered {
		j.listed = false
		if p.jobs[j.id] != j || j.open == 0 {
			continue
		}
		if p.settle(j); j.end <= j.due || j.due < now {
			continue
		}
		p.begin()
		if p.remapJob(j, true) {
			continue
		}
		if j.lost {
			j.again = now.Add(j.due.Sub(now) / 4)
		}
		p.lose(j)
	}
	clear(p.endangered)
	p.endangered = p.endangered[:0]
}

// lose notes a job that no remapping helped; it is tried again from j.again on.
func (p *follow) lose(j *job) {
	if !j.lost {
		j.lost = true
		p.lost = append(p.lost, j)
	}
}

// startDue starts the tasks that can start now.
func (p *keeper) startDue() error {
	now := p.c.Now()
	for p.nextStart() <= now {
		p.fallDue(p.starts.Pop().j)
	}
	if err := p.startStill(); err != nil {
		return err
	}
	for k := range p.ready {
		if err := p.startReady(k); err != nil {
			return err
		}
	}
	if p.adrift || len(p.waiting) > 2*p.kept+64 {
		return p.moveUp()
	}
	return nil
}

// startReady starts due tasks of pool k that are ready, by claim. A task without room waits, and the free room is kept
// for it: that of the pool or, in a packed pool, of its node. A task whose inputs are on the way delays no due task.
func (p *keeper) startReady(k int) error {
	h, packed := &p.ready[k], p.pools[k].packed
	var waits []item
	var blocked []int32
	for h.Len() > 0 {
		x := h.Items[0]
		at := &x.j.at[x.i]
		if at.stage != due || int(at.pool) != k || at.claim != x.at {
			h.Pop()
			continue
		}
		others := p.c.Draft.Limited(x.j.task(x.i)) || p.lacks(x.j, x.i) // then others get the free room
		ok, err := p.start(x.j, x.i, blocked)
		if err != nil {
			return err
		}
		if !ok && !packed && !others {
			break
		}
		if h.Pop(); !ok {
			waits = append(waits, x)
			if packed && !others {
				blocked = append(blocked, at.node)
			}
		}
	}
	for _, x := range waits {
		h.Push(x)
	}
	return nil
}

// fallDue makes the tasks of a job due whose planned starts have come.
func (p *keeper) fallDue(j *job) {
	p.touch(j)
	for k := range j.at {
		i, at := int32(k), &j.at[k]
		if at.stage != planned || at.start > p.c.Now() {
			continue
		}
		if at.stage = due; j.dummy(i) {
			continue
		}
		p.slips.Push(item{at.start, j, i})
		if p.c.Phase(j.task(i)) == planner.Ready {
			p.claim(j, i)
		}
	}
}

// startStill starts dummies, which need no slot.
func (p *keeper) startStill() error {
	kept := p.still[:0]
	for _, s := range p.still {
		if at := &s.j.at[s.i]; at.stage != planned && at.stage != due {
			continue
		}
		ok, err := p.start(s.j, s.i, nil)
		if err != nil {
			return err
		}
		if !ok {
			kept = append(kept, s)
		}
	}
	p.still = kept
	return nil
}

// moveUp starts tasks before their planned start, those first that are planned first, where there is room until then or
// until they end.
func (p *keeper) moveUp() error {
	now := p.c.Now()
	kept, able := p.waiting[:0], []start(nil)
	for _, s := range p.waiting {
		at := &s.j.at[s.i]
		if at.stage != planned && at.stage != due {
			continue
		}
		kept = append(kept, s)
		if at.stage == planned && s.j.eager && at.pool != nowhere && p.adrift && p.ready[at.pool].Len() == 0 {
			able = append(able, s)
		}
	}
	clear(p.waiting[len(kept):])
	p.waiting, p.kept = kept, len(kept)
	if !p.c.Draft.AnyFree() {
		return nil
	}
	slices.SortFunc(able, byStart)
	for _, s := range able {
		at := s.j.at[s.i]
		if at.stage != planned {
			continue // listed twice, as after a second attempt
		}
		until := min(at.start, now.Add(at.end.Sub(at.start)))
		if u := p.pools[at.pool].usage; !u.packed && !u.count(&s.j.needs[s.i]).Fits(now, until, slot) {
			continue
		}
		if _, err := p.start(s.j, s.i, nil); err != nil {
			return err
		}
	}
	return nil
}

// start starts a task on a node of its pool; false if none has room or, where copies overlap other work, its inputs. In
// a packed pool it starts where its stay is, unless that is blocked, or elsewhere if that keeps nobody waiting.
func (p *keeper) start(j *job, i int32, blocked []int32) (bool, error) {
	c, t, pool := p.c, j.task(i), &p.pools[j.at[i].pool]
	task := c.Task(t)
	hold := task.Need
	if j.dummy(i) {
		hold = unit.Vector{}
	}
	own := int32(planner.None)
	if pool.packed && j.occupies(i) {
		own = j.at[i].node
	}
	copies := c.Copies(task)
	if !copies && own == planner.None && len(p.pools) == 1 {
		if n := c.Draft.Fastest(hold); n != planner.None {
			return p.startOn(j, i, n, hold)
		}
		return false, nil
	}
	best, end := planner.NodeID(planner.None), unit.Never
	for k := -1; k < len(pool.nodes); k++ {
		n := int32(k)
		switch {
		case k < 0 && own == planner.None || k >= 0 && n == own:
			continue
		case k < 0: // its own comes first
			n = own
		}
		node := pool.nodes[n]
		if !hold.Fits(c.Draft.Free(node)) || own != planner.None && !p.keepsNobody(j, i, n, own,
			blocked) {
			continue
		}
		if !copies {
			return p.startOn(j, i, node, hold)
		}
		site, ok := c.Site(t, node)
		if !ok {
			continue
		}
		if e := site.From.Add(site.Dur); e < end {
			best, end = node, e
		}
	}
	if best == planner.None {
		return false, nil
	}
	return p.startOn(j, i, best, hold)
}

// keepsNobody reports whether a task of a packed pool can start now on node n without delaying tasks planned there: on
// its own node for as long as it is not due, on another for as long as it runs.
func (p *keeper) keepsNobody(j *job, i, n, own int32, blocked []int32) bool {
	at, now, u := &j.at[i], p.c.Now(), p.pools[j.at[i].pool].usage
	until := now.Add(at.end.Sub(at.start))
	if n == own {
		if at.stage == due {
			return !slices.Contains(blocked, n)
		}
		until = min(until, at.start)
	}
	return u.each[n].Fits(now, until, j.needs[i])
}

func (p *keeper) startOn(j *job, i int32, n planner.NodeID, hold unit.Vector) (bool, error) {
	t := j.task(i)
	site, ok := p.c.Site(t, n)
	if !ok || site.From > p.c.Now() {
		return false, nil
	}
	if j.dummy(i) && site.Run.Run == 0 {
		site.Dur -= max(0, min(site.Dur, 1)) // the instant that others hold their places for at least
	}
	seg := planner.Segment{Task: t, Node: n, Hold: hold, Start: site.From, End: site.From.Add(site.Dur)}
	switch err := p.c.Draft.Reserve(seg); {
	case errors.Is(err, planner.ErrFull), errors.Is(err, planner.ErrMissing):
		return false, nil
	case err != nil:
		return false, err
	}
	p.started(j, i, seg)
	return true, nil
}

// started says that a task starts now.
func (p *keeper) started(j *job, i int32, seg planner.Segment) {
	at := j.at[i]
	j.open--
	if at.claim < unit.Never {
		p.c.Note(planner.Note{Topic: TopicPlanned, Workflow: j.id, Task: j.task(i),
			At: at.claim.Add(at.end.Sub(at.start))})
	}
	p.put(j, i, placement{active, p.poolOf[seg.Node], p.indexOf[seg.Node], seg.Start, seg.End, at.claim})
	p.ends.Push(item{seg.End, j, i})
	if j.begun = true; seg.Start < j.begin { // it moved up
		j.begin = seg.Start
		p.span(j)
	}
	p.push(j, i)
}

// explain says why tasks that became ready do not start.
func (p *keeper) explain() {
	for _, t := range p.c.News.Ready {
		j, i := p.of(t)
		if j == nil {
			continue
		}
		switch at := &j.at[i]; {
		case at.stage == planned && at.pool != nowhere:
			node := planner.NodeID(planner.None)
			if nodes := p.pools[at.pool].nodes; len(nodes) == 1 {
				node = nodes[0]
			}
			p.c.Explain(t, planner.Reason{Code: planner.PlannedLater, Node: node, At: at.start})
		case at.stage == due:
			p.c.Explain(t, planner.Reason{Code: planner.NoNodeFree, Dim: p.c.Draft.Short(p.c.Task(t).Need),
				Node: planner.None})
		}
	}
}

// wake is when the next round is due if nothing happens before.
func (p *keeper) wake() planner.Time {
	next := p.nextStart()
	for p.slips.Len() > 0 {
		if x := p.slips.Items[0]; x.j.at[x.i].stage == due && x.j.at[x.i].start == x.at {
			next = min(next, x.at.Add(grace))
			break
		}
		p.slips.Pop()
	}
	return max(next, p.c.Now()+1)
}

// nextStart is the first planned start of all jobs; unit.Never if none is planned.
func (p *keeper) nextStart() planner.Time {
	for _, j := range p.touched {
		j.touched = false
		was := j.nextAt
		if j.nextAt = j.nextStart(); j.nextAt != was && j.nextAt < unit.Never && p.jobs[j.id] == j {
			p.starts.Push(item{j.nextAt, j, 0})
		}
	}
	p.touched = p.touched[:0]
	for p.starts.Len() > 0 {
		if x := p.starts.Items[0]; p.jobs[x.j.id] == x.j && x.j.nextAt == x.at {
			return x.at
		}
		p.starts.Pop()
	}
	return unit.Never
}

// item is a task and an instant.
type item struct {
	at planner.Time
	j  *job
	i  int32
}

func (a *item) before(b *item) bool {
	if a.at != b.at {
		return a.at < b.at
	}
	if a.j != b.j {
		return a.j.id < b.j.id
	}
	return a.i < b.i
}

// items returns a heap with the earliest item in front. Items that do not hold any more are skipped when met.
func items() heap.Heap[item] { return heap.Heap[item]{Before: (*item).before} }

// admit maps jobs that have arrived. The job queue is in order of deadlines.
func (p *keeper) admit(arrived []planner.WorkflowID) {
	var fresh []*job
	for _, w := range arrived {
		if left, _ := p.c.Progress(w); left > 0 {
			fresh = append(fresh, p.newJob(w))
		}
	}
	slices.SortFunc(fresh, func(a, b *job) int {
		if !p.FIFO && a.due != b.due {
			return cmp.Compare(a.due, b.due)
		}
		return cmp.Compare(a.id, b.id)
	})
	for _, j := range fresh {
		p.looked = 0
		if !p.mapJob(j) {
			p.missed(j)
		}
		if p.counts && p.fresh(j) {
			p.c.Note(planner.Note{Topic: planner.TopicSearched, Workflow: j.id, Task: planner.None, At: p.c.Now(),
				Text: strconv.FormatInt(p.looked, 10)})
		}
	}
	for _, j := range fresh { // a later job may have moved an earlier one
		if p.fresh(j) && p.jobs[j.id] == j {
			p.predict(j)
		}
	}
}

// fresh reports whether a job arrives now: others were promised something when they did.
func (p *keeper) fresh(j *job) bool { return p.c.Workflow(j.id).Arrived == p.c.Now() }

// missed refuses a job that no plan lets end in time, or notes it.
func (p *keeper) missed(j *job) {
	if (p.reject || p.c.Workflow(j.id).RejectLate) && p.fresh(j) {
		text := fmt.Sprintf("laxity %v, no plan meets its deadline", j.laxity().Round(time.Millisecond))
		p.c.Note(planner.Note{Topic: planner.TopicRefused, Workflow: j.id, Task: planner.None, At: j.due, Text: text})
		p.dismiss(j)
	}
	if !p.FIFO && p.jobs[j.id] == j {
		p.lose(j)
	}
}

// predict notes when a job that arrived is expected to end.
func (p *keeper) predict(j *job) {
	p.settle(j)
	if j.due < unit.Never && !p.FIFO {
		for i := range j.at {
			p.c.Note(planner.Note{Topic: TopicSubDeadline, Workflow: j.id, Task: j.task(int32(i)), At: j.sub[i]})
		}
	}
	p.c.Promise(j.id, j.end, j.laxity())
}

// newJob takes in a workflow, of which tasks may run or have ended already.
func (p *keeper) newJob(w planner.WorkflowID) *job {
	c, flow := p.c, p.c.Workflow(w)
	n := len(flow.Tasks)
	j := &job{id: w, start: max(flow.Release, flow.Arrived), due: flow.Due, fixed: -1, nextAt: unit.Never,
		position: len(p.present),
		tasks:    make([]*planner.Task, n), begin: unit.Never, at: make([]placement, n), byRun: make([]int32, n),
		rank: make([]int32, n)}
	j.parents = make([][]int32, n)
	parents := make([]int32, 0, 2*n)
	for i, t := range slices.Sorted(slices.Values(flow.Tasks)) {
		j.tasks[i] = c.Task(t)
	}
	for i := range j.tasks {
		first := len(parents)
		for _, parent := range j.tasks[i].Parents {
			parents = append(parents, j.index(parent))
		}
		j.parents[i] = parents[first:len(parents):len(parents)]
		j.copies = j.copies || len(c.Nodes()) > 1 && len(j.tasks[i].Inputs) > 0
		j.fetches = j.fetches || p.fetches(j.tasks[i])
	}
	p.jobs = planner.Extend(p.jobs, int(w)+1)
	p.jobs[w] = j
	p.present = append(p.present, j)
	p.spans = append(p.spans, span{unit.Never, 0})
	p.touch(j)
	p.estimate(j)
	if started, _ := c.Times(w); started != unit.Never {
		j.begun, j.begin = true, started
	}
	for i := range int32(n) {
		t := j.task(i)
		switch phase := c.Phase(t); {
		case phase.Ended():
			j.at[i] = placement{stage: over}
			continue
		case phase.Placed():
			seg, _ := c.Draft.Of(t)
			pool := p.poolOf[seg.Node]
			if j.runs[int(i)*len(p.pools)+int(pool)] < 0 { // it holds less than it needs, and its node is drained
				pool = nowhere
			}
			j.at[i] = placement{active, pool, p.indexOf[seg.Node], seg.Start,
				c.Draft.ActiveEnd(t), seg.Start}
			p.occupy(j, i)
			p.ends.Push(item{j.at[i].end, j, i})
			j.end = max(j.end, j.at[i].end)
		default:
			j.open++
			if phase == planner.Ready {
				p.becameReady(j, i)
			}
		}
		j.left++
	}
	return j
}

// dismiss takes a job out of the plan, and forgets it.
func (p *keeper) dismiss(j *job) {
	p.remove(j)
	last := len(p.present) - 1
	p.present[j.position], p.spans[j.position] = p.present[last], p.spans[last]
	p.present[j.position].position = j.position
	p.present[last] = nil
	p.present, p.spans = p.present[:last], p.spans[:last]
	p.jobs[j.id] = nil
}

// outdated reports whether the pools are not those of the nodes any more. Where the first workflow comes whose inputs
// are copied ahead of their consumers, it splits them.
func (p *keeper) outdated() bool {
	c, outdated := p.c, p.pools == nil || p.c.News.Changed
	if p.apart || len(c.Nodes()) == 1 {
		return outdated
	}
	arrived := slices.Concat(c.News.Arrived, c.News.Grown)
	if p.pools == nil {
		arrived = c.Present()
	}
	fetches := false
	for _, w := range arrived {
		for _, id := range c.Workflow(w).Tasks {
			if !c.BySpeed(c.Task(id)) {
				p.apart = true
				return true
			}
			fetches = fetches || p.fetches(c.Task(id))
		}
	}
	switch {
	case fetches && outdated:
		p.apart = true
	case fetches:
		p.split()
	}
	return outdated
}

// split makes each node a pool of its own. Planned tasks get a node, and keep their times.
func (p *keeper) split() {
	old, poolOf := p.pools, p.poolOf
	var all []start
	for _, j := range p.present {
		for i := range j.at {
			if at := &j.at[i]; at.pool != nowhere {
				all = append(all, start{j, int32(i)})
			}
		}
	}
	slices.SortFunc(all, inOrder)
	p.apart = true
	p.makePools()
	p.ready = newFollow(len(p.pools), false).ready
	for n := range p.pools {
		pool, from := &p.pools[n], old[poolOf[n]].layout
		pool.dims, pool.kinds, pool.packed = slices.Clone(from.dims), slices.Clone(from.kinds), from.packed
		pool.usage.rearrange(p.c.Now())
		pool.idle.rearrange(0)
	}
	for _, j := range p.present {
		runs := make([]time.Duration, 0, len(j.at)*len(p.pools))
		for i := range j.at {
			for n := range p.pools {
				runs = append(runs, j.runs[i*len(old)+int(poolOf[n])])
			}
		}
		j.runs = runs
	}
	for _, s := range all {
		at := &s.j.at[s.i]
		at.pool, at.node = p.poolOf[p.nodeFor(&old[at.pool], s)], 0
		p.occupy(s.j, s.i)
		if at.stage == due && !s.j.dummy(s.i) && p.c.Phase(s.j.task(s.i)) == planner.Ready {
			p.claim(s.j, s.i)
		}
	}
}
