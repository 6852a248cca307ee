package trace

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gantry/reader"
	"gantry/trace/spelling"
)

// release is 100 × major + minor of the schema version; a file without one is shaped like 1.3 and counts in bytes as
// 1.4 does.
func release(version string) int {
	var major, minor int
	if n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor); n == 2 && major >= 0 && major < 100 && minor >= 0 &&
		minor < 100 {
		return 100*major + minor
	}
	return 104
}

var (
	optionValue = regexp.MustCompile(`^--[A-Za-z][-\w]*\s`)
)

// finish interprets the document.
func (d *wfDocument) finish() {
	b, w := d.b, d.b.wf
	d.release = release(d.version)
	w.Name, w.Version, w.ExecutedAt = d.name, d.version, d.executedAt
	system := strings.ToLower(d.system)
	d.nextflow, d.makeflow, d.pegasus = strings.Contains(system, "nextflow"), strings.Contains(system, "makeflow"),
		strings.Contains(system, "pegasus")
	w.OpaqueNames = w.OpaqueNames || d.nextflow
	b.quietTwins, b.noFileEdges = true, b.noFileEdges || d.release < 100
	switch r := d.release; {
	case d.version == "" && d.found:
		b.faults.Warn("no-version", 1, "", "schemaVersion is missing: read as 1.3, with memory in bytes")
	case d.found && (r > 106 || r < 1):
		b.faults.Warn("unknown-version", 1, "", "schemaVersion %q is not known here: read as 1.5, which may miss "+
			"what is new", d.version)
	}
	if d.makeflow && !b.opt.Kilobytes {
		b.faults.Warn("size-unit", 1, "", "Makeflow instances give file sizes in KB rather than bytes: taken as "+
			"they are written (--kilobytes multiplies by 1000)")
	}
	if d.makespan.text != "" {
		m, err := reader.Seconds(d.makespan.text)
		if err != nil || m < 0 {
			b.faults.Judge(b.opt.Repair, "bad-number", int(d.makespan.line), "", "taken as unknown",
				"makespan %q is not a number of seconds", d.makespan.text)
			m = 0
		}
		w.Makespan = m
	}

	// Files of 1.5 come first: their sizes hold for every use.
	sizes := make(map[string]int32, len(d.files))
	for i, f := range d.files {
		if f.name == "" {
			b.faults.Fail("missing-id", int(f.line), "", "a file without an id; give it one")
		} else if old, ok := sizes[f.name]; ok {
			b.faults.Fail("duplicate-id", int(f.line), "",
				"file id %s is taken by the file on line %d; ids have to be unique", f.name, d.files[old].line)
		} else {
			sizes[f.name] = int32(i)
		}
	}

	for i := range d.executed {
		d.programs[d.executed[i].one(wfID)] = d.executed[i].one(wfProgram)
	}
	w.Tasks = make([]Task, 0, len(d.tasks))
	keys := d.keys()
	for i := range d.tasks {
		t := &d.tasks[i]
		out := b.task(keys[i], int(t.line))
		if out == nil {
			continue
		}
		out.Name, out.Kind = cmp.Or(t.one(wfName), keys[i]), d.kind(t, keys[i])
		if out.Kind != out.Name {
			out.Kind = b.same(out.Kind)
		}
		d.addFiles(t, sizes)
		d.tell(out, t)
		if b.full(int(t.line)) {
			return
		}
	}
	ran := make(map[string]bool, len(d.executed))
	for i := range d.executed {
		e := &d.executed[i]
		id := e.one(wfID)
		at, ok := b.byID[id]
		switch {
		case !ok:
			d.stray(id, int(e.line), keys)
		case ran[id]:
			b.faults.Warn("duplicate-execution", int(e.line), id,
				"execution.tasks tells twice of task %s: the first is taken", id)
		default:
			ran[id] = true
			d.tell(&w.Tasks[at], e)
		}
	}
	d.references(keys)
	d.originals()
}

// stray notes an execution entry that fits no task.
func (d *wfDocument) stray(id string, line int, keys []string) {
	w, hint := d.b.wf, ""
	if near := spelling.Nearest(id, keys); near != "" {
		hint = " (did you mean " + near + "?)"
	}
	if len(w.Obstacles) < reader.MaxErrors {
		w.Obstacles = append(w.Obstacles, fmt.Sprintf("%s:%d: execution.tasks has an entry of task %q, which "+
			"specification.tasks does not have%s; correct the id", w.Source, line, id, hint))
	}
	d.b.faults.Warn("unknown-execution", line, id, "execution.tasks has an entry of task %q, which "+
		"specification.tasks does not have%s: ignored, but gantry run refuses it without --emulate", id, hint)
}

// one is a fact of which there is one; of several the last that says something.
func (t *wfTask) one(kind wfKind) (text string) {
	for i := range t.facts {
		if f := &t.facts[i]; f.kind == kind && f.text != "" {
			text = f.text
		}
	}
	return text
}

// keys decides what identifies each task: its id where ids are complete, unique and what the parents refer to; else the
// name, where names are unique.
func (d *wfDocument) keys() []string {
	type key struct{ id, name string }
	all := make([]key, len(d.tasks))
	byID, byName := make(map[string]struct{}, len(all)), make(map[string]struct{}, len(all))
	for i := range d.tasks {
		all[i] = key{d.tasks[i].one(wfID), d.tasks[i].one(wfName)}
		byID[all[i].id], byName[all[i].name] = struct{}{}, struct{}{}
	}
	_, noID := byID[""]
	_, noName := byName[""]
	ids, names := len(byID) == len(all) && !noID, len(byName) == len(all) && !noName
	asID, asName := 0, 0
	for i := range d.tasks {
		if !ids || !names { // there is nothing to choose
			break
		}
		for _, f := range d.tasks[i].facts {
			if f.kind != wfParent {
				continue
			}
			if _, ok := byID[f.text]; ok {
				asID++
			}
			if _, ok := byName[f.text]; ok {
				asName++
			}
		}
	}
	useName := names && (!ids || asName > asID)
	keys := make([]string, len(all))
	for i := range all {
		if keys[i] = cmp.Or(all[i].id, all[i].name); useName {
			keys[i] = all[i].name
		}
	}
	return keys
}

// references adds the dependencies. They are said by keys, in some versions by names though tasks have ids, or by ids
// though keys are names; children repeat what parents say.
func (d *wfDocument) references(keys []string) {
	var others map[string]string // names, else ids, of those whose key is another
	key := func(ref string) string {
		if _, ok := d.b.byID[ref]; ok {
			return ref
		}
		if others == nil {
			others = map[string]string{}
			for _, kind := range []wfKind{wfID, wfName} { // names count more
				for i := range d.tasks {
					others[d.tasks[i].one(kind)] = keys[i]
				}
			}
		}
		return cmp.Or(others[ref], ref)
	}
	for i := range d.tasks {
		me, known := d.b.byID[keys[i]]
		for _, f := range d.tasks[i].facts {
			if f.kind != wfParent && f.kind != wfChild {
				continue
			}
			at, ok := d.b.byID[f.text]
			switch parent := f.kind == wfParent; {
			case known && ok && parent:
				d.b.follows(at, me, int(f.line))
			case known && ok:
				d.b.follows(me, at, int(f.line))
			case parent:
				d.b.depends(key(f.text), keys[i], int(f.line))
			default:
				d.b.depends(keys[i], key(f.text), int(f.line))
			}
		}
		if d.b.full(int(d.tasks[i].line)) {
			return
		}
	}
}

// originals gives tasks and files the ids back that WriteWfFormat had to replace.
func (d *wfDocument) originals() {
	for i := range d.b.wf.Files {
		if name, ok := d.original[d.b.wf.Files[i].Name]; ok && name != "" {
			d.b.wf.Files[i].Name = name
		}
	}
	d.b.resolveLate() // while ids are those of the file
	for i := range d.tasks {
		t := &d.tasks[i]
		if original := t.one(wfOriginal); original != "" {
			if at, ok := d.b.byID[t.one(wfID)]; ok {
				d.b.wf.Tasks[at].ID = original
			}
		}
	}
}

// kind is the transformation of a task: its category, else for Nextflow the process, which is the name, else the name
// without the number that the system appended; where that still begins with the program ("fast2bfq_fast2bfq_HEP2_1"),
// the program.
func (d *wfDocument) kind(t *wfTask, key string) string {
	if category := t.one(wfCategory); category != "" {
		return category
	}
	name := cmp.Or(t.one(wfName), key)
	if d.nextflow {
		return name
	}
	digits := len(name) - len(strings.TrimRight(name, "0123456789"))
	if s, ok := strings.CutSuffix(name[:len(name)-digits], "_ID"); ok && digits > 0 && s != "" {
		if p := cmp.Or(t.one(wfProgram), d.programs[t.one(wfID)]); p != "" && strings.HasPrefix(s, p+"_") {
			return p
		}
		return s
	}
	if n := len(name) - 9; n > 0 && digits >= 8 && name[n] == '_' {
		return name[:n]
	}
	return name
}

// addFiles adds the files of the task that was added last, inputs first.
func (d *wfDocument) addFiles(t *wfTask, sizes map[string]int32) {
	b := d.b
	for _, kind := range []wfKind{wfInput, wfOutput} {
		for i, u := range t.facts {
			if u.kind != kind {
				continue
			}
			if b.lacks {
				return
			}
			if u.text == "" {
				id := cmp.Or(t.one(wfID), t.one(wfName))
				b.faults.Warn("unnamed-file", int(u.line), id, "task %s has a file without a name: ignored", id)
				continue
			}
			name, f := u.text, int32(0)
			if !b.wf.OpaqueNames { // a directory may be written with a slash, and without
				name = cmp.Or(strings.TrimRight(name, "/"), name)
			}
			if kind == wfInput {
				f = b.reads(name)
			} else {
				f = b.writes(name)
			}
			if i+1 < len(t.facts) && t.facts[i+1].kind == wfSize {
				size := &t.facts[i+1]
				b.size(f, size.text, kind == wfOutput, int(size.line))
			} else if at, ok := sizes[u.text]; ok && !b.uses[f].hasOut && d.files[at].size.text != "" {
				b.size(f, d.files[at].size.text, true, int(d.files[at].size.line))
			}
		}
	}
}

// tell fills in what is known of the task itself.
func (d *wfDocument) tell(t *Task, x *wfTask) {
	b, old := d.b, d.release < 104
	var one [wfSingles]wfFact
	var env []string
	for _, f := range x.facts {
		if f.kind == wfEnv {
			env = append(env, f.text)
		} else if f.kind < wfSingles && (f.text != "" || f.kind == wfCommand) {
			one[f.kind] = f
		}
	}
	newer := func(kind, older wfKind) wfFact {
		if one[kind].text == "" {
			return one[older]
		}
		return one[kind]
	}
	if v := newer(wfRuntimeNew, wfRuntime); v.text != "" {
		b.runtime(t, v.text, int(v.line))
	}
	if v := newer(wfCoresNew, wfCores); v.text != "" {
		b.cores(t, v.text, int(v.line))
	}
	if v := one[wfAvgCPU]; v.text != "" {
		// Nextflow says 0 of a process too short to be sampled.
		if n := b.positive(t, "avgCPU", v.text, int(v.line)); n > 0 || n == 0 && !d.nextflow {
			t.AvgCPU = n
			t.Known |= AvgCPU
		}
	}
	memory, scale := newer(wfMemoryInBytes, wfMemory), int64(1)
	if one[wfMemoryInBytes].text == "" && old || d.kilobyteRM && !old {
		scale = 1000
	}
	if memory.text != "" {
		b.memory(t, memory.text, scale, int(memory.line))
	}
	for _, io := range []struct {
		what        string
		kind, older wfKind
		to          *int64
		known       Fields
	}{{"bytes read", wfReadBytes, wfBytesRead, &t.ReadBytes, ReadBytes}, {"bytes written", wfWrittenBytes,
		wfBytesWritten, &t.WrittenBytes, WrittenBytes}} {
		v, scale := newer(io.kind, io.older), int64(1)
		if one[io.kind].text == "" && old && (d.makeflow || d.nextflow) {
			scale = 1000
		}
		if v.text == "" {
			continue
		}
		if n, ok := b.amount(t, io.what, v.text, scale, int(v.line)); ok {
			*io.to = n
			t.Known |= io.known
		}
	}

	if one[wfCommand].kind == wfCommand {
		if t.Command, t.Shell = d.argv(x, &one, t.Kind); len(t.Command) > 0 {
			t.Known |= Command
		}
	}
	if v := one[wfImage]; v.text != "" {
		b.image(t, v.text)
	}
	t.Stdin, t.Stdout, t.Stderr = cmp.Or(one[wfStdin].text, t.Stdin), cmp.Or(one[wfStdout].text, t.Stdout),
		cmp.Or(one[wfStderr].text, t.Stderr)
	if env != nil {
		slices.Sort(env)
		t.Env = env
	}
	number := func(kind wfKind, what string, most float64) float64 {
		return min(b.positive(t, what, one[kind].text, int(one[kind].line)), most)
	}
	if one[wfRetries].text != "" {
		t.Retries = int(number(wfRetries, "retries", 1e6))
	}
	if one[wfPhase].text != "" {
		t.Phase = int32(number(wfPhase, "phase", maxPhase))
	}
	if one[wfDisk].text != "" {
		t.DiskBps = int64(number(wfDisk, "diskBytesPerSecond", maxRate))
	}
	if v := one[wfTimeLimit]; v.text != "" {
		b.limit(t, "timeLimitInSeconds", v.text, 1e9, int(v.line))
	}
	if v := one[wfDiskLimit]; v.text != "" {
		t.DiskLimit, _ = b.amount(t, "diskLimitInBytes", v.text, 1, int(v.line))
	}
	t.SubWorkflow = t.SubWorkflow || one[wfSubWorkflow].text == "true"
}

// image sets the container image; the way Pegasus and Singularity write Docker images is accepted.
func (b *builder) image(t *Task, image string) {
	t.Image = b.same(strings.TrimLeft(strings.TrimPrefix(strings.TrimSpace(image), "docker://"), "/"))
	if t.Image != "" {
		t.Known |= Image
	}
}

// argv interprets a command by the rule that readWfFormat states.
func (d *wfDocument) argv(x *wfTask, one *[wfSingles]wfFact, kind string) (argv []string, shell bool) {
	program, id := one[wfProgram].text, cmp.Or(one[wfID].text, one[wfName].text)
	var pieces []string
	for _, f := range x.facts {
		switch f.kind {
		case wfArgument:
			pieces = append(pieces, f.text)
		case wfArgv:
			argv = append(argv, f.text)
		}
	}
	if argv != nil {
		return argv, false
	}
	if program == "" { // up to 1.0 there are only arguments
		program = kind
	}
	if d.makeflow && len(pieces) > 0 && strings.TrimPrefix(pieces[0], "./") == strings.TrimPrefix(program, "./") {
		program, pieces = pieces[0], pieces[1:] // Makeflow repeats the program
	}
	all := append([]string{program}, pieces...)
	line := strings.Join(all, " ")
	switch {
	case one[wfShell].text != "":
		shell = one[wfShell].text == "true"
		if !shell {
			return all, false
		}
	case d.makeflow || d.nextflow:
		shell = needsShell(line)
		if !shell {
			return d.b.words(int(x.line), id, line), false
		}
	case len(pieces) == 0:
		if !strings.ContainsAny(program, " \t\n") {
			return all, false
		}
		shell = true
	default:
		shell = !d.pegasus && slices.ContainsFunc(pieces, func(p string) bool { return operators[p] })
	}
	if shell {
		return []string{line}, true
	}
	argv = all[:1:1]
	for _, p := range pieces {
		if strings.HasPrefix(p, "--") && optionValue.MatchString(p) {
			argv = append(argv, d.b.words(int(x.line), id, p)...)
		} else {
			argv = append(argv, p)
		}
	}
	return argv, false
}
