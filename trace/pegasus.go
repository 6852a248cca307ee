package trace

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// pegasusReader reads Pegasus 5 workflows.
type pegasusReader struct {
	b      *builder
	y      *yamlDoc
	exe    map[transformation]*executable
	shared profiles
	// related: there are jobDependencies; barren: the last of them has no children.
	related, barren bool
	lists           map[string][]yamlPart // of a large document, whose lists are not in its tree
}

// each calls f with each element of a list of the document.
func (p *pegasusReader) each(key string, list ast.Node, f func(v ast.Node)) {
	if p.lists[key] == nil {
		p.y.sequence(list, key, f)
		return
	}
	whole := p.y
	defer func() { p.y = whole }()
	for _, part := range p.lists[key] {
		y, root := parseYAMLAfter(part.before, part.text, &p.b.faults)
		if root == nil {
			return
		}
		p.y = y
		y.sequence(root, key, f)
	}
}

// readPegasus reads a Pegasus 5 workflow, YAML or the same in JSON. The command of a task is its executable (the first file:// or
// absolute pfn among the sites of its transformation, else the logical name) and its arguments, joined by blanks and split into words
// as a shell would. Its image is that of the Docker container which the transformation names, or its profile pegasus:container.image.
func (b *builder) readPegasus(in *bufio.Reader) {
	data, err := io.ReadAll(in)
	if err != nil {
		b.faults.fail(damage(err))
		return
	}
	rest, lists := splitYAML(data, "jobs", "jobDependencies")
	y, root := parseYAML(rest, &b.faults)
	if root == nil {
		return
	}
	p := &pegasusReader{b: b, y: y, exe: map[transformation]*executable{}, lists: lists}
	p.document(root)
	p.cutOff(data)
}

// cutOff looks for the signs of a truncated file, as most beginnings of a YAML document are documents themselves: Pegasus ends the last
// line, and writes the dependencies after the jobs.
func (p *pegasusReader) cutOff(data []byte) {
	if len(data) == 0 || bytes.IndexByte([]byte("\r\n}]"), data[len(data)-1]) >= 0 {
		return
	}
	lines := bytes.Split(data, []byte{'\n'})
	inside := bytes.IndexByte([]byte(" -"), append(lines[len(lines)-1], ' ')[0]) >= 0
	if inside && !p.related || p.barren {
		p.b.faults.judge(p.b.opt.Repair, "truncated", len(lines), "", "taken as whole", "the file ends within a line, and jobDependencies are missing or incomplete: "+
			"get it again, or end its last line if it is whole")
		return
	}
	p.b.faults.warn("no-line-end", len(lines), "", "the last line has no end, as if the file was cut off: taken as whole")
}

func (p *pegasusReader) document(root ast.Node) {
	b := p.b
	var jobs, edges, catalogue ast.Node
	p.y.mapping(root, "the workflow", func(key string, v ast.Node) {
		switch key {
		case "pegasus":
			b.wf.Version = p.y.literal(v)
		case "name":
			b.wf.Name = p.y.text(v)
		case "jobs":
			jobs, b.line = v, p.y.line(v)
		case "jobDependencies":
			edges, p.related = v, true
		case "transformationCatalog":
			catalogue = v
		case "replicaCatalog":
			p.y.mapping(v, key, func(key string, v ast.Node) {
				if key == "replicas" {
					p.y.sequence(v, key, p.replica)
				}
			})
		case "profiles":
			p.shared = p.profiles(v, inherited-1)
		}
	})
	if catalogue != nil {
		p.catalogue(catalogue)
	}
	p.each("jobs", jobs, p.job)
	p.each("jobDependencies", edges, func(v ast.Node) {
		var id string
		var children []ast.Node
		p.y.mapping(v, "a dependency", func(key string, v ast.Node) {
			switch key {
			case "id":
				id = p.y.text(v)
			case "children":
				p.y.sequence(v, "children", func(c ast.Node) { children = append(children, c) })
			}
		})
		p.barren = len(children) == 0
		for _, c := range children {
			b.depends(id, p.y.text(c), p.y.line(c))
		}
	})
}

// replica takes the size of a file from outside.
func (p *pegasusReader) replica(v ast.Node) {
	var name string
	var size ast.Node
	p.y.mapping(v, "a replica", func(key string, v ast.Node) {
		switch key {
		case "lfn":
			name = p.y.text(v)
		case "metadata":
			p.y.mapping(v, "metadata", func(key string, v ast.Node) {
				if key == "size" {
					size = v
				}
			})
		}
	})
	if size != nil {
		p.b.catalogue(name, p.y.text(size), p.y.line(size))
	}
}

// catalogue reads transformations and containers.
func (p *pegasusReader) catalogue(v ast.Node) {
	image := map[string]string{}
	var wants []struct {
		x         *executable
		container string
	}
	p.y.mapping(v, "transformationCatalog", func(key string, v ast.Node) {
		switch key {
		case "containers":
			p.y.sequence(v, "containers", func(v ast.Node) {
				var name, kind, address string
				p.y.mapping(v, "a container", func(key string, v ast.Node) {
					switch key {
					case "name":
						name = p.y.text(v)
					case "type":
						kind = p.y.text(v)
					case "image":
						address = p.y.text(v)
					}
				})
				if kind == "" || kind == "docker" || strings.HasPrefix(address, "docker:") {
					image[name] = address
				}
			})
		case "transformations":
			p.y.sequence(v, "transformations", func(v ast.Node) {
				var t transformation
				x, container := &executable{}, ""
				p.y.mapping(v, "a transformation", func(key string, v ast.Node) {
					switch key {
					case "namespace":
						t.namespace = p.y.text(v)
					case "name":
						t.name = p.y.text(v)
					case "version":
						t.version = p.y.text(v)
					case "profiles":
						x.profiles = append(x.profiles, p.profiles(v, inherited)...)
					case "container":
						container = p.y.text(v)
					case "sites":
						p.y.sequence(v, "sites", func(v ast.Node) {
							p.y.mapping(v, "a site", func(key string, v ast.Node) {
								switch key {
								case "pfn":
									if path, ok := filePath(p.y.text(v)); ok && x.path == "" {
										x.path = path
									}
								case "container":
									container = cmp.Or(container, p.y.text(v))
								case "profiles":
									x.profiles = append(x.profiles, p.profiles(v, inherited)...)
								}
							})
						})
					}
				})
				p.exe[t] = x
				if container != "" {
					wants = append(wants, struct {
						x         *executable
						container string
					}{x, container})
				}
			})
		}
	})
	for _, w := range wants {
		w.x.image = image[w.container]
	}
}

// profiles reads a mapping of name spaces to keys and values.
func (p *pegasusReader) profiles(v ast.Node, rank int) (out profiles) {
	p.y.mapping(v, "profiles", func(ns string, v ast.Node) {
		p.y.mapping(v, "profiles of "+ns, func(key string, v ast.Node) {
			out = append(out, profile{strings.ToLower(ns), key, strings.TrimSpace(p.y.text(v)), p.y.line(v), rank})
		})
	})
	return out
}

func (p *pegasusReader) job(v ast.Node) {
	b, y := p.b, p.y
	fields := map[string]ast.Node{}
	if !y.mapping(v, "a job", func(key string, v ast.Node) { fields[key] = v }) {
		return
	}
	text := func(key string) string { return y.text(fields[key]) }
	line := y.line(v)
	if n := fields["id"]; n != nil {
		line = y.line(n)
	}
	t := b.task(text("id"), line)
	if t == nil {
		return
	}
	kind := text("type")
	switch kind {
	case "", "job":
		t.Kind = text("name")
	case "pegasusWorkflow", "condorWorkflow", "dax", "dag":
		t.SubWorkflow, t.Kind = true, kind
	default:
		b.faults.warn("unknown-job-type", line, t.ID, "task %s has type %q: taken as a job", t.ID, kind)
		t.Kind = cmp.Or(text("name"), kind)
	}
	t.Kind = b.same(cmp.Or(t.Kind, text("file"), "job"))
	t.Name = b.same(cmp.Or(text("name"), text("nodeLabel"), text("file"), t.Kind))
	t.Stdin, t.Stdout, t.Stderr = text("stdin"), text("stdout"), text("stderr")
	var words []string
	y.sequence(fields["arguments"], "arguments", func(v ast.Node) { words = append(words, y.literal(v)) })
	y.sequence(fields["uses"], "uses", p.uses)
	b.redirections()

	t = &b.wf.Tasks[len(b.wf.Tasks)-1]
	given := append(profiles{}, p.shared...)
	name := text("name")
	x := p.exe[transformation{text("namespace"), name, text("version")}]
	if x != nil {
		given = append(given, x.profiles...)
		name = cmp.Or(x.path, name)
		if x.image != "" {
			b.image(t, x.image)
		}
	}
	b.applyProfiles(t, append(given, p.profiles(fields["profiles"], asked)...))
	if name != "" && (len(words) > 0 || x != nil && x.path != "") {
		t.Command = append([]string{name}, b.words(line, t.ID, strings.Join(words, " "))...)
		t.Known |= Command
	}
}

func (p *pegasusReader) uses(v ast.Node) {
	b, y := p.b, p.y
	var name, kind string
	var size ast.Node
	if !y.mapping(v, "a use", func(key string, v ast.Node) {
		switch key {
		case "lfn":
			name = y.text(v)
		case "type":
			kind = y.text(v)
		case "size":
			size = v
		case "metadata":
			y.mapping(v, "metadata", func(key string, v ast.Node) {
				if key == "size" && size == nil {
					size = v
				}
			})
		}
	}) {
		return
	}
	if name == "" {
		id := b.wf.Tasks[len(b.wf.Tasks)-1].ID
		b.faults.warn("unnamed-file", y.line(v), id, "task %s has a use without lfn: ignored", id)
		return
	}
	in, out := kind == "input" || kind == "inout", kind == "output" || kind == "inout" || kind == "checkpoint"
	var f int32
	if in {
		f = b.reads(name)
	}
	if out {
		f = b.writes(name)
	}
	if size != nil && (in || out) {
		b.size(f, y.literal(size), out, y.line(size))
	}
}

// yamlDoc walks a YAML document by its syntax tree, which has the lines. Aliases are followed, a bounded number of times, so that a
// small file cannot unfold into a giant one.
type yamlDoc struct {
	faults  *faultList
	anchors map[string]ast.Node
	aliases int
	before  int // lines of the file before the text
}

const maxAliases = 10_000

// parseYAML returns the root of the only document of a text, or nil after a fault.
func parseYAML(data []byte, faults *faultList) (y *yamlDoc, root ast.Node) {
	return parseYAMLAfter(0, data, faults)
}

// parseYAMLAfter is parseYAML of a text that so many lines of its file precede.
func parseYAMLAfter(before int, data []byte, faults *faultList) (y *yamlDoc, root ast.Node) {
	y = &yamlDoc{faults: faults, anchors: map[string]ast.Node{}, before: before}
	if !utf8.Valid(data) {
		n := 0
		for n < len(data) {
			r, size := utf8.DecodeRune(data[n:])
			if r == utf8.RuneError && size == 1 {
				break
			}
			n += size
		}
		faults.fail("syntax", before+1+bytes.Count(data[:n], []byte{'\n'}), "", "not YAML: the text is not UTF-8; convert the file to UTF-8")
		return y, nil
	}
	if bytes.Contains(data, []byte("\r\n")) { // the parser takes block scalars amiss with them
		data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	}
	file, err := safeParse(data)
	if err != nil {
		line, message := 0, err.Error()
		if e, ok := err.(yaml.Error); ok {
			if tok := e.GetToken(); tok != nil && tok.Position != nil {
				line = before + tok.Position.Line
			}
			message = e.GetMessage()
		}
		faults.fail("syntax", line, "", "not YAML: %s", message)
		return y, nil
	}
	for _, d := range file.Docs {
		if d.Body == nil {
			continue
		}
		if root != nil {
			faults.warn("documents", y.line(d.Body), "", "more than one YAML document: the first counts")
			break
		}
		root = d.Body
	}
	if root == nil {
		faults.fail("empty", before+1, "", "there is nothing in it")
		return y, nil
	}
	ast.Walk(visitor(func(n ast.Node) {
		if a, ok := n.(*ast.AnchorNode); ok && a.Name != nil {
			y.anchors[a.Name.String()] = a.Value
		}
	}), root)
	return y, root
}

type visitor func(ast.Node)

func (v visitor) Visit(n ast.Node) ast.Visitor { v(n); return v }

// value looks through anchors, aliases and tags; nil is null.
func (y *yamlDoc) value(n ast.Node) ast.Node {
	for range 100 {
		switch v := n.(type) {
		case *ast.AnchorNode:
			n = v.Value
		case *ast.AliasNode:
			if y.aliases++; y.aliases > maxAliases || v.Value == nil {
				y.faults.fail("aliases", y.line(n), "", "more than %d uses of aliases", maxAliases)
				return nil
			}
			to, ok := y.anchors[v.Value.String()]
			if !ok {
				y.faults.fail("syntax", y.line(n), "", "alias *%s has no anchor", v.Value.String())
				return nil
			}
			n = to
		case *ast.TagNode:
			n = v.Value
		case *ast.NullNode:
			return nil
		default:
			return n
		}
	}
	return nil
}

func (y *yamlDoc) line(n ast.Node) int {
	if n == nil {
		return 0
	}
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 { // its own token is a colon or a brace
		if t := m.Values[0].Key.GetToken(); t != nil && t.Position != nil {
			return y.before + t.Position.Line
		}
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		return y.before + t.Position.Line
	}
	return 0
}

// mapping calls f with each key and value in order and reports whether n is a mapping; null is an empty one.
func (y *yamlDoc) mapping(n ast.Node, what string, f func(key string, v ast.Node)) bool {
	v := y.value(n)
	if v == nil {
		return true
	}
	m, ok := v.(ast.MapNode)
	if !ok {
		y.faults.fail("wrong-type", y.line(v), "", "%s should be a mapping of keys to values", what)
		return false
	}
	for it := m.MapRange(); it.Next(); {
		if k := it.Key(); k.IsMergeKey() {
			y.mapping(it.Value(), "what << merges", f)
		} else {
			f(y.text(k), it.Value())
		}
	}
	return true
}

// sequence calls f with each element; null is an empty sequence.
func (y *yamlDoc) sequence(n ast.Node, what string, f func(v ast.Node)) {
	v := y.value(n)
	if v == nil {
		return
	}
	s, ok := v.(*ast.SequenceNode)
	if !ok {
		y.faults.fail("wrong-type", y.line(v), "", "%s should be a list", what)
		return
	}
	for _, e := range s.Values {
		f(e)
	}
}

// text is a scalar as text; null is "".
func (y *yamlDoc) text(n ast.Node) string { return y.literal(n) }

// literal is a scalar as it is written, so that 5.0 stays "5.0"; null is "".
func (y *yamlDoc) literal(n ast.Node) string {
	switch v := y.value(n).(type) {
	case nil:
		return ""
	case *ast.StringNode:
		return v.Value
	case *ast.LiteralNode:
		return v.Value.Value
	case *ast.MappingNode, *ast.MappingValueNode, *ast.SequenceNode:
		y.faults.fail("wrong-type", y.line(v), "", "a text or number should be here")
		return ""
	default:
		return strings.TrimSpace(v.GetToken().Value)
	}
}

var errYAML = fmt.Errorf("its structure makes no sense")
