package cmd

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"gantry/planner/seed/seedtest"
)

// times repeats a text; a %d in it is the number of the repetition.
func times(n int, text string) string {
	var b strings.Builder
	for i := range n {
		if strings.Contains(text, "%") {
			fmt.Fprintf(&b, strings.ReplaceAll(text, "%d", "%[1]d"), i)
		} else {
			b.WriteString(text)
		}
	}
	return b.String()
}

// folded is a part of a text that stands for repetitions: «N|TEXT».
var folded = regexp.MustCompile(`«([\d_]+)\|([^«»]*)»`)

// unfolded repeats the parts of a text that are folded, those within others first.
func unfolded(text string) string {
	for folded.MatchString(text) {
		text = folded.ReplaceAllStringFunc(text, func(part string) string {
			m := folded.FindStringSubmatch(part)
			n, _ := strconv.ParseInt(m[1], 0, 32)
			return times(int(n), m[2])
		})
	}
	return text
}

func daxOf(body string) string { return "<adag>\n" + body + "</adag>\n" }
func ymlOf(jobs string) string { return "pegasus: '5.0'\njobs:\n" + jobs }
func wfOf(tasks string) string {
	return `{"schemaVersion": "1.4", "workflow": {"tasks": [` + strings.TrimSuffix(strings.TrimSpace(tasks), ",") +
		"]}}\n"
}

// utf16 is a text of ASCII in UTF-16.
func utf16(text string) string {
	return "\xff\xfe" + strings.Join(strings.Split(text, ""), "\x00") + "\x00"
}

func gzipped(text, more string, n int) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(text))
	for range n {
		z.Write([]byte(more))
	}
	z.Close()
	return b.String()
}

func zipped(names []string, text string, n int) string {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range names {
		w, _ := z.Create(name)
		for range n {
			w.Write([]byte(text))
		}
	}
	z.Close()
	return b.String()
}

// hostile are files by kind. Each is refused or taken, saying what is given here, within the bounds of docs/files.md.
var hostile = []struct {
	name string // of the file
	text any    // as unfolded reads it, or a function that makes it
	says string // in the output; "ok": it is taken
}{
	// YAML
	{"flow-lists.yml", "pegasus: '5.0'\njobs: «200_000|[»", "line 2: bound: nested deeper than 100"},
	{"flow-mixed.yml", "pegasus: '5.0'\njobs: «5_000|[{a: »", "error"},
	{"flow-lines.yml", "pegasus: '5.0'\njobs: «50_000|[\n»", "nested deeper than 100"},
	{"dashes.yml", "pegasus: '5.0'\njobs:\n«200_000|- »", "line 3: bound: nested deeper than 100"},
	{"indented.yml", func() string {
		var b strings.Builder
		for i := range 500 {
			b.WriteString(strings.Repeat(" ", i) + "a:\n")
		}
		return "pegasus: '5.0'\njobs: []\nx:\n " + strings.ReplaceAll(b.String(), "\n", "\n ") +
			strings.Repeat(" ", 500) + "b\n"
	}, "nested deeper than 100"},
	{"chains.yml", ymlOf("«5_000|- «95|[»«95|]»\n»"), " values"},
	{"flow-values.yml", "pegasus: '5.0'\njobs: [«700_000|a,»]\n", " values"},
	{"small-set.yml", ymlOf("- {«30_000|k%d,»}\n"), "more than 10000 keys"},
	{"tiny-jobs.yml", ymlOf("«300_000|- id: %d\n»"), " values"},
	{"jobs.yml", ymlOf("«20_000|- id: ID%d\n  name: a\n  type: job\n  arguments: [-i, f%d]\n»"), "ok"},
	{"laughs.yml", func() string {
		s := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
		for i := range 30 {
			s += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(times(10, fmt.Sprintf("*a%d, ", i)),
				", "))
		}
		return "pegasus: '5.0'\n" + s + "jobs: *a30\n"
	}, "should be a mapping"},
	{"uses-again.yml", "pegasus: '5.0'\nx: &u [«5_000|{lfn: f%d, type: input}, »]\njobs:\n«5_000|- {id: a%d, " +
		"name: a, uses: *u}\n»", "bound: "},
	{"cyclic-alias.yml", "pegasus: '5.0'\njobs: &j [*j, {id: a, <<: *j}]\n", "error"},
	{"anchors.yml", ymlOf("«10_000|- &a%d {id: a%d, name: x}\n»"), "ok"},
	{"same-keys.yml", ymlOf("- {id: a, name: x, «20_000|id: a, »}\n"), "more than 10000 keys"},
	{"comments.yml", "pegasus: '5.0'\n«300_000|# c\n»jobs: [{id: a, name: b}]\n", "ok"},
	{"long-plain.yml", "pegasus: '5.0'\nname: «2_000_000|x»\njobs: [{id: a, name: b}]\n",
		"line 2: bound: a text of more than 1048576 bytes"},
	{"long-literal.yml", "pegasus: '5.0'\nname: |\n«400_000|  x\n»jobs: [{id: a, name: b}]\n", "ok"},
	{"tags.yml", ymlOf("«100_000|- !!str a\n»"), "and 99980 more errors"},
	{"open-quote.yml", ymlOf(`- {id: "«500_000|a »`), "syntax"},
	{"nul.yml", func() string { return ymlOf("- {id: a\x00}\n") }, "syntax"},
	{"carriage-returns.yml", strings.ReplaceAll(ymlOf("«10_000|- {id: a%d, name: x}\n»"), "\n", "\r\n"), "ok"},
	{"not-utf8.yml", func() string { return ymlOf(times(1000, "- {id: a%d, name: x}\n") + "- {id: \xff}\n") },
		"line 1003: syntax: not YAML: the text is not UTF-8"},
	{"bom.yml", func() string { return "\xef\xbb\xbf" + ymlOf("- {id: a, name: x}\n") }, "ok"},
	{"same-ids.yml", ymlOf("«20_000|- {id: a, name: x}\n»"), "and 19979 more errors"},
	{"profiles.yml", ymlOf("- {id: a, name: x, profiles: {env: {«9_000|k%d: v, »}}}\n"),
		"line 3: bound: more than 100 profiles"},
	{"arguments.yml", ymlOf("- id: a\n  name: x\n  arguments:\n«300_000|  - a\n»"), "bound: "},
	{"children.yml", ymlOf("- {id: a, name: x}\n- {id: b, name: x}\njobDependencies:\n- id: a\n  children:\n" +
		"«50_000|  - b\n»"), "ok"},
	{"json.yml", `{"pegasus": "5.0", "jobs": [«20_000|{"id": "a%d", "name": "x"},»{"id": "z", "name": "x"}]}`, "ok"},
	// XML
	{"attributes.dax", daxOf("<job id='a' «60_000|a%d='' »/>\n"), "line 2: bound: more than 100 attributes"},
	{"long-tag.dax", daxOf("<job id='a' «2_000_000| »/>\n"), "line 2: bound: a text of more than 1048576 bytes"},
	{"long-attribute.dax", daxOf("<job id='a' name='«900_000|x»'/>\n"), "ok"},
	{"long-id.dax", daxOf("<job id='«900_000|x»' name='x'/>\n"), "line 2: bound: a name of more than 4096 bytes"},
	{"long-element.dax", daxOf("<«900_000|x»/>\n"), "line 2: bound: a name of more than 4096 bytes"},
	{"long-end.dax", "<adag></«900_000|x»>\n", "not well-formed XML: </xxx"},
	{"long-text.dax", daxOf("<job id='a'><argument>«2_000_000|x»</argument></job>\n"),
		"a text of more than 1048576 bytes"},
	{"text-in-parts.dax", daxOf("<job id='a'><argument>«300_000|x<b/>yz»</argument></job>\n"), "ok"},
	{"names-in-argument.dax", daxOf("<job id='a'><argument>«300|<file name='«4000|n»'/>»</argument></job>\n"),
		"a text of more than 1048576 bytes"},
	{"long-cdata.dax", daxOf("<job id='a'><argument><![CDATA[«2_000_000|]»]]></argument></job>\n"),
		"a text of more than 1048576 bytes"},
	{"long-comment.dax", daxOf("<!--«2_000_000|- »--><job id='a' name='b'/>\n"), "ok"},
	{"open-comment.dax", "<adag><!--«2_000_000|-> »", "truncated"},
	{"deep.dax", "<adag>«200_000|<a>»", "bound: nested deeper than 100"},
	{"entities.dax", func() string {
		s := "<!DOCTYPE adag [<!ENTITY a0 'aaaaaaaaaa'>"
		for i := range 30 {
			s += fmt.Sprintf("<!ENTITY a%d '%s'>", i+1, times(10, fmt.Sprintf("&a%d;", i)))
		}
		return s + "]>" + daxOf("<job id='&a30;' name='b'/>\n")
	}, "unknown entity &a30;"},
	{"external-entity.dax", "<!DOCTYPE adag [<!ENTITY x SYSTEM 'file:///etc/passwd'>]>" + daxOf("<job id='&x;'/>\n"),
		"unknown entity &x;"},
	{"entity-declarations.dax", "<!DOCTYPE adag [«100_000|<!ENTITY a%d 'b'>»]>" + daxOf("<job id='a' name='b'/>\n"),
		"ok"},
	{"references.dax", daxOf("<job id='a' name='«150_000|&#65;»'/>\n"), "ok"},
	{"no-reference.dax", daxOf("<job id='a' name='«500_000|&»'/>\n"), "begins no entity"},
	{"not-utf8.dax", func() string { return daxOf("<job id='\xff' name='b'/>\n") }, "not UTF-8"},
	{"controls.dax", func() string { return daxOf("<job id='\x1b[31m' name='b'/>\n") }, "control character"},
	{"escapes.dax", daxOf("<job id='a' name='b'/><child ref='a'><parent ref='&#x9b;31m'/></child>\n"), "<U+009B>31m"},
	{"utf16le.dax", func() string { return utf16(daxOf(times(5_000, "<job id='a%d'/>\n"))) }, "ok"},
	{"utf16-odd.dax", func() string { return utf16(daxOf("<job id='a' name='b'/>")) + "\xd8" },
		"error"},
	{"nuls.dax", func() string { return times(1_000_000, "\x00") }, "binary data"},
	{"tiny-jobs.dax", daxOf("«400_000|<job id='%d'/>»"), "takes more memory than 20 times"},
	{"jobs.dax", daxOf("«30_000|<job id='ID%d' name='x' runtime='3'><uses file='f%d' link='output' " +
		"size='1'/></job>\n»"), "ok"},
	{"same-ids.dax", daxOf("«100_000|<job id='a' name='b'/>»"), "and 99979 more errors"},
	{"parents.dax", daxOf("«20_000|<job id='%d' name='b'/>»<child ref='0'>«20_000|<parent ref='%d'/>»</child>"),
		"self-edge"},
	{"same-parents.dax", daxOf("<job id='a' name='b'/><job id='b' name='b'/><child ref='b'>«100_000|<parent " +
		"ref='a'/>»</child>"), "duplicate-edge"},
	{"big-cycle.dax", daxOf("«30_000|<job id='%d' name='b'/>»«29_999|<child ref='%d'><parent ref='1%d'/></child>»"),
		"error"},
	{"inherited.dax", daxOf("<executable name='x'>«95|<profile namespace='env' key='k%d'>v</profile>»" +
		"</executable>«20_000|<job id='%d' name='x'/>»"), "takes more memory than 20 times"},
	{"profiles.dax", daxOf("<job id='a' name='b'>«100_000|<profile/>»</job>"), "more than 100 profiles"},
	{"open-quotes.dax", daxOf("«10_000|<job id='%d' name='b'><argument>'</argument></job>\n»"), "open-quote"},
	{"truncated.dax", "<adag>«30_000|<job id='%d' name='b'/>»<job id='x", "truncated"},
	{"bang.dax", daxOf("<!><job id='a'/>"), "begins neither a comment nor a declaration"},
	{"exponents.dax", daxOf("«20_000|<job id='%d' name='b' runtime='1e999999999'/>»"), "and 19980 more errors"},
	// JSON
	{"deep.json", `{"workflow": «500_000|[»`, "bound: nested deeper than 100"},
	{"deep-unknown.json", `{"x": «200_000|{"a":[»`, "nested deeper than 100"},
	{"task-keys.json", wfOf(`{"name": "a", «50_000|"k%d": 1, »"id": "a"}`), "more than 10000 keys"},
	{"same-keys.json", wfOf(`{"name": "a"«9_000|, "name": "a"»}`), "duplicate-key"},
	{"long-key.json", `{"workflow": {"«1_000_000|k»": 1}}`, "a name of more than 4096 bytes"},
	{"long-string.json", `{"description": "«2_000_000|x»", "workflow": {}}`, "no-tasks"},
	{"long-number.json", wfOf(`{"name": "a", "runtime": «100_000|9»}`), "a number of more than 1000 characters"},
	{"surrogates.json", wfOf(`{"name": "«100_000|\ud800»"}`), "surrogate"},
	{"tiny-tasks.json", wfOf(`«300_000|{"name":"%d"},»{"name": "z"}`), "takes more memory than 20 times"},
	{"tasks.json", wfOf(`«20_000|{"name": "ID%d", "runtime": 3, "files": [{"link": "input", "name": "f%d", "size": ` +
		"3}]},\n»" + `{"name": "z"}`), "ok"},
	{"files.json", wfOf(`{"name": "a", "inputFiles": [«300_000|"%d",»"a"]}`), "takes more memory than 20 times"},
	{"writers.json", wfOf(`«6_000|{"name":"w%d","files":[{"link":"output","name":"f"}]},»«6_000|{"name":"r%d",` +
		`"files":[{"link":"input","name":"f"}]},»{"name": "z"}`), "takes more memory than 20 times"},
	{"unordered.json", `{"schemaVersion": "0.4", "workflow": {"jobs": [«5_000|{"name":"w%d",` +
		`"files":[{"link":"output","name":"f"}]},»«5_000|{"name":"r%d","files":[{"link":"input","name":"f"}]},` +
		`»{"name": "z"}]}}`, "unordered-input"},
	{"executions.json", `{"schemaVersion": "1.5", "workflow": {"specification": {"tasks": []}, "execution": ` +
		`{"tasks": [«100_000|{"id":"%d"},»{"id":"z"}]}}}`, "ok, 1 warning"},
	{"listed-files.json", `{"schemaVersion": "1.5", "workflow": {"specification": {"tasks": [{"id": "a", "name": ` +
		`"a"}], "files": [«100_000|{"id":"%d"},»{"id":"z"}]}}}`, "ok"},
	{"nul.json", func() string { return "{\"workflow\": {\"name\": \"\x00\"}}" }, `invalid character '\x00'`},
	{"not-utf8.json", func() string { return wfOf("{\"name\": \"\xff\"}") }, "not UTF-8"},
	{"truncated.json", `{"workflow": {"tasks": [«20_000|{"name": "a%d"}, »{"name": "`, "truncated"},
	{"shell.json", wfOf(`{"name": "a", "command": {"program": "x", "arguments": [«200_000|"a",»"b"]}}`), "ok"},
	// compressed
	{"bomb.json.gz", func() string { return gzipped(`{"workflow": {"tasks": [`, times(10_000, `{"name":"a"},`), 1000) },
		"bound: "},
	{"skipped-bomb.json.gz", func() string { return gzipped(`{"x": [`, times(10_000, `1, `), 4000) },
		"its decompressed text is larger than"},
	{"bomb.zip", func() string {
		return zipped([]string{"a.dax"}, times(10_000, "<!-- comment by comment -->\n"), 400)
	}, "bound: "},
	{"many.zip", func() string { return zipped(strings.Split(times(10_000, "%d.dax "), " ")[:10_000], "", 1) },
		"a zip archive of 10000 files"},
	{"nested.gz", func() string { return gzipped(gzipped(daxOf("<job id='a' name='b'/>"), "", 0), "", 0) }, "error"},
	{"damaged.gz", func() string {
		s := []byte(gzipped(daxOf(times(20_000, "<job id='%d' name='b'/>")), "", 0))
		s[len(s)/2] ^= 0xff
		return string(s)
	}, "error"},
	// workload, cluster and experiment files
	{"tiny-workflows.yaml", "workflows:\n«200_000|- trace: a\n»", " values"},
	{"copies.yaml", "workflows:\n- {trace: a, name: x, copies: 1000000}\n", "missing-file"},
	{"copies-of-many.yaml", "workflows:\n«5_000|- {trace: a, name: x%d, copies: 1000000}\n»",
		"more than 1000000 workflows"},
	{"tenants.yaml", "count: 3\nmix: [{generator: montage, tasks: 30}]\ntenants:\n«10_000|- {name: t%d}\n»", "ok"},
	{"costs.yaml", "workflows:\n- trace: a\n  costs: {«20_000|t%d: {n: 1s}, »}\n", "bound: "},
	{"unknown-keys.yaml", "workflows:\n«40_000|- {trase: a}\n»", "and 79980 more errors"},
	{"long-key.yaml", "workflows: []\n? «500_000|k»\n: 1\n", "a name of more than 4096 bytes"},
	{"many-nodes.yaml", "nodes:\n«50|- {name: n%d, count: 100000}\n»", "more than 100000 nodes"},
	{"factors.yaml", "workload: w\ncluster: c\nfactors:\n  policy:\n«100_000|  - p%d\n»", "missing-file"},
	{"product.yaml", "workload: w\ncluster: c\nfactors:\n  policy: heft\n«20|  workload.k%d: [1, 2, 3, 4, 5, 6, 7, " +
		"8, 9]\n»", "more than 10000000"},
	{"laughing-factors.yaml", func() string {
		s := "workload: w\ncluster: c\nfactors:\n  policy: heft\n  workload.a0: &a0 [x, x]\n"
		for i := range 40 {
			s += fmt.Sprintf("  workload.a%d: &a%d [[*a%d, 1], [*a%d, 2]]\n", i+1, i+1, i, i)
		}
		return s
	}, "error"},
	// Makeflow
	{"doubling.makeflow", func() string {
		text := "A0=xxxxxxxx\n"
		for i := range 40 {
			text += fmt.Sprintf("A%d=$(A%d)$(A%d)\n", i+1, i, i)
		}
		return text + "o:\n\techo $(A40) > o\n"
	}, "bound: a text of more than"},
	{"rules.makeflow", "«30_000|o%d:\n\ttouch o\n»", "takes more memory than 20 times"},
	{"inputs.makeflow", "o: «400_000|%d »\n\ttouch o\n", "takes more memory than 20 times"},
	{"continued.makeflow", "o:\n\techo «300_000|a \\\n» > o\n", "ok"},
	{"quotes.makeflow", "o:\n\techo «999_999|'»\n", "open-quote"},
	{"range.jx", `{"rules": [{"command": "touch o" + i, "outputs": ["o" + i]} for i in range(100000000)]}`,
		"takes more memory than 20 times"},
	{"deep.jx", `{"rules": «200_000|[»`, "bound: nested deeper than 100"},
	{"doubling.jx", func() string {
		text := `{"define": {"b0": "xxxxxxxx"`
		for i := range 40 {
			text += fmt.Sprintf(`, "b%d": b%d + b%d`, i+1, i, i)
		}
		return text + `}, "rules": [{"command": b40, "outputs": ["o"]}]}`
	}, "takes more memory than 20 times"},
	// catalogs and properties of Pegasus, with --catalog
	{"pfns.catalog.yml", "replicas:\n- lfn: in\n  pfns:\n«60_000|  - {pfn: /x/f%d}\n»", "bound: "},
	{"patterns.catalog.yml", "replicas:\n«2_000|- {lfn: '(((a{9}){9}){9})%d', regex: true, pfns: [{pfn: /x}]}\n»",
		"bound: "},
	{"long-value.properties", "a=«3_000_000|x»", "1: a text of more than"},
	{"continued.properties", "a=«400_000|x\\\n»\n", "ok"},
	{"endless.properties", "a=«1_000_000|xx\\\n»", "bound: "},
	{"keys.properties", "«200_000|k%d=v\n»", "more than 10000 properties"},
	{"itself.properties", "pegasus.catalog.replica = YAML\npegasus.catalog.replica.file = itself.properties\n",
		"has none of the keys"},
	{"as-text.properties", func() string { // each line is a replica, too
		return "pegasus.catalog.replica File\npegasus.catalog.replica.file as-text.properties\n" +
			"in /x\n" + times(9_000, "in /x%d\n")
	}, "more than 1000 locations"},
	// CSV, which a workload file names
	{"times.csv", "«400_000|1\n»", "ok"},
	{"long-line.csv", "«1_000_000|1»", "token too long"},
	{"columns.csv", "«200|«300|1,»\n»", "say which column"},
	{"costs.csv", "task,node,seconds\n«200_000|%d,n,1\n»", "takes more memory than 20 times"},
	{"quotes.csv", "task,node,seconds\n\"«1_000_000|a\n»", "extraneous or missing"},
	{"long-name.csv", "task,node,seconds\n«1_000_000|a»,n,1\n", "a name of more than 4096 bytes"},
}

// Every hostile file is read within memory and time in proportion to its size, and told with its line.
func TestHostileFilesStayWithinTheBounds(t *testing.T) {
	if len(hostile) < 60 {
		t.Fatalf("%d files", len(hostile))
	}
	dir := t.TempDir()
	if raceDetector {
		t.Skip("the bounds are those of a build without the race detector")
	}
	least := filepath.Join(dir, "least.yml")
	must(t, os.WriteFile(least, []byte(ymlOf("- {type: job, name: p, id: A}\n")), 0o600))
	_, of := checkFile(t, least+".memory", "check", least)
	small := of.memory
	for i, h := range hostile {
		if testing.Short() && i%12 != seedtest.Part(12) {
			continue // make test-long runs it
		}
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(dir, h.name)
			text, plain := h.text.(string)
			if text = unfolded(text); !plain {
				text = h.text.(func() string)()
			}
			must(t, os.WriteFile(path, []byte(text), 0o600))
			size := len(text)
			if strings.HasSuffix(h.name, ".csv") {
				load := "workflows: [{trace: x, costs: " + h.name + "}]\n"
				if !strings.HasPrefix(text, "task") {
					load = "count: 1\nmix: [{generator: montage, tasks: 20}]\narrivals: {process: trace, times: " +
						h.name + "}\n"
				}
				path += ".yaml"
				must(t, os.WriteFile(path, []byte(load), 0o600))
			}
			args := []string{"check", path}
			if catalog := path; strings.HasSuffix(path, ".properties") || strings.HasSuffix(path, ".catalog.yml") {
				path += ".yml"
				args = []string{"check", "--catalog", catalog, path}
				w := ymlOf("- {type: job, name: p, id: A, uses: [{lfn: in, type: input}]}\n")
				must(t, os.WriteFile(path, []byte(w), 0o600))
			}
			out, used := checkFile(t, path+".memory", args...)
			switch {
			case h.says == "ok":
				if used.code != 0 || !strings.Contains(out, ": ok") {
					t.Errorf("exit code %d: %.600s", used.code, out)
				}
			case !strings.Contains(out, h.says):
				t.Errorf("it does not say %q: %.600s", h.says, out)
			case used.code != exitInput && strings.Contains(out, "bound: "):
				t.Errorf("exit code %d: %.600s", used.code, out)
			}
			for line := range strings.Lines(out) {
				if len(line) > 1000 {
					t.Errorf("a line of %d bytes: %.200s", len(line), line)
				}
			}
			most := small + int64(30*size+96_000_000)
			for range 2 {
				if used.memory > most {
					_, again := checkFile(t, path+".memory", args...)
					used.memory = min(used.memory, again.memory)
				}
			}
			if used.memory > most {
				t.Errorf("%d kB of memory for %d kB of text, wanted at most %d kB", used.memory/1000, size/1000,
					most/1000)
			}
			// Loose, as on a busy host all takes longer. The square of the size would take minutes.
			longest := 2*time.Second + time.Duration(size)*20*time.Microsecond
			if !isCompressed(h.name) && used.time > longest {
				t.Errorf("%v of CPU time for %d kB, wanted at most %v", used.time, size/1000, longest)
			}
		})
	}
}

func isCompressed(name string) bool {
	return strings.HasSuffix(name, "gz") || strings.HasSuffix(name, "zip")
}

type used struct {
	code   int
	memory int64 // bytes, at most
	time   time.Duration
}

// checkFile runs gantry as a process of its own, which writes what memory it took to a file.
func checkFile(t *testing.T, memory string, args ...string) (string, used) {
	t.Helper()
	cmd := gantryProcess(t, args...)
	cmd.Env = append(os.Environ(), memoryFile+"="+memory)
	out, err := cmd.CombinedOutput()
	if _, ended := err.(*exec.ExitError); err != nil && !ended {
		t.Fatal(err)
	}
	status, err := os.ReadFile(memory)
	must(t, err)
	var kilobytes int64
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	if _, err := fmt.Sscan(peak, &kilobytes); err != nil {
		t.Fatal(err)
	}
	return string(out), used{cmd.ProcessState.ExitCode(), kilobytes * 1024, cmd.ProcessState.UserTime() +
		cmd.ProcessState.SystemTime()}
}

// raceDetector is set in builds with it, which take several times the memory.
var raceDetector bool
