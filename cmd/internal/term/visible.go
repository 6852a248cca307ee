package term

import (
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/mattn/go-isatty"

	"gantry/trace/shown"
)

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
	if p, ok := Unfolded(w).(plain); ok {
		w = p.Writer
	}
	if isatty.IsTerminal(f.Fd()) {
		return &Visible{Writer: w}
	}
	return w
}
