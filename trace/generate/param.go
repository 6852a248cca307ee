package generate

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"gantry/trace/reader"
)

// Parameters are those that workflows of a kind are made by: *Daggen, *Hadoop, *MapReduce or *Mixed.
type Parameters any

// Param is a parameter of a kind of workflow, as a workload file or a flag gives it.
type Param struct {
	Key    string // in a workload file; the flag has dashes for underscores
	About  string // for people
	Value  string // placeholder for its value in help: N, or a unit
	NoFlag bool   // it is for workload files only

	way         way
	least, most float64
	must        string // the condition on its values, for messages; "": a whole number from least to most
	field       string // of Parameters
}

// Flag is the name of the parameter's flag.
func (p *Param) Flag() string { return strings.ReplaceAll(p.Key, "_", "-") }

// of is its value among others.
func (p *Param) of(all Parameters) reflect.Value {
	return reflect.ValueOf(all).Elem().FieldByName(p.field)
}

// text is its value among others, as its flag takes it.
func (p *Param) text(of Parameters) string {
	v := p.of(of)
	if v.Kind() == reflect.Array {
		return fmt.Sprintf("%v..%v", v.Index(0), v.Index(1))
	}
	return fmt.Sprint(v)
}

// Default is the usual value of a parameter, and whether it is true or false.
func (k *Kind) Default(p *Param) (text string, is bool) {
	return p.text(k.usual()), p.of(k.usual()).Kind() == reflect.Bool
}

// flags are those parameters whose values differ from the usual ones, as flags.
func (k *Kind) flags(p Parameters) (text string) {
	for i := range k.Params {
		x := &k.Params[i]
		switch usual, is := k.Default(x); {
		case x.NoFlag || x.text(p) == usual:
		case is:
			text += " --" + x.Flag()
		default:
			text += " --" + x.Flag() + " " + x.text(p)
		}
	}
	return text
}

// way says how a parameter is drawn from the given values.
type way uint8

const (
	oneOf   way = iota // one of several values
	uniform            // from a range
	fixed              // as given, which may be a range where it is one
)

// read reads one of its values; true is 1.
func (p *Param) read(like reflect.Value, text string) (float64, error) {
	switch like.Interface().(type) {
	case time.Duration:
		d, err := reader.Duration(text)
		return p.within(float64(d), err)
	case bool:
		yes, err := strconv.ParseBool(text)
		return map[bool]float64{true: 1}[yes], err
	}
	x, err := reader.Number(text)
	if x != math.Trunc(x) && like.Kind() != reflect.Float64 {
		err = errors.New("not a whole number")
	}
	return p.within(x, err)
}

func (p *Param) within(x float64, err error) (float64, error) {
	if err == nil && (x < p.least || x > p.most) {
		err = errors.New("out of range")
	}
	return x, err
}

// set gives it a value, which is from low to high of a range.
func (p *Param) set(to Parameters, low, high float64) {
	switch v := p.of(to); v.Kind() {
	case reflect.Float64:
		v.SetFloat(low)
	case reflect.Bool:
		v.SetBool(low == 1)
	case reflect.Array:
		v.Index(0).SetInt(int64(low))
		v.Index(1).SetInt(int64(high))
	default:
		v.SetInt(int64(low))
	}
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
	must := cmp.Or(p.must, fmt.Sprintf("a whole number from %.0f to %.0f", p.least, p.most))
	if p.way != oneOf {
		if len(texts) == 1 {
			low, high, ok := strings.Cut(texts[0], "..")
			if !ok {
				high = low
			}
			texts = []string{low, high}
		}
		if len(texts) != 2 {
			return fmt.Errorf("%s has to be %s", key, must)
		}
	}
	var xs []float64
	for _, text := range texts {
		x, err := p.read(p.of(k.usual()), strings.TrimSpace(text))
		if err != nil {
			return fmt.Errorf("%s is %q, but has to be %s", key, text, must)
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

var daggenParams = []Param{
	{Key: "fat", About: "width: a level has about tasks^fat tasks, 0 to 1", Value: "N", most: 1, must: "from 0 to 1",
		field: "Fat"},
	{Key: "density", About: "share of the level before that a task may depend on, 0 to 1", Value: "N", most: 1,
		must: "from 0 to 1", field: "Density"},
	{Key: "regular", About: "1: levels of one size, 0: up to twice as large or tiny", Value: "N", most: 1,
		must: "from 0 to 1", field: "Regular"},
	{Key: "jump", About: "number of levels that a dependency may span", Value: "N", least: 1, most: 1e6, field: "Jump"},
	{Key: "ccr", About: "work on data of size d: 1 a·d, 2 a·d·log d, 3 d^1.5, 0 a mix", Value: "N", most: 3,
		field: "CCR"},
}

var mapReduceParams = []Param{
	{Key: "map_time", About: "longest map time: whole seconds up to it are equally likely", Value: "DURATION",
		way: fixed, least: 1e9, most: 1e15, must: "a duration from 1s to 1000000s, such as 50s",
		field: "LongestMap"},
	{Key: "slots", About: "reduce tasks take memory and map tasks a core: slots of their own", way: fixed,
		must: "true or false", field: "Slots"},
}

var mixedParams = []Param{
	{Key: "shape", About: "above 1 short with many tasks side by side, below 1 long", Value: "N",
		least: math.SmallestNonzeroFloat64, most: 1000, must: "above 0 and up to 1000", field: "Shape"},
	{Key: "out_degree", About: "most immediate descendants of a task", Value: "N", least: 1, most: 1e6,
		field: "OutDegree"},
	{Key: "ccr", About: "mean communication cost (at 1 MB/s) over mean computation cost", Value: "N", most: 1e6,
		must: "a number from 0 to 1000000", field: "CCR"},
	{Key: "brange", NoFlag: true, most: math.Nextafter(2, 0), must: "from 0 to below 2", field: "BRange"},
	{Key: "wdag", About: "mean cost of the tasks", Value: "SECONDS", way: uniform, least: 1, most: 1e8,
		must: "a number, or a range such as 100..1000, from 1 to 1e+08", field: "WDAG"},
	{Key: "processors", About: "number of processors of a task, such as 4 or 1..4", Value: "N", way: fixed, least: 1,
		most: 1e6, must: "a whole number, or a range of them such as 1..4, from 1 to 1000000",
		field: "Processors"},
}
