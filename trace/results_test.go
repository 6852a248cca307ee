package trace_test

import (
	"fmt"
	"strings"
	"testing"

	"gantry/trace"
)

func TestPatternsMatchNamesOfFiles(t *testing.T) {
	for pattern, x := range map[string]struct{ yes, no string }{
		"*.vcf":        {"a.vcf", "d/a.vcf .a.vcf a.vcf.gz"},
		"./calls//*":   {"calls/a calls/b.vcf", "calls calls/.a calls/d/a a"},
		"**/*.bam":     {"a.bam d/a.bam d/e/a.bam", ".d/a.bam d/.e/a.bam d/a.sam"},
		"d/**":         {"d d/a d/e/a", "e/a d/.a"},
		"d/**/x/**/y":  {"d/x/y d/a/x/b/c/y d/x/x/y", "d/y d/x d/a/x/b"},
		"s[12]?.txt":   {"s1a.txt s2b.txt", "s3a.txt s1.txt s1/.txt"},
		".hid*":        {".hidden", "hidden d/.hidden"},
		"parts/*.txt":  {"parts/*.txt parts/a.txt", "parts"},
		"odd[name":     {"odd[name", "oddn"},
		"**/.a/**/b":   {".a/b c/.a/b .a/c/b", ".a/.c/b .c/.a/b"},
		"all.txt":      {"all.txt ./all.txt", "all.txt2 d/all.txt"},
		"*":            {"a all.txt", ".a d/a"},
		"**/x/**/x/**": {"x/x a/x/b/x/c", "x a/x/b"},
	} {
		agree(t, pattern, trace.Matches, x.yes, x.no)
	}
	slow := strings.Repeat("**/a/", 200)
	if trace.Matches(slow+"b", strings.Repeat("a/", 2000)+"c") { // in linear time
		t.Error("a long pattern matches another name")
	}
}

func TestPatternsMatchPartsOfOutputs(t *testing.T) {
	for pattern, x := range map[string]struct{ yes, no string }{
		"d/x.vcf":     {"d d/x.vcf d/* d/x* d/** ** */x.vcf", "e d/y d/*.txt x.vcf d/x.vcf/y **/*.txt"},
		"parts/a*":    {"parts parts/*.txt parts/?b parts/[ab]c", "part parts/b* parts/b/*"},
		"**/*.bam":    {"d d/e *.txt", ""},
		"*.bam":       {"*.bam a* **/c.bam", "d/e *.txt d/*.bam"},
		"d/**/x/*.gz": {"d d/e/f", "e"},
		"d[12]/*":     {"d1 d2 d*", "d d3"},
	} {
		agree(t, pattern, trace.MayHold, x.yes, x.no)
	}
}

// A makeflow says in either syntax which files are results.
func TestMakeflowsNameResults(t *testing.T) {
	kept := func(w *trace.Workflow) (names []string) {
		for _, f := range w.Files {
			if f.Keep == trace.KeepAlways {
				names = append(names, f.Name)
			}
		}
		return names
	}
	for name, text := range map[string]string{
		"a.makeflow": "MAKEFLOW_OUTPUTS=\"d/*.vcf\" ./b\nb d/x.vcf: in.vcf\n\tx\n" +
			"MAKEFLOW_OUTPUTS+=c\nc e: b\n\ty\nf: c e\n\tz\n",
		"a.jx": `{"define": {"N": "c"}, "results": ["d/*.vcf", "./b", N], "rules": [
			{"command": "x", "outputs": ["b", "d/x.vcf"], "inputs": ["in.vcf"]},
			{"command": "y", "outputs": ["c", "e"], "inputs": ["b"]},
			{"command": "z", "outputs": ["f"], "inputs": ["c", "e"]}]}`,
	} {
		w, faults := flow(t, name, text, nil)
		if got := fmt.Sprint(kept(w)); len(faults) > 0 || got != "[b d/x.vcf c]" {
			t.Errorf("%s keeps %s: %v", name, got, faults)
		}
	}
	w, faults := flow(t, "p.makeflow", "MAKEFLOW_OUTPUTS=d/*.vcf parts/a* **/z\nd/ parts/*.txt: in\n\tx\n", nil)
	if len(faults) > 0 || fmt.Sprint(kept(w), w.Results) != "[] [d/*.vcf parts/a* **/z]" {
		t.Errorf("parts are kept by %v and %v: %v", kept(w), w.Results, faults)
	}
	const jx = "{\"rules\": [{\"command\": \"x\", \"outputs\": [\"a\"]}],\n\"results\": "
	for name, x := range map[string]struct {
		text, says string
		line       int
	}{
		"b.makeflow": {"a: in\n\tx\nMAKEFLOW_OUTPUTS=*.vfc\ncall.vcf: a\n\ty\n", `"*.vfc" matches no file`, 3},
		"c.makeflow": {"MAKEFLOW_OUTPUTS=in.txt\na: in.txt\n\tx\n", `"in.txt" matches no file`, 1},
		"d.makeflow": {"MAKEFLOW_OUTPUTS=out.tx\nout.txt: in\n\tx\n", "did you mean out.txt?", 1},
		"e.makeflow": {"MAKEFLOW_OUTPUTS=a[\na: in\n\tx\n", "a [ is not closed", 1},
		"f.makeflow": {"MAKEFLOW_OUTPUTS=parts/a*.tex\nparts/*.txt: in\n\tx\n", `"parts/a*.tex" matches no file`, 1},
		"g.makeflow": {"MAKEFLOW_OUTPUTS=**/x.vfc\nx.vcf: in\n\tx\n", `"**/x.vfc" matches no file`, 1},
		"b.jx":       {jx + `["b"]}`, `"b" matches no file`, 2},
		"c.jx":       {jx + `"a"}`, "wrong type", 2},
		"d.jx":       {jx + `[1]}`, "wrong type", 2},
	} {
		_, faults := flow(t, name, x.text, nil)
		if len(faults) != 1 || faults[0].Severity != trace.Error || !strings.Contains(faults[0].Message, x.says) ||
			faults[0].Line != x.line {
			t.Errorf("%s: %v, want line %d and %q", name, faults, x.line, x.says)
		}
	}
}

// agree holds a predicate of a pattern and a name to the names for which it is true and false.
func agree(t *testing.T, pattern string, is func(pattern, name string) bool, yes, no string) {
	t.Helper()
	for want, names := range map[bool]string{true: yes, false: no} {
		for _, name := range strings.Fields(names) {
			if is(pattern, name) != want {
				t.Errorf("%q and %s: %v", pattern, name, !want)
			}
		}
	}
}
