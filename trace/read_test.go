package trace_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gantry/trace"
)

func read(t *testing.T, text string, opt trace.ReadOptions) (*trace.Workflow, []trace.Fault) {
	t.Helper()
	w, faults, err := trace.Read(strings.NewReader(text), "test", opt)
	must(t, err)
	return w, faults
}

// good reads a text without errors.
func good(t *testing.T, text string) *trace.Workflow {
	t.Helper()
	w, faults := read(t, text, trace.ReadOptions{})
	if trace.HasErrors(faults) {
		t.Fatal(faults)
	}
	return w
}

func dax(body string) string { return `<adag version="3.6" name="w">` + "\n" + body + "\n</adag>\n" }

func wf(tasks string) string {
	return `{"name": "w", "schemaVersion": "1.4", "workflow": {"tasks": [` + "\n" + tasks + "\n]}}\n"
}

func yml(jobs string) string { return "pegasus: '5.0'\nname: w\njobs:\n" + jobs }

// edges lists the dependencies as "parent>child", sorted.
func edges(w *trace.Workflow) (out []string) {
	for _, t := range w.Tasks {
		for _, p := range t.Parents {
			out = append(out, w.Tasks[p].ID+">"+t.ID)
		}
	}
	slices.Sort(out)
	return out
}

func TestFaultsAreToldWithRuleAndLine(t *testing.T) {
	abc := "<job id='a' name='x'/>\n<job id='b' name='x'/>\n<job id='c' name='x'/>\n"
	for _, c := range []struct {
		name, text string
		severity   trace.Severity
		rule       string
		line       int
		says       string // part of the message
		repaired   bool   // --repair makes a warning of it
	}{
		{"DAX: cycle", dax(abc + "<child ref='b'><parent ref='a'/></child>\n<child ref='c'><parent " +
			"ref='b'/></child>\n<child ref='a'><parent ref='c'/></child>"),
			trace.Error, "cycle", 7, "a -> b -> c -> a", true},
		{"DAX: cycle only by files", dax("<job id='a'><uses name='f' link='input'/><uses name='g' " +
			"link='output'/></job>\n" +
			"<job id='b'><uses name='g' link='input'/><uses name='f' link='output'/></job>"), trace.Error, "cycle", 2,
			"a -> b -> a", true},
		{"DAX: duplicate id", dax(abc + "<job id='b' name='y'/>"), trace.Error, "duplicate-id", 5,
			"task id b is taken by the task on line 3", false},
		{"DAX: unknown parent", dax(abc + "<child ref='b'>\n<parent ref='zz'/></child>"), trace.Error, "unknown-parent",
			6, `"zz"`, true},
		{"DAX: unknown child", dax(abc + "<child ref='zz'><parent ref='a'/></child>"), trace.Error, "unknown-child", 5,
			`"zz"`, true},
		{"DAX: no id", dax("<job name='x'/>"), trace.Error, "missing-id", 2, "without an id", false},
		{"DAX: self edge", dax(abc + "<child ref='b'><parent ref='b'/></child>"), trace.Warning, "self-edge", 5,
			"dropped", true},
		{"DAX: duplicate edge", dax(abc + "<child ref='b'><parent ref='a'/>\n<parent ref='a'/></child>"), trace.Warning,
			"duplicate-edge", 6, "twice", true},
		{"DAX: runtime NaN", dax("<job id='a' runtime='NaN'/>"), trace.Error, "bad-number", 2,
			`runtime "NaN" of task a is not a number`, true},
		{"DAX: runtime 1e999", dax("<job id='a' runtime='1e999'/>"), trace.Error, "bad-number", 2,
			"above the bound of ", true},
		{"DAX: runtime hexadecimal", dax("<job id='a' runtime='0x10'/>"), trace.Error, "bad-number", 2, "not a number",
			true},
		{"DAX: runtime negative", dax("\n<job id='a' runtime='-1.5'/>"), trace.Error, "negative-runtime", 3, "-1.5",
			true},
		{"DAX: size abc", dax("<job id='a'>\n<uses name='f' link='input' size='abc'/></job>"), trace.Error,
			"bad-number", 3, `size "abc" of file f`, true},
		{"DAX: size negative", dax("<job id='a'>\n<uses name='f' link='input' size='-7'/></job>"), trace.Warning,
			"negative-size", 3, "-7", true},
		{"DAX: size too large", dax("<job id='a'>\n<uses name='f' link='input' size='99999999999999999999'/></job>"),
			trace.Error, "bad-number", 3, "above the bound of ", true},
		{"DAX: sizes differ", dax("<job id='a'><uses name='f' link='output' size='7'/></job>\n<job id='b'><uses " +
			"name='f' link='input' size='8'/></job>"),
			trace.Warning, "size-differs", 3, "said to have 8 B, and another size elsewhere: its producer", true},
		{"DAX: two producers", dax("<job id='a'><uses name='f' link='output'/></job>\n<job id='b'><uses name='f' " +
			"link='output'/></job>"),
			trace.Warning, "several-producers", 3, "a and b", true},
		{"DAX: wrong count", "<adag jobCount='3'>\n<job id='a'/></adag>", trace.Warning, "wrong-count", 1,
			`jobCount="3", the file has 1`, true},
		{"DAX: absolute name", dax("<job id='a'><uses name='/etc/passwd' link='output'/></job>"), trace.Warning,
			"unsafe-path", 2, "/etc/passwd", true},
		{"DAX: name of gantry's own", dax("<job id='a'><uses name='.command.begin' link='output'/></job>"), trace.Error,
			"reserved-name", 2, "rename", false},
		{"DAX: name that leads out", dax("<job id='a'><uses name='x/../../passwd' link='output'/></job>"),
			trace.Warning, "unsafe-path", 2, "run refuses", true},
		{"DAX: cut in an element", "<adag>\n<job id='a'>\n<uses name='f'", trace.Error, "truncated", 3, "inside <job>",
			false},
		{"DAX: cut between elements", "<adag>\n<job id='a'/>\n", trace.Error, "truncated", 3, "inside <adag>", false},
		{"DAX: wrong nesting", "<adag>\n<job id='a'>\n</adag>", trace.Error, "syntax", 3,
			"</adag> where </job> should be", false},
		{"DAX: unknown entity", "<adag>\n<job id='a&nbsp;'/></adag>", trace.Error, "syntax", 2, "&nbsp;", false},
		{"DAX: more after the root", "<adag><job id='a'/></adag>\n<adag/>", trace.Error, "syntax", 2, "after the end",
			false},
		{"DAX: text after the root", "<adag><job id='a'/></adag>\n\njunk", trace.Error, "syntax", 1,
			"text outside the root element", false},
		{"DAX: attribute twice", dax("<job id='a' name='x' id='b'/>"), trace.Error, "syntax", 2,
			"attribute id of <job> is given twice", false},
		{"DAX: wrong count of files", "<adag fileCount='3'>\n<job id='a'/></adag>", trace.Warning, "wrong-count", 1,
			`fileCount="3", the file has 0`, true},
		{"DAX: not UTF-8", dax("<job id='a' name='\xe9'/>"), trace.Error, "syntax", 2, "not UTF-8", false},
		{"WfFormat: not UTF-8", wf("{\"name\": \"\xe9\"}"), trace.Error, "syntax", 2, "not UTF-8", false},
		{"YAML: not UTF-8", yml("- {id: a, name: \xe9}\n"), trace.Error, "syntax", 4, "not UTF-8", false},
		{"other XML", "<html/>", trace.Error, "unknown-format", 1, "<html>", false},
		{"nothing", "", trace.Error, "empty", 1, "nothing", false},
		{"blanks", " \n\t\n", trace.Error, "empty", 1, "nothing", false},
		{"text", "hello\n", trace.Error, "unknown-format", 1, "gantry reads", false},
		{"HyperFlow", `{"processes": [], "signals": []}`, trace.Error, "unknown-format", 1, "HyperFlow", false},
		{"WfFormat: cycle", wf(`{"name": "a", "parents": ["b"]},` + "\n" + `{"name": "b", "parents": ["a"]}`),
			trace.Error, "cycle", 2, "a -> b -> a", true},
		{"WfFormat: duplicate", wf(`{"name": "a"},` + "\n" + `{"name": "a"}`), trace.Error, "duplicate-id", 3, "line 2",
			false},
		{"WfFormat: unknown parent", wf(`{"name": "a"},` + "\n" + `{"name": "b", "parents": ["q"]}`), trace.Error,
			"unknown-parent", 3, `"q"`, true},
		{"WfFormat: unknown child", wf(`{"name": "a"},` + "\n" + `{"name": "b", "children": ["q"]}`), trace.Error,
			"unknown-child", 3, `"q"`, true},
		{"WfFormat: NaN", wf(`{"name": "a",` + "\n" + `"runtime": NaN}`), trace.Error, "syntax", 3,
			"JSON has no NaN", false},
		{"WfFormat: infinite", wf(`{"name": "a",` + "\n" + `"memory":` + "\n" + `-Infinity}`), trace.Error,
			"syntax", 4, "JSON has no NaN and no Infinity", false},
		{"WfFormat: retries", wf(`{"name": "a",` + "\n" + `"retries": 2.7}`), trace.Error, "bad-number", 3,
			`retries "2.7" of task a is not a whole number`, true},
		{"WfFormat: phase", wf(`{"name": "a", "phase": 1.5}`), trace.Error, "bad-number", 2, "not a whole number", true},
		{"YAML: retries", yml("- {id: a, name: x, profiles: {dagman: {retry: '0.5'}}}\n"), trace.Error, "bad-number", 4,
			`retries "0.5" of task a is not a whole number`, true},
		{"WfFormat: GPUs", wf(`{"name": "a",` + "\n" + `"gpus": 1e308}`), trace.Error, "bad-number", 3,
			`gpus "1e308" of task a is above the bound of 1000000`, true},
		{"YAML: GPUs", yml("- {id: a, name: x, profiles: {pegasus: {gpus: '-1'}}}\n"), trace.Error, "bad-number", 4,
			`profile pegasus.gpus "-1" of task a is negative`, true},
		{"WfFormat: network", wf(`{"name": "a", "network": {"mode": "host"}}`), trace.Warning, "no-effect", 0,
			"network (--network)", true},
		{"WfFormat: half a value", wf(`{"name": "a", "runtime": Na}`), trace.Error, "syntax", 2, "invalid character 'N'",
			false},
		{"WfFormat: key twice", wf(`{"name": "a", "runtime": 1,` + "\n" + `"runtime": 2}`), trace.Error,
			"duplicate-key", 3, `"runtime" is given twice`, false},
		{"WfFormat: list of tasks twice", `{"workflow": {"tasks": [{"name": "a"}],` + "\n" +
			`"tasks": [{"name": "b"}]}}`, trace.Error, "duplicate-key", 2, `"tasks"`, false},
		{"WfFormat: parent on a line of its own", wf(`{"name": "a", "parents": [` + "\n\n" + `"zz"]}`), trace.Error,
			"unknown-parent", 4, `"zz"`, true},
		{"WfFormat: size on a line of its own", wf(`{"name": "a", "files": [{"link": "input", "name": "f",` + "\n" +
			`"size": "big"}]}`), trace.Error, "bad-number", 3, `"big"`, true},
		{"WfFormat: 1e999", wf(`{"name": "a", "runtimeInSeconds": 1e999}`), trace.Error, "bad-number", 2, "above the bound of ",
			true},
		{"WfFormat: text for a number", wf(`{"name": "a", "runtimeInSeconds": "soon"}`), trace.Error, "bad-number", 2,
			`"soon"`, true},
		{"WfFormat: negative", wf(`{"name": "a", "runtimeInSeconds": -3}`), trace.Error, "negative-runtime", 2, "-3",
			true},
		{"WfFormat: wrong type", wf(`{"name": "a", "parents": ` + "\n" + `"b"}`), trace.Error, "wrong-type", 3,
			"a list should be", false},
		{"WfFormat: cut", wf(`{"name": "a"}`)[:68], trace.Error, "truncated", 2, "ends", false},
		{"WfFormat: trailing comma", wf(`{"name": "a"},`), trace.Error, "syntax", 3, "at start of value", false},
		{"WfFormat: no list", `{"workflow": {"specification": {}}}`, trace.Error, "no-tasks", 1, "list of tasks",
			false},
		{"WfFormat: id twice, with names", wf(`{"id": "t", "name": "x"},` + "\n" + `{"id": "t", "name": "y"}`),
			trace.Error, "duplicate-id", 3, "line 2", false},
		{"WfFormat: id twice, and parents by name", wf(`{"id": "t", "name": "x"},` + "\n" +
			`{"id": "t", "name": "y", "parents": ["x"]}`), trace.Error, "duplicate-id", 3, "line 2", false},
		{"WfFormat: execution twice", `{"schemaVersion": "1.5", "workflow": {"specification": {"tasks": [` +
			`{"id": "a", "name": "a"}]}, "execution": {"tasks": [{"id": "a", "runtimeInSeconds": 1},` + "\n" +
			`{"id": "a", "runtimeInSeconds": 50}]}}}`, trace.Error, "duplicate-id", 2, "twice", false},
		{"WfFormat: original id twice", wf(`{"id": "t1", "name": "x", "originalId": "t 1"},` + "\n" +
			`{"id": "t2", "name": "y", "originalId": "t 1"}`), trace.Error, "duplicate-id", 3, `t 1`, false},
		{"WfFormat: one file in two ways", `{"schemaVersion": "1.5", "workflow": {"specification": {"tasks": [],` +
			"\n" + `"files": [{"id": "d/x", "sizeInBytes": 1},` + "\n" + `{"id": "d//x", "sizeInBytes": 2}]}}}`,
			trace.Warning, "size-differs", 3, "line 2", true},
		{"WfFormat: no ids", wf(`{"runtime": 1}`), trace.Error, "missing-id", 2, "without an id", false},
		{"WfFormat: execution of nothing",
			`{"schemaVersion": "1.5", "workflow": {"specification": {"tasks": [{"id": "a", "name": "a"}]}, "execution": {"tasks": [` + "\n" +
				`{"id": "b", "runtimeInSeconds": 1}]}}}`, trace.Warning, "unknown-execution", 2,
			"gantry run refuses it without --emulate", true},
		{"WfFormat: Makeflow's sizes",
			`{"schemaVersion": "1.3", "wms": {"name": "Makeflow"}, "workflow": {"tasks": [{"name": "a"}]}}`,
			trace.Warning, "size-unit", 1, "KB", true},
		{"YAML: cycle", yml("- {id: a, name: x}\n- {id: b, name: x}\njobDependencies:\n- {id: a, children: [b]}\n- " +
			"{id: b, children: [a]}\n"),
			trace.Error, "cycle", 8, "a -> b -> a", true},
		{"YAML: duplicate id", yml("- {id: a, name: x}\n- {id: a, name: x}\n"), trace.Error, "duplicate-id", 5,
			"line 4", false},
		{"YAML: unknown child", yml("- {id: a, name: x}\njobDependencies:\n- {id: a, children:\n  [b]}\n"), trace.Error,
			"unknown-child", 7, `"b"`, true},
		{"YAML: runtime", yml("- {id: a, name: x, profiles: {pegasus: {runtime: .nan}}}\n"), trace.Error, "bad-number",
			4, ".nan", true},
		{"YAML: size", yml("- {id: a, name: x, uses: [{lfn: f, type: input,\n  size: big}]}\n"), trace.Error,
			"bad-number", 5, `"big"`, true},
		{"YAML: wrong type", yml("  a: 1\n"), trace.Error, "wrong-type", 4, "should be a list", false},
		{"YAML: syntax", yml("- {id: a\n- [}\n"), trace.Error, "syntax", 4, "not YAML", false},
		{"YAML: no jobs", "pegasus: '5.0'\nname: w\n", trace.Error, "no-tasks", 1, "list of tasks", false},
		{"YAML: jobs without a list", "pegasus: '5.0'\nname: w\njobs:\n", trace.Error, "no-tasks", 1,
			"list of tasks", false},
		{"YAML: cut in a job", yml("- {id: a, name: x}\n- id: b\n  name: y"), trace.Error, "truncated", 6,
			"within a line", true},
		{"YAML: cut in a dependency", yml("- {id: a, name: x}\njobDependencies:\n- id: a\n  childr"), trace.Error,
			"syntax", 7, "not YAML", false},
		{"YAML: cut before the children", yml("- {id: a, name: x}\njobDependencies:\n- id: a\n  children:"),
			trace.Error, "truncated", 7, "jobDependencies", true},
		{"YAML: no end of the last line", yml("- {id: a, name: x}\n- {id: b, name: x}\njobDependencies:\n- id: a\n  " +
			"children:\n  - b"), trace.Warning, "no-line-end", 9, "taken as whole", true},
		{"a workload", "count: 3\nmix: []\n", trace.Error, "unknown-format", 1, "a workload file, which gantry run",
			false},
		{"a workload as JSON", `{"workflows": []}`, trace.Error, "unknown-format", 1,
			"a workload file, which gantry run", false},
		{"a catalogue", "pegasus: '5.0'\nreplicas: []\n", trace.Error, "unknown-format", 1, "catalogue", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, faults := read(t, c.text, trace.ReadOptions{})
			i := slices.IndexFunc(faults, func(f trace.Fault) bool { return f.Rule == c.rule })
			if i < 0 {
				t.Fatalf("no fault %s in %v", c.rule, faults)
			}
			f := faults[i]
			if f.Severity != c.severity || f.Line != c.line || !strings.Contains(f.Message, c.says) {
				t.Errorf("%v; wanted %s on line %d saying %q", f, c.severity, c.line, c.says)
			}
			_, faults = read(t, c.text, trace.ReadOptions{Repair: true})
			if trace.HasErrors(faults) == c.repaired {
				t.Errorf("with repair: %v", faults)
			}
		})
	}
}

// The first 20 errors are listed, and how many more there are.
// A name is that of one file however it is written, in all formats and wherever it is said.
func TestNamesOfFilesAreCleanedOnce(t *testing.T) {
	for format, text := range map[string]string{
		"DAX": dax("<job id='a'><uses name='./u//v' link='output'/><uses name='x/' link='output'/></job><job id='b'>" +
			"<stdin name='u/v'/><uses name='x' link='input'/><uses name='u/../u/v' link='input'/></job>"),
		"YAML": yml("- {id: a, name: p, stdout: ./u/v, uses: [{lfn: x, type: output}]}\n" +
			"- {id: b, name: p, uses: [{lfn: u/./v, type: input}, {lfn: ./x, type: input}]}\n"),
		"WfFormat 1.4": wf(`{"name": "a", "files": [{"link": "output", "name": "u//v"}, {"link": "output", "name": ` +
			`"./x"}]}, {"name": "b", "files": [{"link": "input", "name": "./u/v"}, {"link": "input", "name": "x/"}]}`),
		"WfFormat 1.5": `{"schemaVersion": "1.5", "workflow": {"specification": {"files": [{"id": "./u/v", ` +
			`"sizeInBytes": 7}, {"id": "u/v"}], "tasks": [{"id": "a", "name": "a", "outputFiles": ["u//v", "x"]},` +
			`{"id": "b", "name": "b", "inputFiles": ["u/v", "x/."]}]}}}`,
		"Makeflow": "./u/v x/:\n\ttrue\ny: u//v ./x\n\ttrue\n",
		"JX": `{"rules": [{"command": "true", "outputs": ["./u/v", "x"]}, {"command": "true", "outputs": ["y"], ` +
			`"inputs": ["u/v", "./x"]}]}`,
	} {
		name := "w"
		if format == "Makeflow" {
			name = "Makeflow"
		}
		w, faults, err := trace.Read(strings.NewReader(text), name, trace.ReadOptions{})
		if err != nil || trace.HasErrors(faults) {
			t.Errorf("%s: %v, %v", format, err, faults)
			continue
		}
		var names []string
		for i := range w.Files {
			if f := &w.Files[i]; f.Name != "y" {
				names = append(names, fmt.Sprint(f.Name, " ", f.Producer))
			}
		}
		slices.Sort(names)
		if !slices.Equal(names, []string{"u/v 0", "x 0"}) || !slices.Equal(w.Tasks[1].Parents, []int32{0}) {
			t.Errorf("%s: files %q, parents %v", format, names, w.Tasks[1].Parents)
		}
		if format == "WfFormat 1.5" && w.Files[0].Size != 7 {
			t.Errorf("%s: %v", format, w.Files[0])
		}
	}
}

// A workflow without tasks is one, in all formats; without a list of tasks it is none.
func TestAWorkflowMayHaveNoTasks(t *testing.T) {
	for _, text := range []string{"<?xml version='1.0'?>\n<adag></adag>", wf(""), yml(" []\n"), `{"rules": []}`,
		`{"schemaVersion": "1.5", "workflow": {"specification": {"tasks": [], "files": []}}}`} {
		w, faults := read(t, text, trace.ReadOptions{})
		if trace.HasErrors(faults) || len(w.Tasks) > 0 {
			t.Errorf("%s: %v", text, faults)
		}
	}
}

func TestManyErrorsAreCounted(t *testing.T) {
	var jobs strings.Builder
	for range 100 {
		jobs.WriteString("<job id='a' name='x'/>\n")
	}
	_, faults := read(t, dax(jobs.String()), trace.ReadOptions{})
	if len(faults) != 21 || faults[19].Rule != "duplicate-id" ||
		faults[20].String() != "error more: and 79 more errors" {
		t.Errorf("%d faults, the last %v", len(faults), faults[len(faults)-1])
	}
}

func TestRepairBreaksCyclesAndNothingElse(t *testing.T) {
	w, faults := read(t, dax("<job id='a'/><job id='b'/><job id='c'/><job id='d'/>"+
		"<child ref='b'><parent ref='a'/><parent ref='c'/></child><child ref='c'><parent ref='b'/></child><child "+
		"ref='d'><parent ref='c'/></child>"),
		trace.ReadOptions{Repair: true})
	if want := []string{"a>b", "b>c", "c>d"}; !reflect.DeepEqual(edges(w), want) {
		t.Errorf("edges %v, want %v; %v", edges(w), want, faults)
	}
	if len(faults) != 1 || faults[0].Message != "cycle broken: task b no longer waits for c" {
		t.Error(faults)
	}
	w, _ = read(t, dax("<job id='a' runtime='-2'/><job id='b' runtime='x'/>"), trace.ReadOptions{Repair: true})
	if a, b := w.Tasks[0], w.Tasks[1]; a.Runtime != 0 || !a.Known.Has(trace.Runtime) || b.Known.Has(trace.Runtime) {
		t.Errorf("%+v %+v", a, b)
	}
}

func TestFilesImplyDependenciesWhereTheyAreClear(t *testing.T) {
	job := func(id, in, out string) string {
		s := "<job id='" + id + "'>"
		for _, f := range strings.Fields(in) {
			s += "<uses name='" + f + "' link='input'/>"
		}
		for _, f := range strings.Fields(out) {
			s += "<uses name='" + f + "' link='output'/>"
		}
		return s + "</job>"
	}
	child := func(c, p string) string { return "<child ref='" + c + "'><parent ref='" + p + "'/></child>" }
	for _, c := range []struct {
		name, text string
		edges      []string
		implied    int
		rule       string // of a warning
	}{
		{"one producer", job("a", "", "f") + job("b", "f", ""), []string{"a>b"}, 1, ""},
		{"the consumer comes first in the file", job("b", "f", "") + job("a", "", "f"), []string{"a>b"}, 1, ""},
		{"said twice", job("a", "", "f") + job("b", "f", "") + child("b", "a"), []string{"a>b"}, 0, ""},
		{"two producers, one of them an ancestor", job("a", "", "f") + job("x", "", "f") + job("m", "", "") +
			job("b", "f", "") + child("m", "a") + child("b", "m"),
			[]string{"a>m", "m>b"}, 0, "several-producers"},
		{"two producers, none before", job("a", "", "f") + job("x", "", "f") + job("b", "f", ""),
			[]string{"a>b", "x>b"}, 2, "ambiguous-producer"},
		{"two producers, one of them after", job("a", "", "f") + job("x", "", "f") + job("b", "f", "") +
			child("x", "b"), []string{"a>b", "b>x"}, 1, "ambiguous-producer"},
		{"in place", job("a", "f", "f") + job("b", "f", ""), []string{"a>b"}, 1, ""},
		{"rewritten", job("a", "", "f") + job("b", "f", "f") + job("c", "f", "") + child("b", "a") + child("c", "b"),
			[]string{"a>b", "b>c"}, 0, "several-producers"},
		{"from outside", job("a", "f", "") + job("b", "f", ""), nil, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, faults := read(t, dax(c.text), trace.ReadOptions{})
			if trace.HasErrors(faults) {
				t.Fatal(faults)
			}
			if !reflect.DeepEqual(edges(w), c.edges) || w.FileEdges != c.implied {
				t.Errorf("edges %v, %d by files; want %v, %d", edges(w), w.FileEdges, c.edges, c.implied)
			}
			if c.rule != "" && !slices.ContainsFunc(faults, func(f trace.Fault) bool { return f.Rule == c.rule }) {
				t.Errorf("no warning %s in %v", c.rule, faults)
			}
		})
	}
}

func TestCommandsAreReadAsTheyWouldRun(t *testing.T) {
	with := func(system, command string) string {
		return `{"schemaVersion": "1.5", "runtimeSystem": {"name": "` + system + `"}, "workflow": {"specification": {"tasks": [{"id": "a", "name": "a"}]},
			"execution": {"tasks": [{"id": "a", "runtimeInSeconds": 1, "command": ` + command + `}]}}}`
	}
	for _, c := range []struct {
		name, text string
		argv       []string
		shell      bool
	}{
		{"DAX: files in the argument", dax("<job id='a' name='cat'><argument>-a\n   I=<file name='x'/> -i<file " +
			"name='y'/>,<file name='z'/></argument></job>"),
			[]string{"cat", "-a", "I=x", "-iy,z"}, false},
		{"DAX 2: filename", dax("<job id='a' name='cat'><argument> <filename file='x'/> </argument></job>"),
			[]string{"cat", "x"}, false},
		{"DAX: quotes",
			dax(`<job id='a' name='gatk'><argument>-f "QD &lt; 2.0 || FS" 'it is' a\ b "q\"q" ""</argument></job>`),
			[]string{"gatk", "-f", "QD < 2.0 || FS", "it is", "a b", `q"q`, ""}, false},
		{"DAX: a comment, as bash has it", dax("<job id='a' name='x'><argument>a#b '#c' #d e</argument></job>"),
			[]string{"x", "a#b", "#c"}, false},
		{"DAX: executable", dax("<executable name='sl' namespace='n' version='1'><pfn url='gsiftp://h/sl'/><pfn " +
			"url='file:///bin/sleep'/></executable>" +
			"<job id='a' name='sl' namespace='n' version='1'><argument>1</argument></job>"), []string{"/bin/sleep",
			"1"}, false},
		{"DAX: no argument", dax("<job id='a' name='mProject'/>"), nil, false},
		{"YAML", yml("- {id: a, name: keg, arguments: [-n, 1, 1.10, \"x 'y z'\"]}\n"), []string{"keg", "-n", "1",
			"1.10", "x", "y z"}, false},
		{"argv of one's own", with("", `{"program": "sh", "arguments": ["-c", "cat a > b"]}`),
			[]string{"sh", "-c", "cat a > b"}, false},
		{"a whole line", with("", `{"program": "cat a > b"}`), []string{"cat a > b"}, true},
		{"a redirection", with("", `{"program": "cat", "arguments": ["a", ">", "b"]}`), []string{"cat a > b"}, true},
		{"shell forbidden", with("", `{"program": "echo", "arguments": ["a", ">"], "shell": false}`),
			[]string{"echo", "a", ">"}, false},
		{"Makeflow repeats the program",
			with("Makeflow", `{"program": "blastall", "arguments": ["./blastall", "-d", "nt", "2>", "e"]}`),
			[]string{"./blastall -d nt 2> e"}, true},
		{"Makeflow without operators", with("makeflow", `{"program": "split", "arguments": ["./split", "5", "f"]}`),
			[]string{"./split", "5", "f"}, false},
		{"Nextflow's script", with("Nextflow", `{"program": "fastqc a\n  ls | wc", "arguments": []}`),
			[]string{"fastqc a\n  ls | wc"}, true},
		{"WfCommons' pieces",
			with("", `{"program": "wfbench.py", "arguments": ["n", "--percent-cpu 0.6", "--out \"{\\\"x\\\":4}\""]}`),
			[]string{"wfbench.py", "n", "--percent-cpu", "0.6", "--out", `{"x":4}`}, false},
		{"Pegasus runs no shell",
			with("Pegasus", `{"program": "gatk", "arguments": ["-f", "QD < 2.0 || FS > 60", ">"]}`),
			[]string{"gatk", "-f", "QD < 2.0 || FS > 60", ">"}, false},
		{"empty", with("", `{}`), nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			task := good(t, c.text).Tasks[0]
			if !reflect.DeepEqual(task.Command, c.argv) || task.Shell != c.shell ||
				task.Known.Has(trace.Command) != (c.argv != nil) {
				t.Errorf("%q, shell %v; want %q, %v", task.Command, task.Shell, c.argv, c.shell)
			}
		})
	}
}

func TestProfilesTellResources(t *testing.T) {
	w := good(t, dax(`<executable name="x"><pfn url="file:///bin/x"/><profile namespace="env" key="B">exe</profile><profile namespace="env" key="C">c</profile>
<profile namespace="pegasus" key="container.image">docker://busybox</profile><profile namespace="condor" key="request_cpus">8</profile></executable>
<job id="a" name="x"><profile namespace="pegasus" key="runtime"> 12.5 </profile><profile namespace="condor" key="request_cpus">4</profile>
<profile namespace="pegasus" key="cores">2</profile><profile namespace="pegasus" key="memory">100</profile><profile namespace="env" key="B">job</profile>
<profile namespace="dagman" key="RETRY">3</profile><profile namespace="globus" key="maxwalltime">2</profile><stdin name="in"/><stdout name="out"/></job>
<job id="b" name="y" runtime="7" cores="2.5" memory="4096"><profile namespace="pegasus" key="runtime">1</profile><profile namespace="condor" key="request_memory">2 GB</profile></job>`))
	a, b := w.Tasks[0], w.Tasks[1]
	if a.Runtime != 12500*time.Millisecond || a.Cores != 8 || a.MemoryBytes != 100<<20 || a.Retries != 3 ||
		a.TimeLimit != 0 ||
		a.Image != "busybox" || !reflect.DeepEqual(a.Env, []string{"B=exe", "C=c"}) || a.Stdin != "in" ||
		len(a.Inputs) != 1 || len(a.Outputs) != 1 {
		t.Errorf("a: %+v", a)
	}
	if b.Runtime != 7*time.Second || b.Cores != 2.5 || b.MemoryBytes != 4096 || b.Retries != -1 || b.Image != "" {
		t.Errorf("b: %+v", b)
	}
}

func TestPegasusYAMLNamesContainers(t *testing.T) {
	w := good(t, yml(`- {type: job, id: a, namespace: n, name: keg, version: "1.0", arguments: [x], stdout: o, uses: [{lfn: i, type: input, metadata: {size: "20"}}]}
- &sub {type: pegasusWorkflow, id: b, file: inner.yml}
profiles: {env: {Z: "1"}}
transformationCatalog:
  transformations:
  - {namespace: n, name: keg, version: "1.0", sites: [{name: local, pfn: /bin/keg, type: installed, container: box, profiles: {condor: {request_cpus: 3}}}]}
  containers:
  - {name: box, type: docker, image: "docker:///rynge/montage:latest"}
`))
	a, b := w.Tasks[0], w.Tasks[1]
	if a.Image != "rynge/montage:latest" || a.Cores != 3 || !reflect.DeepEqual(a.Command, []string{"/bin/keg", "x"}) ||
		a.Stdout != "o" ||
		!reflect.DeepEqual(a.Env, []string{"Z=1"}) || w.Files[a.Inputs[0]].Size != 20 {
		t.Errorf("a: %+v", a)
	}
	if !b.SubWorkflow || b.Kind != "pegasusWorkflow" || b.Name != "inner.yml" {
		t.Errorf("b: %+v", b)
	}
}

func TestWfFormatTasksMayNameImageAndRedirections(t *testing.T) {
	w := good(t, `{"schemaVersion": "1.5", "workflow": {"specification": {"tasks": [
		{"id": "a", "name": "a", "stdout": "o", "env": {"B": "2", "A": "1"}, "outputFiles": ["o"], "retries": 2, "timeLimitInSeconds": 60},
		{"id": "b", "name": "b", "parents": ["a"], "command": {"program": "wc", "arguments": ["o"]}, "container": {"type": "docker", "name": "docker://busybox"}}]},
		"execution": {"makespanInSeconds": 3, "executedAt": "2020-12-25T20:10:08+00:00", "tasks": [{"id": "a", "runtimeInSeconds": 2, "image": "debian:12", "coreCount": 2.0}]}}}`)
	a, b := w.Tasks[0], w.Tasks[1]
	if a.Image != "debian:12" || a.Stdout != "o" || !reflect.DeepEqual(a.Env, []string{"A=1", "B=2"}) ||
		a.Retries != 2 || a.TimeLimit != time.Minute || a.Cores != 2 {
		t.Errorf("a: %+v", a)
	}
	if b.Image != "busybox" || !reflect.DeepEqual(b.Command, []string{"wc", "o"}) || b.Known.Has(trace.Runtime) {
		t.Errorf("b: %+v", b)
	}
	if w.Makespan != 3*time.Second || w.ExecutedAt != "2020-12-25T20:10:08+00:00" {
		t.Errorf("makespan %v, executed at %s", w.Makespan, w.ExecutedAt)
	}
}

func TestMemoryUnitsFollowVersionAndMachine(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       int64
	}{
		{"1.3 in KB", `{"schemaVersion": "1.3", "workflow": {"tasks": [{"name": "a", "memory": 500}]}}`, 500_000},
		{"1.4 in bytes, new key first",
			`{"schemaVersion": "1.4", "workflow": {"tasks": [{"name": "a", "memoryInBytes": 500000, "memory": 500}]}}`,
			500_000},
		{"1.4 in bytes, old key first",
			`{"schemaVersion": "1.4", "workflow": {"tasks": [{"name": "a", "memory": 500, "memoryInBytes": 500000}]}}`,
			500_000},
		{"no version: bytes", `{"workflow": {"tasks": [{"name": "a", "memory": 75000000000}]}}`, 75_000_000_000},
		{"1.5 with a machine in KB", `{"schemaVersion": "1.5", "workflow": {"specification": {"tasks": [{"id": "a", "name": "a"}]}, "execution": {
			"tasks": [{"id": "a", "runtimeInSeconds": 1, "memoryInBytes": 87824}], "machines": [{"nodeName": "n", "memoryInBytes": 196483612, "cpu": {"coreCount": 64}}]}}}`, 87_824_000},
		{"0 is not sampled", `{"schemaVersion": "1.4", "workflow": {"tasks": [{"name": "a", "memoryInBytes": 0}]}}`, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if a := good(t, c.text).Tasks[0]; a.MemoryBytes != c.want || a.Known.Has(trace.Memory) != (c.want > 0) {
				t.Errorf("memory %d, want %d", a.MemoryBytes, c.want)
			}
		})
	}
}

// Wrappings are taken off before; the tests of the reader have all of them.
func TestFormatsAreToldByContent(t *testing.T) {
	wide := strings.Join(strings.Split("<?xml version='1.0' encoding='UTF-16'?><adag><job id='a'/></adag>", ""), "\x00")
	long := strings.Repeat(" ", 99999)
	for text, want := range map[string]trace.Format{
		"<?xml version='1.0'?><!-- <adag/> -->\n<x:adag xmlns:x='u'><x:job id='a'/></x:adag>": trace.DAX,
		"<?xml version='1.0' encoding='ISO-8859-1'?><adag><job id='a' name='\xe9'/></adag>":   trace.DAX,
		wide + "\x00":               trace.DAX,
		wf(`{"name": "a"}`):         trace.WfFormat,
		yml("- {id: a, name: x}\n"): trace.PegasusYAML,
		"---\n# c\nx-pegasus: {}\njobs: [{id: a, name: x}]\npegasus: 5.0":                    trace.PegasusYAML,
		`{"pegasus": "5.0", "jobs": [{"id": "a", "name": "x"}]}`:                             trace.PegasusYAML,
		"jobs: [{id: a, name: x}]\n" + strings.Repeat("# long\n", 9999) + "pegasus: '5.0'\n": trace.PegasusYAML,
		`{"jobDependencies": [], ` + long + `"jobs": [{"id": "a", "name": "x"}]}`:            trace.PegasusYAML,
	} {
		var zipped bytes.Buffer
		z := gzip.NewWriter(&zipped)
		io.WriteString(z, text)
		z.Close()
		for _, data := range []string{text, zipped.String()} {
			w, faults, err := trace.Read(strings.NewReader(data), "-", trace.ReadOptions{})
			if err != nil || trace.HasErrors(faults) || w.Format != want || len(w.Tasks) != 1 {
				t.Errorf("%q: %v %v %v", text, w, faults, err)
			}
		}
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("disk gone") }

func TestErrorsOfTheSourceAreNotFaults(t *testing.T) {
	if _, _, err := trace.Read(io.MultiReader(strings.NewReader("<adag><job"), brokenReader{}), "x.dax",
		trace.ReadOptions{}); err == nil || !strings.Contains(err.Error(), "disk gone") {
		t.Error(err)
	}
}

func TestDirectoriesAreSearchedForWorkflows(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"b/x.txt": dax("<job id='a'/>"), "a.json": wf(`{"name": "a"}`),
		"README": "hello\n", "b/catalogue.yml": "pegasus: '5.0'\nreplicas: []\n"} {
		path := filepath.Join(dir, name)
		os.MkdirAll(filepath.Dir(path), 0o755)
		os.WriteFile(path, []byte(text), 0o644)
	}
	files, skipped, err := trace.Find([]string{dir, filepath.Join(dir, "README"), "-"})
	rel := func(paths []string) (out []string) {
		for _, p := range paths {
			out = append(out, strings.TrimPrefix(p, dir+"/"))
		}
		return out
	}
	if err != nil || !reflect.DeepEqual(rel(files), []string{"a.json", "b/x.txt", "README", "-"}) ||
		!reflect.DeepEqual(rel(skipped), []string{"README", "b/catalogue.yml"}) {
		t.Errorf("%v %v %v", rel(files), rel(skipped), err)
	}
	if _, _, err := trace.Find([]string{filepath.Join(dir, "none")}); err == nil {
		t.Error("a path that is not there was found")
	}
}

// A file cut off anywhere is an error, never a panic and never half a workflow taken for a whole one.
func TestTruncatedFilesAreErrors(t *testing.T) {
	dir := dataDir(t)
	for _, name := range []string{"workflowsim/HEFT_paper.xml", "pegasus-dax/3.6/blackdiamond.dax",
		"pegasus-dax/3.4/schema-sample.xml",
		"wrench/simple_workflow.json", "wfformat/v1.5/helloworld-chain-5-chameleon.json",
		"wfformat/v1.4/bacass-dirt02-001.json"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		must(t, err)
		data = bytes.TrimRight(data, " \t\r\n")
		for n := 0; n < len(data); n += max(1, len(data)/500) {
			_, faults, err := trace.Read(bytes.NewReader(data[:n]), name, trace.ReadOptions{Repair: true})
			if err != nil || !trace.HasErrors(faults) {
				t.Fatalf("%s cut at byte %d of %d: %v %v", name, n, len(data), faults, err)
			}
			for _, f := range faults {
				if f.Line == 0 || strings.HasPrefix(f.Rule, "unknown-") && f.Severity == trace.Error &&
					f.Rule != "unknown-format" {
					t.Fatalf("%s cut at byte %d: %v", name, n, f)
				}
			}
		}
	}
}

// YAML that is cut between two lines can be a valid document; it must at least not bring the reader down.
func TestTruncatedYAMLIsRead(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(dataDir(t), "pegasus-yaml/5.0/diamond-etc.yml"))
	must(t, err)
	errs := 0
	for n := 0; n < len(data); n += 7 {
		_, faults, err := trace.Read(bytes.NewReader(data[:n]), "cut", trace.ReadOptions{})
		must(t, err)
		if trace.HasErrors(faults) {
			errs++
		}
	}
	if errs < len(data)/14 {
		t.Errorf("only %d of %d cuts were told", errs, len(data))
	}
}
