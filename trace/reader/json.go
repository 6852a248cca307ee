package reader

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// JSON reads JSON value by value, so that a trace of hundreds of megabytes is never held, with the lines of values. It
// has bounds.
type JSON struct {
	d   *jsontext.Decoder
	in  lines
	own []byte // memory of texts that have escapes
}

// lines hands a text to a decoder, and knows where its lines end.
type lines struct {
	in     *bufio.Reader
	d      *jsontext.Decoder
	offset int64   // how much it was given
	ends   []int64 // offsets of line ends behind line
	line   int
	err    error // of in, rather than its end
}

func (l *lines) Read(p []byte) (n int, err error) {
	if n, err = l.in.Read(p); err != nil && err != io.EOF {
		l.err = err
	}
	for at := 0; ; at++ {
		next := bytes.IndexByte(p[at:n], '\n')
		if next < 0 {
			break
		}
		at += next
		l.ends = append(l.ends, l.offset+int64(at))
	}
	l.offset += int64(n)
	read := l.d.InputOffset()
	if line := l.at(read); l.offset-read > 8*MaxText { // more than a text of escapes
		l.err = &SyntaxError{Line: line, Bound: true, Message: TooLong}
		return 0, l.err
	}
	return n, err
}

// at moves to an offset and returns its line.
func (l *lines) at(offset int64) int {
	n := 0
	for n < len(l.ends) && l.ends[n] < offset {
		n++
	}
	l.ends, l.line = l.ends[n:], l.line+n
	return l.line
}

// SyntaxError is a violation of a text's grammar.
type SyntaxError struct {
	Line      int
	Rule      string // of the fault; "": syntax
	Truncated bool
	Bound     bool // it is well-formed, but more than is read
	Message   string
}

func (e *SyntaxError) Error() string { return e.Message }

// TypeError is a value of another type than the format has there. The value was skipped.
type TypeError struct {
	Line    int
	Message string
}

func (e *TypeError) Error() string { return e.Message }

func NewJSON(in *bufio.Reader) *JSON {
	j := &JSON{in: lines{in: in, line: 1}}
	j.d = jsontext.NewDecoder(&j.in)
	j.in.d = j.d
	return j
}

// Line is the line of the value that was read last, or of its end.
func (j *JSON) Line() int { return j.in.at(j.d.InputOffset()) }

func (j *JSON) bound(message string) error {
	return &SyntaxError{Line: j.Line(), Bound: true, Message: message}
}

// fault says where an error of the decoder is.
func (j *JSON) fault(err error) error {
	var syntax *jsontext.SyntacticError
	switch {
	case j.in.err != nil:
		return j.in.err
	case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF):
		return &SyntaxError{Line: j.in.at(j.in.offset), Truncated: true,
			Message: "the file ends in the middle of a value"}
	case !errors.As(err, &syntax):
		return err
	case syntax.Err == jsontext.ErrDuplicateName:
		return &SyntaxError{Line: j.in.at(syntax.ByteOffset), Rule: "duplicate-key", Message: fmt.Sprintf("key %q is "+
			"given twice in one object, and programs disagree on which counts: keep one",
			syntax.JSONPointer.LastToken())}
	}
	message := fmt.Sprintf("%v, at %s", syntax.Err, cmp.Or(string(syntax.JSONPointer), "the outermost value"))
	switch {
	case strings.HasPrefix(message, "invalid UTF-8"):
		message += ": the text is not UTF-8; convert the file to UTF-8"
	case strings.HasPrefix(message, "invalid character 'N'"), strings.HasPrefix(message, "invalid character 'I'"):
		message += ": JSON has no NaN and no Infinity, which Python writes; leave out a number that is not known"
	}
	return &SyntaxError{Line: j.in.at(syntax.ByteOffset), Message: message}
}

// Peek is the kind of the next value and its line. An error is told by the next call.
func (j *JSON) Peek() (jsontext.Kind, int) {
	kind := j.d.PeekKind()
	rest := j.d.UnreadBuffer()
	blank := len(rest) - len(bytes.TrimLeft(rest, " \t\r\n,:"))
	return kind, j.in.at(j.d.InputOffset() + int64(blank))
}

func (j *JSON) token() error {
	if _, err := j.d.ReadToken(); err != nil {
		return j.fault(err)
	}
	return nil
}

// Object calls f with each key, which is valid until f reads; f has to consume the value. null is an empty object;
// another type is a TypeError.
func (j *JSON) Object(f func(key []byte) error) error {
	n := 0
	return j.Table(func(key []byte) error {
		if n++; n > MaxKeys {
			return j.bound(tooManyKeys)
		}
		return f(key)
	})
}

// Table is Object of any number of keys.
func (j *JSON) Table(f func(key []byte) error) error {
	return j.group('{', "an object", func() error {
		key, _, err := j.Bytes()
		if err == nil && len(key) > MaxName {
			err = j.bound(TooLongName)
		}
		if err != nil {
			return err
		}
		return f(key)
	})
}

// Array calls f at each element; f has to consume it. null is an empty array; another type is a TypeError.
func (j *JSON) Array(f func() error) error { return j.group('[', "a list", f) }

func (j *JSON) group(open jsontext.Kind, what string, f func() error) error {
	if j.d.PeekKind() != open {
		found, line, err := j.scalar()
		if err != nil || found == "null" {
			return err
		}
		return &TypeError{line, found + " where " + what + " should be"}
	}
	if err := j.token(); err != nil {
		return err
	}
	if j.d.StackDepth() > MaxDepth {
		return j.bound(tooDeep)
	}
	for {
		if kind := j.d.PeekKind(); kind == '}' || kind == ']' {
			return j.token()
		}
		if err := f(); err != nil {
			return err
		}
	}
}

// scalar consumes any value and describes it: the text of a number, a string in quotes, "an object".
func (j *JSON) scalar() (found string, line int, err error) {
	kind, line := j.Peek()
	switch kind {
	case '{':
		return "an object", line, j.Skip()
	case '[':
		return "a list", line, j.Skip()
	}
	text, quoted, err := j.Bytes()
	if quoted {
		return strconv.Quote(string(text)), line, err
	}
	return string(text), line, err
}

// Text consumes a string, or the digits of a number; null is "".
func (j *JSON) Text() (string, error) {
	text, _, err := j.TextBytes()
	return string(text), err
}

// TextBytes is Text that is valid until more is read, and whether it was in quotes.
func (j *JSON) TextBytes() (text []byte, quoted bool, err error) {
	switch kind := j.d.PeekKind(); kind {
	case 'n', 't', 'f', '{', '[':
		found, line, err := j.scalar()
		if err == nil && kind != 'n' {
			err = &TypeError{line, found + " where a text should be"}
		}
		return nil, false, err
	}
	return j.Bytes()
}

// Bytes consumes a value that is no list and no object.
func (j *JSON) Bytes() (text []byte, quoted bool, err error) {
	v, err := j.d.ReadValue()
	if err != nil {
		return nil, false, j.fault(err)
	}
	text, quoted = v, v[0] == '"'
	switch {
	case quoted && bytes.IndexByte(v, '\\') >= 0:
		j.own, _ = jsontext.AppendUnquote(j.own[:0], v)
		text = j.own
	case quoted:
		text = v[1 : len(v)-1]
	case len(v) > MaxDigits:
		return nil, false, j.bound(fmt.Sprintf("a number of more than %d characters", MaxDigits))
	}
	if len(text) > MaxText {
		return nil, false, j.bound(TooLong)
	}
	return text, quoted, nil
}

// Truth consumes true or false.
func (j *JSON) Truth() (bool, error) {
	found, line, err := j.scalar()
	if err == nil && found != "true" && found != "false" {
		err = &TypeError{line, found + " where true or false should be"}
	}
	return found == "true", err
}

// Skip consumes any value.
func (j *JSON) Skip() error {
	for depth := j.d.StackDepth(); ; {
		if err := j.token(); err != nil {
			return err
		}
		switch at := j.d.StackDepth(); {
		case at > MaxDepth:
			return j.bound(tooDeep)
		case at <= depth:
			return nil
		}
	}
}

// End checks that nothing but white space follows.
func (j *JSON) End() error {
	_, err := j.d.ReadToken()
	switch {
	case err == io.EOF && j.in.err == nil:
		return nil
	case err == nil:
		return &SyntaxError{Line: j.Line(), Message: "a value after the end of the document"}
	}
	return j.fault(err)
}
