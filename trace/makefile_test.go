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
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w, all, err := trace.Open(filepath.Join(dir, "Makefile"), trace.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
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
all: $(OUT) sum
out/%.up: %.in | note
	@$(TOOL) $< | tr a-z A-Z \
	  > $@
sum: $(OUT)
	-false
	cat $^ >$@; echo "$$((1+1)) $(@F) $(^D) $(^F) $(MORE)" >>$@
note: ; echo $@ >$@
a.done b.done: %.done: %.in
	echo $* >$@
clean:
	rm -f out/*
`

func TestAPlainMakefileIsAWorkflow(t *testing.T) {
	w, shown, faults := made(t, makes, "a.in", "b.in")
	want := "note after []: echo note >note\n" +
		"out/a.up after [0]: cat a.in | tr a-z A-Z \\\n  > out/a.up\n" +
		"out/b.up after [0]: cat b.in | tr a-z A-Z \\\n  > out/b.up\n" +
		"sum after [1 2]: (false\n) || :\n(cat out/a.up out/b.up >sum; echo \"$((1+1)) sum out out a.up b.up a.up b.up\" >>sum\n)\n"
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
		for name, text := range map[string]string{"Makefile": makes, "a.in": "one\n", "b.in": "two\n", "out/x": ""} {
			_ = os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755)
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
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
		data, err := os.ReadFile(filepath.Join(dir, "sum"))
		if err != nil {
			t.Fatal(err)
		}
		results[i] = string(data)
	}
	if results[0] != results[1] {
		t.Errorf("make gives %q, the tasks %q", results[0], results[1])
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
