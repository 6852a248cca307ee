package trace_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"gantry/trace"
	"gantry/trace/reader"
	"gantry/trace/reader/readertest"
)

// readable checks what holds of any input: no panic, no error of I/O, and a workflow without error faults is whole and
// consistent.
func readable(t *testing.T, data []byte) {
	readertest.Bounded(t, len(data), func() { consistent(t, data) })
}

func consistent(t *testing.T, data []byte) { consistentAs(t, "fuzz", data) }

func consistentAs(t *testing.T, name string, data []byte) {
	t.Helper()
	for _, repair := range []bool{false, true} {
		w, faults, err := trace.Read(bytes.NewReader(data), name, trace.ReadOptions{Repair: repair})
		must(t, err)
		bounded(t, faults)
		if trace.HasErrors(faults) {
			continue
		}
		if w == nil {
			t.Fatal("nothing was read and nothing was wrong")
		}
		ids := map[string]bool{}
		for i, task := range w.Tasks {
			if task.ID == "" || ids[task.ID] || task.Runtime < 0 || task.MemoryBytes < 0 || task.Cores < 0 {
				t.Fatalf("%+v", task)
			}
			ids[task.ID] = true
			for _, p := range task.Parents {
				if int(p) == i || p < 0 || int(p) >= len(w.Tasks) {
					t.Fatalf("parent %d of task %d", p, i)
				}
			}
		}
		for _, f := range w.Files {
			if f.Size < 0 {
				t.Fatalf("%+v", f)
			}
		}
		if s := w.Stats(); s.Cyclic || s.Tasks != len(w.Tasks) {
			t.Fatalf("%+v", s)
		}
		must(t, trace.WriteWfFormat(&bytes.Buffer{}, w))
	}
}

// bounded checks that faults are few and short.
func bounded(t *testing.T, faults []trace.Fault) {
	n := 0
	for _, f := range faults {
		if f.Severity == trace.Error {
			n++
		}
		// escaped characters are longer
		if len(f.Message) > 8*reader.MaxMessage || strings.ContainsAny(f.Message, "\n\x1b") {
			t.Fatalf("%d bytes: %.200q", len(f.Message), f.Message)
		}
	}
	if n > reader.MaxErrors+2 { // one that ended the reading, and how many more there are
		t.Fatalf("%d errors", n)
	}
}

func FuzzDAX(f *testing.F) {
	for _, s := range []string{
		dax("<job id='a' name='x' runtime='1'><argument>-i <file name='f'/> '</argument><uses name='f' link='inout' " +
			"size='5'/></job>"),
		dax("<job id='a'/><dax id='b' file='g'/><child ref='b'><parent ref='a'/><parent ref='b'/></child><child " +
			"ref='a'><parent ref='b'/></child>"),
		"<?xml version='1.0' encoding='latin1'?><!DOCTYPE adag [<!ENTITY a 'b'>]><x:adag><!-- c " +
			"--><![CDATA[d]]>&#65;</x:adag>",
		dax("<executable name='x'><pfn url='file:///bin/x'/><profile namespace='env' " +
			"key='a'>b</profile></executable><dflow id='d'><job id='e'/></dflow>"),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(readable)
}

func FuzzWfFormat(f *testing.F) {
	for _, s := range []string{
		wf(`{"name": "a", "id": "1", "runtime": 1.5, "files": [{"link": "input", "name": "f", "path": "/p/",
			"size": 3}], "command": {"program": "x", "arguments": [">"]}}`),
		wf(`{"name": "a", "children": ["b"]}, {"name": "b", "parents": ["a", "b"], "memory": "7", "cores": 1e2}`),
		`{"schemaVersion": "1.5", "workflow": {"execution": {"tasks": [{"id": "a", "runtimeInSeconds": 1}],
			"machines": [{"cpu": {"coreCount": 9}, "memoryInBytes": 5}]},
			"specification": {"originalFileIds": {"f": "g h"}, "files": [{"id": "f", "sizeInBytes": 1}],
			"tasks": [{"id": "a", "name": "\ud83d\ude00", "inputFiles": ["f"]}]}}}`,
		`{"schemaVersion": "0.1", "wms": {"name": "Makeflow"}, "workflow": {"jobs": [{"name": "a",
			"arguments": ["./a"]}]}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(readable)
}

// FuzzWfFormatAtAGlance compares a file that comes in large pieces with the same one that comes byte by byte, of which
// nothing is read at a glance: behind its beginning, by which the format is told and which is buffered, it has blanks.
func FuzzWfFormatAtAGlance(f *testing.F) {
	for _, s := range []string{
		wf(`{"name": "a", "id": "1", "runtime": 1.5, "files": [{"link": "inout", "name": "f", "size": 3,
			"sizeInBytes": 4}, {"link": "input", "name": "g"}], "command": {"program": "x", "arguments": [">", "x"]}}`),
		wf(`{"name": "a", "children": ["b", "b"]}, {"name": "b", "parents": ["a", 1], "memory": "7", "name": "b"}`),
		`{"schemaVersion": "1.5", "workflow": {"execution": {"tasks": [{"id": "a", "runtimeInSeconds": 1,
			"machines": ["m"]}, {"id": "a"}]}, "specification": {"files": [{"id": "f", "sizeInBytes": 1},
			{"id": "f"}], "tasks": [{"id": "a", "name": "\ud83d\ude00", "inputFiles": ["f", "d/"],
			"outputFiles": [], "parents": ["b"], "category": "c", "extra": 1},
			{"id": "b", "name": "c_ID1", "command": {"program": "c", "shell": false}}]}}}`,
	} {
		f.Add([]byte(s))
	}
	blanks := bytes.Repeat([]byte(" "), reader.Window)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 || data[0] != '{' {
			return
		}
		data = slices.Concat(data[:1], blanks, data[1:])
		for _, repair := range []bool{false, true} {
			var read [2]string
			head, rest := data[:1+len(blanks)], data[1+len(blanks):]
			for i, r := range []io.Reader{bytes.NewReader(data),
				io.MultiReader(bytes.NewReader(head), iotest.OneByteReader(bytes.NewReader(rest)))} {
				w, faults, err := trace.Read(r, "fuzz.json", trace.ReadOptions{Repair: repair})
				text, _ := json.Marshal(w)
				read[i] = fmt.Sprint(string(text), faults, err)
			}
			if read[0] != read[1] {
				t.Fatalf("as a whole:\n%s\nbyte by byte:\n%s", read[0], read[1])
			}
		}
	})
}

func FuzzYAML(f *testing.F) {
	for _, s := range []string{
		yml("- {id: a, name: x, arguments: [1, 1.1], uses: [{lfn: f, type: output, metadata: {size: '5'}}], " +
			"profiles: {pegasus: {runtime: 2}}}\n"),
		yml("- &a {id: a, name: x}\n- <<: *a\n  id: b\njobDependencies:\n- id: a\n  children: [b]\n"),
		`{"pegasus": 5.0, "jobs": [{"id": "a", "name": "x"}], "transformationCatalog": {"containers": [{"name": "c",
			"image": "docker://i"}]}}`,
		"x-pegasus: ~\njobs: !!seq [{id: |\n  a\n}]\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(readable)
}

func FuzzMakeflow(f *testing.F) {
	for _, s := range []string{
		"A=1\nexport A\nA+=2\nCATEGORY=x\nCORES=2\na b->c: d \"e f\" 'g'\n" +
			"@A=3\n\tLOCAL echo $A ${A} $(A) \\$A '$A' > a\nh: a\n\tcat a\n",
		".MAKEFLOW MEMORY 100\n.SIZE a 10M\na: b \\\n c\n\techo \\\n d # e\n",
		`{"define": {"N": 3, "M": N*2-1}, "categories": {"c": {"resources": {"cores": 2}}}, "rules": [` +
			`{"command": template("x{i} {N}")+join([format("%d %s", j, "y") for j in range(i)]), "outputs": ["o"+i],` +
			` "inputs": [{"dag_name": "a", "task_name": "b"}], "category": "c"} for i in range(N)` +
			` if not (i == 1 and true)]}`,
		"# c\n{\"rules\": [{\"command\": [1,2,3][1:][0].ceil()+\"a\", \"environment\": {\"A\": 1}}]}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		readertest.Bounded(t, len(data), func() { consistentAs(t, "fuzz.makeflow", data) })
	})
}

// FuzzJX reads makeflows of expressions.
func FuzzJX(f *testing.F) {
	for _, s := range []string{
		`{"define": {"N": 3}, "rules": [{"command": "touch "+join(outs, " "), "outputs": outs} ` +
			`for outs in [["a", "b"]]]}`,
		`{"rules": [{"command": format("%s %d", x, len(x)), "outputs": [basename(x), dirname("a/b")]} ` +
			`for x in ["p", "q"] if x != "p" or false]}`,
		`{"rules": [{"command": escape("a b")+"c"*1, "outputs": [keys({"a": values({"b": 1})})[0]]}]}`,
		`{"rules": [{"command": select({"a": -1}, a < 0)[-1]["a"]+"", "outputs": [floor(1.5)+"x"[0:1]]}]} # c`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		readertest.Bounded(t, len(data), func() { consistentAs(t, "fuzz.jx", data) })
	})
}

// FuzzCatalog reads a catalog, properties or a replica catalog of text beside a workflow.
func FuzzCatalog(f *testing.F) {
	for _, s := range []string{
		"replicas:\n- {lfn: '(in)\\.([a-z]+)', regex: true, pfns: [{pfn: '/x/[1].[2]', site: s}]," +
			" checksum: {sha256: ab}}\n",
		"transformations:\n- {namespace: n, name: p, version: '1', profiles: {env: {A: b}},\n  sites: [{name: s, " +
			"pfn: /p, type: stageable, container: c, arch: x86_64}]}\ncontainers:\n- {name: c, type: docker, " +
			"image: 'docker:///i', mounts: ['/a:/b:ro']}\n",
		"sites:\n- {name: s, directories: [{path: /d}], profiles: {pegasus: {cores: 2}}}\n",
		"pegasus.catalog.replica = File\npegasus.catalog.replica.file c.properties\nenv.A\\=B: ${HOME}\\\n c\n! d\n",
		"in.txt file:///x/%41 site=local checksum.value=00 regex=true\npegasus.catalog.replica=Regex\n",
	} {
		f.Add([]byte(s), false)
		f.Add([]byte(s), true)
	}
	dir := f.TempDir()
	w := filepath.Join(dir, "w.yml")
	if err := os.WriteFile(w, []byte(oneJob), 0o644); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte, properties bool) {
		path := filepath.Join(dir, "c.yml")
		if properties {
			path = filepath.Join(dir, "c.properties")
		}
		must(t, os.WriteFile(path, data, 0o644))
		// A text that names itself as replicas is read twice.
		readertest.Bounded(t, 2*len(data), func() {
			_, faults, err := trace.Open(w, trace.ReadOptions{Catalogs: []string{path}})
			must(t, err)
			bounded(t, faults)
		})
	})
}
