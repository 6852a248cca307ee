package sqlite

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"unicode/utf8"

	"gantry/planner"
)

// The log writes structs as JSON by their json tags, as encoding/json does, with four differences: members that are
// zero (of slices: nil) are left out, true is 1, a text of tag invalid:"base64" that is not UTF-8 is a member
// NAME_base64, and the types of flatTypes are arrays. It is several times as fast as encoding/json, which reads what it
// wrote.

// flatTypes are structs that are written as the array of all their numbers: there are many of them.
var flatTypes = map[reflect.Type]bool{reflect.TypeFor[planner.Wait](): true}

// field is a member of a struct.
type field struct {
	key    string // "name":
	base64 string // "name_base64":, or "" if the member has none
	kind   reflect.Kind
}

var fieldsByType sync.Map // of reflect.Type: []field

func fieldsOf(t reflect.Type) []field {
	if known, ok := fieldsByType.Load(t); ok {
		return known.([]field)
	}
	fields := make([]field, t.NumField())
	for i := range fields {
		f := t.Field(i)
		name := f.Tag.Get("json")
		fields[i] = field{key: strconv.Quote(name) + ":", kind: f.Type.Kind()}
		if f.Tag.Get("invalid") == "base64" {
			fields[i].base64 = strconv.Quote(name+"_base64") + ":"
		}
	}
	fieldsByType.Store(t, fields)
	return fields
}

// member appends the key of a member.
func member(buf []byte, key string) []byte {
	if buf[len(buf)-1] != '{' {
		buf = append(buf, ',')
	}
	return append(buf, key...)
}

func appendStruct(buf []byte, v reflect.Value) ([]byte, error) {
	buf = append(buf, '{')
	fields := fieldsOf(v.Type())
	for i := range fields {
		f, x := &fields[i], v.Field(i)
		switch f.kind {
		case reflect.Int, reflect.Int32, reflect.Int64:
			if n := x.Int(); n != 0 {
				buf = strconv.AppendInt(member(buf, f.key), n, 10)
			}
			continue
		case reflect.String:
			if s := x.String(); f.base64 != "" && !utf8.ValidString(s) {
				text, err := json.Marshal([]byte(s))
				if err != nil {
					return buf, err
				}
				buf = append(member(buf, f.base64), text...)
				continue
			}
		}
		if x.IsZero() {
			continue
		}
		var err error
		if buf, err = appendValue(member(buf, f.key), x, f.kind); err != nil {
			return buf, fmt.Errorf("%s %w", f.key, err)
		}
	}
	return append(buf, '}'), nil
}

func appendValue(buf []byte, v reflect.Value, kind reflect.Kind) ([]byte, error) {
	switch kind {
	case reflect.Int, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(buf, v.Int(), 10), nil
	case reflect.Uint8:
		return strconv.AppendUint(buf, v.Uint(), 10), nil
	case reflect.Bool:
		return append(buf, '1'), nil
	case reflect.Float64:
		return strconv.AppendFloat(buf, v.Float(), 'g', -1, 64), nil
	case reflect.Slice, reflect.Array:
		buf = append(buf, '[')
		for i := range v.Len() {
			if i > 0 {
				buf = append(buf, ',')
			}
			x := v.Index(i)
			var err error
			if buf, err = appendValue(buf, x, x.Kind()); err != nil {
				return buf, err
			}
		}
		return append(buf, ']'), nil
	case reflect.Struct:
		if !flatTypes[v.Type()] {
			return appendStruct(buf, v)
		}
		sep := byte('[')
		eachNumber(v, func(n reflect.Value) bool {
			buf, _ = appendValue(append(buf, sep), n, n.Kind())
			sep = ','
			return true
		})
		return append(buf, ']'), nil
	}
	text, err := json.Marshal(v.Interface())
	return append(buf, text...), err
}

// eachNumber gives the numbers of a struct and of those in it, in order.
func eachNumber(v reflect.Value, each func(reflect.Value) bool) bool {
	if v.Kind() != reflect.Struct {
		return each(v)
	}
	for i := range v.NumField() {
		if !eachNumber(v.Field(i), each) {
			return false
		}
	}
	return true
}

// flat reads one of flatTypes.
type flat[T any] struct{ value T }

func (f *flat[T]) UnmarshalJSON(text []byte) error {
	var numbers []json.RawMessage
	if err := json.Unmarshal(text, &numbers); err != nil {
		return err
	}
	var err error
	eachNumber(reflect.ValueOf(&f.value).Elem(), func(n reflect.Value) bool {
		if len(numbers) == 0 {
			err = fmt.Errorf("%s is too short", text)
			return false
		}
		err = json.Unmarshal(numbers[0], n.Addr().Interface())
		numbers = numbers[1:]
		return err == nil
	})
	if err == nil && len(numbers) > 0 {
		err = fmt.Errorf("%s is too long", text)
	}
	return err
}
