package study

import (
	"fmt"
	"math"
	"strings"

	"gantry/sqlite/report"
)

// Verdict is the verdict of results on a statement of the paper. Of several checks the worst counts, in this order.
type Verdict int

const (
	Agrees Verdict = iota
	InSign
	Overlaps
	TooFew
	Unmeasured
	Disagrees
)

func (v Verdict) String() string {
	return [...]string{"agrees", "agrees in sign", "intervals overlap", "one repetition only", "not measured",
		"disagrees"}[v]
}

// Finding is the verdict of results on one comparison, with the numbers.
type Finding struct {
	What    string // is compared
	Ours    string // values with intervals
	Verdict Verdict
	N       int  // repetitions that it rests on
	Wanted  int  // that the experiment asks for; 0: unknown
	Quick   bool // it rests on the short variant of the experiment
}

// Outcome is the verdict of results on a relation, with the findings.
type Outcome struct {
	*Relation
	Findings []Finding
	Verdict  Verdict
	Holding  int // findings that agree, at least in sign
	Missing  int // repetitions that are missing of the finding that lacks most
	N        int // repetitions of the finding that has least
	Quick    bool
}

const (
	defaultSame = 0.05 // see Compare.Within
	defaultNear = 0.25
)

// judge evaluates a relation.
func (s *Study) judge(d data, r *Relation) Outcome {
	o := Outcome{Relation: r, N: math.MaxInt}
	for i := range r.Checks {
		for _, c := range expand(&r.Checks[i]) {
			f := s.find(d, &c)
			o.Findings = append(o.Findings, f)
			o.Verdict = max(o.Verdict, f.Verdict)
			if f.Verdict <= InSign {
				o.Holding++
			}
			o.Missing = max(o.Missing, f.Wanted-f.N)
			o.N = min(o.N, f.N)
			o.Quick = o.Quick || f.Quick
		}
	}
	if len(o.Findings) == 0 {
		o.Verdict, o.N = Unmeasured, 0
	}
	return o
}

// expand returns the comparisons that each and along stand for.
func expand(c *Compare) []Compare {
	out := []Compare{*c}
	for _, each := range c.Each {
		for param, values := range each {
			var next []Compare
			for _, have := range out {
				for _, v := range values {
					with := have
					with.At = have.At.with(Selector{param: {v}})
					next = append(next, with)
				}
			}
			out = next
		}
	}
	if c.Along == nil {
		return out
	}
	var pairs []Compare
	for _, have := range out {
		for i := 1; i < len(c.Along.Values); i++ {
			with := have
			with.A = have.A.with(Selector{c.Along.Param: {c.Along.Values[i]}})
			with.B = have.A.with(Selector{c.Along.Param: {c.Along.Values[i-1]}})
			with.Claim = map[string]string{"rises": "above", "falls": "below"}[c.Claim]
			if with.Claim == "" {
				with.Claim = c.Claim
			}
			pairs = append(pairs, with)
		}
	}
	return pairs
}

// varying returns the part of a selector that At and the other side do not have alike.
func varying(sel, other Selector) Selector {
	out := Selector{}
	for k, v := range sel {
		if w, has := other[k]; !has || strings.Join(w, "\x00") != strings.Join(v, "\x00") {
			out[k] = v
		}
	}
	return out
}

func (s *Study) find(d data, c *Compare) Finding {
	atA, atB := c.At.with(c.A), c.At.with(c.B)
	m := s.Metrics[c.Metric]
	if m.Scale == 0 {
		m.Scale = 1
	}
	a := d.sample(c.Of, atA, c.Metric)
	f := Finding{Wanted: a.wanted, N: len(a.values)}
	two := c.B != nil || c.OfB != "" || c.MetB != ""
	f.What = s.title(c, two)
	if a.cells == 0 || a.runs == 0 {
		f.Verdict, f.Ours = Unmeasured, "no results"
		return f
	}
	f.Quick = d[c.Of].Quick
	if other := d[c.OfB]; other != nil && other.Quick != f.Quick {
		f.Verdict, f.Ours = Unmeasured, "results of different scales"
		return f
	}
	if c.Claim == "stable" || c.Claim == "unstable" {
		return stability(f, &a, c.Claim)
	}
	unit := ""
	if m.Unit != "" {
		unit = " " + m.Unit
	}
	cut := ""
	if a.cut > 0 {
		cut = fmt.Sprintf(" (%d of %d runs cut off)", a.cut, a.runs)
	}
	if !two {
		i := a.interval(m.Scale)
		f.Ours = i.String() + unit + cut
		f.Verdict = alone(i, c)
		return f
	}
	b := d.sample(or(c.OfB, c.Of), atB, or(c.MetB, c.Metric))
	x, y := pair(&a, &b)
	f.N = len(x)
	if b.cells == 0 || len(x) == 0 {
		f.Verdict, f.Ours = Unmeasured, "no results"
		if a.cut+b.cut > 0 {
			f.Ours = fmt.Sprintf("%d of %d runs cut off", a.cut+b.cut, a.runs+b.runs)
		}
		return f
	}
	if b.cut > 0 {
		cut += fmt.Sprintf(" (%d of %d runs cut off of the other)", b.cut, b.runs)
	}
	delta := make([]float64, len(x))
	same := true
	for i := range x {
		delta[i] = (x[i] - y[i]) * m.Scale
		same = same && x[i] == y[i]
	}
	diff := (&sample{values: byIndex(delta)}).interval(1)
	ia, ib := (&sample{values: byIndex(x)}).interval(m.Scale), (&sample{values: byIndex(y)}).interval(m.Scale)
	f.Ours = fmt.Sprintf("%s against %s%s", ia, ib, unit)
	shown := diff
	switch r := ratio(x, y); {
	case c.As == "difference" || c.As == "" && math.Abs(ib.Mean) < 1e-12:
		f.Ours += ": " + signed(diff) + strings.Replace(unit, " %", " points", 1)
	case c.As == "ratio":
		shown = r
		f.Ours += ": ratio " + r.String()
	default:
		shown = report.Interval{N: r.N, Mean: (r.Mean - 1) * 100, Half: r.Half * 100}
		f.Ours += ": " + signed(shown) + " %"
	}
	f.Ours += cut
	f.Verdict = between(diff, ib, shown, same, c)
	return f
}

func byIndex(values []float64) map[int]float64 {
	out := map[int]float64{}
	for i, v := range values {
		out[i] = v
	}
	return out
}

func signed(i report.Interval) string {
	text := i.String()
	if i.Mean > 0 && !strings.HasPrefix(text, "-") {
		return "+" + text
	}
	return strings.Replace(text, "-", "−", 1)
}

// title names the compared values.
func (s *Study) title(c *Compare, two bool) string {
	if c.Label != "" {
		if at := s.describe(eachOf(c)); at != "" {
			return c.Label + ", " + at
		}
		return c.Label
	}
	label := or(s.Metrics[c.Metric].Label, c.Metric)
	if c.Claim == "stable" || c.Claim == "unstable" {
		label = ""
	}
	text := s.describe(c.At.with(c.A))
	if two {
		a, b := s.describe(varying(c.A, c.B)), s.describe(varying(c.B, c.A))
		if c.OfB != "" && b == "" {
			a, b = "", "" // the experiments differ, and a label has to say how
		}
		switch at := s.describe(c.At); {
		case a == "" && b == "":
			text = at
		case at == "":
			text = a + " against " + b
		default:
			text = at + ": " + a + " against " + b
		}
	}
	return strings.Trim(text+", "+label, ", ")
}

// eachOf is the part of At that each has put there.
func eachOf(c *Compare) Selector {
	out := Selector{}
	for _, each := range c.Each {
		for param := range each {
			out[param] = c.At[param]
		}
	}
	if c.Along != nil {
		out[c.Along.Param] = append(append(Values{}, c.B[c.Along.Param]...), c.A[c.Along.Param]...)
	}
	return out
}

// stability judges by Wilson's interval of the share of runs that both tests find stable, against one half.
func stability(f Finding, a *sample, claim string) Finding {
	f.N = a.judged
	f.Wanted = a.wanted * a.cells
	if a.judged == 0 {
		f.Verdict, f.Ours = Unmeasured, "no run is long enough for the tests"
		return f
	}
	f.Ours = fmt.Sprintf("%d of %d runs stable", a.stable, a.judged)
	if a.cut > 0 {
		f.Ours += fmt.Sprintf(", %d cut off", a.cut)
	}
	k := a.stable
	if claim == "unstable" {
		k = a.judged - k
	}
	switch low, high := share(k, a.judged); {
	case a.judged < 2:
		f.Verdict = TooFew
	case low > 0.5:
		f.Verdict = Agrees
	case high < 0.5:
		f.Verdict = Disagrees
	default:
		f.Verdict = Overlaps
	}
	return f
}

// alone judges a value against a bound or a figure of the paper.
func alone(i report.Interval, c *Compare) Verdict {
	if i.N < 2 || math.IsNaN(i.Half) {
		return TooFew
	}
	low, high := i.Mean-i.Half, i.Mean+i.Half
	switch c.Claim {
	case "at-most":
		return bounded(high <= *c.Bound, low > *c.Bound)
	case "at-least":
		return bounded(low >= *c.Bound, high < *c.Bound)
	}
	within := or0(c.Within, defaultNear) * math.Abs(*c.Paper)
	switch {
	case math.Abs(i.Mean-*c.Paper) <= within || low <= *c.Paper && *c.Paper <= high:
		return Agrees
	case high >= *c.Paper-within && low <= *c.Paper+within:
		return Overlaps
	}
	return Disagrees
}

func bounded(holds, fails bool) Verdict {
	switch {
	case holds:
		return Agrees
	case fails:
		return Disagrees
	}
	return Overlaps
}

func or0(a, b float64) float64 {
	if a != 0 {
		return a
	}
	return b
}

// between judges a difference: its sign, then the paper's figure against the shown value.
func between(diff, base, shown report.Interval, same bool, c *Compare) Verdict {
	if c.Claim == "identical" {
		if same {
			return Agrees
		}
		return Disagrees
	}
	if diff.N < 2 || math.IsNaN(diff.Half) {
		return TooFew
	}
	low, high := diff.Mean-diff.Half, diff.Mean+diff.Half
	if c.Claim == "same" {
		within := or0(c.Within, defaultSame)
		if c.As != "difference" {
			within *= math.Abs(base.Mean)
		}
		switch {
		case low >= -within && high <= within:
			return Agrees
		case low > within || high < -within:
			return Disagrees
		}
		return Overlaps
	}
	if c.Claim == "above" {
		low, high = -high, -low
	}
	switch {
	case low > 0:
		return Disagrees
	case high >= 0:
		if c.Paper != nil && math.Abs(shown.Mean-*c.Paper) > shown.Half+or0(c.Within, defaultNear)*math.Abs(*c.Paper) {
			return Disagrees // neither the sign nor the figure
		}
		return Overlaps
	case c.Paper == nil:
		return Agrees
	}
	if math.Abs(shown.Mean-*c.Paper) <= or0(c.Within, defaultNear)*math.Abs(*c.Paper) ||
		shown.Mean-shown.Half <= *c.Paper && *c.Paper <= shown.Mean+shown.Half {
		return Agrees
	}
	return InSign
}
