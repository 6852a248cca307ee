package trace_test

import (
	"encoding/csv"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"gantry/trace"
	"gantry/trace/reader/readertest"
)

// commands reads a list of commands; it shows them, with their files, and the faults.
func commands(t testing.TB, text string, l trace.CommandList) (w *trace.Workflow, shown, faults string) {
	t.Helper()
	if l.Exists == nil {
		l.Exists = func(name string) bool { return strings.HasSuffix(name, ".fq") }
	}
	w, all, err := l.Read(strings.NewReader(text), "dir/list.csv", 0)
	must(t, err)
	for i := range w.Tasks {
		x := &w.Tasks[i]
		shown += fmt.Sprintf("%s: %s <", x.ID, x.Command[0])
		for _, f := range x.Inputs {
			shown += " " + w.Files[f].Name
		}
		shown += " >"
		for _, f := range x.Outputs {
			shown += " " + w.Files[f].Name
		}
		shown += "\n"
	}
	return w, shown, fmt.Sprint(all)
}

func TestATemplateIsFilledWithTheRowsOfATable(t *testing.T) {
	for _, c := range []struct{ table, template, outputs, want string }{
		{"sample,k\nA,1\n\"b c\",2\n", "bwa mem ref.fq {sample}.fq >{sample}.sam 2>{#}.log", "",
			"bwa-1: bwa mem ref.fq 'A'.fq >'A'.sam 2>'1'.log < ref.fq A.fq > A.sam 1.log\n" +
				"bwa-2: bwa mem ref.fq 'b c'.fq >'b c'.sam 2>'2'.log < ref.fq b c.fq > b c.sam 2.log\n"},
		{"file\nd/x.tar.gz\n", "run {file} {file/} {file.} {file/.} {file//} {{file}} ${file} {a,b} { x",
			"{file/.}.out",
			"run-1: run 'd/x.tar.gz' 'x.tar.gz' 'd/x.tar' 'x.tar' 'd' {file} ${file} {a,b} { x < > x.tar.out\n"},
		{"a\nit's\n", `x="{a}" '{a}' < in.fq`, "", `command-1: x="it's" 'it'\''s' < in.fq < in.fq >` + "\n"},
	} {
		l := trace.CommandList{Comma: ',', Template: c.template}
		if c.outputs != "" {
			l.Outputs = []string{c.outputs}
		}
		if _, shown, faults := commands(t, c.table, l); shown != c.want {
			t.Errorf("got\n%swant\n%s%s", shown, c.want, faults)
		}
	}
	_, shown, _ := commands(t, "# c\n\necho a >x\n  sort < r.fq\n", trace.CommandList{})
	if shown != "echo-1: echo a >x < > x\nsort-2: sort < r.fq < r.fq >\n" {
		t.Error(shown)
	}
}

// Whatever a value is, the shell takes it as one text.
func TestNoValueActsOnTheShell(t *testing.T) {
	shells := []string{"sh"}
	if _, err := exec.LookPath("bash"); err == nil {
		shells = append(shells, "bash")
	}
	special := rapid.SampledFrom([]string{"'", `"`, "$(echo x)", "`echo y`", `\`, ";", "\n", " ", "*", "~", "&", "|",
		">f", "#", "!", "{a}", "$HOME", "-n", "é", "=", "[", "]", "%s"})
	rapid.Check(t, func(r *rapid.T) {
		value := strings.Join(rapid.SliceOfN(rapid.OneOf(special, rapid.StringN(0, 3, 6)), 0, 4).Draw(r, "value"), "")
		value = strings.NewReplacer("\x00", "", "\r\n", "\n", "\r", "").Replace(value)
		var table strings.Builder
		out := csv.NewWriter(&table)
		_ = out.WriteAll([][]string{{"a", "b"}, {value, "-"}})
		w, _, faults := commands(t, table.String(), trace.CommandList{Comma: ',',
			Template: `printf '%s|' {a} "{a}" '{a}' ` + `x{a}y "$(printf %s {a})"; v={a}; printf '%s|' "$v" 'a'{a}"b"`})
		if len(w.Tasks) != 1 {
			r.Fatalf("%q: %s", table.String(), faults)
		}
		trimmed := strings.TrimRight(value, "\n") // as the shell's substitution does
		want := value + "|" + value + "|" + value + "|x" + value + "y|" + trimmed + "|" + value + "|a" + value + "b|"
		for _, shell := range shells {
			got, err := exec.Command(shell, "-c", w.Tasks[0].Command[0]).CombinedOutput()
			if err != nil || string(got) != want {
				r.Fatalf("%s: %q gives %q: %v", shell, w.Tasks[0].Command[0], got, err)
			}
		}
	})
}

func TestTemplatesAndTablesThatCannotBeAreRefused(t *testing.T) {
	for _, c := range []struct{ table, template, says string }{
		{"a\n1\n", "echo {b}", "no such column; {{b}}"},
		{"a\n1\n", "echo `echo {a}`", "cannot be quoted"},
		{"a\n1\n", "cat <<E\n{a}\nE\n", "cannot be quoted"},
		{"a\n1\n", "cat <<{a}\nE\n", "no text for a shell"},
		{"a\n1\n", "echo $(({a}+1))", "cannot be quoted"},
		{"a\n1\n", "echo ${x:-{a}}", "cannot be quoted"},
		{"a\n1\n", "x[{a}]=1", "cannot be quoted"},
		{"a\n1\n", "echo $'{a}'", "cannot be quoted"},
		{"a\n1\n", `echo \{a}`, "cannot be quoted"},
		{"a\n1\n", `echo "\{a}"`, "cannot be quoted"},
		{"a\n1\n", "[[ x =~ {a} ]]", "cannot be quoted"},
		{"a\n1\n", "for ((i={a};;)); do x; done", "cannot be quoted"},
		{"a\n1\n", "echo # {a}", "cannot be quoted"},
		{"a\n1\n", "echo 'x {a}", "no text for a shell"},
		{"a\n1\n1,2\n", "echo {a}", "wrong number of fields"},
		{"a\n\"1\n", "echo {a}", "extraneous or missing"},
		{"a,a\n", "echo {a}", "two columns"},
		{"a\n1\n", "echo {a} >x; echo >x", "[]"},
		{"a\n1\n2\n", "echo {a} >x", "also written by the command on line 2"},
		{"a\nb\x00c\n", "echo {a}", "zero byte"},
		{"a\n", "echo {a}", "[line 1: warning no-tasks: the list has no command"},
		{"", "echo", "empty"},
	} {
		readertest.Bounded(t, len(c.table), func() {
			l := trace.CommandList{Comma: ',', Template: c.template}
			if _, _, faults := commands(t, c.table, l); !strings.Contains(faults, c.says) {
				t.Errorf("%q: %s", c.template, faults)
			}
		})
	}
	_, _, faults := commands(t, strings.Repeat("x", 2<<20), trace.CommandList{})
	if !strings.Contains(faults, "a line of more") {
		t.Error(faults)
	}
}

// FuzzCommands reads tables with templates.
func FuzzCommands(f *testing.F) {
	f.Add("a,b\n1,'\n", "echo {a} \"{b}\" >{#}")
	f.Add("a\tb\n", "x $(y {b/.}) '{{a}}' <<E\n{a}")
	f.Fuzz(func(t *testing.T, table, template string) {
		readertest.Bounded(t, (1+strings.Count(table, "\n"))*(len(table)+len(template)), func() {
			for _, comma := range []rune{0, ',', '\t'} {
				commands(t, table, trace.CommandList{Comma: comma, Template: template, Outputs: []string{template}})
			}
		})
	})
}
