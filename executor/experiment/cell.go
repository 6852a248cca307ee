// Package experiment runs all combinations of the values of factors. Simulations run side by side, and the result of
// one is a function of its parameters, its repetition and the files it is made from: neither the order of the runs nor
// how many run at once matters. Runs on a runtime follow one another.
package experiment

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"gantry/executor"
	"gantry/executor/own"
	"gantry/planner/policy"
	"gantry/planner/predict"
	"gantry/trace"
	"gantry/trace/reader"
	"gantry/trace/scenario"
)

// Param is a parameter and its value.
type Param struct{ Name, Value string }

// Cell is one combination of parameters; each of its repetitions is a run.
type Cell struct {
	Params []Param // by name
	// Inputs is a digest of the workload and cluster files, and of the traces they name: a cell of changed files is
	// another cell.
	Inputs string
	// Position is its place among all that the experiment may have, from 1 on.
	Position int

	policy    string
	errors    predict.ErrorModel
	estimator predict.Spec
	startup   time.Duration
	charge    float64 // see executor.Engine.Charge
	faults    *scenario.Faults
	runtime   string  // "": ideal machines, simulated side by side
	timeScale float64 // of runtime; so is sizeScale
	sizeScale float64
	load      *workload
}

// Spec is one repetition of a cell for a runtime.
type Spec struct {
	Runtime, Policy, Errors, Estimator string
	Startup                            time.Duration
	TimeScale, SizeScale               float64
	Seed                               uint64
	Workload                           *scenario.Workload
	Faults                             *scenario.Faults
	Cluster                            *scenario.Cluster
}

// Spec describes a repetition, counted from 0.
func (c *Cell) Spec(x *scenario.Experiment, repetition int) Spec {
	w := c.load
	return Spec{Runtime: c.runtime, Policy: c.policy, Errors: c.Get("errors"), Estimator: c.estimator.String(),
		Startup: c.startup, TimeScale: c.timeScale, SizeScale: c.sizeScale, Seed: max(1, x.Seed, w.file.Seed),
		Faults: c.faults, Workload: w.file, Cluster: w.drawn(repetition)}
}

// Get returns the value of a parameter, "" if the cell does not have it.
func (c *Cell) Get(name string) string {
	for _, p := range c.Params {
		if p.Name == name {
			return p.Value
		}
	}
	return ""
}

// Key is the identity of a cell, as JSON.
func (c *Cell) Key() string {
	m := map[string]string{"inputs": c.Inputs}
	for _, p := range c.Params {
		m[p.Name] = p.Value
	}
	text, _ := json.Marshal(m) // of a map of strings: it cannot fail, and its keys are sorted
	return string(text)
}

func (c *Cell) String() string {
	parts := make([]string, len(c.Params))
	for i, p := range c.Params {
		parts[i] = p.Name + "=" + p.Value
	}
	return strings.Join(parts, " ")
}

// workload is a workload on a platform, as cells share it.
type workload struct {
	file    *scenario.Workload
	cluster *scenario.Cluster
	digest  string
	path    string // of the file
	text    []byte // of the file, without the values of factors
	edits   []edit
	cell    *Cell // the first that has it
}

// plan makes cells of the parameters of an experiment.
type plan struct {
	file  *scenario.Experiment
	loads map[string]*workload // by the parameters that make them
	texts map[string][]byte    // by path
}

func newPlan(x *scenario.Experiment) *plan {
	return &plan{file: x, loads: map[string]*workload{}, texts: map[string][]byte{}}
}

// product returns all combinations of the values of a block, the last factor varying fastest.
func product(block []scenario.Factor) [][]Param {
	out := [][]Param{nil}
	for _, f := range block {
		var next [][]Param
		for _, have := range out {
			for _, v := range f.Values {
				next = append(next, append(slices.Clone(have), Param{f.Name, v}))
			}
		}
		out = next
	}
	return out
}

// cell resolves a combination. The error names its fault.
func (p *plan) cell(params []Param) (*Cell, error) {
	c := &Cell{Params: slices.Clone(params)}
	slices.SortFunc(c.Params, func(a, b Param) int { return strings.Compare(a.Name, b.Name) })
	fail := func(factor string, err error) (*Cell, error) { return nil, p.fail(c, factor, err) }
	with := func(spec string, x Param) string {
		key, ok := strings.CutPrefix(x.Name, "policy.")
		switch {
		case !ok:
			return spec
		case strings.Contains(spec, ":"):
			return spec + "," + key + "=" + x.Value
		}
		return spec + ":" + key + "=" + x.Value
	}
	base := own.In(filepath.Dir(p.file.Source), c.Get("policy"))
	spec := base
	for _, x := range c.Params {
		spec = with(spec, x)
	}
	var err error
	if _, err = policy.Parse(spec); err != nil {
		factor := "policy"
		if _, err := policy.Parse(base); err == nil {
			for _, x := range c.Params {
				if _, err := policy.Parse(with(base, x)); err != nil {
					factor = x.Name
				}
			}
		}
		return fail(factor, err)
	}
	c.policy = spec
	if text := c.Get("errors"); text != "" {
		if c.errors, err = predict.ParseErrorModel(text); err != nil {
			return fail("errors", err)
		}
	}
	if c.estimator, err = predict.ParseSpec(c.Get("estimator")); err != nil {
		return fail("estimator", err)
	}
	if c.estimator.Kind == predict.KindTrained {
		return fail("estimator", fmt.Errorf("estimator %q: an experiment has no log with a model; gantry simulate "+
			"--estimator trained plans with one", c.estimator))
	}
	if text := c.Get("startup"); text != "" {
		if c.startup, err = reader.Duration(text); err != nil {
			return fail("startup", fmt.Errorf("startup %q: %w", text, err))
		}
	}
	if text := c.Get("charge_planning"); text != "" {
		if c.charge, err = strconv.ParseFloat(text, 64); err != nil || !(c.charge >= 0 && c.charge <= 1e6) {
			return fail("charge_planning", fmt.Errorf("charge_planning %q: it has to be a number from 0 to 1000000, "+
				"times what planning takes in CPU time", text))
		}
	}
	if c.faults, err = scenario.ReadFaults(c.Get("faults")); err != nil {
		return fail("faults", err)
	}
	if err := p.runtime(c); err != nil {
		return nil, err
	}
	if c.load, err = p.workload(c); err != nil {
		return nil, err
	}
	if c.faults != nil && c.faults.SlowShare > 0 && slices.ContainsFunc(c.load.file.Arrivals,
		func(a scenario.Arrival) bool { return a.Costs != nil }) {
		return fail("faults", errors.New("faults: slow_nodes: costs give the runtime on each node: there are no slow "+
			"ones; leave out either"))
	}
	c.Inputs = c.load.digest
	if path := own.Program(spec); path != "" { // a changed program is another policy
		text, err := p.read(path)
		if err != nil {
			return fail("policy", fmt.Errorf("policy %s: %w", spec, err))
		}
		c.Inputs = fmt.Sprintf("%x", sha256.Sum256(append([]byte(c.Inputs), text...)))
	}
	return c, nil
}

// runtime reads the factors of runtimes.
func (p *plan) runtime(c *Cell) error {
	c.runtime = c.Get("runtime")
	for name, to := range map[string]*float64{"time_scale": &c.timeScale, "size_scale": &c.sizeScale} {
		*to = 1
		text := c.Get(name)
		if text == "" {
			continue
		}
		x, err := strconv.ParseFloat(text, 64)
		switch {
		case err != nil || !(x >= 0 && x <= 1e9) || x == 0 && name == "time_scale":
			return p.fail(c, name, fmt.Errorf("%s %q: it has to be a number from 0, and a time_scale above that", name,
				text))
		case c.runtime == "" && x != 1:
			return p.fail(c, name, fmt.Errorf("%s %s: simulations of ideal machines are not scaled: add runtime, or "+
				"leave it out", name, text))
		}
		*to = x
	}
	if c.runtime != "" && (p.file.KeepTiming || p.file.KeepLoad || p.file.KeepSearches) {
		return p.fail(c, "runtime", errors.New("keep: timing, load and searches are of simulations of ideal machines "+
			"alone"))
	}
	if c.runtime != "" && c.charge > 0 {
		return p.fail(c, "charge_planning", errors.New("charge_planning: planning takes its own time on a runtime"))
	}
	return nil
}

// fail reports an error with the combination and with the line of the value of the factor at fault; "" is none.
func (p *plan) fail(c *Cell, factor string, err error) error {
	for _, block := range p.file.Blocks {
		for _, f := range block {
			if i := slices.Index(f.Values, c.Get(factor)); f.Name == factor && i >= 0 && len(f.Lines) > 0 {
				return fmt.Errorf("experiment %s: line %d: %s: %w", p.file.Source, f.Lines[i], c, err)
			}
		}
	}
	if s := p.file.Search; s != nil && s.Parameter == factor {
		return fmt.Errorf("experiment %s: line %d: search: %s: %w", p.file.Source, s.Line, c, err)
	}
	return fmt.Errorf("experiment %s: %s: %w", p.file.Source, c, err)
}

// edit is a factor that changes the workload file.
type edit struct {
	factor string
	path   string // of keys
	value  string
}

// edited reads a workload file with the values of factors put in.
func edited(text []byte, path string, edits []edit) (*scenario.Workload, error) {
	if len(edits) == 0 {
		return scenario.ReadWorkload(bytes.NewReader(text), path)
	}
	var err error
	for _, e := range edits {
		if text, err = put(text, e.path, e.value); err != nil {
			return nil, fmt.Errorf("workload %s: %w", path, err)
		}
	}
	w, err := scenario.ReadWorkload(bytes.NewReader(text), path)
	// Its lines are not those of the file.
	if wrong := new(scenario.FileError); errors.As(err, &wrong) {
		wrong.Line = 0
	} else if err == nil {
		w.ForgetLines()
	}
	return w, err
}

// atFault is the factor without which the load could be drawn; "" if there is none.
func (w *workload) atFault() string {
	for i := range w.edits {
		without := *w
		var err error
		if without.file, err = edited(w.text, w.path, slices.Delete(slices.Clone(w.edits), i, i+1)); err == nil &&
			without.check() == nil {
			return w.edits[i].factor
		}
	}
	return ""
}

// workload reads the workload and the cluster of a cell, with the values of its factors put in.
func (p *plan) workload(c *Cell) (*workload, error) {
	var key []string
	var edits []edit
	for _, x := range c.Params {
		path := x.Name
		if path == "utilisation" {
			path = scenario.Utilisation
		}
		if rest, ok := strings.CutPrefix(path, "workload."); ok {
			edits = append(edits, edit{x.Name, rest, x.Value})
		}
		if x.Name == "cluster" || x.Name == "workload" || path != x.Name || strings.HasPrefix(path, "workload.") {
			key = append(key, path+"="+x.Value)
		}
	}
	id := strings.Join(key, "\x00")
	if w := p.loads[id]; w != nil {
		return w, nil
	}
	w := &workload{path: p.path(c.Get("workload")), edits: edits, cell: c}
	var err error
	if w.text, err = p.read(w.path); err != nil {
		return nil, p.fail(c, "workload", err)
	}
	clusterPath := p.path(c.Get("cluster"))
	clusterText, err := p.read(clusterPath)
	if err != nil {
		return nil, p.fail(c, "cluster", err)
	}
	if w.cluster, err = scenario.ReadCluster(bytes.NewReader(clusterText), clusterPath); err != nil {
		return nil, p.fail(c, "cluster", err)
	}
	if _, err = executor.PlatformOf(w.cluster); err != nil {
		return nil, p.fail(c, "cluster", fmt.Errorf("cluster %s: %w", clusterPath, err))
	}
	// Faults of the file itself come with its own lines.
	if w.file, err = edited(w.text, w.path, nil); err != nil {
		return nil, p.fail(c, "workload", err)
	}
	if w.file, err = edited(w.text, w.path, edits); err != nil {
		return nil, p.fail(c, w.atFault(), err)
	}
	if p.file.Seed != 0 {
		w.file.Seed = p.file.Seed
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%d\x00%s\x00%s", p.file.Seed, w.text, clusterText)
	if err := digestNamed(sum, w.file); err != nil {
		return nil, p.fail(c, "workload", fmt.Errorf("workload %s: %w", w.path, err))
	}
	w.digest = hex.EncodeToString(sum.Sum(nil)[:8])
	p.loads[id] = w
	return w, nil
}

// digestNamed takes in the data that a workload file names: traces, recorded times and costs.
func digestNamed(sum io.Writer, w *scenario.Workload) error {
	var paths []string
	for i := range w.Arrivals {
		paths = append(paths, w.Arrivals[i].Trace)
		if c := w.Arrivals[i].Costs; c != nil {
			fmt.Fprint(sum, c.Seconds) // keys are printed in order
		}
	}
	if w.Stream != nil {
		for i := range w.Stream.Mix {
			if t := w.Stream.Mix[i].Trace; t != "" {
				paths = append(paths, t)
			}
		}
		if times := w.Stream.Arrivals.Times; len(times) > 0 {
			fmt.Fprint(sum, times)
		}
	}
	slices.Sort(paths)
	files, _, err := trace.Find(slices.Compact(paths))
	if err != nil {
		return err
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		_, err = io.Copy(sum, f)
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *plan) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(p.file.Source), name)
}

func (p *plan) read(path string) ([]byte, error) {
	if text, ok := p.texts[path]; ok {
		return text, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, trace.Plain(err)
	}
	p.texts[path] = text
	return text, nil
}

// put sets the value at a path of keys, separated by dots, in a YAML document; numbers are positions in lists, from 0.
func put(doc []byte, path, value string) ([]byte, error) {
	var root, v yaml.Node
	if err := yaml.Unmarshal(doc, &root); err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal([]byte(value), &v); err != nil || len(v.Content) == 0 {
		return nil, fmt.Errorf("value %q of %s: %w", value, path, err)
	}
	if len(root.Content) == 0 {
		root = yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{{Kind: yaml.MappingNode}}}
	}
	if err := set(&root.Content[0], strings.Split(path, "."), v.Content[0]); err != nil {
		return nil, fmt.Errorf("factor workload.%s: %w", path, err)
	}
	return yaml.Marshal(&root)
}

func set(at **yaml.Node, path []string, value *yaml.Node) error {
	if len(path) == 0 {
		*at = value
		return nil
	}
	n := *at
	switch {
	case n.ShortTag() == "!!null":
		*n = yaml.Node{Kind: yaml.MappingNode}
		fallthrough
	case n.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == path[0] {
				return set(&n.Content[i+1], path[1:], value)
			}
		}
		n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: path[0]},
			&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"})
		return set(&n.Content[len(n.Content)-1], path[1:], value)
	case n.Kind == yaml.SequenceNode:
		i, err := strconv.Atoi(path[0])
		if err != nil || i < 0 || i >= len(n.Content) {
			return fmt.Errorf("%s is no position in a list of %d", path[0], len(n.Content))
		}
		return set(&n.Content[i], path[1:], value)
	}
	return fmt.Errorf("there is no key %s in %v", path[0], n.Value)
}
