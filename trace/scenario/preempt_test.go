package scenario_test

import (
	"strings"
	"testing"

	"gantry/trace/scenario"
)

func TestPreemptionOfAWorkload(t *testing.T) {
	read := func(line string) (*scenario.Workload, error) {
		return scenario.ReadWorkload(strings.NewReader("workflows: [{trace: a.dax}]\n"+line), "w.yaml")
	}
	for line, want := range map[string]*scenario.Preempt{
		"":                                nil,
		"preempt: {programs: restart}":    {Checkpoint: 4096, Restart: true},
		"preempt: {checkpoint: input}":    {LargestInput: true},
		"preempt: {checkpoint: none}":     {None: true},
		"preempt: {checkpoint: 64MiB}":    {Checkpoint: 64 << 20},
		"preempt: {checkpoint: 1000}":     {Checkpoint: 1000},
		"preempt: {programs: freeze}":     {Checkpoint: 4096},
		"preempt: {checkpoint: \"2 kB\"}": {Checkpoint: 2000},
	} {
		w, err := read(line)
		if err != nil {
			t.Errorf("%s: %v", line, err)
		} else if (w.Preempt == nil) != (want == nil) || want != nil && *w.Preempt != *want {
			t.Errorf("%s: %+v, want %+v", line, w.Preempt, want)
		}
	}
	for _, line := range []string{"preempt: {checkpoint: big}", "preempt: {programs: kill}", "preempt: {victims: all}",
		"preempt: never", "preempt: {checkpoint: -1}"} {
		if _, err := read(line); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%s: %v", line, err)
		}
	}
}
