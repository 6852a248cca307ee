package trace

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gantry/reader"
)

// wfDocument is a WfFormat file of any version as it was found; versions and systems are interpreted once all of it is known, since
// the order of keys is free.
type wfDocument struct {
	b                           *builder
	j                           *reader.JSON
	name                        string
	version                     string
	release                     int
	system                      string // workflow management system: wms, from 1.5 runtimeSystem
	nextflow, makeflow, pegasus bool
	found                       bool // there is an object "workflow"
	tasks                       []*wfTask
	executed                    []*wfTask // execution.tasks of 1.5
	files                       []wfUse   // specification.files of 1.5
	original                    map[string]string
	programs                    map[string]string // of execution.tasks by id
	kilobyteRM                  bool              // a machine's memory is so small that memory must be in KB
	makespan                    wfValue
	executedAt                  string
}

// wfTask is a task with its numbers still as text. Keys of different versions for the same thing fill different fields where units
// differ.
type wfTask struct {
	line                         int
	id, original, name, category string
	parents, children            []wfValue
	inputs, outputs              []wfUse
	runtime, cores, avgCPU       wfValue
	memory, memoryInBytes        wfValue
	bytesRead, bytesWritten      wfValue
	readBytes, writtenBytes      wfValue
	program                      string
	arguments, argv              []string
	command                      bool
	shell                        *bool
	image                        string
	stdin, stdout, stderr        string
	env                          []string
	retries, timeLimit, phase    wfValue
	disk                         wfValue
	subWorkflow                  bool
}

// wfValue is a value as it is written, and where.
type wfValue struct {
	text string
	line int
}

type wfUse struct {
	line int
	name string
	size wfValue
}

// readWfFormat reads WfFormat 0.1 to 1.6. What the schema does not have but a user's own file may add, on the tasks of
// workflow.tasks, workflow.specification.tasks or workflow.execution.tasks alike (additional properties are allowed there):
//
//	image       container image, such as "docker.io/library/debian:12"; a leading docker:// is dropped
//	container   the same as an object {"type": "docker", "image" or "name": …}
//	stdin, stdout, stderr   file names of redirections
//	env         object of environment variables
//	retries     number
//	phase       number from 1 on, the execution phase
//	timeLimitInSeconds
//	diskBytesPerSecond   number, the block I/O that the task asks for
//
// A command is {"program", "arguments"} and in general an argv, run without a shell. A shell runs the pieces, joined by blanks, where
// they are the text of a command line: the system is Nextflow or Makeflow and the text holds operators, the program is a whole line
// (it holds white space, and there are no arguments), or an argument is nothing but an operator such as ">" or "2>" (but Pegasus,
// which runs no shell, means the character). "shell": true or
// false in the command overrides this. A piece such as "--percent-cpu 0.6" (long option and value in one, as WfCommons writes) is split.
func (b *builder) readWfFormat(in *bufio.Reader) {
	d := &wfDocument{b: b, j: reader.NewJSON(in), original: map[string]string{}, programs: map[string]string{}}
	err := d.object(d.top)
	if err == nil {
		err = d.j.End()
	}
	d.tolerate(err)
	if !d.found && !b.faults.HasErrors() {
		b.faults.Fail("no-tasks", 1, "", `a JSON object without an object "workflow": not WfFormat`)
	}
	d.finish()
}

// tolerate turns an error into a fault and returns what has to stop the reader.
func (d *wfDocument) tolerate(err error) error {
	var syntax *reader.SyntaxError
	var kind *reader.TypeError
	switch {
	case err == nil || err == errStop:
		return err
	case errors.As(err, &kind):
		d.b.faults.Fail("wrong-type", kind.Line, "", "%s", kind.Message)
		return nil
	case errors.As(err, &syntax) && syntax.Truncated:
		d.b.faults.Fail("truncated", syntax.Line, "", "%s; get it again", syntax.Message)
	case errors.As(err, &syntax):
		d.b.faults.Fail("syntax", syntax.Line, "", "not JSON: %s", syntax.Message)
	default:
		rule, _, _, format, arg := reader.Damage(err)
		d.b.faults.Fail(rule, d.j.Line, "", format, arg)
	}
	return errStop
}

// errStop ends the reading of a document whose fault was told.
var errStop = errors.New("stop")

func (d *wfDocument) top(key string) error {
	switch key {
	case "name":
		return d.text(&d.name)
	case "schemaVersion":
		return d.text(&d.version)
	case "wms", "runtimeSystem":
		return d.object(func(key string) error {
			if key == "name" {
				return d.text(&d.system)
			}
			return d.j.Skip()
		})
	case "workflow":
		d.found = true
		return d.object(d.workflow)
	}
	return d.j.Skip()
}

func (d *wfDocument) workflow(key string) error {
	switch key {
	case "jobs", "tasks":
		d.b.line = d.j.Line
		return d.list(func() error { return d.task(&d.tasks) })
	case "specification":
		return d.object(func(key string) error {
			switch key {
			case "tasks":
				d.b.line = d.j.Line
				return d.list(func() error { return d.task(&d.tasks) })
			case "files":
				return d.list(func() error { return d.use(&d.files, nil) })
			case "opaqueFileIds", "dataDependencies":
				yes, err := d.j.Truth()
				if key == "opaqueFileIds" {
					d.b.wf.OpaqueNames = yes
				} else {
					d.b.noFileEdges = !yes
				}
				return d.tolerate(err)
			case "originalFileIds":
				return d.object(func(key string) error {
					var name string
					err := d.text(&name)
					d.original[key] = name
					return err
				})
			}
			return d.j.Skip()
		})
	case "execution":
		return d.object(func(key string) error {
			if key == "tasks" {
				return d.list(func() error { return d.task(&d.executed) })
			}
			return d.workflowFact(key)
		})
	}
	return d.workflowFact(key)
}

// workflowFact reads what belongs to the whole workflow, up to 1.4 beside the tasks, then below execution.
func (d *wfDocument) workflowFact(key string) error {
	switch key {
	case "machines":
		return d.list(d.machine)
	case "makespan", "makespanInSeconds":
		return d.value(&d.makespan)
	case "executedAt":
		return d.text(&d.executedAt)
	}
	return d.j.Skip()
}

// machine looks for a memory that can only be in KB: less than 1 GiB with four cores or more.
func (d *wfDocument) machine() error {
	var memory, cores string
	err := d.object(func(key string) error {
		switch key {
		case "memoryInBytes":
			return d.text(&memory)
		case "cpu":
			return d.object(func(key string) error {
				if key == "coreCount" || key == "count" {
					return d.text(&cores)
				}
				return d.j.Skip()
			})
		}
		return d.j.Skip()
	})
	m, errM := reader.Number(memory)
	c, errC := reader.Number(cores)
	if errM == nil && errC == nil && m > 0 && m < 1<<30 && c >= 4 && !d.kilobyteRM {
		d.kilobyteRM = true
		d.b.faults.Warn("memory-unit", d.j.Line, "", "a machine with %s cores has memoryInBytes %s: that is KB, so all memory in this file is taken as KB",
			cores, memory)
	}
	return err
}

// text, value, object and list read a value; one of another type is a fault and leaves the zero value.
func (d *wfDocument) text(s *string) (err error) {
	*s, err = d.j.Text()
	return d.tolerate(err)
}
func (d *wfDocument) value(v *wfValue) (err error) {
	_, err = d.j.Peek() // the value may stand on a line of its own
	v.line = d.j.Line
	if err == nil {
		v.text, err = d.j.Text()
	}
	return d.tolerate(err)
}

// object also tells of keys that are given twice, of which programs take the first, the last or both.
func (d *wfDocument) object(f func(key string) error) error {
	var few []string
	var many map[string]bool
	return d.tolerate(d.j.Object(func(key string) error {
		if slices.Contains(few, key) || many[key] {
			d.b.faults.Fail("duplicate-key", d.j.Line, "", "key %q is given twice in one object, and programs disagree on which counts: keep one", key)
		}
		if len(few) < 32 {
			few = append(few, key)
		} else {
			if many == nil {
				many = map[string]bool{}
			}
			many[key] = true
		}
		return f(key)
	}))
}

func (d *wfDocument) list(f func() error) error { return d.tolerate(d.j.Array(f)) }

func (d *wfDocument) texts(to *[]string) error {
	return d.list(func() error {
		var s string
		err := d.text(&s)
		*to = append(*to, d.b.same(s))
		return err
	})
}

// names reads a list of the tasks that another one depends on, or that depend on it.
func (d *wfDocument) names(to *[]wfValue) error {
	return d.list(func() error {
		var v wfValue
		err := d.value(&v)
		v.text = d.b.same(v.text)
		*to = append(*to, v)
		return err
	})
}

func (d *wfDocument) task(to *[]*wfTask) error {
	if c, err := d.j.Peek(); err == nil && c != '{' {
		return d.object(nil) // tells the fault
	}
	t := &wfTask{line: d.j.Line}
	err := d.object(func(key string) error { return d.taskFact(t, key) })
	*to = append(*to, t)
	return err
}

func (d *wfDocument) taskFact(t *wfTask, key string) error {
	switch key {
	case "name":
		return d.text(&t.name)
	case "id":
		return d.text(&t.id)
	case "originalId":
		return d.text(&t.original)
	case "category":
		return d.text(&t.category)
	case "parents":
		return d.names(&t.parents)
	case "children", "childrens":
		return d.names(&t.children)
	case "runtime", "runtimeInSeconds":
		return d.prefer(&t.runtime, key == "runtimeInSeconds")
	case "cores", "coreCount":
		return d.prefer(&t.cores, key == "coreCount")
	case "avgCPU":
		return d.value(&t.avgCPU)
	case "memory":
		return d.value(&t.memory)
	case "memoryInBytes":
		return d.value(&t.memoryInBytes)
	case "bytesRead":
		return d.value(&t.bytesRead)
	case "bytesWritten":
		return d.value(&t.bytesWritten)
	case "readBytes":
		return d.value(&t.readBytes)
	case "writtenBytes":
		return d.value(&t.writtenBytes)
	case "files":
		return d.list(func() error {
			var link string
			var us []wfUse
			err := d.use(&us, &link)
			for _, u := range us {
				if link == "input" || link == "inout" {
					t.inputs = append(t.inputs, u)
				}
				if link == "output" || link == "inout" {
					t.outputs = append(t.outputs, u)
				}
			}
			return err
		})
	case "inputFiles", "outputFiles":
		return d.list(func() error {
			u := wfUse{line: d.j.Line}
			err := d.text(&u.name)
			u.name = d.b.same(u.name)
			if key == "inputFiles" {
				t.inputs = append(t.inputs, u)
			} else {
				t.outputs = append(t.outputs, u)
			}
			return err
		})
	case "arguments":
		t.command = true
		return d.texts(&t.arguments)
	case "command":
		return d.command(t)
	case "image":
		return d.text(&t.image)
	case "container":
		return d.container(t)
	case "stdin":
		return d.text(&t.stdin)
	case "stdout":
		return d.text(&t.stdout)
	case "stderr":
		return d.text(&t.stderr)
	case "env":
		return d.object(func(key string) error {
			var v string
			err := d.text(&v)
			t.env = append(t.env, key+"="+v)
			return err
		})
	case "retries":
		return d.value(&t.retries)
	case "phase":
		return d.value(&t.phase)
	case "diskBytesPerSecond":
		return d.value(&t.disk)
	case "timeLimitInSeconds":
		return d.value(&t.timeLimit)
	case "subWorkflow":
		var err error
		t.subWorkflow, err = d.j.Truth()
		return d.tolerate(err)
	}
	return d.j.Skip()
}

// prefer reads a value for which an older and a newer key may stand side by side: the newer one wins, wherever it stands.
func (d *wfDocument) prefer(v *wfValue, newer bool) error {
	var x wfValue
	err := d.value(&x)
	if x.text != "" && (newer || v.text == "") {
		*v = x
	}
	return err
}

func (d *wfDocument) command(t *wfTask) error {
	if c, err := d.j.Peek(); err == nil && c == '"' { // not in the schema, but clear enough: a line for a shell
		t.command, t.arguments = true, nil
		return d.text(&t.program)
	}
	return d.object(func(key string) error {
		switch key {
		case "program":
			err := d.text(&t.program)
			t.command = t.command || t.program != ""
			return err
		case "arguments":
			err := d.texts(&t.arguments)
			t.command = t.command || len(t.arguments) > 0
			return err
		case "argv":
			t.command = true
			return d.texts(&t.argv)
		case "shell":
			yes, err := d.j.Truth()
			t.shell = &yes
			return d.tolerate(err)
		}
		return d.j.Skip()
	})
}

func (d *wfDocument) container(t *wfTask) error {
	if c, err := d.j.Peek(); err == nil && c == '"' {
		return d.text(&t.image)
	}
	var name, image string
	err := d.object(func(key string) error {
		switch key {
		case "image":
			return d.text(&image)
		case "name":
			return d.text(&name)
		}
		return d.j.Skip()
	})
	t.image = cmp.Or(image, name, t.image)
	return err
}

// use reads a file: in 1.5 an entry of specification.files, before that an entry of a task's files with its link.
func (d *wfDocument) use(to *[]wfUse, link *string) error {
	if c, err := d.j.Peek(); err == nil && c != '{' {
		return d.object(nil) // tells the fault
	}
	u, path := wfUse{line: d.j.Line}, ""
	err := d.object(func(key string) error {
		switch key {
		case "name", "id":
			return d.text(&u.name)
		case "path":
			return d.text(&path)
		case "size", "sizeInBytes":
			return d.prefer(&u.size, key == "sizeInBytes")
		case "link":
			if link != nil {
				return d.text(link)
			}
		}
		return d.j.Skip()
	})
	u.name = d.b.same(path + u.name) // 1.4 of Nextflow: only path and name together are the file
	*to = append(*to, u)
	return err
}

// release is 100 × major + minor of the schema version; a file without one is shaped like 1.3 and counts in bytes as 1.4 does.
func release(version string) int {
	var major, minor int
	if n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor); n == 2 && major >= 0 && major < 100 && minor >= 0 && minor < 100 {
		return 100*major + minor
	}
	return 104
}

var (
	idSuffix      = regexp.MustCompile(`_ID\d+$`)
	wfbenchSuffix = regexp.MustCompile(`_\d{8}$`)
	optionValue   = regexp.MustCompile(`^--[A-Za-z][-\w]*\s`)
)

// finish interprets the document.
func (d *wfDocument) finish() {
	b, w := d.b, d.b.wf
	d.release = release(d.version)
	w.Name, w.Version, w.ExecutedAt = d.name, d.version, d.executedAt
	system := strings.ToLower(d.system)
	d.nextflow, d.makeflow, d.pegasus = strings.Contains(system, "nextflow"), strings.Contains(system, "makeflow"), strings.Contains(system, "pegasus")
	w.OpaqueNames = w.OpaqueNames || d.nextflow
	b.quietTwins, b.noFileEdges = true, b.noFileEdges || d.release < 100
	switch r := d.release; {
	case d.version == "" && d.found:
		b.faults.Warn("no-version", 1, "", "schemaVersion is missing: read as 1.3, with memory in bytes")
	case d.found && (r > 106 || r < 1):
		b.faults.Warn("unknown-version", 1, "", "schemaVersion %q is not known here: read as 1.5, which may miss what is new", d.version)
	}
	if d.makeflow && !b.opt.Kilobytes {
		b.faults.Warn("size-unit", 1, "", "Makeflow instances give file sizes in KB rather than bytes: taken as they are written (--kilobytes multiplies by 1000)")
	}
	if d.makespan.text != "" {
		m, err := reader.Seconds(d.makespan.text)
		if err != nil || m < 0 {
			b.faults.Judge(b.opt.Repair, "bad-number", d.makespan.line, "", "taken as unknown", "makespan %q is not a number of seconds", d.makespan.text)
			m = 0
		}
		w.Makespan = m
	}

	// Files of 1.5 come first: their sizes hold for every use.
	sizes := make(map[string]wfUse, len(d.files))
	for _, f := range d.files {
		if f.name == "" {
			b.faults.Fail("missing-id", f.line, "", "a file without an id; give it one")
		} else if old, ok := sizes[f.name]; ok {
			b.faults.Fail("duplicate-id", f.line, "", "file id %s is taken by the file on line %d; ids have to be unique", f.name, old.line)
		} else {
			sizes[f.name] = f
		}
	}

	for i := range d.executed {
		d.programs[d.executed[i].id] = d.executed[i].program
	}
	w.Tasks = make([]Task, 0, len(d.tasks))
	keys := d.keys()
	place := make(map[string]int, len(d.tasks)) // key → index in w.Tasks
	for i := range d.tasks {
		t := d.tasks[i]
		out := b.task(keys[i], t.line)
		if out == nil {
			continue
		}
		place[keys[i]] = len(w.Tasks) - 1
		out.Name, out.Kind = cmp.Or(t.name, keys[i]), b.same(d.kind(t, keys[i]))
		d.addFiles(t, sizes)
		d.facts(&w.Tasks[len(w.Tasks)-1], t)
	}
	ran := make(map[string]bool, len(d.executed))
	for i := range d.executed {
		e := d.executed[i]
		at, ok := place[e.id]
		switch {
		case !ok:
			b.faults.Warn("unknown-execution", e.line, e.id, "execution.tasks tells of task %q, which specification.tasks does not have: ignored", e.id)
		case ran[e.id]:
			b.faults.Warn("duplicate-execution", e.line, e.id, "execution.tasks tells twice of task %s: the first is taken", e.id)
		default:
			ran[e.id] = true
			d.facts(&w.Tasks[at], e)
		}
	}
	d.references(keys)
	d.originals(sizes)
}

// keys decides what identifies each task: its id where ids are complete, unique and what the parents refer to; else the name, where
// names are unique.
func (d *wfDocument) keys() []string {
	byID, byName := map[string]bool{}, map[string]bool{}
	for i := range d.tasks {
		byID[d.tasks[i].id], byName[d.tasks[i].name] = true, true
	}
	ids := len(byID) == len(d.tasks) && !byID[""]
	names := len(byName) == len(d.tasks) && !byName[""]
	asID, asName := 0, 0
	for i := range d.tasks {
		for _, p := range d.tasks[i].parents {
			if byID[p.text] {
				asID++
			}
			if byName[p.text] {
				asName++
			}
		}
	}
	useName := names && (!ids || asName > asID)
	keys := make([]string, len(d.tasks))
	for i := range d.tasks {
		t := d.tasks[i]
		if keys[i] = cmp.Or(t.id, t.name); useName {
			keys[i] = t.name
		}
	}
	return keys
}

// references adds the dependencies. They are said by keys, in some versions by names though tasks have ids, or by ids though keys are
// names; children repeat what parents say.
func (d *wfDocument) references(keys []string) {
	names, ids := map[string]string{}, map[string]string{}
	known := make(map[string]bool, len(keys))
	for i, k := range keys {
		known[k] = true
		names[d.tasks[i].name], ids[d.tasks[i].id] = k, k
	}
	key := func(ref string) string {
		if known[ref] {
			return ref
		}
		return cmp.Or(names[ref], ids[ref], ref)
	}
	for i := range d.tasks {
		t := d.tasks[i]
		for _, p := range t.parents {
			d.b.depends(key(p.text), keys[i], p.line)
		}
		for _, c := range t.children {
			d.b.depends(keys[i], key(c.text), c.line)
		}
	}
}

// originals gives tasks and files the ids back that WriteWfFormat had to replace.
func (d *wfDocument) originals(sizes map[string]wfUse) {
	for i := range d.b.wf.Files {
		if name, ok := d.original[d.b.wf.Files[i].Name]; ok && name != "" {
			d.b.wf.Files[i].Name = name
		}
	}
	d.b.resolveLate() // while ids are those of the file
	for i := range d.tasks {
		t := d.tasks[i]
		if at, ok := d.b.byID[t.id]; ok && t.original != "" {
			d.b.wf.Tasks[at].ID = t.original
		}
	}
}

// kind is the transformation of a task: its category, else for Nextflow the process, which is the name, else the name without the
// number that the system appended; where that still begins with the program ("fast2bfq_fast2bfq_HEP2…_1"), the program.
func (d *wfDocument) kind(t *wfTask, key string) string {
	if t.category != "" {
		return t.category
	}
	name := cmp.Or(t.name, key)
	if d.nextflow {
		return name
	}
	if s := idSuffix.ReplaceAllString(name, ""); s != "" && s != name {
		if p := cmp.Or(t.program, d.programs[t.id]); p != "" && strings.HasPrefix(s, p+"_") {
			return p
		}
		return s
	}
	return cmp.Or(wfbenchSuffix.ReplaceAllString(name, ""), name)
}

// addFiles adds the files of the task that was added last.
func (d *wfDocument) addFiles(t *wfTask, sizes map[string]wfUse) {
	b := d.b
	for _, out := range []bool{false, true} {
		uses := t.inputs
		if out {
			uses = t.outputs
		}
		for _, u := range uses {
			if u.name == "" {
				b.faults.Warn("unnamed-file", u.line, t.id, "task %s has a file without a name: ignored", cmp.Or(t.id, t.name))
				continue
			}
			var f int32
			if out {
				f = b.writes(u.name)
			} else {
				f = b.reads(u.name)
			}
			if u.size.text == "" {
				if listed, ok := sizes[u.name]; ok && !b.uses[f].hasOut && listed.size.text != "" {
					b.size(f, listed.size.text, true, listed.size.line)
				}
				continue
			}
			b.size(f, u.size.text, out, u.size.line)
		}
	}
}

// facts fills in what is known of the task itself.
func (d *wfDocument) facts(t *Task, x *wfTask) {
	b, old := d.b, d.release < 104
	if v := x.runtime; v.text != "" {
		b.runtime(t, v.text, v.line)
	}
	if v := x.cores; v.text != "" {
		b.cores(t, v.text, v.line)
	}
	if v := x.avgCPU; v.text != "" {
		// Nextflow says 0 of a process too short to be sampled.
		if n := b.positive(t, "avgCPU", v.text, v.line); n > 0 || n == 0 && !d.nextflow {
			t.AvgCPU = n
			t.Known |= AvgCPU
		}
	}
	memory, scale := x.memoryInBytes, int64(1)
	if memory.text == "" {
		memory = x.memory
		if old {
			scale = 1000
		}
	}
	if d.kilobyteRM && !old {
		scale = 1000
	}
	if memory.text != "" {
		b.memory(t, memory.text, scale, memory.line)
	}
	io := func(what string, bytes, either wfValue, to *int64, known Fields) {
		scale := int64(1)
		if bytes.text == "" {
			bytes = either
			if old && (d.makeflow || d.nextflow) {
				scale = 1000
			}
		}
		if bytes.text == "" {
			return
		}
		if n, ok := b.amount(t, what, bytes.text, scale, bytes.line); ok {
			*to = n
			t.Known |= known
		}
	}
	io("bytes read", x.readBytes, x.bytesRead, &t.ReadBytes, ReadBytes)
	io("bytes written", x.writtenBytes, x.bytesWritten, &t.WrittenBytes, WrittenBytes)

	if x.command {
		if t.Command, t.Shell = d.argv(x, t.Kind); len(t.Command) > 0 {
			t.Known |= Command
		}
	}
	if x.image != "" {
		b.image(t, x.image)
	}
	t.Stdin, t.Stdout, t.Stderr = cmp.Or(x.stdin, t.Stdin), cmp.Or(x.stdout, t.Stdout), cmp.Or(x.stderr, t.Stderr)
	if x.env != nil {
		slices.Sort(x.env)
		t.Env = x.env
	}
	if v := x.retries; v.text != "" {
		t.Retries = int(min(b.positive(t, "retries", v.text, v.line), 1e6))
	}
	if v := x.phase; v.text != "" {
		t.Phase = int32(min(b.positive(t, "phase", v.text, v.line), maxPhase))
	}
	if v := x.disk; v.text != "" {
		t.DiskBps = int64(min(b.positive(t, "diskBytesPerSecond", v.text, v.line), maxRate))
	}
	if v := x.timeLimit; v.text != "" {
		b.limit(t, "timeLimitInSeconds", v.text, 1e9, v.line)
	}
	t.SubWorkflow = t.SubWorkflow || x.subWorkflow
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
	if x.argv != nil {
		return x.argv, false
	}
	program, pieces := x.program, slices.Clone(x.arguments)
	if program == "" { // up to 1.0 there are only arguments
		program = kind
	}
	if d.makeflow && len(pieces) > 0 && strings.TrimPrefix(pieces[0], "./") == strings.TrimPrefix(program, "./") {
		program, pieces = pieces[0], pieces[1:] // Makeflow repeats the program
	}
	all := append([]string{program}, pieces...)
	line := strings.Join(all, " ")
	switch {
	case x.shell != nil:
		shell = *x.shell
		if !shell {
			return all, false
		}
	case d.makeflow || d.nextflow:
		shell = needsShell(line)
		if !shell {
			return d.b.words(x.line, cmp.Or(x.id, x.name), line), false
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
		if optionValue.MatchString(p) {
			argv = append(argv, d.b.words(x.line, cmp.Or(x.id, x.name), p)...)
		} else {
			argv = append(argv, p)
		}
	}
	return argv, false
}
