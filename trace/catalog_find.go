package trace

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gantry/trace/reader"
	"gantry/trace/shown"
)

// maxCatalog bounds a catalog, in bytes.
const maxCatalog = 64 << 20

// oldReplicas is the name of a replica catalog of Pegasus 4.
const oldReplicas = "rc.txt"

// openCatalogs reads the catalogs of a workflow that are not in its file: the catalogs given by --catalog, those that
// properties name, and else those of the usual names beside the workflow or in the working directory. Named catalogs
// count before the workflow's own catalogs, the others after.
func (b *builder) openCatalogs() {
	own := newCatalog("", b.wf.Source)
	b.cat.own, b.cat.site = own, b.opt.Site
	has := map[string]bool{}
	for _, path := range b.opt.Catalogs {
		b.openCatalog(path, true, has)
	}
	b.cat.all = append(b.cat.all, own)
	if !b.opt.near && b.wf.Source != "-" {
		return
	}
	if !has["properties"] {
		if path, ok := b.near("pegasus.properties"); ok {
			b.openCatalog(path, false, has)
		}
	}
	// These are the names in which Pegasus 5 and 4 look unless told otherwise.
	for _, names := range [][2]string{{"replicas.yml", oldReplicas}, {"transformations.yml", "tc.txt"},
		{"sites.yml", "sites.xml"}} {
		kind := strings.TrimSuffix(names[0], ".yml")
		for _, name := range names {
			if path, ok := b.near(name); ok && !has[kind] {
				b.openCatalog(path, false, has)
				has[kind] = true
			}
		}
	}
}

// near finds a file beside the workflow, or in the working directory.
func (b *builder) near(name string) (path string, ok bool) {
	for _, dir := range []string{filepath.Dir(b.wf.Source), "."} {
		path = filepath.Join(dir, name)
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() && path != b.wf.Source {
			return path, true
		}
	}
	return "", false
}

// openCatalog reads a catalog or, unless has is nil, properties, which may name catalogs. It distinguishes them by
// content, and notes the kind of the file.
func (b *builder) openCatalog(path string, first bool, has map[string]bool) {
	c, data := b.catalogFile(path)
	if c == nil {
		return
	}
	keys, properties := map[string]bool{}, strings.HasSuffix(path, ".properties")
	if !properties {
		keys = reader.Keys(data, true)
	}
	take := func(read func(c *catalog, data []byte), kinds ...string) {
		for _, kind := range kinds {
			if has != nil {
				has[kind] = true
			}
		}
		b.cat.all = append(b.cat.all, c)
		read(c, data)
	}
	switch {
	case keys["replicas"], keys["transformations"], keys["sites"]:
		take(b.parseCatalog, slices.DeleteFunc([]string{"replicas", "transformations", "sites"},
			func(kind string) bool { return !keys[kind] })...)
	case !properties && converted(data) != "" && has != nil && !first: // it only lies there
		b.faults.Warn("catalog", 0, "", "%s is not read: %s", path, converted(data))
	case !properties && converted(data) != "":
		b.catalogFault(c, 1, "catalog", "%s", converted(data))
	case !properties && (filepath.Base(path) == oldReplicas ||
		textReplica.Match(data) && !propertyLine.Match(data)):
		take(b.textReplicas, "replicas")
	case has == nil, strings.HasSuffix(path, ".yml"), strings.HasSuffix(path, ".yaml"):
		var faults reader.Faults
		if _, root := reader.ParseYAML(data, &faults); root != nil && !faults.HasErrors() {
			b.faults.Fail("catalog", 0, "", "catalog %s has none of the keys replicas, transformations and sites", path)
		}
		b.absorb(c, &faults)
	default:
		has["properties"] = true
		b.properties(c, data, first, has)
	}
}

// catalogFile is a new catalog with the text of its file; nil if that cannot be read.
func (b *builder) catalogFile(path string) (*catalog, []byte) {
	data, err := b.readCatalog(path)
	if err != nil {
		b.faults.Fail("catalog", 0, "", "catalog %s: %v", path, err)
		return nil, nil
	}
	b.wf.Catalogs = append(b.wf.Catalogs, path)
	return newCatalog(path, path), data
}

func (b *builder) readCatalog(path string) (data []byte, err error) {
	defer func() { b.in.Beside(len(data)) }()
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("there is no such file")
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && !st.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	data, err = io.ReadAll(io.LimitReader(f, maxCatalog+1))
	if err == nil && len(data) > maxCatalog {
		err = fmt.Errorf("it has more than %s", shown.Size(maxCatalog))
	}
	return data, err
}

// parseCatalog reads a YAML file with one or several catalogs.
func (b *builder) parseCatalog(c *catalog, data []byte) {
	var faults reader.Faults
	y, root := reader.ParseYAML(data, &faults)
	if root != nil {
		r := &catalogReader{b, c, y}
		var replicas, transformations *reader.Node
		y.Mapping(root, "the catalog", func(key string, v *reader.Node) {
			switch key {
			case "replicas":
				replicas = v
			case "transformations":
				transformations = v
			case "containers":
				y.Sequence(v, key, r.container)
			case "sites":
				r.siteCatalog(root)
			case "pegasus":
			default:
				r.unknown("the catalog", key)
			}
		})
		y.Sequence(replicas, "replicas", r.replica)
		y.Sequence(transformations, "transformations", r.transformation)
	}
	b.absorb(c, &faults)
}

// absorb reports the faults of another file.
func (b *builder) absorb(c *catalog, faults *reader.Faults) {
	for _, f := range faults.Sorted() {
		if f.Severity == Error {
			b.faults.Fail(cmp.Or(map[string]string{"bound": "bound"}[f.Rule], "catalog"), 0, "", "%s:%d: %s", c.source,
				f.Line, f.Message)
		} else {
			b.faults.Warn("catalog", 0, "", "%s:%d: %s", c.source, f.Line, f.Message)
		}
	}
}

// properties reads a properties file: profiles of all jobs, and where catalogs are.
func (b *builder) properties(c *catalog, data []byte, first bool, has map[string]bool) {
	given := b.parseProperties(c, data)
	values := map[string]string{}
	for _, p := range given {
		values[p.key] = b.environment(c, p.value)
	}
	for _, p := range given {
		ns, key, ok := strings.Cut(p.key, ".")
		value := values[p.key]
		switch {
		case strings.HasPrefix(p.key, "pegasus.catalog."):
			if !catalogKey.MatchString(p.key) {
				b.noEffect("property " + p.key)
			}
		case !ok || !slices.Contains([]string{"env", "condor", "globus", "dagman", "pegasus"}, ns):
			b.noEffect("property " + p.key)
		default:
			one := profile{namespace: ns, key: key, value: value}
			if what, _ := one.demand(); ns == "pegasus" && !slices.Contains(pegasusKeys, key) && what == "" {
				b.noEffect("property " + p.key)
				continue
			}
			b.cat.properties.add(b, one)
		}
	}
	for _, kind := range []struct{ property, name string }{{"replica", "replicas"},
		{"transformation", "transformations"}, {"site", "sites"}} {
		b.namedCatalog(c, "pegasus.catalog."+kind.property, kind.name, values, first, has)
	}
}

// catalogKey matches the properties of catalogs that gantry honours.
var catalogKey = regexp.MustCompile(`^pegasus\.catalog\.(replica|transformation|site)(\.file)?$`)

// namedCatalog opens the catalog of one kind that properties name.
func (b *builder) namedCatalog(c *catalog, property, name string, values map[string]string, first bool,
	has map[string]bool) {
	kind, file := strings.ToLower(values[property]), values[property+".file"]
	if has[name] || kind == "" && file == "" {
		return
	}
	at := func(path string) string {
		if beside := filepath.Join(c.dir, path); !filepath.IsAbs(path) {
			if _, err := os.Stat(beside); err == nil {
				return beside
			}
		}
		return path
	}
	switch {
	case (kind == "" || kind == "yaml" || name != "replicas" && (kind == "text" || kind == "xml")) && file != "":
		has[name] = true
		b.openCatalog(at(file), first, nil)
	case kind == "yaml": // under its usual name
	case name == "replicas" && (kind == "file" || kind == "regex") && file != "":
		has[name] = true
		if c, data := b.catalogFile(at(file)); c != nil {
			b.cat.all = append(b.cat.all, c)
			b.textReplicas(c, data)
		}
	default:
		b.obstacle(0, "", "%s: %s = %s: gantry reads catalogs of type YAML, and replica catalogs of type File and "+
			"Regex", c.source, property, values[property])
	}
}

type property struct{ key, value string }

// parseProperties reads the properties of Java: KEY=VALUE, KEY: VALUE or KEY VALUE, with # and ! before comments, \ at
// the end of a line that continues, also of the last, and before characters that stand for themselves. It returns none
// after a fault.
func (b *builder) parseProperties(c *catalog, data []byte) (out []property) {
	var whole []byte
	n, at := 0, 0 // lines: this one, and that on which its property begins
	for line := range bytes.Lines(append(data, '\n', '\n')) {
		n++
		line = bytes.TrimLeft(bytes.TrimRight(line, "\r\n"), " \t\f")
		if at == 0 {
			if len(line) == 0 || line[0] == '#' || line[0] == '!' {
				continue
			}
			whole, at = whole[:0], n
		}
		if whole = append(whole, line...); continues(whole) && len(whole) <= reader.MaxText {
			whole = whole[:len(whole)-1]
			continue
		}
		fault, rule, p := "", "bound", property{}
		if len(whole) > reader.MaxText {
			fault = reader.TooLong
		} else if p = parseProperty(whole); p.key == "" {
			fault, rule = fmt.Sprintf("a property without a name: %q", whole), "catalog"
		} else if len(p.key) > reader.MaxName {
			fault = reader.TooLongName
		} else if out = append(out, p); len(out) > reader.MaxKeys {
			fault = fmt.Sprintf("more than %d properties", reader.MaxKeys)
		}
		if fault != "" {
			b.catalogFault(c, at, rule, "%s", fault)
			return nil
		}
		at = 0
	}
	return out
}

// continues reports whether a line ends with a backslash that stands for itself.
func continues(line []byte) bool { return (len(line)-len(bytes.TrimRight(line, `\`)))%2 == 1 }

var escaped = regexp.MustCompile(`(?s)\\(.)`)

// propertyParts matches the key of a property and its value.
var propertyParts = regexp.MustCompile(`(?s)\A((?:\\.|\\\z|[^\\=: \t\f])*)[ \t\f]*(?:[=:][ \t\f]*)?(.*)\z`)

func parseProperty(line []byte) property {
	parts := propertyParts.FindSubmatch(line)
	plain := func(text []byte) string {
		return escaped.ReplaceAllStringFunc(string(text), func(s string) string {
			if at := strings.IndexByte("tnrf", s[1]); at >= 0 {
				return "\t\n\r\f"[at : at+1]
			}
			return s[1:]
		})
	}
	return property{plain(parts[1]), strings.TrimSpace(plain(parts[2]))}
}
