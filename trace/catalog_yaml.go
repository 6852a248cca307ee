package trace

import (
	"slices"
	"strings"

	"gantry/trace/reader"
)

// catalogReader reads the catalogs of Pegasus 5, of a file of their own or within a workflow.
type catalogReader struct {
	b *builder
	c *catalog
	y *reader.YAML
}

func (r *catalogReader) fail(v *reader.Node, rule, format string, args ...any) {
	r.b.catalogFault(r.c, r.y.Line(v), rule, format, args...)
}

// unknown refuses the key at hand, which the schema does not have; x- begins extensions.
func (r *catalogReader) unknown(what, key string) {
	if !strings.HasPrefix(key, "x-") {
		r.b.catalogFault(r.c, r.y.KeyLine, "unknown-key", "%s has the key %q, which the schema of Pegasus does not "+
			"have", what, key)
	}
}

func (r *catalogReader) truth(v *reader.Node) bool {
	return slices.Contains([]string{"true", "yes", "on"}, strings.ToLower(r.y.Text(v)))
}

type fields = reader.Fields

// fields reads a mapping by a table of its keys, and refuses others.
func (r *catalogReader) fields(v *reader.Node, what string, known fields) bool {
	return r.y.Fields(v, what, known, func(key string) { r.unknown(what, key) })
}

func (r *catalogReader) text(to *string) func(*reader.Node) {
	return func(v *reader.Node) { *to = r.y.Text(v) }
}

func (r *catalogReader) list(key string, each func(*reader.Node)) func(*reader.Node) {
	return func(v *reader.Node) { r.y.Sequence(v, key, each) }
}

func (r *catalogReader) checksum(to *string) func(*reader.Node) {
	return func(v *reader.Node) {
		r.y.Mapping(v, "checksum", func(key string, v *reader.Node) {
			*to = r.b.checksum(r.c, r.y.Line(v), key, r.y.Text(v))
		})
	}
}

func (r *catalogReader) profiles(to *profiles) func(*reader.Node) {
	return func(v *reader.Node) { r.addProfiles(to, v) }
}

// replicas reads a replica catalog.
func (r *catalogReader) replicas(v *reader.Node) {
	r.fields(v, "the replica catalog", fields{"replicas": r.list("replicas", r.replica), "pegasus": nil})
}

func (r *catalogReader) replica(v *reader.Node) {
	var lfn, size string
	var sizeAt *reader.Node
	var is replica
	regex, named, located := false, false, false
	pfn := func(v *reader.Node) {
		var pfn string
		r.fields(v, "a pfn", fields{"pfn": r.text(&pfn), "site": nil})
		if pfn == "" {
			r.fail(v, "bad-replica", "replica %s has a pfn without an address or path", lfn)
			return
		}
		is.pfns = append(is.pfns, pfn)
	}
	if !r.fields(v, "a replica", fields{
		"lfn":      func(v *reader.Node) { lfn, named = r.y.Text(v), true },
		"pfns":     func(v *reader.Node) { located = true; r.y.Sequence(v, "pfns", pfn) },
		"regex":    func(v *reader.Node) { regex = r.truth(v) },
		"checksum": r.checksum(&is.sha256),
		"metadata": func(v *reader.Node) {
			r.y.Fields(v, "metadata", fields{"size": func(v *reader.Node) { size, sizeAt = r.y.Text(v), v }}, nil)
		},
	}) {
		return
	}
	line := r.y.Line(v)
	r.b.keep(fileKept + 64*len(is.pfns))
	switch {
	case !named || lfn == "":
		r.fail(v, "bad-replica", "a replica without lfn: name the file")
	case !located:
		r.fail(v, "bad-replica", "replica %s has no pfns: say where the file is", lfn)
	case regex:
		r.b.addPattern(r.c, line, lfn, is)
	default:
		r.b.addReplica(r.c, lfn, is)
	}
	if sizeAt != nil && !regex {
		r.b.catalogue(lfn, size, r.y.Line(sizeAt))
	}
}

// transformations reads a transformation catalog, containers among it.
func (r *catalogReader) transformations(v *reader.Node) {
	r.fields(v, "the transformation catalog", fields{"containers": r.list("containers", r.container),
		"transformations": r.list("transformations", r.transformation), "pegasus": nil})
}

func (r *catalogReader) container(v *reader.Node) {
	x := &container{Container: Container{Line: r.y.Line(v)}}
	var image string
	if !r.fields(v, "a container", fields{
		"name":     r.text(&x.Name),
		"type":     r.text(&x.kind),
		"image":    func(v *reader.Node) { image = r.b.environment(r.c, r.y.Text(v)) },
		"mounts":   r.list("mounts", func(v *reader.Node) { x.Mounts = append(x.Mounts, r.y.Text(v)) }),
		"checksum": r.checksum(&x.SHA256),
		"profiles": r.profiles(&x.profiles), "image.site": nil, "bypass": nil, "metadata": nil,
	}) {
		return
	}
	r.b.keep(executableKept)
	switch {
	case x.Name == "":
		r.fail(v, "bad-container", "a container without a name")
	case image == "":
		r.fail(v, "bad-container", "container %s has no image", x.Name)
	default:
		r.b.addContainer(r.c, x, image)
	}
}

func (r *catalogReader) transformation(v *reader.Node) {
	var t transformation
	x := &executable{from: r.c, line: r.y.Line(v)}
	everywhere := "" // a container beside the sites, which is not in the schema
	if !r.fields(v, "a transformation", fields{
		"namespace": r.text(&t.namespace), "name": r.text(&t.name), "version": r.text(&t.version),
		"profiles": r.profiles(&x.profiles), "checksum": r.checksum(&x.sha256), "container": r.text(&everywhere),
		"requires": r.list("requires", func(v *reader.Node) {
			x.requires = append(x.requires, parseTransformation(r.y.Text(v)))
		}),
		"sites":    r.list("sites", func(v *reader.Node) { r.site(x, v) }),
		"hooks":    func(*reader.Node) { r.b.noEffect("hooks of transformations") },
		"metadata": nil,
	}) {
		return
	}
	for i := range x.sites {
		if x.sites[i].container == "" {
			x.sites[i].container = everywhere
		}
	}
	r.b.addExecutable(r.c, t, x)
}

// site reads where a transformation is on one site.
func (r *catalogReader) site(x *executable, v *reader.Node) {
	var at location
	var kind string
	if !r.fields(v, "a site of a transformation", fields{
		"name":      r.text(&at.site),
		"pfn":       func(v *reader.Node) { at.pfn = strings.TrimSpace(r.y.Text(v)) },
		"type":      r.text(&kind),
		"container": r.text(&at.container),
		"profiles":  r.profiles(&at.profiles),
		"arch":      nil, "os.type": nil, "os.release": nil, "os.version": nil, "metadata": nil, "bypass": nil,
	}) {
		return
	}
	switch kind {
	case "installed", "":
	case "stageable":
		at.stageable = true
	default:
		r.fail(v, "bad-transformation", "a transformation is installed or stageable, and not %q", kind)
	}
	if at.pfn == "" {
		r.fail(v, "bad-transformation", "a site of a transformation without pfn: say where the program is")
		return
	}
	x.sites = append(x.sites, at)
}

// siteCatalog reads a site catalog, of which only the profiles have an effect on one host.
func (r *catalogReader) siteCatalog(v *reader.Node) {
	site := func(v *reader.Node) {
		var name string
		var given profiles
		r.fields(v, "a site", fields{"name": r.text(&name), "profiles": r.profiles(&given), "directories": nil,
			"grids": nil, "arch": nil, "os.type": nil, "os.release": nil, "os.version": nil})
		if name == "" {
			r.fail(v, "bad-site", "a site without a name")
			return
		}
		r.c.sites[name] = append(r.c.sites[name], given...)
	}
	r.fields(v, "the site catalog", fields{"sites": r.list("sites", site), "pegasus": nil,
		"$ref": func(v *reader.Node) {
			r.b.obstacle(r.y.Line(v), "", "siteCatalog refers to %s: name that file with --catalog", r.y.Text(v))
		}})
}

// addProfiles reads a mapping of name spaces to keys and values.
func (r *catalogReader) addProfiles(to *profiles, v *reader.Node) {
	line := 0
	r.y.Mapping(v, "profiles", func(ns string, v *reader.Node) {
		if strings.HasPrefix(ns, "x-") {
			return
		}
		r.y.Mapping(v, "profiles of "+ns, func(key string, v *reader.Node) {
			if r.c.source == "" {
				line = r.y.Line(v)
			}
			to.add(r.b, profile{namespace: strings.ToLower(ns), key: key, line: line,
				value: r.b.environment(r.c, r.y.Text(v))})
		})
	})
}
