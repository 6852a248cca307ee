// Package policy is the table of policies: one row each, built from phases.
package policy

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gantry/planner"
	"gantry/trace/spelling"
)

// Row is one policy.
type Row struct {
	Name   string                      `json:"name"`
	Title  string                      `json:"title"`
	About  string                      `json:"about"`  // its method, in a sentence or two
	Source string                      `json:"source"` // the publication it follows
	Params []Param                     `json:"params"`
	Only   []Condition                 `json:"-"`
	New    func(Params) planner.Policy `json:"-"`
	// Read, if set, makes the policy of the text after the colon, in place of Params and New.
	Read func(text string) (planner.Policy, error) `json:"-"`
	// Readings say how open points of the publication are read, and where the policy departs from it.
	Readings []string `json:"readings"`
}

// Condition says that a parameter means nothing unless another one has some value.
type Condition struct{ Param, Other, Value string }

// Param is a parameter of a policy. Values has the choices, the default first: words, or a number and the range
// "min..max" that it is from; "N/N/…" is a list of whole numbers from 1 to a million.
type Param struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
	About  string   `json:"about"`
}

// Check says whether v may be chosen.
func (p *Param) Check(v string) error {
	var ranges bool
	for _, known := range p.Values {
		if known == list {
			if isList(v) {
				return nil
			}
			continue // it stands for lists, and is none
		}
		low, high, isRange := strings.Cut(known, "..")
		if !isRange {
			if v == known {
				return nil
			}
			continue
		}
		ranges = true
		x, err := strconv.ParseFloat(v, 64)
		if err == nil && x >= number(low) && x <= number(high) && (x == math.Trunc(x) ||
			strings.Contains(known, ".0")) {
			return nil
		}
	}
	if ranges {
		return fmt.Errorf("%s=%q: give a number of %s (%s is the default)", p.Name, v, p.Values[len(p.Values)-1],
			p.Values[0])
	}
	if near := spelling.Nearest(v, p.Values); near != "" && near != v {
		return fmt.Errorf("%s=%q is not known; did you mean %s?", p.Name, v, near)
	}
	return fmt.Errorf("%s=%q: choose one of %s", p.Name, v, strings.Join(p.Values, ", "))
}

const list = "N/N/…"

func isList(v string) bool {
	return !slices.ContainsFunc(strings.Split(v, "/"), func(part string) bool {
		n, err := strconv.Atoi(part)
		return err != nil || n < 1 || n > 1_000_000
	})
}

// Params has the chosen value of every parameter of a row.
type Params map[string]string

// Number returns the value of a parameter that is a number.
func (p Params) Number(name string) float64 { return number(p[name]) }

func number(s string) float64 {
	x, err := strconv.ParseFloat(s, 64)
	if err != nil {
		panic(fmt.Sprintf("policy parameter %q is no number: %v", s, err)) // checked when it was chosen
	}
	return x
}

// Table lists all policies, family by family.
func Table() []Row {
	table := slices.Concat(dynamic(), planned(), lists(), tenants(), deadlines(), mixed(), solved(), registered)
	for i := range table {
		table[i].Readings = append(table[i].Readings, readingsOf(table[i].Name)...)
	}
	return table
}

// registered are the rows of Register.
var registered []Row

// Register adds a policy of another package or module to the table, before any is asked for. A name that another policy
// has is a fault of the program.
func Register(r Row) {
	if r.Name == "" || strings.ContainsAny(r.Name, ":, \t\n") || r.New == nil && r.Read == nil {
		panic(fmt.Sprintf("policy %q: it needs a name without colon, comma or space, and New", r.Name))
	}
	if _, err := Named(r.Name); err == nil {
		panic(fmt.Sprintf("policy %s: there is one of that name", r.Name))
	}
	registered = append(registered, r)
}

// Parse makes the policy that spec names: "heft", or with parameters "gbf:pick=first". A word alone, as in "gbf:first",
// is the value of the parameter that may take it. An unknown name or value is answered with the known ones.
func Parse(spec string) (planner.Policy, error) {
	name, rest, colon := strings.Cut(spec, ":")
	row, err := Named(name)
	if err != nil {
		return nil, err
	}
	if row.Read != nil {
		return row.Read(rest)
	}
	params, given := Params{}, Params{}
	for _, p := range row.Params {
		params[p.Name] = p.Values[0]
	}
	var parts []string
	if colon {
		parts = strings.Split(rest, ",")
	}
	for _, part := range parts {
		if part == "" {
			return nil, fmt.Errorf("policy %q: a parameter is missing after a colon or a comma; leave that out, or "+
				"give a parameter", spec)
		}
		k, v, named := strings.Cut(part, "=")
		j := slices.IndexFunc(row.Params, func(p Param) bool {
			return named && p.Name == k ||
				!named && slices.Contains(p.Values, part)
		})
		if j < 0 {
			return nil, fmt.Errorf("policy %s has no parameter %q%s", name, k, knownParams(row, k, named))
		}
		if !named {
			k, v = row.Params[j].Name, part
		}
		if err := row.Params[j].Check(v); err != nil {
			return nil, fmt.Errorf("policy %s: %w", name, err)
		}
		if first, twice := given[k]; twice {
			return nil, fmt.Errorf("policy %s: %s is given twice, as %s and %s", name, k, first, v)
		}
		params[k], given[k] = v, v
	}
	for _, o := range row.Only {
		if _, ok := given[o.Param]; ok && params[o.Other] != o.Value {
			return nil, fmt.Errorf("policy %s: %s means something only with %s=%s", name, o.Param, o.Other, o.Value)
		}
	}
	return row.New(params), nil
}

// Named returns the row of a policy. An unknown name is answered with the known ones.
func Named(name string) (Row, error) {
	table := Table()
	if several, ok := variants(name); ok {
		several.Readings = readingsOf(name)
		table = append(table, several)
	}
	if i := slices.IndexFunc(table, func(r Row) bool { return r.Name == name }); i >= 0 {
		return table[i], nil
	}
	names := make([]string, len(table))
	for i, r := range table {
		names[i] = r.Name
	}
	if near := spelling.Nearest(name, names); near != "" {
		return Row{}, fmt.Errorf("policy %q is not known; did you mean %s?", name, near)
	}
	return Row{}, fmt.Errorf("policy %q is not known: choose one of %s", name, strings.Join(names, ", "))
}

// knownParams ends a message about an unknown parameter of a row: with the likely meaning of a name, or of a value
// alone, or else with all parameters of the row.
func knownParams(r Row, word string, named bool) string {
	if len(r.Params) == 0 {
		return ": it has none"
	}
	names, words := make([]string, len(r.Params)), []string(nil)
	for i, p := range r.Params {
		names[i] = p.Name + "=" + strings.Join(p.Values, "|")
		if words = append(words, p.Name); !named {
			words = append(words, p.Values...)
		}
	}
	if near := spelling.Nearest(word, words); near != "" {
		return "; did you mean " + near + "?"
	}
	return ": it has " + strings.Join(names, ", ")
}
