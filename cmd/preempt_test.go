package cmd

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gantry/sqlite"
	"gantry/sqlite/report/summary"
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
			log := logIn(t, strings.TrimPrefix(home, "--dir="))
			for _, run := range []string{"first", "again"} {
				s, err := summary.Of(t.Context(), log, run)
				must(t, err)
				lost := sqlite.Span(c.lost * 1e9)
				if *s.Makespan != sqlite.Span(c.end*1e9) || s.Lost != lost || !slices.Equal(s.Preemptions,
					[]summary.Preemptions{{How: c.how, Count: 1, Tasks: 1, Away: 10e9, Lost: lost}}) {
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
			if text := do("export", "first", "--format=wfformat", "--workflow=long"); strings.Count(text,
				`"runtimeInSeconds":100`) != 1 {
				t.Errorf("the export has not the runtime of 100 s:\n%s", text)
			}
		})
	}
	for _, flag := range []string{"--checkpoint=much", "--preempt=kill"} {
		name, _, _ := strings.Cut(flag, "=")
		expect(t, exitUsage, []string{name}, "simulate", flag, filepath.Join(dir, "w.yaml"), "--dir="+t.TempDir())
	}
}
