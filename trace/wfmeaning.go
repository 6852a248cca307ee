package trace

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gantry/trace/reader"
	"gantry/trace/shown"
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

var optionValue = regexp.MustCompile(`^--[A-Za-z][-\w]*\s`)

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
	if text := d.said(d.makespan); text != "" {
		m, err := reader.Seconds(text)
		if err != nil || m < 0 {
			b.faults.Judge(b.opt.Repair, "bad-number", int(d.makespan.line), "", "taken as unknown",
				"makespan %q is %v", text, cmp.Or(err, errors.New("negative")))
			m = 0
		}
		w.Makespan = m
	}

	// Files of 1.5 come first: their sizes hold for every use.
	for i := range d.files {
		d.fileName(d.files[i].name) // numbers the names that there are
	}
	listed := make([]int32, len(b.all)+1) // by the number of the name, in d.files, from 1 on; the last: of no file
	for i, f := range d.files {
		name := d.fileName(f.name)
		if f.name == 0 {
			b.faults.Fail("missing-id", int(f.line), "", "a file without an id; give it one")
		} else if old := listed[name]; old == 0 {
			listed[name] = int32(i + 1)
		} else if first := &d.files[old-1]; first.name == f.name {
			b.faults.Fail("duplicate-id", int(f.line), "",
				"file id %s is taken by the file on line %d; ids have to be unique", b.all[f.name].text, first.line)
		} else if first.size.text == 0 { // one file, written in two ways
			first.size = f.size
		} else if d.said(first.size) != d.said(f.size) {
			b.faults.Warn("size-differs", int(f.line), "", "file %s is written as %s on line %d, with another size: "+
				"the first is taken", b.all[f.name].text, b.all[first.name].text, first.line)
		}
	}

	d.programs = make([]int32, len(b.all))
	for i := range d.executed {
		d.programs[d.executed[i].id] = d.executed[i].one(wfProgram)
	}
	w.Tasks = make([]Task, 0, len(d.tasks))
	keys := d.keys()
	for i := range d.tasks {
		t := &d.tasks[i]
		out := b.taskAs(keys[i], int(t.line))
		if out == nil {
			continue
		}
		out.Name, out.Kind = b.all[cmp.Or(t.name, keys[i])].text, d.kind(t, keys[i])
		if out.Kind != out.Name {
			out.Kind = b.same(out.Kind)
		}
		d.addFiles(t, listed)
		d.tell(out, t)
		if b.full(int(t.line)) {
			return
		}
	}
	ran := make([]bool, len(w.Tasks))
	for i := range d.executed {
		e := &d.executed[i]
		id := b.all[e.id]
		switch {
		case id.task < 0:
			d.stray(id.text, int(e.line), keys)
		case ran[id.task]:
			b.faults.Fail("duplicate-id", int(e.line), id.text,
				"execution.tasks tells twice of task %s; ids have to be unique", id.text)
		default:
			ran[id.task] = true
			d.tell(&w.Tasks[id.task], e)
		}
	}
	d.references(keys)
	d.originals()
}

// stray notes an execution entry that fits no task.
func (d *wfDocument) stray(id string, line int, keys []int32) {
	w, hint := d.b.wf, ""
	texts := make([]string, len(keys))
	for i, key := range keys {
		texts[i] = d.b.all[key].text
	}
	if near := spelling.Nearest(id, texts); near != "" {
		hint = " (did you mean " + shown.Line(near) + "?)"
	}
	if len(w.Obstacles) < reader.MaxErrors {
		w.Obstacles = append(w.Obstacles, fmt.Sprintf("%s:%d: execution.tasks has an entry of task %q, which "+
			"specification.tasks does not have%s; correct the id", w.Source, line, id, hint))
	}
	d.b.faults.Warn("unknown-execution", line, id, "execution.tasks has an entry of task %q, which "+
		"specification.tasks does not have%s: ignored, but gantry run refuses it without --emulate", id, hint)
}

// one is the text of a fact of which there is one; of several the last that says something.
func (t *wfTask) one(kind wfKind) (text int32) {
	for i := range t.facts {
		if f := &t.facts[i]; f.kind == kind && f.text != 0 {
			text = f.text
		}
	}
	return text
}

// keys decides whether ids or names identify tasks: ids where they are complete and the parents refer to them, or where
// one is there twice, which is a fault; else names, where they are unique.
func (d *wfDocument) keys() []int32 {
	const isID, isName = 1, 2
	is := make([]uint8, len(d.b.all))
	ids, names, twice := true, true, false
	for i := range d.tasks {
		t := &d.tasks[i]
		twice = twice || t.id != 0 && is[t.id]&isID != 0
		ids = ids && t.id != 0
		is[t.id] |= isID
		names = names && t.name != 0 && is[t.name]&isName == 0
		is[t.name] |= isName
	}
	asID, asName := 0, 0
	for i := range d.tasks {
		if !ids || !names || twice { // there is nothing to choose
			break
		}
		for _, f := range d.tasks[i].facts {
			if f.kind == wfParent {
				asID += int(is[f.text] & isID)
				asName += int(is[f.text] & isName / isName)
			}
		}
	}
	useName := names && !twice && (!ids || asName > asID)
	keys := make([]int32, len(d.tasks))
	for i := range keys {
		t := &d.tasks[i]
		if keys[i] = cmp.Or(t.id, t.name); useName {
			keys[i] = t.name
		}
	}
	return keys
}

// references adds the dependencies. They are said by keys, in some versions by names though tasks have ids, or by ids
// though keys are names; children repeat the dependencies of parents.
func (d *wfDocument) references(keys []int32) {
	all := d.b.all
	var others map[int32]int32 // names, else ids, of those whose key is another
	key := func(ref int32) string {
		if all[ref].task >= 0 {
			return all[ref].text
		}
		if others == nil {
			others = map[int32]int32{}
			for _, kind := range []wfKind{wfID, wfName} { // names count more
				for i := range d.tasks {
					others[d.tasks[i].one(kind)] = keys[i]
				}
			}
		}
		return all[cmp.Or(others[ref], ref)].text
	}
	for i := range d.tasks {
		id := &all[keys[i]]
		for _, f := range d.tasks[i].facts {
			if f.kind != wfParent && f.kind != wfChild {
				continue
			}
			at := all[f.text].task
			switch parent := f.kind == wfParent; {
			case id.task >= 0 && at >= 0 && parent:
				d.b.follows(at, id.task, int(f.line))
			case id.task >= 0 && at >= 0:
				d.b.follows(id.task, at, int(f.line))
			case parent:
				d.b.depends(key(f.text), id.text, int(f.line))
			default:
				d.b.depends(id.text, key(f.text), int(f.line))
			}
		}
		if d.b.full(int(d.tasks[i].line)) {
			return
		}
	}
}

// originals gives tasks and files the ids back that WriteWfFormat had to replace.
func (d *wfDocument) originals() {
	b := d.b
	once := func(seen map[string]bool, what, id string, line int) {
		if seen[id] {
			b.faults.Fail("duplicate-id", line, "", "two %s have the original id %s; ids have to be unique", what,
				id)
		}
		seen[id] = true
	}
	seen := map[string]bool{}
	for i := range b.wf.Files {
		if len(d.original) == 0 {
			break
		}
		f := &b.wf.Files[i]
		f.Name = b.cleaned(cmp.Or(d.original[f.Name], f.Name))
		once(seen, "files", f.Name, b.line)
	}
	b.resolveLate() // while ids are those of the file
	restored := false
	for i := range d.tasks {
		t := &d.tasks[i]
		if original := t.one(wfOriginal); original != 0 && b.all[t.id].task >= 0 {
			b.wf.Tasks[b.all[t.id].task].ID, restored = b.text(original), true
		}
	}
	seen = map[string]bool{}
	for i := range b.wf.Tasks {
		if t := &b.wf.Tasks[i]; restored {
			once(seen, "tasks", t.ID, t.Line)
		}
	}
}

// kind is the transformation of a task: its category, else for Nextflow the process, which is the name, else the name
// without the number that the system appended; where that still begins with the program ("fast2bfq_fast2bfq_HEP2_1"),
// the program.
func (d *wfDocument) kind(t *wfTask, key int32) string {
	if category := t.one(wfCategory); category != 0 {
		return d.b.text(category)
	}
	name := d.b.all[cmp.Or(t.name, key)].text
	if d.nextflow {
		return name
	}
	digits := len(name) - len(strings.TrimRight(name, "0123456789"))
	if s, ok := strings.CutSuffix(name[:len(name)-digits], "_ID"); ok && digits > 0 && s != "" {
		p := d.b.text(cmp.Or(t.one(wfProgram), d.programs[t.id]))
		if p != "" && len(s) > len(p) && s[len(p)] == '_' && strings.HasPrefix(s, p) {
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
func (d *wfDocument) addFiles(t *wfTask, listed []int32) {
	b := d.b
	for _, kind := range []wfKind{wfInput, wfOutput} {
		for i, u := range t.facts {
			if u.kind != kind {
				continue
			}
			if b.lacks {
				return
			}
			if u.text == 0 {
				id := b.all[cmp.Or(t.id, t.name)].text
				b.faults.Warn("unnamed-file", int(u.line), id, "task %s has a file without a name: ignored", id)
				continue
			}
			name := d.fileName(u.text)
			f := b.fileAs(name)
			if kind == wfInput {
				b.reads(f)
			} else {
				b.writes(f)
			}
			if i+1 < len(t.facts) && t.facts[i+1].kind == wfSize {
				size := &t.facts[i+1]
				b.size(f, d.said(*size), kind == wfOutput, int(size.line))
			} else if at := listed[min(int(name), len(listed)-1)]; at > 0 && !b.uses[f].hasOut &&
				d.files[at-1].size.text != 0 {
				size := &d.files[at-1].size
				b.size(f, d.said(*size), true, int(size.line))
			}
		}
	}
}

// fileName is the number of the name that a file has however it is written.
func (d *wfDocument) fileName(written int32) int32 {
	text := d.b.all[written].text
	if name := d.b.cleaned(text); name != text {
		return d.b.number(name)
	}
	return written
}

// tell fills in the facts of the task itself.
func (d *wfDocument) tell(t *Task, x *wfTask) {
	d.entry = x
	one := d.one[:]
	clear(one)
	var env []string
	commands := false
	for _, f := range x.facts {
		switch {
		case f.kind == wfCommand:
			commands = true
		case f.kind == wfEnv:
			env = append(env, d.said(f))
		case f.kind >= wfFirst && f.text != 0:
			one[f.kind-wfFirst] = f
		}
	}
	for i, f := range one[:len(wfFields)] {
		if f.text != 0 {
			wfFields[i].take(d, t, f)
		}
	}
	if commands {
		if t.Command, t.Shell = d.argv(x, t.Kind); len(t.Command) > 0 {
			t.Known |= Command
		}
	}
	if env != nil {
		slices.Sort(env)
		t.Env = env
	}
}

func (d *wfDocument) runtime(t *Task, f wfFact) {
	b, text := d.b, d.said(f)
	b.runtime(t, text, int(f.line))
	var ok bool
	if t.Runtime, ok = atOne(t.Runtime, text, d.speed(d.entry)); !ok {
		b.faults.Judge(b.opt.Repair, "bad-number", int(f.line), t.ID, "taken as unknown",
			"runtime %q of task %s is above %v at the relativeSpeed of its machine", text, t.ID, reader.MaxTime)
		t.Known &^= Runtime
	}
}

func (d *wfDocument) cores(t *Task, f wfFact) { d.b.cores(t, d.said(f), int(f.line)) }

func (d *wfDocument) avgCPU(t *Task, f wfFact) {
	// Nextflow says 0 of a process too short to be sampled.
	if n := d.b.positive(t, "avgCPU", d.said(f), 100*reader.MaxCores, int(f.line)); n > 0 || n == 0 && !d.nextflow {
		t.AvgCPU, t.Known = n, t.Known|AvgCPU
	}
}

func (d *wfDocument) memory(t *Task, f wfFact, kilobytes bool) {
	scale := int64(1)
	if kilobytes {
		scale = 1000
	}
	d.b.memory(t, d.said(f), scale, int(f.line))
}

// bytes reads an amount of I/O. Makeflow and Nextflow gave kilobytes by the older keys.
func (d *wfDocument) bytes(t *Task, f wfFact, is Fields, older bool) {
	what, scale := map[Fields]string{ReadBytes: "bytes read", WrittenBytes: "bytes written"}[is], int64(1)
	if older && d.release < 104 && (d.makeflow || d.nextflow) {
		scale = 1000
	}
	n, err := reader.Count(d.said(f), scale)
	d.b.measured(t, is, what, d.said(f), n, err, int(f.line))
}

// speed is that of the machine on which a task was, nil if it is not told.
func (d *wfDocument) speed(x *wfTask) *big.Rat {
	for _, f := range x.facts {
		if f.kind == wfMachine && d.speeds[d.said(f)] != nil {
			return d.speeds[d.said(f)]
		}
	}
	return nil
}

// ratio is a speed as the decimal that people write for it.
func ratio(speed float64) *big.Rat {
	x, _ := new(big.Rat).SetString(strconv.FormatFloat(speed, 'f', -1, 64))
	return x
}

// atOne converts a runtime at some speed to one at speed 1; false if it is above the bound then. It rounds up, as
// simulations round down. The text of the runtime may have digits beyond nanoseconds.
func atOne(run time.Duration, text string, speed *big.Rat) (time.Duration, bool) {
	if speed == nil || run <= 0 {
		return run, true
	}
	work := big.NewRat(int64(run), 1)
	if len(text) < 40 && !strings.ContainsAny(text, "eE") { // no exponent that would take memory
		if x, ok := new(big.Rat).SetString(text); ok {
			work.Mul(x, big.NewRat(1e9, 1))
		}
	}
	work.Mul(work, speed)
	up := new(big.Int).Add(work.Num(), work.Denom())
	up.Div(up.Sub(up, big.NewInt(1)), work.Denom())
	if !up.IsInt64() || up.Int64() > int64(reader.MaxTime) {
		return 0, false
	}
	return time.Duration(up.Int64()), true
}

// image sets the container image; the way Pegasus and Singularity write Docker images is accepted.
func (b *builder) image(t *Task, image string) {
	t.Image = b.same(strings.TrimLeft(strings.TrimPrefix(strings.TrimSpace(image), "docker://"), "/"))
	if t.Image != "" {
		t.Known |= Image
	}
}

// argv interprets a command by the rule that readWfFormat states.
func (d *wfDocument) argv(x *wfTask, kind string) (argv []string, shell bool) {
	program, named := d.b.text(x.one(wfProgram)), d.b.text(x.one(wfShell))
	id := d.b.text(cmp.Or(x.id, x.name))
	var pieces []string
	for _, f := range x.facts {
		switch f.kind {
		case wfArgument:
			pieces = append(pieces, d.said(f))
		case wfArgv:
			argv = append(argv, d.said(f))
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
	case named == "false":
		return all, false
	case named != "":
		shell = true
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
		return d.b.script(int(x.line), id, line, strings.TrimPrefix(named, "true")), true
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
