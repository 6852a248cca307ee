package policy_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// What runs of more instances found in which a policy and its oracle disagreed: busy nodes of one speed that become
// idle together, the one of the lower id in the same round; a place that a task leaves for another, while a third is
// planned there and late; tasks that end together, of which one still counts among the last four; plans that copies
// made later than the solution that they came from; a task that waits for its copies, which has not started; tasks that
// never run, as one before them failed for good; tasks that are lost at one instant; and a task that fails for good
// while another overruns.
func TestPoliciesOnInstancesThatWereFound(t *testing.T) {
	text, err := os.ReadFile("testdata/found.jsonl")
	must(t, err)
	for line := range strings.Lines(string(text)) {
		var c struct {
			Policy   string
			Instance Instance
		}
		must(t, json.Unmarshal([]byte(line), &c))
		if c.Policy == "mrcp-rm" || c.Policy == "fifo" {
			what, err := mrcpDiffers(c.Instance, 0)
			if c.Policy == "fifo" {
				what, err = bentDiffers(c.Instance, c.Policy)
			}
			if err != nil || what != "" {
				t.Errorf("%s: %s, %v\n%s", c.Policy, what, err, c.Instance)
			}
			continue
		}
		oracle := onlineOracles[c.Policy]
		if phases, ok := rigidPhases[c.Policy]; ok {
			oracle = func(in Instance) []Stay {
				return newRigidSim(in, strings.Split(phases, ",")).simulate()
			}
		}
		course, err := Simulate(c.Instance, c.Policy)
		must(t, err)
		if d := Difference(course.Stays, oracle(c.Instance), true); d != "" {
			t.Errorf("%s: %s\n%s", c.Policy, d, c.Instance)
		}
	}
}
