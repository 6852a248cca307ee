package study

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"gantry/executor/experiment"
	"gantry/executor/experiment/metrics"
	"gantry/sqlite/report"
	"gantry/sqlite/report/results"
	"gantry/trace/spelling"
)

// Verdict is the verdict of results on a statement of the paper. Of several checks the worst counts, in this order.
type Verdict int

const (
	Agrees Verdict = iota
	InSign
	Undecided
	TooFew
	Unmeasured
	Disagrees
)

func (v Verdict) String() string {
	return [...]string{"agrees", "agrees in sign", "not decided", "one repetition only", "not measured",
		"disagrees"}[v]
}

// Finding is the verdict of results on one comparison, with the numbers.
type Finding struct {
	What    string // is compared
	Ours    string // values with intervals
	Verdict Verdict
	P       float64 // of a contradiction: the probability that chance shows so much of one, two-sided
	Needed  float64 // repetitions that would decide, by the mean and the deviation of those that there are
	N       int     // repetitions that it rests on
	Wanted  int     // that the experiment asks for; 0: unknown
	Quick   bool    // it rests on the short variant of the experiment
}

// Outcome is the verdict of results on a relation, with the findings.
type Outcome struct {
	*Relation
	Mark     string // of the statement, or of the reading
	Findings []Finding
	Verdict  Verdict
	Holding  int     // findings that agree, at least in sign
	Needed   float64 // repetitions that would decide all findings that nothing decides
	Missing  int     // repetitions that are missing of the finding that lacks most
	N        int     // repetitions of the finding that has least
	Quick    bool
	Same     bool // the reading changes nothing of it
}

const (
	defaultSame = 0.05 // see Compare.Within
	defaultNear = 0.25
	level       = 0.05
)

// judge evaluates a relation under a reading; nil: that of the text.
func (s *Study) judge(d data, r *Relation, reading *Reading) Outcome {
	o := Outcome{Relation: r, Mark: r.Mark, N: math.MaxInt, Same: true}
	if reading != nil && r.Mark == "" && slices.ContainsFunc(reading.Fitted, func(begin string) bool {
		return strings.HasPrefix(r.Says, begin)
	}) {
		o.Mark = "fitted"
	}
	for i := range r.Checks {
		for _, c := range expand(&r.Checks[i]) {
			o.Same = !s.read(d, &c, reading) && o.Same
			o.Findings = append(o.Findings, s.find(d, &c))
		}
	}
	holm(o.Findings)
	for _, f := range o.Findings {
		o.Verdict = max(o.Verdict, f.Verdict)
		if f.Verdict <= InSign {
			o.Holding++
		}
		if f.Verdict == Undecided {
			o.Needed = max(o.Needed, f.Needed)
		}
		o.Missing = max(o.Missing, f.Wanted-f.N)
		o.N = min(o.N, f.N)
		o.Quick = o.Quick || f.Quick
	}
	if r.Mostly && o.Verdict == Undecided && 2*o.Holding > len(o.Findings) {
		o.Verdict = Agrees
	}
	if len(o.Findings) == 0 {
		o.Verdict, o.N = Unmeasured, 0
	}
	return o
}

// holm leaves those contradictions that chance does not explain among so many comparisons: by Holm's correction the
// k-th smallest of m probabilities has to be below the level over m - k + 1.
func holm(findings []Finding) {
	var against []*Finding
	for i := range findings {
		if findings[i].Verdict == Disagrees {
			against = append(against, &findings[i])
		}
	}
	slices.SortStableFunc(against, func(a, b *Finding) int { return cmp.Compare(a.P, b.P) })
	for k, f := range against {
		if f.P > level/float64(len(findings)-k) {
			for _, f := range against[k:] {
				t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(f.N - 1)}
				wider := t.Quantile(1-level/float64(len(findings)-k)/2) / t.Quantile(1-level/2)
				f.Verdict, f.Needed = Undecided, f.Needed*wider*wider
			}
			return
		}
	}
}

// read turns a comparison into that of a reading, and reports whether that changes anything. A comparison of two
// experiments stays that of the text unless both have the reading.
func (s *Study) read(d data, c *Compare, r *Reading) (changes bool) {
	if r == nil {
		return false
	}
	of, ofB := s.declares(c.Of, r.Name), s.declares(cmp.Or(c.OfB, c.Of), r.Name)
	if of != ofB {
		return false
	}
	if of {
		c.Of, changes = c.Of+"@"+r.Name, true
	}
	if of && c.OfB != "" {
		c.OfB += "@" + r.Name
	}
	for _, m := range []*string{&c.Metric, &c.MetB} {
		if other, has := r.Instead["metric"][*m]; has {
			*m, changes = other, true
		}
	}
	if r.Where == nil {
		for _, sel := range []*Selector{&c.At, &c.A, &c.B} {
			if others := r.others(*sel); len(others) > 0 {
				*sel, changes = sel.with(others), true
			}
		}
		return changes
	}
	sides := []struct {
		own *Selector
		of  string
	}{{&c.A, c.Of}, {&c.B, cmp.Or(c.OfB, c.Of)}}
	if c.B == nil && c.OfB == "" && c.MetB == "" {
		sides = sides[:1]
	}
	for _, side := range sides {
		at := c.At.with(*side.own)
		if others := r.others(at); len(others) > 0 && r.holds(d[side.of], at) {
			*side.own, changes = side.own.with(others), true
		}
	}
	return changes
}

// others has the parameters of a selector of which a reading replaces values.
func (r *Reading) others(sel Selector) Selector {
	out := Selector{}
	for param, values := range sel {
		for i, v := range values {
			if other, has := r.Instead[param][v]; has {
				if out[param] == nil {
					out[param] = slices.Clone(values)
				}
				out[param][i] = other
			}
		}
	}
	return out
}

// holds reports whether a selector chooses cells that the reading changes.
func (r *Reading) holds(set *results.Set, sel Selector) bool {
	return set != nil && slices.ContainsFunc(set.Cells, func(c *results.Cell) bool {
		return sel.matches(c) && r.Where.matches(c)
	})
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
			with.Claim = cmp.Or(map[string]string{"rises": "above", "falls": "below"}[c.Claim], c.Claim)
			pairs = append(pairs, with)
		}
	}
	return pairs
}

// varying returns the part of a selector that At and the other side do not have alike.
func varying(sel, other Selector) Selector {
	sel = maps.Clone(sel)
	maps.DeleteFunc(sel, func(k string, v Values) bool { return slices.Equal(v, other[k]) })
	return sel
}

func (s *Study) find(d data, c *Compare) Finding {
	atA, atB := c.At.with(c.A), c.At.with(c.B)
	m := s.Metrics[c.Metric]
	m.Scale = cmp.Or(m.Scale, 1)
	a := d.sample(c.Of, atA, c.Metric)
	f := Finding{Wanted: a.wanted, N: len(a.values), Needed: math.Inf(1)}
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
	unit := strings.TrimRight(" "+m.Unit, " ")
	cut := ""
	if a.cut > 0 {
		cut = fmt.Sprintf(" (%d of %d runs cut off)", a.cut, a.runs)
	}
	if !two {
		i := a.interval(m.Scale)
		f.Ours = i.String() + unit + cut
		f.alone(i, c)
		return f
	}
	b := d.sample(cmp.Or(c.OfB, c.Of), atB, cmp.Or(c.MetB, c.Metric))
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
	diff, ia, ib := scaled(delta, 1), scaled(x, m.Scale), scaled(y, m.Scale)
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
	f.between(diff, ib, shown, same, c)
	return f
}

func signed(i report.Interval) string {
	text := i.String()
	if i.Mean > 0 && !strings.HasPrefix(text, "-") {
		return "+" + text
	}
	return strings.Replace(text, "-", "−", 1)
}

func (s *Study) title(c *Compare, two bool) string {
	if c.Label != "" {
		if at := s.describe(eachOf(c)); at != "" {
			return c.Label + ", " + at
		}
		return c.Label
	}
	label := cmp.Or(s.Metrics[c.Metric].Label, c.Metric)
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

// stability judges by the rule of Ilyushkin and Epema, section V: each test holds in two of three runs. Wilson's
// interval of the share of runs that pass both stands beside it.
func stability(f Finding, a *sample, claim string) Finding {
	f.N = a.judged
	f.Wanted = a.wanted * a.cells
	if a.judged == 0 {
		f.Verdict, f.Ours = Unmeasured, "no run is long enough for the tests"
		return f
	}
	low, high := share(a.stable, a.judged)
	f.Ours = fmt.Sprintf("stable by Wieland's test in %d of %d runs, by drift in %d; by both in %.0f to %.0f %%",
		a.wieland, a.judged, a.drift, max(0, 100*low), 100*high)
	if a.cut > 0 {
		f.Ours += fmt.Sprintf(", %d cut off", a.cut)
	}
	stable := 3*min(a.wieland, a.drift) >= 2*a.judged
	switch {
	case a.judged < 2:
		f.Verdict = TooFew
	case stable != (claim == "stable"):
		f.Verdict = Disagrees
	}
	return f
}

// region is where a claim holds.
type region struct {
	lo, hi float64
	strict bool // its bounds are not in it: an order of two means
}

func around(x, within float64) region { return region{lo: x - within, hi: x + within} }

// decide judges whether a mean lies in a region: it does if its interval does, and does not if its interval lies
// outside. Equivalence takes two one-sided tests, and so an interval of 90 %.
func (f *Finding) decide(i report.Interval, r region, equivalence bool) {
	if i.N < 2 || math.IsNaN(i.Half) {
		f.Verdict = TooFew
		return
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(i.N - 1)}
	inside, outside := min(i.Mean-r.lo, r.hi-i.Mean), max(r.lo-i.Mean, i.Mean-r.hi)
	half := i.Half
	if equivalence && inside > 0 {
		half *= t.Quantile(1-level) / t.Quantile(1-level/2)
	}
	switch {
	case inside >= half && (inside > 0 || !r.strict):
		f.Verdict = Agrees
	case outside > half:
		if f.Verdict, f.P = Disagrees, 0; half > 0 {
			f.P = 2 * t.CDF(-outside*t.Quantile(1-level/2)/half)
		}
	default:
		f.Verdict = Undecided
	}
	if distance := math.Abs(inside); distance > 0 {
		f.Needed = float64(i.N) * (half / distance) * (half / distance)
	}
}

// alone judges a value against a bound or a figure of the paper.
func (f *Finding) alone(i report.Interval, c *Compare) {
	switch c.Claim {
	case "at-most":
		f.decide(i, region{lo: math.Inf(-1), hi: *c.Bound}, false)
	case "at-least":
		f.decide(i, region{lo: *c.Bound, hi: math.Inf(1)}, false)
	default:
		within := cmp.Or(c.Within, defaultNear) * math.Abs(*c.Paper)
		if f.decide(i, around(*c.Paper, within), false); f.Verdict == Undecided && meets(i, c, within) {
			f.Verdict = Agrees
		}
	}
}

// meets reports whether a mean is near the paper's figure, or its interval has that.
func meets(i report.Interval, c *Compare, within float64) bool {
	off := math.Abs(i.Mean - *c.Paper)
	return off <= within || off <= i.Half
}

// between judges a difference: its sign, then the paper's figure against the shown value.
func (f *Finding) between(diff, base, shown report.Interval, same bool, c *Compare) {
	switch c.Claim {
	case "identical":
		f.Verdict = Agrees
		if !same {
			f.Verdict = Disagrees
		}
		return
	case "same":
		within := cmp.Or(c.Within, defaultSame)
		if c.As != "difference" {
			within *= math.Abs(base.Mean)
		}
		f.decide(diff, around(0, within), true)
		return
	case "above":
		f.decide(diff, region{0, math.Inf(1), true}, false)
	default:
		f.decide(diff, region{math.Inf(-1), 0, true}, false)
	}
	if same && f.Verdict == Undecided && base.Mean != 0 { // no repetition would tell identical runs apart
		f.Verdict = Disagrees
	}
	if c.Paper == nil || f.Verdict > Undecided {
		return
	}
	within := cmp.Or(c.Within, defaultNear) * math.Abs(*c.Paper)
	if f.Verdict == Agrees {
		if !meets(shown, c, within) {
			f.Verdict = InSign
		}
		return
	}
	figure := *f // neither the sign nor the figure
	if figure.decide(shown, around(*c.Paper, within), false); figure.Verdict == Disagrees {
		*f = figure
	}
}

// data are the results of a study, by the name of the experiment.
type data map[string]*results.Set

// matches reports whether a cell has the parameters of a selector.
func (s Selector) matches(c *results.Cell) bool {
	for k, want := range s {
		if v, has := c.Params[k]; !has || !slices.Contains(want, v) {
			return false
		}
	}
	return true
}

// unknown reports a metric of a comparison that no run has, though some have ended that the comparison is about.
func (s *Study) unknown(sets []*results.Set) error {
	known := map[string]bool{}
	for _, set := range sets {
		maps.Copy(known, report.KnownMetrics(set.Cells))
	}
	d := (&Page{Sets: sets}).data()
	for by, c := range s.comparisons() {
		for _, of := range []struct {
			experiment, metric string
			at                 Selector
		}{{c.Of, c.Metric, c.At.with(c.A)}, {cmp.Or(c.OfB, c.Of), c.MetB, c.At.with(c.B)}} {
			for name := range strings.SplitSeq(of.metric, "-") {
				if name == "" || known[name] {
					continue
				}
				if has := d.sample(of.experiment, of.at, name); has.cut < has.runs {
					return fmt.Errorf("%s: no run has metric %q; %s", by, name,
						spelling.Hint(name, slices.Sorted(maps.Keys(known))))
				}
			}
		}
	}
	return nil
}

// sample is a metric by repetition, averaged over the cells that a selector chooses.
type sample struct {
	values map[int]float64
	cells  int
	cut    int // runs of them that were cut off
	runs   int // that ended or were cut off
	wanted int // repetitions that the experiment asks for
	// Of judged runs, those that both tests find stable, and each of them.
	stable, wieland, drift, judged int
}

// sample has no cells if one of the values that a selector lists has none: a mean over others is not comparable.
func (d data) sample(of string, sel Selector, metric string) sample {
	out := sample{values: map[int]float64{}}
	set := d[of]
	if set == nil {
		return out
	}
	out.wanted = set.Repetitions
	for param, values := range sel {
		for _, v := range values {
			if !slices.ContainsFunc(set.Cells, sel.with(Selector{param: {v}}).matches) {
				return out
			}
		}
	}
	sums, counts := map[int]float64{}, map[int]int{}
	for _, c := range set.Cells {
		if !sel.matches(c) {
			continue
		}
		out.cells++
		for i := range c.Runs {
			r := &c.Runs[i]
			if r.State == experiment.Failed {
				continue
			}
			out.runs++
			if w, ok := r.Values["wieland_stable"]; ok {
				drift := int(r.Values["drift_stable"])
				out.judged, out.wieland, out.drift = out.judged+1, out.wieland+int(w), out.drift+drift
				out.stable += int(w) * drift
			}
			if r.State == experiment.Diverged {
				if out.cut++; !strings.HasSuffix(metric, "_stable") {
					continue
				}
			}
			if v, ok := value(r, metric); ok {
				sums[r.Repetition] += v
				counts[r.Repetition]++
			}
		}
	}
	for rep, n := range counts {
		if n == out.cells { // of an interrupted experiment only the repetitions that all cells have
			out.values[rep] = sums[rep] / float64(n)
		}
	}
	return out
}

// value is a metric of a run, or one less another.
func value(r *results.Run, metric string) (float64, bool) {
	first, second, difference := strings.Cut(metric, "-")
	v, ok := r.Values[first]
	if difference {
		less, has := r.Values[second]
		v, ok = v-less, ok && has
	}
	return v, ok
}

func (s *sample) list() []float64 {
	var out []float64
	for _, rep := range slices.Sorted(maps.Keys(s.values)) {
		out = append(out, s.values[rep])
	}
	return out
}

func (s *sample) interval(scale float64) report.Interval { return scaled(s.list(), scale) }

// scaled is the interval of values in another unit.
func scaled(values []float64, scale float64) report.Interval {
	i := metrics.Confidence(values)
	return report.Interval{N: i.N, Mean: i.Mean * scale, Half: i.Half * scale}
}

// pair returns the values of the repetitions that both have, which met the same load.
func pair(a, b *sample) (x, y []float64) {
	for _, rep := range slices.Sorted(maps.Keys(a.values)) {
		if v, ok := b.values[rep]; ok {
			x, y = append(x, a.values[rep]), append(y, v)
		}
	}
	return x, y
}

// ratio is the interval of mean(x)/mean(y) over paired values, by the standard error of the ratio estimator: that of
// x - r·y over the mean of y.
func ratio(x, y []float64) report.Interval {
	n := len(x)
	if n == 0 {
		return report.Interval{Mean: math.NaN(), Half: math.NaN()}
	}
	mean := stat.Mean(y, nil)
	r := stat.Mean(x, nil) / mean
	out := report.Interval{N: n, Mean: r, Half: math.NaN()}
	if n < 2 {
		return out
	}
	rest := make([]float64, n)
	for i := range x {
		rest[i] = x[i] - r*y[i]
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(n - 1)}.Quantile(0.975)
	out.Half = t * stat.StdDev(rest, nil) / math.Sqrt(float64(n)) / math.Abs(mean)
	return out
}

// share is Wilson's 95 % interval of a share of n.
func share(k, n int) (low, high float64) {
	const z = 1.959964
	p, m := float64(k)/float64(n), float64(n)
	middle := (p + z*z/(2*m)) / (1 + z*z/m)
	half := z / (1 + z*z/m) * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return middle - half, middle + half
}

// words names parameters and values as pages do.
func (s *Study) words(param, value string) string {
	p := s.Params[param]
	if v, ok := p.Values[value]; ok {
		return v
	}
	if p.Label != "" {
		return p.Label + " " + value
	}
	return value
}

// unlabelled names a value where its parameter is named already.
func (s *Study) unlabelled(param, value string) string {
	return strings.TrimPrefix(s.words(param, value), s.Params[param].Label+" ")
}

// describe names the parameters of a selector, the policy first.
func (s *Study) describe(sel Selector) string {
	keys := slices.SortedFunc(maps.Keys(sel), func(a, b string) int {
		return cmp.Or(order(a)-order(b), cmp.Compare(a, b))
	})
	var parts []string
	for _, k := range keys {
		var values []string
		for _, v := range sel[k] {
			if w := s.words(k, v); w != "" {
				values = append(values, w)
			}
		}
		if len(values) > 3 {
			values = []string{fmt.Sprintf("mean over %d", len(sel[k])), cmp.Or(s.Params[k].Label, k)}
			parts = append(parts, strings.Join(values, " "))
			continue
		}
		if len(values) > 0 {
			parts = append(parts, strings.Join(values, " and "))
		}
	}
	return strings.Join(parts, ", ")
}

func order(param string) int {
	switch {
	case param == "policy":
		return 0
	case param == "workload", param == "cluster":
		return 1
	}
	return 2
}
