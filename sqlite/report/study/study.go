// Package study holds results of experiments against a paper: a study file lists the relations that the paper states
// with its figures, and how each is computed from results. Verdicts, tables and figures follow from the data alone.
package study

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"gantry/sqlite/report"
)

// Study is a study file.
type Study struct {
	Paper string `yaml:"paper"` // citation
	Short string `yaml:"short"` // its name on pages
	Page  string `yaml:"page"`  // file of the template of its page, from the study file
	// Experiments are those that it rests on, in the order of pages.
	Experiments []Experiment       `yaml:"experiments"`
	Readings    []Reading          `yaml:"readings"` // beside that of the text
	Column      string             `yaml:"column"`   // that of the text is called so; "": the paper's text
	Metrics     map[string]Metric  `yaml:"metrics"`
	Params      map[string]Param   `yaml:"params"`
	Tables      []Table            `yaml:"tables"`
	Figures     []Figure           `yaml:"figures"`
	Relations   []Relation         `yaml:"relations"`
	Values      map[string]Compare `yaml:"values"` // single numbers for the prose of the page

	dir string
}

// Experiment names an experiment file and its results.
type Experiment struct {
	Name  string `yaml:"name"`  // that of the experiment
	File  string `yaml:"file"`  // from the study file
	Shows string `yaml:"shows"` // the figures and tables of the paper
	// Readings are those of its file that the study holds against the paper, too; results have the name NAME@READING.
	Readings Values `yaml:"readings"`
}

// Reading is another reading of the paper than that of its text, with the sentences that it gives up.
type Reading struct {
	Name    string                       `yaml:"name"`
	Says    string                       `yaml:"says"`   // in words
	Chosen  string                       `yaml:"chosen"` // its bounds, and how it was chosen
	GivesUp []Given                      `yaml:"gives_up"`
	Instead map[string]map[string]string `yaml:"instead"` // by parameter, or metric: what stands for one of checks
	Fitted  Values                       `yaml:"fitted"`  // statements that it was chosen for, by how they begin
	Where   Selector                     `yaml:"where"`   // the cells that it changes parameters of; none: all
}

// Given is a sentence that a reading gives up.
type Given struct {
	Says    string `yaml:"says"`
	For     string `yaml:"for"`
	Against string `yaml:"against"`
}

// Metric says how pages show a metric.
type Metric struct {
	Label string  `yaml:"label"` // words
	Unit  string  `yaml:"unit"`
	Scale float64 `yaml:"scale"` // factor from the unit of results; 0: 1
}

// Param says how pages name a parameter and its values.
type Param struct {
	Label  string            `yaml:"label"`
	Values map[string]string `yaml:"values"`
}

// Selector chooses cells: each parameter has one of the values.
type Selector map[string]Values

// Values are alternatives; over all cells that are chosen, a metric is averaged.
type Values []string

// UnmarshalYAML takes scalars, as they are written, and lists of them.
func (v *Values) UnmarshalYAML(n *yaml.Node) error {
	*v = nil
	switch n.Kind {
	case yaml.ScalarNode:
		*v = Values{n.Value}
	case yaml.SequenceNode:
		for _, x := range n.Content {
			if x.Kind != yaml.ScalarNode {
				return fmt.Errorf("line %d: a value has to be a scalar: put others in quotes, as results have them",
					x.Line)
			}
			*v = append(*v, x.Value)
		}
	default:
		return fmt.Errorf("line %d: a value has to be a scalar or a list of scalars", n.Line)
	}
	return nil
}

// Relation is a statement of the paper.
type Relation struct {
	Says  string `yaml:"says"`  // the statement
	Where string `yaml:"where"` // the place in the paper
	Paper string `yaml:"paper"` // the paper's figure, in words
	// Reading discloses how a text is read that may be read otherwise; Note explains the findings. Neither has numbers.
	Reading string `yaml:"reading"`
	Note    string `yaml:"note"`
	// Mark says why agreement is none: fitted, identity, bound (one that cannot fail) or contradictory (in the paper).
	Mark   string    `yaml:"mark"`
	Mostly bool      `yaml:"mostly"` // it says typically or in most cases: more than half of the comparisons agree
	Checks []Compare `yaml:"checks"`
}

var marks = []string{"", "fitted", "identity", "bound", "contradictory"}

// Compare is a comparison, or several: one for each combination of the values of Each.
type Compare struct {
	Of     string              `yaml:"of"`     // name of the experiment
	At     Selector            `yaml:"at"`     // parameters that both sides share
	Each   []map[string]Values `yaml:"each"`   // parameters whose values are taken one by one
	A      Selector            `yaml:"a"`      // one side
	B      Selector            `yaml:"b"`      // the other one; none: a value is held against Paper or Bound
	OfB    string              `yaml:"of_b"`   // experiment of the other side, if not Of
	Along  *Along              `yaml:"along"`  // consecutive values of a parameter are compared
	Metric string              `yaml:"metric"` // of both sides; a-b is a less b
	MetB   string              `yaml:"metric_b"`
	// Claim is below, above, same, at-most, at-least, near, identical, stable or unstable; with Along rises, falls or
	// same.
	Claim string   `yaml:"claim"`
	As    string   `yaml:"as"`    // percent (the default of two sides), difference, ratio
	Paper *float64 `yaml:"paper"` // the paper's figure, in the unit of As or of the metric
	Bound *float64 `yaml:"bound"` // of at-most and at-least
	// Within is how far apart agrees: of same, a part of b (0.05) or with as: difference an absolute one; of a figure
	// of the paper, a part of it (0.25).
	Within float64 `yaml:"within"`
	Label  string  `yaml:"label"` // title of the comparison, if the parameters do not make one
}

// Along names a parameter and its values in order.
type Along struct {
	Param  string `yaml:"param"`
	Values Values `yaml:"values"`
}

// Table is a table of means with intervals. With Columns, a metric stands by the values of a parameter, else Metrics.
type Table struct {
	ID      string   `yaml:"id"`
	Title   string   `yaml:"title"`
	Of      string   `yaml:"of"`
	At      Selector `yaml:"at"`
	Rows    []string `yaml:"rows"` // parameters
	Metrics []string `yaml:"metrics"`
	Columns string   `yaml:"columns"` // a parameter
	Versus  Selector `yaml:"versus"`  // paired differences to these cells, in percent
}

// Figure is a figure of the paper.
type Figure struct {
	ID    string  `yaml:"id"` // also the name of its files
	Title string  `yaml:"title"`
	Kind  string  `yaml:"kind"`
	Note  string  `yaml:"note"` // how it differs from the paper's
	Parts []Panel `yaml:"panels"`
	Panel `yaml:",inline"`
}

// Panel is a plot of a figure; fields that it does not set are those of the figure.
type Panel struct {
	Subtitle string   `yaml:"subtitle"`
	Of       string   `yaml:"of"`
	At       Selector `yaml:"at"`
	X        Values   `yaml:"x"`      // parameters of the horizontal axis; "metric": Metrics
	Series   Values   `yaml:"series"` // parameters; policy
	Only     Values   `yaml:"only"`   // values of a single series
	Metric   string   `yaml:"metric"`
	Metrics  Values   `yaml:"metrics"`
	XLabel   string   `yaml:"x_label"`
	YLabel   string   `yaml:"y_label"`
	Log      bool     `yaml:"log"`
	BinWidth float64  `yaml:"bin_width"` // of histograms: Metric is their prefix
}

const maxFile = 4 << 20

// Read reads a study file. Unknown keys are refused; errors have the line.
func Read(path string) (*Study, error) {
	fail := func(err error) (*Study, error) { return nil, fmt.Errorf("study %s: %w", path, err) }
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("study: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return fail(err)
	}
	if len(text) > maxFile {
		return fail(fmt.Errorf("it is larger than %d bytes", maxFile))
	}
	s := &Study{dir: filepath.Dir(path)}
	if err := Decode(text, s); err != nil {
		return fail(err)
	}
	for name, c := range s.Values {
		c.Claim, c.Paper = "near", new(float64)
		s.Values[name] = c
	}
	if err := s.check(); err != nil {
		return fail(err)
	}
	return s, nil
}

var unknownKey = regexp.MustCompile(`field (\S+) not found in type \S+`)

// Decode reads one YAML document, and refuses keys that its target does not have.
func Decode(text []byte, to any) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	switch err := d.Decode(to); {
	case errors.Is(err, io.EOF):
		return errors.New("it is empty")
	case err != nil:
		return errors.New(unknownKey.ReplaceAllString(err.Error(), `unknown key "$1"`))
	}
	return nil
}

var claims = []string{"below", "above", "same", "at-most", "at-least", "near", "identical", "stable", "unstable",
	"rises", "falls"}

func (s *Study) check() error {
	if s.Short == "" || len(s.Experiments) == 0 {
		return errors.New("it needs the keys short and experiments")
	}
	known := func(name, by string) error {
		of, reading, _ := strings.Cut(name, "@")
		if !slices.ContainsFunc(s.Experiments, func(x Experiment) bool { return x.Name == of }) ||
			reading != "" && !s.declares(of, reading) {
			return fmt.Errorf("%s: experiment %q is not listed under experiments", by, name)
		}
		return nil
	}
	for i := range s.Relations {
		if r := &s.Relations[i]; !slices.Contains(marks, r.Mark) {
			return fmt.Errorf("relation %q: mark %q is none of %s", r.Says, r.Mark, strings.Join(marks[1:], ", "))
		}
	}
	for by, c := range s.comparisons() {
		if err := cmp.Or(known(c.Of, by), known(cmp.Or(c.OfB, c.Of), by), c.check(by)); err != nil {
			return err
		}
	}
	for i := range s.Tables {
		t := &s.Tables[i]
		if err := known(t.Of, "table "+t.ID); err != nil {
			return err
		}
		if len(t.Rows) == 0 || len(t.Metrics) == 0 || t.Columns != "" && len(t.Metrics) != 1 {
			return fmt.Errorf("table %s: it needs rows and metrics, and with columns one metric", t.ID)
		}
	}
	seen := map[string]bool{}
	for i := range s.Figures {
		f := &s.Figures[i]
		if seen[f.ID] || f.ID == "" || f.ID != filepath.Base(f.ID) {
			return fmt.Errorf("figure %q: its id has to be unique, and the name of a file", f.ID)
		}
		seen[f.ID] = true
		if !slices.Contains(report.Kinds, f.Kind) {
			return fmt.Errorf("figure %s: kind %q is none of %s", f.ID, f.Kind, strings.Join(report.Kinds, ", "))
		}
		for _, p := range f.panels() {
			if err := known(p.Of, "figure "+f.ID); err != nil {
				return err
			}
			if f.Kind != "scatter" && p.Metric == "" && len(p.Metrics) == 0 {
				return fmt.Errorf("figure %s: it needs a metric", f.ID)
			}
		}
	}
	return nil
}

// comparisons are those of the relations and of the values, with the names of these.
func (s *Study) comparisons() iter.Seq2[string, *Compare] {
	return func(yield func(string, *Compare) bool) {
		for i := range s.Relations {
			r := &s.Relations[i]
			for k := range r.Checks {
				if !yield(fmt.Sprintf("relation %q", r.Says), &r.Checks[k]) {
					return
				}
			}
		}
		for name, c := range s.Values {
			if !yield("value "+name, &c) {
				return
			}
		}
	}
}

// check refuses a comparison that lacks something, in words that begin with a name.
func (c *Compare) check(by string) error {
	switch {
	case !slices.Contains(claims, c.Claim):
		return fmt.Errorf("%s: claim %q is none of %s", by, c.Claim, strings.Join(claims, ", "))
	case !slices.Contains([]string{"", "percent", "difference", "ratio"}, c.As):
		return fmt.Errorf("%s: as is %q, but has to be percent, difference or ratio", by, c.As)
	}
	lacks := ""
	switch c.Claim {
	case "rises", "falls":
		if c.Along == nil || len(c.Along.Values) < 2 {
			lacks = "along with two values or more"
		}
	case "below", "above", "same", "identical":
		if c.B == nil && c.OfB == "" && c.MetB == "" && c.Along == nil {
			lacks = "b"
		}
	case "at-most", "at-least":
		if c.Bound == nil {
			lacks = "a bound"
		}
	case "near":
		if c.Paper == nil {
			lacks = "paper"
		}
	}
	switch {
	case lacks != "":
		return fmt.Errorf("%s: claim %s needs %s", by, c.Claim, lacks)
	case c.Metric == "" && c.Claim != "stable" && c.Claim != "unstable":
		return fmt.Errorf("%s: it needs a metric", by)
	}
	return nil
}

func (s *Study) declares(experiment, reading string) bool {
	return slices.ContainsFunc(s.Experiments, func(x Experiment) bool {
		return x.Name == experiment && slices.Contains(x.Readings, reading)
	})
}

// panels returns the panels of a figure, with the figure's values for fields that they do not set.
func (f *Figure) panels() []Panel {
	if len(f.Parts) == 0 {
		return []Panel{f.Panel}
	}
	out := slices.Clone(f.Parts)
	for i := range out {
		out[i].At = f.At.with(out[i].At)
		to, from := reflect.ValueOf(&out[i]).Elem(), reflect.ValueOf(&f.Panel).Elem()
		for k := range to.NumField() {
			if to.Field(k).IsZero() {
				to.Field(k).Set(from.Field(k))
			}
		}
	}
	return out
}

// with returns a selector with the parameters of another, which win.
func (s Selector) with(others ...Selector) Selector {
	out := Selector{}
	maps.Copy(out, s)
	for _, o := range others {
		maps.Copy(out, o)
	}
	return out
}

// Keeps says whether a study needs a metric.
func (s *Study) Keeps(metric string) bool {
	needs := map[string]bool{"wieland_stable": true, "drift_stable": true, "preemptions": true}
	need := func(names ...string) {
		for _, name := range names {
			for _, m := range strings.Split(name, "-") { // one less another
				needs[m] = true
			}
		}
	}
	for i := range s.Readings {
		need(slices.Collect(maps.Values(s.Readings[i].Instead["metric"]))...)
	}
	for _, c := range s.comparisons() {
		need(c.Metric, c.MetB)
	}
	for i := range s.Tables {
		need(s.Tables[i].Metrics...)
	}
	for i := range s.Figures {
		f := &s.Figures[i]
		for _, p := range f.panels() {
			need(p.Metric)
			need(p.Metrics...)
			if f.Kind == "boxes" {
				need(boxMetrics(p.Metric)...)
			}
			if f.Kind == "histogram" && strings.HasPrefix(metric, p.Metric+"_from_") {
				return true
			}
		}
	}
	return needs[metric]
}

// boxMetrics are the metrics that a box of a metric is drawn from.
func boxMetrics(name string) []string {
	return []string{name + "_low_whisker", name + "_p25", name + "_median", name + "_p75", name + "_high_whisker",
		name + "_mean"}
}
