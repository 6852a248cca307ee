package share_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gantry/planner"
	"gantry/planner/exact"
	"gantry/planner/seed/seedtest"
	"gantry/planner/share"
	"gantry/planner/unit"
)

var (
	// The example of 3DSF, section 5.2: 24 vCPUs, 36 GB, 54 disk I/O.
	paper   = unit.Vector{24, 36, 54}
	demands = []unit.Vector{{2, 4, 3}, {3, 2, 6}, {1, 3, 6}}
)

func fraction(num, den uint64) exact.Fraction { return exact.Fraction{Num: exact.Int(num), Den: den} }

func letters(steps []step) string {
	var s []byte
	for _, x := range steps {
		s = append(s, 'a'+byte(x.Tenant))
	}
	return string(s)
}

func TestPapersExampleStepByStep(t *testing.T) {
	tasks, steps := fill(paper, demands, share.Enhanced(1), share.Stop)
	if !slices.Equal(tasks, []int{4, 3, 4}) || letters(steps) != "acbacbacbac" {
		t.Fatalf("tasks %v in the order %s; the paper has 4, 3, 4 in the order acbacbacbac", tasks, letters(steps))
	}
	shares := [][2]uint64{{1, 9}, {1, 9}, {1, 8}, {2, 9}, {2, 9}, {1, 4}, {1, 3}, {1, 3}, {3, 8}, {4, 9}, {4, 9}}
	totals := []unit.Vector{{2, 4, 3}, {3, 7, 9}, {6, 9, 15}, {8, 13, 18}, {9, 16, 24}, {12, 18, 30}, {14, 22, 33},
		{15, 25, 39}, {18, 27, 45},
		{20, 31, 48}, {21, 34, 54}}
	for i, s := range steps {
		if s.Share.Compare(fraction(shares[i][0], shares[i][1])) != 0 || s.Consumed != totals[i] {
			t.Errorf("step %d: share %v, consumed %v; expected %v, %v", i+1, s.Share, s.Consumed, shares[i], totals[i])
		}
	}
}

func TestLevelsAndNaiveSharesOfThePapersExample(t *testing.T) {
	for _, c := range []struct {
		name   string
		rule   share.Rule
		misfit share.OnMisfit
		tasks  []int
		order  string
	}{
		{"naive, stop at the first misfit", share.Naive(), share.Stop, []int{3, 3, 4}, "cabcabcacb"},
		{"naive, skip what does not fit", share.Naive(), share.Skip, []int{4, 3, 4}, "cabcabcacba"},
		{"level 2", share.Enhanced(2), share.Stop, []int{4, 3, 4}, ""},
		{"level 3", share.Enhanced(3), share.Stop, []int{3, 3, 4}, ""},
	} {
		tasks, steps := fill(paper, demands, c.rule, c.misfit)
		if !slices.Equal(tasks, c.tasks) || c.order != "" && letters(steps) != c.order {
			t.Errorf("%s: tasks %v in the order %s; expected %v %s", c.name, tasks, letters(steps), c.tasks, c.order)
		}
	}
	// Naive DRF leaves disk I/O unused: 51 of 54.
	_, steps := fill(paper, demands, share.Naive(), share.Stop)
	if got := steps[len(steps)-1].Consumed; got != (unit.Vector{19, 30, 51}) {
		t.Errorf("naive DRF consumed %v", got)
	}
}

func TestGhodsisExample(t *testing.T) {
	total := unit.Vector{9, 18, unit.Unlimited}
	tasks, steps := fill(total, []unit.Vector{{1, 4}, {3, 1}}, share.Enhanced(1), share.Stop)
	if !slices.Equal(tasks, []int{3, 2}) || letters(steps) != "ababa" {
		t.Fatalf("tasks %v in the order %s; expected 3, 2 in the order ababa", tasks, letters(steps))
	}
	last := steps[len(steps)-1]
	if last.Share.Compare(fraction(2, 3)) != 0 || last.Consumed[unit.CPU] != 9 ||
		last.Consumed[unit.Memory] != 14 {
		t.Errorf("shares %v, consumed %v; expected 2/3, 9 CPUs and 14 GB", last.Share, last.Consumed)
	}
}

func TestDominantResourceTakesTheFirstOfEquals(t *testing.T) {
	total := unit.Vector{8000, 16, unit.Unlimited}
	for need, want := range map[unit.Vector]unit.Dim{
		{1000, 2, 0}: unit.CPU, {1000, 4, 0}: unit.Memory, {0, 0, 9}: unit.CPU, {1, 1, 1 << 40}: unit.Memory,
	} {
		if got := share.Dominant(need, total); got != want {
			t.Errorf("dominant resource of %v is %v, expected %v", need, got, want)
		}
	}
	if got := share.Dominant(unit.Vector{1000, 1, 50}, unit.Vector{8000, 16, 100}); got != unit.Disk {
		t.Errorf("dominant resource is %v, expected disk", got)
	}
}

func TestWeightsDivideShares(t *testing.T) {
	l := share.New(unit.Vector{100, 0, 0}, share.Enhanced(1))
	l.Weigh(0, 3)
	var order []planner.TenantID
	l.Weigh(1, 1)
	for range 8 {
		m, _ := l.Least(func(planner.TenantID) (unit.Vector, bool) { return unit.Vector{1}, true })
		order = append(order, m)
		l.Add(m, unit.Vector{1})
	}
	if !slices.Equal(order, []planner.TenantID{0, 1, 0, 0, 0, 1, 0, 0}) {
		t.Errorf("served in the order %v, expected three times as often the tenant of weight 3", order)
	}
	huge := share.New(unit.Vector{0, 1 << 62, 0}, share.Enhanced(1))
	huge.Weigh(1, 1_000_000)
	huge.Add(1, unit.Vector{0, 1 << 61, 0})
	if got := huge.Share(1).Float(); got < 0.4e-6 || got > 0.6e-6 {
		t.Errorf("share of half at weight a million is %v", got)
	}
}

// Shares of amounts of which a weight makes more than 2^63 differ by one unit in 2^61.
func TestWeightedSharesOfHugeAmountsAreExact(t *testing.T) {
	huge := share.New(unit.Vector{0, 1 << 62, 0}, share.Enhanced(1))
	for m := range planner.TenantID(2) {
		huge.Weigh(m, 7)
	}
	huge.Add(0, unit.Vector{0, 1<<61 + 1, 0})
	huge.Add(1, unit.Vector{0, 1 << 61, 0})
	wants := func(planner.TenantID) (unit.Vector, bool) { return unit.Vector{0, 1, 0}, true }
	if m, _ := huge.Least(wants); m != 1 {
		t.Errorf("tenant %d is served, expected the one with a unit less", m)
	}
	huge.Add(1, unit.Vector{0, 1, 0})
	if c := huge.Share(0).Compare(huge.Share(1)); c != 0 {
		t.Errorf("equal shares compare as %d", c)
	}
	huge.Weigh(2, 14)
	huge.Add(2, unit.Vector{0, 1<<62 - 1, 0})
	if c := huge.Share(2).Compare(huge.Share(0)); c >= 0 {
		t.Errorf("(2^62 - 1) / 14 against (2^61 + 1) / 7 compare as %d", c)
	}
}

// The ledger answers what a search through all tenants answers, whatever happens.
func TestLedgerFindsTheLeastShare(t *testing.T) {
	seedtest.Check(t, func(t *rapid.T) {
		total := unit.Vector{rapid.Int64Range(1, 50).Draw(t, "cpu"), rapid.Int64Range(1, 50).Draw(t, "memory"),
			rapid.Int64Range(1, 50).Draw(t, "disk")}
		rule := share.Enhanced(rapid.IntRange(1, 3).Draw(t, "level"))
		l := share.New(total, rule)
		l.Add(6, unit.Vector{})
		used, next := map[planner.TenantID]unit.Vector{}, map[planner.TenantID]unit.Vector{}
		vector := func() unit.Vector {
			return unit.Vector{rapid.Int64Range(0, 9).Draw(t, "c"), rapid.Int64Range(0, 9).Draw(t, "m"),
				rapid.Int64Range(0, 9).Draw(t, "d")}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			m := planner.TenantID(rapid.IntRange(0, 6).Draw(t, "tenant"))
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				v := vector()
				l.Add(m, v)
				used[m] = used[m].Add(v)
			case 1:
				v := used[m]
				l.Add(m, unit.Vector{}.Sub(v))
				used[m] = unit.Vector{}
			case 2:
				delete(next, m)
			case 3:
				next[m] = vector()
			case 4:
				if _, wants := next[m]; wants {
					v := vector()
					next[m] = vector()
					l.Add(m, v)
					used[m] = used[m].Add(v)
				}
			case 5:
				total[unit.Disk] = rapid.Int64Range(1, 50).Draw(t, "new disk")
				l.Resize(total)
			}
			best := planner.TenantID(planner.None)
			for m := planner.TenantID(0); m < 7; m++ {
				if _, wants := next[m]; !wants {
					continue
				}
				if best == planner.None {
					best = m
					continue
				}
				c := rule.Of(used[m], total).Compare(rule.Of(used[best], total))
				if c == 0 {
					c = rule.Of(next[m], total).Compare(rule.Of(next[best], total))
				}
				if c < 0 {
					best = m
				}
			}
			if got, ok := l.Least(func(m planner.TenantID) (v unit.Vector, ok bool) {
				v, ok = next[m]
				return v, ok
			}); ok != (best != planner.None) || ok && got != best {
				t.Fatalf("least is %v, expected %v", got, best)
			}
		}
	})
}

// With no end of tasks and no misfit, no two tenants' shares differ by more than one task of either.
func TestFillKeepsSharesTogether(t *testing.T) {
	seedtest.Check(t, func(t *rapid.T) {
		total := unit.Vector{1000, 1000, 1000}
		var demands []unit.Vector
		for range rapid.IntRange(2, 5).Draw(t, "tenants") {
			demands = append(demands, unit.Vector{rapid.Int64Range(1, 20).Draw(t, "c"), rapid.Int64Range(1, 20).Draw(t,
				"m"), rapid.Int64Range(1, 20).Draw(t, "d")})
		}
		rule := share.Enhanced(1)
		tasks, _ := fill(total, demands, rule, share.Stop)
		for i, d := range demands {
			for j := range demands {
				mine := rule.Of(times(d, tasks[i]), total).Float()
				theirs := rule.Of(times(demands[j], tasks[j]), total).Float()
				if mine-theirs > rule.Of(d, total).Float()+1e-12 {
					t.Fatalf("tenant %d has %v, tenant %d %v: more than one task apart", i, mine, j, theirs)
				}
			}
		}
	})
}

func times(v unit.Vector, n int) (out unit.Vector) {
	for range n {
		out = out.Add(v)
	}
	return out
}
