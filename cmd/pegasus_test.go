package cmd

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// One run shows what catalogs, profiles and jobs of Pegasus mean in containers.
func TestAPegasusWorkflowRunsAsItComes(t *testing.T) {
	beside(t)
	needsBusybox(t)
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			http.Error(w, "busy", http.StatusServiceUnavailable) // gantry asks again
			return
		}
		_, _ = w.Write([]byte("abc"))
	}))
	defer server.Close()
	dir := writeFiles(t, map[string]string{
		"sort.sh": "#!/bin/sh\n./by \"$1\" >\"$2\"\necho \"$WHO $LEVEL\" >env.txt\n",
		"by.sh":   "#!/bin/sh\nexec sort -n <\"$1\"\n",
		"n.csv":   "3\n1\n2\n", "ref": "reference\n",
		"w.yml": `pegasus: 5.0.4
name: w
replicaCatalog:
  replicas:
  - {lfn: web/abc, pfns: [{site: s, pfn: "ftp://h/abc"}, {site: s, pfn: none},
     {site: s, pfn: "` + server.URL + `/abc"}],
     checksum: {sha256: ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad}}
  - {lfn: 'in/(.)\.(csv)', pfns: [{site: s, pfn: "[1].[2]"}], regex: true}
transformationCatalog:
  transformations:
  - name: sort
    requires: [by]
    profiles: {env: {LEVEL: transformation}}
    sites: [{name: local, pfn: sort.sh, type: stageable, container: box}]
  - {name: by, sites: [{name: local, pfn: by.sh, type: stageable}]}
  - {name: sh, sites: [{name: local, pfn: /bin/sh, type: installed, container: box}]}
  - {name: cat, sites: [{name: local, pfn: /bin/cat, type: installed, container: mounted}]}
  containers:
  - {name: box, type: docker, image: "docker:///gantry/busybox", profiles: {env: {WHO: container, LEVEL: container}}}
  - {name: mounted, type: singularity, image: "docker://gantry/busybox", mounts: ["` + "DIR" + `:/data:rw"]}
jobs:
- type: job
  id: sort
  name: sort
  arguments: [in/n.csv, sorted.txt]
  uses: [{lfn: in/n.csv, type: input}, {lfn: nowhere, type: input, optional: true},
    {lfn: sorted.txt, type: output, stageOut: true},
    {lfn: env.txt, type: output, stageOut: true}]
  profiles: {env: {WHO: job}}
- type: job
  id: words
  name: sh
  arguments: [-c, "'printf \"<%s>\" \"$@\"'", x, "'a b'", $N "$N", '"\$N"', s*.txt, '${NONE:-c}']
  stdout: words.txt
  uses: [{lfn: sorted.txt, type: input}, {lfn: words.txt, type: output, stageOut: true},
    {lfn: left.txt, type: output, optional: true}]
  profiles: {env: {N: "1 2"}}
- type: job
  id: again
  name: sh
  arguments: [-c, "'echo try >>c.txt; cat - c.txt >again.txt; test $(wc -l <c.txt) = 2'"]
  stdin: web/abc
  uses: [{lfn: web/abc, type: input}, {lfn: c.txt, type: checkpoint, stageOut: false},
    {lfn: again.txt, type: output, stageOut: true}]
  profiles: {dagman: {retry: 1}}
- type: job
  id: mount
  name: cat
  arguments: [again.txt, /data/ref]
  stdout: mount.txt
  uses: [{lfn: again.txt, type: input}, {lfn: mount.txt, type: output, stageOut: false}]
`})
	path := filepath.Join(dir, "w.yml")
	text, err := os.ReadFile(path)
	must(t, err)
	text = []byte(strings.ReplaceAll(string(text), "DIR:/data", dir+":/data"))
	text = []byte(strings.Replace(string(text), `$N "$N", `, `'$N', '"$N"', `, 1))
	must(t, os.WriteFile(path, text, 0o644))
	home := "--dir=" + filepath.Join(dir, "runs")
	expect(t, exitOK, []string{filepath.Join(dir, "n.csv"), filepath.Join(dir, "by.sh"), server.URL, dir + ":/data"},
		"check", path)
	expect(t, exitInput, []string{dir + ":/data", "--container-mounts"}, "run", home, path)
	if asked.Load() != 0 {
		t.Error("a refused run asked the server")
	}
	expect(t, exitOK, nil, "run", home, "--name", "p", "--container-mounts", path)
	results := filepath.Join(dir, "runs", "p", "results", "w")
	for name, want := range map[string]string{"sorted.txt": "1\n2\n3\n", "env.txt": "job transformation\n",
		"words.txt": "<a b><1><2><1 2><$N><sorted.txt><c>", "again.txt": "abctry\ntry\n"} {
		if got, err := os.ReadFile(filepath.Join(results, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
	for _, name := range []string{"c.txt", "mount.txt", "left.txt"} {
		if _, err := os.Stat(filepath.Join(results, name)); err == nil {
			t.Errorf("%s is among the results", name)
		}
	}
	if asked.Load() != 2 {
		t.Errorf("the server was asked %d times, want once more after a failure", asked.Load())
	}
	// Nothing starts where a checksum or a file is wrong.
	cliTest{t, dir}.write("none", "abd")
	server.Close()
	expect(t, exitInput, []string{"gantry fetches http and https, and not ftp", "its SHA-256 is", "cannot be fetched"},
		"run", home, "--name", "q", "--container-mounts", path)
	if _, err := os.Stat(filepath.Join(dir, "runs", "q")); err == nil {
		t.Error("a refused run left a directory")
	}
}

// A corrected workflow is read as gantry run reads it: with the catalogs beside it, and those given.
func TestAContinuedRunReadsCatalogs(t *testing.T) {
	beside(t)
	needsCheap(t)
	const flow = "pegasus: 5.0.4\nname: w\njobs:\n" +
		"- {type: job, id: a, name: say, arguments: [one], stdout: a.txt, uses: [{lfn: a.txt, type: output}]}\n" +
		"- {type: job, id: b, name: show, arguments: [a.txt], stdout: b.txt, uses: [{lfn: a.txt, type: input}, " +
		"{lfn: b.txt, type: output, stageOut: true}]}\n"
	programs := func(show string) string {
		return "transformations:\n" +
			"- {name: say, sites: [{name: local, pfn: /bin/echo, type: installed, container: box}]}\n" +
			"- {name: show, sites: [{name: local, pfn: " + show + ", type: installed, container: box}]}\n" +
			"containers: [{name: box, type: docker, image: 'docker:///gantry/busybox'}]\n"
	}
	c := cliTest{t, t.TempDir()}
	for name, text := range map[string]string{"old/w.yml": flow, "old/transformations.yml": programs("/bin/false"),
		"new/w.yml": flow, "new/transformations.yml": programs("/bin/cat"), "wc.yml": programs("/usr/bin/wc")} {
		c.write(name, text)
	}
	at := func(name string) string { return filepath.Join(c.dir, name) }
	c.gantry(exitTasksFailed, "run", "-q", "--name", "r", at("old/w.yml"))
	c.gantry(exitUsage, "resume", "--site", "local", "r")
	c.gantry(exitOK, "resume", "--with", at("new/w.yml"), "r")
	if got := c.read("r/results/w/b.txt"); got != "one\n" {
		t.Errorf("with the catalog beside it the result is %q", got)
	}
	_, errs := c.gantry(exitOK, "resume", "--with", at("old/w.yml"), "--catalog", at("wc.yml"), "r")
	got := c.read("r/results/w/b.txt")
	if !strings.Contains(got, " 1 ") || !strings.Contains(errs, "1 task kept, 1 to run") {
		t.Errorf("with a catalog that is named the result is %q\n%s", got, errs)
	}
}
