package cmd

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"gantry/planner/seed/seedtest"
)

// The text of each lesson has a row for each run, and mentions no time that its runs do not have. Its picture is the
// one that lesson.sh draws.
func TestLessonsSayWhatTheirRunsDo(t *testing.T) {
	lessons := filepath.Join("..", "examples", "lessons")
	text, err := os.ReadFile(filepath.Join(lessons, "README.md"))
	must(t, err)
	sections := strings.Split(string(text), "\n## ")[1:]
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
	lines, err := os.ReadFile(filepath.Join(from, "runs"))
	must(t, err)
	dir := t.TempDir()
	var names []string
	for line := range strings.Lines(string(lines)) {
		words := strings.Fields(line)
		names = append(names, words[0])
		expect(t, exitOK, nil, append([]string{"simulate", "--quiet", "--dir", dir, "--name", words[0], "--cluster",
			filepath.Join(from, "cluster.yaml"), filepath.Join(from, "workload.yaml")}, words[1:]...)...)
	}
	db := logIn(t, dir)
	short := func(s float64) string { return strings.TrimSuffix(strconv.FormatFloat(s, 'f', 1, 64), ".0") }
	query := func(each func(scan func(...any) error) error, query string, args ...any) {
		t.Helper()
		rows, err := db.Query(t.Context(), query, args...)
		must(t, err)
		defer rows.Close()
		for rows.Next() {
			must(t, each(rows.Scan))
		}
	}
	for _, name := range names {
		var makespan float64
		query(func(scan func(...any) error) error { return scan(&makespan) },
			"SELECT makespan_s FROM v_runs WHERE run = ?", name)
		var flows []string
		query(func(scan func(...any) error) error {
			var flow string
			var response float64
			var late bool
			err := scan(&flow, &response, &late)
			flows = append(flows, flow+" "+short(response)+map[bool]string{true: " (late)"}[late])
			return err
		}, `SELECT workflow, response_s, coalesce(arrived_s + response_s > due_s, 0) FROM v_slowdowns WHERE run = ?
			ORDER BY position`, name)
		if row := fmt.Sprintf("\n| %s | %s | %s |\n", name, short(makespan),
			strings.Join(flows, ", ")); !strings.Contains(section, row) {
			t.Errorf("the text lacks the row%s", row)
		}
	}
	times := map[string]bool{}
	query(func(scan func(...any) error) error {
		var s *float64
		err := scan(&s)
		if s != nil {
			times[short(*s)] = true
		}
		return err
	}, `SELECT value FROM v_slowdowns w, json_each(json_array(arrived_s, due_s, response_s, arrived_s + response_s,
			work_s, critical_path_s))
		UNION SELECT value FROM v_tasks, json_each(json_array(runtime_s, trace_runtime_s, ended_s))
		UNION SELECT makespan_s FROM v_runs`)
	for _, m := range regexp.MustCompile(`([0-9.]+)\s+s\b`).FindAllStringSubmatch(section, -1) {
		if !times[m[1]] {
			t.Errorf("the text speaks of %s s; nothing lasts as long, or happens then", m[1])
		}
	}
	expect(t, exitOK, nil, append([]string{"report", "--dir", dir, "--out", dir}, names...)...)
	fresh, err := os.ReadFile(filepath.Join(dir, strings.Join(names, "-")+"-timeline.svg"))
	must(t, err)
	if kept, err := os.ReadFile(filepath.Join(from, "timeline.svg")); err != nil || string(kept) != string(fresh) {
		t.Errorf("timeline.svg is not what gantry report draws (%v): copy the one of lesson.sh", err)
	}
}
