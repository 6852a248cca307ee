package jx

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"gantry/trace/reader"
)

// Values are nil, bool, int64, float64, string, List and *Object.
type (
	List   []any
	Object struct {
		Line  int
		Pairs []Pair // in order; of equal keys the first counts
	}
	Pair struct {
		Key   string
		Value any
		Line  int
	}
)

// Get returns a member; nil, and false, if there is none.
func (o *Object) Get(key string) (any, bool) {
	if o != nil {
		for i := range o.Pairs {
			if o.Pairs[i].Key == key {
				return o.Pairs[i].Value, true
			}
		}
	}
	return nil, false
}

// Evaluator evaluates expressions.
type Evaluator struct {
	// Lookup returns the definition of a symbol that no comprehension binds: a *Node, or a value.
	Lookup func(name string) (any, bool)
	// Keep receives the bytes that values take, and says whether there is room.
	Keep func(bytes int) bool
	// List returns the names in a directory, sorted; nil: there are no directories to look into.
	List func(dir string) ([]string, error)

	steps, depth int
}

// maxSteps bounds the time of an evaluation, however little memory it keeps.
const maxSteps = 5_000_000

// scope is a variable of a comprehension, or the members of an object, over those outside of it.
type scope struct {
	outer *scope
	name  string
	value any
	of    *Object
}

// Eval evaluates an expression.
func (e *Evaluator) Eval(n *Node) (v any, err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *Error:
			err = r
		default:
			panic(r)
		}
	}()
	return e.eval(n, nil), nil
}

func failAt(line int, format string, args ...any) {
	panic(&Error{line, "expression", fmt.Sprintf(format, args...)})
}

// as is a value of a type; the message is of one of another type.
func as[T any](v any, line int, format string, args ...any) T {
	x, ok := v.(T)
	if !ok {
		failAt(line, format, args...)
	}
	return x
}

// made counts memory.
func (e *Evaluator) made(line, bytes int) {
	if !e.Keep(bytes) {
		panic(&Error{line, "bound", ""})
	}
}

func (e *Evaluator) step(line, n int) {
	if e.steps += n; e.steps > maxSteps {
		panic(&Error{line, "bound", fmt.Sprintf("evaluating it takes more than %d steps", maxSteps)})
	}
}

func (e *Evaluator) eval(n *Node, s *scope) any {
	e.step(n.line, 1)
	if e.depth++; e.depth > 4*reader.MaxDepth {
		panic(&Error{n.line, "bound", "expressions refer to each other too deeply, or in a circle"})
	}
	defer func() { e.depth-- }()
	switch n.kind {
	case constant:
		return n.value
	case symbol:
		return e.symbol(n, n.text, s)
	case list:
		return e.list(n, s)
	case object:
		return e.object(n, s)
	case unary:
		return e.unary(n, e.eval(n.kids[0], s))
	case chain:
		return e.chain(n, s)
	case lookup:
		return at(n, e.eval(n.kids[0], s), e.eval(n.kids[1], s))
	case slice:
		return e.slice(n, s)
	case call:
		return e.call(n, s)
	}
	failAt(n.line, "error: %s", text(e.eval(n.kids[0], s)))
	return nil
}

// symbol is the value of a name: of the innermost comprehension, else its definition.
func (e *Evaluator) symbol(n *Node, name string, s *scope) any {
	for ; s != nil; s = s.outer {
		if s.of != nil {
			if v, ok := s.of.Get(name); ok {
				return v
			}
		} else if s.name == name {
			return s.value
		}
	}
	v, ok := e.Lookup(name)
	if !ok {
		panic(&Error{n.line, "undefined-variable", name})
	}
	if def, ok := v.(*Node); ok {
		return e.eval(def, nil)
	}
	return v
}

func (e *Evaluator) list(n *Node, s *scope) List {
	out := make(List, 0, len(n.kids))
	for i, kid := range n.kids {
		e.each(n.comps[i], s, func(s *scope) {
			e.made(kid.line, 24)
			out = append(out, e.eval(kid, s))
		})
	}
	return out
}

func (e *Evaluator) object(n *Node, s *scope) *Object {
	o := &Object{Line: n.line}
	for i := 0; i < len(n.kids); i += 2 {
		e.each(n.comps[i/2], s, func(s *scope) {
			key := as[string](e.eval(n.kids[i], s), n.kids[i].line, "a key of an object has to be a text")
			if len(o.Pairs) >= reader.MaxKeys {
				panic(&Error{n.line, "bound", fmt.Sprintf("more than %d keys", reader.MaxKeys)})
			}
			e.made(n.line, 64)
			o.Pairs = append(o.Pairs, Pair{key, e.eval(n.kids[i+1], s), n.kids[i+1].line})
		})
	}
	return o
}

// each calls f for each binding of a comprehension; once if there is none.
func (e *Evaluator) each(c *clause, s *scope, f func(s *scope)) {
	if c == nil {
		f(s)
		return
	}
	for _, v := range as[List](e.eval(c.from, s), c.line, "for %s in what is no list", c.variable) {
		inner := &scope{outer: s, name: c.variable, value: v}
		e.step(c.line, 1)
		if c.where == nil || as[bool](e.eval(c.where, inner), c.line,
			"the condition after if is neither true nor false") {
			e.each(c.next, inner, f)
		}
	}
}

func (e *Evaluator) unary(n *Node, v any) any {
	switch x := v.(type) {
	case bool:
		if n.text == "not" || n.text == "!" {
			return !x
		}
	case int64:
		if n.text == "-" {
			return -x
		}
	case float64:
		if n.text == "-" {
			return -x
		}
	}
	if _, number := Text(v); number && n.text == "+" && v != true && v != false {
		return v
	}
	failAt(n.line, "%s %s: the operator does not apply", n.text, text(v))
	return nil
}

// chain evaluates operators of one precedence. Makeflow groups them from the right.
func (e *Evaluator) chain(n *Node, s *scope) any {
	if len(n.ops) == 0 {
		return e.eval(n.kids[0], s)
	}
	if op := n.ops[0]; op == "and" || op == "&&" || op == "or" || op == "||" {
		until := op == "or" || op == "||"
		for i, kid := range n.kids {
			v := as[bool](e.eval(kid, s), kid.line, "%s of what is neither true nor false", op)
			if v == until || i == len(n.kids)-1 {
				return v
			}
		}
	}
	values := make([]any, len(n.kids))
	for i, kid := range n.kids {
		values[i] = e.eval(kid, s)
	}
	v := values[len(values)-1]
	for i := len(n.ops) - 1; i >= 0; i-- {
		v = e.apply(n, n.ops[i], values[i], v)
	}
	return v
}

func (e *Evaluator) apply(n *Node, op string, a, b any) any {
	if x, ok := a.(int64); ok {
		if _, ok := b.(float64); ok {
			a = float64(x)
		}
	}
	if y, ok := b.(int64); ok {
		if _, ok := a.(float64); ok {
			b = float64(y)
		}
	}
	if op == "+" { // numbers and truths become text beside a text
		_, left := a.(string)
		_, right := b.(string)
		if left && !right && atomic(b) {
			b = text(b)
		} else if right && !left && atomic(a) {
			a = text(a)
		}
	}
	switch op {
	case "==":
		return equal(a, b)
	case "!=":
		return !equal(a, b)
	}
	var v any
	switch x := a.(type) {
	case int64:
		if y, ok := b.(int64); ok {
			v = integers(n, op, x, y)
		}
	case float64:
		if y, ok := b.(float64); ok {
			v = floats(n, op, x, y)
		}
	case string:
		if y, ok := b.(string); ok {
			v = e.texts(n, op, x, y)
		}
	case List:
		if y, ok := b.(List); ok && op == "+" {
			e.made(n.line, 16*(len(x)+len(y)))
			v = append(x[:len(x):len(x)], y...)
		}
	}
	if v == nil {
		failAt(n.line, "%s %s %s: the operator does not apply", text(a), op, text(b))
	}
	return v
}

func atomic(v any) bool {
	switch v.(type) {
	case int64, float64, bool:
		return true
	}
	return false
}

func integers(n *Node, op string, x, y int64) any {
	switch {
	case op != "/" && op != "%":
		return numbers(op, x, y)
	case y == 0:
		failAt(n.line, "%d %s 0: division by zero", x, op)
	case op == "/":
		return x / y
	}
	return x % y
}

func floats(n *Node, op string, x, y float64) any {
	switch {
	case op != "/" && op != "%":
		return numbers(op, x, y)
	case y == 0 || op == "%" && math.Abs(y) < 1:
		failAt(n.line, "%v %s %v: division by zero", x, op, y)
	case op == "/":
		return x / y
	}
	return float64(int64(x) % int64(y))
}

// numbers applies the operators that whole numbers and others have alike.
func numbers[T int64 | float64](op string, x, y T) any {
	switch op {
	case "+":
		return x + y
	case "-":
		return x - y
	case "*":
		return x * y
	}
	return compared(op, x < y, x == y)
}

func (e *Evaluator) texts(n *Node, op, x, y string) any {
	if op == "+" {
		e.made(n.line, len(x)+len(y))
		e.step(n.line, (len(x)+len(y))/1024)
		if len(x)+len(y) > reader.MaxText {
			panic(&Error{n.line, "bound", reader.TooLong})
		}
		return x + y
	}
	return compared(op, x < y, x == y)
}

// compared is the truth of a comparison; nil if op is none.
func compared(op string, less, same bool) any {
	switch op {
	case "<":
		return less
	case "<=":
		return less || same
	case ">":
		return !less && !same
	case ">=":
		return !less
	}
	return nil
}

func equal(a, b any) bool {
	switch x := a.(type) {
	case List:
		y, ok := b.(List)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !equal(x[i], y[i]) {
				return false
			}
		}
		return true
	case *Object:
		y, ok := b.(*Object)
		if !ok || len(x.Pairs) != len(y.Pairs) {
			return false
		}
		for _, p := range x.Pairs {
			v, ok := y.Get(p.Key)
			if !ok || !equal(p.Value, v) {
				return false
			}
		}
		return true
	}
	switch b.(type) {
	case List, *Object:
		return false
	}
	return a == b
}

func at(n *Node, of, index any) any {
	switch x := of.(type) {
	case *Object:
		if key, ok := index.(string); ok {
			v, ok := x.Get(key)
			if !ok {
				failAt(n.line, "there is no key %q", key)
			}
			return v
		}
	case List:
		if i, ok := index.(int64); ok {
			if i < 0 {
				i += int64(len(x))
			}
			if i < 0 || i >= int64(len(x)) {
				failAt(n.line, "index %v is out of range: the list has %d", index, len(x))
			}
			return x[i]
		}
	}
	failAt(n.line, "%s[%s]: only lists have positions, only objects have keys", text(of), text(index))
	return nil
}

func (e *Evaluator) slice(n *Node, s *scope) any {
	of := as[List](e.eval(n.kids[0], s), n.line, "only lists have slices")
	size := int64(len(of))
	bounds := [2]int64{0, size}
	for i, kid := range n.kids[1:] {
		if kid == nil {
			continue
		}
		bounds[i] = as[int64](e.eval(kid, s), kid.line, "a bound of a slice has to be a whole number")
		if bounds[i] < 0 {
			bounds[i] += size
		}
		bounds[i] = min(max(bounds[i], 0), size)
	}
	return of[bounds[0]:max(bounds[0], bounds[1])]
}

// text is a value as makeflow prints it.
func text(v any) string {
	var b strings.Builder
	write(&b, v)
	return b.String()
}

const maxShown = 200

func write(b *strings.Builder, v any) {
	if b.Len() > maxShown {
		return
	}
	switch x := v.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString(strconv.FormatBool(x))
	case int64:
		b.WriteString(strconv.FormatInt(x, 10))
	case float64:
		b.WriteString(strconv.FormatFloat(x, 'g', 16, 64))
	case string:
		b.WriteString(strconv.Quote(x[:min(len(x), maxShown)]))
	case List:
		b.WriteByte('[')
		for i, item := range x {
			if i > 0 {
				b.WriteByte(',')
			}
			write(b, item)
			if b.Len() > maxShown {
				b.WriteString("...")
				break
			}
		}
		b.WriteByte(']')
	case *Object:
		b.WriteString("{...}")
	}
}

// Text is a text, a number or a truth as text; false for other values.
func Text(v any) (string, bool) {
	if s, ok := v.(string); ok {
		return s, true
	}
	return text(v), atomic(v)
}
