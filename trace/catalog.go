package trace

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"gantry/trace/reader"
)

// transformation identifies a program: name space and version tell programs of one name apart.
type transformation struct{ namespace, name, version string }

func (t transformation) String() string {
	s := t.name
	if t.namespace != "" {
		s = t.namespace + "::" + s
	}
	if t.version != "" {
		s += ":" + t.version
	}
	return s
}

// parseTransformation reads namespace::name:version, of which only the name is needed.
func parseTransformation(text string) (t transformation) {
	if ns, rest, ok := strings.Cut(text, "::"); ok {
		t.namespace, text = ns, rest
	}
	t.name, t.version, _ = strings.Cut(text, ":")
	return t
}

// executable is the entry of a transformation in a catalog.
type executable struct {
	sites    []location
	requires []transformation // programs that it calls
	files    []string         // and data that it reads
	profiles profiles
	sha256   string
	from     *catalog
	line     int
}

// location is a transformation on one site.
type location struct {
	site, pfn string
	stageable bool
	container string
	profiles  profiles
}

// container is an image of a catalog, or why gantry cannot use it.
type container struct {
	Container
	kind     string
	profiles profiles
	obstacle string
}

// replica is the entry of a file in a catalog.
type replica struct {
	pfns   []string
	sha256 string
}

// pattern is a replica of all files whose whole names match.
type pattern struct {
	replica
	expr *regexp.Regexp
}

// catalog has the entries of one source.
type catalog struct {
	source      string // path as people know it; "" for the workflow itself
	dir         string // of relative paths; "" if they have none
	replicas    map[string]*replica
	patterns    []pattern
	executables map[transformation]*executable
	containers  map[string]*container
	sites       map[string]profiles
}

// newCatalog returns the catalog of a source, whose relative paths begin at the directory of a file.
func newCatalog(source, file string) *catalog {
	dir := filepath.Dir(file)
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return &catalog{source: source, dir: dir, replicas: map[string]*replica{},
		executables: map[transformation]*executable{}, containers: map[string]*container{},
		sites: map[string]profiles{}}
}

// catalogs are those of a workflow. The first source that has a thing counts.
type catalogs struct {
	all        []*catalog
	own        *catalog // of the workflow itself, among them
	properties profiles
	programs   map[*executable]int32 // files of the stageable ones
	obstacles  map[string]bool       // reported already
	without    map[string]int        // numbers of tasks, by setting without effect on one host
	site       string                // that the user prefers
	spare      map[int32]int         // tasks that may do without an input, by file
}

// obstacle notes, once, why a real run has to be refused.
func (b *builder) obstacle(line int, task, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if task != "" {
		text = "task " + task + ": " + text
	}
	if line > 0 {
		text = fmt.Sprintf("%s:%d: %s", b.wf.Source, line, text)
	}
	const most = 20
	switch n := len(b.wf.Obstacles); {
	case b.cat.obstacles[text]:
	case n == most:
		b.wf.Obstacles = append(b.wf.Obstacles, "and more of the kind")
	case n < most:
		b.wf.Obstacles = append(b.wf.Obstacles, reader.Printable(text))
	}
	b.cat.obstacles[text] = true
}

// noEffect notes something that is valid and has no effect on one host.
func (b *builder) noEffect(setting string) {
	if b.cat.without[setting]++; b.cat.without[setting] == 1 {
		b.keep(110 + len(setting))
	}
}

// tellNoEffect lists the settings without effect in one warning.
func (b *builder) tellNoEffect() {
	list := slices.Sorted(maps.Keys(b.cat.without))
	for i, setting := range list {
		if n := b.cat.without[setting]; n > 1 {
			list[i] = fmt.Sprintf("%s (%d times)", setting, n)
		}
	}
	if len(list) == 0 {
		return
	}
	b.faults.Warn("no-effect", 0, "", "without effect on one host: %s", strings.Join(list, ", "))
}

// addReplica adds locations of a file to the entry in its catalog.
func (b *builder) addReplica(c *catalog, lfn string, is replica) {
	lfn = b.cleaned(lfn)
	if old := c.replicas[lfn]; old != nil {
		is.pfns, is.sha256 = append(old.pfns, is.pfns...), cmp.Or(old.sha256, is.sha256)
	}
	c.replicas[lfn] = &is
}

func (b *builder) lookupExecutable(t transformation) *executable {
	for _, c := range b.cat.all {
		if x := c.executables[t]; x != nil {
			return x
		}
	}
	return nil
}

func (b *builder) lookupContainer(name string) *container {
	for _, c := range b.cat.all {
		if x := c.containers[name]; x != nil {
			return x
		}
	}
	return nil
}

// locate gives the files from outside the locations that catalogs name: those of the file itself, in order, then that
// of the first pattern of each catalog that its whole name matches.
func (b *builder) locate() {
	if len(b.cat.spare) > 0 { // a file that all readers may do without may be nowhere
		readers := map[int32]int{}
		for i := range b.wf.Tasks {
			for _, f := range b.wf.Tasks[i].Inputs {
				readers[f]++
			}
		}
		for f, n := range b.cat.spare {
			if file := &b.wf.Files[f]; file.Producer < 0 {
				file.Optional = n >= readers[f]
			}
		}
	}
	if !slices.ContainsFunc(b.cat.all, func(c *catalog) bool { return len(c.replicas)+len(c.patterns) > 0 }) {
		return
	}
	for i := range b.wf.Files {
		f := &b.wf.Files[i]
		if f.Program() != "" || f.Producer >= 0 && !slices.Contains(b.wf.Tasks[f.Producer].Inputs, int32(i)) {
			continue
		}
		for _, c := range b.cat.all {
			if r := c.replicas[f.Name]; r != nil {
				b.locations(f, c, r, nil)
			}
		}
		for _, c := range b.cat.all {
			for k := range c.patterns {
				if groups := c.patterns[k].expr.FindStringSubmatch(f.Name); groups != nil {
					b.locations(f, c, &c.patterns[k].replica, groups)
					break
				}
			}
		}
	}
}

var section = regexp.MustCompile(`\[[0-9]+\]`)

// locations adds those of a replica to a file. Sections [0], [1] and so on stand for groups of its pattern.
func (b *builder) locations(f *File, c *catalog, r *replica, groups []string) {
	if f.Origin == nil {
		b.keep(80)
		f.Origin = &Origin{}
	}
	o := f.Origin
	o.SHA256 = cmp.Or(o.SHA256, r.sha256)
	for _, pfn := range r.pfns {
		if groups != nil {
			pfn = section.ReplaceAllStringFunc(pfn, func(s string) string {
				var n int
				if _, err := fmt.Sscanf(s, "[%d]", &n); err != nil || n >= len(groups) {
					return s
				}
				return groups[n]
			})
		}
		if len(pfn) > reader.MaxName {
			b.catalogFault(c, 0, "bound", "a location of %s: %s", f.Name, reader.TooLongName)
			return
		}
		if len(o.Locations) > reader.MaxLocations {
			b.catalogFault(c, 0, "bound", "%s has more than %d locations", f.Name, reader.MaxLocations)
			return
		}
		for _, at := range b.paths(c, pfn) {
			if !slices.Contains(o.Locations, at) {
				b.keep(16 + len(at))
				o.Locations = append(o.Locations, at)
			}
		}
	}
}

// paths are the locations that the physical name of a file may stand for: an absolute path, as it is written and with
// %XX decoded, or an address.
func (b *builder) paths(c *catalog, pfn string) []string {
	pfn = strings.TrimSpace(pfn)
	path, isFile := strings.CutPrefix(pfn, "file:")
	if !isFile && strings.Contains(pfn, "://") {
		if strings.Contains(pfn, "${") { // an address could carry secrets of the environment away
			b.obstacle(0, "", "%s: gantry puts no variables of the environment into addresses", pfn)
		}
		return []string{pfn}
	}
	if isFile {
		if host, ok := strings.CutPrefix(path, "//"); ok {
			name, rest, _ := strings.Cut(host, "/")
			if name != "" && name != "localhost" {
				return []string{pfn} // on another host
			}
			path = "/" + rest
		}
	}
	path = b.environment(c, path)
	out := []string{path}
	if decoded, err := url.PathUnescape(path); isFile && err == nil && decoded != path {
		out = append(out, decoded)
	}
	for i := range out {
		if !filepath.IsAbs(out[i]) {
			out[i] = filepath.Join(c.dir, out[i])
		}
		if filepath.IsAbs(out[i]) {
			out[i] = filepath.Clean(out[i])
		}
	}
	return out
}

var variable = regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*\}`)

// environment replaces ${NAME} by the variable of gantry's own environment, as Pegasus does when it plans.
func (b *builder) environment(c *catalog, text string) string {
	if !strings.Contains(text, "${") {
		return text
	}
	return variable.ReplaceAllStringFunc(text, func(s string) string {
		name := s[2 : len(s)-1]
		value, ok := os.LookupEnv(name)
		if !ok {
			where := ""
			if c != nil && c.source != "" {
				where = c.source + ": "
			}
			b.obstacle(0, "", "%svariable %s is not set, which the catalogs use", where, s)
		}
		return value
	})
}

// use adds a file, by the number of its name, to the last task. Kind is input, output, inout, checkpoint or none; keep
// is whether the file is a result, "" if that is not said.
func (b *builder) use(name int32, kind, keep string, optional bool, line int) (f int32, out bool) {
	id := b.lastID()
	in := kind == "input" || kind == "inout"
	out = kind == "output" || kind == "inout" || kind == "checkpoint"
	if !in && !out {
		if kind != "none" && kind != "" {
			b.faults.Warn("unknown-link", line, id, "task %s uses %s as %q: ignored", id, b.all[name].text, kind)
			b.obstacle(line, id, "it uses %s as %q, which is neither input, output, inout nor checkpoint",
				b.all[name].text, kind)
		}
		return -1, false
	}
	if in {
		if f = b.reads(b.fileAs(name)); optional {
			b.cat.spare[f]++
		}
	}
	if out {
		f = b.writes(b.fileAs(name))
		file := &b.wf.Files[f]
		switch keep {
		case "true":
			file.Keep = KeepAlways
		case "false":
			file.Keep = KeepNever
		}
		file.Checkpoint = file.Checkpoint || kind == "checkpoint"
		file.Optional = optional || kind == "checkpoint"
	}
	return f, out
}

// usesPrograms makes programs inputs of the last task, those that it uses itself: those that are stageable.
func (b *builder) usesPrograms(t *Task, programs []transformation) {
	for _, key := range programs {
		x := b.lookupExecutable(key)
		if x == nil {
			b.obstacle(t.Line, t.ID, "no catalog has transformation %s, which it uses", key)
			continue
		}
		if at := x.at(b.cat.site, b); at != nil && at.stageable {
			b.reads(b.programFile(x, at, key))
		}
	}
}

// program gives a task its profiles, and its command, image and programs as the catalogs have them. The text is that of
// its arguments.
func (b *builder) program(t *Task, key transformation, text string, own, shared profiles) {
	x := b.lookupExecutable(key)
	given := ranked(b.given[:0], b.cat.properties, rankProperties)
	given = ranked(given, shared, rankWorkflow)
	given = ranked(given, own, rankJob)
	var at *location
	if x != nil {
		at = x.at(cmp.Or(own.value("selector", "execution.site"), own.value("hints", "execution.site"),
			own.value("hints", "executionpool"), b.cat.site), b)
		given = ranked(given, x.profiles, rankTransformation)
		if at != nil {
			for _, c := range b.cat.all {
				given = ranked(given, c.sites[at.site], rankSite)
			}
			given = ranked(given, at.profiles, rankTransformation+1)
			given = ranked(given, b.contain(t, at), rankContainer)
		}
	}
	b.applyProfiles(t, given)
	b.given = given
	if t.SubWorkflow {
		return
	}
	name := key.name
	switch {
	case x == nil && name == "":
		b.obstacle(t.Line, t.ID, "it names no transformation")
	case x == nil && slices.ContainsFunc(b.cat.all, func(c *catalog) bool { return len(c.executables) > 0 }):
		b.obstacle(t.Line, t.ID, "no catalog has transformation %s", key)
	case x != nil:
		name = b.place(t, x, at, key)
	}
	// A job of a DAX without arguments and program is one of a trace, to be emulated.
	if name == "" || b.wf.Format == DAX && text == "" && (at == nil || name == key.name) {
		return
	}
	words, fixed, err := FixedArguments(text, nil, t.Env...)
	switch {
	case err != nil:
		b.obstacle(t.Line, t.ID, "arguments: %v", err)
		words = strings.Fields(text)
	case !fixed:
		words, t.Expand = []string{text}, true
	}
	b.keep(32*len(words) + len(text))
	t.Command = append([]string{b.same(name)}, words...)
	t.Known |= Command
}

// at is where a transformation is taken from: the site that was asked for, else the first with a container that gantry
// runs, else the first with a program that it can get, else the first.
func (x *executable) at(site string, b *builder) *location {
	if len(x.sites) == 0 {
		return nil
	}
	for i := range x.sites {
		b.opt.uses(UsedSite + x.sites[i].site)
		if site != "" && x.sites[i].site == site {
			return &x.sites[i]
		}
	}
	for i := range x.sites {
		if c := b.lookupContainer(x.sites[i].container); c != nil && c.obstacle == "" {
			return &x.sites[i]
		}
	}
	for i := range x.sites {
		at := &x.sites[i]
		if path := b.paths(x.from, at.pfn)[0]; filepath.IsAbs(path) || at.stageable && Fetched(path) {
			return at
		}
	}
	return &x.sites[0]
}

// Fetched reports whether a location is an address that gantry fetches.
func Fetched(location string) bool {
	return strings.HasPrefix(location, "http://") || strings.HasPrefix(location, "https://")
}

// contain puts a task into the container of a transformation, and returns its profiles.
func (b *builder) contain(t *Task, at *location) profiles {
	if at.container == "" {
		return nil
	}
	c := b.lookupContainer(at.container)
	if c == nil {
		b.obstacle(t.Line, t.ID, "no catalog has container %s", at.container)
		return nil
	}
	if c.obstacle != "" {
		b.obstacle(0, "", "%s: container %s: %s", c.where(b.wf.Source), c.Name, c.obstacle)
		return c.profiles
	}
	if c.kind == "singularity" {
		b.faults.WarnUpTo(reader.MaxErrors, "singularity", c.Line, t.ID, "container %s is of type singularity: it "+
			"runs in Docker, from the same image", c.Name)
		c.kind = "" // reported
	}
	b.image(t, c.Image)
	t.Container = 1 + int32(slices.IndexFunc(b.wf.Containers, func(x Container) bool { return x.Name == c.Name }))
	if t.Container == 0 {
		b.wf.Containers = append(b.wf.Containers, c.Container)
		t.Container = int32(len(b.wf.Containers))
	}
	return c.profiles
}

// place returns the path of a program, and makes the program and its requirements inputs of the task if they are
// stageable.
func (b *builder) place(t *Task, x *executable, at *location, key transformation) (path string) {
	seen, site := map[*executable]bool{x: true}, ""
	if at != nil {
		site = at.site
	}
	var need func(x *executable)
	need = func(x *executable) {
		for _, f := range x.files {
			b.reads(b.file(f))
		}
		for _, r := range x.requires {
			y := b.lookupExecutable(r)
			if y == nil {
				b.obstacle(t.Line, t.ID, "no catalog has transformation %s, which %s requires", r, key)
				continue
			}
			if seen[y] {
				continue
			}
			seen[y] = true
			if where := y.at(site, b); where != nil && where.stageable {
				b.reads(b.programFile(y, where, r))
			}
			need(y)
		}
	}
	need(x)
	if at == nil {
		return key.name
	}
	if !at.stageable {
		paths := b.paths(x.from, at.pfn)
		if !filepath.IsAbs(paths[0]) {
			b.obstacle(0, "", "%s:%d: transformation %s is installed at %s, which is no path",
				cmp.Or(x.from.source, b.wf.Source), x.line, key, at.pfn)
			return key.name
		}
		return paths[0]
	}
	b.reads(b.programFile(x, at, key))
	return "./" + key.name
}

// programFile is the file of a stageable transformation.
func (b *builder) programFile(x *executable, at *location, key transformation) int32 {
	if f, ok := b.cat.programs[x]; ok {
		return f
	}
	name := key.String()
	for {
		if _, taken := b.fileOf(name); !taken {
			break
		}
		name += "~"
	}
	i := b.file(name)
	f := &b.wf.Files[i]
	f.Origin = &Origin{Program: key.name, SHA256: x.sha256, Locations: b.paths(x.from, at.pfn)}
	b.cat.programs[x] = i
	return i
}

// addExecutable keeps a transformation, or adds to its entry in the catalog.
func (b *builder) addExecutable(c *catalog, t transformation, x *executable) {
	b.keep(executableKept + 128*len(x.sites))
	fail := func(format string, args ...any) { b.catalogFault(c, x.line, "bad-transformation", format, args...) }
	switch {
	case t.name == "":
		fail("a transformation without a name")
	case !SafeName(t.name) || strings.Contains(t.name, "/"):
		fail("transformation %q: its name cannot be that of a file", t.name)
	case len(x.sites) == 0:
		fail("transformation %s has no sites: say where the program is", t)
	default:
		c.add(t, x)
	}
}

// add keeps a transformation; several entries of one are joined.
func (c *catalog) add(t transformation, x *executable) {
	if old := c.executables[t]; old != nil {
		old.sites, old.requires = append(old.sites, x.sites...), append(old.requires, x.requires...)
		old.files, old.profiles = append(old.files, x.files...), append(old.profiles, x.profiles...)
		return
	}
	c.executables[t] = x
}

// addContainer keeps a container, whose image is written as Docker takes it.
func (b *builder) addContainer(c *catalog, x *container, image string) {
	for _, other := range b.cat.all {
		if old := other.containers[x.Name]; old != nil {
			b.catalogFault(c, x.Line, "duplicate-container", "there are two containers of the name %s (the other: %s)",
				x.Name, old.where(b.wf.Source))
			return
		}
	}
	for i, m := range x.Mounts {
		host, rest, ok := strings.Cut(b.environment(c, m), ":")
		inside, _, _ := strings.Cut(rest, ":")
		if !ok || !filepath.IsAbs(host) || !filepath.IsAbs(inside) {
			b.catalogFault(c, x.Line, "bad-mount", "container %s: mount %q is not HOST:CONTAINER, two absolute paths",
				x.Name, m)
			return
		}
		x.Mounts[i] = filepath.Clean(host) + ":" + filepath.Clean(inside)
	}
	x.Source = c.source
	scheme, rest, ok := strings.Cut(image, ":")
	address := ok && strings.HasPrefix(rest, "/")
	switch {
	case x.kind == "shifter":
		x.obstacle = "gantry does not run containers of type shifter"
	case x.kind != "docker" && x.kind != "singularity":
		b.catalogFault(c, x.Line, "bad-container", "container %s has type %q: it has to be docker, singularity or "+
			"shifter", x.Name, x.kind)
		return
	case address && scheme == "docker":
		x.Image = strings.TrimLeft(rest, "/")
	case x.kind == "singularity":
		x.obstacle = fmt.Sprintf("gantry runs singularity containers with a docker:// source only, not %s", image)
	case address && scheme == "file", strings.HasPrefix(image, "/"):
		x.Image = "file://" + b.paths(c, image)[0]
	case address && strings.HasPrefix(rest, "//"):
		x.obstacle = fmt.Sprintf("gantry takes images as docker:// or file://, not %s", image)
	default: // no address
		x.Image = image
	}
	c.containers[x.Name] = x
}

// where is the place of a container in its catalog, or in the workflow.
func (x *container) where(workflow string) string {
	return fmt.Sprintf("%s:%d", cmp.Or(x.Source, workflow), x.Line)
}

// catalogFault reports an error of a catalog, which may be another file than the workflow.
func (b *builder) catalogFault(c *catalog, line int, rule, format string, args ...any) {
	if c.source != "" {
		format, line = fmt.Sprintf("%s:%d: ", strings.ReplaceAll(c.source, "%", "%%"), line)+format, 0
	}
	b.faults.Fail(rule, line, "", format, args...)
}

// checksum checks the SHA-256 that a catalog gives.
func (b *builder) checksum(c *catalog, line int, kind, sum string) string {
	if !strings.EqualFold(kind, "sha256") {
		b.catalogFault(c, line, "bad-checksum", "checksums are sha256, and not %s", kind)
		return ""
	}
	if raw, err := hex.DecodeString(sum); err != nil || len(raw) != 32 {
		b.catalogFault(c, line, "bad-checksum", "%q is no SHA-256: it has 64 hexadecimal digits", sum)
		return ""
	}
	return strings.ToLower(sum)
}

// maxPattern bounds the instructions of a regex.
const maxPattern = 10_000

// addPattern keeps a replica of all files whose names match.
func (b *builder) addPattern(c *catalog, line int, text string, r replica) {
	whole := "^(?:" + text + ")$"
	tree, err := syntax.Parse(whole, syntax.Perl)
	if err == nil {
		var prog *syntax.Prog
		if prog, err = syntax.Compile(tree.Simplify()); err == nil && len(prog.Inst) > maxPattern {
			err = errors.New("it is too large")
		} else if err == nil {
			b.keep(200 * len(prog.Inst))
		}
	}
	if err == nil && b.lacks {
		b.catalogFault(c, line, "bound", "%s", b.in.TooMuch())
		return
	}
	var expr *regexp.Regexp
	if err == nil {
		expr, err = regexp.Compile(whole)
	}
	if err != nil {
		b.catalogFault(c, line, "bad-regex", "regex %q does not compile: %v", text, err)
		return
	}
	c.patterns = append(c.patterns, pattern{r, expr})
}
