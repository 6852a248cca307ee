package reader

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf8"
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
	rooted bool // the root element was there
	ended  bool // the element that started was empty: its end comes next
	tag    []byte
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
		x.ended = false
		return XMLEnd, x.close(x.Name)
	}
	if len(x.open) > 0 {
		window, _ := x.in.Peek(x.in.Buffered())
		if n := x.quickEnd(window); n > 0 {
			x.in.Discard(n)
			return XMLEnd, nil
		}
		if n := x.quickStart(window); n > 0 {
			x.in.Discard(n)
			return XMLStart, x.begin(x.Name)
		}
		if n := plainValue(window); n > 0 && n < len(window) && window[n] == '<' {
			x.Start, x.Text = x.Line, append(x.Text[:0], window[:n]...)
			x.in.Discard(n)
			return XMLText, nil
		}
	}
	for {
		x.Start = x.Line
		x.Text = x.Text[:0]
		for {
			part, err := x.in.ReadSlice('<')
			x.Line += bytes.Count(part, []byte{'\n'})
			x.Text = append(x.Text, bytes.TrimSuffix(part, []byte{'<'})...)
			if len(x.Text) > MaxText {
				return XMLEOF, x.bound(TooLong)
			}
			if err == bufio.ErrBufferFull {
				continue
			}
			if err == io.EOF && len(x.open) == 0 && x.rooted {
				if len(bytes.TrimSpace(x.Text)) > 0 {
					return XMLEOF, x.Errorf("text outside the root element")
				}
				return XMLEOF, nil
			}
			if err != nil {
				return XMLEOF, x.cut(err)
			}
			break
		}
		if len(x.Text) > 0 {
			if err := x.in.UnreadByte(); err != nil { // the '<': the text is a token of its own
				return XMLEOF, err
			}
			blank := len(bytes.TrimSpace(x.Text)) == 0
			if len(x.open) == 0 {
				if !blank {
					return XMLEOF, x.Errorf("text outside the root element")
				}
			} else {
				var err error
				if x.Text, err = x.resolve(x.Text[:0], x.Text); err != nil {
					return XMLEOF, err
				}
				return XMLText, nil
			}
			x.in.ReadByte()
		}
		x.Start = x.Line
		c, err := x.in.Peek(1)
		if err != nil {
			return XMLEOF, x.cut(err)
		}
		switch c[0] {
		case '?':
			if err := x.until("?>"); err != nil {
				return XMLEOF, err
			}
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
			x.in.ReadByte()
			if err := x.until(">"); err != nil {
				return XMLEOF, err
			}
			name := bytes.TrimRight(x.tag[:len(x.tag)-1], " \t\r\n")
			return XMLEnd, x.close(x.local(name))
		default:
			return XMLStart, x.element()
		}
	}
}

// quickEnd returns the length of an end tag that closes the innermost element, 0 if window does not begin with one as
// it is usually written.
func (x *XML) quickEnd(window []byte) int {
	name := x.open[len(x.open)-1]
	n := len(name) + 3
	if len(window) < n || window[0] != '<' || window[1] != '/' || window[n-1] != '>' ||
		string(window[2:n-1]) != name {
		return 0
	}
	x.Start, x.Name, x.open = x.Line, name, x.open[:len(x.open)-1]
	return n
}

// Kinds of bytes, for tags as they are usually written.
const (
	inName  = 1 << iota // of a name without prefix
	inValue             // stands for itself in a value, but for quotes
)

var quickBytes = func() (is [256]byte) {
	for c := byte(' '); c < utf8.RuneSelf; c++ {
		if c != '&' && c != '<' && c != '"' && c != '\'' {
			is[c] = inValue
		}
		if c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' {
			is[c] |= inName
		}
	}
	return is
}()

// nameEnd returns where a name without prefix ends that begins at from; 0 if none does, or window ends with it.
func nameEnd(window []byte, from int) int {
	i := from
	for i < len(window) && quickBytes[window[i]]&inName != 0 {
		i++
	}
	if i == from || i == len(window) || i-from > MaxName || window[from] <= '9' {
		return 0
	}
	return i
}

// Eight bytes at once.
const (
	each = 0x0101010101010101
	high = 0x80 * each
)

// plainValue is how many bytes of a value stand for themselves, and are neither quotes nor beyond ASCII.
func plainValue(s []byte) int {
	i := 0
	for ; i+8 <= len(s); i += 8 {
		w := binary.LittleEndian.Uint64(s[i:])
		if ends := (w | (w - ' '*each) | ((w ^ '"'*each) - each) | ((w ^ '\''*each) - each) | ((w ^ '&'*each) - each) |
			((w ^ '<'*each) - each)) & high; ends != 0 {
			return i + bits.TrailingZeros64(ends)/8
		}
	}
	for i < len(s) && quickBytes[s[i]]&inValue != 0 {
		i++
	}
	return i
}

// quickStart returns the length of a start tag, whose name and attributes it notes; 0 if window does not begin with a
// whole one of names in ASCII and of values without references, whose attributes are few and different. Any other tag
// is for element to judge.
func (x *XML) quickStart(window []byte) int {
	const most = 32
	if len(window) < 3 || window[0] != '<' {
		return 0
	}
	i := nameEnd(window, 1)
	if i == 0 {
		return 0
	}
	element, attrs, lines := window[1:i], x.Attrs[:0], 0
	seen := uint64(0) // of the names, by length and last byte
	for {
		from := i
		for ; i < len(window); i++ {
			if c := window[i]; c == '\n' {
				lines++
			} else if c != ' ' && c != '\t' && c != '\r' {
				break
			}
		}
		if i+1 >= len(window) {
			return 0
		}
		if c := window[i]; c == '>' || c == '/' && window[i+1] == '>' {
			x.Attrs, x.Start = attrs, x.Line
			if x.Line += lines; string(element) != x.Name {
				x.Name = x.local(element)
			}
			if c == '/' {
				x.ended = true
				i++
			}
			return i + 1
		}
		end := nameEnd(window, i)
		if end == 0 || i == from || len(attrs) == most || end+1 >= len(window) || window[end] != '=' {
			return 0
		}
		attr, quote := window[i:end], window[end+1]
		if quote != '"' && quote != '\'' {
			return 0
		}
		value := end + 2
		i = value + plainValue(window[value:])
		if i == len(window) || window[i] != quote {
			return 0
		}
		bit := uint64(1) << ((attr[len(attr)-1] ^ byte(len(attr)<<2)) & 63)
		if seen&bit != 0 {
			for k := range attrs {
				if string(attrs[k].Name) == string(attr) {
					return 0
				}
			}
		}
		seen |= bit
		attrs = append(attrs, XMLAttr{attr, window[value:i]})
		i++
	}
}

// begin opens an element.
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
func (x *XML) close(name string) error {
	n := len(x.open)
	if n == 0 {
		return x.Errorf("</%s> closes nothing", name)
	}
	if x.open[n-1] != name {
		return x.Errorf("</%s> where </%s> should be", name, x.open[n-1])
	}
	x.open, x.Name = x.open[:n-1], name
	return nil
}

// until reads up to a delimiter into tag, the delimiter included.
func (x *XML) until(end string) error {
	x.tag = x.tag[:0]
	for {
		part, err := x.in.ReadSlice(end[len(end)-1])
		x.Line += bytes.Count(part, []byte{'\n'})
		x.tag = append(x.tag, part...)
		if err != nil && err != bufio.ErrBufferFull {
			return x.cut(err)
		}
		if err == nil && bytes.HasSuffix(x.tag, []byte(end)) {
			return nil
		}
		if len(end) == 1 && len(x.tag) > MaxName {
			return x.bound(TooLongName)
		}
		if len(end) > 1 && len(x.tag) > 1<<12 { // a long comment is not kept
			x.tag = append(x.tag[:0], x.tag[len(x.tag)-len(end):]...)
		}
	}
}

// declaration looks for the encoding in <?xml …?>, which is in tag.
func (x *XML) declaration() error {
	text := string(x.tag)
	if !strings.HasPrefix(text, "?xml") {
		return nil
	}
	_, text, ok := strings.Cut(text, "encoding")
	if text = strings.TrimLeft(text, " \t\r\n="); !ok || text == "" {
		return nil
	}
	label, _, _ := strings.Cut(text[1:], text[:1])
	switch strings.ToLower(label) {
	case "utf-8", "utf8", "us-ascii", "ascii", "utf-16", "utf-16le", "utf-16be": // UTF-16 is recognised by its bytes
	case "iso-8859-1", "latin1", "latin-1", "windows-1252":
		x.in = bufio.NewReaderSize(&latin1{in: x.in}, Window)
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
		return false, x.until("-->")
	case bytes.HasPrefix(head, []byte("![CDATA[")):
		x.in.Discard(8)
		for x.Text = x.Text[:0]; ; {
			part, err := x.in.ReadSlice('>')
			x.Line += bytes.Count(part, []byte{'\n'})
			if x.Text = append(x.Text, part...); len(x.Text) > MaxText {
				return false, x.bound(TooLong)
			}
			if err != nil && err != bufio.ErrBufferFull {
				return false, x.cut(err)
			}
			if err == nil && bytes.HasSuffix(x.Text, []byte("]]>")) {
				break
			}
		}
		x.Text = x.Text[:len(x.Text)-3]
		if len(x.open) == 0 {
			return false, x.Errorf("text outside the root element")
		}
		if !utf8.Valid(x.Text) {
			return false, x.Errorf("the text is not UTF-8; convert the file, or let it say its encoding")
		}
		return true, nil
	}
	if len(head) < 2 || (head[1]|0x20 < 'a' || head[1]|0x20 > 'z') {
		return false, x.Errorf("<! that begins neither a comment nor a declaration")
	}
	return false, x.doctype()
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
			if err := x.until("-->"); err != nil {
				return err
			}
		case c == '>':
			if depth--; depth < 0 {
				return nil
			}
		}
	}
}

// element reads a start tag.
func (x *XML) element() error {
	x.tag = x.tag[:0]
	for quote := byte(0); ; {
		part, err := x.in.ReadSlice('>')
		x.Line += bytes.Count(part, []byte{'\n'})
		if x.tag = append(x.tag, part...); len(x.tag) > MaxText {
			return x.bound(TooLong)
		}
		for _, c := range part {
			switch {
			case c == '<':
				return x.Errorf("< inside a tag")
			case quote != 0:
				if c == quote {
					quote = 0
				}
			case c == '"' || c == '\'':
				quote = c
			}
		}
		if err != nil && err != bufio.ErrBufferFull {
			return x.cut(err)
		}
		if err == nil && quote == 0 {
			break
		}
	}
	tag := x.tag[:len(x.tag)-1]
	if n := len(tag); n > 0 && tag[n-1] == '/' {
		tag, x.ended = tag[:n-1], true
	}
	n := bytes.IndexAny(tag, " \t\r\n")
	if n < 0 {
		n = len(tag)
	}
	if n > MaxName {
		return x.bound(TooLongName)
	}
	if !validName(tag[:n]) {
		return x.Errorf("<%s> is no element", tag[:n])
	}
	if err := x.begin(x.local(tag[:n])); err != nil {
		return err
	}
	x.Attrs = x.Attrs[:0]
	all := 0
	for rest := tag[n:]; ; {
		rest = bytes.TrimLeft(rest, " \t\r\n")
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
		name := bytes.TrimRight(rest[:eq], " \t\r\n")
		if !validName(name) {
			return x.Errorf("%q is no attribute of <%s>", name, x.Name)
		}
		rest = bytes.TrimLeft(rest[eq+1:], " \t\r\n")
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

// plain reports whether a value is ASCII without references and control characters.
func plain(value []byte) bool {
	for _, c := range value {
		if c < ' ' || c >= utf8.RuneSelf || c == '&' {
			return false
		}
	}
	return true
}

// validName refuses texts that cannot be a name; the full tables of Unicode do not matter here.
func validName(name []byte) bool {
	return len(name) > 0 && !bytes.ContainsAny(name, "\"'&<>=/;,()[]{}!?*%$#@^~`|+\\ \t\r\n") &&
		name[0] != '-' && name[0] != '.' && name[0] != ':' && name[len(name)-1] != ':' &&
		(name[0] < '0' || name[0] > '9') && utf8.Valid(name)
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

func entity(name string) (rune, bool) {
	switch name {
	case "lt":
		return '<', true
	case "gt":
		return '>', true
	case "amp":
		return '&', true
	case "quot":
		return '"', true
	case "apos":
		return '\'', true
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

// latin1 reads ISO 8859-1 as UTF-8.
type latin1 struct{ in *bufio.Reader }

func (l *latin1) Read(p []byte) (n int, err error) {
	for n+2 <= len(p) {
		if n > 0 && l.in.Buffered() == 0 {
			return n, nil
		}
		c, err := l.in.ReadByte()
		if err != nil {
			return n, err
		}
		n += copy(p[n:], string(rune(c)))
	}
	return n, nil
}
