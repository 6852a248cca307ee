package reader

import (
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/text/encoding/unicode"
)

// Input is a file that is read through gzip, zip and the encodings of Unicode.
type Input struct {
	*bufio.Reader
	// Err is an error of the source itself, rather than of the data.
	Err        error
	most       int64 // of decompressed bytes; 0: the usual
	size       int64 // of the file, as far as it was read
	whole      int64 // the size of all of it; 0: not known
	text       int64 // of the text in it
	compressed bool
	used       int64 // bytes that the caller keeps of it
}

// Open looks through compression and encodings. maxInput bounds the content of a compressed file; 0 is the usual bound.
// A fault of the compression is an error of reading.
func Open(r io.Reader, maxInput int64) *Input {
	in := &Input{most: maxInput}
	if f, ok := r.(interface{ Stat() (os.FileInfo, error) }); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			in.whole = info.Size()
		}
	}
	in.Reader = bufio.NewReaderSize(counter{r, in, false}, Window)
	text, err := in.unpack()
	if err != nil {
		text = broken{err}
	}
	if text != nil {
		in.compressed, in.text = true, 0
		in.Reader = bufio.NewReaderSize(counter{text, in, true}, Window)
	}
	in.Reader = decode(in.Reader)
	return in
}

// unpack returns the text of a compressed file; nil if it is none.
func (in *Input) unpack() (io.Reader, error) {
	magic, _ := in.Peek(4)
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return gzip.NewReader(in.Reader)
	case !bytes.HasPrefix(magic, []byte("PK\x03\x04")):
		return nil, nil
	}
	data, err := io.ReadAll(in.Reader)
	if err != nil {
		return nil, err
	}
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, fmt.Errorf("zip: %w", err)
	}
	files := slices.DeleteFunc(z.File, func(f *zip.File) bool { return f.FileInfo().IsDir() })
	if len(files) != 1 {
		return nil, &FormatError{Rule: "unknown-format",
			Message: fmt.Sprintf("a zip archive of %d files: unpack it and name the workflow", len(files))}
	}
	return files[0].Open()
}

type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

// counter counts bytes that are read: of the file, or of the text that is compressed in it.
type counter struct {
	r        io.Reader
	in       *Input
	unpacked bool
}

func (c counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	in := c.in
	if !c.unpacked {
		in.size += int64(n)
		if err != nil && err != io.EOF {
			in.Err = err
		}
	}
	if c.unpacked == in.compressed {
		in.text += int64(n)
	}
	if most := in.mostText(); c.unpacked && in.text > most {
		return 0, &FormatError{Rule: "bound", Message: fmt.Sprintf("its decompressed text is larger than %d bytes; "+
			"--max-input SIZE raises the bound", most)}
	}
	return n, err
}

// mostText is how much text a compressed file may hold.
func (in *Input) mostText() int64 {
	if in.most > 0 {
		return in.most
	}
	return max(MaxInput, MaxRatio*in.size)
}

// Keep counts bytes that the caller keeps, and reports whether there is room for them: memory is bounded by the size of
// the file. A compressed file counts for three times its size, unless its size is bounded by hand.
func (in *Input) Keep(bytes int) bool {
	in.used += int64(bytes)
	return in.used <= keepBase+keepTimes*in.counted()
}

// Expect estimates how many there are in the whole file of something of which there were n so far, at least a half more
// and at most 16 times as many.
func (in *Input) Expect(n int) int {
	if in == nil || in.whole <= in.size || n < 1024 {
		return 2 * n
	}
	share := float64(in.whole) / float64(in.size)
	return int(float64(n) * min(max(1.5, share*1.02), 16))
}

// Beside counts the text of another file that is read together with this one.
func (in *Input) Beside(bytes int) { in.text += int64(bytes) }

// TooMuch says that a file describes more than its size lets expect.
func (in *Input) TooMuch() string {
	const much = "what it describes takes more memory than 20 times the size of the file and 64 MB"
	if in.compressed && in.most == 0 {
		return much + "; --max-input SIZE bounds its text instead"
	}
	return much
}

func (in *Input) counted() int64 {
	if in.compressed && in.most == 0 {
		return min(in.text, 3*in.size)
	}
	return in.text
}

const (
	keepBase  = 20 << 20
	keepTimes = 12
)

// All reads the rest, if there is room for it.
func (in *Input) All() ([]byte, error) { return io.ReadAll(kept{in}) }

// kept is the rest of a file that the caller keeps.
type kept struct{ *Input }

func (k kept) Read(p []byte) (int, error) {
	n, err := k.Input.Read(p)
	if !k.Keep(2 * n) {
		return 0, &FormatError{Rule: "bound", Message: k.TooMuch()}
	}
	return n, err
}

// FormatError describes a file that is no workflow gantry reads.
type FormatError struct{ Rule, Message string }

func (e *FormatError) Error() string { return e.Message }

// Damage reports an error of reading the data, or of their wrapping.
func (l *Faults) Damage(err error, line int) {
	var fe *FormatError
	switch {
	case errors.As(err, &fe):
		l.Fail(fe.Rule, line, "", "%v", err)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		l.Fail("truncated", line, "", "the file ends too early: %v; get it again", err)
	default:
		l.Fail("bad-archive", line, "", "the compressed data are damaged: %v; get the file again", err)
	}
}

// Grammar reports an error of the tokeniser of a language.
func (l *Faults) Grammar(err error, what string, line int) {
	var syntax *SyntaxError
	switch {
	case !errors.As(err, &syntax):
		l.Damage(err, line)
	case syntax.Bound:
		l.Fail("bound", syntax.Line, "", "%s", syntax.Message)
	case syntax.Truncated:
		l.Fail("truncated", syntax.Line, "", "%s; get it again", syntax.Message)
	case syntax.Rule != "":
		l.Fail(syntax.Rule, syntax.Line, "", "%s", syntax.Message)
		l.ended = true
	default:
		l.Fail("syntax", syntax.Line, "", "not %s: %s", what, syntax.Message)
	}
}

const Window = 64 << 10 // bytes that sniff may look at

// decode passes over the byte order mark of UTF-8 and reads UTF-16 as UTF-8. UTF-16 has a mark, or shows by the zero
// byte of an ASCII character, with which all these formats begin.
func decode(in *bufio.Reader) *bufio.Reader {
	head, _ := in.Peek(3)
	order := unicode.LittleEndian
	switch {
	case bytes.Equal(head, []byte("\xef\xbb\xbf")):
		in.Discard(3)
		return in
	case len(head) < 2:
		return in
	case head[0] == 0xfe && head[1] == 0xff, head[0] == 0 && head[1] != 0:
		order = unicode.BigEndian
	case head[0] == 0xff && head[1] == 0xfe, head[0] != 0 && head[1] == 0:
	default:
		return in
	}
	return bufio.NewReaderSize(unicode.UTF16(order, unicode.UseBOM).NewDecoder().Reader(in), Window)
}

// Keys are the keys of the outermost mapping of a JSON or YAML text, as far as the bytes go: of YAML those at the left
// margin.
func Keys(text []byte, whole bool) map[string]bool {
	if bytes.HasPrefix(text, []byte("{")) {
		return flowKeys(text)
	}
	keys := map[string]bool{}
	lines := bytes.Split(text, []byte("\n"))
	if !whole {
		lines = lines[:len(lines)-1]
	}
	for _, line := range lines {
		if key, _, ok := bytes.Cut(line, []byte(":")); ok && len(line) > 0 && !strings.ContainsRune(" \t#-",
			rune(line[0])) {
			keys[strings.Trim(strings.TrimSpace(string(key)), `"'`)] = true
		}
	}
	return keys
}

// flowKeys are the keys of the outermost mapping of a text in flow style, which JSON is.
func flowKeys(text []byte) map[string]bool {
	keys := map[string]bool{}
	depth, begin := 0, -1 // begin: of a key; -1: this is a value
	first := true         // nothing but blanks since a key or value may begin
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case strings.IndexByte(" \t\r\n", c) >= 0:
			continue
		case first && (c == '"' || c == '\''):
			for i++; i < len(text) && text[i] != c; i++ {
				if c == '"' && text[i] == '\\' {
					i++
				}
			}
		case c == '#' && text[i-1] <= ' ':
			for i++; i < len(text) && text[i] != '\n'; i++ {
			}
			continue
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				return keys
			}
		case c == ':' && depth == 1 && begin >= 0:
			keys[strings.Trim(strings.TrimSpace(string(text[begin:i])), `"'`)] = true
			begin = -1
		}
		if depth == 1 && (c == '{' || c == ',') {
			begin = i + 1
		}
		first = strings.IndexByte("{[,:", c) >= 0
	}
	return keys
}
