package cmd

import (
	"os"
	"slices"
	"strings"
	"testing"

	"gantry/planner/policy"
)

// docs/policies.md says how papers are read in the words of gantry policies NAME.
func TestReadingsOfPapersAreInTheDocs(t *testing.T) {
	text, err := os.ReadFile("../docs/policies.md")
	must(t, err)
	page := strings.Join(strings.Fields(string(text)), " ")
	elsewhere := []string{"rm-dcwf", "fifo", "edf", "mrcp-rm"} // docs/deadlines.md
	known := 0
	for _, r := range policy.Table() {
		for _, reading := range r.Readings {
			if slices.Contains(elsewhere, r.Name) {
				continue
			}
			if known++; !strings.Contains(page, reading) {
				t.Errorf("%s: not in docs/policies.md: %s", r.Name, reading)
			}
		}
	}
	if known < 20 {
		t.Errorf("only %d readings", known)
	}
}

func TestPoliciesPrintsHowAPaperIsRead(t *testing.T) {
	expect(t, 0, []string{"owm: online workflow management", "owm:order=lowest|highest", "How it is read:",
		"the lowest rank comes first"}, "policies", "owm")
	expect(t, 0, []string{"eighth of the time it has run", "floor of its stay"}, "policies", "owm-mp+swf+preemptive")
	expect(t, 0, []string{`"readings"`}, "policies", "--json", "heft")
	expect(t, exitUsage, []string{`policy "hefd" is not known; did you mean heft?`}, "policies", "hefd")
}
