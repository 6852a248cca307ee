package reader

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"strconv"
	"unicode/utf8"
)

// JSON is a pull parser for JSON. It exists because a trace of hundreds of megabytes must be read without holding it,
// and each fault must have its Line: encoding/json has neither lines nor offsets that hold for both tokens and values.
// It accepts all texts that encoding/json.Valid accepts (fuzzed against it), up to MaxDepth, but for strings that are
// not UTF-8, and also NaN and Infinity.
type JSON struct {
	in     *bufio.Reader
	window []byte // the buffer of in
	at     int    // how much of window was taken
	Line   int
	depth  int
	buf    []byte // the text of a string, number or word, valid until more is read
	own    []byte // memory of texts that do not lie in the window as they are
	key    map[string]string
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

// fill makes n bytes that were not taken visible, if the text has as many.
func (j *JSON) fill(n int) error {
	j.in.Discard(j.at)
	_, err := j.in.Peek(n)
	j.window, _ = j.in.Peek(j.in.Buffered())
	j.at = 0
	if len(j.window) >= n {
		return nil
	}
	return err
}

// more makes sure that there is another byte; the end of the text is an error.
func (j *JSON) more() error {
	if j.at < len(j.window) {
		return nil
	}
	err := j.fill(1)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return &SyntaxError{Line: j.Line, Truncated: true, Damaged: err != io.EOF,
			Message: "the file ends in the middle of a value"}
	}
	return err
}

// read returns the next byte; the end of the text is an error.
func (j *JSON) read() (byte, error) {
	if err := j.more(); err != nil {
		return 0, err
	}
	c := j.window[j.at]
	j.at++
	if c == '\n' {
		j.Line++
	}
	return c, nil
}

// left is the number of bytes that in has read and nobody has taken.
func (j *JSON) left() int { return j.in.Buffered() - j.at }

// Eight bytes at once.
const (
	each   = 0x0101010101010101
	high   = 0x80 * each
	blanks = ' ' * each
)

// Peek returns the next byte that is not white space, and leaves it there.
func (j *JSON) Peek() (byte, error) {
	for {
		rest := j.window[j.at:]
		for i := 0; i < len(rest); i++ {
			switch c := rest[i]; c {
			case ' ':
				for i+8 < len(rest) && binary.LittleEndian.Uint64(rest[i:]) == blanks {
					i += 7
				}
			case '\n':
				j.Line++
			case '\t', '\r':
			default:
				j.at += i
				return c, nil
			}
		}
		j.at = len(j.window)
		if err := j.more(); err != nil {
			return 0, err
		}
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
		j.at++
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
		j.at++
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
	j.at++
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
			j.at++
			return nil
		}
		if !first {
			j.at++
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

// scalar consumes any value and describes it: the text of a number, a string in quotes, "an object".
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
		j.at++
		err = j.quoted()
		return strconv.Quote(string(j.buf)), false, err
	}
	err = j.bare()
	return string(j.buf), string(j.buf) == "null", err
}

// Text consumes a string, or the digits of a number; null is "".
func (j *JSON) Text() (string, error) {
	text, _, err := j.Bytes()
	return string(text), err
}

// Bytes is Text that is valid until more is read, and whether it was in quotes.
func (j *JSON) Bytes() (text []byte, quoted bool, err error) {
	c, err := j.Peek()
	if err != nil {
		return nil, false, err
	}
	switch {
	case c == '"':
		j.at++
		if err := j.quoted(); err != nil {
			return nil, true, err
		}
		return j.buf, true, nil
	case c == '-' || c == 'N' || c == 'I' || c >= '0' && c <= '9':
		if err := j.bare(); err != nil {
			return nil, false, err
		}
		return j.buf, false, nil
	}
	line := j.Line
	found, null, err := j.scalar()
	if err != nil || null {
		return nil, false, err
	}
	return nil, false, &TypeError{line, found + " where a text should be"}
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
		j.at++
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

// plainText is how many bytes of a string stand for themselves, up to its end, an escape or a control character, and
// whether they are all ASCII.
func plainText(s []byte) (n int, ascii bool) {
	i, all := 0, byte(0)
	for ; i+8 <= len(s); i += 8 {
		w := binary.LittleEndian.Uint64(s[i:])
		if ends := (w | (w - ' '*each) | ((w ^ '"'*each) - each) | ((w ^ '\\'*each) - each)) & high; ends != 0 {
			i += bits.TrailingZeros64(ends) / 8 // or a byte of a character beyond ASCII
			break
		}
	}
	for i < len(s) && s[i] >= ' ' && s[i] != '"' && s[i] != '\\' {
		all |= s[i]
		i++
	}
	return i, all < utf8.RuneSelf
}

// quoted reads a string after its opening quote into buf.
func (j *JSON) quoted() error {
	if n, ascii := plainText(j.window[j.at:]); n <= MaxText && j.at+n < len(j.window) && j.window[j.at+n] == '"' {
		j.buf = j.window[j.at : j.at+n] // as most do
		if j.at += n + 1; ascii {
			return nil
		}
		return j.valid()
	}
	j.own = j.own[:0]
	for {
		if err := j.more(); err != nil {
			return err
		}
		rest := j.window[j.at:]
		n, _ := plainText(rest)
		if len(j.own) > MaxText || len(j.own)+n > MaxText+1 {
			return j.bound(TooLong)
		}
		j.own = append(j.own, rest[:n]...)
		if j.at += n; n == len(rest) {
			continue
		}
		if len(j.own) > MaxText {
			return j.bound(TooLong)
		}
		c, _ := j.read()
		if c == '"' {
			j.buf = j.own
			return j.valid()
		}
		if c < ' ' {
			return j.errorf("a control character 0x%02x in a string", c)
		}
		if err := j.escape(); err != nil {
			return err
		}
	}
}

func (j *JSON) valid() error {
	if !utf8.Valid(j.buf) {
		return j.errorf("a string that is not UTF-8; convert the file to UTF-8")
	}
	return nil
}

// escape reads the rest of an escape sequence in a string, after the backslash.
func (j *JSON) escape() error {
	c, err := j.read()
	if err != nil {
		return err
	}
	switch c {
	case '"', '\\', '/':
		j.own = append(j.own, c)
	case 'b':
		j.own = append(j.own, '\b')
	case 'f':
		j.own = append(j.own, '\f')
	case 'n':
		j.own = append(j.own, '\n')
	case 'r':
		j.own = append(j.own, '\r')
	case 't':
		j.own = append(j.own, '\t')
	case 'u':
		r, err := j.hex()
		if err != nil {
			return err
		}
		for r >= 0xd800 && r < 0xdc00 { // a high surrogate: its low one should follow
			if len(j.window)-j.at < 2 {
				_ = j.fill(2)
			}
			if len(j.window)-j.at < 2 || string(j.window[j.at:j.at+2]) != `\u` {
				break
			}
			j.at += 2
			low, err := j.hex()
			if err != nil {
				return err
			}
			if low >= 0xdc00 && low < 0xe000 {
				r = (r-0xd800)<<10 + (low - 0xdc00) + 0x10000
			} else {
				j.own = utf8.AppendRune(j.own, utf8.RuneError)
				r = low
			}
		}
		j.own = utf8.AppendRune(j.own, r)
	default:
		return j.errorf("unknown escape \\%c in a string", c)
	}
	return nil
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

// bareBytes are those of numbers and words.
var bareBytes = func() (is [256]bool) {
	for _, c := range "+-.0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" {
		is[c] = true
	}
	return is
}()

// bare reads a number, true, false or null into buf.
func (j *JSON) bare() error {
	n := 0
	for ; ; n++ {
		if j.at+n == len(j.window) {
			err := j.fill(n + 1) // the n bytes found stay in the window
			if err == io.EOF || err == io.ErrUnexpectedEOF {
				break
			}
			if err != nil {
				return err
			}
		}
		if !bareBytes[j.window[j.at+n]] {
			break
		}
		if n == MaxDigits {
			return j.errorf("a number of more than %d characters", MaxDigits)
		}
	}
	j.buf = j.window[j.at : j.at+n]
	j.at += n
	switch s := j.buf; {
	case jsonNumber(s), string(s) == "true", string(s) == "false", string(s) == "null":
		return nil
	case string(s) == "NaN", string(s) == "Infinity", string(s) == "-Infinity":
		return nil // Python writes them; readers of numbers refuse them
	case n == 0:
		c, err := j.read()
		if err != nil {
			return err
		}
		return j.errorf("%s where a value should be", quoteByte(c))
	}
	word := string(j.buf)
	if j.at == len(j.window) && j.fill(1) != nil { // cut off within it
		return &SyntaxError{Line: j.Line, Truncated: true, Message: fmt.Sprintf("the file ends after %q", word)}
	}
	return j.errorf("%s is not a value of JSON", word)
}

// jsonNumber reports whether s is -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
func jsonNumber(s []byte) bool {
	digits := func() bool {
		n := 0
		for n < len(s) && s[n] >= '0' && s[n] <= '9' {
			n++
		}
		s = s[n:]
		return n > 0
	}
	if len(s) > 0 && s[0] == '-' {
		s = s[1:]
	}
	if len(s) > 0 && s[0] == '0' {
		s = s[1:]
	} else if !digits() {
		return false
	}
	if len(s) > 0 && s[0] == '.' {
		if s = s[1:]; !digits() {
			return false
		}
	}
	if len(s) > 0 && (s[0] == 'e' || s[0] == 'E') {
		if s = s[1:]; len(s) > 0 && (s[0] == '+' || s[0] == '-') {
			s = s[1:]
		}
		if !digits() {
			return false
		}
	}
	return len(s) == 0
}

func quoteByte(c byte) string { return strconv.QuoteRune(rune(c)) }
