package sim

import (
	"cmp"
	"slices"
	"time"

	"gantry/planner"
)

// activity is something that takes time: a phase of an attempt, a part of its program's work, or a timer. It makes
// progress at a rate that changes when others begin or end.
type activity struct {
	c      *course // nil: of no attempt
	kind   activityKind
	which  int     // the phase, or the resource
	left   float64 // of a phase and of a timer nanoseconds alone on a host at rest; of a part CPU nanoseconds or bytes
	rate   int64   // of that, in a second; 0: it stands still
	since  planner.Time
	over   bool
	place  int // in the list that it is in
	then   func()
	due    planner.Time // when it ends at its rate, or has caught up
	seq    uint64       // activities due at one instant end in this order
	queued int          // its place in the queue, and one; 0: it is not in it

	cpu float64 // of a phase: CPU time over wall time at full speed, in cores

	// Of a part:
	node   planner.NodeID
	amount float64
	spread time.Duration // that the amount is spread over
	from   time.Duration // time that the program had run when it began
	most   int64         // its greatest rate
	pace   int64         // its rate where nothing holds it back
	behind bool          // it is behind its pace, and wants its greatest rate
}

type activityKind uint8

const (
	aTimer activityKind = iota
	aPhase
	aPart
)

const second = float64(time.Second)

// wants is the rate that a part would have if it had its resource for itself.
func (a *activity) wants() int64 {
	if a.behind {
		return a.most
	}
	return a.pace
}

// advance takes stock.
func (a *activity) advance(now planner.Time) {
	a.left -= float64(a.rate) * float64(now-a.since) / second
	a.since = now
}

// ended reports whether less is left than a nanosecond takes.
func (a *activity) ended() bool { return a.left*second <= float64(max(a.rate, 1)) }

// remaining is how long a takes at its rate until it has ended, or until it has caught up with its pace.
func (a *activity) remaining() time.Duration {
	d := ceil(a.left / float64(a.rate) * second)
	if a.kind != aPart || !a.behind || a.rate <= a.pace {
		return d
	}
	ran := a.c.elapsed(a.since) - a.from
	behind := a.amount*min(1, float64(ran)/float64(a.spread)) - (a.amount - a.left)
	if up := ceil(behind / float64(a.rate-a.pace) * second); ran+up < a.spread {
		return min(d, max(1, up))
	}
	return d
}

func ceil(nanos float64) time.Duration {
	d := time.Duration(nanos)
	if float64(d) < nanos {
		d++
	}
	return max(0, d)
}

// resource is shared by parts: the cores of the host, or its disk in one direction. Parts keep the limit of their node,
// and all nodes together that of the host: max-min fair among the nodes, and among the parts of a node.
type resource struct {
	capacity int64 // of the host, in a second; 0: without limit
	pools    []pool
	crowded  bool // they want more than there is
	fresh    []*activity
}

// pool is the parts of one node.
type pool struct {
	capacity int64 // 0: without limit
	taken    int64 // of it, by containers of the node that are set up, which are no parts
	parts    []*activity
	demand   int64 // sum of the rates that parts want
	most     int64 // sum of the parts' greatest rates
	paced    int64 // sum of the parts' paces
	crowded  bool
	touched  bool
}

func (r *resource) add(a *activity) {
	p := &r.pools[a.node]
	a.place = len(p.parts)
	p.parts = append(p.parts, a)
	p.change(a.wants(), a.most, a.pace)
	r.fresh = append(r.fresh, a)
}

func (r *resource) remove(a *activity) {
	p := &r.pools[a.node]
	p.parts = without(p.parts, a)
	p.change(-a.wants(), -a.most, -a.pace)
}

// without takes an activity out of the list that it has its place in: the last one gets that place.
func without(list []*activity, a *activity) []*activity {
	last := len(list) - 1
	list[a.place] = list[last]
	list[a.place].place = a.place
	list[last] = nil
	return list[:last]
}

// turn has a part be behind, or catch up.
func (r *resource) turn(a *activity, behind bool) {
	before := a.wants()
	a.behind = behind
	r.pools[a.node].change(a.wants()-before, 0, 0)
	r.fresh = append(r.fresh, a)
}

func (p *pool) change(by, most, pace int64) {
	p.demand, p.most, p.paced, p.touched = p.demand+by, p.most+most, p.paced+pace, true
}

func (r *resource) sum(of func(p *pool) int64) (sum int64) {
	for i := range r.pools {
		sum += of(&r.pools[i])
	}
	return sum
}

// want is the rate that the parts want and can have; greatest is the same if all were behind their pace, and atPace if
// all kept it.
func (p *pool) want() int64     { return p.atMost(p.demand) }
func (p *pool) greatest() int64 { return p.atMost(p.most) }
func (p *pool) atPace() int64   { return p.atMost(p.paced) }

// busy is the rate that parts use at their paces, or would use if no container were set up on their node.
func (p *pool) busy() int64 {
	if p.capacity > 0 {
		return min(p.paced, p.capacity)
	}
	return p.paced
}

// atMost is the part of a rate that the pool can have.
func (p *pool) atMost(rate int64) int64 {
	if p.capacity > 0 {
		return min(rate, p.capacity-p.taken)
	}
	return rate
}

// share gives every part its rate.
func (r *resource) share(set func(a *activity, rate int64)) {
	for again := true; again; {
		again = false
		was := r.crowded
		r.crowded = r.capacity > 0 && r.sum((*pool).want) > r.capacity
		switch {
		case r.crowded:
			level := r.level()
			for i := range r.pools {
				again = r.refill(&r.pools[i], min(r.pools[i].want(), level), set) || again
			}
		case was:
			for i := range r.pools {
				again = r.refill(&r.pools[i], r.pools[i].want(), set) || again
			}
		default:
			for i := range r.pools {
				if p := &r.pools[i]; p.touched && (p.crowded || p.demand > p.want()) {
					again = r.refill(p, p.want(), set) || again
				}
			}
			for _, a := range r.fresh {
				if p := &r.pools[a.node]; !a.over && a.place >= 0 && !p.crowded {
					set(a, a.wants())
				}
			}
		}
		for i := range r.pools {
			r.pools[i].touched = r.pools[i].touched && again
		}
	}
	r.fresh = r.fresh[:0]
}

// level is the most that a pool gets where they want more than there is.
func (r *resource) level() int64 {
	wants := make([]int64, 0, len(r.pools))
	for i := range r.pools {
		if w := r.pools[i].want(); w > 0 {
			wants = append(wants, w)
		}
	}
	slices.Sort(wants)
	return fill(wants, r.capacity)
}

// fill returns the level up to which all of the wants, in ascending order, are met, so that they get the capacity
// together.
func fill(wants []int64, capacity int64) int64 {
	for i, w := range wants {
		each := capacity / int64(len(wants)-i)
		if w > each {
			return max(1, each)
		}
		capacity -= w
	}
	return 1 << 62
}

// refill shares out the rate of a pool, and reports whether parts fell behind, and so want more than before.
func (r *resource) refill(p *pool, gets int64, set func(a *activity, rate int64)) (again bool) {
	p.crowded = p.demand > gets
	if !p.crowded {
		for _, a := range p.parts {
			set(a, a.wants())
		}
		return false
	}
	byWish := slices.Clone(p.parts)
	slices.SortStableFunc(byWish, func(a, b *activity) int { return cmp.Compare(a.wants(), b.wants()) })
	for i, a := range byWish {
		rate := min(a.wants(), max(1, gets/int64(len(byWish)-i)))
		gets = max(0, gets-rate)
		if rate < a.pace && !a.behind {
			r.turn(a, true)
			again = again || a.most > a.pace
		}
		set(a, rate)
	}
	return again
}
