package sqlite

import (
	"reflect"
	"unicode/utf8"
)

// quick reads what appendStruct writes, as encoding/json does, in a small part of the time: a server that starts again
// reads a body for each event of its log. Anything else, however valid, it leaves to encoding/json.
type quick struct {
	text []byte
	at   int
}

// quickly reads a whole text into a struct, and reports whether it could. If not, the struct may have changed.
func quickly[T any](text []byte, into *T) bool {
	q := &quick{text: text}
	return q.structure(reflect.ValueOf(into).Elem()) && q.at == len(text)
}

// is reports whether a character comes next, and passes it.
func (q *quick) is(c byte) bool {
	if q.at < len(q.text) && q.text[q.at] == c {
		q.at++
		return true
	}
	return false
}

// structure reads an object whose members are in the order of the fields.
func (q *quick) structure(v reflect.Value) bool {
	if !q.is('{') {
		return false
	}
	if q.is('}') {
		return true
	}
	fields := fieldsOf(v.Type())
	for i := range fields {
		f := &fields[i]
		if rest := q.text[q.at:]; len(rest) < len(f.key) || string(rest[:len(f.key)]) != f.key {
			continue
		}
		q.at += len(f.key)
		switch {
		case !q.value(v.Field(i), f.kind):
			return false
		case q.is('}'):
			return true
		case !q.is(','):
			return false
		}
	}
	return false
}

func (q *quick) value(v reflect.Value, kind reflect.Kind) bool {
	switch kind {
	case reflect.Int, reflect.Int32, reflect.Int64:
		n, ok := q.number()
		if ok = ok && !v.OverflowInt(n); ok {
			v.SetInt(n)
		}
		return ok
	case reflect.Uint8:
		n, ok := q.number()
		if ok = ok && n == int64(uint8(n)); ok {
			v.SetUint(uint64(n))
		}
		return ok
	case reflect.Bool:
		ok := q.is('1')
		v.SetBool(true)
		return ok
	case reflect.String:
		s, ok := q.string()
		v.SetString(s)
		return ok
	case reflect.Array:
		return q.list(func(i int) bool { return i < v.Len() && q.value(v.Index(i), v.Index(i).Kind()) }, v.Len())
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 { // encoding/json has them as a text
			return false
		}
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		return q.list(func(i int) bool {
			v.Grow(1)
			v.SetLen(i + 1)
			return q.value(v.Index(i), v.Index(i).Kind())
		}, -1)
	case reflect.Struct:
		if !flatTypes[v.Type()] {
			return q.structure(v)
		}
		sep := byte('[')
		return eachNumber(v, func(n reflect.Value) bool {
			ok := q.is(sep) && q.value(n, n.Kind())
			sep = ','
			return ok
		}) && q.is(']')
	}
	return false
}

// list reads an array of n members; -1: of any number.
func (q *quick) list(member func(i int) bool, n int) bool {
	if !q.is('[') {
		return false
	}
	i := 0
	for !q.is(']') {
		if i > 0 && !q.is(',') || !member(i) {
			return false
		}
		i++
	}
	return n < 0 || i == n
}

// number reads a whole number as JSON has it, of at most 18 digits.
func (q *quick) number() (n int64, ok bool) {
	minus := q.is('-')
	from := q.at
	for q.at < len(q.text) && q.text[q.at] >= '0' && q.text[q.at] <= '9' && q.at-from < 18 {
		n = 10*n + int64(q.text[q.at]-'0')
		q.at++
	}
	if minus {
		n = -n
	}
	return n, q.at > from && (q.text[from] != '0' || q.at == from+1)
}

// string reads a text without escapes.
func (q *quick) string() (string, bool) {
	if !q.is('"') {
		return "", false
	}
	from := q.at
	for ; q.at < len(q.text) && q.text[q.at] != '"'; q.at++ {
		if c := q.text[q.at]; c < ' ' || c == '\\' {
			return "", false
		}
	}
	text := q.text[from:q.at]
	return string(text), q.is('"') && utf8.Valid(text)
}
