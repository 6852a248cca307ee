package scenario_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gantry/trace"
	"gantry/trace/scenario"
)

func TestFilesAreCheckedByTheirKind(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"w.yaml": "name: day\nworkflows:\n- {trace: a.dax, copies: 3}\ncount: " +
		"2\nmix: [{generator: montage, tasks: 20}]\n",
		"c.yaml": "nodes: [{name: n, count: 2, cores: 4}]\n", "a.dax": "<adag><job id='a'/></adag>",
		"empty/notes": "none\n", "full/a.dax": "<adag><job id='a'/></adag>",
		"bad/b.dax": "<adag>\n<job id='a' runtime='-1'/></adag>"} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for _, c := range []struct{ text, kind, want string }{
		{"name: day\nworkflows:\n- {trace: a.dax, copies: 3}\ncount: 2\nmix: [{generator: montage, tasks: 20}]\n",
			"workload",
			"day workflows 3 listed stream 2 drawn, arrivals batch"},
		{"workflows:\n- {trace: a.dax}\n- {trace: b.dax, inputs: data}\n", "workload",
			"line 3: trace b.dax: there is no such file"},
		{"workflows:\n- {trace: a.dax}\n- {trace: empty}\n", "workload", "line 3: empty is a directory; name a file"},
		{"count: 2\nmix:\n- {trace: empty}\n", "workload", "line 3: empty: no workflow below this directory"},
		{"count: 2\nmix:\n- {trace: full}\n", "workload", "stream 2 drawn"},
		{"count: 2\nmix:\n- {trace: bad}\n", "workload", "line 3: bad/b.dax:2: task a has runtime -1 s"},
		{"name: lab\nnodes: [{name: n, count: 2, cores: 4}]\n", "cluster", "lab nodes 2 cores 8 in all"},
		{"nods: [{name: n}]\n", "cluster", `line 1: the cluster: unknown key "nods"; did you mean nodes?`},
		{"nodes: [{name: n}]\nlynks:\n- a\n", "cluster",
			`line 2: the cluster: unknown key "lynks"; did you mean links?`},
		{"{nodes: [{name: 'n, {', cores: 4}], # all\n  \"links\": []}\n", "cluster", "nodes 1 cores 4 in all"},
		{"workload: w.yaml\ncluster: c.yaml\nrepetitions: 4\nfactors: {policy: [heft, cpp]}\n", "experiment",
			"x runs 8 in all"},
		{"workload: w.yaml\ncluster: other.yaml\nfactors: {policy: heft}\n", "experiment",
			"line 2: cluster other.yaml: there is no such file"},
		{"workload: w.yaml\ncluster: c.yaml\nfactors: {policy: [heft, hefft]}\n", "experiment",
			"line 3: hefft is no policy"},
		{"workflow:\n- {trace: a}\n", "workload",
			`line 1: the workload: unknown key "workflow"; did you mean workflows?`},
		{"\ufeffnodes: [{name: n}]\n", "cluster", "nodes 1"},
		{"workload: w.yaml\ncluster: c.yaml\nfactors: {policy: heft, " + manyFactors() + "}\n", "experiment",
			"make 1e+10 runs, more than 10000000"},
		{"pegasus: '5.0'\njobs: []\n", "", ""},
		{`{"workflow": {"tasks": []}}`, "", ""},
		{"<adag/>", "", ""},
	} {
		kind := scenario.Kind([]byte(c.text))
		if kind != c.kind {
			t.Errorf("%.60q is of kind %q, want %q", c.text, kind, c.kind)
		}
		if kind == "" {
			continue
		}
		source := filepath.Join(dir, "x.yaml")
		about, err := scenario.Check(kind, strings.NewReader(c.text), source, trace.ReadOptions{},
			func(spec string) error {
				if spec == "hefft" {
					return errors.New("hefft is no policy")
				}
				return nil
			})
		got := strings.Join(strings.Fields(strings.Join(slices.Concat([]string{about.Name}, about.Lines), " ")), " ")
		if err != nil {
			got = strings.ReplaceAll(err.Error(), dir+"/", "")
			if wrong := new(scenario.FileError); !errors.As(err, &wrong) || len(wrong.Faults) == 0 {
				t.Errorf("%v has no faults", err)
			}
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%.60q: %q, want %q", c.text, got, c.want)
		}
	}
}

// manyFactors are ten factors of ten values.
func manyFactors() string {
	var all []string
	for i := range 10 {
		all = append(all, "workload.k"+string(rune('a'+i))+": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]")
	}
	return strings.Join(all, ", ")
}

func TestNamesOfCopiesAreTakenToo(t *testing.T) {
	for text, want := range map[string]string{
		"- {trace: a, name: m, copies: 3}\n- {trace: a, name: m-2}\n": "line 3: workflow name m-2 is " +
			"taken by the workflow on line 2",
		"- {trace: a, name: m-3}\n- {trace: a, name: m, copies: 3}\n": "line 3: workflow name m-3 is " +
			"taken by the workflow on line 2",
		"- {trace: a, name: m, copies: 2}\n- {trace: a, name: m, copies: 9}\n": "line 3: workflow name m-1 is " +
			"taken by the workflow on line 2",
		"- {trace: a, name: m, copies: 3}\n- {trace: a, name: m-4}\n":  "",
		"- {trace: a, name: m, copies: 3}\n- {trace: a, name: m}\n":    "",
		"- {trace: a, name: m, copies: 3}\n- {trace: a, name: m-02}\n": "",
		"- {trace: a, copies: 1000000}\n":                              "",
		"- {trace: a, copies: 1000000}\n- {trace: a, name: b}\n- {trace: a}\n": "line 3: more than 1000000 " +
			"workflows",
		"- {trace: a, name: m, copies: 3}\n- {trace: b, name: m-2, copies: 1000}\n": "",
	} {
		_, err := scenario.ReadWorkload(strings.NewReader("workflows:\n"+text), "w.yaml")
		if got := ""; err != nil {
			if got = strings.TrimPrefix(err.Error(), "workload w.yaml: "); got != want {
				t.Errorf("%q: %s, want %q", text, got, want)
			}
		} else if want != "" {
			t.Errorf("%q was taken, want %q", text, want)
		}
	}
}
