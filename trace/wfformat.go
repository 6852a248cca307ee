package trace

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"gantry/trace/reader"
)

// wfDocument is a WfFormat file of any version as it was found; versions and systems are interpreted once all of it is
// known, since the order of keys is free.
type wfDocument struct {
	b                           *builder
	j                           *reader.JSON
	name                        string
	version                     string
	release                     int
	system                      string // workflow management system: wms, from 1.5 runtimeSystem
	nextflow, makeflow, pegasus bool
	found                       bool // there is an object "workflow"
	tasks                       []wfTask
	executed                    []wfTask // execution.tasks of 1.5
	files                       []wfFile // specification.files of 1.5
	original                    map[string]string
	programs                    []int32 // of execution.tasks, by the number of the id: of their texts
	kilobyteRM                  bool    // a machine's memory is so small that memory must be in KB
	makespan                    wfFact
	speeds                      map[string]*big.Rat // of machines, against one on which runtimes count
	executedAt                  string
	facts                       []wfFact   // of the task that is read
	entry                       *wfTask    // whose facts are told
	one                         [30]wfFact // of it, by their fields
}

// wfTask is a task with its facts, in the order of the file.
type wfTask struct {
	line     int32
	id, name int32 // numbers of texts
	facts    []wfFact
}

// wfFact is a value as it is written, by the number of its text, and where.
type wfFact struct {
	text int32
	line int32
	kind wfKind
}

type wfFile struct {
	name int32 // number of the text
	line int32
	size wfFact
}

// wfKind is the kind of a fact: one of these, or a field of wfFields.
type wfKind uint8

const (
	wfName wfKind = iota
	wfID
	wfOriginal
	wfCategory
	wfCommand // there is one
	wfProgram
	wfShell
	wfArgument // of these and those below there may be several
	wfArgv
	wfEnv
	wfMachine
	wfParent
	wfChild
	wfInput
	wfOutput
	wfSize // of the file before it
	wfFirst
)

// recurs reports whether one text is kept of all facts of that kind with that text.
func (k wfKind) recurs() bool { return k == wfCategory || k >= wfArgument && k < wfSize }

// names reports whether facts of that kind name a task or a file.
func (k wfKind) names() bool { return k <= wfID || k >= wfParent && k <= wfOutput }

// wfField is a key of tasks that has one value.
type wfField struct {
	key  string
	take func(d *wfDocument, t *Task, f wfFact)
	give func(t *Task) any // the value that is written, as the schema has no place for it; nil: none
}

// wfFields are read in this order: where two tell the same, the last one counts.
var wfFields = []wfField{
	{"runtime", (*wfDocument).runtime, nil},
	{"runtimeInSeconds", (*wfDocument).runtime, nil},
	{"cores", (*wfDocument).cores, nil},
	{"coreCount", (*wfDocument).cores, nil},
	{"avgCPU", (*wfDocument).avgCPU, nil},
	{"memory", func(d *wfDocument, t *Task, f wfFact) { d.memory(t, f, d.kilobyteRM || d.release < 104) }, nil},
	{"memoryInBytes", func(d *wfDocument, t *Task, f wfFact) { d.memory(t, f, d.kilobyteRM && d.release >= 104) }, nil},
	{"memoryNeededInBytes", func(d *wfDocument, t *Task, f wfFact) { d.memory(t, f, false) }, nil},
	{"bytesRead", func(d *wfDocument, t *Task, f wfFact) { d.bytes(t, f, ReadBytes, true) }, nil},
	{"readBytes", func(d *wfDocument, t *Task, f wfFact) { d.bytes(t, f, ReadBytes, false) }, nil},
	{"bytesWritten", func(d *wfDocument, t *Task, f wfFact) { d.bytes(t, f, WrittenBytes, true) }, nil},
	{"writtenBytes", func(d *wfDocument, t *Task, f wfFact) { d.bytes(t, f, WrittenBytes, false) }, nil},
	{"overheadInSeconds", func(d *wfDocument, t *Task, f wfFact) {
		t.Overhead = d.b.span(t, "overheadInSeconds", d.said(f), time.Second, int(f.line))
	}, nil},
	{"estimateInSeconds", func(d *wfDocument, t *Task, f wfFact) {
		t.Estimate = d.b.span(t, "estimateInSeconds", d.said(f), time.Second, int(f.line))
	}, func(t *Task) any { return t.Estimate.Seconds() }},
	{"expectedInputInBytes", func(d *wfDocument, t *Task, f wfFact) {
		if n, ok := d.b.amount(t, "expectedInputInBytes", d.said(f), 1, int(f.line)); ok {
			t.Reads = &n
		}
	}, func(t *Task) any { return t.Reads }},
	{"image", func(d *wfDocument, t *Task, f wfFact) { d.b.image(t, d.said(f)) }, func(t *Task) any { return t.Image }},
	wfText("stdin", func(t *Task) *string { return &t.Stdin }),
	wfText("stdout", func(t *Task) *string { return &t.Stdout }),
	wfText("stderr", func(t *Task) *string { return &t.Stderr }),
	{"tokens", func(d *wfDocument, t *Task, f wfFact) { d.b.tokens(t, "tokens", d.said(f), int(f.line)) },
		func(t *Task) any { return t.Tokens }},
	{"retries", func(d *wfDocument, t *Task, f wfFact) {
		t.Retries = int(d.b.whole(t, "retries", d.said(f), reader.MaxRetries, int(f.line)))
	}, func(t *Task) any {
		if t.Retries < 0 {
			return nil
		}
		return &t.Retries // 0 is known
	}},
	{"phase", func(d *wfDocument, t *Task, f wfFact) {
		t.Phase = int32(d.b.whole(t, "phase", d.said(f), maxPhase, int(f.line)))
	}, func(t *Task) any { return t.Phase }},
	{"diskBytesPerSecond", func(d *wfDocument, t *Task, f wfFact) {
		t.DiskBps = int64(d.b.positive(t, "diskBytesPerSecond", d.said(f), maxRate, int(f.line)))
	}, func(t *Task) any { return t.DiskBps }},
	{"timeLimitInSeconds", func(d *wfDocument, t *Task, f wfFact) {
		d.b.limit(t, "timeLimitInSeconds", d.said(f), time.Second, int(f.line))
	}, func(t *Task) any { return t.TimeLimit.Seconds() }},
	{"diskLimitInBytes", func(d *wfDocument, t *Task, f wfFact) {
		t.DiskLimit, _ = d.b.amount(t, "diskLimitInBytes", d.said(f), 1, int(f.line))
	}, func(t *Task) any { return t.DiskLimit }},
	{"gpus", func(d *wfDocument, t *Task, f wfFact) { d.b.gpus(t, t.ID, "gpus", d.said(f), int(f.line)) },
		func(t *Task) any { return float64(t.GPUs) / 1000 }},
	{"network", func(d *wfDocument, t *Task, f wfFact) { d.b.network(t, "network", d.said(f), int(f.line)) },
		func(t *Task) any {
			if !t.Network {
				return nil
			}
			return "outbound"
		}},
	{"subWorkflow", func(d *wfDocument, t *Task, f wfFact) { t.SubWorkflow = t.SubWorkflow || d.said(f) == "true" },
		func(t *Task) any { return t.SubWorkflow }},
}

func wfText(key string, of func(t *Task) *string) wfField {
	return wfField{key, func(d *wfDocument, t *Task, f wfFact) { *of(t) = d.said(f) },
		func(t *Task) any { return *of(t) }}
}

// wfKeys are the keys of a task, in all versions.
var wfKeys map[string]func(d *wfDocument) error

func init() { // its readers look into it
	value := func(kind wfKind) func(d *wfDocument) error {
		return func(d *wfDocument) error { return d.fact(kind) }
	}
	values := func(kind wfKind) func(d *wfDocument) error {
		return func(d *wfDocument) error { return d.list(func() error { return d.fact(kind) }) }
	}
	wfKeys = map[string]func(d *wfDocument) error{
		"name": value(wfName), "id": value(wfID), "originalId": value(wfOriginal), "category": value(wfCategory),
		"parents": values(wfParent), "children": values(wfChild), "childrens": values(wfChild),
		"files": (*wfDocument).uses, "inputFiles": values(wfInput), "outputFiles": values(wfOutput),
		"arguments": (*wfDocument).arguments, "command": (*wfDocument).command, "env": (*wfDocument).env,
		"container": (*wfDocument).container, "gpu": (*wfDocument).gpus, "gpuCount": (*wfDocument).gpus,
		"machines": values(wfMachine),
	}
	for i := range wfFields {
		wfKeys[wfFields[i].key] = value(wfFirst + wfKind(i))
	}
	wfKeys["tokens"], wfKeys["needs"] = (*wfDocument).needs, (*wfDocument).needs
	wfKeys["network"] = func(d *wfDocument) error {
		if kind, _ := d.j.Peek(); kind != '"' {
			d.b.noEffect("network (--network)")
			return d.j.Skip()
		}
		return d.fact(wfKindOf("network"))
	}
	wfKeys["gpus"], wfKeys["subWorkflow"] = (*wfDocument).gpus, func(d *wfDocument) error {
		return d.truth(wfKindOf("subWorkflow"))
	}
}

func wfKindOf(key string) wfKind {
	return wfFirst + wfKind(slices.IndexFunc(wfFields, func(f wfField) bool { return f.key == key }))
}

// readWfFormat reads WfFormat 0.1 to 1.6. A user's own file may add keys that the schema does not have, on the tasks of
// workflow.tasks, workflow.specification.tasks or workflow.execution.tasks alike (additional properties are allowed
// there):
//
//	image       container image, such as "docker.io/library/debian:12"; a leading docker:// is dropped
//	container   the same as an object {"type": "docker", "image" or "name": …}
//	stdin, stdout, stderr   file names of redirections
//	env         object of environment variables
//	needs       object {NAME: COUNT} of resources that the run counts
//	tokens      the same as a text: NAME[:COUNT],...
//	network     outbound, or none
//	retries     whole number
//	phase       number from 1 on, the execution phase
//	timeLimitInSeconds
//	diskLimitInBytes     the most that the work directory of the task may take on disk
//	diskBytesPerSecond   number, the block I/O that the task asks for
//	memoryNeededInBytes  the memory that the task asks for, where memoryInBytes is the memory that it took
//	overheadInSeconds    how long its machine was taken before and after its program ran
//	estimateInSeconds    its runtime as it was declared before it ran
//	expectedInputInBytes the sizes of its inputs as they were known before it ran
//
// estimates of the execution tells how runtimes were estimated: estimator (declared, learned), startInSeconds of a
// container, and from, measurements of earlier executions with which a model began.
//
// A machine whose cpu has relativeSpeed is that much faster than one of speed 1. Runtimes of tasks there become those
// at speed 1. speedInMHz is the frequency at one moment, in traces that 1200 and 2600 of like machines: it is not read.
//
// A command is {"program", "arguments"} and in general an argv, run without a shell. A shell runs the pieces, joined by
// blanks, where they are the text of a command line: the system is Nextflow or Makeflow and the text holds operators,
// the program is a whole line (it holds white space, and there are no arguments), or an argument is nothing but an
// operator such as ">" or "2>" (but Pegasus, which runs no shell, means the character). "shell": true or false in the
// command overrides this. A piece such as "--percent-cpu 0.6" (long option and value in one, as WfCommons writes) is
// split.
func (b *builder) readWfFormat() {
	d := &wfDocument{b: b, j: reader.NewJSON(b.in.Reader), original: map[string]string{},
		speeds: map[string]*big.Rat{}}
	system := func() error { return d.fields(wfTable{"name": d.to(&d.system)}) }
	err := d.fields(wfTable{"name": d.to(&d.name), "schemaVersion": d.to(&d.version), "wms": system,
		"runtimeSystem": system, "workflow": d.workflow})
	if err == nil {
		err = d.j.End()
	}
	d.tolerate(err)
	if !d.found && !b.faults.HasErrors() {
		b.faults.Fail("no-tasks", 1, "", `a JSON object without an object "workflow": not WfFormat`)
	}
	if !b.lacks {
		d.finish()
	}
}

// tolerate turns an error into a fault and returns an error if the reader has to stop.
func (d *wfDocument) tolerate(err error) error {
	var kind *reader.TypeError
	switch {
	case err == nil || err == errStop:
		return err
	case errors.As(err, &kind):
		d.b.faults.Fail("wrong-type", kind.Line, "", "%s", kind.Message)
		return nil
	}
	d.b.faults.Grammar(err, "JSON", d.j.Line())
	return errStop
}

// errStop ends the reading of a document whose fault was reported.
var errStop = errors.New("stop")

// wfTable has the readers of the keys of an object.
type wfTable map[string]func() error

func (d *wfDocument) workflow() error {
	d.found = true
	tasks := func() error {
		d.b.line = d.j.Line()
		return d.list(func() error { return d.task(&d.tasks) })
	}
	specification := wfTable{"tasks": tasks,
		"files": func() error {
			return d.list(func() error {
				f, err := d.file(nil)
				d.files = append(grown(d.b.in, d.files), f)
				return cmp.Or(err, d.keep(fileKept))
			})
		},
		"opaqueFileIds": func() (err error) {
			d.b.wf.OpaqueNames, err = d.j.Truth()
			return d.tolerate(err)
		},
		"dataDependencies": func() error {
			yes, err := d.j.Truth()
			d.b.noFileEdges = !yes
			return d.tolerate(err)
		},
		"originalFileIds": func() error {
			return d.tolerate(d.j.Table(func(key []byte) error {
				id, name := string(key), ""
				err := d.text(&name)
				d.original[id] = name
				return cmp.Or(err, d.keep(100+len(id)+len(name)))
			}))
		}}
	// with is a table of facts of the whole workflow, up to 1.4 beside the tasks, then below execution, and more.
	with := func(more wfTable) wfTable {
		table := wfTable{"machines": func() error { return d.list(d.machine) }, "executedAt": d.to(&d.executedAt)}
		for _, key := range []string{"makespan", "makespanInSeconds"} {
			table[key] = func() error { return d.value(&d.makespan) }
		}
		maps.Copy(table, more)
		return table
	}
	execution := with(wfTable{"tasks": func() error {
		return d.list(func() error { return d.task(&d.executed) })
	}, "estimates": d.estimates})
	return d.fields(with(wfTable{"jobs": tasks, "tasks": tasks,
		"specification": func() error { return d.fields(specification) },
		"execution":     func() error { return d.fields(execution) }}))
}

// machine keeps how fast a machine is, and else looks for a memory that can only be in KB: less than 1 GiB with four
// cores or more.
func (d *wfDocument) machine() error {
	var memory, cores, name, speed string
	cpu := wfTable{"coreCount": d.to(&cores), "count": d.to(&cores), "relativeSpeed": d.to(&speed)}
	err := d.fields(wfTable{"memoryInBytes": d.to(&memory), "nodeName": d.to(&name),
		"cpu": func() error { return d.fields(cpu) }})
	if speed != "" {
		x, errX := reader.Number(speed)
		if errX != nil || x < 1e-6 || x > 1e6 {
			d.b.faults.Fail("bad-number", d.j.Line(), "", "relativeSpeed %q of machine %s is no number from 1e-6 "+
				"to 1e6", speed, name)
			return err
		}
		d.speeds[name] = ratio(x)
		return cmp.Or(err, d.keep(200+len(name)))
	}
	m, errM := reader.Number(memory)
	c, errC := reader.Number(cores)
	if errM == nil && errC == nil && m > 0 && m < 1<<30 && c >= 4 && !d.kilobyteRM {
		d.kilobyteRM = true
		d.b.faults.Warn("memory-unit", d.j.Line(), "", "a machine with %s cores has memoryInBytes %s: that is KB, so "+
			"all memory in this file is taken as KB",
			cores, memory)
	}
	return err
}

func (d *wfDocument) estimates() error {
	e, estimator, start := &Estimates{}, "", ""
	err := d.fields(wfTable{"estimator": d.to(&estimator), "startInSeconds": d.to(&start),
		"from": func() error { return d.list(func() error { return d.measurement(e) }) }})
	e.Start = d.nanoseconds("startInSeconds", start)
	if e.Learn = estimator == "learned"; e.Learn || estimator == "declared" {
		d.b.wf.Estimates = e
	}
	return err
}

// measurement reads a task of an earlier execution.
func (d *wfDocument) measurement(to *Estimates) error {
	var m Measurement
	var input, cpu, memory, speed, declared, ran string
	err := d.fields(wfTable{"category": d.to(&m.Kind), "inputInBytes": d.to(&input), "millicores": d.to(&cpu),
		"memoryInBytes": d.to(&memory), "relativeSpeed": d.to(&speed), "declaredInSeconds": d.to(&declared),
		"runtimeInSeconds": d.to(&ran)})
	m.InputBytes = int64(d.upTo(float64(reader.MaxBytes), "inputInBytes", input))
	m.Millicores = int64(d.upTo(1000*reader.MaxCores, "millicores", cpu))
	m.MemoryBytes = int64(d.upTo(float64(reader.MaxBytes), "memoryInBytes", memory))
	m.Speed = d.upTo(1e6, "relativeSpeed", speed)
	m.Declared, m.Runtime = d.nanoseconds("declaredInSeconds", declared), d.nanoseconds("runtimeInSeconds", ran)
	to.From = append(to.From, m)
	return cmp.Or(err, d.keep(100+len(m.Kind)))
}

// upTo reads a number from 0 to most; "" is 0.
func (d *wfDocument) upTo(most float64, key, text string) float64 {
	x, err := reader.Number(cmp.Or(text, "0"))
	if err == nil && (x < 0 || x > most) {
		err = fmt.Errorf("not from 0 to %g", most)
	}
	if err != nil {
		d.b.faults.Fail("bad-number", d.j.Line(), "", "%s %q in estimates is %v", key, text, err)
		return 0
	}
	return x
}

func (d *wfDocument) nanoseconds(key, text string) time.Duration {
	return time.Duration(math.Round(1e9 * d.upTo(reader.MaxTime.Seconds(), key, text)))
}

// text, object and list read a value; one of another type is a fault and leaves the zero value.
func (d *wfDocument) text(s *string) (err error) {
	*s, err = d.j.Text()
	return d.tolerate(err)
}

func (d *wfDocument) value(v *wfFact) error {
	text, quoted, err := d.j.TextBytes()
	v.line, v.text = int32(d.j.Line()), d.keepText(v.kind, text, quoted)
	return d.tolerate(err)
}

// keepText returns the number of the text of a fact.
func (d *wfDocument) keepText(kind wfKind, text []byte, quoted bool) int32 {
	if quoted && kind.recurs() {
		n := d.b.numberOf(text)
		if x := &d.b.all[n]; !x.counted {
			x.counted = true
			d.b.keep(sameKept)
		}
		return n
	}
	if kind.names() {
		return d.b.numberOf(text)
	}
	return d.b.apart(string(text))
}

// fact reads a value of the current task.
func (d *wfDocument) fact(kind wfKind) error {
	v := wfFact{kind: kind}
	err := d.value(&v)
	d.facts = append(d.facts, v)
	return cmp.Or(err, d.keep(len(d.said(v))))
}

func (d *wfDocument) said(f wfFact) string { return d.b.text(f.text) }

// keep counts bytes that are kept of the document before it is interpreted.
func (d *wfDocument) keep(bytes int) error {
	if d.b.keep(bytes); d.b.full(d.j.Line()) {
		return errStop
	}
	return nil
}

func (d *wfDocument) object(f func(key []byte) error) error { return d.tolerate(d.j.Object(f)) }

// fields reads an object by a table of its keys; others are passed over.
func (d *wfDocument) fields(table wfTable) error {
	return d.object(func(key []byte) error {
		if read, ok := table[string(key)]; ok {
			return read()
		}
		return d.j.Skip()
	})
}

func (d *wfDocument) to(s *string) func() error { return func() error { return d.text(s) } }

func (d *wfDocument) list(f func() error) error { return d.tolerate(d.j.Array(f)) }

func (d *wfDocument) task(to *[]wfTask) error {
	kind, line := d.j.Peek()
	if kind != '{' {
		return d.object(nil) // tells the fault
	}
	d.facts = d.facts[:0]
	err := d.object(func(key []byte) error {
		if read, ok := wfKeys[string(key)]; ok {
			return read(d)
		}
		return d.j.Skip()
	})
	t := wfTask{line: int32(line), facts: slices.Clone(d.facts)}
	t.id, t.name = t.one(wfID), t.one(wfName)
	*to = append(grown(d.b.in, *to), t)
	return cmp.Or(err, d.keep((len(d.facts)+2)*factKept))
}

// gpus reads how many GPUs a task asks for. A list or an object of them, and true, are some.
func (d *wfDocument) gpus() error {
	switch kind, line := d.j.Peek(); kind {
	case 'n', 'f':
		return d.j.Skip()
	case '{', '[', 't':
		d.facts = append(d.facts, wfFact{d.b.number("some"), int32(line), wfKindOf("gpus")})
		return d.j.Skip()
	}
	return d.fact(wfKindOf("gpus"))
}

// needs reads the resources of a user's own that a task holds: a text, or an object as in JX.
func (d *wfDocument) needs() error {
	kind, line := d.j.Peek()
	if kind != '{' {
		return d.fact(wfKindOf("tokens"))
	}
	var all []string
	err := d.object(func(key []byte) error {
		name := string(key)
		count, err := d.j.Text()
		all = append(all, name+":"+count)
		return cmp.Or(d.tolerate(err), d.keep(len(name)+len(count)))
	})
	d.facts = append(d.facts, wfFact{d.b.number(strings.Join(all, ",")), int32(line), wfKindOf("tokens")})
	return err
}

// uses reads the files of a task up to 1.4, each with its link.
func (d *wfDocument) uses() error {
	return d.list(func() error {
		link := ""
		f, err := d.file(&link)
		d.use(f, link)
		return err
	})
}

func (d *wfDocument) use(f wfFile, link string) {
	for _, way := range [...]struct {
		kind wfKind
		link string
	}{{wfInput, "input"}, {wfOutput, "output"}} {
		if link == way.link || link == "inout" {
			d.facts = append(d.facts, wfFact{f.name, f.line, way.kind})
			if f.size.text != 0 {
				d.facts = append(d.facts, f.size)
			}
		}
	}
}

// file reads a file: in 1.5 an entry of specification.files, before that an entry of a task's files with its link.
func (d *wfDocument) file(link *string) (f wfFile, err error) {
	kind, line := d.j.Peek()
	f.line = int32(line)
	if kind != '{' {
		return f, d.object(nil) // tells the fault
	}
	path := ""
	err = d.object(func(key []byte) error {
		switch string(key) {
		case "name", "id":
			name, _, err := d.j.TextBytes()
			f.name = d.b.numberOf(name)
			return d.tolerate(err)
		case "path":
			return d.text(&path)
		case "size", "sizeInBytes": // the newer one wins, wherever it stands
			v, newer := wfFact{kind: wfSize}, string(key) == "sizeInBytes"
			err := d.value(&v)
			if v.text != 0 && (newer || f.size.text == 0) {
				f.size = v
			}
			return err
		case "link":
			if link != nil {
				return d.text(link)
			}
		}
		return d.j.Skip()
	})
	if path != "" { // 1.4 of Nextflow: only path and name together are the file
		f.name = d.b.number(path + d.b.text(f.name))
	}
	d.b.sameAs(f.name)
	return f, err
}

func (d *wfDocument) arguments() error {
	d.facts = append(d.facts, wfFact{kind: wfCommand})
	return d.list(func() error { return d.fact(wfArgument) })
}

func (d *wfDocument) command() error {
	if kind, _ := d.j.Peek(); kind == '"' { // not in the schema, but clear enough: a line for a shell
		d.facts = slices.DeleteFunc(d.facts, func(f wfFact) bool { return f.kind == wfArgument })
		d.facts = append(d.facts, wfFact{kind: wfCommand})
		return d.fact(wfProgram)
	}
	return d.object(func(key []byte) error {
		n := len(d.facts)
		switch string(key) {
		case "program":
			err := d.fact(wfProgram)
			if d.facts[n].text != 0 {
				d.facts = append(d.facts, wfFact{kind: wfCommand})
			}
			return err
		case "arguments":
			err := d.list(func() error { return d.fact(wfArgument) })
			if len(d.facts) > n {
				d.facts = append(d.facts, wfFact{kind: wfCommand})
			}
			return err
		case "argv":
			d.facts = append(d.facts, wfFact{kind: wfCommand})
			return d.list(func() error { return d.fact(wfArgv) })
		case "shell":
			if kind, _ := d.j.Peek(); kind == '"' { // the words of one
				return d.fact(wfShell)
			}
			return d.truth(wfShell)
		}
		return d.j.Skip()
	})
}

func (d *wfDocument) truth(kind wfKind) error {
	yes, err := d.j.Truth()
	d.facts = append(d.facts, wfFact{text: d.b.number(strconv.FormatBool(yes)), kind: kind})
	return d.tolerate(err)
}

func (d *wfDocument) env() error {
	return d.object(func(key []byte) error {
		v, name := wfFact{kind: wfEnv}, string(key)
		err := d.value(&v)
		v.text = d.b.number(name + "=" + d.said(v))
		d.b.sameAs(v.text)
		d.facts = append(d.facts, v)
		return err
	})
}

func (d *wfDocument) container() error {
	if kind, _ := d.j.Peek(); kind == '"' {
		return d.fact(wfKindOf("image"))
	}
	var name, image string
	err := d.fields(wfTable{"image": d.to(&image), "name": d.to(&name)})
	d.facts = append(d.facts, wfFact{text: d.b.apart(cmp.Or(image, name)), kind: wfKindOf("image")})
	return err
}
