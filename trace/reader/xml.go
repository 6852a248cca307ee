package reader

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
)

// XML is a pull parser for the XML of DAX files: elements, attributes, text, character and predefined entity
// references, CDATA; comments, processing instructions and DOCTYPE are passed over, name spaces are left to the caller.
// It exists for speed: a DAX of a million jobs is a gigabyte, and encoding/xml, which allocates each name and value,
// reads 15 MB/s of it. Both give the same tokens of a text that both accept, and this one accepts nothing malformed
// that matters for DAX (fuzzed against encoding/xml).
type XML struct {
	in     *bufio.Reader
	Line   int       // line of the next byte
	Start  int       // line on which the current token begins
	Name   string    // local name of the element that starts or ends
	Attrs  []XMLAttr // of the element that starts, valid until the next token; those with a prefix are left out
	Text   []byte    // of a text token, valid until the next one
	open   []string
	rooted bool   // the root element was there
	ended  bool   // the element that started was empty: its end comes next
	tag    bool   // the < of a tag was read, behind a text
	piece  []byte // text that through reads, where it does not lie in the buffer whole
	names  map[string]string
}

// XMLAttr is an attribute, valid until the next token.
type XMLAttr struct{ Name, Value []byte }

type XMLToken uint8

const (
	XMLStart XMLToken = iota
	XMLEnd
	XMLText
	XMLEOF // after the root element
)

func NewXML(in *bufio.Reader) *XML {
	return &XML{in: in, Line: 1, Start: 1, names: map[string]string{}}
}

func (x *XML) Errorf(format string, args ...any) error {
	return &SyntaxError{Line: x.Start, Message: fmt.Sprintf(format, args...)}
}

func (x *XML) bound(message string) error {
	return &SyntaxError{Line: x.Start, Bound: true, Message: message}
}

// cut is the error of a text that ends too early.
func (x *XML) cut(err error) error {
	if err != io.EOF && err != io.ErrUnexpectedEOF {
		return err
	}
	inside := "before its root element"
	if n := len(x.open); n > 0 {
		inside = "inside <" + x.open[n-1] + ">"
	}
	return &SyntaxError{Line: x.Line, Truncated: true, Message: "the file ends " + inside}
}

// Depth is how many elements are open.
func (x *XML) Depth() int { return len(x.open) }

// Next moves to the next token.
func (x *XML) Next() (XMLToken, error) {
	if x.ended {
		x.ended, x.open = false, x.open[:len(x.open)-1]
		return XMLEnd, nil
	}
	for {
		x.Start = x.Line
		if !x.tag {
			text, err := x.through("<", whole)
			end := err == io.EOF && x.rooted && len(x.open) == 0
			if err != nil && !end {
				return XMLEOF, x.cut(err)
			}
			text = bytes.TrimSuffix(text, []byte{'<'})
			switch {
			case len(x.open) == 0 && len(bytes.TrimSpace(text)) > 0:
				return XMLEOF, x.Errorf("text outside the root element")
			case end:
				return XMLEOF, nil
			case len(x.open) > 0 && len(text) > 0:
				x.tag = true
				x.Text, err = x.resolve(x.Text[:0], text)
				return XMLText, err
			}
		}
		x.Start, x.tag = x.Line, false
		c, err := x.in.Peek(1)
		if err != nil {
			return XMLEOF, x.cut(err)
		}
		switch c[0] {
		case '?':
			if err := x.declaration(); err != nil {
				return XMLEOF, err
			}
		case '!':
			if text, err := x.special(); err != nil {
				return XMLEOF, err
			} else if text {
				return XMLText, nil
			}
		case '/':
			tag, err := x.through(">", whole)
			if err != nil {
				return XMLEOF, x.cut(err)
			}
			return XMLEnd, x.close(trimmed(tag[1 : len(tag)-1]))
		default:
			return XMLStart, x.element()
		}
	}
}

// Ways to read up to a delimiter.
const (
	whole   = iota
	outside // of quotes, as in a tag
	passing // over it: it may be longer than memory allows
)

// through reads up to a delimiter, and returns the text with it, which is valid until more is read.
func (x *XML) through(end string, way int) ([]byte, error) {
	x.piece = x.piece[:0]
	for quote := byte(0); ; {
		text, err := x.in.ReadSlice(end[len(end)-1])
		x.Line += bytes.Count(text, []byte{'\n'})
		if way == outside {
			if bytes.IndexByte(text, '<') >= 0 {
				return nil, x.Errorf("< inside a tag")
			}
			quote = openQuote(quote, text)
		}
		ends := err == nil && quote == 0
		if len(x.piece) > 0 || !ends || len(end) > 1 {
			x.piece = append(x.piece, text...)
			text = x.piece
		}
		switch {
		case ends && len(text) >= len(end) && string(text[len(text)-len(end):]) == end:
			return text, nil
		case err != nil && err != bufio.ErrBufferFull:
			return text, err
		case way == passing:
			x.piece = append(x.piece[:0], text[max(0, len(text)-len(end)):]...)
		case len(text) > MaxText:
			return nil, x.bound(TooLong)
		}
	}
}

// openQuote is the quote that is open behind a text, 0 if none is.
func openQuote(quote byte, text []byte) byte {
	if quote == 0 && bytes.IndexByte(text, '\'') < 0 && bytes.Count(text, []byte{'"'})%2 == 0 {
		return 0 // as in most
	}
	for _, c := range text {
		switch {
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case c == quote:
			quote = 0
		}
	}
	return quote
}

func (x *XML) begin(name string) error {
	x.Name = name
	if len(x.open) == 0 && x.rooted {
		return x.Errorf("<%s> after the end of the root element", name)
	}
	x.rooted = true
	if x.open = append(x.open, name); len(x.open) > MaxDepth {
		return x.bound(tooDeep)
	}
	return nil
}

// close ends the innermost element.
func (x *XML) close(name []byte) error {
	name = name[bytes.IndexByte(name, ':')+1:]
	n := len(x.open)
	if n == 0 {
		return x.Errorf("</%s> closes nothing", name)
	}
	if x.Name = x.open[n-1]; string(name) != x.Name {
		return x.Errorf("</%s> where </%s> should be", name, x.Name)
	}
	x.open = x.open[:n-1]
	return nil
}

// declaration passes over <?…?>, and looks for the encoding in <?xml …?>.
func (x *XML) declaration() error {
	head, _ := x.in.Peek(len("?xml"))
	way := passing
	if string(head) == "?xml" {
		way = whole
	}
	text, err := x.through("?>", way)
	if err != nil {
		return x.cut(err)
	}
	_, after, ok := strings.Cut(string(text), "encoding")
	if after = strings.TrimLeft(after, " \t\r\n="); way == passing || !ok || after == "" {
		return nil
	}
	label, _, _ := strings.Cut(after[1:], after[:1])
	switch strings.ToLower(label) {
	case "utf-8", "utf8", "us-ascii", "ascii", "utf-16", "utf-16le", "utf-16be": // UTF-16 is recognised by its bytes
	case "iso-8859-1", "latin1", "latin-1", "windows-1252":
		x.in = bufio.NewReaderSize(charmap.ISO8859_1.NewDecoder().Reader(x.in), Window)
	default:
		return x.Errorf("the encoding %s is not supported; convert the file to UTF-8", label)
	}
	return nil
}

// special reads a comment, a CDATA section (which is a text) or a DOCTYPE, from its <! on.
func (x *XML) special() (text bool, err error) {
	head, _ := x.in.Peek(8)
	switch {
	case bytes.HasPrefix(head, []byte("!--")):
		x.in.Discard(3)
		return false, x.comment()
	case bytes.HasPrefix(head, []byte("![CDATA[")):
		x.in.Discard(8)
		section, err := x.through("]]>", whole)
		switch {
		case err != nil:
			return false, x.cut(err)
		case len(x.open) == 0:
			return false, x.Errorf("text outside the root element")
		case !utf8.Valid(section):
			return false, x.Errorf("the text is not UTF-8; convert the file, or let it say its encoding")
		}
		x.Text = append(x.Text[:0], section[:len(section)-3]...)
		return true, nil
	}
	if len(head) < 2 || (head[1]|0x20 < 'a' || head[1]|0x20 > 'z') {
		return false, x.Errorf("<! that begins neither a comment nor a declaration")
	}
	return false, x.doctype()
}

func (x *XML) comment() error {
	_, err := x.through("-->", passing)
	return x.cut(err)
}

// doctype passes over a declaration, with the declarations inside.
func (x *XML) doctype() error {
	for depth, quote := 0, byte(0); ; {
		c, err := x.in.ReadByte()
		if err != nil {
			return x.cut(err)
		}
		switch {
		case c == '\n':
			x.Line++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '<':
			if head, _ := x.in.Peek(3); string(head) != "!--" {
				depth++
				continue
			}
			x.in.Discard(3)
			if err := x.comment(); err != nil {
				return err
			}
		case c == '>':
			if depth--; depth < 0 {
				return nil
			}
		}
	}
}

func (x *XML) element() error {
	tag, err := x.through(">", outside)
	if err != nil {
		return x.cut(err)
	}
	if tag = tag[:len(tag)-1]; len(tag) > 0 && tag[len(tag)-1] == '/' {
		tag, x.ended = tag[:len(tag)-1], true
	}
	n := 0
	for n < len(tag) && !isBlank(tag[n]) {
		n++
	}
	if n > MaxName {
		return x.bound(TooLongName)
	}
	if string(tag[:n]) != x.Name { // often they follow each other
		if !validName(tag[:n]) {
			return x.Errorf("<%s> is no element", tag[:n])
		}
		x.Name = x.local(tag[:n])
	}
	if err := x.begin(x.Name); err != nil {
		return err
	}
	x.Attrs = x.Attrs[:0]
	all := 0
	for rest := tag[n:]; ; {
		rest = unindented(rest)
		if len(rest) == 0 {
			return nil
		}
		eq := bytes.IndexByte(rest, '=')
		if eq < 0 {
			return x.Errorf("an attribute of <%s> without a value", x.Name)
		}
		if all++; all > MaxAttrs {
			return x.bound(tooManyAttrs)
		}
		if eq > MaxName {
			return x.bound(TooLongName)
		}
		name := trimmed(rest[:eq])
		if !validName(name) {
			return x.Errorf("%q is no attribute of <%s>", name, x.Name)
		}
		rest = unindented(rest[eq+1:])
		if len(rest) == 0 || rest[0] != '"' && rest[0] != '\'' {
			return x.Errorf("the value of attribute %s of <%s> is not in quotes", name, x.Name)
		}
		end := bytes.IndexByte(rest[1:], rest[0])
		if end < 0 {
			return x.Errorf("the value of attribute %s of <%s> is not closed", name, x.Name)
		}
		value := rest[1 : 1+end]
		if !plain(value) {
			var err error
			if value, err = x.resolve(nil, value); err != nil {
				return err
			}
		}
		if rest = rest[end+2:]; bytes.IndexByte(name, ':') >= 0 { // xsi:… and the like
			continue
		}
		for i := range x.Attrs {
			if bytes.Equal(x.Attrs[i].Name, name) {
				return x.Errorf("attribute %s of <%s> is given twice", name, x.Name)
			}
		}
		x.Attrs = append(x.Attrs, XMLAttr{name, value})
	}
}

func isBlank(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// unindented is a text without the blanks that it begins with.
func unindented(text []byte) []byte {
	for len(text) > 0 && isBlank(text[0]) {
		text = text[1:]
	}
	return text
}

// trimmed is a text without the blanks that it ends with.
func trimmed(text []byte) []byte {
	for len(text) > 0 && isBlank(text[len(text)-1]) {
		text = text[:len(text)-1]
	}
	return text
}

// plain reports whether a value is ASCII without references and control characters.
func plain(value []byte) bool {
	for _, c := range value {
		if c < ' ' || c >= utf8.RuneSelf || c == '&' {
			return false
		}
	}
	return true
}

// nameByte has the bytes that names have; the full tables of Unicode do not matter here.
var nameByte = func() (is [256]bool) {
	for c := range is {
		is[c] = c >= utf8.RuneSelf || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' ||
			strings.ContainsRune("_-.:", rune(c))
	}
	return is
}()

// validName refuses texts that cannot be a name.
func validName(name []byte) bool {
	all := byte(0)
	for _, c := range name {
		if !nameByte[c] {
			return false
		}
		all |= c
	}
	return len(name) > 0 && name[0] > ':' && name[len(name)-1] != ':' &&
		(all < utf8.RuneSelf || utf8.Valid(name))
}

// local returns the one string of a name without its prefix.
func (x *XML) local(name []byte) string {
	name = name[bytes.IndexByte(name, ':')+1:]
	if s, ok := x.names[string(name)]; ok {
		return s
	}
	s := string(name)
	if len(x.names) < 1000 {
		x.names[s] = s
	}
	return s
}

// resolve appends text to to, which may overlap it, with its references resolved and line ends unified.
func (x *XML) resolve(to, text []byte) ([]byte, error) {
	if !utf8.Valid(text) {
		return nil, x.Errorf("the text is not UTF-8; convert the file, or let it say its encoding")
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\r':
			if i+1 == len(text) || text[i+1] != '\n' {
				to = append(to, '\n')
			}
		case c < ' ' && c != '\t' && c != '\n':
			return nil, x.Errorf("a control character 0x%02x", c)
		case c != '&':
			to = append(to, c)
		default:
			end := bytes.IndexByte(text[i:min(len(text), i+16)], ';')
			if end < 0 {
				return nil, x.Errorf("& that begins no entity; write &amp;")
			}
			r, ok := entity(string(text[i+1 : i+end]))
			if !ok {
				return nil, x.Errorf("unknown entity %s", text[i:i+end+1])
			}
			to = utf8.AppendRune(to, r)
			i += end
		}
	}
	return to, nil
}

var entities = map[string]rune{"lt": '<', "gt": '>', "amp": '&', "quot": '"', "apos": '\''}

func entity(name string) (rune, bool) {
	if r, ok := entities[name]; ok {
		return r, true
	}
	digits, ok := strings.CutPrefix(name, "#")
	base := 10
	if hex, isHex := strings.CutPrefix(digits, "x"); isHex {
		digits, base = hex, 16
	}
	n, err := strconv.ParseUint(digits, base, 21)
	if !ok || err != nil || n > utf8.MaxRune || n < ' ' && n != '\t' && n != '\n' && n != '\r' ||
		n >= 0xd800 && n < 0xe000 {
		return 0, false
	}
	return rune(n), true
}

// Attr returns an attribute of the element that starts, valid until the next token, and whether it has one of that
// name.
func (x *XML) Attr(name string) ([]byte, bool) {
	for i := range x.Attrs {
		if a := &x.Attrs[i]; string(a.Name) == name {
			return a.Value, true
		}
	}
	return nil, false
}
