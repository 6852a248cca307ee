package cmd

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gantry/executor/experiment/adversary"
)

// The files of an instance simulate to the figures of the search.
func TestTheWorstInstanceCanBeRepeated(t *testing.T) {
	dir := t.TempDir()
	for _, metric := range []string{"makespan", "lateness"} {
		prefix := filepath.Join(dir, metric)
		args := []string{"adversary", "--metric", metric, "--chains=2", "--steps=80", "--errors=random1:2", "--seed=3",
			"--workflows=" + map[string]string{"makespan": "1", "lateness": "2"}[metric], "-o", prefix, "fifo", "edf"}
		out := expect(t, exitOK, []string{"fifo has", "times the " + metric + " of edf"}, args...)
		if again := expect(t, exitOK, nil, args...); again != out {
			t.Errorf("the same command prints\n%s\nand then\n%s", out, again)
		}
		text, err := os.ReadFile(prefix + ".jsonl")
		must(t, err)
		worst := adversary.Found{A: 0, B: 1}
		for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
			f := adversary.Found{}
			must(t, json.Unmarshal([]byte(line), &f))
			if f.Ratio() > worst.Ratio() {
				worst = f
			}
		}
		for i, want := range []float64{worst.A, worst.B} {
			command := strings.Split(out, "\n")[2+i]
			got, shown := repeated(t, command)
			if metric == "makespan" && fmt.Sprintf("%.3f", got) != fmt.Sprintf("%.3f", want) {
				t.Errorf("%s: makespan %v, want %v", command, got, want)
			}
			if metric == "lateness" && !strings.Contains(shown, `"late":true`) && want > 1 {
				t.Errorf("%s: nothing is late, want %v:\n%s", command, want, shown)
			}
		}
	}
	expect(t, exitInput, []string{"another search"}, "adversary", "--steps=81", "-o",
		filepath.Join(dir, "makespan"), "fifo", "edf")
	short := filepath.Join(dir, "short")
	expect(t, exitUsage, []string{"--longest -1s: give a time above 0"}, "adversary", "--longest=-1s", "-o", short,
		"fifo", "edf")
	expect(t, exitInput, []string{"none of 1000", "--longest"}, "adversary", "--longest=1s", "-o", short, "fifo", "edf")
	if _, err := os.Stat(short + ".jsonl"); err == nil {
		t.Error("a search that kept nothing stands in the way of the next")
	}
	for _, args := range [][]string{{"fifo"}, {"fifo", "best"}, {"--metric=speed", "fifo", "edf"},
		{"--tasks=1", "fifo", "edf"}, {"--cores=0", "fifo", "edf"}, {"--tenants=2", "fifo", "edf"},
		{"--errors=wrong", "fifo", "edf"}} {
		expect(t, exitUsage, nil, append([]string{"adversary", "-o", filepath.Join(dir, "none")}, args...)...)
	}
}

// repeated runs a command that a search printed, and returns the makespan and what it shows.
func repeated(t *testing.T, command string) (makespan float64, shown string) {
	t.Helper()
	args := strings.Fields(strings.ReplaceAll(command, "'", ""))[1:]
	shown = expect(t, exitOK, nil, append([]string{args[0], "--json", "--dir=" + t.TempDir()}, args[1:]...)...)
	var got struct {
		Makespan float64 `json:"makespan_s"`
	}
	must(t, json.Unmarshal([]byte(shown), &got))
	return got.Makespan, shown
}
