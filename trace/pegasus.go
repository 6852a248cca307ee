package trace

import (
	"bytes"
	"cmp"
	"strings"

	"gantry/trace/reader"
)

// pegasusReader reads Pegasus 5 workflows.
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
	own := &catalogReader{b, b.cat.own, p.y}
	p.y.Mapping(root, "the workflow", func(key string, v *reader.Node) {
		switch key {
		case "pegasus":
			b.wf.Version = p.y.Text(v)
		case "name":
			b.wf.Name = p.y.Text(v)
		case "jobs":
			if jobs = v; p.y.IsList(v) {
				b.line = p.y.Line(v)
			}
		case "jobDependencies":
			edges, p.related = v, true
		case "transformationCatalog":
			own.transformations(v)
		case "replicaCatalog":
			own.replicas(v)
		case "siteCatalog":
			own.siteCatalog(v)
		case "profiles":
			own.addProfiles(&p.shared, v)
		case "hooks":
			b.noEffect("hooks of the workflow")
		}
	})
	p.y.Sequence(jobs, "jobs", p.job)
	p.y.Sequence(edges, "jobDependencies", func(v *reader.Node) {
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
	at := int32(len(b.wf.Tasks) - 1)
	b.usesPrograms(at, programs)
	b.program(at, transformation{text("namespace"), text("name"), text("version")}, strings.Join(words, " "), own,
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
	b, y := p.b, p.y
	var name, kind, stageOut string
	var size *reader.Node
	optional, executable := false, false
	if !y.Mapping(v, "a use", func(key string, v *reader.Node) {
		switch key {
		case "lfn":
			name = y.Text(v)
		case "type":
			kind = y.Text(v)
		case "size":
			size = v
		case "stageOut":
			stageOut = y.Text(v)
		case "optional":
			optional = y.Text(v) == "true"
		case "executable":
			executable = y.Text(v) == "true"
		case "namespace":
			program.namespace = y.Text(v)
		case "version":
			program.version = y.Text(v)
		case "metadata":
			y.Mapping(v, "metadata", func(key string, v *reader.Node) {
				if key == "size" && size == nil {
					size = v
				}
			})
		}
	}) {
		return program, false
	}
	id := b.wf.Tasks[len(b.wf.Tasks)-1].ID
	if name == "" {
		b.faults.Warn("unnamed-file", y.Line(v), id, "task %s has a use without lfn: ignored", id)
		return program, false
	}
	if executable {
		program.name = name
		return program, true
	}
	if f, out := b.use(b.number(name), kind, stageOut, optional, y.Line(v)); f >= 0 && size != nil {
		b.size(f, y.Text(size), out, y.Line(size))
	}
	return program, false
}
