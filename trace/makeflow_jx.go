package trace

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gantry/trace/jx"
	"gantry/trace/reader"
	"gantry/trace/spelling"
)

type jxReader struct {
	b     *builder
	eval  *jx.Evaluator
	cats  map[string]*jx.Object
	env   map[string]string // of all rules
	usual string            // the default category
	shell string            // of all commands
	// results are patterns of files that are results, and their line.
	results     []string
	resultsLine int
}

// readJX reads a makeflow in JSON or JX. Only the definitions that are used are evaluated.
func (b *builder) readJX(text string) {
	room := func(bytes int) bool { b.keep(bytes); return !b.lacks }
	root, grouped, err := jx.Parse(text, room)
	if b.jxFault(err) {
		return
	}
	for _, g := range grouped {
		b.faults.Warn("grouping", g.Line, "", "%s without parentheses: makeflow groups from the right, and so does "+
			"gantry; the manual says from the left: add parentheses", g.Text)
	}
	r := &jxReader{b: b, eval: &jx.Evaluator{Keep: room, List: b.lister()}, cats: map[string]*jx.Object{},
		usual: defaultCategory}
	define := root.Member("define")
	for _, name := range define.Keys() {
		b.opt.uses(name)
	}
	r.eval.Lookup = func(name string) (any, bool) {
		b.opt.uses(name)
		if text, ok := b.opt.Define[name]; ok {
			return defined(text), true
		}
		if n := define.Member(name); n != nil {
			return n, true
		}
		return nil, false
	}
	r.common(root)
	rules := root.Member("rules")
	if rules == nil {
		b.faults.Fail("no-tasks", max(1, root.Line()), "", `a makeflow without "rules"`)
		return
	}
	v, err := r.eval.Eval(rules)
	if b.jxFault(err, define.Keys()...) {
		return
	}
	list, ok := v.(jx.List)
	if !ok {
		b.faults.Fail("wrong-type", rules.Line(), "", `"rules" has to be a list`)
		return
	}
	for _, item := range list {
		o, ok := item.(*jx.Object)
		if !ok {
			b.faults.Fail("wrong-type", rules.Line(), "", "a rule has to be an object")
			return
		}
		if r.rule(o); b.faults.Ended() || b.faults.Full() {
			return
		}
	}
	b.keepResults(`"results"`, r.results, r.resultsLine)
}

// defined is the value that --define gives: JSON, else a text.
func defined(text string) any {
	n, _, err := jx.Parse(text, func(int) bool { return true })
	if err == nil {
		constant := &jx.Evaluator{Keep: func(int) bool { return true },
			Lookup: func(string) (any, bool) { return nil, false }}
		if v, err := constant.Eval(n); err == nil {
			return v
		}
	}
	return text
}

// jxFault reports an error of an expression, and returns whether there was one.
func (b *builder) jxFault(err error, known ...string) bool {
	e := new(jx.Error)
	switch {
	case err == nil:
		return false
	case !errors.As(err, &e):
		b.faults.Fail("expression", 1, "", "%v", err)
	case e.Rule == "undefined-variable":
		b.undefined(e.Message, e.Line, known)
	case e.Rule == "bound" && e.Message == "":
		b.faults.Fail("bound", e.Line, "", "%s", b.in.TooMuch())
	default:
		b.faults.Fail(e.Rule, e.Line, "", "%s", e.Message)
	}
	return true
}

// lister lists directories beside the workflow; nil if that comes from standard input.
func (b *builder) lister() func(dir string) ([]string, error) {
	if b.wf.Source == "-" || b.wf.Source == "" {
		return nil
	}
	return func(dir string) ([]string, error) {
		root, err := os.OpenRoot(filepath.Dir(b.wf.Source))
		if err != nil {
			return nil, err
		}
		defer root.Close()
		d, err := root.Open(filepath.FromSlash(dir))
		if err != nil {
			return nil, fmt.Errorf("directory %q beside the workflow: %w", dir, errors.Unwrap(err))
		}
		defer d.Close()
		names, err := d.Readdirnames(100_000)
		if len(names) > 0 {
			err = nil
		}
		slices.Sort(names)
		return names, err
	}
}

// common reads the keys that rules share.
func (r *jxReader) common(root *jx.Node) {
	known := []string{"rules", "define", "environment", "categories", "default_category", "results", "shell"}
	for _, key := range root.Keys() {
		n := root.Member(key)
		if n == nil || key == "rules" || key == "define" {
			continue
		}
		if !slices.Contains(known, key) {
			r.unknown(key, n.Line(), known)
			continue
		}
		v, err := r.eval.Eval(n)
		if r.b.jxFault(err, root.Member("define").Keys()...) {
			continue
		}
		ok := false
		switch key {
		case "results":
			ok = r.patterns(v, n.Line())
		case "default_category":
			r.usual, ok = v.(string)
		case "shell":
			r.shell, ok = v.(string)
		case "environment":
			r.env = map[string]string{}
			ok = r.environment(r.env, v)
		case "categories":
			ok = r.categories(v)
		}
		if !ok {
			r.b.faults.Fail("wrong-type", n.Line(), "", "%q has a value of the wrong type", key)
		}
	}
}

// categories takes in the categories, and reports whether they are an object.
func (r *jxReader) categories(v any) bool {
	all, ok := v.(*jx.Object)
	if !ok {
		return false
	}
	for _, p := range all.Pairs {
		o, ok := p.Value.(*jx.Object)
		if !ok {
			r.b.faults.Fail("wrong-type", p.Line, "", "category %s has to be an object", p.Key)
			continue
		}
		r.cats[p.Key] = o
		for _, of := range o.Pairs {
			if !slices.Contains(categoryKeys, of.Key) {
				r.unknown(of.Key, of.Line, categoryKeys)
			}
		}
	}
	return true
}

// patterns takes in the patterns of results, and reports whether all are texts.
func (r *jxReader) patterns(v any, line int) bool {
	list, ok := v.(jx.List)
	r.resultsLine = line
	for _, v := range list {
		text, ok := v.(string)
		if !ok {
			return false
		}
		r.results = append(r.results, text)
	}
	return ok
}

func (r *jxReader) unknown(key string, line int, known []string) {
	r.b.faults.Warn("unknown-key", line, "", "key %q is ignored: %s", key, spelling.Hint(key, known))
}

// environment adds variables to an environment, and reports whether they are an object.
func (r *jxReader) environment(to map[string]string, v any) bool {
	o, ok := v.(*jx.Object)
	if !ok {
		return false
	}
	for _, p := range slices.Backward(o.Pairs) { // of equal keys the first counts
		value, ok := jx.Text(p.Value)
		if !ok || p.Key == "" || strings.ContainsAny(p.Key, "=\x00") || strings.ContainsRune(value, 0) {
			r.b.faults.Fail("wrong-type", p.Line, "", "environment variable %q has to be a text", p.Key)
			continue
		}
		to[p.Key] = value
	}
	return true
}

var jxResources = []struct{ key, resource string }{{"cores", flowCores}, {"memory", flowMemory}, {"disk", flowDisk},
	{"gpus", flowGPUs}, {"wall-time", flowWallTime}, {"mpi-processes", flowMPI},
	{"network", flowNetwork}}

// resources adds the resources of a category or of a rule.
func (r *jxReader) resources(to map[string]flowValue, v any, line int) {
	o, ok := v.(*jx.Object)
	if !ok {
		r.b.faults.Fail("wrong-type", line, "", `"resources" has to be an object`)
		return
	}
	for _, p := range o.Pairs {
		i := slices.IndexFunc(jxResources, func(x struct{ key, resource string }) bool { return x.key == p.Key })
		if i < 0 {
			r.b.faults.Fail("unknown-key", p.Line, "", "unknown resource %q: there are cores, memory, disk, gpus, "+
				"wall-time, mpi-processes and network; counted resources stand in \"needs\"", p.Key)
			continue
		}
		text, ok := jx.Text(p.Value)
		if !ok {
			r.b.faults.Fail("wrong-type", p.Line, "", "resource %s has to be a number or a text", p.Key)
			continue
		}
		to[jxResources[i].resource] = flowValue{text, p.Line}
	}
}

// needs adds the resources that the run counts, as the syntax like Make's has them.
func (r *jxReader) needs(to map[string]flowValue, v any, line int) {
	o, ok := v.(*jx.Object)
	if !ok {
		r.b.faults.Fail("wrong-type", line, "", `"needs" has to be an object, such as {"licence": 1}`)
		return
	}
	var all []string
	for _, p := range o.Pairs {
		count, _ := jx.Text(p.Value)
		all = append(all, p.Key+":"+count)
	}
	to[flowNeeds] = flowValue{strings.Join(all, ","), line}
}

var (
	ruleKeys = []string{"command", "workflow", "args", "inputs", "outputs", "local_job", "category", "resources",
		"needs", "allocation", "environment", "shell"}
	categoryKeys = []string{"resources", "needs", "environment", "allocation"}
)

func (r *jxReader) rule(o *jx.Object) {
	rule := flowRule{line: o.Line, category: r.usual, shell: r.shell, resources: map[string]flowValue{}}
	texts := map[string]*string{"command": &rule.command, "workflow": &rule.nested, "category": &rule.category,
		"shell": &rule.shell}
	for i := range o.Pairs {
		p := &o.Pairs[i]
		if to := texts[p.Key]; to != nil {
			var ok bool
			if *to, ok = p.Value.(string); !ok {
				r.b.faults.Fail("wrong-type", p.Line, "", "%q of a rule has to be a text", p.Key)
				return
			}
			continue
		}
		switch p.Key {
		case "inputs", "input":
			r.files(&rule.inputs, p)
		case "outputs", "output": // a slip that published makeflows have
			r.files(&rule.outputs, p)
		case "environment", "resources", "needs":
			// over those of the category, below
		case "local_job", "local job", "local-job", "args", "allocation":
			// all commands run in containers, on this host
		default:
			r.unknown(p.Key, p.Line, ruleKeys)
		}
	}
	if (rule.command == "") == (rule.nested == "") {
		why := "a rule without a command"
		if rule.command != "" {
			why = "a rule with a command and a workflow: it has one of them"
		}
		r.b.faults.Fail("wrong-type", o.Line, "", "%s", why)
		return
	}
	env := map[string]string{}
	maps.Copy(env, r.env)
	if c := r.cats[rule.category]; c != nil {
		r.demands(&rule, env, c)
	}
	r.demands(&rule, env, o)
	for k, v := range env {
		rule.env = append(rule.env, r.b.same(k+"="+v))
	}
	slices.Sort(rule.env)
	r.b.rule(&rule)
}

// demands adds the resources and variables of a category or a rule.
func (r *jxReader) demands(rule *flowRule, env map[string]string, o *jx.Object) {
	for _, p := range slices.Backward(o.Pairs) { // of equal keys the first counts
		switch p.Key {
		case "resources":
			r.resources(rule.resources, p.Value, p.Line)
		case "needs":
			r.needs(rule.resources, p.Value, p.Line)
		case "environment":
			if !r.environment(env, p.Value) {
				r.b.faults.Fail("wrong-type", p.Line, "", `"environment" has to be an object`)
			}
		}
	}
}

// files reads a list of files: texts, or objects with the names that a file has in the workflow and for the task.
func (r *jxReader) files(to *[]flowFile, p *jx.Pair) {
	list, ok := p.Value.(jx.List)
	if !ok && p.Value != nil {
		r.b.faults.Fail("wrong-type", p.Line, "", "%q has to be a list of files", p.Key)
		return
	}
	for _, item := range list {
		var f flowFile
		switch x := item.(type) {
		case string:
			f.name = x
		case *jx.Object:
			name, ok := x.Get("dag_name")
			if !ok {
				name, _ = x.Get("name") // of earlier versions
			}
			as, _ := x.Get("task_name")
			f.name, _ = name.(string)
			f.as, _ = as.(string)
		}
		if f.name == "" {
			r.b.faults.Fail("wrong-type", p.Line, "", "a file has to be a text, or an object with dag_name and "+
				"task_name")
			return
		}
		if len(f.name) > reader.MaxName {
			r.b.faults.Fail("bound", p.Line, "", "%s", reader.TooLongName)
			return
		}
		*to = append(*to, f)
	}
}
