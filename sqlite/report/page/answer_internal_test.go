package page

import (
	"strings"
	"testing"

	"gantry/sqlite/report/history"
)

func TestTimesOfTheAdviceAreForPeople(t *testing.T) {
	for ns, want := range map[int64]string{8_290_000e9: "95.9 d", 9000e9: "2.5 h", 900e9: "15 min", 123.4e9: "123 s",
		3.456e9: "3.46 s"} {
		if got := seconds(ns); got != want {
			t.Errorf("%d ns are %s, want %s", ns, got, want)
		}
	}
}

// More cores are advised only if programs used those that they held.
func TestMoreCoresAreAdvisedOnlyIfTheyWouldBeUsed(t *testing.T) {
	const second = 1_000_000_000
	for _, c := range []struct {
		name  string
		cpu   int64 // of 8 s on 2 cores
		speed float64
		says  string
	}{
		{"busy", 15 * second, 1, "more cores would help"},
		{"half of a slow node", 7 * second, 0.5, "more cores would help"},
		{"starved", 2 * second, 1, "used 12 % of these"},
		{"not measured", -1, 1, "more cores would help"},
	} {
		r := &reader{out: &run{}, Run: &history.Run{Clock: 10 * second, Attempts: []history.Attempt{{Queued: 0,
			Started: second, Ended: 9 * second, Millicores: 2000, CPU: c.cpu}},
			Nodes: []history.Node{{Millicores: 2000, Speed: c.speed}}}}
		r.out.Answer.Parts = map[string]int64{waiting: 5 * second}
		r.out.Answer.Steps = []step{{What: waiting, Why: "no core is free", To: 5 * second}}
		got := r.advice()
		if !strings.Contains(got, "Tasks held 90 % of the cores") || !strings.Contains(got, c.says) ||
			strings.Contains(c.says, "used") && strings.Contains(got, ": more cores would help") {
			t.Errorf("%s: %q does not say %q", c.name, got, c.says)
		}
	}
}

func TestTheAdviceNamesTheLargestPart(t *testing.T) {
	for part, want := range map[string]string{
		staging:  "Moving less data would have shortened the run most: %s went into staging inputs.",
		starting: "Fewer, longer tasks would have shortened the run most: %s went into starting containers.",
		ending: "Fewer, longer tasks would have shortened the run most: %s passed between the end of a program and " +
			"the moment at which gantry knew of it.",
		away:     "Fewer preemptions would have shortened the run most: tasks were suspended for %s.",
		retrying: "Fewer failures would have shortened the run most: %s went into attempts that failed.",
	} {
		r := &reader{out: &run{}, Run: &history.Run{}}
		r.out.Answer.Parts = map[string]int64{part: 3e9, computing: 1e9}
		want = strings.Replace(want, "%s", "3 s of the 4 s of the critical path (75 %)", 1)
		if got := r.advice(); got != want {
			t.Errorf("%s: %s", part, got)
		}
	}
}
