package trace

import (
	"cmp"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gantry/trace/reader"
)

// IsMakefile reports whether a file has the name of a Makefile.
func IsMakefile(source string) bool {
	base := path.Base(filepath.ToSlash(source))
	return slices.Contains([]string{"Makefile", "makefile", "GNUmakefile"}, base) || strings.HasSuffix(base, ".mk")
}

// makefile is a plain Makefile, as far as it is a workflow: variables, rules, patterns and automatic variables. What
// its first target needs is read as rules of a makeflow. What GNU Make does besides is refused.
type makefile struct {
	b        *builder
	vars     map[string]makeVar
	rules    map[string]*makeRule // by target
	patterns []*makeRule
	phony    map[string]bool
	goal     string
	made     map[string]bool // targets whose rules were taken
	oneShell bool
	room     int // bytes of expanded text that are left
	tries    int // of patterns, that are left
}

type makeVar struct {
	text   string
	simple bool // expanded when it was set
	line   int
}

// makeRule is a rule; recipes are not expanded.
type makeRule struct {
	line     int
	targets  []string // of a pattern, or of a group
	needs    []string
	recipe   []string
	has      bool // a recipe, even an empty one
	static   string
	grouping bool
	closed   bool // it had a recipe when more was said of it
}

const (
	makeDepth = 100
	makeGoal  = ".DEFAULT_GOAL"
	makeFlags = ".SHELLFLAGS"
	makeOrder = "|" // before a need that $^ does not have
)

func (m *makefile) fail(line int, format string, args ...any) {
	m.b.faults.Fail("makefile", line, "", format, args...)
	panic(stop{})
}

var (
	makeAssigns = regexp.MustCompile(`^([A-Za-z_.][\w.-]*)[ \t]*(::?=|\?=|\+=|=)[ \t]*(.*)$`)
	makeRefused = regexp.MustCompile(`^-?(include|sinclude|ifeq|ifneq|ifdef|ifndef|else|endif|define|endef|export|` +
		`override|vpath|unexport)\b`)
	makeFunction = regexp.MustCompile(`^([a-z]+)[ \t]`)
)

func (b *builder) readMakefile(text string) {
	m := &makefile{b: b, vars: map[string]makeVar{}, rules: map[string]*makeRule{}, phony: map[string]bool{},
		made: map[string]bool{}, room: 1<<20 + 20*len(text),
		tries: 20_000 + 20*len(text)}
	b.wf.Version = "Makefile"
	defer stopped()
	m.statements(text)
	line := max(1, m.vars[makeGoal].line)
	if goal := strings.TrimSpace(m.value(makeGoal, nil, line, 0)); goal != "" {
		m.goal = goal
	}
	if m.goal == "" {
		m.fail(line, "it has no target")
	}
	r, _ := m.find(m.goal, 0)
	if r == nil {
		m.fail(line, "no rule makes %s, which %s names", m.goal, makeGoal)
	}
	for _, name := range m.take(m.goal, m.goal, 0, 0) {
		if !m.made[name] && !m.exists(name) {
			m.fail(r.line, "%s needs %s, which is no file, and no rule makes it", m.goal, name)
		}
	}
}

func (m *makefile) statements(text string) {
	var open []*makeRule // rules that recipe lines belong to
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line, at := lines[i], i+1
		recipe := strings.HasPrefix(line, "\t") && open != nil
		for strings.HasSuffix(line, `\`) && i+1 < len(lines) {
			i++
			if recipe {
				line += "\n" + strings.TrimPrefix(lines[i], "\t")
			} else {
				line = strings.TrimRight(line[:len(line)-1], " \t") + " " + strings.TrimLeft(lines[i], " \t")
			}
		}
		if recipe {
			for _, r := range open {
				if r.closed {
					m.fail(at, "%s has a recipe already, from line %d on", r.targets[0], r.line)
				}
				r.recipe, r.has = append(r.recipe, line[1:]), true
			}
			continue
		}
		if line = strings.TrimSpace(uncommented(line)); line == "" {
			continue
		}
		if a := makeAssigns.FindStringSubmatch(line); a != nil {
			m.assign(a[1], a[2], a[3], at)
			open = nil
			continue
		}
		if word := makeRefused.FindString(line); word != "" {
			m.fail(at, "%s is not read: gantry reads variables, rules and patterns; write it as a makeflow "+
				"(docs/makeflow.md)", word)
		}
		open = m.rule(line, at)
	}
}

// uncommented is a line without its comment. A # behind a backslash begins none.
func uncommented(line string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(line, "#")
		if !found {
			return out.String() + before
		}
		kept := strings.TrimRight(before, `\`)
		slashes := len(before) - len(kept)
		out.WriteString(kept + strings.Repeat(`\`, slashes/2))
		if slashes%2 == 0 {
			return out.String()
		}
		out.WriteByte('#')
		line = after
	}
}

func (m *makefile) assign(name, how, value string, line int) {
	old, was := m.vars[name]
	switch {
	case name == ".RECIPEPREFIX" || name == "VPATH":
		m.fail(line, "%s is not read: begin recipes with a tab, and name files with their directories", name)
	case how == "?=" && was:
		return
	case how == "+=" && was:
		if old.simple {
			value = m.expand(value, nil, line, 0)
		}
		value = strings.TrimSpace(old.text + " " + value)
		m.vars[name] = makeVar{value, old.simple, line}
	case how == ":=" || how == "::=":
		m.vars[name] = makeVar{m.expand(value, nil, line, 0), true, line}
	default:
		m.vars[name] = makeVar{value, false, line}
	}
	m.spend(len(value), line)
}

func (m *makefile) spend(bytes, line int) {
	if m.room -= bytes + 16; m.room < 0 {
		m.b.faults.Fail("bound", line, "", "its variables make more text than 20 times its size and 1 MB")
		panic(stop{})
	}
}

// rule reads the line of a rule, and returns those that its recipe is of.
func (m *makefile) rule(line string, at int) []*makeRule {
	line, command, hasCommand := strings.Cut(line, ";")
	line = m.expand(line, nil, at, 0)
	left, right, ok := strings.Cut(line, ":")
	if !ok {
		m.fail(at, "neither a variable nor a rule: %q", line)
	}
	grouped := strings.HasSuffix(left, "&")
	targets := strings.Fields(strings.TrimSuffix(left, "&"))
	if makeAssigns.MatchString(strings.TrimSpace(right)) {
		m.fail(at, "a variable of one target is not read: write its value into the recipe")
	}
	static := ""
	if first, second, ok := strings.Cut(right, ":"); ok {
		if strings.TrimSpace(first) == "" {
			m.fail(at, "a rule with two colons is not read")
		}
		static, right = strings.TrimSpace(first), second
	}
	right, order, _ := strings.Cut(right, "|")
	needs := strings.Fields(right)
	for _, need := range strings.Fields(strings.ReplaceAll(order, "|", " ")) {
		needs = append(needs, makeOrder+need)
	}
	if len(targets) == 0 {
		m.fail(at, "a rule without a target")
	}
	if slices.Contains([]string{".DEFAULT", ".EXPORT_ALL_VARIABLES", ".IGNORE", ".SECONDEXPANSION"}, targets[0]) {
		m.fail(at, "%s is not read: it changes what other rules mean; write them out", targets[0])
	}
	if strings.HasPrefix(targets[0], ".") && !strings.Contains(targets[0], "/") && strings.ToUpper(targets[0]) ==
		targets[0] {
		for _, name := range needs {
			m.phony[name] = m.phony[name] || targets[0] == ".PHONY"
		}
		m.oneShell = m.oneShell || targets[0] == ".ONESHELL"
		return []*makeRule{{}}
	}
	var rules []*makeRule
	if strings.Contains(targets[0], "%") {
		rules = []*makeRule{{line: at, targets: targets, needs: needs, grouping: true}}
		m.patterns = append(m.patterns, rules...)
	} else {
		rules = m.explicit(targets, needs, static, grouped, at)
	}
	if hasCommand {
		for _, r := range rules {
			r.recipe, r.has = append(r.recipe, strings.TrimSpace(command)), true
		}
	}
	return rules
}

// explicit adds needs to the rules of targets, which share one if they are grouped.
func (m *makefile) explicit(targets, needs []string, static string, grouped bool, line int) (rules []*makeRule) {
	if m.goal == "" && (targets[0][0] != '.' || strings.Contains(targets[0], "/")) {
		m.goal = targets[0]
	}
	for i, target := range targets {
		if grouped && i > 0 {
			m.rules[target] = rules[0]
			continue
		}
		r := m.rules[target]
		if r == nil {
			r = &makeRule{line: line, targets: []string{target}}
			m.rules[target] = r
		}
		r.closed = r.has
		r.needs = append(slices.Clip(r.needs), needs...)
		if static != "" {
			stem, ok := makeStem(static, target)
			if !ok {
				m.fail(line, "target %s does not match %s", target, static)
			}
			r.static = stem
			r.needs = stemmed(r.needs, stem)
		}
		if grouped {
			r.targets, r.grouping = targets, true
		}
		rules = append(rules, r)
		m.spend(len(target)*(1+len(needs)), line)
	}
	return rules
}

// makeStem is what % stands for in a pattern that matches a name.
func makeStem(pattern, name string) (string, bool) {
	before, after, ok := strings.Cut(pattern, "%")
	if !ok || len(name) < len(before)+len(after) || !strings.HasPrefix(name, before) ||
		!strings.HasSuffix(name, after) {
		return "", ok && pattern == name
	}
	return name[len(before) : len(name)-len(after)], true
}

// stemmed are names with a stem in place of %.
func stemmed(names []string, stem string) (out []string) {
	for _, name := range names {
		out = append(out, strings.Replace(name, "%", stem, 1))
	}
	return out
}

// find is the rule that makes a target, and the text of % in it. Of patterns that match, one that needs no further
// pattern comes first, and then the one with the shortest text.
func (m *makefile) find(target string, depth int) (*makeRule, string) {
	r := m.rules[target]
	if r != nil && (r.has || m.phony[target]) {
		return r, r.static
	}
	for _, chained := range []bool{false, true} {
		var best *makeRule
		stem := ""
		for _, p := range m.patterns {
			for _, pattern := range p.targets {
				if s, ok := makeStem(pattern, target); ok && s != "" && (best == nil || len(s) < len(stem)) &&
					m.applies(p, s, depth, chained) {
					best, stem = p, s
				}
			}
		}
		if best != nil {
			return best.of(stem, r), stem
		}
	}
	return r, ""
}

// applies reports whether all that a pattern needs is there, or has a rule; chained, also by further patterns.
func (m *makefile) applies(p *makeRule, stem string, depth int, chained bool) bool {
	if m.tries--; m.tries < 0 {
		m.b.faults.Fail("bound", p.line, "", "its patterns lead to each other in too many ways")
		panic(stop{})
	}
	return !slices.ContainsFunc(p.needs, func(need string) bool {
		need = strings.TrimPrefix(strings.Replace(need, "%", stem, 1), makeOrder)
		if m.rules[need] != nil || m.exists(need) {
			return false
		}
		if !chained || depth > 2 {
			return true
		}
		other, _ := m.find(need, depth+1)
		return other == nil
	})
}

// of is the rule that a pattern gives for a stem; known has further needs of its target.
func (p *makeRule) of(stem string, known *makeRule) *makeRule {
	whole := &makeRule{line: p.line, targets: stemmed(p.targets, stem), needs: stemmed(p.needs, stem),
		recipe: p.recipe, has: true, grouping: true}
	if known != nil {
		whole.needs = append(whole.needs, known.needs...)
	}
	return whole
}

// exists reports whether a file lies beside the Makefile.
func (m *makefile) exists(name string) bool {
	if !m.b.opt.near || !SafeName(name) {
		return !m.b.opt.near // of a text alone nothing is known
	}
	_, err := os.Stat(filepath.Join(filepath.Dir(m.b.wf.Source), name))
	return err == nil
}

// take makes tasks of the rules that a target needs, and returns the files that it stands for.
func (m *makefile) take(target, by string, line, depth int) []string {
	if depth > makeDepth*10 {
		m.fail(line, "targets need each other, %d deep: %s among them", makeDepth*10, target)
	}
	r, stem := m.find(target, 0)
	switch {
	case r == nil:
		return []string{target}
	case !r.has && m.made[target]: // gathered again
	case m.made[target]:
		return []string{target}
	}
	m.spend(len(target), r.line)
	for _, t := range append(r.targets, target) {
		m.made[t] = true
	}
	var needs, order []string
	for _, need := range r.needs {
		need, ordered := strings.CutPrefix(need, makeOrder)
		to := &needs
		if ordered {
			to = &order
		}
		*to = append(*to, m.take(need, target, r.line, depth+1)...)
		m.spend(len(need)+len(needs)+len(order), r.line)
	}
	seen := map[string]bool{}
	again := func(f string) bool { was := seen[f]; seen[f] = true; return was }
	inputs := slices.DeleteFunc(slices.Clone(needs), again)
	auto := map[string]string{"@": target, "^": strings.Join(inputs, " "), "+": strings.Join(needs, " "), "*": stem}
	order = slices.DeleteFunc(order, again)
	auto["|"] = strings.Join(order, " ")
	if len(needs) > 0 {
		auto["<"] = needs[0]
	}
	if inputs = append(inputs, order...); !r.has {
		return inputs
	}
	rule := &flowRule{line: r.line, command: m.recipe(r, auto), shell: m.shell(r)}
	if m.phony[target] {
		if target != by {
			m.fail(r.line, "%s is phony, has a recipe, and %s needs it: a task has to write a file that others "+
				"wait for", target, by)
		}
	} else if r.grouping {
		for _, t := range r.targets {
			rule.outputs = append(rule.outputs, flowFile{name: t})
		}
	} else {
		rule.outputs = []flowFile{{name: target}}
	}
	for _, f := range inputs {
		rule.inputs = append(rule.inputs, flowFile{name: f})
	}
	m.b.rule(rule)
	return []string{target}
}

// shell is that of recipes, "" if the Makefile names none. Make gives it the command behind its flags.
func (m *makefile) shell(r *makeRule) string {
	value := func(name string) (text string, line int) {
		return strings.TrimSpace(m.value(name, nil, r.line, 0)), max(1, m.vars[name].line)
	}
	shell, _ := value(flowShell)
	flags, line := value(makeFlags)
	if shell == "" && flags == "" {
		return ""
	}
	words := strings.Fields(cmp.Or(shell, "/bin/sh"))
	if name := path.Base(words[len(words)-1]); len(r.recipe) > 1 && !m.oneShell && !slices.Contains([]string{"ash",
		"bash", "dash", "ksh", "sh", "zsh"}, name) {
		m.fail(r.line, "a recipe of several lines for %s: gantry joins lines for shells alone; write .ONESHELL:", name)
	}
	flags, ok := strings.CutSuffix(cmp.Or(flags, "-c"), "c")
	if last := flags[strings.LastIndexAny(flags, " \t")+1:]; !ok || !strings.HasPrefix(last, "-") {
		m.fail(line, "%s is read if it ends with -c, or with options and a c, such as -ec", makeFlags)
	}
	return strings.TrimSuffix(strings.Join(words, " ")+" "+flags, " -")
}

// recipe is the command of a rule. Make has a shell for each line; a failure of one ends it.
func (m *makefile) recipe(r *makeRule, auto map[string]string) string {
	auto["?"] = auto["^"]
	for _, name := range []string{"@", "<", "*", "^", "+", "?"} {
		auto[name+"D"], auto[name+"F"] = eachWord(auto[name], path.Dir), eachWord(auto[name], path.Base)
	}
	var lines []string
	for _, line := range r.recipe {
		line = m.expand(line, auto, r.line, 0)
		ignored := false
		for ; line != "" && strings.IndexByte("@-+ \t", line[0]) >= 0; line = line[1:] {
			ignored = ignored || line[0] == '-'
		}
		if line == "" {
			continue
		}
		if !m.oneShell && len(r.recipe) > 1 {
			line = "(" + line + "\n)"
		}
		if ignored {
			line += " || :"
		}
		lines = append(lines, line)
	}
	if m.oneShell {
		return strings.Join(lines, "\n")
	}
	return strings.Join(lines, "\n(exit $?) || exit\n") // "(a) && (b)" would take -e from a
}

func (m *makefile) expand(text string, auto map[string]string, line, depth int) string {
	if depth > makeDepth {
		m.fail(line, "variables refer to each other more than %d deep", makeDepth)
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '$' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		i++
		name, end := string(text[i]), i
		switch text[i] {
		case '$':
			b.WriteByte('$')
			continue
		case '(', '{':
			if end = matching(text, i); end < 0 {
				m.fail(line, "a variable without its end: %q", text)
			}
			name = text[i+1 : end]
		}
		i = end
		value := m.value(name, auto, line, depth)
		m.spend(len(value), line)
		b.WriteString(value)
	}
	return b.String()
}

// matching is where a bracket ends; -1 if it does not.
func matching(text string, at int) int {
	open, close := text[at], byte(')')
	if open == '{' {
		close = '}'
	}
	for i, deep := at, 0; i < len(text); i++ {
		switch text[i] {
		case open:
			deep++
		case close:
			if deep--; deep == 0 {
				return i
			}
		}
	}
	return -1
}

// value is that of a variable, of $(X:.a=.b), or of a function.
func (m *makefile) value(name string, auto map[string]string, line, depth int) string {
	if v, ok := auto[name]; ok {
		return v
	}
	if name != "" && strings.IndexByte("@<^*+?|%", name[0]) >= 0 && auto == nil {
		m.fail(line, "$%s stands where there is no recipe", name)
	}
	if f := makeFunction.FindStringSubmatch(name); f != nil {
		return m.function(f[1], strings.TrimLeft(name[len(f[0]):], " \t"), auto, line, depth)
	}
	if v, change, ok := strings.Cut(name, ":"); ok {
		from, to, ok := strings.Cut(change, "=")
		if !ok {
			m.fail(line, "$(%s) is not read", name)
		}
		if !strings.Contains(from, "%") {
			from, to = "%"+from, "%"+to
		}
		return makeSubstitute(from, to, m.value(v, auto, line, depth+1))
	}
	if name == "MAKE" {
		m.fail(line, "$(MAKE) is not read: a task starts no make of its own; run its Makefile as a workflow")
	}
	v := m.vars[name]
	if given, ok := m.b.opt.Define[name]; ok {
		v = makeVar{given, true, line}
	}
	if m.b.opt.uses(name); v.simple {
		return v.text
	}
	return m.expand(v.text, auto, line, depth+1)
}

func eachWord(text string, change func(string) string) string {
	words := strings.Fields(text)
	for i := range words {
		words[i] = change(words[i])
	}
	return strings.Join(words, " ")
}

func makeSubstitute(from, to, text string) string {
	return eachWord(text, func(w string) string {
		if stem, ok := makeStem(from, w); ok {
			return strings.Replace(to, "%", stem, 1)
		}
		return w
	})
}

// function computes one of the functions of Make that only change names.
func (m *makefile) function(name, text string, auto map[string]string, line, depth int) string {
	args := strings.Split(text, ",")
	for i := range args {
		args[i] = m.expand(args[i], auto, line, depth+1)
	}
	switch {
	case name == "patsubst" && len(args) == 3:
		return makeSubstitute(strings.TrimSpace(args[0]), strings.TrimSpace(args[1]), args[2])
	case name == "addprefix" && len(args) == 2:
		return eachWord(args[1], func(w string) string { return args[0] + w })
	case name == "addsuffix" && len(args) == 2:
		return eachWord(args[1], func(w string) string { return w + args[0] })
	case name == "notdir":
		return eachWord(strings.Join(args, ","), path.Base)
	case name == "basename":
		return eachWord(strings.Join(args, ","), func(w string) string { return strings.TrimSuffix(w, path.Ext(w)) })
	case name == "wildcard":
		return m.wildcard(strings.Join(args, ","), line)
	}
	m.fail(line, "$(%s …) is not read: gantry knows patsubst, addprefix, addsuffix, notdir, basename and "+
		"wildcard", name)
	return ""
}

// wildcard lists the files beside the Makefile that match patterns.
func (m *makefile) wildcard(patterns string, line int) string {
	var all []string
	dir := filepath.Dir(m.b.wf.Source)
	for _, p := range strings.Fields(patterns) {
		if !m.b.opt.near || !SafeName(p) {
			m.fail(line, "$(wildcard %s) needs files below the directory of the Makefile", p)
		}
		found, _ := filepath.Glob(filepath.Join(escapeGlob(dir), p))
		for _, f := range found {
			if name, err := filepath.Rel(dir, f); err == nil && len(name) < reader.MaxName {
				m.b.keep(fileKept + len(name))
				all = append(all, filepath.ToSlash(name))
			}
		}
	}
	return strings.Join(all, " ")
}
