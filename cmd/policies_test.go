package cmd

import "testing"

func TestPoliciesPrintsHowAPaperIsRead(t *testing.T) {
	expect(t, 0, []string{"owm: online workflow management", "owm:order=lowest|highest", "How it is read:",
		"the lowest rank comes first"}, "policies", "owm")
	expect(t, 0, []string{"eighth of the time it has run", "floor of its stay"}, "policies", "owm-mp+swf+preemptive")
	expect(t, 0, []string{`"readings"`}, "policies", "--json", "heft")
	expect(t, exitUsage, []string{`policy "hefd" is not known; did you mean heft?`}, "policies", "hefd")
}
