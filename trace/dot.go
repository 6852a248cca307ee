package trace

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"text/scanner"

	"gantry/trace/reader"
)

// dotReader reads the language DOT: nodes, edges and their attributes. Subgraphs are read as their content.
type dotReader struct {
	scanner.Scanner
	faults *reader.Faults
	line   int
	token  string // "" at the end
	quoted bool
	depth  int
	node   func(id string, line int)
	about  func(id string, attrs map[string]string, line int)
	edge   func(from, to string, attrs map[string]string, line int)
}

func (d *dotReader) fail(format string, args ...any) {
	d.faults.Fail("syntax", d.line, "", "not DOT: "+format, args...)
	d.token = ""
}

// next reads a token: a name, a number, a text in quotes, -> or -- or a sign.
func (d *dotReader) next() {
	before, c := d.line, d.Scan()
	for d.line = d.Position.Line; c == '#' && (d.line > before || d.line == 1); d.line = d.Position.Line {
		for c != '\n' && c != scanner.EOF { // a line of a preprocessor
			c = d.Next()
		}
		c = d.Scan()
	}
	d.token, d.quoted = d.TokenText(), false
	switch {
	case c == '"' || c == '<':
		d.text(c)
	case d.token == "-" && (d.Peek() == '>' || d.Peek() == '-'):
		d.token += string(d.Next())
	case len(d.token) > reader.MaxName:
		d.faults.Fail("bound", d.line, "", "%s", reader.TooLongName)
		d.token = ""
	}
}

func isDOTWord(c rune) bool {
	return c == '_' || c == '.' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80
}

// text reads to the end of a text in quotes, or in angle brackets, which nest.
func (d *dotReader) text(open rune) {
	var b strings.Builder
	d.token = ""
	for deep := 1; ; {
		c := d.Next()
		d.line = d.Pos().Line
		switch {
		case c == scanner.EOF:
			d.faults.Fail("truncated", d.line, "", "the file ends within a text; get it again")
			return
		case open == '"' && c == '\\':
			if c = d.Next(); c == '\n' {
				continue
			}
			if c != '"' {
				b.WriteByte('\\')
			}
		case open == '"' && c == '"', open == '<' && c == '>' && deep == 1:
			d.token, d.quoted = b.String(), true
			return
		case open == '<' && c == '<':
			deep++
		case open == '<' && c == '>':
			deep--
		}
		if b.WriteRune(c); b.Len() > reader.MaxText {
			d.faults.Fail("bound", d.line, "", "%s", reader.TooLong)
			return
		}
	}
}

func (d *dotReader) is(sign string) bool { return !d.quoted && d.token == sign }

// ended reports whether nothing follows, not even an empty text.
func (d *dotReader) ended() bool { return d.token == "" && !d.quoted }

// read reads the graph.
func (d *dotReader) read(in *reader.Input) {
	text, err := in.All()
	if err != nil {
		d.faults.Damage(err, 1)
		return
	}
	d.Init(bytes.NewReader(text))
	d.Mode = scanner.ScanIdents | scanner.ScanComments | scanner.SkipComments
	d.IsIdentRune = func(c rune, i int) bool { return isDOTWord(c) || c == '-' && i == 0 }
	d.Error = func(*scanner.Scanner, string) {} // faults show by the tokens
	d.line = 1
	if d.next(); strings.EqualFold(d.token, "strict") {
		d.next()
	}
	if !strings.EqualFold(d.token, "digraph") {
		d.fail("it does not begin with digraph")
		return
	}
	if d.next(); !d.is("{") {
		d.next() // its name
	}
	d.block()
	if d.next(); !d.ended() && !d.faults.Ended() {
		d.fail("%q behind the end of the graph: a file has one graph", d.token)
	}
}

// block reads { statements }, and returns the nodes that they name.
func (d *dotReader) block() (all []string) {
	if !d.is("{") {
		d.fail("no { where the statements should begin")
		return nil
	}
	if d.depth++; d.depth > reader.MaxDepth {
		d.faults.Fail("bound", d.line, "", "nested deeper than %d", reader.MaxDepth)
		return nil
	}
	for d.next(); !d.is("}"); {
		if d.ended() {
			if !d.faults.Ended() {
				d.faults.Fail("truncated", d.line, "", "the file ends before the graph does; get it again")
			}
			return all
		}
		if d.is(";") || d.is(",") {
			d.next()
			continue
		}
		all = append(all, d.statement()...)
	}
	d.depth--
	return all
}

// statement reads one, and leaves the token behind it.
func (d *dotReader) statement() []string {
	kind := ""
	if !d.quoted {
		kind = strings.ToLower(d.token)
	}
	line := d.line
	ids := d.ends()
	if d.is("=") { // an attribute of the graph
		d.next()
		d.next()
		return nil
	}
	all, chain := ids, [][]string{ids}
	for d.is("->") {
		d.next()
		chain = append(chain, d.ends())
		all = append(all[:len(all):len(all)], chain[len(chain)-1]...)
	}
	if d.is("--") {
		d.fail("-- joins nodes without a direction")
		return nil
	}
	attrs := d.attributes()
	if len(chain) == 1 && (kind == "node" || kind == "edge" || kind == "graph") {
		return nil
	}
	for _, id := range all {
		d.node(id, line)
	}
	if len(chain) == 1 && len(attrs) > 0 {
		for _, id := range ids {
			d.about(id, attrs, line)
		}
	}
	for i := range chain[1:] {
		for _, from := range chain[i] {
			for _, to := range chain[i+1] {
				if !d.faults.Ended() {
					d.edge(from, to, attrs, line)
				}
			}
		}
	}
	return all
}

// ends reads a node, or a group of them.
func (d *dotReader) ends() []string {
	if !d.quoted && strings.EqualFold(d.token, "subgraph") {
		if d.next(); !d.is("{") {
			d.next()
		}
	}
	if d.is("{") {
		all := d.block()
		d.next()
		slices.Sort(all)
		return slices.Compact(all)
	}
	if !d.quoted && (d.token == "" || !isDOTWord(rune(d.token[0])) && d.token[0] != '-') {
		d.fail("%q where a node should be", d.token)
		return nil
	}
	id := d.token
	for d.next(); d.is(":"); d.next() { // a port
		d.next()
	}
	return []string{id}
}

// attributes reads lists such as [a=1, b="2"].
func (d *dotReader) attributes() map[string]string {
	var all map[string]string
	for ; d.is("["); d.next() {
		for d.next(); !d.is("]"); {
			if d.ended() {
				d.fail("a list of attributes without its end")
				return nil
			}
			if d.is(",") || d.is(";") {
				d.next()
				continue
			}
			key, value := strings.ToLower(d.token), "true"
			if d.next(); d.is("=") {
				d.next()
				value = d.token
				d.next()
			}
			if all == nil {
				all = map[string]string{}
			}
			if all[key] = value; len(all) > reader.MaxAttrs {
				d.faults.Fail("bound", d.line, "", "more than %d attributes", reader.MaxAttrs)
				return nil
			}
		}
	}
	return all
}

// readDOT reads a graph of tasks, as of daggen, DSLab and SimGrid: size is the operations of a task, and the bytes that
// an edge brings.
func (b *builder) readDOT() {
	b.wf.OpaqueNames, b.line = true, 1
	flops := 1e9
	if b.opt.GFlops > 0 {
		flops *= b.opt.GFlops
	}
	sized := false
	d := &dotReader{faults: &b.faults}
	d.node = func(id string, line int) {
		if _, ok := b.taskOf(id); ok || b.full(line) {
			return
		}
		if t := b.task(id, line); t != nil {
			t.Name, t.Kind = id, kindOf(id)
		}
	}
	d.about = func(id string, attrs map[string]string, line int) {
		i, ok := b.taskOf(id)
		if !ok {
			return
		}
		t := &b.wf.Tasks[i]
		label, _, _ := strings.Cut(attrs["label"], `\n`)
		if label != "" && !strings.ContainsAny(label, "\n<\\") && len(label) < 200 {
			t.Name, t.Kind = label, b.same(kindOf(label))
		}
		for _, key := range []string{"runtime", "duration"} {
			if text, ok := attrs[key]; ok {
				b.runtime(t, text, line)
			}
		}
		if text, ok := attrs["size"]; ok && !t.Known.Has(Runtime) {
			sized = true
			t.Runtime = seconds(b.positive(t, "size", text, flops*reader.MaxTime.Seconds(), line) / flops)
			t.Known |= Runtime
		}
		if text, ok := attrs["cores"]; ok {
			b.cores(t, text, line)
		}
		if text, ok := attrs["memory"]; ok {
			b.memory(t, text, 1, line)
		}
	}
	d.edge = func(from, to string, attrs map[string]string, line int) {
		p, okP := b.taskOf(from)
		c, okC := b.taskOf(to)
		if okP && okC && !b.full(line) {
			b.follows(p, c, line)
			b.carries(p, c, attrs["size"], line)
		}
	}
	d.read(b.in)
	if sized {
		for i := range b.wf.Tasks { // SimGrid adds these where they are not there
			if t := &b.wf.Tasks[i]; !t.Known.Has(Runtime) && (t.ID == "root" || t.ID == "end") {
				t.Known |= Runtime
			}
		}
		b.faults.Warn("flops", 1, "", "sizes of tasks are operations, of which a node of speed 1 does %g a second "+
			"(--gflops)", flops)
	}
}

// carries gives an edge a file of its size; without one, or below a byte, it brings nothing.
func (b *builder) carries(p, c int32, size string, line int) {
	if size == "" || p == c {
		return
	}
	parent, child := &b.wf.Tasks[p], &b.wf.Tasks[c]
	x := b.positive(child, "size of an edge", strings.TrimPrefix(size, "-"), float64(reader.MaxBytes), line)
	if x < 1 || size[0] == '-' { // SimGrid: -1 is a dependency
		return
	}
	f := b.file(fmt.Sprintf("%s--%s", parent.ID, child.ID))
	if b.wf.Files[f].Producer >= 0 {
		return
	}
	b.keep(2 * edgeKept)
	b.wf.Files[f].Producer, b.uses[f] = p, fileUse{out: int64(x), hasOut: true}
	parent.Outputs, child.Inputs = append(parent.Outputs, f), append(child.Inputs, f)
}

// kindOf is the type of a task by its name: without numbers at its end.
func kindOf(name string) string { return cmp.Or(strings.TrimRight(name, "0123456789_-. "), "task") }

// dotBegins is the beginning of DOT.
var dotBegins = regexp.MustCompile(`\A\s*(?i:strict\s+)?(?i:digraph|graph)\s*("[^"]*"|[\w.]*)\s*\{`)
