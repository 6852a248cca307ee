package cmd

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// A long task of low priority, and an urgent one that cannot wait for it, on one core: in each way the log, show and
// explain tell what was done, the replay repeats it, and a program that may not be restarted is frozen.
func TestPreemptionIsToldAndReplayed(t *testing.T) {
	trace := func(name string, runtime int) string {
		return wfOf(fmt.Sprintf(`{"name": %q, "runtime": %d, "memoryInBytes": 100000000}`, name, runtime))
	}
	dir := writeFiles(t, map[string]string{"long.json": trace("long", 100), "urgent.json": trace("urgent", 10),
		"c.yaml": "nodes: [{name: n, cores: 1, memory: 1GB}]\n",
		"w.yaml": "workflows:\n  - {trace: long.json, class: low}\n  - {trace: urgent.json, arrive: 20s, class: " +
			"deadline, deadline: 45s}\n"})
	for _, c := range []struct {
		name  string
		flags []string
		how   string
		lost  float64
		end   float64
		says  string
	}{
		{"checkpoint", []string{"--policy=pds:room=leave", "--checkpoint=1MB"}, "checkpoint", 0, 110,
			"20.0 % of the task is kept"},
		{"freeze", []string{"--policy=pds:room=suspend"}, "freeze", 0, 110, "frozen on n: nothing is lost"},
		{"only-freeze", []string{"--policy=pds:room=leave", "--checkpoint=none"}, "freeze", 0, 110,
			"frozen on n: nothing is lost"},
		{"restart", []string{"--policy=pds:room=leave", "--checkpoint=none", "--preempt=restart"}, "restart", 20, 130,
			"20.00 s of work is lost"},
	} {
		t.Run(c.name, func(t *testing.T) {
			home := "--dir=" + filepath.Join(t.TempDir(), "runs")
			do := func(args ...string) string {
				t.Helper()
				return expect(t, exitOK, nil, append(args, home)...)
			}
			do(append([]string{"simulate", "--name=first", "--cluster=" + filepath.Join(dir, "c.yaml"),
				filepath.Join(dir, "w.yaml")}, c.flags...)...)
			do("simulate", "--name=again", "--replay=first")
			for _, run := range []string{"first", "again"} {
				var s struct {
					Makespan    float64 `json:"makespan_s"`
					Lost        float64 `json:"lost_s"`
					Preemptions []struct {
						How   string  `json:"how"`
						Count int     `json:"count"`
						Away  float64 `json:"away_s"`
						Lost  float64 `json:"lost_s"`
					} `json:"preemptions"`
				}
				must(t, json.Unmarshal([]byte(do("show", "--json", run)), &s))
				if s.Makespan != c.end || s.Lost != c.lost || len(s.Preemptions) != 1 ||
					s.Preemptions[0].How != c.how || s.Preemptions[0].Count != 1 ||
					s.Preemptions[0].Lost != c.lost || s.Preemptions[0].Away != 10 {
					t.Errorf("%s: %+v", run, s)
				}
				if text := do("explain", run, "long"); !strings.Contains(text, c.says) ||
					!strings.Contains(text, "preempts it") {
					t.Errorf("%s: explain says\n%s", run, text)
				}
				if text := do("show", run); !strings.Contains(text,
					"1 preemption by "+c.how+" of 1 task, away for 10.00 s") {
					t.Errorf("%s: show says\n%s", run, text)
				}
			}
			var flow struct {
				Workflow struct {
					Execution struct {
						Tasks []struct {
							Runtime float64 `json:"runtimeInSeconds"`
						} `json:"tasks"`
					} `json:"execution"`
				} `json:"workflow"`
			}
			must(t, json.Unmarshal([]byte(do("export", "first", "--format=wfformat", "--workflow=long")), &flow))
			if ts := flow.Workflow.Execution.Tasks; len(ts) != 1 || ts[0].Runtime != 100 {
				t.Errorf("exported runtimes %+v, want 100", ts)
			}
		})
	}
	for _, flag := range []string{"--checkpoint=much", "--preempt=kill"} {
		name, _, _ := strings.Cut(flag, "=")
		expect(t, exitUsage, []string{name}, "simulate", flag, filepath.Join(dir, "w.yaml"), "--dir="+t.TempDir())
	}
}
