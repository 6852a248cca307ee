package shown

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestNamesStayWithinTheirLine(t *testing.T) {
	if got := Quote("a\nb"); got != `"a^Jb"` {
		t.Errorf("in quotes it is %s", got)
	}
	for name, want := range map[string]string{
		"plain":              "plain",
		"größe 数 😀":          "größe 数 😀",
		"a\nrun ended":       "a^Jrun ended",
		"a\r\x1b[2K\tb":      "a^M^[[2K^Ib",
		"gpj\u202e.txt":      "gpj<U+202E>.txt",
		"no\x80text":         `no\x80text`,
		"\u2028line\u0085 x": "<U+2028>line<U+0085> x",
	} {
		if got := Line(name); got != want {
			t.Errorf("%q is shown as %q, not %q", name, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		got := Line(string(rapid.SliceOf(rapid.Byte()).Draw(t, "name")))
		if !utf8.ValidString(got) || strings.ContainsAny(got, "\n\t") || strings.ContainsFunc(got, Hidden) {
			t.Fatalf("%q", got)
		}
	})
}

func TestLongNamesAreCutAndLinesIndented(t *testing.T) {
	if got := Short(strings.Repeat("ü", 300), 10); got != strings.Repeat("ü", 9)+"…" || Short("abc", 3) != "abc" {
		t.Error(got)
	}
	if got := Under("one\ntwo\n  three\n", "  "); got != "one\n  two\n  three\n" {
		t.Errorf("%q", got)
	}
}

func TestSizes(t *testing.T) {
	for bytes, want := range map[int64]string{0: "0 B", 999: "999 B", 33_554_432: "33.55 MB", 2_000_000_000: "2 GB"} {
		if got := Size(bytes); got != want {
			t.Errorf("%d: %q, not %q", bytes, got, want)
		}
	}
}
