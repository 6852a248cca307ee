// Package jx reads and evaluates JX, the expressions over JSON in which makeflows are written: the "JX Expression
// Language Reference" of the Cooperative Computing Tools. Reading and evaluation have bounds: of depth, of steps, and
// of the memory that the caller grants.
package jx

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gantry/trace/reader"
)

// Error is a fault of a text, with its line.
type Error struct {
	Line    int
	Rule    string // "syntax", "bound", "undefined-variable" or "expression"
	Message string
}

func (e *Error) Error() string { return e.Message }

type kind uint8

const (
	constant kind = iota // value
	symbol               // text
	list                 // kids, comps
	object               // kids: key, value, key, value...; comps by pair
	unary                // text, kids[0]
	chain                // kids joined by ops, all of one precedence
	lookup               // kids[0][kids[1]]
	slice                // kids[0][kids[1]:kids[2]], either of which may be nil
	call                 // text(kids[0], a list)
	failure              // error(kids[0])
)

// Node is an expression.
type Node struct {
	kind  kind
	line  int
	text  string
	value any
	kids  []*Node
	ops   []string
	comps []*clause // of lists and objects, nil where there is none
}

// Line is where the expression begins.
func (n *Node) Line() int { return n.line }

// Member returns a member of an object as it is written; nil if there is none.
func (n *Node) Member(key string) *Node {
	if n == nil || n.kind != object {
		return nil
	}
	for i := 0; i < len(n.kids); i += 2 {
		if n.kids[i].kind == constant && n.kids[i].value == key && n.comps[i/2] == nil {
			return n.kids[i+1]
		}
	}
	return nil
}

// Keys lists the keys of an object that are written as texts.
func (n *Node) Keys() (keys []string) {
	if n == nil || n.kind != object {
		return nil
	}
	for i := 0; i < len(n.kids); i += 2 {
		if key, ok := n.kids[i].value.(string); ok && n.kids[i].kind == constant {
			keys = append(keys, key)
		}
	}
	return keys
}

// clause is "for variable in from if where", and those that follow it.
type clause struct {
	line     int
	variable string
	from     *Node
	where    *Node
	next     *clause
}

// Grouped is an expression that makeflow groups from the right, and its manual from the left.
type Grouped struct {
	Line int
	Text string // its operators
}

// parser reads a text. keep receives the bytes that the tree takes, and says whether there is room.
type parser struct {
	text    string
	at      int
	line    int
	depth   int
	keep    func(bytes int) bool
	token   token
	grouped []Grouped
}

type token struct {
	kind byte // 'n' number, 's' string, 'a' name, 'o' operator or bracket, 0 end
	text string
	line int
	num  any
}

// Parse reads one expression, and notes where makeflow groups operators otherwise than its manual says.
func Parse(text string, keep func(bytes int) bool) (n *Node, grouped []Grouped, err error) {
	p := &parser{text: text, line: 1, keep: keep}
	defer func() {
		if e, ok := recover().(*Error); ok {
			err = e
		} else if n == nil {
			panic("jx: no error and no tree")
		}
	}()
	p.next()
	n = p.binary(top)
	if p.token.kind != 0 {
		p.fail("%s after the end of the workflow", p.token)
	}
	return n, p.grouped, nil
}

func (t token) String() string {
	if t.kind == 0 {
		return "the end of the file"
	}
	return strconv.Quote(t.text)
}

func (p *parser) fail(format string, args ...any) {
	rule := "syntax"
	if p.token.kind == 0 {
		rule = "truncated"
	}
	panic(&Error{p.line, rule, fmt.Sprintf(format, args...)})
}

func (p *parser) bound(message string) { panic(&Error{p.line, "bound", message}) }

// made counts memory.
func (p *parser) made(bytes int) {
	if !p.keep(bytes) {
		p.bound("")
	}
}

// node counts the memory of a node.
func (p *parser) node(n Node) *Node {
	p.made(200 + 16*len(n.kids) + len(n.text))
	return &n
}

func (p *parser) is(text string) bool {
	return p.token.text == text && (p.token.kind == 'o' || p.token.kind == 'a')
}

func (p *parser) expect(text string) {
	if !p.is(text) {
		p.fail("%s where %q should be", p.token, text)
	}
	p.next()
}

func (p *parser) next() {
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == '\n':
			p.line++
			p.at++
		case c == ' ' || c == '\t' || c == '\r':
			p.at++
		case c == '#':
			end := strings.IndexByte(p.text[p.at:], '\n')
			if end < 0 {
				end = len(p.text) - p.at
			}
			p.at += end
		default:
			p.lex(c)
			return
		}
	}
	p.token = token{line: p.line}
}

func letter(c byte) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func digit(c byte) bool  { return c >= '0' && c <= '9' }

// two are the operators of two characters.
var two = []string{"==", "!=", "<=", ">=", "&&", "||"}

func (p *parser) lex(c byte) {
	start := p.at
	p.token = token{kind: 'o', line: p.line, text: string(c)}
	switch {
	case c == '"':
		p.token.kind, p.token.text = 's', p.quoted()
		return
	case letter(c):
		for p.at < len(p.text) && (letter(p.text[p.at]) || digit(p.text[p.at])) {
			p.at++
		}
		p.token.kind, p.token.text = 'a', p.text[start:p.at]
	case digit(c) || c == '.' && p.at+1 < len(p.text) && digit(p.text[p.at+1]):
		p.number()
	case strings.IndexByte("{}[](),:;+-*/%!<>.=&|", c) >= 0:
		p.at++
		for _, op := range two {
			if strings.HasPrefix(p.text[start:], op) {
				p.token.text = op
				p.at++
				return
			}
		}
		if c == '=' || c == '&' || c == '|' {
			p.fail("a single %c, which has no meaning: write %c%c", c, c, c)
		}
	default:
		r, _ := utf8.DecodeRuneInString(p.text[start:])
		p.fail("%q where a value should be", r)
	}
	if len(p.token.text) > reader.MaxName {
		p.bound(reader.TooLongName)
	}
}

func (p *parser) number() {
	start := p.at
	for p.at < len(p.text) {
		c := p.text[p.at]
		sign := (c == '+' || c == '-') && strings.IndexByte("eE", p.text[p.at-1]) >= 0 && p.at > start
		if !digit(c) && c != '.' && c != 'e' && c != 'E' && !sign {
			break
		}
		p.at++
	}
	text := p.text[start:p.at]
	if len(text) > reader.MaxDigits {
		p.bound("a number of more than " + strconv.Itoa(reader.MaxDigits) + " characters")
	}
	p.token.kind, p.token.text = 'n', text
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		p.token.num = n
	} else if x, err := strconv.ParseFloat(text, 64); err == nil {
		p.token.num = x
	} else {
		p.fail("%q is not a number", text)
	}
}

// quoted reads a string; its backslash stands for one of JSON's escapes, or for the character that follows it.
func (p *parser) quoted() string {
	line := p.line
	var b strings.Builder
	for p.at++; ; p.at++ {
		if p.at >= len(p.text) {
			p.token = token{}
			p.line = line
			panic(&Error{line, "open-quote", "a quote is not closed"})
		}
		c := p.text[p.at]
		switch {
		case b.Len() > reader.MaxText:
			p.bound(reader.TooLong)
		case c == '"':
			p.at++
			if !utf8.ValidString(b.String()) {
				p.fail("a text that is not UTF-8; convert the file to UTF-8")
			}
			return b.String()
		case c == '\n':
			p.line++
			b.WriteByte(c)
		case c != '\\' || p.at+1 >= len(p.text):
			b.WriteByte(c)
		default:
			p.at++
			p.escape(&b)
		}
	}
}

// escapes are the characters that stand for others behind a backslash.
var escapes = map[byte]byte{'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

func (p *parser) escape(b *strings.Builder) {
	c := p.text[p.at]
	if r, ok := escapes[c]; ok {
		b.WriteByte(r)
		return
	}
	if c == 'u' {
		n, err := strconv.ParseUint(p.text[p.at+1:min(p.at+5, len(p.text))], 16, 32)
		if err != nil || p.at+5 > len(p.text) {
			p.fail("\\u without four hexadecimal digits in a string")
		}
		b.WriteRune(rune(n))
		p.at += 4
		return
	}
	if c == '\n' {
		p.line++
	}
	b.WriteByte(c)
}

// levels are the binary operators by precedence, as makeflow has it: those of the lowest level bind tightest.
var levels = [][]string{
	{"*", "/", "%"},
	{"+", "-"},
	{"==", "!=", "<=", "<", ">=", ">"},
	{"or", "||"},
	{"and", "&&"},
}

const top = 4

func (p *parser) enter() {
	if p.depth++; p.depth > reader.MaxDepth {
		p.bound(fmt.Sprintf("nested deeper than %d", reader.MaxDepth))
	}
}

// binary reads operands joined by operators of one level.
func (p *parser) binary(level int) *Node {
	operand := func() *Node {
		if level == 0 {
			return p.unary()
		}
		return p.binary(level - 1)
	}
	first := operand()
	n := Node{kind: chain, line: first.line, kids: []*Node{first}}
	for {
		i := slices.IndexFunc(levels[level], p.is)
		if i < 0 {
			break
		}
		p.next()
		n.ops, n.kids = append(n.ops, levels[level][i]), append(n.kids, operand())
		p.made(16)
	}
	if len(n.ops) == 0 {
		return first
	}
	p.noteGrouping(&n)
	return p.node(n)
}

// noteGrouping notes a chain whose value depends on how it is grouped.
func (p *parser) noteGrouping(n *Node) {
	for i := range n.ops[1:] {
		if op := n.ops[i]; strings.Contains("- / %", op) || op == "*" && n.ops[i+1] != "*" {
			if len(p.grouped) < reader.MaxErrors {
				p.grouped = append(p.grouped, Grouped{n.line, "a " + op + " b " + n.ops[i+1] + " c"})
			}
			return
		}
	}
}

func (p *parser) unary() *Node {
	p.enter()
	defer func() { p.depth-- }()
	line := p.line
	switch {
	case p.is("-"), p.is("+"), p.is("not"), p.is("!"):
		op := p.token.text
		p.next()
		return p.node(Node{kind: unary, line: line, text: op, kids: []*Node{p.unary()}})
	case p.is("error"):
		p.next()
		p.expect("(")
		n := p.node(Node{kind: failure, line: line, kids: []*Node{p.binary(top)}})
		p.expect(")")
		return n
	}
	return p.postfix(p.atom())
}

func (p *parser) atom() *Node {
	t := p.token
	switch {
	case t.kind == 'n':
		p.next()
		return p.node(Node{line: t.line, value: t.num})
	case t.kind == 's':
		p.next()
		p.made(len(t.text))
		return p.node(Node{line: t.line, value: t.text})
	case t.kind == 'a':
		return p.name()
	case p.is("("):
		p.next()
		n := p.binary(top)
		p.expect(")")
		return p.node(Node{kind: chain, line: n.line, kids: []*Node{n}})
	case p.is("["):
		p.next()
		return p.items("]", t.line)
	case p.is("{"):
		return p.pairs()
	}
	p.fail("%s where a value should be", t)
	return nil
}

func (p *parser) name() *Node {
	t := p.token
	switch t.text {
	case "true", "false":
		p.next()
		return p.node(Node{line: t.line, value: t.text == "true"})
	case "null":
		p.next()
		return p.node(Node{line: t.line})
	case "for", "in", "if", "and", "or", "not":
		p.fail("%s where a value should be", t)
	}
	p.next()
	return p.node(Node{kind: symbol, line: t.line, text: t.text})
}

// items reads the rest of a list, or of arguments; a comma may follow the last one.
func (p *parser) items(end string, line int) *Node {
	n := Node{kind: list, line: line}
	p.separated(end, 24, func() {
		n.kids, n.comps = append(n.kids, p.binary(top)), append(n.comps, p.clauses())
	})
	return p.node(n)
}

// separated reads items, each of which takes so many bytes, between commas and up to an end.
func (p *parser) separated(end string, bytes int, item func()) {
	for !p.is(end) {
		item()
		if p.made(bytes); p.is(end) {
			break
		}
		if !p.is(",") {
			p.fail("%s where a comma or %q should be", p.token, end)
		}
		p.next()
	}
	p.next()
}

func (p *parser) pairs() *Node {
	n := Node{kind: object, line: p.token.line}
	p.next()
	p.separated("}", 32, func() {
		key := p.binary(top)
		p.expect(":")
		n.kids = append(n.kids, key, p.binary(top))
		n.comps = append(n.comps, p.clauses())
	})
	return p.node(n)
}

// clauses reads the clauses after an item of a list comprehension; nil if there are none.
func (p *parser) clauses() *clause {
	if !p.is("for") {
		return nil
	}
	p.enter()
	defer func() { p.depth-- }()
	c := &clause{line: p.line}
	p.next()
	if p.token.kind != 'a' {
		p.fail("%s after for, where the name of a variable should be", p.token)
	}
	c.variable = p.token.text
	p.next()
	p.expect("in")
	c.from = p.binary(top)
	if p.is("if") {
		p.next()
		c.where = p.binary(top)
	}
	c.next = p.clauses()
	return c
}

// postfix reads the operators after a value: [index], [from:to], (arguments), .method(arguments).
func (p *parser) postfix(n *Node) *Node {
	for {
		line := p.line
		switch {
		case p.is("["):
			p.next()
			n = p.index(n, line)
		case p.is("("):
			if n.kind != symbol {
				p.fail("arguments after what is no function")
			}
			p.next()
			n = p.node(Node{kind: call, line: line, text: n.text, kids: []*Node{p.items(")", line)}})
		case p.is("."):
			p.next()
			if p.token.kind != 'a' {
				p.fail("%s after a dot, where a function should be", p.token)
			}
			name := p.token.text
			p.next()
			p.expect("(")
			args := p.items(")", line)
			args.kids, args.comps = append([]*Node{n}, args.kids...), append([]*clause{nil}, args.comps...)
			n = p.node(Node{kind: call, line: line, text: name, kids: []*Node{args}})
			p.enter() // each adds a level; unwound with the operand
			defer func() { p.depth-- }()
		default:
			return n
		}
	}
}

func (p *parser) index(n *Node, line int) *Node {
	var from, to *Node
	if !p.is(":") {
		from = p.binary(top)
	}
	if !p.is(":") {
		p.expect("]")
		return p.node(Node{kind: lookup, line: line, kids: []*Node{n, from}})
	}
	p.next()
	if !p.is("]") {
		to = p.binary(top)
	}
	p.expect("]")
	return p.node(Node{kind: slice, line: line, kids: []*Node{n, from, to}})
}
