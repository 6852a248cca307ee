package trace

import (
	"cmp"
	"strings"

	"gantry/trace/reader"
)

// daxReader reads DAX XML of all versions as a stream of tokens: only direct children of the root are looked at, and
// nothing but tasks, files and edges is kept. Elements are recognised by their local names, in any name space.
type daxReader struct {
	b        *builder
	x        *reader.XML
	stop     bool // a fault was reported that ends the reading
	shared   profiles
	children int      // <child> elements
	listed   int      // files that are named before the jobs
	given    profiles // of the job that is read
}

// readDAX reads DAX 1.8 to 3.6. A task's command is its executable (the file:// address of an <executable> of the same
// namespace, name and version, else the logical name) and its <argument>, file elements replaced by names, white space
// collapsed, split into words as a shell would; Pegasus runs no shell, and so nothing is expanded. A task with neither
// argument nor executable has no command. The container image of a task is its profile pegasus:container.image; as a
// profile of the <executable> it holds for all its tasks.
func (b *builder) readDAX() {
	b.openCatalogs()
	d := &daxReader{b: b}
	d.x = reader.NewXML(b.in.Reader)
	if t := d.token(); t == reader.XMLStart {
		if d.x.Name != "adag" {
			d.fault(d.x.Errorf("the root is <%s> rather than <adag>", d.x.Name))
			return
		}
		d.document()
	}
}

// number is that of the value of an attribute.
func (d *daxReader) number(attr string) int32 {
	v, _ := d.x.Attr(attr)
	return d.b.numberOf(v)
}

// word returns an attribute of which there are few different ones.
func (d *daxReader) word(attr string) string { return d.b.sameAs(d.number(attr)) }

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
	return string(v)
}

// each calls f at the direct children of the open element until it is closed, and passes over what f leaves of them.
func (d *daxReader) each(f func(name string)) {
	for {
		switch d.token() {
		case reader.XMLEOF, reader.XMLEnd:
			return
		case reader.XMLStart:
			depth := d.x.Depth()
			f(d.x.Name)
			for d.x.Depth() >= depth && d.token() != reader.XMLEOF {
			}
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
func (d *daxReader) fileName() string { return d.b.all[d.file()].text }

func (d *daxReader) file() int32 {
	if _, ok := d.x.Attr("file"); ok {
		return d.number("file")
	}
	return d.number("name")
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
		case "transformation":
			d.transformation()
		case "file", "filename":
			d.listed++
			d.replica()
		case "invoke":
			d.b.noEffect("notifications of the workflow")
		case "profile":
			d.profile(&d.shared)
		}
	})
	if d.stop {
		return
	}
	d.token() // reports text after the root
	d.count("jobCount", jobs, len(w.Tasks), line)
	d.count("childCount", children, d.children, line)
	// Generators always write fileCount="0", Pegasus the number of files that are listed before the jobs.
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

// replica reads where a file from outside is, and its size.
func (d *daxReader) replica() {
	file, own := d.fileName(), d.b.cat.own
	is, kind, sum, line := replica{}, "sha256", "", d.x.Start
	d.each(func(name string) {
		at := d.x.Start
		switch key := d.attr("key"); {
		case name == "pfn":
			if url := strings.TrimSpace(d.attr("url")); url != "" {
				is.pfns = append(is.pfns, url)
			}
		case name == "metadata" && key == "size":
			d.b.catalogue(file, d.content(), at)
		case name == "metadata" && key == "checksum.type":
			kind = strings.TrimSpace(d.content())
		case name == "metadata" && key == "checksum.value":
			sum = strings.TrimSpace(d.content())
		}
	})
	if sum != "" {
		is.sha256 = d.b.checksum(own, line, kind, sum)
	}
	if file == "" || len(is.pfns) == 0 && is.sha256 == "" {
		return
	}
	d.b.keep(fileKept + 64*len(is.pfns))
	d.b.addReplica(own, file, is)
}

// executable reads an entry of the catalog, which comes before the jobs by the schema.
func (d *daxReader) executable() {
	stageable := d.attr("installed") == "false"
	d.entry(func(x *executable, name string) {
		switch name {
		case "pfn":
			at := location{site: d.attr("site"), pfn: strings.TrimSpace(d.attr("url")), stageable: stageable}
			d.each(func(name string) {
				if name == "profile" {
					d.profile(&at.profiles)
				}
			})
			if at.pfn != "" {
				x.sites = append(x.sites, at)
			}
		case "profile":
			d.profile(&x.profiles)
		case "invoke":
			d.b.noEffect("notifications of executables")
		}
	})
}

// transformation reads the requirements of a program.
func (d *daxReader) transformation() {
	d.entry(func(x *executable, name string) {
		if name == "uses" {
			t := d.key()
			if program := d.attr("executable"); program == "" || program == "true" {
				x.requires = append(x.requires, t)
			} else {
				x.files = append(x.files, t.name)
			}
		}
	})
}

// key is the transformation that the element names.
func (d *daxReader) key() transformation {
	return transformation{d.attr("namespace"), d.attr("name"), d.attr("version")}
}

// entry keeps what an element says of a transformation; child reads each of its children.
func (d *daxReader) entry(child func(x *executable, name string)) {
	key, x := d.key(), &executable{from: d.b.cat.own, line: d.x.Start}
	if len(d.b.wf.Tasks) > 0 {
		d.b.faults.Warn("late-executable", d.x.Start, "",
			"%s %s comes after jobs: it holds only for the jobs after it", d.x.Name, key.name)
	}
	d.each(func(name string) { child(x, name) })
	d.b.keep(executableKept)
	d.b.cat.own.add(key, x)
	d.full()
}

func (d *daxReader) profile(to *profiles) {
	line, ns, key := d.x.Start, d.word("namespace"), d.word("key")
	value := d.b.environment(nil, strings.TrimSpace(d.content()))
	to.add(d.b, profile{namespace: d.b.same(strings.ToLower(ns)), key: key, value: value, line: line})
	if d.b.faults.Ended() {
		d.stop = true
	}
}

// job reads one node of the graph. The files of the jobs nested in a <dflow> are not files of the outer graph.
func (d *daxReader) job() {
	b, kind, line := d.b, d.x.Name, d.x.Start
	t := b.taskAs(d.number("id"), line)
	if t == nil {
		d.stop = d.stop || b.faults.Ended()
		return
	}
	b.keep(taskKept / 4) // tasks are copied as they become more
	name := d.word("name")
	t.Kind = cmp.Or(name, kind)
	if kind == "dax" || kind == "dag" {
		t.SubWorkflow, t.Kind = true, kind
	}
	t.Name = cmp.Or(name, d.word("file"), t.Kind)
	key := transformation{d.word("namespace"), name, d.word("version")}
	d.given = d.given[:0]
	for _, key := range [...]string{"runtime", "cores", "memory"} {
		if value, ok := d.x.Attr(key); ok {
			d.given = append(d.given, profile{namespace: "attribute", key: key, value: string(value),
				line: line})
		}
	}
	argument := ""
	var programs []transformation
	d.each(func(name string) {
		switch name {
		case "argument":
			argument = strings.Join(strings.Fields(d.content()), " ") // as Pegasus does
		case "profile":
			d.profile(&d.given)
		case "stdin":
			t.Stdin = d.fileName()
		case "stdout":
			t.Stdout = d.fileName()
		case "stderr":
			t.Stderr = d.fileName()
		case "uses":
			if t, ok := d.uses(); ok {
				programs = append(programs, t)
			}
		case "invoke":
			b.noEffect("notifications of jobs")
		}
	})
	b.redirections()
	b.usesPrograms(t, programs)
	b.program(t, key, argument, d.given, d.shared)
	d.full()
}

// redirections makes the files of stdin, stdout and stderr of the last task its inputs and outputs.
func (b *builder) redirections() {
	t := b.last()
	if t.Stdin != "" {
		b.reads(b.file(t.Stdin))
	}
	for _, name := range []string{t.Stdout, t.Stderr} {
		if name != "" {
			b.writes(b.file(name))
		}
	}
}

// uses reads a file of a job. A program is returned by the name of its transformation.
func (d *daxReader) uses() (program transformation, ok bool) {
	b, line := d.b, d.x.Start
	name, link, keep := d.file(), d.word("link"), d.word("transfer")
	flag, _ := d.x.Attr("optional")
	optional := string(flag) == "true" || keep == "optional"
	digits, sized := d.x.Attr("size")
	size := string(digits)
	if ok = d.attr("executable") == "true" || d.attr("type") == "executable"; ok {
		program = transformation{d.attr("namespace"), b.all[name].text, d.attr("version")}
	}
	if keep == "" && d.attr("dontTransfer") == "true" {
		keep = "false"
	}
	d.each(func(name string) {
		if name == "metadata" && d.attr("key") == "size" && !sized {
			size, sized = d.content(), true
		}
	})
	id := b.lastID()
	switch {
	case name == 0:
		b.faults.Warn("unnamed-file", line, id, "task %s has a file without a name: ignored", id)
		return program, false
	case ok && b.lookupExecutable(program) != nil:
		return program, true
	case ok && link != "input" && link != "inout", link == "", link == "none":
		if _, err := reader.Count(size, 1); sized && err != nil { // not a data flow, but the number should be one
			b.faults.Judge(b.opt.Repair, "bad-number", line, id, "taken as unknown", "size %q of file %s is %v", size,
				b.all[name].text, err)
		}
		return program, false
	case ok:
		link = "input"
	}
	if f, out := b.use(name, link, keep, optional, line); f >= 0 && sized {
		b.size(f, size, out, line)
	}
	return program, false
}

func (d *daxReader) child() {
	ref, line := d.attr("ref"), d.x.Start
	d.children++
	if ref == "" {
		d.b.faults.Fail("missing-id", line, "", "a <child> without ref; name the task that depends")
		return
	}
	d.each(func(name string) {
		switch p := d.attr("ref"); {
		case name != "parent":
			return
		case p == "":
			d.b.faults.Fail("missing-id", d.x.Start, ref, "a <parent> of %s without ref; name the task it depends on",
				ref)
		default:
			d.b.depends(p, ref, d.x.Start)
		}
		d.full()
	})
}
