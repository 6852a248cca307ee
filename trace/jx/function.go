package jx

import (
	"fmt"
	"maps"
	"math"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gantry/trace/reader"
	"gantry/trace/spelling"
)

// function is one that expressions call, with the bounds of the number of its arguments.
type function struct {
	least, most int
	call        func(c *calling) any
}

// functions by name. Those of the manual that read anything outside of the file but names in a directory are refused.
var functions map[string]function

func init() { // they call each other
	functions = map[string]function{
		"range": {1, 3, (*calling).rangeOf}, "format": {0, math.MaxInt, (*calling).format},
		"template": {1, 2, (*calling).template}, "join": {1, 2, (*calling).join}, "ceil": {1, 1, (*calling).round},
		"floor": {1, 1, (*calling).round}, "basename": {1, 2, (*calling).basename},
		"dirname": {1, 1, (*calling).dirname}, "escape": {1, 1, (*calling).escape}, "len": {1, 1, (*calling).length},
		"keys": {1, 1, (*calling).members}, "values": {1, 1, (*calling).members}, "items": {1, 1, (*calling).members},
		"schema": {1, 1, (*calling).schema}, "like": {2, 2, (*calling).like}, "listdir": {1, 1, (*calling).listdir},
		"select": {call: (*calling).filter}, "where": {call: (*calling).filter}, "project": {call: (*calling).filter},
	}
}

// calling is a call of a function.
type calling struct {
	e    *Evaluator
	n    *Node
	s    *scope
	args List // but of select, where and project, which evaluate their second argument themselves
}

func (c *calling) fail(format string, args ...any) {
	failAt(c.n.line, "%s(): %s", c.n.text, fmt.Sprintf(format, args...))
}

// given is an argument, or a part of one, of a type that it has to have.
func given[T any](c *calling, v any, must string) T {
	return as[T](v, c.n.line, "%s(): %s", c.n.text, must)
}

func (e *Evaluator) call(n *Node, s *scope) any {
	f := functions[n.text]
	switch {
	case n.text == "fetch":
		failAt(n.line, "fetch() is refused: gantry reads nothing but the workflow; put the values into it, or give "+
			"them with --define")
	case f.call == nil:
		failAt(n.line, "there is no function %s: %s", n.text,
			spelling.Hint(n.text, slices.Sorted(maps.Keys(functions))))
	}
	c := &calling{e: e, n: n, s: s}
	if f.most > 0 {
		c.args = e.eval(n.kids[0], s).(List)
		if n := len(c.args); n < f.least || n > f.most {
			want := strconv.Itoa(f.least)
			if f.most != f.least {
				want += " to " + strconv.Itoa(f.most)
			}
			c.fail("it takes %s arguments, and not %d", want, n)
		}
	}
	return f.call(c)
}

func (c *calling) string(i int) string {
	s, ok := c.args[i].(string)
	if !ok {
		c.fail("argument %d has to be a text, and is %s", i+1, text(c.args[i]))
	}
	return s
}

func (c *calling) rangeOf() any {
	numbers := make([]int64, len(c.args))
	for i, a := range c.args {
		numbers[i] = given[int64](c, a, "its arguments have to be whole numbers, and one is "+text(a))
	}
	start, stop, step := int64(0), numbers[0], int64(1)
	if len(numbers) > 1 {
		start, stop = numbers[0], numbers[1]
	}
	if len(numbers) > 2 {
		step = numbers[2]
	}
	if step == 0 {
		c.fail("a step of 0")
	}
	out := List{}
	for i := start; step > 0 && i < stop || step < 0 && i > stop; {
		c.e.step(c.n.line, 1)
		c.e.made(c.n.line, 24)
		out = append(out, i)
		next := i + step
		if (next > i) != (step > 0) { // overflow
			break
		}
		i = next
	}
	return out
}

// made is a text that the function made.
func (c *calling) made(b *strings.Builder) any {
	if b.Len() > reader.MaxText {
		panic(&Error{c.n.line, "bound", reader.TooLong})
	}
	c.e.made(c.n.line, b.Len()+16)
	c.e.step(c.n.line, b.Len()/1024)
	return b.String()
}

func (c *calling) format() any {
	if len(c.args) == 0 {
		c.fail("it takes a format")
	}
	var b strings.Builder
	format, rest := c.string(0), c.args[1:]
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			b.WriteByte(format[i])
			continue
		}
		if i++; i == len(format) {
			c.fail("the format ends with %%")
		}
		if format[i] == '%' {
			b.WriteByte('%')
			continue
		}
		if len(rest) == 0 {
			c.fail("there is no argument for %%%c", format[i])
		}
		s, ok := formatted(format[i], rest[0])
		if !ok {
			c.fail("%%%c does not format %s", format[i], text(rest[0]))
		}
		b.WriteString(s)
		rest = rest[1:]
		if b.Len() > reader.MaxText {
			break
		}
	}
	if len(rest) > 0 && b.Len() <= reader.MaxText {
		c.fail("%d arguments too many", len(rest))
	}
	return c.made(&b)
}

func formatted(verb byte, v any) (string, bool) {
	switch x := v.(type) {
	case int64:
		return strconv.FormatInt(x, 10), verb == 'd' || verb == 'i'
	case string:
		return x, verb == 's'
	case float64:
		switch verb {
		case 'e', 'E', 'f', 'F', 'g', 'G':
			return fmt.Sprintf(map[bool]string{true: "%.6", false: "%"}[verb|0x20 == 'g']+string(verb), x), true
		}
	}
	return "", false
}

func (c *calling) template() any {
	var more *Object
	if len(c.args) == 2 {
		more = given[*Object](c, c.args[1], "argument 2 has to be an object")
	}
	var b strings.Builder
	for rest := c.string(0); rest != "" && b.Len() <= reader.MaxText; {
		at := strings.IndexAny(rest, "{}")
		if at < 0 {
			b.WriteString(rest)
			break
		}
		b.WriteString(rest[:at])
		switch rest = rest[at:]; {
		case strings.HasPrefix(rest, "{{"), strings.HasPrefix(rest, "}}"):
			b.WriteByte(rest[0])
			rest = rest[2:]
		case rest[0] == '}':
			c.fail("a } without a {")
		default:
			end := strings.IndexByte(rest, '}')
			if end < 0 {
				c.fail("a { without a }")
			}
			b.WriteString(c.named(strings.TrimSpace(rest[1:end]), more))
			rest = rest[end+1:]
		}
	}
	return c.made(&b)
}

var name = regexp.MustCompile(`^[A-Za-z_][A-Za-z_0-9]*$`)

// named is the value of a name in a template, as text.
func (c *calling) named(key string, more *Object) string {
	if !name.MatchString(key) {
		c.fail("{%s} is not the name of a variable", key)
	}
	v, ok := more.Get(key)
	if !ok {
		v = c.e.symbol(c.n, key, c.s)
	}
	switch x := v.(type) {
	case string:
		return x
	case int64, float64:
		return text(x)
	}
	c.fail("{%s} is %s, and neither a text nor a number", key, text(v))
	return ""
}

func (c *calling) join() any {
	with := " "
	if len(c.args) == 2 {
		with = c.string(1)
	}
	var b strings.Builder
	for i, item := range given[List](c, c.args[0], "argument 1 has to be a list") {
		s, ok := item.(string)
		if !ok {
			c.fail("the list has %s, which is no text", text(item))
		}
		if i > 0 {
			b.WriteString(with)
		}
		if b.WriteString(s); b.Len() > reader.MaxText {
			break
		}
	}
	return c.made(&b)
}

func (c *calling) round() any {
	switch x := c.args[0].(type) {
	case int64:
		return x
	case float64:
		if c.n.text == "ceil" {
			return math.Ceil(x)
		}
		return math.Floor(x)
	}
	c.fail("%s is no number", text(c.args[0]))
	return nil
}

func (c *calling) basename() any {
	s := path.Base(c.string(0))
	if c.args[0] == "" {
		s = "."
	}
	if len(c.args) == 2 {
		s = strings.TrimSuffix(s, c.string(1))
	}
	return s
}

func (c *calling) dirname() any {
	s := c.string(0)
	if t := strings.TrimRight(s, "/"); t != "" {
		s = t
	}
	return path.Dir(s)
}

// escape quotes a text for the shell.
func (c *calling) escape() any {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range []byte(c.string(0)) {
		if strings.IndexByte("\"\\$`", r) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(r)
	}
	b.WriteByte('"')
	return c.made(&b)
}

func (c *calling) length() any {
	return int64(len(given[List](c, c.args[0], "it takes a list")))
}

// members lists keys, values, or both; the last first, as makeflow does.
func (c *calling) members() any {
	out := List{}
	for _, p := range slices.Backward(given[*Object](c, c.args[0], "it takes an object").Pairs) {
		c.e.made(c.n.line, 80)
		switch c.n.text {
		case "keys":
			out = append(out, p.Key)
		case "values":
			out = append(out, p.Value)
		default:
			out = append(out, List{p.Key, p.Value})
		}
	}
	return out
}

func (c *calling) schema() any {
	const must = "it takes a list of objects"
	out := &Object{Line: c.n.line}
	for _, item := range given[List](c, c.args[0], must) {
		for _, p := range given[*Object](c, item, must).Pairs {
			if _, ok := out.Get(p.Key); !ok && len(out.Pairs) < reader.MaxKeys {
				c.e.made(c.n.line, 64)
				c.e.step(c.n.line, len(out.Pairs))
				out.Pairs = append(out.Pairs, Pair{p.Key, types[reflect.TypeOf(p.Value)], p.Line})
			}
		}
	}
	return out
}

// types are the names of the types of values.
var types = map[reflect.Type]string{nil: "null", reflect.TypeFor[bool](): "boolean",
	reflect.TypeFor[int64](): "integer", reflect.TypeFor[float64](): "float", reflect.TypeFor[string](): "string",
	reflect.TypeFor[List](): "array", reflect.TypeFor[*Object](): "object"}

func (c *calling) like() any {
	pattern := c.string(1)
	if len(pattern) > 1000 {
		c.fail("a pattern of more than 1000 characters")
	}
	re, err := regexp.CompilePOSIX(pattern)
	if err != nil {
		c.fail("%v", err)
	}
	c.e.step(c.n.line, 1+len(c.string(0))*len(pattern)/64)
	return re.MatchString(c.string(0))
}

func (c *calling) listdir() any {
	if c.e.List == nil {
		c.fail("there is no directory to look into: the workflow comes from standard input")
	}
	names, err := c.e.List(c.string(0))
	if err != nil {
		c.fail("%v", err)
	}
	out := List{}
	for _, name := range names {
		c.e.made(c.n.line, 40+len(name))
		out = append(out, name)
	}
	return out
}

// filter is select, where and project: the second argument is evaluated for each object of the list, whose members are
// variables.
func (c *calling) filter() any {
	args := c.n.kids[0].kids
	if len(args) != 2 {
		c.fail("it takes 2 arguments, and not %d", len(args))
	}
	const must = "argument 1 has to be a list of objects"
	out := List{}
	for _, item := range given[List](c, c.e.eval(args[0], c.s), must) {
		v := c.e.eval(args[1], &scope{outer: c.s, of: given[*Object](c, item, must)})
		c.e.made(c.n.line, 24)
		if c.n.text == "project" {
			out = append(out, v)
		} else if given[bool](c, v, "argument 2 has to be true or false") {
			out = append(out, item)
		}
	}
	return out
}
