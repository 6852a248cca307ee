// Package report makes tables and figures from the results of experiments.
package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"gantry/executor/experiment"
	"gantry/executor/experiment/metrics"
	"gantry/sqlite/report/columns"
	"gantry/sqlite/report/results"
	"gantry/trace/shown"
)

// DefaultMetrics are those that tables show if nothing else is asked for and there are no deadlines.
var DefaultMetrics = []string{"slowdown_mean", "slowdown_sd", "slowdown_median", "slowdown_p95", "wait_mean",
	"response_mean", "in_system_mean", "utilisation"}

// deadlineMetrics are those of loads with deadlines: P, T, O and O/T of Lim et al. 2017, as far as the results have
// them.
var deadlineMetrics = []string{"late_share", "slowdown_mean", "turnaround_mean",
	"mapping_mean", "mapping_p99", "mapping_share", "in_system_mean", "utilisation"}

// tenantMetrics are those of loads of several tenants with deadlines: the ones that 3DSF is judged by (Ru et al.,
// section 9).
var tenantMetrics = []string{"qos_rate", "throughput", "locality_rate", "completion_time", "utilisation",
	"utilisation_memory", "utilisation_disk", "jain"}

// usual returns the metrics to show of results that have the known ones.
func usual(known map[string]bool) (names []string) {
	if !known["late_share"] {
		return DefaultMetrics
	}
	of := deadlineMetrics
	if known["jain"] {
		of = tenantMetrics
	}
	for _, n := range of {
		if known[n] {
			names = append(names, n)
		}
	}
	return names
}

// Table has the policies of an experiment side by side, all other parameters equal.
type Table struct {
	Params  map[string]string `json:"params"` // those that the table is for; the varying ones make its title
	Title   string            `json:"title"`
	Metrics []string          `json:"metrics"`
	Rows    []Row             `json:"rows"`
}

// Row is a policy.
type Row struct {
	Policy   string              `json:"policy"`
	Runs     int                 `json:"runs"`
	Diverged int                 `json:"diverged"`
	Failed   int                 `json:"failed"`
	Wieland  Verdict             `json:"stable_by_wieland"`
	Drift    Verdict             `json:"stable_by_drift"`
	Values   map[string]Interval `json:"values"`
}

// Verdict counts the stable runs among the runs that a test of stability can judge.
type Verdict struct {
	Stable int `json:"stable"`
	Of     int `json:"of"`
}

// Interval is a mean over repetitions with its 95 % confidence interval, Mean ± Half.
type Interval metrics.Interval

// MarshalJSON gives null for unknown numbers.
func (i Interval) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		N    int      `json:"n"`
		Mean *float64 `json:"mean"`
		Half *float64 `json:"half_width_95"`
	}{i.N, results.Finite(i.Mean), results.Finite(i.Half)})
}

// String has as many digits as the interval lets one trust, and some more.
func (i Interval) String() string {
	switch {
	case i.N == 0 || math.IsNaN(i.Mean):
		return "-"
	case math.IsNaN(i.Half):
		return fmt.Sprintf("%.4g", i.Mean)
	case i.Half <= 1e-12*math.Abs(i.Mean): // nothing but rounding
		return fmt.Sprintf("%.4g ±0", i.Mean)
	}
	digits := max(0, 1-int(math.Floor(math.Log10(i.Half))))
	if digits > 6 {
		return fmt.Sprintf("%.4g ±%.2g", i.Mean, i.Half)
	}
	return fmt.Sprintf("%.*f ±%.*f", digits, i.Mean, digits, i.Half)
}

// policyOf names the policy of a cell, with its parameters.
func policyOf(c *results.Cell) string {
	name := c.Params["policy"]
	for _, k := range slices.Sorted(maps.Keys(c.Params)) {
		if key, ok := strings.CutPrefix(k, "policy."); ok {
			if strings.Contains(name, ":") {
				name += ","
			} else {
				name += ":"
			}
			name += key + "=" + c.Params[k]
		}
	}
	return name
}

// ofPolicy returns the first cell of a policy; nil if there is none.
func ofPolicy(cells []*results.Cell, name string) *results.Cell {
	if i := slices.IndexFunc(cells, func(c *results.Cell) bool { return policyOf(c) == name }); i >= 0 {
		return cells[i]
	}
	return nil
}

func isPolicy(param string) bool { return param == "policy" || strings.HasPrefix(param, "policy.") }

// group is a set of cells that agree in all parameters but some.
type group struct {
	params map[string]string
	title  string // of the parameters that differ between groups; "" if there is one group only
	cells  []*results.Cell
}

// groups divides cells by the parameters that are not left out, in order of appearance.
func groups(cells []*results.Cell, leftOut func(param string) bool) []group {
	var out []group
	index := map[string]int{}
	values := map[string]map[string]bool{}
	for _, c := range cells {
		params := maps.Clone(c.Params)
		maps.DeleteFunc(params, func(k, _ string) bool { return leftOut(k) })
		key, _ := json.Marshal(params) // sorted by key
		i, ok := index[string(key)]
		if !ok {
			i = len(out)
			index[string(key)] = i
			out = append(out, group{params: params})
		}
		out[i].cells = append(out[i].cells, c)
		for k, v := range params {
			if values[k] == nil {
				values[k] = map[string]bool{}
			}
			values[k][v] = true
		}
	}
	for i := range out {
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(values)) {
			v, has := out[i].params[k]
			lacks := func(g group) bool { _, ok := g.params[k]; return !ok }
			if has && (len(values[k]) > 1 || slices.ContainsFunc(out, lacks)) {
				parts = append(parts, k+"="+v)
			}
		}
		out[i].title = strings.Join(parts, " ")
	}
	return out
}

// Tables returns the tables of an experiment. With against, a policy, values are the differences to it, repetition by
// repetition: the repetitions of policies meet the same load, so that the interval of a difference is far smaller than
// that of two means. Without names the usual metrics are shown.
func Tables(cells []*results.Cell, names []string, against string) ([]Table, error) {
	var out []Table
	known := KnownMetrics(cells)
	asked := names
	if names == nil {
		names = usual(known)
	}
	for _, n := range asked { // runs that were cut off have few metrics, and no usual one
		if !known[n] && len(known) > 0 {
			return nil, fmt.Errorf("no run has metric %q: there are %s", n,
				strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
	}
	for _, g := range groups(cells, isPolicy) {
		t := Table{Params: g.params, Title: g.title, Metrics: names}
		var base *results.Cell
		if against != "" {
			if base = ofPolicy(g.cells, against); base == nil {
				return nil, fmt.Errorf("no policy %q to compare with: there are %s", against,
					strings.Join(policies(g.cells), ", "))
			}
		}
		for _, c := range g.cells {
			r := Row{Policy: policyOf(c), Runs: len(c.Runs), Diverged: c.Count(experiment.Diverged),
				Failed:  c.Count(experiment.Failed),
				Wieland: verdict(c, "wieland_stable"), Drift: verdict(c, "drift_stable"), Values: map[string]Interval{}}
			for _, n := range names {
				r.Values[n] = interval(c, base, n)
			}
			t.Rows = append(t.Rows, r)
		}
		out = append(out, t)
	}
	return out, nil
}

// KnownMetrics are the metrics that a run of some cell has.
func KnownMetrics(cells []*results.Cell) map[string]bool {
	known := map[string]bool{}
	for _, c := range cells {
		for i := range c.Runs {
			for name := range c.Runs[i].Values {
				known[name] = true
			}
		}
	}
	return known
}

// SlowdownNote defines slowdown below tables and among them.
const SlowdownNote = "Slowdown is response over the critical path at speed 1: faster nodes bring it below 1."

// interval is the interval of a metric over repetitions or, where there is one only, that of the run itself by batch
// means, where it has one.
func interval(c, base *results.Cell, metric string) Interval {
	i := Interval(metrics.Confidence(differences(c, base, metric)))
	if half := c.Sample(strings.TrimSuffix(metric, "_mean") + "_half"); i.N == 1 && base == nil && len(half) == 1 {
		i.Half = half[0]
	}
	return i
}

// differences returns a metric of the runs of a cell, less that of the same repetition of base if there is one.
func differences(c, base *results.Cell, metric string) []float64 {
	if base == nil {
		return c.Sample(metric)
	}
	var out []float64
	for i := range c.Runs {
		a, ok := c.Runs[i].Values[metric]
		if !ok || c.Runs[i].State != experiment.Done {
			continue
		}
		for j := range base.Runs {
			if b, ok := base.Runs[j].Values[metric]; ok && base.Runs[j].State == experiment.Done &&
				base.Runs[j].Repetition == c.Runs[i].Repetition {
				out = append(out, a-b)
			}
		}
	}
	return out
}

// verdict is that of a test of stability on the runs, those that diverged included.
func verdict(c *results.Cell, test string) (v Verdict) {
	for i := range c.Runs {
		if stable, judged := c.Runs[i].Values[test]; judged {
			if v.Of++; stable == 1 {
				v.Stable++
			}
		}
	}
	return v
}

func (v Verdict) String() string {
	if v.Of == 0 {
		return "-"
	}
	return fmt.Sprintf("%d/%d", v.Stable, v.Of)
}

// WriteText prints tables for people.
func WriteText(w io.Writer, tables []Table) {
	for _, t := range tables {
		if t.Title != "" {
			fmt.Fprintln(w, t.Title)
		}
		titles := strings.ToUpper(strings.Join(append([]string{"policy|-runs"}, t.Metrics...), "|"))
		columns.List(w, t.Rows, 0, titles+"|WIELAND|DRIFT|-DIVERGED", func(r Row) []any {
			row := []any{r.Policy, r.Runs}
			for _, m := range t.Metrics {
				row = append(row, r.Values[m])
			}
			return append(row, r.Wieland, r.Drift, r.Diverged)
		})
	}
}

// WriteSearches prints the ends of searches for people.
func WriteSearches(w io.Writer, searches []results.Search) error {
	// Parameters with one value in all searches are left out.
	all := map[string]bool{"policy": true}
	for _, s := range searches {
		for k, v := range s.Params {
			if v != searches[0].Params[k] {
				all[k] = true
			}
		}
	}
	keys := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		switch {
		case isPolicy(a) == isPolicy(b):
			return cmp.Compare(a, b)
		case isPolicy(a):
			return -1
		}
		return 1
	})
	var rows [][]string
	for i, s := range searches {
		if i == 0 {
			titles := strings.ToUpper(strings.Join(keys, "|") + "|stable up to " + s.Parameter)
			rows = append(rows, strings.Split(titles, "|"))
		}
		var row []string
		for _, k := range keys {
			row = append(row, shown.Line(s.Params[k]))
		}
		rows = append(rows, append(row, shown.Line(*cmp.Or(s.Value, new("none")))))
	}
	return columns.Print(w, columns.Of(w), "", rows, nil)
}
