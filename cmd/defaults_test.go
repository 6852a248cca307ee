package cmd

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
)

// A folder sets defaults of options, which the command line overrules; it cannot show programs more of the host.
func TestAFolderHasDefaults(t *testing.T) {
	dir := writeFiles(t, map[string]string{"Makeflow": "a:\n\techo a >a\nb: a\n\tcat a >b\n", "one.dax": oneTask,
		"list": "echo a\n"})
	t.Chdir(dir)
	set := func(text string) {
		t.Helper()
		must(t, os.WriteFile(defaultsFile, []byte(text), 0o644))
	}
	dry := []string{"run", "--dry-run", "--runtime", "null", "--dir", t.TempDir()}
	set("image: some/image\npolicy: heft\nretry: [exit-code=1, lost=2]\nreuse: true\nresults: b\n")
	code, out, errs := invoke(t, append(dry, "Makeflow")...)
	if code != exitOK || !strings.Contains(out, "policy heft") || !strings.Contains(errs,
		"options of gantry.yaml: image, policy, retry, reuse, results") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	expect(t, exitOK, []string{"policy cpp"}, append(dry, "-p", "cpp", "Makeflow")...)
	set("image: some/image\npolicy: heft\nresults: ['*.vcf']\n") // which no task writes
	expect(t, exitOK, []string{"policy heft"}, "map", "--dry-run", "--runtime", "null", "--dir", t.TempDir(),
		"--commands", "list")
	set("image: some/image\npolicy: heft\nreuse: true\n")
	expect(t, exitOK, []string{"policy heft"}, append(dry, "one.dax")...) // in which image and reuse have no effect
	for text, want := range map[string]string{
		"image: x\nmount: /:/host:ro\n": "gantry.yaml:2: mount is no option that a file may set",
		"policy: exec:./mine\n":         "gantry.yaml:1: policy: this one is a program of this host",
		"image: host\n":                 "gantry.yaml:1: image: host shows programs of this host",
		"secret: A\n":                   "gantry.yaml:1: secret is no option",
		"on-end: touch x\n":             "gantry.yaml:1: on-end is no option",
		"inputs: /root\n":               "gantry.yaml:1: inputs is no option",
		"\n\npolicie: heft\n": "gantry.yaml:3: policie is no option that a file may set: give it on the " +
			"command line; did you mean policy?",
		"retries: many\n":                    `gantry.yaml:1: retries: "many" cannot be its value`,
		"reuse: [true]\n":                    "gantry.yaml:1: reuse has one value, not a list",
		"results-dir: ../out\n":              "gantry.yaml:1: results-dir: name a directory in this one",
		"results-dir: link\n":                "gantry.yaml:1: results-dir: name a directory in this one",
		"image: {a: b}\n":                    "gantry.yaml:1: a text or number should be here",
		"[]":                                 "gantry.yaml:1: the file should be a mapping",
		strings.Repeat("# long\n", 20_000):   "gantry.yaml: it has more than 65536 bytes",
		"image: &a [*a]\npolicy: \xff\xfe\n": "gantry.yaml:2: not YAML",
	} {
		_ = os.Symlink("/etc", "link")
		set(text)
		expect(t, exitInput, []string{want}, append(dry, "Makeflow")...)
	}
	must(t, errors.Join(os.Remove(defaultsFile), syscall.Mkfifo(defaultsFile, 0o644)))
	expect(t, exitInput, []string{"gantry.yaml: it is no ordinary file"}, append(dry, "Makeflow")...)
	must(t, os.Remove(defaultsFile))
	set("")
	expect(t, exitOK, []string{"policy cpp"}, append(dry, "Makeflow")...)
	must(t, os.Remove(defaultsFile))
	t.Setenv(reuseVariable, "maybe")
	expect(t, exitUsage, []string{"GANTRY_REUSE=maybe: give 1 or 0"}, append(dry, "one.dax")...)
	t.Setenv(reuseVariable, "1")
	expect(t, exitOK, nil, append(dry, "one.dax")...)
}

// A dry run foresees exactly which tasks take over results, and changes nothing; so does the prediction of the run.
func TestADryRunForeseesReuse(t *testing.T) {
	needsBusybox(t)
	c := cliTest{t, t.TempDir()}
	c.write("in", "1\n")
	first := func(b string) string {
		return shellFlow(t, c.dir+"/flow.json", shellTask{"a", "in", "a", "cat in >a"}, shellTask{"b", "a", "b", b},
			shellTask{"c", "a", "c", "cat a >c"}, shellTask{"d", "b c", "d", "cat b c >d"})
	}
	flow := first("cat a >b")
	t.Setenv(reuseVariable, "1")
	c.gantry(exitOK, "run", "--name", "one", flow)
	before := c.read("gantry.sqlite")
	for _, step := range []struct {
		change func()
		runs   []string // with their reasons
	}{
		{func() {}, nil},
		{func() { first("cat a a >b") }, []string{"run     flow/b (compared with run one: its command changed",
			"run     flow/d (its input b is made anew): "}},
		{func() { c.write("in", "2\n") }, []string{"flow/a (compared with run one: its input in changed): ",
			"flow/b (its input a is made anew)", "flow/c (", "flow/d ("}},
	} {
		step.change()
		out, _ := c.gantry(exitOK, "run", "--dry-run", "--inputs", c.dir, flow)
		for _, want := range step.runs {
			if !strings.Contains(out, want) {
				t.Errorf("the dry run lacks %q:\n%s", want, out)
			}
		}
		if n := strings.Count(out, "reused  flow/"); n != 4-len(step.runs) {
			t.Errorf("%d tasks would be reused, not %d:\n%s", n, 4-len(step.runs), out)
		}
	}
	if c.read("gantry.sqlite") != before {
		t.Error("a dry run changed the log")
	}
	first("cat a >b")
	c.write("in", "1\n")
	_, errs := c.gantry(exitOK, "run", "--name", "two", flow)
	if !strings.Contains(errs, "expected makespan about 0 ms") {
		t.Errorf("the prediction knows nothing of reuse:\n%s", errs)
	}
}
