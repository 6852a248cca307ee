package trace

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"gantry/reader"
)

// daxReader reads DAX XML of all versions as a stream of tokens: only direct children of the root are looked at, and
// nothing but tasks, files and edges is kept. Elements are recognised by their local names, whatever the name space.
type daxReader struct {
	b        *builder
	x        *reader.XML
	stop     bool // a fault was told that ends the reading
	exe      map[transformation]*executable
	children int // <child> elements
	listed   int // files that are named before the jobs
}

// transformation identifies an executable.
type transformation struct{ namespace, name, version string }

// executable is what a catalogue says about a transformation.
type executable struct {
	path     string
	image    string
	profiles profiles
}

// readDAX reads DAX 1.8 to 3.6. A task's command is its executable (the file:// address of an <executable> of the same
// namespace, name and version, else the logical name) and its <argument>, file elements replaced by names, white space
// collapsed, split into words as a shell would; Pegasus runs no shell, and so nothing is expanded. A task with neither
// argument nor executable has no command. The container image of a task is its profile pegasus:container.image; as a
// profile of the <executable> it holds for all its tasks.
func (b *builder) readDAX() {
	d := &daxReader{b: b, exe: map[transformation]*executable{}}
	d.x = reader.NewXML(b.in.Reader, d.known)
	if t := d.token(); t == reader.XMLStart {
		if d.x.Name != "adag" {
			d.fault(d.x.Errorf("the root is <%s> rather than <adag>", d.x.Name))
			return
		}
		d.document()
	}
}

// known returns the names and values that are there already, so that each is kept once.
func (d *daxReader) known(value []byte) (string, bool) {
	if i, ok := d.b.byName[string(value)]; ok {
		return d.b.wf.Files[i].Name, true
	}
	if i, ok := d.b.byID[string(value)]; ok {
		return d.b.wf.Tasks[i].ID, true
	}
	s, ok := d.b.intern[string(value)]
	return s, ok
}

// token moves to the next token; after a fault, and at the end, it is reader.XMLEOF.
func (d *daxReader) token() reader.XMLToken {
	if d.stop {
		return reader.XMLEOF
	}
	t, err := d.x.Next()
	if err != nil {
		d.fault(err)
		return reader.XMLEOF
	}
	return t
}

func (d *daxReader) fault(err error) {
	d.stop = true
	d.b.faults.Grammar(err, "well-formed XML", d.x.Line)
}

// full ends the reading where the workflow takes too much memory.
func (d *daxReader) full() { d.stop = d.stop || d.b.full(d.x.Start) }

// attr returns an attribute of the element that starts, by its local name; xsi: and other prefixed ones do not count.
func (d *daxReader) attr(name string) string {
	v, _ := d.x.Attr(name)
	return v
}

// each calls f at the direct children of the open element until it is closed; f has to consume them.
func (d *daxReader) each(f func(name string)) {
	for {
		switch d.token() {
		case reader.XMLEOF, reader.XMLEnd:
			return
		case reader.XMLStart:
			f(d.x.Name)
		}
	}
}

// skip consumes the rest of the open element.
func (d *daxReader) skip() {
	for depth := d.x.Depth(); d.x.Depth() >= depth; {
		if d.token() == reader.XMLEOF {
			return
		}
	}
}

// content consumes the open element and returns its text; the file elements within an <argument> become their names.
func (d *daxReader) content() string {
	var s strings.Builder
	for depth := d.x.Depth(); d.x.Depth() >= depth; {
		switch d.token() {
		case reader.XMLEOF:
			return s.String()
		case reader.XMLText:
			s.Write(d.x.Text)
		case reader.XMLStart:
			if d.x.Name == "file" || d.x.Name == "filename" {
				s.WriteString(d.fileName())
			}
		}
		if s.Len() > reader.MaxText {
			d.fault(&reader.SyntaxError{Line: d.x.Start, Bound: true, Message: reader.TooLong})
		}
	}
	return s.String()
}

// fileName is the logical file that an element names: attribute file up to 2.1, name from 3.0.
func (d *daxReader) fileName() string {
	if f, ok := d.x.Attr("file"); ok {
		return f
	}
	return d.attr("name")
}

func (d *daxReader) document() {
	w := d.b.wf
	w.Name, w.Version = d.attr("name"), d.attr("version")
	line, jobs, children, files := d.x.Start, d.attr("jobCount"), d.attr("childCount"), d.attr("fileCount")
	d.b.line = line
	d.each(func(name string) {
		switch name {
		case "job", "dax", "dag", "dflow":
			d.job()
		case "child":
			d.child()
		case "executable":
			d.executable()
		case "file", "filename":
			d.listed++
			d.replica()
		default:
			d.skip()
		}
	})
	if d.stop {
		return
	}
	d.token() // reports what follows the root
	d.count("jobCount", jobs, len(w.Tasks), line)
	d.count("childCount", children, d.children, line)
	// Generators write fileCount="0" whatever there is, Pegasus the number of files that are listed before the jobs.
	if n, err := reader.Count(files, 1); files != "" && (err != nil || n != 0 && n != int64(d.listed)) {
		d.count("fileCount", files, len(w.Files), line)
	}
}

// count compares a count of the header, which is a hint and often wrong.
func (d *daxReader) count(name, said string, have, line int) {
	if said = strings.TrimSpace(said); said == "" {
		return
	}
	if n, err := reader.Count(said, 1); err != nil || n != int64(have) {
		d.b.faults.Warn("wrong-count", line, "", "the header says %s=%q, the file has %d: what is there counts", name,
			said, have)
	}
}

// replica takes the size of a file from outside.
func (d *daxReader) replica() {
	file := d.attr("name")
	d.each(func(name string) {
		if line := d.x.Start; name == "metadata" && d.attr("key") == "size" {
			d.b.catalogue(file, d.content(), line)
		} else {
			d.skip()
		}
	})
}

// executable reads an entry of the catalogue, which comes before the jobs by the schema.
func (d *daxReader) executable() {
	if n := len(d.b.wf.Tasks); n > 0 {
		d.b.faults.Warn("late-executable", d.x.Start, "",
			"executable %s comes after jobs: it holds only for the jobs after it", d.attr("name"))
	}
	key := transformation{d.attr("namespace"), d.attr("name"), d.attr("version")}
	x := &executable{}
	d.each(func(name string) {
		switch name {
		case "pfn":
			if p, ok := filePath(d.attr("url")); ok && x.path == "" {
				x.path = p
			}
			d.skip()
		case "profile":
			d.profile(&x.profiles, inherited)
		default:
			d.skip()
		}
	})
	if old := d.exe[key]; old != nil {
		x.path = cmp.Or(old.path, x.path)
		x.profiles = append(old.profiles, x.profiles...)
	}
	d.b.keep(executableKept)
	d.exe[key] = x
	d.full()
}

// filePath is the path of a file:// address or a plain absolute path.
func filePath(address string) (string, bool) {
	if strings.HasPrefix(address, "/") {
		return address, true
	}
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil || u.Scheme != "file" || !strings.HasPrefix(u.Path, "/") {
		return "", false
	}
	return u.Path, true
}

func (d *daxReader) profile(to *profiles, rank int) {
	line, ns, key := d.x.Start, d.attr("namespace"), d.attr("key")
	if to.add(d.b, profile{d.b.same(strings.ToLower(ns)), d.b.same(key), strings.TrimSpace(d.content()), line,
		rank}); d.b.faults.Ended() {
		d.stop = true
	}
}

// job reads one node of the graph. The files of the jobs nested in a <dflow> are not files of the outer graph.
func (d *daxReader) job() {
	b, kind, line := d.b, d.x.Name, d.x.Start
	t := b.task(d.attr("id"), line)
	if t == nil {
		d.stop = d.stop || b.faults.Ended()
		d.skip()
		return
	}
	b.keep(taskKept / 4) // tasks are copied as they become more
	me := len(b.wf.Tasks) - 1
	t.Kind = b.same(cmp.Or(d.attr("name"), kind))
	if kind == "dax" || kind == "dag" {
		t.SubWorkflow, t.Kind = true, kind
	}
	t.Name = b.same(cmp.Or(d.attr("name"), d.attr("file"), t.Kind))
	key := transformation{b.same(d.attr("namespace")), b.same(d.attr("name")), b.same(d.attr("version"))}
	var given profiles
	for _, a := range []string{"runtime", "cores", "memory"} {
		if v, ok := d.x.Attr(a); ok {
			given = append(given, profile{"attribute", a, v, line, asked})
		}
	}
	argument := ""
	d.each(func(name string) {
		switch name {
		case "argument":
			argument = collapse(d.content())
		case "profile":
			d.profile(&given, asked)
		case "stdin":
			b.wf.Tasks[me].Stdin = d.fileName()
			d.skip()
		case "stdout":
			b.wf.Tasks[me].Stdout = d.fileName()
			d.skip()
		case "stderr":
			b.wf.Tasks[me].Stderr = d.fileName()
			d.skip()
		case "uses":
			d.uses()
		default:
			d.skip()
		}
	})
	b.redirections()
	d.command(&b.wf.Tasks[me], key, argument, given)
	d.full()
}

// command gives a task its numbers and its command.
func (d *daxReader) command(t *Task, key transformation, argument string, given profiles) {
	path, x := key.name, d.exe[key]
	if x != nil {
		given = append(slices.Clip(x.profiles), given...)
		path = cmp.Or(x.path, path)
	}
	d.b.applyProfiles(t, given)
	if path != "" && (argument != "" || x != nil && x.path != "") {
		t.Command = append([]string{d.b.same(path)}, d.b.words(t.Line, t.ID, argument)...)
		t.Known |= Command
	}
}

// redirections makes the files of stdin, stdout and stderr of the last task its inputs and outputs.
func (b *builder) redirections() {
	t := &b.wf.Tasks[len(b.wf.Tasks)-1]
	in, out, err := t.Stdin, t.Stdout, t.Stderr
	if in != "" {
		b.reads(in)
	}
	if out != "" {
		b.writes(out)
	}
	if err != "" {
		b.writes(err)
	}
}

// collapse turns white space into single blanks, as Pegasus does with the lines of an argument.
func collapse(s string) string { return strings.Join(strings.Fields(s), " ") }

func (d *daxReader) uses() {
	b, line := d.b, d.x.Start
	name := d.fileName()
	link := d.b.same(d.attr("link"))
	size, sized := d.x.Attr("size")
	program := d.attr("executable") == "true" || d.attr("type") == "executable"
	d.each(func(name string) {
		if name == "metadata" && d.attr("key") == "size" && !sized {
			size, sized = d.content(), true
			return
		}
		d.skip()
	})
	if name == "" {
		b.faults.Warn("unnamed-file", line, b.wf.Tasks[len(b.wf.Tasks)-1].ID,
			"task %s has a file without a name: ignored",
			b.wf.Tasks[len(b.wf.Tasks)-1].ID)
		return
	}
	in, out := link == "input" || link == "inout", link == "output" || link == "inout" || link == "checkpoint"
	if program {
		out = false
	}
	if !in && !out {
		if sized { // not a data flow, but the number should be one
			if _, err := reader.Count(size, 1); err != nil {
				t := b.wf.Tasks[len(b.wf.Tasks)-1].ID
				b.faults.Judge(b.opt.Repair, "bad-number", line, t, "taken as unknown", "size %q of file %s is %v",
					size, name, err)
			}
		}
		return
	}
	var f int32
	if in {
		f = b.reads(name)
	}
	if out {
		f = b.writes(name)
	}
	if sized {
		b.size(f, size, out, line)
	}
}

func (d *daxReader) child() {
	ref, line := d.attr("ref"), d.x.Start
	d.children++
	if ref == "" {
		d.b.faults.Fail("missing-id", line, "", "a <child> without ref; name the task that depends")
		d.skip()
		return
	}
	d.each(func(name string) {
		if name == "parent" {
			if p := d.attr("ref"); p != "" {
				d.b.depends(p, ref, d.x.Start)
				d.full()
			} else {
				d.b.faults.Fail("missing-id", d.x.Start, ref,
					"a <parent> of %s without ref; name the task it depends on", ref)
			}
		}
		d.skip()
	})
}
