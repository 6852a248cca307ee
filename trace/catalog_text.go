package trace

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"gantry/trace/reader"
)

// The catalogs of Pegasus 4 that Pegasus 5 still reads: replicas and transformations as text, sites as XML.

// textReplicas reads a replica catalog of type File or Regex: a line per replica, with the name of a file, its location
// and attributes.
func (b *builder) textReplicas(c *catalog, data []byte) {
	i := -1
	for raw := range bytes.Lines(data) {
		i++
		line := string(bytes.TrimSpace(raw))
		if line == "" || line[0] == '#' {
			continue
		}
		if len(line) > reader.MaxText {
			b.catalogFault(c, i+1, "bound", "%s", reader.TooLong)
			return
		}
		words, err := splitWords(strings.ReplaceAll(line, `\`, `\\`))
		if err != nil || len(words) < 2 {
			b.catalogFault(c, i+1, "catalog", "it takes the name of a file and its location: %q", line)
			return
		}
		is, regex, kind, sum := replica{pfns: words[1:2]}, false, "sha256", ""
		for _, a := range words[2:] {
			name, value, ok := strings.Cut(a, "=")
			switch {
			case !ok:
				b.catalogFault(c, i+1, "catalog", "attribute %q is not NAME=VALUE", a)
				return
			case name == "regex":
				regex = strings.EqualFold(value, "true")
			case name == "checksum.type":
				kind = value
			case name == "checksum.value":
				sum = value
			}
		}
		if sum != "" {
			is.sha256 = b.checksum(c, i+1, kind, sum)
		}
		b.keep(fileKept + len(line))
		if regex {
			b.addPattern(c, i+1, words[0], is)
		} else {
			b.addReplica(c, words[0], is)
		}
	}
}

// textReplica matches the beginning of a replica catalog of type File, and propertyLine that of properties in the same
// form.
var (
	textReplica  = regexp.MustCompile(`\A(?:\s|#[^\n]*\n)*(?:"[^"\n]*"|[^\s=:]+)[ \t]+"?(?:/|[a-z]+:/)`)
	propertyLine = regexp.MustCompile(`\A(?:\s|#[^\n]*\n)*(?:pegasus|env|condor|globus|dagman)\.`)
)

// textCatalog matches the beginning of a transformation catalog of type Text.
var textCatalog = regexp.MustCompile(`(?i)\A(?:\s|#[^\n]*\n)*(?:tr|cont)\s+[^\s{]+\s*\{`)

// textToken matches a token of such a catalog, after blanks: a comment, a brace, a text in quotes, or a word.
var textToken = regexp.MustCompile(`\A(?:#[^\n]*|[{}]|"(?:[^"\\\r\n]|\\.)*"|[^\s{}"#]+)`)

// textReader reads a transformation catalog of type Text.
type textReader struct {
	b     *builder
	c     *catalog
	text  []byte
	line  int
	token string // the next one; "" at the end
	key   string // its values come next
	err   error  // the first
}

// next takes the next token.
func (r *textReader) next() (taken string) {
	taken = r.token
	for r.err == nil {
		blank := len(r.text) - len(bytes.TrimLeft(r.text, " \t\r\n\f"))
		r.line += bytes.Count(r.text[:blank], []byte("\n"))
		r.text = r.text[blank:]
		t := textToken.Find(r.text)
		r.text = r.text[len(t):]
		if len(t) > reader.MaxText {
			r.fail("%s", reader.TooLong)
		}
		if r.token = string(t); r.token == "" && len(r.text) > 0 {
			r.fail("a text in quotes does not end in its line")
		}
		if !strings.HasPrefix(r.token, "#") {
			return taken
		}
	}
	r.token = ""
	return taken
}

func (r *textReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
		r.b.catalogFault(r.c, r.line, "catalog", "%v", r.err)
	}
}

// expect takes a token that has to be there.
func (r *textReader) expect(want string) {
	if r.token != want {
		r.fail("%q where %q is expected", r.token, want)
	}
	r.next()
}

// value takes the text in quotes of a key.
func (r *textReader) value() string {
	if !strings.HasPrefix(r.token, `"`) {
		r.fail("%s takes a text in quotes, and not %q", r.key, r.token)
		return ""
	}
	text := r.next()
	return r.b.environment(r.c, escaped.ReplaceAllString(text[1:len(text)-1], "$1"))
}

var escaped = regexp.MustCompile(`(?s)\\(.)`)

// skip takes a value without effect, and metadata the two of metadata.
func (r *textReader) skip() { r.value() }

func (r *textReader) metadata() {
	r.value()
	r.value()
}

func (r *textReader) profile(to *profiles) {
	ns := strings.ToLower(r.next())
	key := r.value()
	to.add(r.b, profile{namespace: ns, key: key, value: r.value()})
}

// block reads NAME { KEY ... }: for each key its function takes the values.
func (r *textReader) block(what string, keys map[string]func()) (name string) {
	name = r.next()
	if name == "" || strings.ContainsAny(name, `{}"`) {
		r.fail("%s needs a name", what)
	}
	r.expect("{")
	for r.err == nil && r.token != "}" {
		if r.token == "" {
			r.fail("the file ends within %s %s", what, name)
		}
		r.key = strings.ToLower(r.next())
		if take := keys[r.key]; take != nil {
			take()
		} else {
			r.fail("%s %s has the key %q, which gantry does not know", what, name, r.key)
		}
	}
	r.next()
	return name
}

// textTransformations reads a transformation catalog of type Text.
func (b *builder) textTransformations(c *catalog, data []byte) {
	r := &textReader{b: b, c: c, text: data, line: 1}
	r.next()
	for r.err == nil && r.token != "" {
		switch what := strings.ToLower(r.next()); what {
		case "tr":
			r.transformation()
		case "cont":
			r.container()
		default:
			r.fail("%q where tr or cont is expected", what)
		}
	}
}

func (r *textReader) transformation() {
	x := &executable{from: r.c, line: r.line}
	name := r.block("transformation", map[string]func(){
		"profile":  func() { r.profile(&x.profiles) },
		"metadata": r.metadata,
		"site":     func() { r.site(x) },
	})
	if r.err == nil {
		r.b.addExecutable(r.c, parseTransformation(name), x)
	}
}

func (r *textReader) site(x *executable) {
	var at location
	at.site = r.block("site", map[string]func(){
		"profile":   func() { r.profile(&at.profiles) },
		"metadata":  r.metadata,
		"pfn":       func() { at.pfn = strings.TrimSpace(r.value()) },
		"container": func() { at.container = r.value() },
		"type": func() {
			kind := r.value()
			at.stageable = strings.EqualFold(kind, "stageable")
			if !at.stageable && !strings.EqualFold(kind, "installed") {
				r.fail("a transformation is INSTALLED or STAGEABLE, and not %q", kind)
			}
		},
		"arch": r.skip, "os": r.skip, "osrelease": r.skip, "osversion": r.skip,
	})
	if r.err == nil && at.pfn == "" {
		r.fail("site %s has no pfn: say where the program is", at.site)
	}
	x.sites = append(x.sites, at)
}

func (r *textReader) container() {
	x, image := &container{Container: Container{Line: r.line}}, ""
	x.Name = r.block("container", map[string]func(){
		"profile":    func() { r.profile(&x.profiles) },
		"type":       func() { x.kind = strings.ToLower(r.value()) },
		"image":      func() { image = r.value() },
		"mount":      func() { x.Mounts = append(x.Mounts, r.value()) },
		"image_site": r.skip,
	})
	switch {
	case r.err != nil:
	case image == "":
		r.fail("container %s has no image", x.Name)
	default:
		r.b.keep(executableKept)
		r.b.addContainer(r.c, x, image)
	}
}

// programsIn makes the programs of a directory stageable transformations, as catalogs of type Directory do.
func (b *builder) programsIn(from *catalog, dir, site string) {
	c := newCatalog(dir, "")
	entries, err := os.ReadDir(dir)
	if err == nil {
		c.dir, err = filepath.Abs(dir)
	}
	if err != nil {
		b.faults.Fail("catalog", 0, "", "%s: directory of transformations: %v", from.source, err)
		return
	}
	b.cat.all = append(b.cat.all, c)
	for _, e := range entries {
		if st, err := os.Stat(filepath.Join(dir, e.Name())); err != nil || !st.Mode().IsRegular() {
			continue
		}
		b.addExecutable(c, transformation{name: e.Name()}, &executable{from: c, sites: []location{{site: site,
			pfn: filepath.Join(c.dir, e.Name()), stageable: true}}})
		if b.lacks {
			b.faults.Fail("bound", 0, "", "%s", b.in.TooMuch())
			return
		}
	}
}

// xmlSites reads a site catalog of XML, of which only the profiles have an effect on one host.
func (b *builder) xmlSites(c *catalog, data []byte) {
	x := reader.NewXML(bufio.NewReader(bytes.NewReader(data)))
	site, text, in := "", "", (*profile)(nil)
	for {
		token, err := x.Next()
		if err != nil {
			b.catalogFault(c, x.Line, "catalog", "%v", err)
			return
		}
		attr := func(name string) string { v, _ := x.Attr(name); return strings.TrimSpace(string(v)) }
		switch {
		case token == reader.XMLEOF:
			return
		case token == reader.XMLStart && x.Depth() == 1 && x.Name != "sitecatalog":
			b.catalogFault(c, x.Line, "catalog", "it is XML, but no site catalog: convert it with "+
				"pegasus-tc-converter or pegasus-rc-converter")
			return
		case token == reader.XMLStart && x.Name == "site":
			if site = attr("handle"); site == "" {
				b.catalogFault(c, x.Line, "bad-site", "a site without a handle")
				return
			}
		case token == reader.XMLStart && x.Name == "profile" && site != "":
			in, text = &profile{namespace: strings.ToLower(attr("namespace")), key: attr("key")}, ""
		case token == reader.XMLText && in != nil:
			if text += string(x.Text); len(text) > reader.MaxText {
				b.catalogFault(c, x.Line, "bound", "%s", reader.TooLong)
				return
			}
		case token == reader.XMLEnd && in != nil:
			in.value = b.environment(c, strings.TrimSpace(text))
			given := c.sites[site]
			given.add(b, *in)
			c.sites[site], in = given, nil
		}
	}
}
