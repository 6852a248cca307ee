package trace

import (
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
	switch strings.ToLower(r.y.Text(v)) {
	case "true", "yes", "on":
		return true
	}
	return false
}

// replicas reads a replica catalog.
func (r *catalogReader) replicas(v *reader.Node) {
	r.lists(v, "the replica catalog", map[string]func(*reader.Node){"replicas": r.replica})
}

// lists reads a catalog, which consists of lists.
func (r *catalogReader) lists(v *reader.Node, what string, read map[string]func(*reader.Node)) {
	r.y.Mapping(v, what, func(key string, v *reader.Node) {
		if f := read[key]; f != nil {
			r.y.Sequence(v, key, f)
		} else if key != "pegasus" {
			r.unknown(what, key)
		}
	})
}

func (r *catalogReader) replica(v *reader.Node) {
	var lfn, size string
	var sizeAt *reader.Node
	var is replica
	regex, named, located := false, false, false
	if !r.y.Mapping(v, "a replica", func(key string, v *reader.Node) {
		switch key {
		case "lfn":
			lfn, named = r.y.Text(v), true
		case "pfns":
			located = true
			r.y.Sequence(v, key, func(v *reader.Node) {
				var pfn string
				r.y.Mapping(v, "a pfn", func(key string, v *reader.Node) {
					switch key {
					case "pfn":
						pfn = r.y.Text(v)
					case "site":
					default:
						r.unknown("a pfn", key)
					}
				})
				if pfn == "" {
					r.fail(v, "bad-replica", "replica %s has a pfn without an address or path", lfn)
					return
				}
				is.pfns = append(is.pfns, pfn)
			})
		case "regex":
			regex = r.truth(v)
		case "checksum":
			is.sha256 = r.checksum(v)
		case "metadata":
			r.y.Mapping(v, "metadata", func(key string, v *reader.Node) {
				if key == "size" {
					size, sizeAt = r.y.Text(v), v
				}
			})
		default:
			r.unknown("a replica", key)
		}
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

func (r *catalogReader) checksum(v *reader.Node) (sum string) {
	r.y.Mapping(v, "checksum", func(key string, v *reader.Node) {
		sum = r.b.checksum(r.c, r.y.Line(v), key, r.y.Text(v))
	})
	return sum
}

// transformations reads a transformation catalog, containers among it.
func (r *catalogReader) transformations(v *reader.Node) {
	r.lists(v, "the transformation catalog", map[string]func(*reader.Node){"containers": r.container,
		"transformations": r.transformation})
}

func (r *catalogReader) container(v *reader.Node) {
	x := &container{Container: Container{Line: r.y.Line(v)}}
	var image string
	if !r.y.Mapping(v, "a container", func(key string, v *reader.Node) {
		switch key {
		case "name":
			x.Name = r.y.Text(v)
		case "type":
			x.kind = r.y.Text(v)
		case "image":
			image = r.b.environment(r.c, r.y.Text(v))
		case "mounts":
			r.y.Sequence(v, key, func(v *reader.Node) { x.Mounts = append(x.Mounts, r.y.Text(v)) })
		case "checksum":
			x.SHA256 = r.checksum(v)
		case "profiles":
			r.profiles(&x.profiles, v)
		case "image.site", "bypass", "metadata":
		default:
			r.unknown("a container", key)
		}
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
	if !r.y.Mapping(v, "a transformation", func(key string, v *reader.Node) {
		switch key {
		case "namespace":
			t.namespace = r.y.Text(v)
		case "name":
			t.name = r.y.Text(v)
		case "version":
			t.version = r.y.Text(v)
		case "profiles":
			r.profiles(&x.profiles, v)
		case "requires":
			r.y.Sequence(v, key, func(v *reader.Node) {
				x.requires = append(x.requires, parseTransformation(r.y.Text(v)))
			})
		case "checksum":
			x.sha256 = r.checksum(v)
		case "container":
			everywhere = r.y.Text(v)
		case "sites":
			r.y.Sequence(v, key, func(v *reader.Node) { r.site(x, v) })
		case "hooks":
			r.b.noEffect("hooks of transformations")
		case "metadata":
		default:
			r.unknown("a transformation", key)
		}
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
	if !r.y.Mapping(v, "a site of a transformation", func(key string, v *reader.Node) {
		switch key {
		case "name":
			at.site = r.y.Text(v)
		case "pfn":
			at.pfn = strings.TrimSpace(r.y.Text(v))
		case "type":
			kind = r.y.Text(v)
		case "container":
			at.container = r.y.Text(v)
		case "profiles":
			r.profiles(&at.profiles, v)
		case "arch", "os.type", "os.release", "os.version", "metadata", "bypass":
		default:
			r.unknown("a site of a transformation", key)
		}
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
	r.y.Mapping(v, "the site catalog", func(key string, v *reader.Node) {
		switch key {
		case "sites":
			r.y.Sequence(v, key, func(v *reader.Node) {
				var name string
				var given profiles
				r.y.Mapping(v, "a site", func(key string, v *reader.Node) {
					switch key {
					case "name":
						name = r.y.Text(v)
					case "profiles":
						r.profiles(&given, v)
					case "directories", "grids", "arch", "os.type", "os.release", "os.version":
					default:
						r.unknown("a site", key)
					}
				})
				if name == "" {
					r.fail(v, "bad-site", "a site without a name")
					return
				}
				r.c.sites[name] = append(r.c.sites[name], given...)
			})
		case "pegasus":
		case "$ref":
			r.b.obstacle(r.y.Line(v), "", "siteCatalog refers to %s: name that file with --catalog", r.y.Text(v))
		default:
			r.unknown("the site catalog", key)
		}
	})
}

// profiles reads a mapping of name spaces to keys and values.
func (r *catalogReader) profiles(to *profiles, v *reader.Node) {
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
				value: r.b.environment(r.c, strings.TrimSpace(r.y.Text(v)))})
		})
	})
}
