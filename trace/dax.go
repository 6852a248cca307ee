package trace

import (
	"bufio"
	"cmp"
	"encoding/xml"
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"
)

// daxReader reads DAX XML of all versions as a stream of tokens: only direct children of the root are looked at, and nothing but
// tasks, files and edges is kept. Elements are told by their local names, whatever the name space.
type daxReader struct {
	b        *builder
	x        *xml.Decoder
	open     []string // elements that are open
	stop     bool     // a fault was told that ends the reading
	count    map[string]string
	exe      map[transformation]*executable
	children int // <child> elements
}

// transformation identifies an executable.
type transformation struct{ namespace, name, version string }

// executable is what a catalogue tells of a transformation.
type executable struct {
	path     string
	image    string
	profiles profiles
}

// readDAX reads DAX 1.8 to 3.6. A task's command is its executable (the file:// address of an <executable> of the same namespace, name
// and version, else the logical name) and its <argument>, file elements replaced by names, white space collapsed, split into words as
// a shell would; Pegasus runs no shell, and so nothing is expanded. A task with neither argument nor executable has no command. The
// container image of a task is its profile pegasus:container.image; as a profile of the <executable> it holds for all its tasks.
func (b *builder) readDAX(in *bufio.Reader) {
	d := &daxReader{b: b, x: xml.NewDecoder(in), exe: map[transformation]*executable{}}
	d.x.CharsetReader = charset
	root, ok := d.root()
	if ok {
		d.document(root)
	}
}

// token returns the next token; nil after a fault, and at the end of the document.
func (d *daxReader) token() xml.Token {
	if d.stop {
		return nil
	}
	t, err := d.x.RawToken()
	if err != nil {
		d.fault(err)
		return nil
	}
	switch e := t.(type) {
	case xml.StartElement:
		d.open = append(d.open, e.Name.Local)
		if len(d.open) > maxDepth {
			d.syntax("elements nested deeper than %d", maxDepth)
			return nil
		}
	case xml.EndElement:
		if n := len(d.open); n == 0 || d.open[n-1] != e.Name.Local {
			if n == 0 {
				d.syntax("</%s> closes nothing", e.Name.Local)
			} else {
				d.syntax("</%s> where </%s> should be", e.Name.Local, d.open[n-1])
			}
			return nil
		}
		d.open = d.open[:len(d.open)-1]
	}
	return t
}

func (d *daxReader) line() int { line, _ := d.x.InputPos(); return line }

func (d *daxReader) syntax(format string, args ...any) {
	d.stop = true
	d.b.faults.fail("syntax", d.line(), "", "not well-formed XML: "+format, args...)
}

func (d *daxReader) fault(err error) {
	d.stop = true
	var syntax *xml.SyntaxError
	line := d.line()
	switch {
	case err == io.EOF && len(d.open) == 0:
	case isTruncated(err), errors.As(err, &syntax) && syntax.Msg == "unexpected EOF":
		inside := ""
		if n := len(d.open); n > 0 {
			inside = " inside <" + d.open[n-1] + ">"
		}
		d.b.faults.fail("truncated", line, "", "the file ends%s; get it again", inside)
	case errors.As(err, &syntax):
		d.b.faults.fail("syntax", syntax.Line, "", "not well-formed XML: %s", syntax.Msg)
	case isDamage(err):
		rule, _, task, format, arg := damage(err)
		d.b.faults.fail(rule, line, task, format, arg)
	default:
		d.b.faults.fail("syntax", line, "", "not readable XML: %v", err)
	}
}

func (d *daxReader) root() (xml.StartElement, bool) {
	for {
		switch t := d.token().(type) {
		case nil:
			if len(d.b.faults.list) == 0 {
				d.b.faults.fail("truncated", d.line(), "", "the file ends before its root element <adag>; get it again")
			}
			return xml.StartElement{}, false
		case xml.StartElement:
			if t.Name.Local != "adag" {
				d.syntax("the root is <%s> rather than <adag>", t.Name.Local)
				return t, false
			}
			return t, true
		case xml.CharData:
			if strings.TrimSpace(string(t)) != "" {
				d.syntax("text before the root element")
				return xml.StartElement{}, false
			}
		}
	}
}

// attr returns an attribute by its local name; xsi: and other prefixed ones do not count.
func attr(e *xml.StartElement, name string) string {
	v, _ := lookup(e, name)
	return v
}

func lookup(e *xml.StartElement, name string) (string, bool) {
	for i := range e.Attr {
		if a := &e.Attr[i]; a.Name.Local == name && a.Name.Space == "" {
			return a.Value, true
		}
	}
	return "", false
}

// each calls f with the direct children of the open element until it is closed; f has to consume them.
func (d *daxReader) each(f func(e *xml.StartElement, line int)) {
	for line := d.line(); ; line = d.line() {
		switch t := d.token().(type) {
		case nil, xml.EndElement:
			return
		case xml.StartElement:
			f(&t, line)
		}
	}
}

// skip consumes the rest of the open element.
func (d *daxReader) skip() {
	for depth := len(d.open); len(d.open) >= depth; {
		if d.token() == nil {
			return
		}
	}
}

// text consumes the open element and returns its text; the file elements within an <argument> become their names.
func (d *daxReader) text() string {
	var s strings.Builder
	for depth := len(d.open); len(d.open) >= depth; {
		switch t := d.token().(type) {
		case nil:
			return s.String()
		case xml.CharData:
			s.Write(t)
		case xml.StartElement:
			if t.Name.Local == "file" || t.Name.Local == "filename" {
				s.WriteString(fileName(&t))
			}
		}
	}
	return s.String()
}

// fileName is the logical file that an element names: attribute file up to 2.1, name from 3.0.
func fileName(e *xml.StartElement) string {
	if f, ok := lookup(e, "file"); ok {
		return f
	}
	return attr(e, "name")
}

func (d *daxReader) document(root xml.StartElement) {
	w := d.b.wf
	w.Name, w.Version = attr(&root, "name"), attr(&root, "version")
	d.count = map[string]string{"jobCount": attr(&root, "jobCount"), "childCount": attr(&root, "childCount")}
	line := d.line()
	d.each(func(e *xml.StartElement, line int) {
		switch e.Name.Local {
		case "job", "dax", "dag", "dflow":
			d.job(e, line)
		case "child":
			d.child(e, line)
		case "executable":
			d.executable(e, line)
		case "file":
			name := attr(e, "name")
			d.each(func(e *xml.StartElement, line int) {
				if e.Name.Local == "metadata" && attr(e, "key") == "size" {
					d.b.catalogue(name, d.text(), line)
				} else {
					d.skip()
				}
			})
		default:
			d.skip()
		}
	})
	for !d.stop { // what may follow the root: comments and white space
		switch t := d.token().(type) {
		case xml.StartElement:
			d.syntax("<%s> after the end of the root element", t.Name.Local)
		case xml.CharData:
			if strings.TrimSpace(string(t)) != "" {
				d.syntax("text after the end of the root element")
			}
		}
	}
	d.counts(line)
}

// counts compares the counts of the header, which are hints and often wrong.
func (d *daxReader) counts(line int) {
	for _, c := range []struct {
		name string
		have int
	}{{"jobCount", len(d.b.wf.Tasks)}, {"childCount", d.children}} {
		if said := strings.TrimSpace(d.count[c.name]); said != "" {
			if n, err := parseCount(said, 1); err != nil || n != int64(c.have) {
				d.b.faults.warn("wrong-count", line, "", "the header says %s=%q, the file has %d: what is there counts", c.name, said, c.have)
			}
		}
	}
}

// executable reads an entry of the catalogue, which comes before the jobs by the schema.
func (d *daxReader) executable(e *xml.StartElement, line int) {
	if n := len(d.b.wf.Tasks); n > 0 {
		d.b.faults.warn("late-executable", line, "", "executable %s comes after jobs: it holds only for the jobs after it", attr(e, "name"))
	}
	key := transformation{attr(e, "namespace"), attr(e, "name"), attr(e, "version")}
	x := &executable{}
	d.each(func(e *xml.StartElement, line int) {
		switch e.Name.Local {
		case "pfn":
			if p, ok := filePath(attr(e, "url")); ok && x.path == "" {
				x.path = p
			}
			d.skip()
		case "profile":
			x.profiles = append(x.profiles, d.profile(e, line, inherited))
		default:
			d.skip()
		}
	})
	if old := d.exe[key]; old != nil {
		x.path = cmp.Or(old.path, x.path)
		x.profiles = append(old.profiles, x.profiles...)
	}
	d.exe[key] = x
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

func (d *daxReader) profile(e *xml.StartElement, line int, rank int) profile {
	ns, key := attr(e, "namespace"), attr(e, "key")
	return profile{d.b.same(strings.ToLower(ns)), d.b.same(key), strings.TrimSpace(d.text()), line, rank}
}

// job reads one node of the graph. The files of the jobs nested in a <dflow> are not files of the outer graph.
func (d *daxReader) job(e *xml.StartElement, line int) {
	b := d.b
	t := b.task(attr(e, "id"), line)
	if t == nil {
		d.skip()
		return
	}
	me := len(b.wf.Tasks) - 1
	kind := e.Name.Local
	t.Kind = b.same(cmp.Or(attr(e, "name"), kind))
	if kind == "dax" || kind == "dag" {
		t.SubWorkflow, t.Kind = true, kind
	}
	t.Name = b.same(cmp.Or(attr(e, "name"), attr(e, "file"), t.Kind))
	key := transformation{b.same(attr(e, "namespace")), b.same(attr(e, "name")), b.same(attr(e, "version"))}
	var given profiles
	for _, a := range []string{"runtime", "cores", "memory"} {
		if v, ok := lookup(e, a); ok {
			given = append(given, profile{"attribute", a, v, line, asked})
		}
	}
	argument := ""
	d.each(func(e *xml.StartElement, line int) {
		switch e.Name.Local {
		case "argument":
			argument = collapse(d.text())
		case "profile":
			given = append(given, d.profile(e, line, asked))
		case "stdin":
			b.wf.Tasks[me].Stdin = fileName(e)
			d.skip()
		case "stdout":
			b.wf.Tasks[me].Stdout = fileName(e)
			d.skip()
		case "stderr":
			b.wf.Tasks[me].Stderr = fileName(e)
			d.skip()
		case "uses":
			d.uses(e, line)
		default:
			d.skip()
		}
	})
	b.redirections()
	d.command(&b.wf.Tasks[me], key, argument, given)
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

func (d *daxReader) uses(e *xml.StartElement, line int) {
	b := d.b
	name := fileName(e)
	link := attr(e, "link")
	size, sized := lookup(e, "size")
	program := attr(e, "executable") == "true" || attr(e, "type") == "executable"
	d.each(func(e *xml.StartElement, _ int) {
		if e.Name.Local == "metadata" && attr(e, "key") == "size" && !sized {
			size, sized = d.text(), true
			return
		}
		d.skip()
	})
	if name == "" {
		b.faults.warn("unnamed-file", line, b.wf.Tasks[len(b.wf.Tasks)-1].ID, "task %s has a file without a name: ignored", b.wf.Tasks[len(b.wf.Tasks)-1].ID)
		return
	}
	in, out := link == "input" || link == "inout", link == "output" || link == "inout" || link == "checkpoint"
	if program {
		out = false
	}
	if !in && !out {
		if sized { // not a data flow, but the number should be one
			if _, err := parseCount(size, 1); err != nil {
				t := b.wf.Tasks[len(b.wf.Tasks)-1].ID
				b.faults.judge(b.opt.Repair, "bad-number", line, t, "taken as unknown", "size %q of file %s is %v", size, name, err)
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

func (d *daxReader) child(e *xml.StartElement, line int) {
	ref := attr(e, "ref")
	d.children++
	if ref == "" {
		d.b.faults.fail("missing-id", line, "", "a <child> without ref; name the task that depends")
		d.skip()
		return
	}
	d.each(func(e *xml.StartElement, line int) {
		if e.Name.Local == "parent" {
			if p := attr(e, "ref"); p != "" {
				d.b.depends(p, ref, line)
			} else {
				d.b.faults.fail("missing-id", line, ref, "a <parent> of %s without ref; name the task it depends on", ref)
			}
		}
		d.skip()
	})
}

// charset reads the encodings that XML files of this kind have been seen or are likely to have.
func charset(label string, in io.Reader) (io.Reader, error) {
	switch strings.ToLower(label) {
	case "utf-8", "utf8", "us-ascii", "ascii":
		return in, nil
	case "iso-8859-1", "latin1", "latin-1", "windows-1252":
		return &latin1{in: bufio.NewReader(in)}, nil
	}
	return nil, errors.New("encoding " + label + " is not supported; convert the file to UTF-8")
}

type latin1 struct{ in *bufio.Reader }

func (l *latin1) Read(p []byte) (n int, err error) {
	for n+2 <= len(p) {
		if n > 0 && l.in.Buffered() == 0 {
			return n, nil
		}
		c, err := l.in.ReadByte()
		if err != nil {
			return n, err
		}
		n += copy(p[n:], string(rune(c)))
	}
	return n, nil
}
