package term

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mattn/go-isatty"
	"golang.org/x/sys/unix"

	"gantry/trace/shown"
)

// Width is how many columns a line written to f may have: $COLUMNS, else the width of the terminal; 0, any
// number, if f is none.
func Width(f *os.File) int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return max(n, minWidth)
	}
	if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 {
		return max(int(size.Col), minWidth)
	}
	return 0
}

// minWidth is the least width that output is fitted to.
const minWidth = 40

// fitted writes text to a terminal or a file. It keeps control characters from terminals: names in traces and output of
// programs could move the cursor, or worse. It breaks lines that are too long between words; words longer than a line
// stay whole, as most are paths.
type fitted struct {
	io.Writer
	width   int // 0: any
	colours bool
}

// Fitted writes text to a terminal, or to a file: without control characters, fitted to the width of f.
func Fitted(w io.Writer, f *os.File) io.Writer {
	return fitted{w, Width(f), Terminal(f) && os.Getenv("NO_COLOR") == ""}
}

// Columns implements columns.Limited.
func (f fitted) Columns() int { return f.width }

// paints are the colours of gantry's own words, which say how a line is meant.
var paints = map[string]*regexp.Regexp{
	"31;1": regexp.MustCompile(`(?m)^(?:gantry:|failed:)|^Run \S+: failed\b|it failed for good\b`),
	"32;1": regexp.MustCompile(`(?m)^Run \S+: finished\b`),
	"33":   regexp.MustCompile(`(?m)^(?:warning|suspect):`),
}

func (f fitted) Write(b []byte) (int, error) {
	text := shown.Text(string(b))
	if f.colours {
		for colour, words := range paints {
			text = words.ReplaceAllString(text, "\x1b["+colour+"m$0\x1b[0m")
		}
	}
	if f.width > 0 {
		var out strings.Builder
		for line := range strings.Lines(text) {
			out.WriteString(fold(line, f.width))
		}
		text = out.String()
	}
	if _, err := io.WriteString(f.Writer, text); err != nil {
		return 0, err
	}
	return len(b), nil
}

// fold breaks a line into lines of at most width runes. Those after the first are indented four columns further.
func fold(line string, width int) string {
	text := strings.TrimRight(line, "\n")
	if utf8.RuneCountInString(text) <= width {
		return line
	}
	words := strings.TrimLeft(text, " ")
	first := strings.Repeat(" ", len(text)-len(words))
	rest := strings.Repeat(" ", min(len(first)+4, width/2))
	return Hang(first, rest, words, width) + line[len(text):]
}

// Hang sets words to lines of at most width runes, the first indented by first, the others by rest.
func Hang(first, rest, words string, width int) string {
	var out strings.Builder
	out.WriteString(first)
	at, begun := utf8.RuneCountInString(first), false
	// Several spaces, as between the columns of a table, are kept where the line is not broken.
	for words != "" {
		gap := len(words) - len(strings.TrimLeft(words, " "))
		word := words[gap:]
		if i := strings.IndexByte(word, ' '); i >= 0 {
			word = word[:i]
		}
		words = words[gap+len(word):]
		n := utf8.RuneCountInString(word)
		if begun && at+gap+n > width {
			out.WriteString("\n" + rest)
			at, gap = utf8.RuneCountInString(rest), 0
		}
		out.WriteString(strings.Repeat(" ", gap) + word)
		at, begun = at+gap+n, true
	}
	return out.String()
}

// Unfolded is where a command writes data: its lines are not broken.
func Unfolded(w io.Writer) io.Writer {
	if f, ok := w.(fitted); ok {
		return fitted{Writer: f.Writer}
	}
	return w
}

// Raw is where a command writes the bytes of programs and files, as they are.
func Raw(w io.Writer) io.Writer {
	if f, ok := w.(fitted); ok {
		return f.Writer
	}
	return w
}

// Checked remembers the first error of writing, for all that prints without looking at it.
type Checked struct {
	io.Writer
	Err error
}

func (c *Checked) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	c.Err = cmp.Or(c.Err, err)
	return n, err
}

// Visible shows characters that would act on a terminal, as package shown does. Line feeds and tabs stay.
type Visible struct {
	io.Writer
	rest []byte // the beginning of a character whose end is still to come
}

func (v *Visible) Write(b []byte) (int, error) {
	text := append(v.rest, b...)
	out := make([]byte, 0, len(text)+len(text)/8)
	for len(text) > 0 && utf8.FullRune(text) {
		r, size := utf8.DecodeRune(text)
		out = shown.Append(out, r, text[:size])
		text = text[size:]
	}
	v.rest = append([]byte(nil), text...)
	if _, err := v.Writer.Write(out); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Flush shows the rest of a character that has no end.
func (v *Visible) Flush() error {
	var out []byte
	for _, c := range v.rest {
		out = fmt.Appendf(out, `\x%02x`, c)
	}
	v.rest = nil
	_, err := v.Writer.Write(out)
	return err
}

// Screened is a program's output as it may be shown on f: as it is if f is no terminal.
func Screened(w io.Writer, f *os.File) io.Writer {
	if isatty.IsTerminal(f.Fd()) {
		return &Visible{Writer: Raw(w)}
	}
	return Raw(w)
}
