package policy_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"gantry/planner/plannertest"
	"gantry/planner/policy"
)

func TestParametersAreChecked(t *testing.T) {
	for _, spec := range []string{"gbf", "gbf:pick=first", "gbf:first", "owm:order=highest", "fwp:m=1000",
		"fwp:m=1", "wheft", "heft", "rm-dcwf", "rm-dcwf:ed-tl-tsp2",
		"rm-dcwf:config=pd-sl-tsp1,max_remap_attempts=0,contained", "fifo", "edf",
		"pipeline", "pipeline:lower-rank,easy,swf,limit=0,floor=1,copy=allocated,all-eft,sws",
		"owm-mp+swf+backfilling:copy=allocated", "owm-mp+preemptive+swf:limit=7"} {
		if _, err := policy.Parse(spec); err != nil {
			t.Errorf("%s: %v", spec, err)
		}
	}
	for spec, says := range map[string]string{
		"best":          "choose one of gbf",
		"hefty":         "did you mean heft?",
		"FDSW":          "did you mean fdws?",
		"owm:ordr=x":    "did you mean order?",
		"owm:higest":    "did you mean highest?",
		"owm:order=low": "choose one of lowest, highest",
		"gbf:pick=frst": "did you mean first?",
		"gbf:pick=last": "random, first",
		"gbf:choose=x":  "it has pick=random|first",
		"gbf:last":      "it has pick=random|first",
		"cpp:k=1":       "it has none",
		"fwp:m=0":       "1..1000000",
		"fwp:m=many":    "1..1000000",
		"fwp:m=1.5":     "1..1000000",
		"fwp:m=":        "1..1000000",
		"fwp:m=NaN":     "1..1000000",

		"heft:":         "a parameter is missing",
		"pipeline:sws,": "a parameter is missing",

		"capacity:shares=N/N/…": "choose one of equal, N/N/…",

		"pipeline:backfill":         "rearrange=none|easy|conservative|priority",
		"pipeline:queue=easy":       "rank-hybd, swf, fcfs",
		"pipeline:sws,cpws":         "prioritize is given twice, as sws and cpws",
		"pipeline:sws,limit=2":      "limit means something only with preempt=lower-rank",
		"pipeline:floor=0.1":        "floor means something only with preempt=lower-rank",
		"mows:limit=0.5":            "0..1000",
		"mows:sws":                  "it has copy=",
		"owm-mp+swf:limit=1":        "it has copy=",
		"owm-mp+swf+easy":           "choose one of",
		"owm-mp+swf+swf":            "choose one of",
		"mows+swf":                  "choose one of",
		"owm-mp+all-eft+swf:floor=": "it has copy=",
	} {
		if _, err := policy.Parse(spec); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error %v does not say %q", spec, err, says)
		}
	}
}

// Every value that the table offers can be chosen.
func TestEveryDefaultIsValid(t *testing.T) {
	for _, row := range policy.Table() {
		for _, p := range row.Params {
			if err := p.Check(p.Values[0]); err != nil {
				t.Errorf("%s: %v", row.Name, err)
			}
		}
		if _, err := policy.Parse(row.Name); err != nil {
			t.Error(err)
		}
	}
}

// README.md has a line for each policy.
func TestTheReadmeHasALineForEachPolicy(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	must(t, err)
	for _, row := range policy.Table() {
		if strings.Count(string(text), "\n| `"+row.Name+"` | ") != 1 {
			t.Errorf("README.md has no line, or several, for policy %s", row.Name)
		}
	}
	if want := fmt.Sprintf("| %d to choose from, ", len(policy.Table())); !strings.Contains(string(text), want) {
		t.Errorf("README.md does not say %q", want)
	}
}

// A server that is handed each job of a graph once it is ready, with its tail, ranks ready jobs as one that has the
// whole graph. Policies that plan ahead decide otherwise: they keep the wide node for b, which comes after a.
func TestTailsRankReadyTasksAndWholeGraphsAreForPlans(t *testing.T) {
	const nodes = "nodes 1 2\nscale 10\n"
	for name, want := range map[string][2]string{
		"cpp":  {"n0 a\nn1 ccbbb\n..bbb", "n0 a\nn1 ccbbb\n..bbb"},
		"hr":   {"n0 a\nn1 ccbbb\n..bbb", "n0 a\nn1 ccbbb\n..bbb"},
		"heft": {"n0 acc\nn1 .bbb\n.bbb", "n0 a\nn1 ccbbb\n..bbb"},
	} {
		for k, flows := range []string{"W a=10 b=30x2 a>b c=20", "W a=10 c=20\nX @10 b=30x2"} {
			s, err := plannertest.Parse(nodes + flows)
			must(t, err)
			if k == 1 {
				s.Flows[0].Tasks[0].Tail = 30 * time.Second
			}
			pol, err := policy.Parse(name)
			must(t, err)
			s.Bench(t, pol).RunAll().Want(want[k])
		}
	}
}

// must ends a test at an error that it does not look for.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
