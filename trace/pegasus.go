package trace

import (
	"bytes"
	"cmp"
	"strings"

	"gantry/trace/reader"
)

type pegasusReader struct {
	b      *builder
	y      *reader.YAML
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
	y, root := reader.ParseYAML(data, &b.faults)
	if root == nil {
		return
	}
	b.openCatalogs()
	p := &pegasusReader{b: b, y: y}
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
	var jobs, edges *reader.Node
	r := &catalogReader{b, b.cat.own, p.y}
	p.y.Fields(root, "the workflow", fields{"pegasus": r.text(&b.wf.Version), "name": r.text(&b.wf.Name),
		"jobs": func(v *reader.Node) {
			if jobs = v; p.y.IsList(v) {
				b.line = p.y.Line(v)
			}
		},
		"jobDependencies":       func(v *reader.Node) { edges, p.related = v, true },
		"transformationCatalog": r.transformations, "replicaCatalog": r.replicas, "siteCatalog": r.siteCatalog,
		"profiles": r.profiles(&p.shared),
		"hooks":    func(*reader.Node) { b.noEffect("hooks of the workflow") },
	}, nil)
	p.y.Sequence(jobs, "jobs", p.job)
	p.y.Sequence(edges, "jobDependencies", func(v *reader.Node) {
		var id string
		var children []*reader.Node
		p.y.Fields(v, "a dependency", fields{"id": r.text(&id), "children": r.list("children", func(c *reader.Node) {
			children = append(children, c)
		})}, nil)
		p.barren = len(children) == 0
		for _, c := range children {
			b.depends(id, p.y.Text(c), p.y.Line(c))
			p.full(p.y.Line(c))
		}
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
	var programs []transformation
	y.Sequence(fields["uses"], "uses", func(v *reader.Node) {
		if t, ok := p.uses(v); ok {
			programs = append(programs, t)
		}
	})
	b.redirections()
	if fields["hooks"] != nil {
		b.noEffect("hooks of jobs")
	}
	var own profiles
	(&catalogReader{b, b.cat.own, y}).addProfiles(&own, fields["profiles"])
	b.usesPrograms(t, programs)
	b.program(t, transformation{text("namespace"), text("name"), text("version")}, strings.Join(words, " "), own,
		p.shared)
	p.full(line)
}

// full ends the reading where the workflow takes too much memory.
func (p *pegasusReader) full(line int) {
	if p.b.full(line) {
		p.y.Stop()
	}
}

// uses reads a file of a job. One that is a program is returned by the name of its transformation.
func (p *pegasusReader) uses(v *reader.Node) (program transformation, ok bool) {
	b, y, r := p.b, p.y, catalogReader{p.b, p.b.cat.own, p.y}
	var kind, stageOut, optional, executable string
	var size, sized *reader.Node // sized: in the metadata
	if !y.Fields(v, "a use", reader.Fields{"lfn": r.text(&program.name), "namespace": r.text(&program.namespace),
		"version": r.text(&program.version), "type": r.text(&kind), "stageOut": r.text(&stageOut),
		"optional": r.text(&optional), "executable": r.text(&executable),
		"size": func(v *reader.Node) { size = v },
		"metadata": func(v *reader.Node) {
			y.Fields(v, "metadata", reader.Fields{"size": func(v *reader.Node) { sized = v }}, nil)
		},
	}, nil) {
		return program, false
	}
	if size = cmp.Or(size, sized); program.name == "" {
		b.faults.Warn("unnamed-file", y.Line(v), b.lastID(), "task %s has a use without lfn: ignored", b.lastID())
		return program, false
	}
	if executable == "true" {
		return program, true
	}
	if f, out := b.use(b.number(program.name), kind, stageOut, optional == "true", y.Line(v)); f >= 0 && size != nil {
		b.size(f, y.Text(size), out, y.Line(size))
	}
	return program, false
}
