package term

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/trace"
	"gantry/trace/scenario"
)

// told runs a workflow of some tasks of a second each on one core, due at an instant, and returns the lines that people
// see, without the time that passed.
func told(t *testing.T, policy string, tasks int, due planner.Time, faults *scenario.Faults) (*Progress, []string) {
	t.Helper()
	var b bytes.Buffer
	p := New(false)
	p.out = &b
	w := &trace.Workflow{Name: "w", Label: "w"}
	for i := range tasks {
		w.Tasks = append(w.Tasks, trace.Task{ID: fmt.Sprint("t", i), Kind: "k", Cores: 1, Retries: 1,
			Runtime: time.Second})
	}
	platform := &planner.Platform{Groups: []string{""}, Nodes: []planner.Node{{Name: "n", Speed: 1,
		Capacity: unit.Vector{1000, unit.Unlimited, unit.Unlimited}}}}
	s := executor.Submission{Name: "w", Workflow: w, Due: due}
	if due != unit.Never {
		s.Class = planner.Deadline
	}
	e := enginetest.New(t, platform, enginetest.Policy(t, policy), s)
	e.Faults, e.Watch = executor.NewFaults(faults, 1, 1, platform), p.Watch
	p.Begin(Begun{Run: "r", Policy: policy, Platform: platform, Tasks: tasks, Repetition: 1, Repetitions: 2,
		Started: time.Now(), Expected: func() planner.Time { return unit.Never }})
	enginetest.Run(t, e)
	p.End()
	text := regexp.MustCompile(`[0-9.]+m?s\b`).ReplaceAllString(b.String(), "T")
	return p, strings.Split(strings.TrimSpace(text), "\n")
}

// A line tells of each fifth of a run, whatever it runs on.
func TestARunPrintsFewLines(t *testing.T) {
	p, got := told(t, "cpp", 1000, unit.Never, nil)
	want := []string{"r: 1000 tasks on 1 node with 1 core, policy cpp, repetition 1 of 2 (--repetition)"}
	for _, n := range []int{200, 400, 600, 800, 1000} {
		want = append(want, fmt.Sprintf("%d tasks of 1000 done, %d running, 0 failed, T", n, min(1, 1000-n)))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") || p.done != 1000 {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// On a terminal a line is redrawn, with the tasks that run; their names cannot move the cursor.
func TestATerminalShowsHowFarARunIs(t *testing.T) {
	var b bytes.Buffer
	p := New(false)
	p.out, p.terminal = &b, &b
	end := planner.Time(time.Hour)
	p.Begin(Begun{Run: "r", Policy: "cpp", Platform: &planner.Platform{}, Tasks: 4, Started: time.Now(),
		Expected: func() planner.Time { return end }})
	p.mu.Lock()
	p.done, p.failed, p.underWay = 2, 1, 1
	p.running = []*executor.TaskSpec{{Name: "evil\x1b[2J\n"}}
	got := p.status()
	p.mu.Unlock()
	if !strings.HasPrefix(got, strings.Repeat("█", 12)+strings.Repeat("░", 12)+
		" 2 of 4 tasks, 1 failed, 0s, ends about ") || !strings.HasSuffix(got, ", 1 running: evil^[[2J^J") {
		t.Errorf("the line is %q", got)
	}
	end = unit.Never
	p.Note("a note")
	p.End()
	if text := b.String(); !strings.Contains(text, "\r\x1b[Ka note\n\r\x1b[?7l█") ||
		!strings.HasSuffix(text, "\r\x1b[K") ||
		strings.Contains(text[strings.Index(text, "a note"):], "ends about") {
		t.Errorf("the terminal got %q", text)
	}
}

// Of attempts that fail the first ten are printed, with their consequence.
func TestFailuresArePrintedUpToABound(t *testing.T) {
	p, got := told(t, "cpp", 30, unit.Never, &scenario.Faults{TaskFailure: 0.5, SlowSpeed: 1})
	all := strings.Join(got, "\n")
	retried := regexp.MustCompile(`(?m)^w: attempt \d+ of t\d+ ended: .+; it is retried`)
	if n := len(retried.FindAllString(all, -1)); n != 10 ||
		strings.Count(all, "more attempts fail; gantry show lists them") != 1 || p.done != 30 {
		t.Errorf("%d attempts:\n%s", n, all)
	}
}

// A workflow with a deadline is printed with its predicted end.
func TestDeadlinesArePredicted(t *testing.T) {
	_, got := told(t, "rm-dcwf", 3, 5e9, nil)
	if len(got) < 2 || !strings.HasPrefix(got[1], "w: predicted to end at 3.00 s, due at 5.00 s: ") {
		t.Errorf("%q", got)
	}
}

// A warning is printed once, and of many the first ten; --quiet leaves them out, but not what was asked for.
func TestWarningsArePrintedOnce(t *testing.T) {
	var b bytes.Buffer
	for _, quiet := range []bool{false, true} {
		p := New(quiet)
		p.out = &b
		b.Reset()
		p.Known("known")
		for i := range 2 * maxWarningsShown {
			p.Warn("%s", []string{"known", "odd\nand more", "odd\nand more"}[i%3])
			p.Warn("no %d", i)
		}
		p.Note("a %s", "note\x1b")
		p.Say("said")
		arrived := p.Arriving("image", "pulling")
		arrived("x", 1e6, 2e6)
		p.due = time.Now().Add(-time.Second)
		arrived("y", 1e6, 2e6)
		p.End()
		want := "warning: no 0\nwarning: odd\n  and more\nwarning: no 1\nwarning: no 2\nwarning: no 3\n" +
			"warning: no 4\nwarning: no 5\nwarning: no 6\nwarning: no 7\n" +
			"warning: there are more: gantry check and gantry show list them\n" +
			"a note^[\nsaid\npulling 2 images: 2 MB of 4 MB\n"
		if quiet {
			want = "said\n"
		}
		if b.String() != want {
			t.Errorf("quiet %v:\n%s\nwant\n%s", quiet, b.String(), want)
		}
		if told := p.Told(); !told["known"] || told["no 0"] == quiet {
			t.Errorf("quiet %v: it told %v", quiet, told)
		}
	}
}
