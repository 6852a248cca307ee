package sim

import (
	"cmp"
	"math"
	"slices"
	"time"

	"gantry/planner"
	"gantry/planner/unit"
)

// wire is a shared link: each of its copies gets an equal part of the bandwidth.
type wire struct {
	rate    float64      // bytes per second
	at      planner.Time // as of which each is
	each    float64      // bytes that a copy has got which is there from the beginning
	flows   []*flow
	version uint32 // of the item in the queue that counts
}

// flow is a copy on a wire.
type flow struct {
	wire    *wire
	size    unit.Bytes
	end     float64           // what each is then
	attempt planner.AttemptID // that waits for it; None: none does
	version uint32
	file    planner.FileID
	node    planner.NodeID // that it goes to
}

// transfer has a copy join the shared link that it takes, once the link's latency has passed; false if it takes none.
func (r *Runtime) transfer(size unit.Bytes, from, to planner.NodeID, at planner.Time, f flow) bool {
	p := r.cfg.Platform
	link, ok := p.SharedLink(from, to)
	if !ok {
		return false
	}
	rate, latency := p.Link(p.Nodes[from].Group, p.Nodes[to].Group)
	if r.wires[link] == nil {
		r.wires[link] = &wire{rate: float64(rate)}
	}
	f.wire, f.size = r.wires[link], size
	r.push(item{at: at.Add(latency), kind: joined, attempt: f.attempt, version: f.version, flow: &f})
	return true
}

// move lets a wire's copies proceed until now, and schedules the end of the next one.
func (r *Runtime) move(w *wire, change func()) {
	if n := len(w.flows); n > 0 {
		w.each += w.rate * r.now.Sub(w.at).Seconds() / float64(n)
	}
	w.at = r.now
	change()
	if len(w.flows) == 0 {
		w.each = 0
		return
	}
	next := slices.MinFunc(w.flows, func(a, b *flow) int { return cmp.Compare(a.end, b.end) })
	left := max(0, next.end-w.each) * float64(len(w.flows)) / w.rate
	w.version++
	at := unit.Never // beyond the end of time
	if ns := math.Ceil(left * 1e9); ns < float64(unit.Never-r.now) {
		at = r.now.Add(time.Duration(ns))
	}
	r.push(item{at: at, kind: passed, attempt: planner.None,
		flow: &flow{wire: w, version: w.version}})
}

func (r *Runtime) join(f *flow) {
	if a := r.at(f.attempt); a != nil {
		a.on = f.wire
	}
	r.move(f.wire, func() {
		f.end = f.wire.each + float64(f.size)
		f.wire.flows = append(f.wire.flows, f)
	})
}

// pass ends the copies of a wire that have got all, up to the bytes of a nanosecond.
func (r *Runtime) pass(w *wire) {
	var done []*flow
	r.move(w, func() {
		w.flows = slices.DeleteFunc(w.flows, func(f *flow) bool {
			over := f.end <= w.each+w.rate*1e-9
			if over {
				done = append(done, f)
			}
			return over
		})
	})
	for _, f := range done {
		if f.attempt == planner.None {
			r.push(item{at: r.now, kind: appeared, attempt: planner.None, file: f.file, node: f.node})
			continue
		}
		a := r.at(f.attempt)
		a.on = nil
		r.stage(f.attempt, a, f.node, r.now)
	}
}

// leave takes the copy of an attempt that ends off its wire.
func (r *Runtime) leave(id planner.AttemptID, a *attempt) {
	if w := a.on; w != nil {
		a.on = nil
		r.move(w, func() {
			w.flows = slices.DeleteFunc(w.flows, func(f *flow) bool { return f.attempt == id })
		})
	}
}
