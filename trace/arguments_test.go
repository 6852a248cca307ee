package trace_test

import (
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"gantry/trace"
)

// Arguments are read as bash reads them; bash itself is the oracle.
func TestArgumentsAreParsedAsBashDoes(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash here")
	}
	dir := files(t, map[string]string{"a.txt": "", "b.txt": "", "c d.csv": ""})
	env := []string{"N=1 2", "E=", "Q='x'", "HOME=/h", "PATH=/bin"}
	for _, text := range []string{`a  b`, `"a b" 'c d' e\ f`, `$N "$N" '$N' \$N`, `${N}x x$E"" $E`,
		`${NOPE:-a b} "${NOPE}"`, `$Q`, `*.txt *.pdf '*.txt' "c d".*`, `{1,2}x a{b,c}d {1..3}`, `~ ~/x "~" a~`, `a #b`,
		`$((0+12))`, `a#b '#c'`, `$'a\tb'`, `"a\"b\\c\d" a\\b`, `a=b=c -x="$N"`, `"a
b"`, `$((1+2)) $`, `-f "QD < 2.0 || FS > 60.0"`, `[ab].txt [!a].txt`, `\`, `""`, `!x`, `"$NOPE"`, `größe '日本'`, `$? $# "$?"`} {
		cmd := exec.Command(bash, "-c", `printf '%s\0' `+text)
		cmd.Dir, cmd.Env = dir, env
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		want := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
		got, err := trace.ExpandArguments(text, env, dir, os.ReadDir)
		if len(got) == 0 {
			got = []string{""} // printf prints one empty word then
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q, %v; bash: %q", text, got, err, want)
		}
	}
	for _, text := range []string{"`id`", "$(id)", `"$(id)"`,
		"<(id)", "a > b", "a | b", "a; b", "a & b", "(a)", "'a", `"a`,
		"${", "$((", "x.$$", `"$!"`, `"$@"`, "$RANDOM", `-s "${HOSTNAME}"`, "$0",
		"out-$RANDOM-$N", "$(id)$N", "<(id)$N", `"$RANDOM$N"`,
		"$((RANDOM))", "x$((1 + SECONDS % 7))", "$((${RANDOM}))", "${!A}", "${!A*}"} {
		if got, err := trace.ExpandArguments(text, env, dir, os.ReadDir); err == nil {
			t.Errorf("%s: %q, want an error", text, got)
		}
	}
}

// A text of 1 MiB, which a catalog and a submission may have, can become terabytes, or nest until the stack ends, which
// nothing in Go survives.
func TestArgumentsThatWouldTakeAllMemoryAreRefused(t *testing.T) {
	const most = 1 << 20
	env := []string{"A=" + strings.Repeat("a", 100_000)}
	for name, text := range map[string]string{
		"many long words":   strings.Repeat("x", most-10) + "{1..16384}",
		"long words":        strings.Repeat("x", 4000) + "{1..16384}",
		"many braces":       strings.Repeat("{a,}", 1000),
		"words with braces": strings.Repeat("{a,b} ", 1000),
		"braces inside":     strings.Repeat("{a,", 1000) + strings.Repeat("}", 1000),
		"one long word":     strings.Repeat("$A", 30_000),
		"a replacement":     "${A//a/" + strings.Repeat("b", 60_000) + "}",
		"parentheses":       "$((" + strings.Repeat("(", most/2) + "1" + strings.Repeat(")", most/2) + "))",
		"expressions":       strings.Repeat("$((", most/5) + strings.Repeat("))", most/5),
		"indices":           strings.Repeat("${A[", most/6) + strings.Repeat("]}", most/6),
	} {
		if words, err := trace.ExpandArguments(text, env, "/", nil); err == nil {
			t.Errorf("%s: %d words", name, len(words))
		}
		if words, fixed, err := trace.FixedArguments(text, env); fixed && err == nil {
			t.Errorf("%s: %d words before it runs", name, len(words))
		}
	}
}
