package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gantry/sqlite/report/study"
)

// The suite runs every experiment that a page rests on, its cost is known, and its files can be read.
func TestTheSuiteHasTheExperimentsOfAllPages(t *testing.T) {
	t.Chdir("../..")
	for _, r := range []*runner{{examples: "examples/experiments"}, {examples: "examples/experiments", quick: true},
		{examples: "examples/containers"}, {examples: "examples/containers", quick: true}} {
		r.dir = t.TempDir()
		if err := r.read(); err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for i := range r.Experiments {
			x := &r.Experiments[i]
			n, err := r.wanted(x)
			if err != nil || n < 1 || x.Seconds <= 0 {
				t.Errorf("%s: %d repetitions of %v s, %v", x.File, n, x.Seconds, err)
			}
			sum += r.cost(x, n, n)
		}
		if r.quick {
			if sum > 16*60 { // of 20 that two cores have in 10 minutes
				t.Errorf("the quick variant takes %v s of CPU time, too much for 10 minutes on two cores", sum)
			}
			continue
		}
		for _, paper := range r.Papers {
			s, err := study.Read(filepath.Join(r.examples, paper, "study.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range s.Experiments {
				file := filepath.Join(paper, x.File)
				for _, reading := range append(x.Readings, "") {
					if !slices.ContainsFunc(r.Experiments, func(y runnable) bool {
						return y.File == file && y.Reading == reading
					}) {
						t.Errorf("%s: the suite lacks %s, reading %q", paper, file, reading)
					}
				}
			}
		}
	}
}

// The image for reviewers needs no network, no user of its own and no file that can be written but those in /out.
func TestTheImageWritesThePage(t *testing.T) {
	if testing.Short() {
		t.Skip("builds gantry again, linked statically")
	}
	if out, err := exec.Command("docker", "version").CombinedOutput(); err != nil {
		t.Skipf("needs a Docker Engine: %v %s", err, out)
	}
	t.Chdir("../..")
	suite, out := filepath.Join(t.TempDir(), "reproduce.yaml"), t.TempDir()
	if err := errors.Join(os.Chmod(out, 0o777), os.WriteFile(suite, []byte(`papers: [.]
experiments: [{file: fig1-2.yaml, seconds: 3, quick: 2}]`), 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"make", "reproduce-image"}, {"docker", "run", "--network", "none", "--rm",
		"--read-only", "--user", "65534:65534", "--volume", out + ":/out",
		"--volume", suite + ":/examples/experiments/reproduce.yaml:ro", "gantry/reproduce"}} {
		if text, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, text)
		}
	}
	page, err := os.ReadFile(filepath.Join(out, "page.html"))
	if err != nil || !bytes.Contains(page, []byte("CCGrid 2018")) {
		t.Errorf("page of %d bytes, %v", len(page), err)
	}
}

func TestFiguresAreFound(t *testing.T) {
	for _, c := range []struct {
		text, n string
		want    bool
	}{
		{"figures 3, 4: homogeneous system, errors", "4", true}, {"figures 3, 4: homogeneous", "5", false},
		{"figures 9 to 13: TeraSort", "11", true}, {"figures 9 to 13: TeraSort", "14", false},
		{"figures 5-1, 5-2, 5-5 to 5-7, 5-10 to 5-12", "5-6", true}, {"figures 5-1, 5-2, 5-5 to 5-7", "5-3", false},
		{"figures 5-1, 5-2", "1", false}, {"figure 18, table 10: against MRCP-RM", "t10", true},
		{"figure 18, table 10: against MRCP-RM", "10", false}, {"figure 18, table 10: against MRCP-RM", "18", true},
		{"tables 2, 3: LIGO and Genome", "t3", true}, {"figure 8: a batch of 1,000", "1", false},
		{"section V-D: random error II in a batch", "5", false}, {"figures 3a, 4a, 9: FWP", "4", true},
		{"figures 3a, 4a, 9: FWP", "9", true}, {"figure 7: WHEFT", "7b", true}, {"figure 7: WHEFT", "7e", false},
		{"figure 7: WHEFT", "", false}, {"figures 5-1, 5-2", "5-", false}, {"figure 7: WHEFT", "seven", false},
	} {
		if got := shows(c.text, c.n); got != c.want {
			t.Errorf("%q shows %s: %v", c.text, c.n, got)
		}
	}
}

// make figure has an experiment for each figure and table of results of the papers, of quick experiments, too.
func TestEveryFigureOfResultsCanBeMade(t *testing.T) {
	t.Chdir("../..")
	for _, c := range []struct {
		paper, number string
		from, to      int
	}{{"ccgrid", "%d", 1, 9}, {"rm-dcwf", "%d", 6, 18}, {"rm-dcwf", "t%d", 2, 10}, {"mows", "5-%d", 1, 24},
		{"3dsf", "%d", 9, 28}} {
		for n := c.from; n <= c.to; n++ {
			r := &runner{examples: "examples/experiments", quick: true, dir: t.TempDir()}
			if err := r.read(); err != nil {
				t.Fatal(err)
			}
			err := r.choose(c.paper, fmt.Sprintf(c.number, n))
			if err != nil || len(r.Experiments) == 0 {
				t.Errorf("%s: %d experiments, %v", c.paper, len(r.Experiments), err)
			}
		}
	}
	for number, paper := range map[string]string{"7": "none", "99": "ccgrid", "": "mows", "1": "rm-dcwf"} {
		r := &runner{examples: "examples/experiments", suite: suite{Papers: []string{".", "rm-dcwf", "mows"}}}
		if err := r.choose(paper, number); err == nil {
			t.Errorf("figure %q of %s is there", number, paper)
		}
	}
}

// A file with a slip is refused before anything runs.
func TestSlipsAreFoundBeforeTheRuns(t *testing.T) {
	for _, c := range [][3]string{{"papers: [.]", "short: S\nexperiments: [{name: x}]", "<nil>"},
		{"paper: [.]", "", `line 1: unknown key "paper"`}, {"papers: [none]", "", "none/study.yaml: no such file"},
		{"papers: [.]", "short: S\nexperimants: [{name: x}]", `line 2: unknown key "experimants"`}} {
		r := &runner{examples: t.TempDir(), dir: t.TempDir()}
		if err := errors.Join(os.WriteFile(filepath.Join(r.examples, "reproduce.yaml"), []byte(c[0]), 0o644),
			os.WriteFile(filepath.Join(r.examples, "study.yaml"), []byte(c[1]), 0o644)); err != nil {
			t.Fatal(err)
		}
		if err := r.read(); !strings.Contains(fmt.Sprint(err), c[2]) {
			t.Errorf("%s, %s: %v, want %s", c[0], c[1], err, c[2])
		}
	}
}

// The appendix for reviewers names code and tests that are there.
func TestTheAppendixNamesWhatIsThere(t *testing.T) {
	t.Chdir("../..")
	text, err := os.ReadFile("examples/experiments/ARTEFACT.md")
	if err != nil {
		t.Fatal(err)
	}
	var tests bytes.Buffer
	err = filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		switch {
		case path == "gantry-runs": // of anybody, and changing
			return fs.SkipDir
		case err != nil || !strings.HasSuffix(path, "_test.go"):
			return err
		}
		source, err := os.ReadFile(path)
		tests.Write(source)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "## Where things are")
	table, _, _ = strings.Cut(table, "\n## ")
	names := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(table, -1)
	if len(names) < 100 {
		t.Errorf("only %d names", len(names))
	}
	for _, m := range names {
		switch name := m[1]; {
		case strings.HasPrefix(name, "Test"):
			if !bytes.Contains(tests.Bytes(), []byte("\nfunc "+name+"(")) {
				t.Errorf("there is no %s", name)
			}
		case strings.Contains(name, "/"):
			if _, err := os.Stat(name); err != nil {
				t.Error(err)
			}
		}
	}
}
