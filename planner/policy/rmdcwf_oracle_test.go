package policy_test

import (
	"cmp"
	"math/big"
	"slices"
	"time"

	"gantry/planner/unit"
)

// fitsPool reports whether a task fits the nodes of a pool at all.
func (p *bentPlan) fitsPool(k, f, i int) bool {
	n := p.Nodes[p.groups[k][0]]
	return p.task(f, i).Cores <= n.Cores && (n.Memory == 0 || p.task(f, i).Memory <= n.Memory)
}

// sweeps lists the tasks for which open holds as lines 3 to 26 of Algorithm 5 come by them: over all in order of
// runtime, sub-deadline and number, again and again, passing over those that have a parent without a place.
func (p *bentPlan) sweeps(j *bentJob, open func(i int) bool) (out []int) {
	order := make([]int, len(j.e))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(j.e[b], j.e[a]),
			cmp.Compare(j.sub[a], j.sub[b]))
	})
	for again := true; again; {
		again = false
		for _, i := range order {
			if !open(i) || slices.Contains(out, i) {
				continue
			}
			if !slices.ContainsFunc(p.task(j.f, i).Parents, func(q int) bool {
				return open(q) &&
					!slices.Contains(out, q)
			}) {
				out, again = append(out, i), true
			}
		}
	}
	return out
}

// budget is the DBW algorithm.
func (p *bentPlan) budget(j *bentJob) {
	tasks, sample := p.Workflows[j.f].Tasks, p.sample(j)
	end := j.s
	for _, at := range sample {
		end = max(end, at)
	}
	j.set = end.Sub(j.s)
	if p.fifo {
		return
	}
	if j.d == unit.Never {
		for i := range j.sub {
			j.sub[i] = unit.Never
		}
		return
	}
	// Topological order: tasks without parents by number, then what becomes free, in that order.
	var order []int
	free := func(i int) bool {
		return !slices.Contains(order, i) && !slices.ContainsFunc(tasks[i].Parents,
			func(q int) bool { return !slices.Contains(order, q) })
	}
	for i := range tasks {
		if len(tasks[i].Parents) == 0 {
			order = append(order, i)
		}
	}
	for k := 0; k < len(order); k++ {
		for i := range tasks {
			if slices.Contains(tasks[i].Parents, order[k]) {
				// It becomes free with the last of its parents in the order.
				last := 0
				for _, q := range tasks[i].Parents {
					last = max(last, slices.Index(order, q))
					if !slices.Contains(order, q) {
						last = len(tasks)
					}
				}
				if last == k && free(i) {
					order = append(order, i)
				}
			}
		}
	}
	var stages []int32
	for i := range tasks {
		if j.e[i] > 0 {
			stages = append(stages, tasks[i].Stage)
		}
	}
	slices.Sort(stages)
	stages = slices.Compact(stages)
	phase := make([]int, len(tasks))
	laxity := int64(j.d.Sub(j.s) - j.set)
	for _, i := range order {
		phase[i] = slices.Index(stages, tasks[i].Stage) + 1
		if j.e[i] == 0 {
			phase[i] = 1
			for _, q := range tasks[i].Parents {
				phase[i] = max(phase[i], phase[q])
			}
		}
		part, whole := int64(sample[i]-j.s), int64(j.set)
		if p.even {
			part, whole = int64(phase[i]), int64(max(1, len(stages)))
		}
		share := laxity
		if whole > 0 {
			x := new(big.Int).Mul(big.NewInt(laxity), big.NewInt(part))
			share = x.Quo(x, big.NewInt(whole)).Int64() // towards zero
		}
		j.sub[i] = sample[i] + unit.Time(share)
		if len(tasks[i].Parents) > 1 {
			most := j.sub[tasks[i].Parents[0]]
			for _, q := range tasks[i].Parents {
				most = max(most, j.sub[q])
			}
			for _, q := range tasks[i].Parents {
				j.sub[q] = most
			}
		}
	}
}

// laxity is d - s - SET, infinite without a deadline.
func (j *bentJob) laxity() *big.Float {
	if j.d == unit.Never {
		return new(big.Float).SetInf(false)
	}
	return new(big.Float).SetInt64(int64(j.d.Sub(j.s) - j.set))
}

// compareNormalized compares laxities over lengths.
func compareNormalized(a *big.Float, setA time.Duration, b *big.Float, setB time.Duration) int {
	norm := func(l *big.Float, set time.Duration) *big.Rat {
		if set == 0 || l.IsInf() {
			return nil
		}
		x, _ := l.Int(nil)
		return new(big.Rat).SetFrac(x, big.NewInt(int64(set)))
	}
	inf := func(l *big.Float, set time.Duration) int {
		if norm(l, set) != nil {
			return 0
		}
		return l.Sign()
	}
	if c := cmp.Compare(inf(a, setA), inf(b, setB)); c != 0 || inf(a, setA) != 0 || setA == 0 || setB == 0 {
		return c
	}
	return norm(a, setA).Cmp(norm(b, setB))
}

var exactShapes = []sampled{
	{120, Shape{Dummies: true, Released: true}},
	{120, Shape{Dummies: true, Released: true, Speeds: speeds, Groups: 2}},
}
