// Package shown writes names, texts and sizes as people are shown them, in one way everywhere. Names come from files
// and programs that others wrote: they must neither act on a terminal nor look like a line of gantry's own.
package shown

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/docker/go-units"
)

// Hidden reports whether a character acts on a terminal, changes the direction of text, or cannot be seen. Line feeds
// and tabs are not hidden.
func Hidden(r rune) bool {
	if r >= ' ' && r < 0x7f || r == '\n' || r == '\t' {
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// Append adds a character that raw encodes: a control character as ^X, a byte that is no UTF-8 as \xNN, and another one
// that is hidden as <U+NNNN>.
func Append(out []byte, r rune, raw []byte) []byte {
	switch {
	case r == utf8.RuneError && len(raw) == 1:
		return fmt.Appendf(out, `\x%02x`, raw[0])
	case r < ' ' && Hidden(r) || r == 0x7f:
		return append(out, '^', byte(r)^0x40)
	case Hidden(r):
		return fmt.Appendf(out, "<U+%04X>", r)
	}
	return append(out, raw...)
}

// Text is a text of several lines with all that is hidden in view.
func Text(text string) string {
	if utf8.ValidString(text) && !strings.ContainsFunc(text, Hidden) {
		return text
	}
	out := make([]byte, 0, len(text)+len(text)/8)
	for rest := text; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		out = Append(out, r, []byte(rest[:size]))
		rest = rest[size:]
	}
	return string(out)
}

var breaks = strings.NewReplacer("\n", "^J", "\t", "^I")

// Line is a name, or another text that has to stay within its line.
func Line(text string) string { return breaks.Replace(Text(text)) }

// Quote is a name in quotes, within its line.
func Quote(name string) string { return `"` + Line(name) + `"` }

// Short is a text cut to at most so many characters.
func Short(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

// Under is a text whose lines after the first are indented, so that none looks like one of gantry's own.
func Under(text, indent string) string {
	first, rest, more := strings.Cut(text, "\n")
	if !more {
		return text
	}
	var out strings.Builder
	out.WriteString(first)
	for line := range strings.SplitSeq(rest, "\n") {
		if out.WriteString("\n"); line != "" && !strings.HasPrefix(line, indent) {
			out.WriteString(indent)
		}
		out.WriteString(line)
	}
	return out.String()
}

// Names puts all texts of a value that a pointer leads to within their lines, but for members called Message, which are
// texts of several lines.
func Names(v any) { names(reflect.ValueOf(v)) }

func names(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			names(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			names(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "Message" {
				names(v.Field(i))
			}
		}
	case reflect.String:
		if v.CanSet() {
			v.SetString(Line(v.String()))
		}
	}
}

// Size is an amount of data, in units of powers of ten.
func Size(bytes int64) string {
	return units.CustomSize("%.4g %s", float64(bytes), 1000, []string{"B", "kB", "MB", "GB", "TB", "PB", "EB"})
}

// JSON is JSON in which hidden characters, which only texts can have, are escaped.
func JSON(text []byte) []byte {
	if !bytes.ContainsFunc(text, Hidden) {
		return text
	}
	out := make([]byte, 0, len(text)+len(text)/8)
	for _, r := range string(text) {
		if !Hidden(r) {
			out = utf8.AppendRune(out, r)
			continue
		}
		for _, u := range utf16.Encode([]rune{r}) {
			out = fmt.Appendf(out, `\u%04x`, u)
		}
	}
	return out
}
