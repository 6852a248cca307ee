package trace

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"sort"
	"strings"

	"gantry/trace/reader"
	"gantry/trace/spelling"
)

// makeReader reads the syntax like Make's.
type makeReader struct {
	b        *builder
	category string
	vars     map[string]map[string][]flowAssigned // by category and name, in the order of the file
	exported []flowValue
	rules    []flowRule
	local    []map[string]flowValue // variables of rules
	unknown  map[string]bool        // variables that were reported
	batch    int                    // line of BATCH_OPTIONS
	dropped  bool                   // text changed for the shell, since that was asked last
}

// flowAssigned is a value that a variable has from a rule on.
type flowAssigned struct {
	flowValue
	rule int
}

// lexer reads a text: the file, or the value of a variable that is substituted.
type lexer struct {
	*makeReader
	text  string
	at    int
	line  int
	depth int
	rule  map[string]flowValue // variables of the rule that is read, nil if none is
}

const (
	literalEnds  = "\\\"'$#\n\t "
	fileNameEnds = literalEnds + ":-"
	nameEnds     = literalEnds + ",.-(){},[]<>=+!?/:"
	// maxSubstitutions is how deep values of variables refer to variables, as makeflow has it.
	maxSubstitutions = 32
)

// stop ends the reading by a panic; its fault was reported.
type stop struct{}

// stopped is deferred where the reading ends.
func stopped() {
	if x := recover(); x != nil && x != (stop{}) {
		panic(x)
	}
}

func (b *builder) readMake(text string) {
	r := &makeReader{b: b, category: defaultCategory, vars: map[string]map[string][]flowAssigned{},
		unknown: map[string]bool{}}
	l := &lexer{makeReader: r, text: text, line: 1}
	defer stopped()
	for l.at < len(l.text) {
		l.statement()
	}
	r.finish()
}

// fail reports an error that ends the reading.
func (l *lexer) fail(rule string, line int, format string, args ...any) {
	l.b.faults.Fail(rule, line, "", format, args...)
	panic(stop{})
}

// grow counts memory, and ends the reading where there is no room.
func (l *lexer) grow(bytes int) {
	if l.b.keep(bytes); l.b.full(l.line) {
		panic(stop{})
	}
}

func (l *lexer) peek() byte {
	if l.at < len(l.text) {
		return l.text[l.at]
	}
	return 0
}

func (l *lexer) ended() bool { return l.at >= len(l.text) }

func (l *lexer) next() byte {
	c := l.text[l.at]
	l.at++
	if c == '\n' && l.depth == 0 {
		l.line++
	}
	return c
}

func (l *lexer) blanks() {
	l.at = len(l.text) - len(strings.TrimLeft(l.text[l.at:], " \t"))
}

// comment skips the rest of a line, and not its end.
func (l *lexer) comment() {
	for !l.ended() && l.peek() != '\n' {
		l.at++
	}
}

// endLine expects the end of the line.
func (l *lexer) endLine() {
	l.blanks()
	if l.peek() == '#' {
		l.comment()
	}
	if l.ended() {
		return
	}
	if l.peek() != '\n' {
		l.fail("syntax", l.line, "%q at the end of a statement", l.peek())
	}
	l.next()
}

// before reports whether c comes in this line, outside of quotes, and before other does.
func (l *lexer) before(c, other byte) bool {
	quote := byte(0)
	for i := l.at; i < len(l.text); i++ {
		switch x := l.text[i]; {
		case x == '\n':
			return false
		case quote != 0:
			if x == quote {
				quote = 0
			}
		case x == c:
			return true
		case x == other:
			return false
		case x == '\\':
			i++
		case x == '"' || x == '\'':
			quote = x
		}
	}
	return false
}

// statement reads the statement that begins on a line.
func (l *lexer) statement() {
	switch c := l.peek(); {
	case c == '#' || c == '\n':
		l.endLine()
	case c == ' ' || c == '\t':
		line := l.line
		if command := l.command(); strings.TrimSpace(command) != "" {
			l.fail("syntax", line, "a command without a rule: a rule has one command, join several with ; or &&")
		}
	case c != '@' && l.before(':', '='):
		l.ruleHere()
	default:
		l.definition()
	}
}

// definition reads an assignment, an export or a directive.
func (l *lexer) definition() {
	line := l.line
	if l.peek() == '@' {
		l.next()
	}
	l.blanks()
	start := l.at
	directive := l.peek() == '.'
	name := l.until(nameEnds)
	if directive {
		l.at = start
		name = l.until(literalEnds)
	}
	switch {
	case name == "":
		l.fail("syntax", line, "neither a rule (FILES: FILES), a variable (NAME=value), export nor a directive")
	case name == "export":
		l.export()
	case directive:
		l.directive(name, line)
	case l.before('=', 0):
		l.assign(name, line)
	default:
		l.fail("syntax", line, "%q is neither a rule (FILES: FILES), a variable (NAME=value), export nor a directive",
			name)
	}
}

func (l *lexer) until(ends string) string {
	start := l.at
	for !l.ended() && strings.IndexByte(ends, l.peek()) < 0 {
		l.at++
	}
	if l.at-start > reader.MaxText {
		l.fail("bound", l.line, "%s", reader.TooLong)
	}
	return l.text[start:l.at]
}

func (l *lexer) assign(name string, line int) {
	l.blanks()
	mode := byte('=')
	if l.peek() != '=' {
		mode = l.next()
	}
	if l.ended() || l.peek() != '=' || mode != '=' && mode != '+' {
		l.fail("syntax", line, "variable %s: write NAME=value, or NAME+=value to add to it", name)
	}
	l.next()
	l.dropped = false
	var out strings.Builder
	l.expand(&out, '\n', true)
	value := out.String()
	l.tellDropped("the value of "+name, value, line)
	l.endLine()
	l.set(name, value, mode, line)
}

// set gives a variable a value: of the rule that is read, else of the category. Values of --define stay.
func (l *lexer) set(name, value string, mode byte, line int) {
	l.b.opt.uses(name)
	if given, ok := l.b.opt.Define[name]; ok {
		value, mode = given, '='
	}
	l.grow(200 + len(name) + len(value))
	switch {
	case len(name) > reader.MaxName:
		l.fail("bound", line, "%s", reader.TooLongName)
	case name == "BATCH_OPTIONS":
		l.batch = cmp.Or(l.batch, line)
		if what, has := (profile{namespace: "condor", key: "arguments", value: value}).demand(); what != "" {
			l.b.ungiven(line, "", what, name, value, has)
		}
	}
	if mode == '+' {
		old, ok := l.rule[name]
		if !ok {
			old, ok = l.of(defaultCategory, name, len(l.rules))
		}
		if ok {
			value = old.text + " " + value
		}
	}
	if l.rule != nil {
		l.rule[name] = flowValue{value, line}
		return
	}
	category := l.category
	if name == "CATEGORY" || mode == '+' {
		category = defaultCategory
	}
	if len(value) > reader.MaxText {
		l.fail("bound", line, "%s", reader.TooLong)
	}
	if l.vars[category] == nil {
		l.vars[category] = map[string][]flowAssigned{}
	}
	of := l.vars[category]
	if last := len(of[name]) - 1; last >= 0 && of[name][last].rule == len(l.rules) {
		of[name] = of[name][:last]
		l.grow(len(value) / 64) // the value before goes; copying it takes time
	} else {
		l.grow(len(value))
	}
	of[name] = append(of[name], flowAssigned{flowValue{value, line}, len(l.rules)})
	if name == "CATEGORY" || name == "SYMBOL" {
		l.category = cmp.Or(strings.Trim(value, `"' `), defaultCategory)
	}
}

// of is the value that a variable of a category has at a rule.
func (r *makeReader) of(category, name string, rule int) (flowValue, bool) {
	all := r.vars[category][name]
	i := sort.Search(len(all), func(i int) bool { return all[i].rule > rule })
	if i == 0 {
		return flowValue{}, false
	}
	return all[i-1].flowValue, true
}

// lookup is the value of a variable: given by --define, of the rule, of its category, of the file.
func (r *makeReader) lookup(name, category string, local map[string]flowValue, rule int) (flowValue, bool) {
	r.b.opt.uses(name)
	if v, ok := r.b.opt.Define[name]; ok {
		return flowValue{text: v}, true
	}
	if v, ok := local[name]; ok {
		return v, true
	}
	if v, ok := r.of(category, name, rule); ok {
		return v, true
	}
	return r.of(defaultCategory, name, rule)
}

// substituted is the value of a variable that is referred to.
func (l *lexer) substituted() string {
	line := l.line
	l.next()
	closer := map[byte]byte{'(': ')', '{': '}'}[l.peek()]
	name := ""
	if closer != 0 {
		l.next()
		name = l.until(nameEnds)
		if l.peek() != closer {
			l.fail("syntax", line, "a reference to variable %q is not closed with %q", name, closer)
		}
		l.next()
	} else {
		start := l.at
		for !l.ended() && inName(l.peek()) {
			l.at++
		}
		name = l.text[start:l.at]
	}
	if name == "" {
		l.fail("syntax", line, "a $ without the name of a variable: write \\$ for the character, so that the shell "+
			"sees it, or put it between single quotes")
	}
	category := l.category
	if v, ok := l.rule["CATEGORY"]; ok {
		category = strings.Trim(v.text, `"' `)
	}
	v, ok := l.lookup(name, category, l.rule, len(l.rules))
	if !ok {
		l.undefined(name, line)
	}
	return v.text
}

// inName reports whether a character can be part of the name of a variable that stands without parentheses.
func inName(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// undefined reports a variable that nobody sets, once.
func (l *lexer) undefined(name string, line int) {
	if l.unknown[name] {
		return
	}
	l.unknown[name] = true
	if l.b.faults.Full() { // counted, and no longer compared with all names
		l.b.undefined(name, line, nil)
		return
	}
	l.b.undefined(name, line, slices.Concat(slices.Collect(maps.Keys(l.vars[defaultCategory])),
		slices.Collect(maps.Keys(l.vars[l.category]))))
}

// undefined reports a variable that nobody sets.
func (b *builder) undefined(name string, line int, known []string) {
	slices.Sort(known)
	near := spelling.Nearest(name, known)
	if near != "" {
		near = " (did you mean " + near + "?)"
	}
	b.faults.Fail("undefined-variable", line, "", "variable %s is set neither in the file before it is used nor with "+
		"--define %s=VALUE%s", name, name, near)
}

// escaped reads up to one of the characters; a backslash takes the meaning from the character behind it, and a line
// that ends with one continues as if with a blank.
func (l *lexer) escaped(out *strings.Builder, ends string) {
	for !l.ended() {
		c := l.peek()
		if c == '\\' && l.at+1 < len(l.text) {
			l.next()
			if c = l.next(); c == '\n' {
				c = ' '
			}
			out.WriteByte(c)
			continue
		}
		if strings.IndexByte(ends, c) >= 0 && c != '\\' {
			return
		}
		out.WriteByte(l.next())
	}
}

// quote writes a quote, if quotes stay.
func quote(out *strings.Builder, c byte, stays bool) {
	if stays {
		out.WriteByte(c)
	}
}

func (l *lexer) double(out *strings.Builder, stays bool) {
	l.next()
	line := l.line
	quote(out, '"', stays)
	if l.expand(out, '"', stays); l.ended() {
		l.fail("open-quote", line, "a double quote is not closed")
	}
	l.next()
	quote(out, '"', stays)
}

func (l *lexer) single(out *strings.Builder, stays bool) {
	line, from := l.line, l.at
	l.next()
	quote(out, '\'', stays)
	l.escaped(out, "'")
	l.dropped = l.dropped || strings.Contains(strings.ReplaceAll(l.text[from:l.at], "\\\n", ""), `\`)
	if l.ended() {
		l.fail("open-quote", line, "a single quote is not closed")
	}
	l.next()
	quote(out, '\'', stays)
}

// samePair matches what means the same to a shell outside of quotes once makeflow has read it, and dollar signs, which
// it has to have with a backslash: one backslash before a character that means nothing to a shell, and two before
// others.
var samePair = regexp.MustCompile(`(?s)\\(?:[^\\ \t|&;<>()"'` + "`*" + `?\[\]{}~!#]|` +
	`\\(?:\\.|[ \t|&;<>()*?\[\]{}~!#]))`)

// escapes are the characters that stand for others behind a backslash, in values and double quotes.
var escapes = map[byte]byte{'a': 7, 'b': 8, 'f': 12, 'n': 10, 'r': 13, 't': 9, 'v': 11}

// expand reads a text with variables up to end: a double quote, or the end of the line. quotes says that single and
// double quotes within it stay.
func (l *lexer) expand(out *strings.Builder, end byte, quotes bool) {
	line := l.line
	l.blanks()
	for !l.ended() {
		switch c := l.peek(); {
		case c == end:
			return
		case c == '$':
			v := l.substituted()
			l.room(out, len(v))
			out.WriteString(v)
		case c == '\'' && l.closes(end):
			l.single(out, quotes)
		case c == '"':
			l.double(out, quotes)
		case c == '#' && end == '\n':
			l.comment()
			return
		case c == '\\' && l.at+1 < len(l.text):
			l.next()
			c = l.next()
			if special, ok := escapes[c]; ok {
				c = special
			} else if c == '\n' {
				c = ' '
			}
			l.dropped = l.dropped || c != ' ' && c != '$' && (end == '"' || c != '#')
			out.WriteByte(c)
		default:
			out.WriteByte(l.next())
		}
	}
	if end == '"' && l.depth == 0 {
		l.fail("open-quote", line, "a double quote is not closed")
	}
}

// closes reports whether the single quote here is closed before the double quote around it is.
func (l *lexer) closes(end byte) bool {
	if end != '"' {
		return true
	}
	at := strings.IndexAny(l.text[l.at+1:], `'"`)
	return at >= 0 && l.text[l.at+1+at] == '\''
}

// room counts bytes that are written to a bounded text.
func (l *lexer) room(out *strings.Builder, bytes int) {
	l.grow(bytes)
	if out.Len()+bytes > reader.MaxText {
		l.fail("bound", l.line, "%s", reader.TooLong)
	}
}

// inner is a reader of a value that is substituted.
func (l *lexer) inner(value string) *lexer {
	if l.depth+1 > maxSubstitutions {
		l.fail("bound", l.line, "values of variables refer to each other deeper than %d", maxSubstitutions)
	}
	l.grow(len(value))
	return &lexer{makeReader: l.makeReader, text: value, line: l.line, depth: l.depth + 1, rule: l.rule}
}

// command reads a command up to the end of its line.
func (l *lexer) command() string {
	var out strings.Builder
	l.arguments(&out)
	l.endLine()
	return out.String()
}

func (l *lexer) arguments(out *strings.Builder) {
	start := l.at
	if l.blanks(); l.depth > 0 && l.at > start {
		out.WriteByte(' ')
	}
	for !l.ended() {
		switch c := l.peek(); {
		case c == '\n' && l.depth == 0:
			return
		case c == '#' && l.depth == 0:
			l.dropped = l.dropped || !strings.ContainsAny(l.text[l.at-1:l.at], " \t;")
			l.comment()
			return
		case c == ' ' || c == '\t':
			l.blanks()
			out.WriteByte(' ')
		case c == '$':
			inner := l.inner(l.substituted())
			l.room(out, len(inner.text))
			inner.arguments(out)
		case c == '"':
			from, dropped := l.at+1, l.dropped
			l.double(out, true)
			l.dropped = dropped || otherwiseToAShell(l.text[from:l.at-1])
		case c == '\'':
			l.single(out, true)
		case c == '#' || c == '\n' || c == '\\' && l.at+1 == len(l.text):
			out.WriteByte(l.next())
		default:
			from := l.at
			l.escaped(out, literalEnds)
			l.dropped = l.dropped || strings.Contains(samePair.ReplaceAllString(l.text[from:l.at], ""), `\`)
		}
	}
}

// otherwiseToAShell reports whether a text between double quotes means something else to a shell once makeflow has
// read it. Of two backslashes the shell itself drops one, unless that takes the meaning from the text behind them.
func otherwiseToAShell(text string) bool {
	if strings.HasPrefix(text, " ") || strings.HasPrefix(text, "\t") {
		return true // makeflow drops these blanks
	}
	for ; ; text = text[2:] {
		if text = text[max(0, strings.IndexByte(text, '\\')):]; len(text) < 2 || text[0] != '\\' {
			return false
		}
		kept := text[1] == '$' || text[1] == '\n' ||
			text[1] == '\\' && len(text) > 2 && strings.IndexByte("$`\"\\", text[2]) < 0
		if !kept {
			return true
		}
	}
}

// A list of files is read as a text in which control characters stand between names, for a colon, and for ->.
const (
	listBlank = "\x1f"
	listColon = "\x1d"
	listArrow = "\x1e"
)

// shownList writes such a list as people do.
var shownList = strings.NewReplacer(listBlank+listColon+listBlank, ":", listBlank+listArrow+listBlank, "->",
	listBlank, " ")

func (l *lexer) fileList(out *strings.Builder) {
	sign := func(length int, sign string) {
		for range length {
			l.next()
		}
		out.WriteString(sign)
	}
	for !l.ended() {
		before := out.Len()
		switch c := l.peek(); {
		case c == '\n' && l.depth == 0, c == '#' && l.depth == 0:
			return
		case strings.HasPrefix(l.text[l.at:], "\\\n"):
			sign(2, listBlank)
		case c == ' ' || c == '\t' || c == '\n':
			sign(1, listBlank)
		case c == ':':
			sign(1, listBlank+listColon+listBlank)
		case strings.HasPrefix(l.text[l.at:], "->"):
			sign(2, listBlank+listArrow+listBlank)
		case c == '$':
			l.inner(l.substituted()).fileList(out)
		case c == '\'':
			l.single(out, false)
		case c == '"':
			l.double(out, false)
		case c == '-' || c == '#' || c == '\\' && l.at+1 == len(l.text):
			out.WriteByte(l.next())
		default:
			l.escaped(out, fileNameEnds)
		}
		l.grow(out.Len() - before)
	}
}

// tellDropped warns where a text changed for the shell, and shows it as it is now.
func (l *lexer) tellDropped(what, text string, line int) {
	if l.dropped {
		l.b.faults.WarnUpTo(reader.MaxErrors, "backslash", line, "", "makeflow drops a backslash everywhere, "+
			`blanks behind a double quote, and all behind a # outside of quotes; in values and double quotes \t is `+
			`a tab: to keep a backslash, write two, to keep others, use single quotes; %s is now: %s`, what, text)
	}
	l.dropped = false
}

// ruleHere reads a rule with its variables and its command.
func (l *lexer) ruleHere() {
	r := flowRule{line: l.line, category: l.category}
	l.dropped = false
	var list strings.Builder
	l.fileList(&list)
	if l.dropped {
		l.tellDropped("the list of files", shownList.Replace(list.String()), r.line)
	}
	l.endLine()
	l.files(&r, list.String())
	l.rule = map[string]flowValue{}
	defer func() { l.rule = nil }()
	for {
		if l.ended() {
			l.fail("truncated", r.line, "the rule has no command: write it on the next line, behind a tab")
		}
		c := l.peek()
		if c == ' ' || c == '\t' {
			line := l.line
			l.dropped = false
			if command := strings.TrimSpace(l.command()); command != "" {
				l.finishRule(&r, command, line)
				return
			}
			continue
		}
		switch {
		case c == '\n' || c == '#':
			l.endLine()
		case c != '@' && l.before(':', '='):
			l.fail("syntax", r.line, "the rule has no command: write it on the next line, behind a tab")
		default:
			l.definition()
		}
	}
}

// files makes files of a list: those before the colon are written, those behind it read.
func (l *lexer) files(r *flowRule, list string) {
	to, as := &r.outputs, false
	for word := range strings.SplitSeq(list, listBlank) {
		switch {
		case word == "":
		case word == listColon && as:
			l.fail("syntax", r.line, "-> without a name behind it")
		case word == listColon && to == &r.inputs:
			l.fail("syntax", r.line, "a second colon in a list of files: write \\: in the name of a file")
		case word == listColon:
			to = &r.inputs
		case word == listArrow && (len(*to) == 0 || as):
			l.fail("syntax", r.line, "-> without a file before it")
		case word == listArrow:
			as = true
		case as:
			(*to)[len(*to)-1].as, as = word, false
		default:
			l.grow(128)
			*to = append(*to, flowFile{name: word})
		}
	}
	if as {
		l.fail("syntax", r.line, "-> without a name behind it")
	}
}

// finishRule takes the words that say how a command is run off it.
func (l *lexer) finishRule(r *flowRule, command string, line int) {
	for {
		word, rest, _ := strings.Cut(command, " ")
		if word == "MAKEFLOW" {
			r.nested = cmp.Or(strings.TrimSpace(rest), "without a name")
		}
		if word != "LOCAL" && word != "MAKEFLOW" { // all commands run in containers
			break
		}
		if command = strings.TrimSpace(rest); command == "" {
			l.fail("syntax", line, "%s without a command", word)
		}
	}
	l.tellDropped("the command", command, line)
	if r.command = command; r.nested != "" {
		r.command = ""
	}
	if v, ok := l.rule["CATEGORY"]; ok {
		r.category = cmp.Or(strings.Trim(v.text, `"' `), defaultCategory)
	}
	l.grow(300)
	l.rules, l.local = append(l.rules, *r), append(l.local, l.rule)
}

// export reads "export NAME=value" or "export NAME NAME".
func (l *lexer) export() {
	line := l.line
	l.blanks()
	if l.before('=', 0) {
		name := l.until(nameEnds)
		if name == "" {
			l.fail("syntax", line, "export without the name of a variable")
		}
		l.assign(name, line)
		l.exported = append(l.exported, flowValue{name, line})
		return
	}
	names := 0
	for l.blanks(); !l.ended() && l.peek() != '\n' && l.peek() != '#'; l.blanks() {
		name := l.until(nameEnds)
		if name == "" {
			l.fail("syntax", line, "export: %q in place of the name of a variable", l.peek())
		}
		l.exported = append(l.exported, flowValue{name, line})
		l.grow(40 + len(name))
		names++
	}
	if names == 0 {
		l.fail("syntax", line, "export without the name of a variable")
	}
	l.endLine()
}

// directive reads ".MAKEFLOW KEY VALUE" or ".SIZE FILE SIZE".
func (l *lexer) directive(name string, line int) {
	var words []string
	for l.blanks(); !l.ended() && l.peek() != '\n' && l.peek() != '#'; l.blanks() {
		var out strings.Builder
		switch l.peek() {
		case '\'':
			l.single(&out, false)
		case '$':
			out.WriteString(l.substituted())
		case '"':
			l.double(&out, false)
		default:
			l.escaped(&out, literalEnds)
		}
		words = append(words, out.String())
		l.grow(16 + out.Len())
	}
	l.endLine()
	if len(words) != 2 {
		l.fail("syntax", line, "%s takes two values, such as .MAKEFLOW CORES 2 or .SIZE data.txt 10MB, and not %d",
			name, len(words))
	}
	switch key, value := words[0], words[1]; {
	case name == ".SIZE":
		f := l.b.file(key)
		n, err := reader.BinaryBytes(value, l.b.opt.sizeScale)
		l.b.sizeRead(f, value, n, err, false, line)
	case name == ".UMBRELLA":
		l.b.obstacle(line, "", ".UMBRELLA %s is not supported: name an image with --image", key)
	case name != ".MAKEFLOW":
		l.fail("syntax", line, "unknown directive %s: there are .MAKEFLOW and .SIZE", name)
	case key == "MODE":
		l.b.faults.Warn("not-honoured", line, "", ".MAKEFLOW MODE is not honoured: gantry gives tasks what they "+
			"ask for")
	case key == "CATEGORY" || slices.Contains(flowKeys, key):
		l.set(key, value, '=', line)
	default:
		l.fail("syntax", line, ".MAKEFLOW %s is unknown: %s", key, spelling.Hint(key, append([]string{"CATEGORY",
			"MODE"}, flowKeys...)))
	}
}

// finish makes tasks of the rules: only at the end it is known which variables are exported, and which resources
// categories need.
func (r *makeReader) finish() {
	b := r.b
	exported := map[string]bool{}
	for _, e := range r.exported {
		exported[e.text] = true
		b.opt.uses(e.text)
		_, known := b.opt.Define[e.text]
		for _, of := range r.vars {
			known = known || len(of[e.text]) > 0
		}
		for i := 0; i < len(r.local) && !known; i++ {
			_, known = r.local[i][e.text]
		}
		if !known && !r.unknown[e.text] {
			r.unknown[e.text] = true
			b.undefined(e.text, e.line, slices.Collect(maps.Keys(r.vars[defaultCategory])))
		}
	}
	if r.batch > 0 {
		b.faults.Warn("not-honoured", r.batch, "", "BATCH_OPTIONS is not honoured: it is for batch systems")
	}
	names := slices.Sorted(maps.Keys(exported))
	for i := range r.rules {
		rule := &r.rules[i]
		// The last value of a resource counts for a category; programs see the value set before their rule.
		rule.resources, rule.told = map[string]flowValue{}, map[string]flowValue{}
		for _, key := range flowKeys {
			v, ok := r.local[i][key]
			if !ok {
				v, ok = r.lookup(key, rule.category, nil, len(r.rules))
			}
			if ok {
				rule.resources[key] = flowValue{strings.Trim(v.text, `"' `), v.line}
			}
			if v, ok = r.lookup(key, rule.category, r.local[i], i); ok {
				rule.told[key] = v
			}
		}
		if v, ok := r.lookup(flowShell, rule.category, r.local[i], i); ok {
			rule.shell = strings.Trim(v.text, `"' `)
		}
		for _, name := range names {
			if v, ok := r.lookup(name, rule.category, r.local[i], i); ok {
				rule.env = append(rule.env, b.same(name+"="+v.text))
			}
		}
		if b.rule(rule); b.faults.Ended() {
			return
		}
	}
	if v, ok := r.lookup(flowResults, defaultCategory, nil, len(r.rules)); ok {
		b.keepResults(flowResults, strings.Fields(strings.NewReplacer(`"`, " ", "'", " ").Replace(v.text)), v.line)
	}
}
