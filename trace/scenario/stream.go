package scenario

import (
	"bufio"
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"gantry/trace/generate"
	"gantry/trace/reader"
)

// Stream describes workflows that are drawn rather than listed: their kinds, their work, and their arrivals.
//
//	count: 3000
//	mix:                        # fractions are relative to each other; 1
//	  - {generator: montage, fraction: 0.4}
//	  - {generator: inspiral, fraction: 0.4, tasks: 100..200}     # its own sizes
//	  - {generator: random, fraction: 0.1, fat: [0.2, 0.8], density: 0.1, regular: 0.9, jump: 1, ccr: 0}
//	  - {generator: mapreduce, tasks: 1..100, map_time: 50s, slots: true}
//	                            # sizes are of map tasks; see generate.MapReduce
//	  - {generator: mixed, shape: [0.5, 1, 2], out_degree: [1, 2, 3, 4, 5], ccr: [0.1, 1],
//	     brange: [0.1, 1], wdag: 100..1000, processors: 1..4}
//	                            # tasks over several processors that cost differently on each node; see generate.Mixed
//	  - {trace: montage.dax, fraction: 0.1, inputs: data, image: busybox}     # or a directory of traces: equal shares
//	  - {generator: terasort, tasks: 3, class: deadline} # all of this part are of one class, despite classes
//	tasks: 30                   # sizes of generated workflows: a number, or a range 30..38
//	sizes:                      # or classes of sizes
//	  - {fraction: 0.75, tasks: 30..38, even: true}
//	  - {fraction: 0.25, tasks: 40..198, even: true}
//	files: true                 # false leaves the files of generated workflows out: nothing is read or written
//	total_runtime:              # of all tasks of a workflow; runtimes are scaled to it
//	  distribution: hyper-gamma # lognormal, constant or as-generated
//	  mean: 1h                  # as-generated: one factor for the whole stream brings its mean there
//	  stages: [{weight: 0.7, shape: 5, scale: 501.266}, {weight: 0.3, shape: 45, scale: 136.709}]
//	                            # these are the default
//	  variation: 1              # of lognormal: standard deviation over mean
//	arrivals:
//	  process: poisson          # fixed, batch, closed, trace or poisson-intervals: whole seconds,
//	                            # Poisson-distributed around interval
//	  rate: 98/h                # or
//	  interval: 10s             # mean of the intervals between arrivals, or
//	  utilisation: 0.98         # of the cluster: rate = utilisation x sum of cores x speed / mean work of a workflow
//	  interval: 10s             # of fixed and poisson-intervals
//	  exact: true               # of poisson: the set itself has the load that is named, not its expectation; its
//	                            # span is stretched for that
//	  population: 60            # of closed: this number of workflows is in the system; the next arrives as one ends
//	  times: times.csv          # of trace: a time a line, as a duration or in seconds after the start; or
//	  column: 2                 # that column of lines with several, 1 being the first
//	tenants: [{name: a, fraction: 2}, {name: b, fraction: 1}]
//	classes: {deadline: 0.3, regular: 0.5, low: 0.2}
//	releases: {probability: 0.5, after: 1s..50000s}
//	                            # a workflow has this probability (1 by default) of a release time later than its
//	                            # arrival, by a uniform time: of whole seconds if both ends are
//	deadlines: {factor: 2..5}   # of the workflows of class deadline, or of all if there are no classes:
//	                            # earliest start + factor x critical path (at speed 1), uniform; or
//	                            # {after: 1h..3h}: earliest start + that; or
//	                            # {multiplier: 1..5}: earliest start + multiplier x the time that the workflow takes
//	                            # alone on the cluster, rounded up to a second; or
//	                            # {normal: 2}: earliest start + a normal time with a mean of 2 μ and a standard
//	                            # deviation of μ/3, cut at three of them; μ is the mean critical path of the
//	                            # workflows of the same part of the mix
type Stream struct {
	Count    int
	Mix      []StreamSource
	Sizes    []generate.SizeClass // of generated workflows whose source has none of its own
	Files    bool
	Total    TotalRuntime
	Arrivals ArrivalProcess
	Tenants  []Share
	Classes  []Share
	Release  *ReleaseRule  // nil: workflows may start when they arrive
	Deadline *DeadlineRule // nil: there are none
	Line     int
}

// StreamSource is a share of the workflows of a stream: made by a generator, or read from a trace.
type StreamSource struct {
	Fraction  float64 // relative to the other sources
	Generator string  // or
	Trace     string  // path of a trace or of a directory of traces, resolved
	Inputs    string  // directory with the files of the trace from outside, resolved; "" if they are to be made up
	Image     string  // container image of the tasks that name none
	// of a trace: block I/O that tasks ask for which do not say, bytes per second; 0: their share by cores
	Disk    int64
	Data    *Data                // nil: as the workload says
	Sizes   []generate.SizeClass // nil: those of the stream
	Choices *generate.Choices    // of the parameters of the generator; nil: it has none
	Class   string               // of all its workflows: deadline, regular or low; "": drawn
	Line    int                  // of the generator or trace
}

// TotalRuntime is the distribution that the total runtimes of workflows are scaled to.
type TotalRuntime struct {
	Distribution string           // hyper-gamma, lognormal, constant or as-generated
	Mean         time.Duration    // 0: not said
	Variation    float64          // of lognormal: standard deviation over mean
	Stages       []generate.Gamma // of hyper-gamma; empty: not said
}

// ArrivalProcess says when workflows arrive.
type ArrivalProcess struct {
	Process     string // poisson, poisson-intervals, fixed, batch or trace
	PerHour     float64
	Utilisation float64 // instead of PerHour; 1 is full
	Interval    time.Duration
	Times       []time.Duration
	Population  int  // of closed: workflows in the system
	Exact       bool // of poisson: the set itself has the load, not its expectation
	Line        int
}

// Share is a named share of the workflows.
type Share struct {
	Name     string
	Fraction float64
}

// ReleaseRule sets earliest starts: with a probability the arrival plus a time drawn uniformly from low to high, else
// the arrival.
type ReleaseRule struct {
	Probability float64
	After       [2]time.Duration
}

// DeadlineRule sets deadlines by a multiple of the critical path, by a time, or by a multiple of the time a workflow
// takes alone on the cluster, after the earliest start; drawn uniformly from low to high. One of them is given: its
// second value is above 0. Or, with Normal, by a time that is normal with a mean of Normal times μ and a standard
// deviation of μ/3, cut at three of them (3DSF, section 9, where the factor is lost); μ is the mean critical path of
// the workflows of the same part of the mix.
type DeadlineRule struct {
	Normal     float64
	Factor     [2]float64
	After      [2]time.Duration
	Multiplier [2]float64 // em of Lim et al. 2017, Table 1
}

const maxTasks = 10_000_000

func (y *doc) streamKeys(s *Stream) []yamlKey {
	return []yamlKey{
		{"count", y.count(&s.Count, "count", 1, maxArrivals)},
		{"mix", func(v *reader.Node) { y.Sequence(v, "mix", func(v *reader.Node) { y.source(s, v) }) }},
		{"tasks", y.tasks(&s.Sizes)},
		{"sizes", y.sizes(&s.Sizes)},
		{"files", y.bool(&s.Files, "files")},
		{"total_runtime", func(v *reader.Node) { y.total(&s.Total, v) }},
		{"arrivals", func(v *reader.Node) { y.arrivals(&s.Arrivals, v) }},
		{"tenants", func(v *reader.Node) {
			names := map[string]bool{}
			y.Sequence(v, "tenants", func(v *reader.Node) {
				t := Share{Fraction: 1}
				has := y.keyed(v, "a tenant", []yamlKey{{"name", y.string(&t.Name)},
					{"fraction", y.share(&t.Fraction)}})
				if has != nil && t.Name == "" {
					y.Faults.Fail("missing-name", y.Line(v), "", "a tenant without a name; give it one")
				}
				if names[t.Name] {
					y.Faults.Fail("bad-value", y.Line(v), "", "tenant %s is there twice", t.Name)
				}
				names[t.Name] = true
				y.keep(linkKept, v)
				s.Tenants = append(s.Tenants, t)
			})
		}},
		{"classes", func(v *reader.Node) {
			s.Classes = []Share{{Name: "deadline"}, {Name: "regular"}, {Name: "low"}}
			y.keyed(v, "classes", []yamlKey{{"deadline", y.share(&s.Classes[0].Fraction)},
				{"regular", y.share(&s.Classes[1].Fraction)},
				{"low", y.share(&s.Classes[2].Fraction)}})
			if s.Classes[0].Fraction+s.Classes[1].Fraction+s.Classes[2].Fraction == 0 {
				y.Faults.Fail("bad-value", y.Line(v), "", "classes: give at least one of deadline, regular and low "+
					"a fraction above 0")
			}
		}},
		{"releases", func(v *reader.Node) { y.releases(s, v) }},
		{"deadlines", func(v *reader.Node) { y.deadlines(s, v) }},
	}
}

// checkStream refuses values that do not go together.
func (y *doc) checkStream(s *Stream) {
	if y.Faults.HasErrors() {
		return
	}
	if s.Total.Distribution == "" {
		s.Total.Distribution = "as-generated"
	}
	if s.Arrivals.Process == "" {
		s.Arrivals.Process = "batch"
	}
	total := 0.0
	for _, src := range s.Mix {
		total += src.Fraction
		if src.Generator != "" && len(src.Sizes) == 0 && len(s.Sizes) == 0 {
			y.Faults.Fail("missing-size", src.Line, "", "how large are the workflows of generator %s? Say tasks, "+
				"such as 30 or 30..38, or sizes", src.Generator)
		}
	}
	tenants := 0.0
	for _, t := range s.Tenants {
		tenants += t.Fraction
	}
	drawn := len(s.Classes) == 0 || s.Classes[0].Fraction > 0
	hasDeadlines, needsDeadlines := false, false
	for _, src := range s.Mix {
		hasDeadlines = hasDeadlines || src.Class == "deadline" || src.Class == "" && drawn
		needsDeadlines = needsDeadlines || src.Class == "deadline" || src.Class == "" && drawn && len(s.Classes) > 0
	}
	switch {
	case len(s.Mix) == 0:
		y.Faults.Fail("no-workflows", s.Line, "", "mix is empty; name a generator or a trace")
	case total == 0:
		y.Faults.Fail("bad-value", s.Line, "", "the fractions of mix have to sum to more than 0")
	case s.Count == 0:
		y.Faults.Fail("missing-count", s.Line, "", "a mix without count: say how many workflows there are")
	case s.Arrivals.Process == "trace" && len(s.Arrivals.Times) < s.Count:
		y.Faults.Fail("few-times", s.Arrivals.Line, "", "too few recorded arrival times: %d, and count is %d",
			len(s.Arrivals.Times), s.Count)
	case len(s.Tenants) > 0 && tenants == 0:
		y.Faults.Fail("bad-value", s.Line, "", "the fractions of tenants have to sum to more than 0")
	case s.Deadline == nil && needsDeadlines:
		y.Faults.Fail("missing-deadline", s.Line, "", "workflows of class deadline need a deadline: say deadlines, "+
			"such as {factor: 2}")
	case s.Deadline != nil && !hasDeadlines:
		y.Faults.Fail("no-deadline", s.Line, "", "deadlines are for workflows of class deadline, and classes gives "+
			"it no fraction, nor has a part of the mix that class")
	}
}

func (y *doc) source(s *Stream, v *reader.Node) {
	src := StreamSource{Fraction: 1, Line: y.Line(v)}
	given := map[string]*reader.Node{} // parameters of the generator
	keys := []yamlKey{
		{"generator", func(v *reader.Node) { src.Generator, src.Line = y.Text(v), y.Line(v) }},
		{"trace", func(v *reader.Node) { src.Trace, src.Line = y.Text(v), y.Line(v) }},
		{"fraction", y.share(&src.Fraction)},
		{"tasks", y.tasks(&src.Sizes)},
		{"sizes", y.sizes(&src.Sizes)},
		{"inputs", y.string(&src.Inputs)},
		{"image", y.string(&src.Image)},
		{"disk", y.amount(&src.Disk, "disk", "/s")},
		{"class", y.class(&src.Class)},
		{"data", y.data(&src.Data)},
	}
	for _, key := range generate.Keys() {
		keys = append(keys, yamlKey{key, func(v *reader.Node) { given[key] = v }})
	}
	if y.keyed(v, "a part of the mix", keys) == nil {
		return
	}
	switch {
	case (src.Generator == "") == (src.Trace == ""):
		y.Faults.Fail("bad-source", src.Line, "", "a part of the mix has either a generator or a trace")
		return
	case src.Trace != "" && len(src.Sizes) > 0:
		y.Faults.Fail("bad-source", src.Line, "", "a trace has its own size: tasks and sizes are for generators")
	case src.Generator != "" && (src.Inputs != "" || src.Image != "" || src.Disk > 0):
		y.Faults.Fail("bad-source", src.Line, "",
			"inputs, image and disk are for traces: generated workflows are emulated")
	}
	y.parameters(&src, given)
	src.Trace, src.Inputs = y.below(src.Trace), y.below(src.Inputs)
	y.keep(sourceKept+len(src.Trace)+len(src.Inputs), v)
	s.Mix = append(s.Mix, src)
}

// parameters reads the parameters that the generator of a part declares.
func (y *doc) parameters(src *StreamSource, given map[string]*reader.Node) {
	k, err := generate.Find(src.Generator)
	if err == nil {
		src.Choices = k.Choices()
	}
	for _, key := range generate.Keys() {
		v, ok := given[key]
		if !ok {
			continue
		}
		if k.Param(key) == nil {
			y.Faults.Fail("bad-source", src.Line, "", "%s is for generator %s, and this one is %q", key,
				strings.Join(generate.KindsWith(key), " or "), src.Generator)
			continue
		}
		texts := []string{}
		if y.IsList(v) {
			y.Sequence(v, key, func(v *reader.Node) { texts = append(texts, y.Text(v)) })
		} else {
			texts = append(texts, y.Text(v))
		}
		if err := src.Choices.Set(key, texts...); err != nil {
			y.Faults.Fail("bad-number", y.Line(v), "", "%v", err)
		}
	}
}

func (y *doc) tasks(to *[]generate.SizeClass) func(*reader.Node) {
	return func(v *reader.Node) {
		c := generate.SizeClass{Fraction: 1}
		y.size(&c)(v)
		y.setSizes(to, v, []generate.SizeClass{c})
	}
}

func (y *doc) setSizes(to *[]generate.SizeClass, v *reader.Node, sizes []generate.SizeClass) {
	if *to != nil {
		y.Faults.Fail("duplicate-key", y.Line(v), "", "tasks and sizes exclude each other")
	}
	*to = sizes
}

func (y *doc) sizes(to *[]generate.SizeClass) func(*reader.Node) {
	return func(v *reader.Node) {
		sizes, total := []generate.SizeClass{}, 0.0
		y.Sequence(v, "sizes", func(v *reader.Node) {
			c := generate.SizeClass{Fraction: 1}
			if y.keyed(v, "a size class", []yamlKey{{"fraction", y.share(&c.Fraction)}, {"tasks", y.size(&c)},
				{"even", y.bool(&c.Even, "even")}}) == nil {
				return
			}
			if c.Max == 0 && !y.Faults.HasErrors() {
				y.Faults.Fail("missing-size", y.Line(v), "", "a size class without tasks, such as 30 or 30..38")
			}
			if c.Even && c.Min == c.Max && c.Min%2 == 1 {
				y.Faults.Fail("bad-value", y.Line(v), "", "there is no even size from %d to %d", c.Min, c.Max)
			}
			total += c.Fraction
			sizes = append(sizes, c)
		})
		if total == 0 && !y.Faults.HasErrors() {
			y.Faults.Fail("bad-value", y.Line(v), "", "the fractions of sizes have to sum to more than 0")
		}
		y.setSizes(to, v, sizes)
	}
}

// size reads "30", "30..38" or [30, 38].
func (y *doc) size(c *generate.SizeClass) func(*reader.Node) {
	return func(v *reader.Node) {
		ends := y.ends(v)
		lo, err := strconv.Atoi(ends[0])
		hi, err2 := strconv.Atoi(ends[1])
		if err != nil || err2 != nil || lo < 1 || hi < lo || hi > maxTasks {
			y.Faults.Fail("bad-number", y.Line(v), "", "tasks has to be a number such as 30 or a range such as "+
				"30..38, from 1 to %d", maxTasks)
			return
		}
		c.Min, c.Max = lo, hi
	}
}

// ends splits a range "a..b" or [a, b]; a single value is both of its ends.
func (y *doc) ends(v *reader.Node) [2]string {
	if y.IsList(v) {
		list := y.Value(v).Content
		if len(list) != 2 {
			return [2]string{}
		}
		return [2]string{y.Text(list[0]), y.Text(list[1])}
	}
	low, high, ok := strings.Cut(y.Text(v), "..")
	if !ok {
		high = low
	}
	return [2]string{strings.TrimSpace(low), strings.TrimSpace(high)}
}

func (y *doc) total(t *TotalRuntime, v *reader.Node) {
	line := y.Line(v)
	const most, upTo = 1e12, "above 0 and up to 1000000000000"
	if y.keyed(v, "total_runtime", []yamlKey{
		{"distribution", y.word(&t.Distribution, "total_runtime: distribution", "hyper-gamma", "lognormal", "constant",
			"as-generated")},
		{"mean", y.duration(&t.Mean, "mean")},
		{"variation", y.positive(&t.Variation, "variation", 100, "above 0 and up to 100")},
		{"stages", func(v *reader.Node) {
			y.Sequence(v, "stages", func(v *reader.Node) {
				g := generate.Gamma{Weight: 1}
				y.keyed(v, "a stage", []yamlKey{{"weight", y.positive(&g.Weight, "weight", most, upTo)},
					{"shape", y.positive(&g.Shape, "shape", most, upTo)},
					{"scale", y.positive(&g.Scale, "scale", most, upTo+", in seconds")}})
				if (g.Shape == 0 || g.Scale == 0) && !y.Faults.HasErrors() {
					y.Faults.Fail("bad-value", y.Line(v), "", "a stage needs a shape and a scale in seconds")
				}
				t.Stages = append(t.Stages, g)
			})
		}},
	}) == nil || y.Faults.HasErrors() {
		return
	}
	fail := func(format string, args ...any) {
		y.Faults.Fail("bad-total", line, "", "total_runtime: "+format, args...)
	}
	switch d := t.Distribution; {
	case d == "":
		fail("say which distribution: hyper-gamma, lognormal, constant or as-generated")
	case t.Mean == 0 && (d == "lognormal" || d == "constant"):
		fail("%s needs a mean, such as 1h", d)
	case t.Variation == 0 && d == "lognormal":
		fail("lognormal needs a variation: standard deviation over mean")
	case t.Variation > 0 && d != "lognormal":
		fail("variation is for lognormal")
	case len(t.Stages) > 0 && d != "hyper-gamma":
		fail("stages are for hyper-gamma")
	}
}

func (y *doc) arrivals(a *ArrivalProcess, v *reader.Node) {
	line, times, column := y.Line(v), "", 0
	a.Line = line
	has := y.keyed(v, "arrivals", []yamlKey{
		{"process", y.word(&a.Process, "arrivals: process", "poisson", "poisson-intervals", "fixed", "batch", "closed",
			"trace")},
		{"rate", numeric(y, &a.PerHour, "rate", rate, func(x float64) bool { return x >= 1e-6 && x <= 1e12 },
			"arrivals per time, such as 98/h, 0.5/s or 1/22s, from 0.000001/h to 1000000000000/h")},
		{"utilisation", y.positive(&a.Utilisation, "utilisation", 10, "above 0 and up to 10; 1 is full")},
		{"interval", y.duration(&a.Interval, "interval")},
		{"exact", y.bool(&a.Exact, "arrivals: exact")},
		{"times", y.string(&times)},
		{"population", y.count(&a.Population, "population", 1, maxArrivals)},
		{"column", y.count(&column, "column", 1, 1000)},
	})
	if has == nil || y.Faults.HasErrors() {
		return
	}
	fail := func(format string, args ...any) {
		y.Faults.Fail("bad-arrivals", line, "", "arrivals: "+format, args...)
	}
	takes, ok := map[string][]string{"poisson": {"rate", "utilisation", "interval", "exact"}, "fixed": {"interval"},
		"poisson-intervals": {"interval"}, "batch": nil, "trace": {"times", "column"},
		"closed": {"population"}}[a.Process]
	if !ok {
		fail("say which process: poisson, poisson-intervals, fixed, batch, closed or trace")
		return
	}
	for _, name := range []string{"rate", "utilisation", "interval", "times", "column", "population", "exact"} {
		if l, ok := has[name]; ok && !slices.Contains(takes, name) {
			line = l
			fail("%s is not for process %s", name, a.Process)
			return
		}
	}
	ways := 0
	for _, said := range []bool{a.PerHour > 0, a.Utilisation > 0, a.Interval > 0} {
		if said {
			ways++
		}
	}
	switch {
	case a.Process == "poisson" && ways != 1:
		fail("poisson needs either a rate, such as 98/h, or a mean interval, such as 100s, or a utilisation, such " +
			"as 0.98")
	case a.Process == "poisson-intervals" && a.Interval == 0:
		fail("poisson-intervals needs an interval above 0, such as 100s")
	case a.Process == "fixed" && a.Interval == 0:
		fail("fixed needs an interval above 0, such as 10s; batch lets all arrive at once")
	case a.Process == "closed" && a.Population == 0:
		fail("closed needs a population: how many workflows are in the system; the next arrives as one ends")
	case a.Process == "trace" && times == "":
		fail("trace needs times: a file with a time a line")
	case a.Process == "trace":
		var err error
		if a.Times, err = readTimes(y.below(times), column); err != nil {
			fail("times %v", err)
		}
	}
}

// rate reads "98/h", "1/22s" or "0.5/s": arrivals per hour.
func rate(text string) (perHour float64, err error) {
	number, per, _ := strings.Cut(text, "/")
	per = strings.TrimSpace(per)
	if per != "" && (per[0] < '0' || per[0] > '9') && per[0] != '.' {
		per = "1" + per
	}
	n, err := reader.Number(strings.TrimSpace(number))
	d, err2 := reader.Duration(cmp.Or(strings.Replace(per, "min", "m", 1), "0"))
	return n / d.Hours(), cmp.Or(err, err2)
}

func (y *doc) releases(s *Stream, v *reader.Node) {
	r := &ReleaseRule{Probability: 1}
	if y.keyed(v, "releases", []yamlKey{
		{"probability", y.within(&r.Probability, "probability", 0, 1, "from 0 to 1")},
		{"after", y.durations(&r.After, "after")},
	}) == nil {
		return
	}
	if r.After[1] == 0 && !y.Faults.HasErrors() {
		y.Faults.Fail("bad-value", y.Line(v), "", "releases: say how long after their arrival workflows may start, "+
			"such as after: 1s..50000s")
	}
	s.Release = r
}

func (y *doc) deadlines(s *Stream, v *reader.Node) {
	d := &DeadlineRule{}
	has := y.keyed(v, "deadlines", []yamlKey{
		{"factor", y.factorRange(&d.Factor, "factor")},
		{"after", y.durations(&d.After, "after")},
		{"multiplier", y.factorRange(&d.Multiplier, "multiplier")},
		{"normal", y.positive(&d.Normal, "normal", 1e6, "above 0 and up to 1000000")},
	})
	if has == nil {
		return
	}
	if len(has) != 1 && !y.Faults.HasErrors() {
		y.Faults.Fail("bad-value", y.Line(v), "", "deadlines: say either factor, of the critical path, or after, a "+
			"time, or multiplier, of the time a workflow "+
			"takes alone, or normal, of the mean critical path")
	}
	s.Deadline = d
}

// factorRange reads "2", "1.5..4" or [1.5, 4].
func (y *doc) factorRange(to *[2]float64, field string) func(*reader.Node) {
	return between(y, to, field, reader.Number, 1e6,
		"a number above 0 and up to 1000000, such as 2, or a range such as 1.5..4")
}

// durations reads "1h", "1h..3h" or [1h, 3h].
func (y *doc) durations(to *[2]time.Duration, field string) func(*reader.Node) {
	return between(y, to, field, reader.Duration, reader.MaxTime,
		"a duration above 0 and up to 876000h, such as 1h, or a range such as 1h..3h")
}

// between reads a range of values above 0 and up to most.
func between[T float64 | time.Duration](y *doc, to *[2]T, field string, read func(string) (T, error), most T,
	must string) func(*reader.Node) {
	return func(v *reader.Node) {
		for i, text := range y.ends(v) {
			x, err := read(text)
			if err != nil || x <= 0 || x > most {
				y.Faults.Fail("bad-number", y.Line(v), "", "%s has to be %s", field, must)
				return
			}
			to[i] = x
		}
		if to[1] < to[0] {
			y.Faults.Fail("bad-number", y.Line(v), "", "%s: the range ends before it begins", field)
		}
	}
}

// readTimes reads a time a line: seconds or a duration. Lines that begin with # or ; are comments, and so is a first
// line of words. Fields are separated by commas, semicolons or white space; column 0 is the only one.
func readTimes(path string, column int) (out []time.Duration, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", path, absent(path, err))
	}
	defer f.Close()
	in := reader.Open(f, 0)
	lines := bufio.NewScanner(in)
	header := true
	for i := 1; lines.Scan(); i++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		fields := strings.FieldsFunc(line, func(r rune) bool { return r == ',' || r == ';' || r == ' ' || r == '\t' })
		if column == 0 && len(fields) != 1 {
			return nil, fmt.Errorf("%s: line %d has %d fields: say which column has the times", path, i, len(fields))
		}
		if column > len(fields) {
			return nil, fmt.Errorf("%s: line %d has no column %d", path, i, column)
		}
		text := strings.Trim(fields[max(0, column-1)], `"`)
		d, err := reader.Seconds(text)
		if err != nil {
			d, err = reader.Duration(text)
		}
		if err != nil && header {
			header = false
			continue
		}
		header = false
		if err != nil || d < 0 {
			return nil, fmt.Errorf("%s: line %d: %q is not a time: give seconds, or a duration such as 1h30m, from "+
				"0 on", path, i, text)
		}
		if !in.Keep(timeKept) {
			return nil, fmt.Errorf("%s: line %d: %s", path, i, in.TooMuch())
		}
		out = append(out, d)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return out, nil
}

func (y *doc) count(to *int, field string, least, most int) func(*reader.Node) {
	return func(v *reader.Node) {
		x := float64(*to)
		y.number(&x, field, func(x float64) bool {
			return x >= float64(least) && x <= float64(most) && x == math.Trunc(x)
		}, fmt.Sprintf("a whole number from %d to %d", least, most))(v)
		*to = int(x)
	}
}

func (y *doc) bool(to *bool, field string) func(*reader.Node) {
	return func(v *reader.Node) {
		text := ""
		y.word(&text, field, "true", "false", "yes", "no")(v)
		*to = text == "true" || text == "yes"
	}
}

// share reads a fraction, which is relative to the others.
func (y *doc) share(to *float64) func(*reader.Node) {
	return y.within(to, "fraction", 0, 1e9, "from 0 to 1000000000")
}
