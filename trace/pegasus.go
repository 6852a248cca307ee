package trace

import (
	"bytes"
	"cmp"
	"strings"

	"gantry/reader"
)

// pegasusReader reads Pegasus 5 workflows.
type pegasusReader struct {
	b      *builder
	y      *reader.YAML
	exe    map[transformation]*executable
	shared profiles
	// related: there are jobDependencies; barren: the last of them has no children.
	related, barren bool
}

// readPegasus reads a Pegasus 5 workflow, YAML or the same in JSON. The command of a task is its executable (the first
// file:// or absolute pfn among the sites of its transformation, else the logical name) and its arguments, joined by
// blanks and split into words as a shell would. Its image is that of the Docker container which the transformation
// names, or its profile pegasus:container.image.
func (b *builder) readPegasus() {
	data, err := b.in.All()
	if err != nil {
		b.faults.Damage(err, 1)
		return
	}
	y, root := reader.ParseYAML(data, &b.faults, "jobs", "jobDependencies")
	if root == nil {
		return
	}
	p := &pegasusReader{b: b, y: y, exe: map[transformation]*executable{}}
	p.document(root)
	p.cutOff(data)
}

// cutOff looks for the signs of a truncated file, as most beginnings of a YAML document are documents themselves:
// Pegasus ends the last line, and writes the dependencies after the jobs.
func (p *pegasusReader) cutOff(data []byte) {
	if len(data) == 0 || bytes.IndexByte([]byte("\r\n}]"), data[len(data)-1]) >= 0 {
		return
	}
	lines := bytes.Split(data, []byte{'\n'})
	inside := bytes.IndexByte([]byte(" -"), append(lines[len(lines)-1], ' ')[0]) >= 0
	if inside && !p.related || p.barren {
		p.b.faults.Judge(p.b.opt.Repair, "truncated", len(lines), "", "taken as whole",
			"the file ends within a line, and jobDependencies are missing or incomplete: "+
				"get it again, or end its last line if it is whole")
		return
	}
	p.b.faults.Warn("no-line-end", len(lines), "", "the last line has no end, as if the file was cut off: taken as "+
		"whole")
}

func (p *pegasusReader) document(root *reader.Node) {
	b := p.b
	var jobs, edges, catalogue *reader.Node
	p.y.Mapping(root, "the workflow", func(key string, v *reader.Node) {
		switch key {
		case "pegasus":
			b.wf.Version = p.y.Text(v)
		case "name":
			b.wf.Name = p.y.Text(v)
		case "jobs":
			jobs, b.line = v, p.y.Line(v)
		case "jobDependencies":
			edges, p.related = v, true
		case "transformationCatalog":
			catalogue = v
		case "replicaCatalog":
			p.y.Mapping(v, key, func(key string, v *reader.Node) {
				if key == "replicas" {
					p.y.Sequence(v, key, p.replica)
				}
			})
		case "profiles":
			p.profiles(&p.shared, v, inherited-1)
		}
	})
	if catalogue != nil {
		p.catalogue(catalogue)
	}
	b.wf.Tasks = make([]Task, 0, p.y.Items["jobs"]+1)
	p.y.List("jobs", jobs, p.job)
	p.y.List("jobDependencies", edges, func(v *reader.Node) {
		var id string
		var children []*reader.Node
		p.y.Mapping(v, "a dependency", func(key string, v *reader.Node) {
			switch key {
			case "id":
				id = p.y.Text(v)
			case "children":
				p.y.Sequence(v, "children", func(c *reader.Node) { children = append(children, c) })
			}
		})
		p.barren = len(children) == 0
		for _, c := range children {
			b.depends(id, p.y.Text(c), p.y.Line(c))
			p.full(p.y.Line(c))
		}
	})
}

// replica takes the size of a file from outside.
func (p *pegasusReader) replica(v *reader.Node) {
	var name string
	var size *reader.Node
	p.y.Mapping(v, "a replica", func(key string, v *reader.Node) {
		switch key {
		case "lfn":
			name = p.y.Text(v)
		case "metadata":
			p.y.Mapping(v, "metadata", func(key string, v *reader.Node) {
				if key == "size" {
					size = v
				}
			})
		}
	})
	if size != nil {
		p.b.catalogue(name, p.y.Text(size), p.y.Line(size))
	}
}

// catalogue reads transformations and containers.
func (p *pegasusReader) catalogue(v *reader.Node) {
	image := map[string]string{}
	var wants []struct {
		x         *executable
		container string
	}
	p.y.Mapping(v, "transformationCatalog", func(key string, v *reader.Node) {
		switch key {
		case "containers":
			p.y.Sequence(v, "containers", func(v *reader.Node) {
				var name, kind, address string
				p.y.Mapping(v, "a container", func(key string, v *reader.Node) {
					switch key {
					case "name":
						name = p.y.Text(v)
					case "type":
						kind = p.y.Text(v)
					case "image":
						address = p.y.Text(v)
					}
				})
				if kind == "" || kind == "docker" || strings.HasPrefix(address, "docker:") {
					image[name] = address
				}
			})
		case "transformations":
			p.y.Sequence(v, "transformations", func(v *reader.Node) {
				var t transformation
				x, container := &executable{}, ""
				p.y.Mapping(v, "a transformation", func(key string, v *reader.Node) {
					switch key {
					case "namespace":
						t.namespace = p.y.Text(v)
					case "name":
						t.name = p.y.Text(v)
					case "version":
						t.version = p.y.Text(v)
					case "profiles":
						p.profiles(&x.profiles, v, inherited)
					case "container":
						container = p.y.Text(v)
					case "sites":
						p.y.Sequence(v, "sites", func(v *reader.Node) {
							p.y.Mapping(v, "a site", func(key string, v *reader.Node) {
								switch key {
								case "pfn":
									if path, ok := filePath(p.y.Text(v)); ok && x.path == "" {
										x.path = path
									}
								case "container":
									container = cmp.Or(container, p.y.Text(v))
								case "profiles":
									p.profiles(&x.profiles, v, inherited)
								}
							})
						})
					}
				})
				p.b.keep(executableKept)
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
func (p *pegasusReader) profiles(to *profiles, v *reader.Node, rank int) {
	p.y.Mapping(v, "profiles", func(ns string, v *reader.Node) {
		p.y.Mapping(v, "profiles of "+ns, func(key string, v *reader.Node) {
			to.add(p.b, profile{strings.ToLower(ns), key, strings.TrimSpace(p.y.Text(v)), p.y.Line(v), rank})
		})
	})
}

func (p *pegasusReader) job(v *reader.Node) {
	b, y := p.b, p.y
	fields := map[string]*reader.Node{}
	if !y.Mapping(v, "a job", func(key string, v *reader.Node) { fields[key] = v }) {
		return
	}
	text := func(key string) string { return y.Text(fields[key]) }
	line := y.Line(v)
	if n := fields["id"]; n != nil {
		line = y.Line(n)
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
		b.faults.Warn("unknown-job-type", line, t.ID, "task %s has type %q: taken as a job", t.ID, kind)
		t.Kind = cmp.Or(text("name"), kind)
	}
	t.Kind = b.same(cmp.Or(t.Kind, text("file"), "job"))
	t.Name = b.same(cmp.Or(text("name"), text("nodeLabel"), text("file"), t.Kind))
	t.Stdin, t.Stdout, t.Stderr = text("stdin"), text("stdout"), text("stderr")
	var words []string
	y.Sequence(fields["arguments"], "arguments", func(v *reader.Node) { words = append(words, y.Text(v)) })
	y.Sequence(fields["uses"], "uses", p.uses)
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
	var own profiles
	p.profiles(&own, fields["profiles"], asked)
	b.applyProfiles(t, append(given, own...))
	if name != "" && (len(words) > 0 || x != nil && x.path != "") {
		t.Command = append([]string{name}, b.words(line, t.ID, strings.Join(words, " "))...)
		t.Known |= Command
	}
	p.full(line)
}

// full ends the reading where the workflow takes too much memory.
func (p *pegasusReader) full(line int) {
	if p.b.full(line) {
		p.y.Stop()
	}
}

func (p *pegasusReader) uses(v *reader.Node) {
	b, y := p.b, p.y
	var name, kind string
	var size *reader.Node
	if !y.Mapping(v, "a use", func(key string, v *reader.Node) {
		switch key {
		case "lfn":
			name = y.Text(v)
		case "type":
			kind = y.Text(v)
		case "size":
			size = v
		case "metadata":
			y.Mapping(v, "metadata", func(key string, v *reader.Node) {
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
		b.faults.Warn("unnamed-file", y.Line(v), id, "task %s has a use without lfn: ignored", id)
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
		b.size(f, y.Text(size), out, y.Line(size))
	}
}
