// Package share divides resources among tenants by Dominant Resource Fairness (Ghodsi et al., NSDI 2011) as Ru et al.
// enhance it in 3DSF, section 5 and Algorithm 1: three dimensions, and a choice of which of a tenant's shares counts.
// Shares are compared exactly.
package share

import (
	"math/bits"

	"gantry/planner"
	"gantry/planner/exact"
	"gantry/planner/unit"
)

// OnMisfit says how to go on when the demand of the tenant with the least share does not fit.
type OnMisfit uint8

const (
	Stop OnMisfit = iota // the cluster is full, as Algorithm 1 returns
	Skip                 // the tenant is passed over, the others continue
)

// Rule defines a tenant's share.
type Rule struct {
	// Level is Lev of Algorithm 1: 1 takes a tenant's largest share of a resource, as usual, 2 the next, 3 the third.
	// Beyond the number of dimensions it is the smallest.
	Level int
	// Dims are the dimensions that count. Naive DRF has CPU and memory; a dimension without limit never counts.
	Dims unit.Mask
}

// Enhanced is the rule of 3DSF at a level; GPUs count where there are any.
func Enhanced(level int) Rule {
	return Rule{level, unit.Of(unit.CPU, unit.Memory, unit.Disk, unit.GPU)}
}

// Naive is the rule of two dimensions, which lets disk I/O through unseen.
func Naive() Rule { return Rule{1, unit.Of(unit.CPU, unit.Memory)} }

// Of returns the share that v is of total.
func (r Rule) Of(v, total unit.Vector) exact.Fraction {
	var all [unit.Dims]exact.Fraction // descending
	n := 0
	for d := range v {
		if r.Dims&(1<<d) == 0 || total[d] == unit.Unlimited || total[d] <= 0 {
			continue
		}
		f := shareOf(v[d], total[d])
		i := n
		for ; i > 0 && all[i-1].Compare(f) < 0; i-- {
			all[i] = all[i-1]
		}
		all[i] = f
		n++
	}
	if n == 0 {
		return exact.Fraction{Den: 1}
	}
	return all[max(0, min(r.Level, n)-1)]
}

// shareOf is the share that an amount is of a total above 0.
func shareOf(v, total int64) exact.Fraction {
	return exact.Fraction{Num: exact.Int(uint64(max(0, v))), Den: uint64(total)}
}

// Dominant returns the dimension that v has the largest share of, the first of equals (3DSF, section 7.3).
func Dominant(v, total unit.Vector) unit.Dim {
	best, most := unit.CPU, exact.Fraction{Den: 1}
	for d := range v {
		if total[d] == unit.Unlimited || total[d] <= 0 {
			continue
		}
		if f := shareOf(v[d], total[d]); f.Compare(most) > 0 {
			best, most = unit.Dim(d), f
		}
	}
	return best
}

// Ledger knows the usage of every tenant.
type Ledger struct {
	rule    Rule
	total   unit.Vector
	tenants []account
}

type account struct {
	used   unit.Vector
	share  exact.Fraction
	weight int64 // the divisor of shares; 0: 1
}

// New returns a ledger in which nobody has anything of total.
func New(total unit.Vector, rule Rule) *Ledger { return &Ledger{rule: rule, total: total} }

// Resize sets a new total.
func (l *Ledger) Resize(total unit.Vector) {
	if total == l.total {
		return
	}
	l.total = total
	for i := range l.tenants {
		a := &l.tenants[i]
		a.share = l.of(a, a.used)
	}
}

// Used returns the resources that tenant m has.
func (l *Ledger) Used(m planner.TenantID) unit.Vector { return l.at(m).used }

// Share returns the share of tenant m.
func (l *Ledger) Share(m planner.TenantID) exact.Fraction { return l.at(m).share }

// Weigh says that tenant m is entitled to weight times as much as one of weight 1: its shares are divided by that.
// Weights are from 1 to a million, and stay.
func (l *Ledger) Weigh(m planner.TenantID, weight int64) {
	a := l.at(m)
	a.weight = weight
	a.share = l.of(a, a.used)
}

func (l *Ledger) of(a *account, v unit.Vector) exact.Fraction {
	f := l.rule.Of(v, l.total)
	if hi, den := bits.Mul64(f.Den, uint64(max(1, a.weight))); hi == 0 {
		f.Den = den
	} else { // of amounts above 2^44
		f.Num = f.Num.Over(uint64(a.weight))
	}
	return f
}

// Add gives v to tenant m; a negative v takes it back.
func (l *Ledger) Add(m planner.TenantID, v unit.Vector) {
	a := l.at(m)
	a.used = a.used.Add(v)
	a.share = l.of(a, a.used)
}

// Least returns the tenant to be served next: the least share, then the least share of the next demand alone, then the
// first tenant; false if nobody wants anything. Wants returns the demand of the next task of a tenant, if there is one.
func (l *Ledger) Least(wants func(m planner.TenantID) (unit.Vector, bool)) (least planner.TenantID, ok bool) {
	var first *account
	var next unit.Vector
	for m := range l.tenants {
		demand, any := wants(planner.TenantID(m))
		if !any {
			continue
		}
		a := &l.tenants[m]
		if ok {
			c := a.share.Compare(first.share)
			if c == 0 {
				c = l.of(a, demand).Compare(l.of(first, next))
			}
			if c >= 0 {
				continue
			}
		}
		least, first, next, ok = planner.TenantID(m), a, demand, true
	}
	return least, ok
}

func (l *Ledger) at(m planner.TenantID) *account {
	for int(m) >= len(l.tenants) {
		l.tenants = append(l.tenants, account{share: exact.Fraction{Den: 1}})
	}
	return &l.tenants[m]
}
