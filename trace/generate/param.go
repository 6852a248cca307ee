package generate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"gantry/trace/reader"
)

// Parameters are those that workflows of a kind are made by: *Daggen, *Hadoop, *MapReduce or *Mixed.
type Parameters interface {
	fmt.Stringer // the values that differ from the defaults, as flags
}

// Param is a parameter of a kind of workflow, as a workload file or a flag gives it.
type Param struct {
	Key     string // in a workload file; the flag has dashes for underscores
	About   string // for people
	Default string
	Value   string // placeholder for its value in help: N, or a unit
	NoFlag  bool   // it is for workload files only
	Switch  bool   // true or false

	way  way
	must string // the condition on its values, for messages
	read func(text string) (float64, error)
	ok   func(x float64) bool
	set  func(p Parameters, low, high float64) // equal, but of a range
}

// Flag is the name of the parameter's flag.
func (p *Param) Flag() string { return strings.ReplaceAll(p.Key, "_", "-") }

// way says how a parameter is drawn from the given values.
type way uint8

const (
	oneOf   way = iota // one of several values
	uniform            // from a range
	fixed              // as given, which may be a range where set takes one
)

func whole(x float64) bool { return x == math.Trunc(x) }

// numbers completes a parameter that is a number from least to most.
func (p Param) numbers(least, most float64, must string) Param {
	p.read, p.must, p.Value = reader.Number, must, "N"
	p.ok = func(x float64) bool { return x >= least && x <= most }
	return p
}

// wholes completes a parameter that is a whole number from least to most.
func (p Param) wholes(least, most int) Param {
	p = p.numbers(float64(least), float64(most), fmt.Sprintf("a whole number from %d to %d", least, most))
	in := p.ok
	p.ok = func(x float64) bool { return in(x) && whole(x) }
	return p
}

func readDuration(text string) (float64, error) {
	d, err := reader.Duration(text)
	return float64(d), err
}

func readTruth(text string) (float64, error) {
	yes, err := strconv.ParseBool(text)
	if yes {
		return 1, err
	}
	return 0, err
}

// Choices are the lists and ranges from which the parameters of the workflows of one kind are drawn. Parameters without
// a choice are as usual.
type Choices struct {
	kind  string
	given map[string][]float64
}

// Choices returns the usual choices of a kind that has parameters, nil of another.
func (k *Kind) Choices() *Choices {
	if k.usual == nil {
		return nil
	}
	return &Choices{kind: k.Name, given: map[string][]float64{}}
}

// Param returns a parameter of the kind, nil if it has none of that key.
func (k *Kind) Param(key string) *Param {
	if i := slices.IndexFunc(k.Params, func(p Param) bool { return p.Key == key }); i >= 0 {
		return &k.Params[i]
	}
	return nil
}

// Keys are the keys of the parameters of all kinds, each once.
func Keys() (keys []string) {
	for i := range kinds {
		for j := range kinds[i].Params {
			if key := kinds[i].Params[j].Key; !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// KindsWith are the kinds that have a parameter.
func KindsWith(key string) (names []string) {
	for i := range kinds {
		if kinds[i].Param(key) != nil {
			names = append(names, kinds[i].Name)
		}
	}
	return names
}

// Set gives the values of a parameter, of which ranges are written "a..b".
func (c *Choices) Set(key string, texts ...string) error {
	k, err := Find(c.kind)
	if err != nil {
		return err
	}
	p := k.Param(key)
	if p == nil {
		return fmt.Errorf("%s workflows have no parameter %s", k.Name, key)
	}
	if p.way != oneOf {
		if len(texts) == 1 {
			low, high, ok := strings.Cut(texts[0], "..")
			if !ok {
				high = low
			}
			texts = []string{low, high}
		}
		if len(texts) != 2 {
			return fmt.Errorf("%s has to be %s", key, p.must)
		}
	}
	var xs []float64
	for _, text := range texts {
		x, err := p.read(strings.TrimSpace(text))
		if err != nil || !p.ok(x) {
			return fmt.Errorf("%s is %q, but has to be %s", key, text, p.must)
		}
		xs = append(xs, x)
	}
	if p.way != oneOf && xs[0] > xs[1] {
		return fmt.Errorf("%s: the range ends before it begins", key)
	}
	c.given[key] = xs
	return nil
}

// Parameters draws the parameters of one workflow. It takes a random number of each parameter that may vary, whether it
// does or not, so that giving one leaves the others as they were.
func (c *Choices) Parameters(r *rand.Rand) Parameters {
	k, err := Find(c.kind)
	if err != nil {
		return nil
	}
	to := k.usual()
	for i := range k.Params {
		p, xs := &k.Params[i], c.given[k.Params[i].Key]
		u := 0.0
		if p.way != fixed {
			u = r.Float64()
		}
		switch {
		case len(xs) == 0:
		case p.way == oneOf:
			x := xs[int(u*float64(len(xs)))]
			p.set(to, x, x)
		case p.way == uniform:
			x := xs[0] + u*(xs[1]-xs[0])
			p.set(to, x, x)
		default:
			p.set(to, xs[0], xs[1])
		}
	}
	return to
}

// daggenParams are those of random workflows.
func daggenParams() []Param {
	param := func(key, about string, usual any, set func(d *Daggen, x float64)) Param {
		return Param{Key: key, About: about, Default: fmt.Sprint(usual),
			set: func(p Parameters, x, _ float64) { set(p.(*Daggen), x) }}
	}
	u, unit := &DefaultDaggen, "from 0 to 1"
	return []Param{
		param("fat", "width: a level has about tasks^fat tasks, 0 to 1", u.Fat,
			func(d *Daggen, x float64) { d.Fat = x }).numbers(0, 1, unit),
		param("density", "share of the level before that a task may depend on, 0 to 1", u.Density,
			func(d *Daggen, x float64) { d.Density = x }).numbers(0, 1, unit),
		param("regular", "1: levels of one size, 0: up to twice as large or tiny", u.Regular,
			func(d *Daggen, x float64) { d.Regular = x }).numbers(0, 1, unit),
		param("jump", "number of levels that a dependency may span", u.Jump,
			func(d *Daggen, x float64) { d.Jump = int(x) }).wholes(1, 1_000_000),
		param("ccr", "work on data of size d: 1 a·d, 2 a·d·log d, 3 d^1.5, 0 a mix", u.CCR,
			func(d *Daggen, x float64) { d.CCR = int(x) }).wholes(0, 3),
	}
}

// mapReduceParams are those of MapReduce jobs.
func mapReduceParams() []Param {
	return []Param{
		{Key: "map_time", About: "longest map time: whole seconds up to it are equally likely",
			Default: DefaultMapReduce.LongestMap.String(), Value: "DURATION", way: fixed, read: readDuration,
			ok:   func(x float64) bool { return x >= 1e9 && x <= 1e15 },
			must: "a duration from 1s to 1000000s, such as 50s",
			set:  func(p Parameters, x, _ float64) { p.(*MapReduce).LongestMap = time.Duration(x) }},
		{Key: "slots", About: "reduce tasks take memory and map tasks a core: slots of their own", Switch: true,
			way: fixed, read: readTruth, ok: whole, must: "true or false",
			set: func(p Parameters, x, _ float64) { p.(*MapReduce).Slots = x == 1 }},
	}
}

// mixedParams are those of mixed-parallel workflows.
func mixedParams() []Param {
	param := func(key, about string, usual any, set func(m *Mixed, low, high float64)) Param {
		return Param{Key: key, About: about, Default: fmt.Sprint(usual),
			set: func(p Parameters, low, high float64) { set(p.(*Mixed), low, high) }}
	}
	u := &DefaultMixed
	brange := param("brange", "", u.BRange, func(m *Mixed, x, _ float64) { m.BRange = x }).numbers(0, 2, "")
	brange.NoFlag, brange.must = true, "from 0 to below 2"
	brange.ok = func(x float64) bool { return x >= 0 && x < 2 }
	shape := param("shape", "above 1 short with many tasks side by side, below 1 long", u.Shape,
		func(m *Mixed, x, _ float64) { m.Shape = x }).numbers(0, 1000, "above 0 and up to 1000")
	shape.ok = func(x float64) bool { return x > 0 && x <= 1000 }
	wdag := param("wdag", "mean cost of the tasks", u.WDAG, func(m *Mixed, x, _ float64) { m.WDAG = x }).
		numbers(1, 1e8, "a number, or a range such as 100..1000, from 1 to 1e+08")
	wdag.way, wdag.Value = uniform, "SECONDS"
	processors := param("processors", "number of processors of a task, such as 4 or 1..4",
		fmt.Sprintf("%d..%d", u.Processors[0], u.Processors[1]),
		func(m *Mixed, low, high float64) { m.Processors = [2]int{int(low), int(high)} }).wholes(1, 1_000_000)
	processors.way, processors.must = fixed, "a whole number, or a range of them such as 1..4, from 1 to 1000000"
	return []Param{shape, param("out_degree", "most immediate descendants of a task", u.OutDegree,
		func(m *Mixed, x, _ float64) { m.OutDegree = int(x) }).wholes(1, 1_000_000),
		param("ccr", "mean communication cost (at 1 MB/s) over mean computation cost", u.CCR,
			func(m *Mixed, x, _ float64) { m.CCR = x }).numbers(0, 1e6, "a number from 0 to 1000000"),
		brange, wdag, processors}
}
