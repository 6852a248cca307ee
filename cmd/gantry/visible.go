package main

import (
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/mattn/go-isatty"
)

// visible shows what would act on a terminal instead of being read: control characters as ^X, bytes that are no UTF-8
// as \xNN, and characters that change the direction of text, or have no width, as <U+NNNN>. Line feeds and tabs stay.
type visible struct {
	io.Writer
	rest []byte // the beginning of a character whose end is still to come
}

func (v *visible) Write(b []byte) (int, error) {
	text := append(v.rest, b...)
	out := make([]byte, 0, len(text)+len(text)/8)
	for len(text) > 0 && utf8.FullRune(text) {
		r, size := utf8.DecodeRune(text)
		out = appendVisible(out, r, text[:size])
		text = text[size:]
	}
	v.rest = append([]byte(nil), text...)
	if _, err := v.Writer.Write(out); err != nil {
		return 0, err
	}
	return len(b), nil
}

// flush shows what is left of a character that has no end.
func (v *visible) flush() error {
	var out []byte
	for _, c := range v.rest {
		out = fmt.Appendf(out, `\x%02x`, c)
	}
	v.rest = nil
	_, err := v.Writer.Write(out)
	return err
}

func appendVisible(out []byte, r rune, raw []byte) []byte {
	switch {
	case r == utf8.RuneError && len(raw) == 1:
		return fmt.Appendf(out, `\x%02x`, raw[0])
	case r == '\n' || r == '\t':
	case r < ' ' || r == 0x7f:
		return append(out, '^', byte(r)^0x40)
	case r >= 0x80 && r < 0xa0, r >= 0x200b && r <= 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2060 && r <= 0x206f,
		r == 0xfeff, r == 0x61c:
		return fmt.Appendf(out, "<U+%04X>", r)
	}
	return append(out, raw...)
}

// screened is a program's output as it may be shown on f: as it is if f is no terminal.
func screened(w io.Writer, f *os.File) io.Writer {
	if p, ok := unfolded(w).(plain); ok {
		w = p.Writer
	}
	if isatty.IsTerminal(f.Fd()) {
		return &visible{Writer: w}
	}
	return w
}
