package examples_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gantry/trace"
)

func TestExamplesReadWithoutAnyFault(t *testing.T) {
	for _, c := range []struct {
		file         string
		tasks, edges int
		commands     bool
	}{
		{"montage/montage-25.dax", 25, 51, false},
		{"words/words.json", 9, 12, true},
		{"heft/heft.json", 10, 15, false},
		{"predict/pieces.json", 13, 12, true},
	} {
		t.Run(c.file, func(t *testing.T) {
			w, faults, err := trace.Open(filepath.FromSlash(c.file), trace.ReadOptions{})
			if err != nil || len(faults) > 0 {
				t.Fatalf("%v %+v", err, faults)
			}
			edges := 0
			for _, x := range w.Tasks {
				edges += len(x.Parents)
				if x.Known.Has(trace.Command) != c.commands || x.Known.Has(trace.Image) != c.commands {
					t.Errorf("task %s: command %v, image %q", x.ID, x.Command, x.Image)
				}
				if !x.Known.Has(trace.Runtime | trace.Memory) {
					t.Errorf("task %s lacks numbers", x.ID)
				}
			}
			if len(w.Tasks) != c.tasks || edges != c.edges {
				t.Errorf("%d tasks and %d edges", len(w.Tasks), edges)
			}
		})
	}
}

func TestWorkflowsAreAsTheirGeneratorsWriteThem(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs Python")
	}
	for _, name := range []string{"mosaic", "variants", "pipeline"} {
		dir := t.TempDir()
		for _, file := range []string{"pegasus.py", filepath.Join(name, "generate.py")} {
			text, err := os.ReadFile(file)
			must(t, err)
			to := filepath.Join(dir, file)
			must(t, errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, text, 0o644)))
		}
		generate := exec.Command(python, "-B", filepath.Join(dir, name, "generate.py"))
		if out, err := generate.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		want, err1 := os.ReadFile(filepath.Join(name, "workflow.yml"))
		got, err2 := os.ReadFile(filepath.Join(dir, name, "workflow.yml"))
		if err1 != nil || err2 != nil || string(got) != string(want) {
			t.Errorf("%s/workflow.yml is not what generate.py writes: run it", name)
		}
	}
}

func TestInputsOfWordsHaveTheSizesItSays(t *testing.T) {
	w, _, err := trace.Open("words/words.json", trace.ReadOptions{})
	must(t, err)
	for _, f := range w.Files {
		if f.Producer >= 0 {
			continue
		}
		st, err := os.Stat(filepath.Join("words", "inputs", f.Name))
		if err != nil || !f.Sized || st.Size() != f.Size {
			t.Errorf("%s: said to have %d bytes: %v, %v", f.Name, f.Size, st, err)
		}
	}
}

// The plugin orders jobs by upward rank, and says what comes after each.
func TestTheSchedulerPluginOfSnakemake(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs Python")
	}
	if out, err := exec.Command(python, "-B", "snakemake/plugin/test_plugin.py").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// The Python module of examples/notebook: the block of its page, and what fails.
func TestTheNotebookModule(t *testing.T) {
	for _, needs := range []string{"python3", "../bin/gantry"} {
		if _, err := exec.LookPath(needs); err != nil {
			t.Skipf("needs %s: %v", needs, err)
		}
	}
	page, err := os.ReadFile("notebook/README.md")
	must(t, err)
	_, block, _ := strings.Cut(string(page), "```sh\n")
	block, _, _ = strings.Cut(block, "```")
	here, err := os.Getwd()
	must(t, err)
	dir := t.TempDir()
	must(t, os.Symlink(here, filepath.Join(dir, "examples")))
	shell := func(script string) string {
		t.Helper()
		cmd := exec.Command("sh", "-ec", script)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GANTRY="+filepath.Join(here, "../bin/gantry"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	if out := shell(block); !strings.Contains(out, "heft 80.0 ") || strings.Count(out, "\n") != 6 {
		t.Errorf("the block prints\n%s", out)
	}
	if out := shell(`PYTHONPATH=examples/notebook python3 -c '
import gantry
try:
    gantry.simulate("-none.json", dir="runs")
except gantry.Failure as e:
    print(e.code, e)'`); !strings.HasPrefix(out, "3 ") || !strings.Contains(out, "./-none.json: no such file") {
		t.Errorf("a file that is not there: %s", out)
	}
}

// must ends a test at an error that it does not look for.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
