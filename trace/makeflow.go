package trace

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"gantry/trace/reader"
	"gantry/trace/shown"
)

// A makeflow, in the syntax like Make's or in JX, is a list of rules: files that a command writes, files that it reads,
// and the command, which is a line for a shell. Where the Makeflow manual leaves a point open, gantry does the same as
// the program makeflow. A task is named after the first file that it writes.

// flowRule is a rule, in either syntax.
type flowRule struct {
	line            int
	outputs, inputs []flowFile
	command         string
	shell           string // that runs it, if the file names one
	nested          string // makeflow that it runs; "" if it has a command
	category        string
	env             []string // NAME=value
	resources       map[string]flowValue
	told            map[string]flowValue // resources in the environment of programs; nil: as they are
}

// flowFile is a file, and its name in the directory of the task.
type flowFile struct{ name, as string }

// flowValue is a text of the file, and its line.
type flowValue struct {
	text string
	line int
}

// Resources of rules, as the syntax like Make's names them.
const (
	flowCores    = "CORES"
	flowMemory   = "MEMORY"
	flowDisk     = "DISK"
	flowGPUs     = "GPUS"
	flowWallTime = "WALL_TIME"
	flowMPI      = "MPI_PROCESSES"
	flowNeeds    = "NEEDS"
	flowNetwork  = "NETWORK"
	flowShell    = "SHELL"
)

var flowKeys = []string{flowCores, flowMemory, flowDisk, flowGPUs, flowWallTime, flowMPI, flowNeeds,
	flowNetwork}

// flowResults is a variable with patterns of files that are results, as makeflow's own garbage collection has it.
const flowResults = "MAKEFLOW_OUTPUTS"

// defaultCategory is of rules that name none.
const defaultCategory = "default"

// IsMakeflow reports whether a file has the name of a makeflow, or of a Makefile.
func IsMakeflow(source string) bool {
	base := strings.TrimSuffix(strings.TrimSuffix(path.Base(source), ".gz"), ".zip")
	return base == "Makeflow" || IsMakefile(source) ||
		slices.Contains([]string{".makeflow", ".mf", ".jx"}, strings.ToLower(path.Ext(base)))
}

func (b *builder) readMakeflow() {
	data, err := b.in.All()
	if err != nil {
		b.faults.Damage(err, 1)
		return
	}
	b.line = 1
	b.quietTwins = true
	text := strings.ReplaceAll(string(data), "\r\n", "\n")
	if strings.HasPrefix(strings.TrimLeft(skipComments(text), " \t\n"), "{") {
		b.wf.Version = "JX"
		b.readJX(text)
	} else if IsMakefile(b.wf.Source) {
		b.readMakefile(text)
	} else {
		b.wf.Version = "Make"
		b.readMake(text)
	}
	b.inDirectories()
}

// skipComments is the text without the comments that it begins with.
func skipComments(text string) string {
	for {
		text = strings.TrimLeft(text, " \t\r\n")
		if !strings.HasPrefix(text, "#") {
			return text
		}
		_, text, _ = strings.Cut(text, "\n")
	}
}

func (b *builder) rule(r *flowRule) {
	id := fmt.Sprintf("rule-%d", len(b.wf.Tasks)+1)
	if len(r.outputs) > 0 {
		id = b.cleaned(r.outputs[0].name)
	}
	for _, f := range r.outputs {
		name := b.cleaned(f.name)
		if old, ok := b.fileOf(name); ok && b.wf.Files[old].Producer >= 0 {
			t := &b.wf.Tasks[b.wf.Files[old].Producer]
			b.faults.Fail("duplicate-output", r.line, id, "%s is written by the rule on line %d, too: a file has one "+
				"rule", name, t.Line)
			return
		}
	}
	t := b.task(id, r.line)
	if t == nil {
		return
	}
	t.Name, t.Kind = t.ID, b.same(cmp.Or(r.category, defaultCategory))
	if t.Kind == defaultCategory {
		t.Kind = b.same(program(r.command))
	}
	writes, seen := map[string]bool{}, map[string]string{}
	var called calls // read once it is asked
	for _, f := range r.outputs {
		if b.keep(48); b.full(r.line) {
			return
		}
		name := b.flowFile(f, false)
		writes[name] = true
		b.oneName(seen, f, name)
	}
	for _, f := range r.inputs {
		if b.full(r.line) {
			return
		}
		if f.as == "" && path.IsAbs(f.name) {
			if called == nil {
				called = callsOf(r.command)
			}
			if called.run(f.name) {
				continue // a program of the image
			}
		}
		name := b.flowFile(f, true)
		b.oneName(seen, f, name)
		if writes[name] {
			b.faults.Fail("cycle", r.line, id, "the rule of %s reads %s, which it writes itself: it waits for itself",
				id, name)
		}
	}
	if r.nested != "" {
		t.SubWorkflow, t.Kind = true, "makeflow"
		b.obstacle(r.line, "", "task %s is a nested makeflow (%s), which gantry does not run: run %s as a workflow "+
			"of its own", t.ID, r.nested, r.nested)
	} else {
		t.Command, t.Shell = b.script(r.line, t.ID, r.command, r.shell), true
		t.Known |= Command
		b.keep(len(r.command) + 16)
	}
	b.flowResources(t, r)
	slices.Sort(r.env)
	t.Env = r.env
	for _, e := range r.env {
		b.keep(len(e) + 24)
	}
	b.full(r.line)
}

// keepResults makes files results that patterns of a key of the makeflow match.
func (b *builder) keepResults(key string, patterns []string, line int) {
	for _, pattern := range patterns {
		if b.faults.HasErrors() || b.full(line) { // rules may be missing
			return
		}
		b.keep(16 * len(b.wf.Files)) // each is compared with all files
		if err := b.wf.KeepResults(pattern); err != nil {
			b.faults.Fail("unknown-result", line, "", "%s: %v", key, err)
		}
	}
}

// flowFile adds a file to the last task, under the name that it has in its directory.
func (b *builder) flowFile(f flowFile, read bool) string {
	if read && f.as != "" && !SafeName(f.name) {
		f.name = b.elsewhere(f.name)
	}
	at := b.file(f.name)
	t, name := b.last(), b.wf.Files[at].Name
	if read {
		b.reads(at)
	} else {
		b.writes(at)
	}
	if as := b.cleaned(f.as); as != "" && as != name {
		if !SafeName(as) || ReservedName(as) {
			b.faults.Fail("unsafe-path", t.Line, t.ID, "the name %s, which %s has in the directory of task %s, is "+
				"absolute, leaves the directory, or is one that gantry uses itself", shown.Quote(f.as), name, t.ID)
			return name
		}
		b.keep(40 + len(as))
		t.Renames = append(t.Renames, Rename{name, as})
	}
	return name
}

// oneName refuses a file with two names in the directory of the last task, and a name of two files there. Seen has the
// names that files have, and behind a NUL the files that names have.
func (b *builder) oneName(seen map[string]string, f flowFile, name string) {
	t, as := b.last(), b.cleaned(cmp.Or(f.as, name))
	b.keep(100)
	for key, value := range map[string]string{name: as, "\x00" + as: name} {
		if old, ok := seen[key]; ok && old != value {
			b.faults.Fail("duplicate-name", t.Line, t.ID, "the rule of %s gives %s two names in its directory, or two "+
				"files that name: write one NAME->OTHER for each, with different names", t.ID, shown.Quote(name))
		}
		seen[key] = value
	}
}

// elsewhere adds a file that lies elsewhere on this host, and returns its name in the workflow.
func (b *builder) elsewhere(place string) string {
	place = path.Clean(place)
	name, rest := ".outside", place
	if path.IsAbs(place) {
		name += "/root"
	}
	for ; rest == ".." || strings.HasPrefix(rest, "../"); rest = strings.TrimPrefix(rest[2:], "/") {
		name += "/up"
	}
	name = path.Join(name, rest)
	f := &b.wf.Files[b.file(name)]
	if !path.IsAbs(place) && b.wf.Source != "-" {
		place, _ = filepath.Abs(filepath.Join(filepath.Dir(b.wf.Source), place))
	}
	if f.Origin == nil && path.IsAbs(place) {
		b.keep(80 + len(place))
		f.Origin = &Origin{Locations: []string{place}}
	}
	return name
}

// calls are the words of a command for a shell: those by which it starts programs are true.
type calls map[string]bool

func callsOf(command string) calls {
	words := calls{}
	parsed, err := syntax.NewParser().Parse(strings.NewReader(command), "")
	if err != nil {
		return words
	}
	syntax.Walk(parsed, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok {
			for i, arg := range call.Args {
				word, err := expand.Literal(nil, arg)
				if path.IsAbs(word) {
					word = path.Clean(word)
				}
				if err == nil {
					words[word] = words[word] || i == 0
				}
			}
		}
		return true
	})
	return words
}

// run reports whether a program is started by that path, or one of a directory such as /usr/bin by its name or as the
// argument of another program.
func (c calls) run(program string) bool {
	program = path.Clean(program)
	starts, named := c[program]
	return starts || strings.HasSuffix(path.Dir(program), "bin") && (named || c[path.Base(program)])
}

// program is the program that a command begins with, for the type of the task.
func program(command string) string {
	for _, word := range strings.Fields(command) {
		if at := strings.IndexByte(word, '='); at > 0 && !strings.ContainsAny(word[:at], "/\"'`$(") {
			continue // an assignment
		}
		if end := strings.IndexAny(word, "<>|&;"); end > 0 {
			word = word[:end]
		}
		if word = path.Base(strings.Trim(word, "\"'(){};")); word != "." && word != "/" && len(word) < 100 {
			return word
		}
	}
	return "command"
}

func (b *builder) flowResources(t *Task, r *flowRule) {
	for _, key := range flowKeys {
		v, ok := r.resources[key]
		if !ok || v.text == "" {
			continue
		}
		switch key {
		case flowCores:
			b.cores(t, v.text, v.line)
		case flowMemory:
			b.memory(t, v.text, 1<<20, v.line)
		case flowDisk:
			t.DiskLimit, _ = b.amount(t, "disk", v.text, 1<<20, v.line)
		case flowWallTime:
			b.limit(t, "wall time", v.text, time.Second, v.line)
			if b.opt.EnforceWalltime {
				b.wf.Walltimes = true
				continue
			}
			t.TimeLimit = 0
			b.faults.Warn("not-honoured", v.line, t.ID, "%s of task %s is no limit without --enforce-walltime", key,
				t.ID)
		case flowGPUs:
			if _, err := reader.Number(v.text); err != nil {
				b.badNumber(t, key, v.text, err, v.line)
				continue
			}
			b.gpus(t, "", key, v.text, v.line)
		case flowMPI:
			b.positive(t, key, v.text, reader.MaxCores, v.line)
			b.ungiven(v.line, "", "several MPI processes", key, v.text, 1)
		case flowNeeds:
			b.tokens(t, key, v.text, v.line)
		case flowNetwork:
			b.network(t, key, v.text, v.line)
		}
	}
	r.flowEnvironment()
}

// flowEnvironment adds the variables by which makeflow passes programs their resources. Cores count as threads.
func (r *flowRule) flowEnvironment() {
	told, given := r.told, map[string]string{}
	if told == nil {
		told = r.resources
	}
	for _, e := range r.env {
		name, value, _ := strings.Cut(e, "=")
		given[name] = value
	}
	add := func(name, value string) {
		if _, ok := given[name]; !ok && value != "" {
			r.env = append(r.env, name+"="+value)
		}
	}
	add("OMP_NUM_THREADS", cmp.Or(given[flowCores], told[flowCores].text, "1"))
	add(flowCores, cmp.Or(told[flowCores].text, given["OMP_NUM_THREADS"], "1"))
	for _, key := range []string{flowMemory, flowDisk, flowGPUs, flowWallTime} {
		add(key, told[key].text)
	}
}

// inDirectories has tasks that read a file from outside read the directory in which it lies, if that is a file of the
// workflow from outside, too.
func (b *builder) inDirectories() {
	outer := map[int32]int32{}
	for i := range b.wf.Files {
		if f := &b.wf.Files[i]; f.Producer < 0 && strings.Contains(f.Name, "/") {
			for dir := path.Dir(f.Name); dir != "." && dir != "/"; dir = path.Dir(dir) {
				if k, ok := b.fileOf(dir); ok && b.wf.Files[k].Producer < 0 {
					outer[int32(i)] = k
				}
			}
		}
	}
	if len(outer) == 0 {
		return
	}
	for i := range b.wf.Tasks {
		t := &b.wf.Tasks[i]
		for k, f := range t.Inputs {
			if dir, ok := outer[f]; ok {
				t.Inputs[k] = dir
			}
		}
		seen := map[int32]bool{}
		t.Inputs = slices.DeleteFunc(t.Inputs, func(f int32) bool {
			was := seen[f]
			seen[f] = true
			return was
		})
	}
}
