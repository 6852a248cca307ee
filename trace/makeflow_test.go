package trace_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gantry/trace"
)

// flow reads a makeflow from a text.
func flow(t *testing.T, name, text string, define map[string]string) (*trace.Workflow, []trace.Fault) {
	t.Helper()
	w, faults, err := trace.Read(strings.NewReader(text), name, trace.ReadOptions{Define: define})
	must(t, err)
	return w, faults
}

// Everything that a makeflow can say, in one: variables, quotes, export, categories, renames, continued lines.
func TestMakeflow(t *testing.T) {
	w, faults := flow(t, "run.makeflow", `# comment: with a colon = and an equals sign
NAME=world
SAY = hello $(NAME) # a comment
FILES="a b"
FILES+=c
export SAY
CATEGORY=big
CORES=2
MEMORY=100
one two->out \
  three : in->data tool
@NAME=me
	LOCAL echo "$NAME \$NAME" '$NAME\n' ${FILES} \
	  x\ y "it's" > one

CATEGORY="small"
.MAKEFLOW CORES 1
.SIZE in 2K
end: one
	cat one > "end" # done
`, nil)
	if len(faults) != 1 || faults[0].Rule != "backslash" {
		t.Fatal(faults)
	}
	a, z := w.Tasks[0], w.Tasks[1]
	if want := `echo "me $NAME" '$NAMEn' "a b" c   x y "it's" > one`; len(a.Command) != 1 || a.Command[0] != want ||
		!a.Shell {
		t.Errorf("command %q, want %q", a.Command, want)
	}
	if a.ID != "one" || a.Kind != "big" || a.Cores != 2 || a.MemoryBytes != 100<<20 || a.Line != 10 {
		t.Errorf("%+v", a)
	}
	if want := []trace.Rename{{File: "two", As: "out"}, {File: "in", As: "data"}}; !slices.Equal(a.Renames, want) {
		t.Errorf("renames %v", a.Renames)
	}
	if want := []string{"CORES=2", "MEMORY=100", "OMP_NUM_THREADS=2", "SAY=hello world "}; !slices.Equal(a.Env, want) {
		t.Errorf("environment %q", a.Env)
	}
	if z.Command[0] != `cat one > "end"` || z.Kind != "small" || z.Cores != 1 || z.MemoryBytes != 0 ||
		len(z.Parents) != 1 {
		t.Errorf("%+v", z)
	}
	if i := slices.IndexFunc(w.Files, func(f trace.File) bool { return f.Name == "in" }); w.Files[i].Size != 2048 {
		t.Errorf("size %d", w.Files[i].Size)
	}
}

// JX: definitions that use each other, comprehensions, functions, environments that overrule each other.
func TestJX(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.in", "a.in"} {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	w, faults := flow(t, filepath.Join(dir, "run.jx"), `# JX
{ "define": {"N": 3, "LAST": N-1, "P": "part", "ALL": [template("{P}.{i}") for i in range(N)]},
  "environment": {"WHERE": "all", "N": N}, "default_category": "std",
  "categories": {"std": {"resources": {"cores": 1, "memory": 64}, "environment": {"WHERE": "std"}}},
  "rules": [
    {"command": format("split %s %d %g", join(ALL, ","), LAST, 7/2.0), "inputs": listdir("."), "outputs": ALL},
    {"command": "use " + P + i + j, "inputs": [P+"."+i], "outputs": [{"dag_name": "u"+i+j, "task_name": "out"}],
     "environment": {"WHERE": "own"}, "category": "std" } for i in range(N) for j in ["x", "y"] if i > 0 and j == "x",
  ] }`, map[string]string{"N": "4"})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	var commands []string
	for _, task := range w.Tasks {
		commands = append(commands, task.Command...)
	}
	if want := []string{"split part.0,part.1,part.2,part.3 3 3.5", "use part1x", "use part2x",
		"use part3x"}; !slices.Equal(commands, want) {
		t.Errorf("commands %q", commands)
	}
	if got := w.Tasks[0].Env; !slices.Equal(got, []string{"CORES=1", "MEMORY=64", "N=4", "OMP_NUM_THREADS=1",
		"WHERE=std"}) {
		t.Errorf("environment %q", got)
	}
	if got := w.Tasks[1].Env; !slices.Contains(got, "WHERE=own") {
		t.Errorf("environment %q", got)
	}
	if w.Files[w.Tasks[0].Inputs[0]].Name != "a.in" || !slices.Equal(w.Tasks[1].Renames,
		[]trace.Rename{{File: "u1x", As: "out"}}) {
		t.Errorf("inputs %v, renames %v", w.Tasks[0].Inputs, w.Tasks[1].Renames)
	}
}

// Each mistake is an error with its line.
func TestMakeflowFaults(t *testing.T) {
	jx := func(rules string) string { return "{\"define\": {\"A\": B, \"B\": A},\n\"rules\": [" + rules + "]}" }
	rule := func(command string) string { return jx(`{"outputs": ["o"], "command": ` + command + `}`) }
	for name, c := range map[string]struct {
		file, text, rule string
		line             int
		says             string
	}{
		"cycle":             {"Makeflow", "a: b\n\tx\nb: a\n\ty\n", "cycle", 1, "a -> b -> a"},
		"its own input":     {"Makeflow", "a: a\n\tx\n", "cycle", 1, "waits for itself"},
		"undefined":         {"Makeflow", "NAME=1\na: b\n\techo $NAM\n", "undefined-variable", 3, "did you mean NAME?"},
		"undefined export":  {"Makeflow", "export HOME\na: b\n\techo\n", "undefined-variable", 1, "--define HOME="},
		"used before":       {"Makeflow", "A=$B\nB=1\na: b\n\techo\n", "undefined-variable", 1, "before it is used"},
		"single quote":      {"Makeflow", "a: b\n\techo 'x\nc: d\n\techo y\n", "open-quote", 2, "single quote"},
		"double quote":      {"Makeflow", "a: b\n\techo ok\nc: d\n\techo \"y\n", "open-quote", 4, "double quote"},
		"quote in a value":  {"Makeflow", "X=\"y\na: b\n\techo\n", "open-quote", 1, "double quote"},
		"no command":        {"Makeflow", "a: b\nc: d\n\techo\n", "syntax", 1, "no command"},
		"two commands":      {"Makeflow", "a: b\n\techo\n\techo\n", "syntax", 3, "one command"},
		"ends in a rule":    {"Makeflow", "x: y\n\techo\na: b\n", "truncated", 3, "no command"},
		"written twice":     {"Makeflow", "a: b\n\techo\na: c\n\techo\n", "duplicate-output", 3, "line 1"},
		"lone dollar":       {"Makeflow", "a: b\n\techo $$\n", "syntax", 2, `\$`},
		"not closed":        {"Makeflow", "A=1\na: b\n\techo $(A\n", "syntax", 3, "not closed"},
		"directive":         {"Makeflow", ".MAKEFLOW CORE 1\na: b\n\techo\n", "syntax", 1, "did you mean CORES?"},
		"word":              {"Makeflow", "foo\na: b\n\techo\n", "syntax", 1, `"foo"`},
		"values in circles": {"Makeflow", "A=\\$A\na: b\n\techo $A\n", "bound", 3, "deeper than 32"},
		"JX undefined":      {"w.jx", rule(`C`), "undefined-variable", 2, "variable C"},
		"JX circle":         {"w.jx", rule(`A`), "bound", 1, "circle"},
		"JX quote":          {"w.jx", "{\"rules\":\n[{\"command\": \"x}]}", "open-quote", 2, "not closed"},
		"JX ends":           {"w.jx", "{\"rules\":\n[", "truncated", 2, "the end of the file"},
		"JX leaves":         {"w.jx", rule(`join(listdir("../.."))`), "expression", 2, "escapes"},
		"JX no command":     {"w.jx", jx(`{"outputs": ["o"]}`), "wrong-type", 2, "without a command"},
		"JX both":           {"w.jx", jx(`{"command": "x", "workflow": "y"}`), "wrong-type", 2, "one of them"},
		"JX resource":       {"w.jx", jx(`{"command": "x", "resources": {"core": 1}}`), "unknown-key", 2, "cores"},
		"JX many":           {"w.jx", rule(`join([""+i for i in range(1000000000)])`), "bound", 2, "memory"},
		"JX doubled":        {"w.jx", `{"define": {` + doubling() + `}, "rules": [{"command": S40}]}`, "bound", 1, "memory"},
	} {
		t.Run(name, func(t *testing.T) {
			_, faults := flow(t, c.file, c.text, nil)
			if len(faults) == 0 || faults[0].Severity != trace.Error || faults[0].Rule != c.rule ||
				faults[0].Line != c.line || !strings.Contains(faults[0].Message, c.says) {
				t.Errorf("%v, want %s on line %d: %s", faults, c.rule, c.line, c.says)
			}
		})
	}
}

// doubling defines texts, each twice as long as the one before.
func doubling() string {
	var b strings.Builder
	b.WriteString(`"S0": "x"`)
	last := "S0"
	for i := range 40 {
		name := "S" + string(rune('0'+(i+1)/10)) + string(rune('0'+(i+1)%10))
		if i < 9 {
			name = "S" + string(rune('1'+i))
		}
		b.WriteString(`, "` + name + `": ` + last + ` + ` + last)
		last = name
	}
	return b.String()
}

// A backslash that makeflow drops is told of, with the text as it is then.
func TestDroppedBackslashesAreTold(t *testing.T) {
	for text, says := range map[string]string{
		"S=a\\ b \\$x \\# c\n" +
			"a:\n\techo \\$HOME \\\\\\\\d a\\-b 'it' \"\\$x\" # c\n": "",

		"a:\n\tawk '{print $1\"\\t\"$2}' >a\n":         `2: the command is now: awk '{print $1"t"$2}' >a`,
		"a:\n\tLOCAL grep -P '\\d+' >a\n":              `2: the command is now: grep -P 'd+' >a`,
		"a:\n\techo \"x\\ty\" >a\n":                    "2: the command is now: echo \"x^Iy\" >a",
		"S='s/\\./_/'\na:\n\tsed $S >a\n":              `1: the value of S is now: 's/./_/'`,
		"P=\\d+\na:\n\tgrep $P >a\n":                   `1: the value of P is now: d+`,
		"a: b\n@Q=\"\\w\"\n\tgrep $Q >a\n":             `2: the value of Q is now: "w"`,
		"export E='\\s'\na:\n\techo >a\n":              `1: the value of E is now: 's'`,
		"'a\\b': c\n\techo\n":                          `1: the list of files is now: ab: c`,
		"a:\n\techo \\\\d >a\n":                        `2: the command is now: echo \d >a`,
		"a:\n\tfind . \\( -name x \\) >a\n":            `2: the command is now: find . ( -name x ) >a`,
		"a:\n\tgrep -c a\\ b c >a\n":                   `2: the command is now: grep -c a b c >a`,
		"a:\n\tsed s#x#y# b >a\n":                      `2: the command is now: sed s`,
		"a:\n\tprintf \"a\\\\nb \\\\d \\$x\\\n\" >a\n": "",
		"a:\n\techo \"x\\\\\\$HOME\" >a\n":             `2: the command is now: echo "x\$HOME" >a`,
		"a:\n\techo \"x\\\\\" >a\n":                    `2: the command is now: echo "x\" >a`,
		"a:\n\tcut -d\" \" -f1 b >a\n":                 `2: the command is now: cut -d"" -f1 b >a`,
		"a:\n\techo \"x\\ y\" \" z\" >a\n":             `2: the command is now: echo "x y" "z" >a`,
		"a:\n\tgrep -P '\\\\d+' \\\n\t  \"x\" >a\n":    `2: the command is now: grep -P '\d+'   "x" >a`,
	} {
		_, faults := flow(t, "Makeflow", text, nil)
		got := ""
		for _, f := range faults {
			if f.Rule == "backslash" {
				_, end, _ := strings.Cut(f.Message, "single quotes; ")
				got += fmt.Sprintf("%d: %s", f.Line, end)
			}
		}
		if got != says || trace.HasErrors(faults) {
			t.Errorf("%s\ntells %q, want %q; %v", text, got, says, faults)
		}
	}
}

// Categories and rules need counted resources in either syntax. Unknown keys of categories are told.
func TestNeedsOfMakeflows(t *testing.T) {
	for name, text := range map[string]string{
		"w.makeflow": "a:\n\tx\nCATEGORY=c\nNEEDS=\"licence:2, writer\"\nb:\n\tx\nc:\n@NEEDS=none\n\tx\n",
		"w.jx": `{"categories": {"c": {"needs": {"licence": 2, "writer": 1}, "allocation": "max"}}, "rules": [
			{"command": "x", "outputs": ["a"]}, {"command": "x", "outputs": ["b"], "category": "c"},
			{"command": "x", "outputs": ["c"], "category": "c", "needs": {}}]}`,
	} {
		w, faults := flow(t, name, text, nil)
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		got := fmt.Sprintf("%q %q %q", w.Tasks[0].Tokens, w.Tasks[1].Tokens, w.Tasks[2].Tokens)
		if got != `"" "licence:2,writer" "none"` && got != `"" "licence:2,writer:1" ""` {
			t.Errorf("%s: %s", name, got)
		}
	}
	for text, says := range map[string]string{
		`{"categories": {"c": {"resorces": {}}}, "rules": []}`:             `"resorces" is ignored: did you mean resources?`,
		`{"categories": {"c": {"network": true}}, "rules": []}`:            `key "network" is ignored`,
		`{"rules": [{"command": "x", "outputs": ["a"], "needs": 1}]}`:      `"needs" has to be an object`,
		`{"rules": [{"command": "x", "resources": {"licence": 1}}]}`:       `counted resources stand in "needs"`,
		`{"rules": [{"command": "x", "resources": {"cores": 1, "x": 1}}]}`: `unknown resource "x"`,
	} {
		if _, faults := flow(t, "w.jx", text, nil); len(faults) != 1 || !strings.Contains(faults[0].Message, says) {
			t.Errorf("%s: %v", text, faults)
		}
	}
}

// In the directory of a task a file has one name, and a name is that of one file.
func TestNamesInADirectoryAreOfOneFile(t *testing.T) {
	for text, bad := range map[string]bool{
		"o: a->x b->x\n\tcat x >o\n": true, "o: a->x a->y\n\tcat x y >o\n": true, "o: a->x x\n\tcat x >o\n": true,
		"o->x p->x: a\n\tcp a x\n": true, "o: a->x a->x b ./b\n\tcat x b >o\n": false,
	} {
		if _, faults := flow(t, "Makeflow", text, nil); trace.HasErrors(faults) != bad ||
			bad && faults[0].Rule != "duplicate-name" {
			t.Errorf("%s: %v", text, faults)
		}
	}
}

// What cannot be honoured on one host is said, or refused by a real run by name.
func TestMakeflowIsNotHonouredInSilence(t *testing.T) {
	w, faults := flow(t, "Makeflow", "BATCH_OPTIONS=-q\nDISK=10\nGPUS=1\na: b\n\techo\nc: a\n"+
		"\tMAKEFLOW sub.makeflow\n", nil)
	if trace.HasErrors(faults) || len(faults) != 1 || w.Tasks[0].DiskLimit != 10<<20 {
		t.Errorf("%v, disk %d", faults, w.Tasks[0].DiskLimit)
	}
	all := strings.Join(w.Obstacles, "\n")
	for _, says := range []string{"sub.makeflow", "Makeflow:6"} {
		if !strings.Contains(all, says) {
			t.Errorf("obstacles %q lack %q", all, says)
		}
	}
	_, faults = flow(t, "w.jx", `{"rules": [{"command": "x"+(1-1)+1-1-1, "ouput": []}]}`, nil)
	if len(faults) != 2 || faults[0].Rule != "grouping" && faults[1].Rule != "grouping" {
		t.Errorf("%v", faults)
	}
}

// A category, a rule and JX name a shell, and --shell counts before them. WfFormat keeps it.
func TestShellsOfCommands(t *testing.T) {
	const rules = "a:\n\ttrue\nCATEGORY=x\nSHELL=\"bash -e\"\nb:\n\ttrue\nc:\n@SHELL=sh\n\ttrue\n"
	const list = `{"shell": "dash", "rules": [{"command": "true", "outputs": ["a"]}, ` +
		`{"command": "true", "outputs": ["b"], "shell": "bash -o 'a b'"}]}`
	for _, c := range []struct {
		name, text, shell string
		want              [][]string
	}{
		{"w.makeflow", rules, "", [][]string{{"true"}, {"true", "bash", "-e"}, {"true", "sh"}}},
		{"w.makeflow", rules, "strict", [][]string{{"true", "strict"}, {"true", "strict"}, {"true", "strict"}}},
		{"w.jx", list, "", [][]string{{"true", "dash"}, {"true", "bash", "-o", "a b"}}},
		{"w.jx", list, "sh -u", [][]string{{"true", "sh", "-u"}, {"true", "sh", "-u"}}},
	} {
		w, faults, err := trace.Read(strings.NewReader(c.text), c.name, trace.ReadOptions{Shell: c.shell})
		if err != nil || len(faults) > 0 {
			t.Fatal(faults, err)
		}
		again := new(strings.Builder)
		must(t, trace.WriteWfFormat(again, w))
		back, _, err := trace.Read(strings.NewReader(again.String()), "w.json", trace.ReadOptions{})
		must(t, err)
		for i, want := range c.want {
			for _, w := range []*trace.Workflow{w, back} {
				if task := &w.Tasks[i]; !slices.Equal(task.Command, want) || !task.Shell {
					t.Errorf("%s with %q: %s is %q, want %q", c.name, c.shell, task.ID, task.Command, want)
				}
			}
		}
	}
	_, faults := flow(t, "w.jx", strings.Replace(list, `"dash"`, `"bash 'x"`, 1), nil)
	if !trace.HasErrors(faults) || !strings.Contains(faults[0].Message, "a quote is not closed") {
		t.Errorf("%v", faults)
	}
}

// A program by its absolute path is the image's, wherever the command starts it; files elsewhere on the host have
// another name in the task, relative ones as seen from the makeflow. All others are refused with what to do.
func TestFilesOutsideOfTheDirectory(t *testing.T) {
	dir := t.TempDir()
	w, faults := flow(t, filepath.Join(dir, "flows", "w.makeflow"), "SED=/bin/sed\nout: in $SED /usr/bin/env "+
		"/data/ref.fa->ref ../x/y->y\n\tLOCAL N=1 $SED s/a/b/ in | \"/usr/bin/env\" cat ref y >out\n"+
		"two: /data/ref.fa->other ../../z->z\n\tcat other z >two\n", nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	places := map[string]string{}
	for _, f := range w.Files {
		if f.Origin != nil {
			places[f.Name] = f.Origin.Locations[0]
		}
		if !trace.SafeName(f.Name) {
			t.Errorf("file %q", f.Name)
		}
	}
	if len(places) != 3 || places[".outside/root/data/ref.fa"] != "/data/ref.fa" ||
		places[".outside/up/x/y"] != filepath.Join(dir, "x/y") || len(w.Tasks[0].Inputs) != 3 {
		t.Errorf("%v, inputs %v", places, w.Tasks[0].Inputs)
	}
	for _, command := range []string{"perl x.pl", "env N=1 /usr/bin/perl x.pl", "cat a | time -p /usr/bin//perl x.pl"} {
		_, faults := flow(t, "w.makeflow", "out: /usr/bin/perl x.pl\n\t"+command+" >out\n", nil)
		if len(faults) > 0 {
			t.Errorf("%s: %v", command, faults)
		}
	}
	for _, wrong := range []string{"out: /data/ref\n\tcat /data/ref >out\n", "out: ../x\n\tcat ../x >out\n",
		"/tmp/out: in\n\t/tmp/out\n", "out: /data/sed\n\techo /data/sed >out\n", "out: /bin/sed\n\techo sed >out\n",
		"out: /data/sed\n\tsed x >out\n"} {
		_, faults := flow(t, "w.makeflow", wrong, nil)
		if len(faults) != 1 || !strings.Contains(faults[0].Message, "--mount DIR:/path:ro") {
			t.Errorf("%q: %v", wrong, faults)
		}
	}
}

// What the kernel does not start is an obstacle to a run, with its line and the bound; a script of any length is none.
func TestArgumentsBeyondTheKernel(t *testing.T) {
	long, most := strings.Repeat("x", 131_072), strings.Repeat("x", 131_071)
	yaml := func(argument string) string {
		return "pegasus: 5.0.4\nname: w\njobs:\n- type: job\n  name: p\n  id: j\n  arguments: [" + argument +
			"]\n  uses: []\n"
	}
	many := strings.Repeat(strings.Repeat("y", 999)+", ", 2_100) + "z"
	for _, c := range []struct{ name, text, obstacle string }{
		{"w.yml", yaml(most), ""},
		{"w.yml", yaml(long), "argument 1 has 131072 bytes, and the kernel takes 131071"},
		{"w.yml", yaml("$HOME/*, " + most), "gantry expands 65536: hand them over in a file"},
		{"w.yml", yaml(many), "its arguments and environment take"},
		{"w.yml", yaml("$A$A") + "  profiles: {env: {A: " + most[:70_000] + "}}\n", "argument 1 has 140000 bytes"},
		{"w.yml", yaml("\"'$A$A'\"") + "  profiles: {env: {A: " + most[:70_000] + "}}\n", ""},
		{"w.makeflow", "a:\n\techo " + long + " >a\n", ""},
		{"w.makeflow", "a:\n\techo caf\xe9 >a\n", ""},
		{"w.yml", yaml(`"a\0b"`), "argument 1 has a NUL character"},
		{"w.jx", `{"rules": [{"command": "echo \u0000 >o", "outputs": ["o"]}]}`, "argument 2 has a NUL character"},
		{"w.makeflow", "export V=caf\xe9\na:\n\techo >a\n", "the variable V, with its name, is no UTF-8"},
		{"w.makeflow", "export V=" + long + "\na:\n\techo >a\n", "the variable V, with its name, has 131074 bytes"},
	} {
		w, _ := flow(t, c.name, c.text, nil)
		got := strings.Join(w.Obstacles, "\n")
		if (c.obstacle == "") != (got == "") || !strings.Contains(got, c.obstacle) || c.obstacle != "" &&
			!strings.HasPrefix(got, c.name+":") {
			t.Errorf("%s: %q, want %q", c.name, got, c.obstacle)
		}
	}
}
