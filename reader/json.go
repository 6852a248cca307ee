package reader

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

// JSON is a pull parser for JSON. It exists because a trace of hundreds of megabytes must be read without holding it,
// and each fault must have its Line: encoding/json has neither lines nor offsets that hold for both tokens and values.
// It accepts what encoding/json.Valid accepts (fuzzed against it), up to MaxDepth, but for strings that are not UTF-8,
// and also NaN and Infinity.
type JSON struct {
	in    *bufio.Reader
	Line  int
	depth int
	buf   []byte
	key   map[string]string
}

// SyntaxError is a violation of a text's grammar.
type SyntaxError struct {
	Line      int
	Truncated bool
	Bound     bool // it is well-formed, but more than is read
	Damaged   bool // it is the compressed data that end
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
	return &JSON{in: in, Line: 1, key: map[string]string{}}
}

func (j *JSON) errorf(format string, args ...any) error {
	return &SyntaxError{Line: j.Line, Message: fmt.Sprintf(format, args...)}
}

func (j *JSON) bound(message string) error {
	return &SyntaxError{Line: j.Line, Bound: true, Message: message}
}

// read returns the next byte; the end of the text is an error.
func (j *JSON) read() (byte, error) {
	c, err := j.in.ReadByte()
	if err == nil {
		if c == '\n' {
			j.Line++
		}
		return c, nil
	}
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return 0, &SyntaxError{Line: j.Line, Truncated: true, Damaged: err != io.EOF,
			Message: "the file ends in the middle of a value"}
	}
	return 0, err
}

// peek returns the next byte that is not white space, and leaves it there.
func (j *JSON) Peek() (byte, error) {
	for {
		c, err := j.read()
		if err != nil {
			return 0, err
		}
		switch c {
		case ' ', '\t', '\r', '\n':
			continue
		}
		return c, j.in.UnreadByte()
	}
}

// object calls f with each key; f has to consume the value. null is an empty object; another type is a TypeError.
func (j *JSON) Object(f func(key string) error) error {
	n := 0
	return j.Table(func(key string) error {
		if n++; n > MaxKeys {
			return j.bound(tooManyKeys)
		}
		return f(key)
	})
}

// Table is Object of any number of keys.
func (j *JSON) Table(f func(key string) error) error {
	return j.group('{', '}', "an object", func() error {
		if c, err := j.Peek(); err != nil {
			return err
		} else if c != '"' {
			return j.errorf("%s where a key in double quotes should be", quoteByte(c))
		}
		j.in.ReadByte()
		if err := j.quoted(); err != nil {
			return err
		}
		key, ok := j.key[string(j.buf)]
		if !ok {
			if len(j.buf) > MaxName {
				return j.bound(TooLongName)
			}
			key = string(j.buf)
			if len(j.key) < 1000 {
				j.key[key] = key
			}
		}
		if c, err := j.Peek(); err != nil {
			return err
		} else if c != ':' {
			return j.errorf("%s after a key, where a colon should be", quoteByte(c))
		}
		j.in.ReadByte()
		return f(key)
	})
}

// array calls f at each element; f has to consume it. null is an empty array; another type is a TypeError.
func (j *JSON) Array(f func() error) error { return j.group('[', ']', "a list", f) }

func (j *JSON) group(open, end byte, what string, f func() error) error {
	c, err := j.Peek()
	if err != nil {
		return err
	}
	if c != open {
		line := j.Line
		found, null, err := j.scalar()
		if err != nil || null {
			return err
		}
		return &TypeError{line, found + " where " + what + " should be"}
	}
	j.in.ReadByte()
	if j.depth++; j.depth > MaxDepth {
		return j.bound(tooDeep)
	}
	defer func() { j.depth-- }()
	for first := true; ; first = false {
		c, err := j.Peek()
		if err != nil {
			return err
		}
		if c == end && first {
			j.in.ReadByte()
			return nil
		}
		if !first {
			j.in.ReadByte()
			if c == end {
				return nil
			}
			if c != ',' {
				return j.errorf("%s where a comma or %q should be", quoteByte(c), end)
			}
		}
		if err := f(); err != nil {
			return err
		}
	}
}

// scalar consumes any value and says what it was: the text of a number, a string in quotes, "an object".
func (j *JSON) scalar() (found string, null bool, err error) {
	c, err := j.Peek()
	if err != nil {
		return "", false, err
	}
	switch c {
	case '{':
		return "an object", false, j.Skip()
	case '[':
		return "a list", false, j.Skip()
	case '"':
		j.in.ReadByte()
		err = j.quoted()
		return strconv.Quote(string(j.buf)), false, err
	}
	err = j.bare()
	return string(j.buf), string(j.buf) == "null", err
}

// Same is Text with one copy of equal texts, which same has.
func (j *JSON) Same(same map[string]string) (string, error) {
	if c, err := j.Peek(); err != nil || c != '"' {
		return j.Text()
	}
	j.in.ReadByte()
	if err := j.quoted(); err != nil {
		return "", err
	}
	s, ok := same[string(j.buf)]
	if !ok {
		s = string(j.buf)
		same[s] = s
	}
	return s, nil
}

// Text consumes a string, or the digits of a number; null is "".
func (j *JSON) Text() (string, error) {
	c, err := j.Peek()
	if err != nil {
		return "", err
	}
	switch {
	case c == '"':
		j.in.ReadByte()
		err := j.quoted()
		return string(j.buf), err
	case c == '-' || c == 'N' || c == 'I' || c >= '0' && c <= '9':
		err := j.bare()
		return string(j.buf), err
	}
	line := j.Line
	found, null, err := j.scalar()
	if err != nil || null {
		return "", err
	}
	return "", &TypeError{line, found + " where a text should be"}
}

// truth consumes true or false.
func (j *JSON) Truth() (bool, error) {
	line := j.Line
	found, _, err := j.scalar()
	if err == nil && found != "true" && found != "false" {
		err = &TypeError{line, found + " where true or false should be"}
	}
	return found == "true", err
}

// skip consumes any value.
func (j *JSON) Skip() error {
	c, err := j.Peek()
	if err != nil {
		return err
	}
	switch c {
	case '{':
		return j.Object(func(string) error { return j.Skip() })
	case '[':
		return j.Array(j.Skip)
	case '"':
		j.in.ReadByte()
		return j.quoted()
	}
	return j.bare()
}

// end checks that nothing but white space follows.
func (j *JSON) End() error {
	c, err := j.Peek()
	if err == nil {
		return j.errorf("%s after the end of the document", quoteByte(c))
	}
	if s, ok := err.(*SyntaxError); ok && s.Truncated && !s.Damaged {
		return nil
	}
	return err
}

// quoted reads a string after its opening quote into buf.
func (j *JSON) quoted() error {
	j.buf = j.buf[:0]
	for {
		c, err := j.read()
		if err != nil {
			return err
		}
		switch {
		case len(j.buf) > MaxText:
			return j.bound(TooLong)
		case c == '"':
			if !utf8.Valid(j.buf) {
				return j.errorf("a string that is not UTF-8; convert the file to UTF-8")
			}
			return nil
		case c < ' ':
			return j.errorf("a control character 0x%02x in a string", c)
		case c != '\\':
			j.buf = append(j.buf, c)
			continue
		}
		if c, err = j.read(); err != nil {
			return err
		}
		switch c {
		case '"', '\\', '/':
			j.buf = append(j.buf, c)
		case 'b':
			j.buf = append(j.buf, '\b')
		case 'f':
			j.buf = append(j.buf, '\f')
		case 'n':
			j.buf = append(j.buf, '\n')
		case 'r':
			j.buf = append(j.buf, '\r')
		case 't':
			j.buf = append(j.buf, '\t')
		case 'u':
			r, err := j.hex()
			if err != nil {
				return err
			}
			for r >= 0xd800 && r < 0xdc00 { // a high surrogate: its low one should follow
				next, _ := j.in.Peek(2)
				if string(next) != `\u` {
					break
				}
				j.in.Discard(2)
				low, err := j.hex()
				if err != nil {
					return err
				}
				if low >= 0xdc00 && low < 0xe000 {
					r = (r-0xd800)<<10 + (low - 0xdc00) + 0x10000
				} else {
					j.buf = utf8.AppendRune(j.buf, utf8.RuneError)
					r = low
				}
			}
			j.buf = utf8.AppendRune(j.buf, r)
		default:
			return j.errorf("unknown escape \\%c in a string", c)
		}
	}
}

func (j *JSON) hex() (r rune, err error) {
	for range 4 {
		c, err := j.read()
		if err != nil {
			return 0, err
		}
		d, err := strconv.ParseUint(string(c), 16, 8)
		if err != nil {
			return 0, j.errorf("\\u without four hexadecimal digits in a string")
		}
		r = r<<4 | rune(d)
	}
	return r, nil
}

// bare reads a number, true, false or null into buf.
func (j *JSON) bare() error {
	j.buf = j.buf[:0]
	for {
		c, err := j.in.ReadByte()
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			break
		}
		if err != nil {
			return err
		}
		if c != '+' && c != '-' && c != '.' && !(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') &&
			!(c >= 'A' && c <= 'Z') {
			j.in.UnreadByte()
			break
		}
		if j.buf = append(j.buf, c); len(j.buf) > 1000 {
			return j.errorf("a number of more than 1000 characters")
		}
	}
	switch s := string(j.buf); {
	case s == "true", s == "false", s == "null", jsonNumber(s):
		return nil
	case s == "NaN", s == "Infinity", s == "-Infinity": // Python writes them; whoever wants a number refuses them
		return nil
	case s == "":
		c, err := j.read()
		if err != nil {
			return err
		}
		return j.errorf("%s where a value should be", quoteByte(c))
	default:
		if _, err := j.in.Peek(1); err != nil { // cut off within it
			return &SyntaxError{Line: j.Line, Truncated: true, Message: fmt.Sprintf("the file ends after %q", s)}
		}
		return j.errorf("%s is not a value of JSON", s)
	}
}

// jsonNumber reports whether s is -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
func jsonNumber(s string) bool {
	digits := func() bool {
		n := 0
		for n < len(s) && s[n] >= '0' && s[n] <= '9' {
			n++
		}
		s = s[n:]
		return n > 0
	}
	if s != "" && s[0] == '-' {
		s = s[1:]
	}
	if s != "" && s[0] == '0' {
		s = s[1:]
	} else if !digits() {
		return false
	}
	if s != "" && s[0] == '.' {
		if s = s[1:]; !digits() {
			return false
		}
	}
	if s != "" && (s[0] == 'e' || s[0] == 'E') {
		if s = s[1:]; s != "" && (s[0] == '+' || s[0] == '-') {
			s = s[1:]
		}
		if !digits() {
			return false
		}
	}
	return s == ""
}

func quoteByte(c byte) string { return strconv.QuoteRune(rune(c)) }
