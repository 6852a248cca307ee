package cmd

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gantry/planner/seed/seedtest"
)

// The text of each lesson has a row for each run, and mentions no time that its runs do not have. Its picture is the
// one that lesson.sh draws.
func TestLessonsSayWhatTheirRunsDo(t *testing.T) {
	lessons := filepath.Join("..", "examples", "lessons")
	sections := strings.Split(read(t, filepath.Join(lessons, "README.md")), "\n## ")[1:]
	for i, section := range sections {
		lesson, _, _ := strings.Cut(section, ":")
		if testing.Short() && i != seedtest.Part(len(sections)) {
			continue // make test-long has all
		}
		t.Run(lesson, func(t *testing.T) { checkLesson(t, filepath.Join(lessons, lesson), section) })
	}
	if len(sections) != 5 {
		t.Errorf("%d lessons", len(sections))
	}
}

func checkLesson(t *testing.T, from, section string) {
	dir := t.TempDir()
	var names []string
	for line := range strings.Lines(read(t, filepath.Join(from, "runs"))) {
		words := strings.Fields(line)
		names = append(names, words[0])
		expect(t, exitOK, nil, append([]string{"simulate", "--quiet", "--dir", dir, "--name", words[0], "--cluster",
			filepath.Join(from, "cluster.yaml"), filepath.Join(from, "workload.yaml")}, words[1:]...)...)
		row := one[string](t, dir, `SELECT printf('| %s | %.1f | %s |', run, makespan_s, (SELECT group_concat(printf(
			'%s %.1f%s', workflow, response_s, iif(arrived_s + response_s > due_s, ' (late)', '')), ', ' ORDER BY position)
			FROM v_slowdowns w WHERE w.run = r.run)) FROM v_runs r WHERE run = ?`, words[0])
		if row = strings.NewReplacer(".0 ", " ", ".0,", ",").Replace(row); !strings.Contains(section, "\n"+row+"\n") {
			t.Errorf("the text lacks the row\n%s", row)
		}
	}
	times := strings.Fields(strings.ReplaceAll(one[string](t, dir, `SELECT group_concat(printf('%.1f ', value), '') FROM (
		SELECT value FROM v_slowdowns, json_each(json_array(arrived_s, due_s, response_s, arrived_s + response_s,
			work_s, critical_path_s))
		UNION SELECT value FROM v_tasks, json_each(json_array(runtime_s, trace_runtime_s, ended_s))
		UNION SELECT makespan_s FROM v_runs)`), ".0 ", " "))
	for _, m := range regexp.MustCompile(`([0-9.]+)\s+s\b`).FindAllStringSubmatch(section, -1) {
		if !slices.Contains(times, m[1]) {
			t.Errorf("the text speaks of %s s; nothing lasts as long, or happens then", m[1])
		}
	}
	expect(t, exitOK, nil, append([]string{"report", "--dir", dir, "--out", dir}, names...)...)
	if kept := read(t, filepath.Join(from, "timeline.svg")); kept != read(t, filepath.Join(dir,
		strings.Join(names, "-")+"-timeline.svg")) {
		t.Error("timeline.svg is not what gantry report draws: copy the one of lesson.sh")
	}
}
