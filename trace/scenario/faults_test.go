package scenario_test

import (
	"strings"
	"testing"
	"time"

	"gantry/trace/scenario"
)

func TestFaultsAreRead(t *testing.T) {
	f, err := scenario.ReadFaults("{node_loss: {every: 1h, for: 90s}, task_failure: 0.5, " +
		"slow_nodes: {share: 1, speed: 0.25}}")
	if want := (scenario.Faults{LossEvery: time.Hour, LossFor: 90 * time.Second, TaskFailure: 0.5, SlowShare: 1,
		SlowSpeed: 0.25}); err != nil || *f != want {
		t.Errorf("%+v %v", f, err)
	}
	if f, err := scenario.ReadFaults("none"); f == nil || *f != (scenario.Faults{SlowSpeed: 1}) || err != nil {
		t.Errorf("none: %v %v", f, err)
	}
	for text, says := range map[string]string{
		"{node_loss: {every: 1h}}":                   "needs every and for",
		"{node_loss: {every: 0s, for: 1s}}":          "needs every and for",
		"{node_loss: {every: 1h, for: 1}}":           "not a duration",
		"{task_failure: 0.95}":                       "from 0 to 0.9",
		"{task_failure: NaN}":                        "from 0 to 0.9",
		"{slow_nodes: {share: 0.5}}":                 "a speed below 1",
		"{slow_nodes: {share: 2, speed: 0.5}}":       "share",
		"{slow_nodes: {share: 0.5, speed: 0}}":       "speed",
		"{task_failures: 0.5}":                       "did you mean task_failure",
		"0.5":                                        "faults",
		"{node_loss: {every: 9999999h, for: 1s}}":    "876000h",
		"[{task_failure: 0.5}, {task_failure: 0.6}]": "faults",
	} {
		if _, err := scenario.ReadFaults(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %s", text, err, says)
		}
	}
}
