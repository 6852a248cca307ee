package scenario

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gantry/trace/reader"
	"gantry/trace/spelling"
)

// Experiment is an experiment file: which runs there are, over all combinations of the values of its factors.
type Experiment struct {
	Name, Title string
	Source      string // path of the file
	Repetitions int
	Seed        uint64     // 0: not said
	Blocks      [][]Factor // the combinations of each block are run
	Kept
	InSystem int   // a run with more workflows in the system diverges, and is cut off
	Events   int64 // a run with more events is cut off too
	Search   *Search
	Runtime  string  // of containers, on which all combinations run; "": they are simulated, or a factor says so
	Busy     float64 // cores that other programs may use beside a run on containers: it is done again beyond that
}

// Kept is what is kept of runs.
type Kept struct {
	// KeepWorkflows and KeepSeries keep results beside the metrics of each run.
	KeepWorkflows, KeepSeries bool
	// KeepTiming times the rounds: the results are then no function of the files alone.
	KeepTiming   bool
	KeepLoad     bool // a description of the workflows: runtimes, branching, parallelism
	KeepSearches bool // what searches of the plan look at; see planner.SearchCounter
}

// Predicted is the value of the factor runtime for a simulation as a host model says that this host runs containers.
const Predicted = "predicted"

// On has all combinations run on runtimes instead of those of the file; none simulates them on ideal machines.
func (x *Experiment) On(runtimes ...string) {
	for i := range x.Blocks {
		x.Blocks[i] = slices.DeleteFunc(slices.Clone(x.Blocks[i]), func(f Factor) bool { return f.Name == "runtime" })
		if len(runtimes) > 0 {
			x.Blocks[i] = append(x.Blocks[i], Factor{Name: "runtime", Values: runtimes,
				Lines: make([]int, len(runtimes))})
		}
	}
}

// Runtimes are the values of the factor runtime, in order.
func (x *Experiment) Runtimes() (all []string) {
	for _, block := range x.Blocks {
		for _, f := range block {
			if f.Name == "runtime" {
				all = append(all, f.Values...)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Factor is a parameter and the values it takes. Name is policy, policy.PARAMETER, errors, estimator, startup,
// charge_planning (simulated time advances by that factor times the time of planning; results then differ from run to
// run), cluster, workload, utilisation (short for workload.arrivals.utilisation), runtime (of containers, sim or
// Predicted), time_scale and size_scale of that runtime, faults (none, or a mapping; see Faults), or workload.KEY with
// a path of keys of the workload file.
type Factor struct {
	Name   string
	Values []string // scalars as they are written, others in YAML's flow style; paths of files as they are written
	Lines  []int    // of the values
	Line   int
}

// Search asks for the largest value of a parameter at which the system is stable, among From, From + Step, …, To.
type Search struct {
	Parameter      string
	From, To, Step float64
	Line           int
}

// Values returns the values that are searched, ascending.
func (s *Search) Values() []string {
	n := int(math.Floor((s.To-s.From)/s.Step+1e-9)) + 1
	out := make([]string, n)
	for i := range out {
		out[i] = strconv.FormatFloat(math.Round((s.From+float64(i)*s.Step)*1e9)/1e9, 'g', -1, 64)
	}
	return out
}

const (
	defaultInSystem = 2000
	defaultEvents   = 200_000_000
	defaultBusy     = 0.5 // cores
	maxRepetitions  = 100_000
	maxSearched     = 10_000
	maxRuns         = 10_000_000
)

// Utilisation is the path in a workload file that the factor utilisation stands for.
const Utilisation = "workload.arrivals.utilisation"

// ReadExperiment reads an experiment file, YAML (or JSON, which is YAML); its schema is schema/experiment.schema.json.
//
//	name: slowdown
//	title: Slowdown under wrong estimates
//	workload: workload.yaml     # paths count from this file
//	cluster: cluster.yaml
//	repetitions: 10             # with seeds of their own, the same for all combinations; 1
//	seed: 1                     # without it that of the workload file
//	keep: [workflows, series]   # the time of every workflow; the number in system over time. Both by default. Also
//	                            # timing: the CPU time of planning, which differs from run to run; load: a description
//	                            # of the workflows; searches: how many reservations rm-dcwf and fifo look at
//	limit: {in_system: 2000, events: 200000000}    # a run beyond either is cut off and counts as diverged
//	faults: {node_loss: {every: 1h, for: 5m}, task_failure: 0.01}    # see Faults
//	runtime: oci                # all combinations run in containers, and simulated as this host runs containers
//	factors:                    # a list of such mappings runs the combinations of each
//	  policy: [cpp, fdws, "fwp:m=100"]
//	  errors: [none, "random1:2"]
//	  utilisation: 0.98         # one value for all
//	  workload.count: [100, 1000]
//	search: {parameter: utilisation, from: 0.8, to: 1, step: 0.01}   # the largest value at which the system is stable
//	quick:                      # the values under --quick
//	  repetitions: 2
//	  factors: {workload.count: 300}
//	readings:                   # the same for --reading NAME, with seed and keep: other readings of the text
//	  empty: {seed: 101, factors: {workload.warm_up: 0s}}
//
// Unknown keys are refused. The first fault is returned as an error with its line. The files it names are not opened.
// The values of a reading replace the others, and with quick those of the key quick replace them in turn. Results of a
// reading have its name behind the experiment's: slowdown@empty.
func ReadExperiment(r io.Reader, source string, quick bool, reading string) (*Experiment, error) {
	x := &Experiment{Source: source, Name: strings.TrimSuffix(filepath.Base(source), filepath.Ext(source)),
		Repetitions: 1, Kept: Kept{KeepWorkflows: true, KeepSeries: true}, InSystem: defaultInSystem,
		Events: defaultEvents, Busy: defaultBusy}
	if err := read(r, "experiment", source, func(y *doc, root *reader.Node) {
		y.experiment(x, root, quick, reading)
	}); err != nil {
		return nil, err
	}
	return x, nil
}

// variant has the values that --quick or --reading puts in the place of others.
type variant struct {
	repetitions int
	seed        uint64
	factors     []Factor
	search      *Search
	kept        *Kept
}

func (y *doc) variant(v *reader.Node, what string) *variant {
	out := &variant{}
	y.keyed(v, what, []yamlKey{
		{"repetitions", y.count(&out.repetitions, "repetitions", 1, maxRepetitions)},
		{"factors", func(v *reader.Node) { out.factors = y.factors(v) }},
		{"search", func(v *reader.Node) { out.search = y.search(v) }},
		{"seed", y.seed(&out.seed)},
		{"keep", func(v *reader.Node) { out.kept = y.kept(v) }},
	})
	return out
}

func (x *Experiment) take(v *variant) {
	if v.repetitions > 0 {
		x.Repetitions = v.repetitions
	}
	if v.seed > 0 {
		x.Seed = v.seed
	}
	if v.search != nil {
		x.Search = v.search
	}
	if v.kept != nil {
		x.Kept = *v.kept
	}
	for i := range x.Blocks {
		x.Blocks[i] = replace(x.Blocks[i], v.factors)
	}
}

// Read puts the values of a reading in the place of others: factors, a seed, repetitions, and what stands instead of
// policies.
func (x *Experiment) Read(seed uint64, repetitions int, factors []Factor, instead map[string]string) {
	x.take(&variant{repetitions: repetitions, seed: seed, factors: factors})
	for _, block := range x.Blocks {
		for i := range block {
			if block[i].Name != "policy" {
				continue
			}
			block[i].Values = slices.Clone(block[i].Values)
			for k, v := range block[i].Values {
				if other, has := instead[v]; has {
					block[i].Values[k] = other
				}
			}
		}
	}
}

func (y *doc) experiment(x *Experiment, root *reader.Node, quick bool, reading string) {
	var fixed []Factor
	var short *variant
	readings := map[string]*variant{}
	one := func(name string, read func(*reader.Node) string) func(*reader.Node) {
		return func(v *reader.Node) {
			fixed = append(fixed, Factor{name, []string{read(v)}, []int{y.Line(v)}, y.Line(v)})
		}
	}
	y.keyed(root, "the experiment", []yamlKey{
		{"name", y.string(&x.Name)},
		{"title", y.string(&x.Title)},
		{"workload", one("workload", y.Text)},
		{"cluster", one("cluster", y.Text)},
		{"faults", one("faults", y.flow)},
		{"time_scale", one("time_scale", y.Text)},
		{"size_scale", one("size_scale", y.Text)},
		{"runtime", y.string(&x.Runtime)},
		{"repetitions", y.count(&x.Repetitions, "repetitions", 1, maxRepetitions)},
		{"seed", y.seed(&x.Seed)},
		{"keep", func(v *reader.Node) { x.Kept = *y.kept(v) }},
		{"limit", func(v *reader.Node) {
			events := int(x.Events)
			y.keyed(v, "limit", []yamlKey{
				{"in_system", y.count(&x.InSystem, "in_system", 1, math.MaxInt32)},
				{"events", y.count(&events, "events", 1, 1e15)},
				{"busy", y.within(&x.Busy, "busy", 0, 1e6, "a number of cores from 0 to 1e6")},
			})
			x.Events = int64(events)
		}},
		{"factors", func(v *reader.Node) {
			if y.IsList(v) {
				y.Sequence(v, "factors", func(v *reader.Node) { x.Blocks = append(x.Blocks, y.factors(v)) })
				return
			}
			x.Blocks = append(x.Blocks, y.factors(v))
		}},
		{"search", func(v *reader.Node) { x.Search = y.search(v) }},
		{"quick", func(v *reader.Node) { short = y.variant(v, "quick") }},
		{"readings", func(v *reader.Node) {
			y.Mapping(v, "readings", func(name string, v *reader.Node) { readings[name] = y.variant(v, name) })
		}},
	})
	if y.Faults.HasErrors() {
		return
	}
	if len(x.Blocks) == 0 {
		x.Blocks = [][]Factor{nil}
	}
	for i := range x.Blocks {
		for _, f := range fixed {
			if !slices.ContainsFunc(x.Blocks[i], func(g Factor) bool { return g.Name == f.Name }) {
				x.Blocks[i] = append(x.Blocks[i], f)
			}
		}
	}
	if reading != "" {
		if readings[reading] == nil {
			y.Faults.Fail("no-reading", 0, "", "below readings it has no %q; it has %s", reading,
				cmp.Or(strings.Join(slices.Sorted(maps.Keys(readings)), ", "), "none"))
			return
		}
		x.take(readings[reading])
		x.Name += "@" + reading
	}
	if quick {
		if short == nil {
			y.Faults.Fail("no-quick", 0, "", "it has no key quick, which says what the short variant is")
			return
		}
		x.take(short)
	}
	y.checkExperiment(x, root)
}

func (y *doc) kept(v *reader.Node) *Kept {
	x := &Kept{}
	y.Sequence(v, "keep", func(v *reader.Node) {
		what := ""
		y.word(&what, "keep", "workflows", "series", "timing", "load", "searches")(v)
		x.KeepWorkflows = x.KeepWorkflows || what == "workflows"
		x.KeepSeries = x.KeepSeries || what == "series"
		x.KeepTiming = x.KeepTiming || what == "timing"
		x.KeepLoad = x.KeepLoad || what == "load"
		x.KeepSearches = x.KeepSearches || what == "searches"
	})
	return x
}

// replace puts the factors of by in the place of those of the same name.
func replace(factors, by []Factor) []Factor {
	out := slices.DeleteFunc(slices.Clone(factors), func(f Factor) bool {
		return slices.ContainsFunc(by, func(g Factor) bool { return g.Name == f.Name })
	})
	return append(out, by...)
}

// runs is how many runs the experiment has, one search counting as one.
func (x *Experiment) runs() (sum float64) {
	for _, block := range x.Blocks {
		product := float64(x.Repetitions)
		for _, f := range block {
			product *= float64(len(f.Values))
		}
		sum += product
	}
	return sum
}

func (y *doc) checkExperiment(x *Experiment, root *reader.Node) {
	if runs := x.runs(); runs > maxRuns {
		y.Faults.Fail("too-many", y.Line(root), "", "the factors and repetitions make %.3g runs, more than %d", runs,
			maxRuns)
		return
	}
	for _, block := range x.Blocks {
		has := map[string]bool{}
		for _, f := range block {
			has[f.Name] = true
		}
		for _, need := range []string{"workload", "cluster", "policy"} {
			if !has[need] {
				where := "as a key or as a factor"
				if need == "policy" {
					where = "as a factor"
				}
				y.Faults.Fail("missing-"+need, y.Line(root), "", "an experiment needs a %s, %s", need, where)
				return
			}
		}
		if x.Search != nil && has[x.Search.Parameter] {
			y.Faults.Fail("searched-twice", x.Search.Line, "", "%s is searched and a factor at once; leave one out",
				x.Search.Parameter)
			return
		}
	}
}

func (y *doc) search(v *reader.Node) *Search {
	s := &Search{Parameter: "utilisation", From: math.NaN(), To: math.NaN(), Step: 0.01, Line: y.Line(v)}
	y.keyed(v, "search", []yamlKey{
		{"parameter", func(v *reader.Node) {
			s.Parameter = y.Text(v)
			y.factorName(s.Parameter, y.Line(v))
		}},
		{"from", y.within(&s.From, "from", -1e12, 1e12, "a number from -1e12 to 1e12")},
		{"to", y.within(&s.To, "to", -1e12, 1e12, "a number from -1e12 to 1e12")},
		{"step", y.positive(&s.Step, "step", 1e12, "above 0 and up to 1e12")},
	})
	if !(s.From <= s.To) || (s.To-s.From)/s.Step > maxSearched {
		y.Faults.Fail("bad-search", s.Line, "", "a search needs from and to, in this order, and at most %d steps "+
			"between them", maxSearched)
		return nil
	}
	return s
}

func (y *doc) factors(v *reader.Node) []Factor {
	var out []Factor
	y.Mapping(v, "factors", func(name string, v *reader.Node) {
		if !y.factorName(name, y.KeyLine) {
			return
		}
		f := Factor{Name: name, Line: y.Line(v)}
		if y.IsList(v) {
			y.Sequence(v, name, func(v *reader.Node) {
				f.Values, f.Lines = append(f.Values, y.flow(v)), append(f.Lines, y.Line(v))
			})
		} else {
			f.Values, f.Lines = []string{y.flow(v)}, []int{f.Line}
		}
		if len(f.Values) == 0 {
			y.Faults.Fail("no-values", f.Line, "", "factor %s has no values", name)
		}
		seen := make(map[string]bool, len(f.Values))
		for _, x := range f.Values {
			if seen[x] {
				y.Faults.Fail("duplicate-value", f.Line, "", "factor %s has %s twice", name, x)
			}
			seen[x] = true
			y.keep(factorKept+len(x), v)
		}
		out = append(out, f)
	})
	return out
}

// flow is a value in one line of YAML.
func (y *doc) flow(v *reader.Node) string {
	var parts []string
	switch {
	case y.IsMapping(v):
		y.Mapping(v, "a value", func(key string, v *reader.Node) { parts = append(parts, key+": "+y.flow(v)) })
		return "{" + strings.Join(parts, ", ") + "}"
	case y.IsList(v):
		y.Sequence(v, "a value", func(v *reader.Node) { parts = append(parts, y.flow(v)) })
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return y.Text(v)
}

func (y *doc) factorName(name string, line int) bool {
	err := CheckFactor(name)
	if err != nil {
		y.Faults.Fail("unknown-key", line, "", "%v", err)
	}
	return err == nil
}

// CheckFactor reports a name that no factor has.
func CheckFactor(name string) error {
	known := []string{"policy", "errors", "estimator", "startup", "charge_planning", "cluster", "workload",
		"utilisation", "runtime", "time_scale", "size_scale", "faults"}
	if slices.Contains(known, name) {
		return nil
	}
	for _, prefix := range []string{"policy.", "workload."} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && rest != "" && !strings.HasPrefix(rest, ".") &&
			!strings.HasSuffix(rest, ".") {
			return nil
		}
	}
	return fmt.Errorf("unknown factor %q; %s", name,
		spelling.Hint(name, append(known, "policy.PARAMETER", "workload.KEY")))
}
