package term

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"plain\ttext\n":         "plain\ttext\n",
		"\x1b[31mred\x1b[0m":    "^[[31mred^[[0m",
		"\x1b]0;title\x07":      "^[]0;title^G",
		"50 %\r100 %\n":         "50 %^M100 %\n",
		"\x00\x7f\b":            "^@^?^H",
		"\x9b2J":                `\x9b2J`,
		"\u009b2J":              "<U+009B>2J",
		"größe 数 😀":             "größe 数 😀",
		"a\u202eb\u2066c\ufeff": "a<U+202E>b<U+2066>c<U+FEFF>",
		"cut \xe6\x95":          `cut \xe6\x95`,
	} {
		for _, piece := range []int{1, 2, 3, 100} {
			var out bytes.Buffer
			v := &Visible{Writer: &out}
			for rest := []byte(text); len(rest) > 0; rest = rest[min(piece, len(rest)):] {
				if n, err := v.Write(rest[:min(piece, len(rest))]); n != min(piece, len(rest)) || err != nil {
					t.Fatal(n, err)
				}
			}
			if err := v.Flush(); err != nil || out.String() != want {
				t.Errorf("%q in pieces of %d is shown as %q, not %q: %v", text, piece, out.String(), want, err)
			}
		}
	}
}

func TestNothingVisibleActsOnATerminal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var out bytes.Buffer
		v := &Visible{Writer: &out}
		for _, b := range rapid.SliceOf(rapid.SliceOf(rapid.Byte())).Draw(t, "writes") {
			if _, err := v.Write(b); err != nil {
				t.Fatal(err)
			}
		}
		if err := v.Flush(); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool {
			return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0
		}) {
			t.Fatalf("%q", got)
		}
	})
}
