package trace_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gantry/trace"
)

// files writes files below a new directory and returns it.
func files(t *testing.T, texts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range texts {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return dir
}

// open reads the workflow w.yml of a directory.
func open(t *testing.T, dir string, o trace.ReadOptions) (*trace.Workflow, []trace.Fault) {
	t.Helper()
	w, faults, err := trace.Open(filepath.Join(dir, "w.yml"), o)
	must(t, err)
	return w, faults
}

// sound reads a workflow without errors.
func sound(t *testing.T, dir string, o trace.ReadOptions) *trace.Workflow {
	t.Helper()
	w, faults := open(t, dir, o)
	if trace.HasErrors(faults) {
		t.Fatal(faults)
	}
	return w
}

const oneJob = `pegasus: "5.0"
name: w
jobs:
- {type: job, name: p, id: A, arguments: [x], uses: [{lfn: in.txt, type: input}]}
`

const boxed = `transformations:
- {name: p, sites: [{name: local, pfn: /bin/p, type: installed, container: box}]}
containers:
- {name: box, type: docker, image: "docker:///org/box:1"}
`

func TestReplicasOfAFileAreInOrder(t *testing.T) {
	dir := files(t, map[string]string{"w.yml": `pegasus: "5.0"
name: w
jobs:
- type: job
  name: p
  id: A
  arguments: []
  uses:
  - {lfn: a/b.txt, type: input}
  - {lfn: x1.csv, type: input}
  - {lfn: other, type: input}
  - {lfn: made, type: output}
replicaCatalog:
  replicas:
  - lfn: a/b.txt
    pfns: [{site: s, pfn: "file:///d/1%20b"}, {site: s, pfn: rel/2}, {site: s, pfn: "https://h/3"}]
    checksum: {sha256: BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD}
  - {lfn: '.*\.csv|x1', pfns: [{site: s, pfn: "/never/[0]"}], regex: false}
  - {lfn: 'x([0-9])\.(csv|txt)', pfns: [{site: s, pfn: "/d/[2]/[1]/[0]/[7]"}], regex: true}
  - {lfn: '[a-z]', pfns: [{site: s, pfn: "/part"}], regex: true}
  - {lfn: '.*', pfns: [{site: s, pfn: "file:/all/[0]"}], regex: true}
`})
	w := sound(t, dir, trace.ReadOptions{})
	want := map[string][]string{
		"a/b.txt": {"/d/1%20b", "/d/1 b", filepath.Join(dir, "rel/2"), "https://h/3", "/all/a/b.txt"},
		"x1.csv":  {"/d/csv/1/x1.csv/[7]"}, "other": {"/all/other"}, "made": nil}
	for _, f := range w.Files {
		var got []string
		if f.Origin != nil {
			got = f.Origin.Locations
		}
		if !reflect.DeepEqual(got, want[f.Name]) {
			t.Errorf("%s: %q, want %q", f.Name, got, want[f.Name])
		}
	}
	if sum := w.Files[0].Origin.SHA256; !strings.HasPrefix(sum, "ba7816bf") {
		t.Errorf("checksum %q", sum)
	}
}

func TestCatalogsAreFound(t *testing.T) {
	replicas := func(path string) string {
		return "pegasus: \"5.0\"\nreplicas:\n- {lfn: in.txt, pfns: [{site: s, pfn: " + path + "}]}\n"
	}
	tc := "pegasus: \"5.0\"\n" + boxed
	for name, c := range map[string]struct {
		files    map[string]string // those in cwd/ are in the working directory
		catalogs []string
		location string
		image    string
	}{
		"beside the workflow": {files: map[string]string{"replicas.yml": replicas("/beside"), "transformations.yml": tc,
			"cwd/replicas.yml": replicas("/cwd")}, location: "/beside", image: "org/box:1"},
		"in the working directory": {files: map[string]string{"cwd/replicas.yml": replicas("/cwd"),
			"cwd/transformations.yml": tc}, location: "/cwd", image: "org/box:1"},
		"named by properties": {files: map[string]string{"pegasus.properties": "" +
			"pegasus.catalog.replica.file = c/rc.yml\n" +
			"pegasus.catalog.transformation: YAML\npegasus.catalog.transformation.file=c/tc.yml\n",
			"c/rc.yml": replicas("/properties"), "c/tc.yml": tc, "replicas.yml": replicas("/beside")},
			location: "/properties", image: "org/box:1"},
		"of type File": {files: map[string]string{"pegasus.properties": "pegasus.catalog.replica File\n" +
			"pegasus.catalog.replica.file rc.txt", "rc.txt": "# a comment\nin.txt \"/of file\" site=\"local\"\n"},
			location: "/of file"},
		"of type Regex": {files: map[string]string{"pegasus.properties": "pegasus.catalog.replica=Regex\n" +
			"pegasus.catalog.replica.file=rc.txt", "rc.txt": "(i.)\\.(t.t) file:///[2]/[1] site=local regex=true\n"},
			location: "/txt/in"},
		"by flag as text, beside catalogs of Pegasus 4": {files: map[string]string{"sites.xml": "<sitecatalog/>",
			"tc.txt": "# old\ntr p {site s{pfn \"/p\"}}", "mine": "\"in.txt\" file:///text site=local\n"},
			catalogs: []string{"mine"}, location: "/text"},
		"by flag": {files: map[string]string{"mine.yml": replicas("/mine"), "replicas.yml": replicas("/beside")},
			catalogs: []string{"mine.yml"}, location: "/mine"},
	} {
		t.Run(name, func(t *testing.T) {
			c.files["w.yml"], c.files["cwd/x"] = oneJob, ""
			dir := files(t, c.files)
			t.Chdir(filepath.Join(dir, "cwd"))
			for i := range c.catalogs {
				c.catalogs[i] = filepath.Join(dir, c.catalogs[i])
			}
			w := sound(t, dir, trace.ReadOptions{Catalogs: c.catalogs})
			if got := w.Files[0].Origin; got == nil || got.Locations[0] != c.location || len(got.Locations) != 1 ||
				w.Tasks[0].Image != c.image {
				t.Errorf("locations %q, image %q; want %q, %q (%v)", got, w.Tasks[0].Image, c.location, c.image,
					w.Obstacles)
			}
		})
	}
}

func TestMalformedCatalogsAreErrors(t *testing.T) {
	for name, c := range map[string]struct{ file, text, want string }{
		"no YAML":    {"replicas.yml", "replicas: [", "replicas.yml:"},
		"other keys": {"replicas.yml", "a: 1\n", "none of the keys"},
		"a key misspelt": {"replicas.yml", "replicas:\n- {lfn: a, pfn: b}\n",
			"replicas.yml:2: a replica has the key \"pfn\""},
		"no pfns":         {"replicas.yml", "replicas:\n- {lfn: a}\n", "no pfns"},
		"a list expected": {"replicas.yml", "replicas: {lfn: a}\n", "replicas.yml:1"},
		"a regex": {"replicas.yml", "replicas:\n- {lfn: '(', regex: true, pfns: []}\n",
			"replicas.yml:2: regex"},
		"a checksum": {"replicas.yml", "replicas:\n- {lfn: a, pfns: [], checksum: {md5: 1}}\n", "not md5"},
		"a short checksum": {"replicas.yml", "replicas:\n- {lfn: a, pfns: [], checksum: {sha256: ab}}\n",
			"64 hexadecimal"},
		"two containers": {"transformations.yml", boxed + "- {name: box, type: docker, image: 'docker:///x'}\n",
			"two containers"},
		"no image": {"transformations.yml", "transformations: []\ncontainers:\n- {name: box, type: docker}\n",
			"no image"},
		"a strange type": {"transformations.yml", "transformations: []\ncontainers:\n- {name: b, type: vm, image: i}\n",
			"type \"vm\""},
		"no program": {"transformations.yml", "transformations:\n- {name: p, sites: [{name: s, type: installed}]}\n",
			"without pfn"},
		"no sites": {"transformations.yml", "transformations:\n- {name: p}\n", "no sites"},
		"a mount": {"transformations.yml", "transformations: []\ncontainers:\n" +
			"- {name: b, type: docker, image: i, mounts: [data]}\n",
			"HOST:CONTAINER"},
		"a property": {"pegasus.properties", "= 1\n", "pegasus.properties:1"},
		"a last line that continues": {"pegasus.properties", "pegasus.catalog.replica.file=gone.yml\\",
			"gone.yml: there is no such file"},
		"a missing catalog": {"pegasus.properties", "pegasus.catalog.replica.file=none.yml\n",
			"none.yml: there is no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			_, faults := open(t, files(t, map[string]string{"w.yml": oneJob, c.file: c.text}), trace.ReadOptions{})
			if !slices.ContainsFunc(faults, func(f trace.Fault) bool {
				return f.Severity == trace.Error && strings.Contains(f.Message, c.want)
			}) {
				t.Errorf("no error with %q: %v", c.want, faults)
			}
		})
	}
}

// A catalog of Pegasus 4 that is named is an error, with the way on. One that only lies there is told of.
func TestCatalogsOfPegasus4NameTheirConverter(t *testing.T) {
	for name, c := range map[string]struct{ text, says string }{
		"sites.xml": {"<?xml version='1.0'?>\n<sitecatalog version='4.0'/>", "pegasus-sc-converter"},
		"tc.txt":    {"# old\ntr p {\n site s {", "pegasus-tc-converter"},
	} {
		dir := files(t, map[string]string{"w.yml": oneJob, name: c.text})
		for _, named := range []bool{false, true} {
			var o trace.ReadOptions
			if named {
				o.Catalogs = []string{filepath.Join(dir, name)}
			}
			_, faults := open(t, dir, o)
			if len(faults) == 0 || trace.HasErrors(faults) != named || !strings.Contains(faults[0].Message, c.says) {
				t.Errorf("%s, named %v: %v", name, named, faults)
			}
		}
	}
}

// What one host cannot do stops a run, and not a simulation.
func TestObstacles(t *testing.T) {
	with := func(job, catalog string) string {
		return "pegasus: \"5.0\"\nname: w\njobs:\n- {type: job, id: A, uses: [], " + job +
			"}\ntransformationCatalog:\n" + catalog
	}
	one := "  transformations:\n  - {name: p, sites: [{name: l, pfn: /p, type: installed}]}"
	box := "  transformations:\n  - {name: p, sites: [{name: local, pfn: /bin/p, type: installed, container: c}]}\n" +
		"  containers:\n  - {name: c, "
	for name, c := range map[string]struct{ text, want string }{
		"no transformation": {with("name: q, arguments: []", one),
			"no catalog has transformation q"},
		"another version": {with("name: p, version: '2', arguments: []", strings.Replace(one, "sites",
			"version: '1', sites", 1)),
			"transformation p:2"},
		"no name": {with("arguments: [a]", box+"type: docker, image: i}"),
			"it names no transformation"},
		"an open quote": {with("name: p, arguments: [\"'a\"]", box+"type: docker, image: i}"),
			"quote is not closed"},
		"command substitution": {with("name: p, arguments: ['$(id)']", box+"type: docker, image: i}"),
			"command substitution"},
		"a redirection": {with("name: p, arguments: ['a > b']", box+"type: docker, image: i}"),
			"outside of quotes"},
		"shifter": {with("name: p, arguments: []", box+"type: shifter, image: 'shifter:///i'}"),
			"shifter"},
		"singularity": {with("name: p, arguments: []", box+"type: singularity, image: 'library://i'}"),
			"library://i"},
		"an image to fetch": {with("name: p, arguments: []", box+"type: docker, image: 'http://h/i.tar'}"),
			"http://h/i.tar"},
		"no such container": {with("name: p, arguments: []", strings.Replace(one, "installed",
			"installed, container: z", 1)),
			"no catalog has container z"},
		"requires nothing": {with("name: p, arguments: []", strings.Replace(one, "sites",
			"requires: ['n::q:1'], sites", 1)),
			"n::q:1"},
		"an unset variable": {with("name: p, arguments: []", strings.Replace(one, "/p", "'${GANTRY_NO_SUCH}/p'", 1)),
			"GANTRY_NO_SUCH"},
	} {
		t.Run(name, func(t *testing.T) {
			w := sound(t, files(t, map[string]string{"w.yml": c.text + "\n"}), trace.ReadOptions{})
			if !slices.ContainsFunc(w.Obstacles, func(o string) bool { return strings.Contains(o, c.want) }) {
				t.Errorf("obstacles %q, want one with %q", w.Obstacles, c.want)
			}
		})
	}
}

func TestProgramsThatAreStaged(t *testing.T) {
	w := sound(t, files(t, map[string]string{"w.yml": `pegasus: "5.0"
name: w
jobs:
- {type: job, id: A, name: p, namespace: n, version: "1", arguments: [], uses: []}
- {type: job, id: B, name: p, namespace: n, version: "2", arguments: [],
  uses: [{lfn: q, type: input, executable: true}]}
transformationCatalog:
  transformations:
  - {name: p, namespace: n, version: "1", requires: [q, r], sites: [{name: l, pfn: bin/p1, type: stageable}]}
  - {name: p, namespace: n, version: "2",
    checksum: {sha256: ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad},
    sites: [{name: l, pfn: bin/p2, type: stageable}]}
  - {name: q, requires: [q], sites: [{name: l, pfn: "http://h/q", type: stageable}]}
  - {name: r, sites: [{name: l, pfn: /bin/r, type: installed}]}
`}), trace.ReadOptions{})
	staged := func(i int) (out []string) {
		for _, f := range w.Tasks[i].Inputs {
			out = append(out, w.Files[f].Program()+" "+filepath.Base(w.Files[f].Origin.Locations[0]))
		}
		slices.Sort(out)
		return out
	}
	for i, want := range [][]string{{"p p1", "q q"}, {"p p2", "q q"}} {
		if got := staged(i); !reflect.DeepEqual(got, want) || !reflect.DeepEqual(w.Tasks[i].Command, []string{"./p"}) {
			t.Errorf("task %s: %q, command %q; want %q", w.Tasks[i].ID, got, w.Tasks[i].Command, want)
		}
	}
	if w.Stats().Files != 0 {
		t.Errorf("programs count as %d files", w.Stats().Files)
	}
}

// The order of sources, the weakest first: properties, workflow, container, job, site, transformation.
func TestTheStrongestProfileCounts(t *testing.T) {
	w := sound(t, files(t, map[string]string{"w.yml": `pegasus: "5.0"
name: w
profiles: {env: {B: workflow, C: workflow, D: workflow, E: workflow, F: workflow}}
jobs:
- {type: job, id: A, name: p, arguments: [a], uses: [], profiles: {env: {D: job, E: job, F: job}, pegasus: {cores: 4}}}
transformationCatalog:
  transformations:
  - {name: p, profiles: {env: {F: " a  b "}, pegasus: {cores: 2}},
    sites: [{name: local, pfn: /p, type: installed, container: c}]}
  containers:
  - {name: c, type: docker, image: i, profiles: {env: {C: container, D: container, E: container, F: container}}}
siteCatalog: {sites: [{name: local, profiles: {env: {E: site, F: site}}}, {name: other, profiles: {env: {F: other}}}]}
`, "pegasus.properties": "env.A=properties\nenv.B=properties\nenv.C=properties\npegasus.cores=8\npegasus.memory=5\n" +
		"dagman.retry=2\npegasus.mode=development\n"}), trace.ReadOptions{})
	a := w.Tasks[0]
	want := []string{"A=properties", "B=workflow", "C=container", "D=job", "E=site", "F= a  b "}
	if !reflect.DeepEqual(a.Env, want) {
		t.Errorf("environment %q, want %q", a.Env, want)
	}
	if a.Cores != 2 || a.MemoryBytes != 5<<20 || a.Retries != 2 {
		t.Errorf("%+v", a)
	}
}

func TestWalltimesAreLimitsOnlyIfAsked(t *testing.T) {
	dir := files(t, map[string]string{"w.yml": strings.Replace(oneJob, "uses:",
		"profiles: {globus: {maxwalltime: 3, queue: q}, condor: {periodic_hold: x}}, uses:", 1)})
	w, faults := open(t, dir, trace.ReadOptions{})
	if w.Tasks[0].TimeLimit != 0 || len(faults) != 1 || !strings.HasSuffix(faults[0].Message,
		": condor.periodic_hold, globus.maxwalltime (--enforce-walltime), globus.queue") {
		t.Errorf("time limit %v, %v", w.Tasks[0].TimeLimit, faults)
	}
	if w = sound(t, dir, trace.ReadOptions{EnforceWalltime: true}); w.Tasks[0].TimeLimit.Minutes() != 3 {
		t.Errorf("time limit %v", w.Tasks[0].TimeLimit)
	}
}

func TestStageOutAndCheckpoints(t *testing.T) {
	w := sound(t, files(t, map[string]string{"w.yml": `pegasus: "5.0"
name: w
jobs:
- {type: job, id: A, name: p, arguments: [a], uses: [{lfn: yes, type: output, stageOut: true},
  {lfn: "no", type: output, stageOut: false}, {lfn: unsaid, type: output, optional: true}, {lfn: c, type: checkpoint}]}
`}), trace.ReadOptions{})
	for i, want := range []trace.File{{Name: "yes", Keep: trace.KeepAlways}, {Name: "no", Keep: trace.KeepNever},
		{Name: "unsaid", Optional: true}, {Name: "c", Checkpoint: true, Optional: true}} {
		if !reflect.DeepEqual(w.Files[i], want) {
			t.Errorf("%+v, want %+v", w.Files[i], want)
		}
	}
}

func TestDAXHasCatalogsToo(t *testing.T) {
	dir := files(t, map[string]string{"w.yml": `<adag version="3.6" name="w">
<file name="in.txt"><pfn url="file:///d/in.txt" site="local"/>
<metadata key="checksum.value">ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad</metadata></file>
<file name="cfg"><pfn url="/d/cfg" site="local"/></file>
<executable name="p" namespace="n" version="1" installed="false"><pfn url="file:///b/p" site="local"/></executable>
<executable name="q" installed="false"><pfn url="file:///b/q" site="local"/></executable>
<transformation name="p" namespace="n" version="1"><uses name="q" executable="true"/>
<uses name="cfg" executable="false"/></transformation>
<job id="A" name="p" namespace="n" version="1"><argument>-i <file name="in.txt"/></argument>
<uses name="in.txt" link="input"/><uses name="out" link="output" transfer="true" register="true"/></job></adag>
`})
	w := sound(t, dir, trace.ReadOptions{})
	var got []string
	for _, f := range w.Tasks[0].Inputs {
		got = append(got, w.Files[f].Name+" "+w.Files[f].Origin.Locations[0]+" "+w.Files[f].Program())
	}
	want := []string{"in.txt /d/in.txt ", "cfg /d/cfg ", "q /b/q q", "n::p:1 /b/p p"}
	if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(w.Tasks[0].Command, []string{"./p", "-i", "in.txt"}) {
		t.Errorf("%q, command %q; want %q", got, w.Tasks[0].Command, want)
	}
}
