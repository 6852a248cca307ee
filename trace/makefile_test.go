package trace_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gantry/trace"
	"gantry/trace/reader/readertest"
)

// made reads a Makefile beside files, and shows its tasks.
func made(t *testing.T, text string, files ...string) (w *trace.Workflow, shown, faults string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range append(files, "Makefile") {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	w, all, err := trace.Open(filepath.Join(dir, "Makefile"), trace.ReadOptions{})
	must(t, err)
	if w == nil || trace.HasErrors(all) {
		return w, "", fmt.Sprint(all)
	}
	for i := range w.Tasks {
		shown += fmt.Sprintf("%s after %v: %s\n", w.Tasks[i].ID, w.Tasks[i].Parents, w.Tasks[i].Command[0])
	}
	return w, shown, fmt.Sprint(all)
}

const makes = `SAMPLES = a b
TOOL ?= cat
OUT := $(SAMPLES:%=out/%.up) # names
MORE = $(patsubst %.in,%.up,$(notdir $(wildcard *.in)))
.PHONY: all
all: $(OUT) sum order
out/%.up: %.in | note
	@$(TOOL) $< | tr a-z A-Z \
	  > $@
sum: $(OUT)
	-false
	cat $^ >$@; echo "$$((1+1)) $(@F) $(^D) $(^F) $(MORE)" >>$@
order: \#x a.in a.in | a.in note
	echo "$^ - $+ - $| $(HASH)" >$@
HASH = a\#b# a comment
note: ; echo $@ >$@
a.done b.done: %.done: %.in
	echo $* >$@
clean:
	rm -f out/*
`

func TestAPlainMakefileIsAWorkflow(t *testing.T) {
	w, shown, faults := made(t, makes, "a.in", "b.in", "#x")
	want := "note after []: echo note >note\n" +
		"out/a.up after [0]: cat a.in | tr a-z A-Z \\\n  > out/a.up\n" +
		"out/b.up after [0]: cat b.in | tr a-z A-Z \\\n  > out/b.up\n" +
		"sum after [1 2]: (false\n) || :\n(exit $?) || exit\n" +
		"(cat out/a.up out/b.up >sum; echo \"$((1+1)) sum out out a.up b.up a.up b.up\" >>sum\n)\n" +
		"order after [0]: echo \"#x a.in - #x a.in a.in - note a#b\" >order\n"
	if shown != want || faults != "[]" {
		t.Fatalf("got\n%swant\n%s%s", shown, want, faults)
	}
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("make is not here")
	}
	// GNU Make makes the same of it.
	var results [2]string
	for i := range results {
		dir := t.TempDir()
		for name, text := range map[string]string{"Makefile": makes, "a.in": "one\n", "b.in": "two\n", "#x": "",
			"out/x": ""} {
			_ = os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755)
			must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		commands := [][]string{{"make", "-s"}}
		if i == 1 {
			commands = nil
			for _, task := range w.Order() {
				commands = append(commands, []string{"sh", "-c", w.Tasks[task].Command[0]})
			}
		}
		for _, argv := range commands {
			cmd := exec.Command(argv[0], argv[1:]...)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %s", err, out)
			}
		}
		for _, name := range []string{"sum", "order"} {
			data, err := os.ReadFile(filepath.Join(dir, name))
			must(t, err)
			results[i] += string(data)
		}
	}
	if results[0] != results[1] {
		t.Errorf("make gives %q, the tasks %q", results[0], results[1])
	}
}

// Where several patterns match, the same one counts as in Make.
func TestTheClosestPatternMakesATarget(t *testing.T) {
	const text = "all: lib/a.out b.out\n%.out: %.in\n\techo general $* >$@\nlib/%.out: lib/%.in\n\techo lib $* >$@\n" +
		"%.out: %.mid\n\techo by mid >$@\n%.mid: %.raw\n\techo mid >$@\n%.out: %.txt\n\techo text >$@\n"
	_, shown, faults := made(t, text, "lib/a.in", "b.raw", "b.txt")
	if want := "lib/a.out after []: echo lib a >lib/a.out\nb.out after []: echo text >b.out\n"; shown != want ||
		faults != "[]" {
		t.Errorf("got\n%swant\n%s%s", shown, want, faults)
	}
}

// A Makefile chooses its goal and its shell.
func TestSettingsOfMakefiles(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{".DEFAULT_GOAL := b\na:\n\tx\nb:\n\ty\n", `b: ["y"]`},
		{"G = b\n.DEFAULT_GOAL = $(G)\na:\n\tx\nb:\n\ty\n", `b: ["y"]`},
		{".DEFAULT_GOAL =\n.c.o:\n\tx\n.DELETE_ON_ERROR:\na:\n\ty\n", `a: ["y"]`},
		{"SHELL = /bin/bash\na:\n\tx\n", `a: ["x" "/bin/bash"]`},
		{"B = bash\nSHELL := /usr/bin/env $(B)\n.SHELLFLAGS = -eu -o pipefail -c\na:\n\tx\n",
			`a: ["x" "/usr/bin/env" "bash" "-eu" "-o" "pipefail"]`},
		{".SHELLFLAGS = -ec\na:\n\tx\n", `a: ["x" "/bin/sh" "-e"]`},
		{"SHELL = python3\n.ONESHELL:\na:\n\tx\n\ty\n", `a: ["x\ny" "python3"]`},
	} {
		w, _, faults := made(t, c.text)
		if faults != "[]" || len(w.Tasks) != 1 {
			t.Errorf("%s: %s", c.text, faults)
		} else if got := fmt.Sprintf("%s: %q", w.Tasks[0].ID, w.Tasks[0].Command); got != c.want {
			t.Errorf("%s: %s, want %s", c.text, got, c.want)
		}
	}
}

// The failure of a line ends its recipe, and the failure of a program within a line counts as the shell has it.
func TestALineThatFailsEndsItsRecipe(t *testing.T) {
	w, _, _ := made(t, "a:\n\techo one; false; echo two; exit 0\n\t-exit 3\n\texit 7\n\techo three\n")
	for _, c := range []struct{ shell, want string }{{"sh", "one\ntwo\n"}, {"strict", "one\n"}} {
		argv := trace.ShellArgv([]string{w.Tasks[0].Command[0], c.shell}, "")
		out, err := exec.Command(argv[0], argv[1:]...).Output()
		if string(out) != c.want || err == nil || c.shell == "sh" && err.Error() != "exit status 7" {
			t.Errorf("by %s: %q, %v", c.shell, out, err)
		}
	}
}

func TestMakefilesThatGantryDoesNotRead(t *testing.T) {
	for _, c := range []struct{ text, says string }{
		{"include x\n", "include is not read"},
		{"a:\n\techo $(shell date)\n", "$(shell …) is not read"},
		{"ifeq (a,b)\n", "ifeq is not read"},
		{"a:: b\n", "two colons"},
		{"x = $(x)\na: $(x)\n", "refer to each other"},
		{"a: b\n\tx >a\nb: a\n\tx >b\n", "wait for each other"},
		{"a: $@\n\tx\n", "no recipe"},
		{"a: b\n\tx >a\n.PHONY: b\nb:\n\ty\n", "is phony, has a recipe"},
		{"a: b\n\tx >a\na: c\n\ty >a\n", "has a recipe already"},
		{"x = 1\n", "no target"},
		{".DEFAULT_GOAL = b\na:\n\tx\n", "line 1: error makefile: no rule makes b"},
		{"a:\n\tx\n.SHELLFLAGS = -x\n", "line 3: error makefile: .SHELLFLAGS is read if"},
		{"SHELL = perl\na:\n\tx\n\ty\n", "line 2: error makefile: a recipe of several lines for perl"},
		{"\nVPATH = src\n", "line 2: error makefile: VPATH is not read"},
		{".RECIPEPREFIX = >\n", ".RECIPEPREFIX is not read"},
		{".IGNORE:\n", ".IGNORE is not read"},
		{".SECONDEXPANSION:\n", ".SECONDEXPANSION is not read"},
		{"a:\n\t$(MAKE) -C sub\n", "line 1: error makefile: $(MAKE) is not read"},
		{"\nall: in x\nin: ; y\n", "line 2: error makefile: all needs x, which is no file"},
		{"a: x := 1\n", "a variable of one target"},
		{"hello\n", "neither a variable nor a rule"},
		{"a: $(b\n", "without its end"},
		{"x0 := " + strings.Repeat("y", 1000) + "\n" + strings.Repeat("x0 := $(x0)$(x0)\n", 40) +
			"a:\n\tx\n", "more text"},
		{strings.Repeat("%.a: %.b\n\tx\n%.b: %.a\n\tx\n", 50) + "all: q.a\n", "too many ways"},
		{"a0: a1\n" + chain(3000), "deep"},
	} {
		readertest.Bounded(t, len(c.text), func() {
			if _, _, faults := made(t, c.text); !strings.Contains(faults, c.says) {
				t.Errorf("%.80s: %s", c.text, faults)
			}
		})
	}
}

func chain(n int) string {
	var b strings.Builder
	for i := 1; i < n; i++ {
		fmt.Fprintf(&b, "a%d: a%d\n", i, i+1)
	}
	return b.String()
}

// FuzzMakefile reads plain Makefiles.
func FuzzMakefile(f *testing.F) {
	f.Add([]byte(makes))
	f.Add([]byte("x = $(x:.a=.b)\na b &: c ; d\n%.o: %.c %.h\n\t@-$(CC) $^ ${@D} \\\n\t\tx\n.ONESHELL:\nq: p.o | r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		readertest.Bounded(t, len(data), func() { consistentAs(t, "Makefile", data) })
	})
}
