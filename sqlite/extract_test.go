package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gantry/planner"
	"gantry/sqlite"
	"gantry/sqlite/logtest"
	"gantry/sqlite/report/summary"
)

// The log of a submission has all attempts of its tasks, its files and its notes, and nothing of others.
func TestExtractHasAllOfASubmission(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.sqlite")
	db := open(t, path, sqlite.Durable)
	info := logtest.Info("r")
	info.Settings = []byte(`{"policy":"heft","env":["KEY=secret"],"cdi_dir":["/root/cdi"],"on_end":"notify",` +
		`"later":"of the operator, too","cluster":{"nodes":[{"name":"n1"}]},"emulate":true}`)
	l := logtest.New(t, db, info)
	for i, name := range []string{"other", "mine", "last"} {
		at := planner.Time(i) * 10 * logtest.Second
		first := l.Arrive(at, name, []string{"a", "b"}, [][]int32{nil, {0}})
		for try := int32(1); try <= 3; try++ {
			a := l.Start(at, first, try, 0, time.Second)
			outcome, code, doubt := planner.ExitCode, 1, ""
			if try == 3 {
				outcome, code, doubt = planner.OK, 0, "a doubt of "+name
			}
			l.Exit(at+logtest.Second, a, outcome, code, doubt)
		}
		l.Event(at+2*logtest.Second, &planner.PlanCommitted{Round: int64(90 + i), Notes: []planner.Note{
			{Topic: "of-flow", Workflow: planner.WorkflowID(i), Task: planner.None, Text: name},
			{Topic: "of-task", Workflow: planner.WorkflowID(i), Task: first, Text: name}}})
	}
	raw, err := sql.Open("sqlite3", path)
	must(t, err)
	if _, err := raw.Exec("INSERT INTO submitted(id, run, key, position, uid, gid, pid, user, tenant, name, kind, " +
		"accepted_wall, accepted_ns, at_ns, state, workflow, task) SELECT x.value, runs.id, 'k' || x.value, 0, 0, 0, " +
		"0, '', '', 'mine', 'workflow', '2026-01-01T00:00:00Z', 0, 0, 'arrived', iif(x.value = 7, 1, 2), " +
		"iif(x.value = 7, NULL, x.value - 5) FROM runs, json_each('[7, 9, 10]') x"); err != nil {
		t.Fatal(err)
	}
	if _, err := raw.Exec("UPDATE tasks SET image = iif(task IN (2, 3), 'mine', 'theirs'); " +
		"INSERT INTO images(run, image, id, platform, size_bytes, source, took_ns) SELECT 1, value, value, '', " +
		"0, '', 0 FROM json_each('[\"mine\", \"theirs\"]')"); err != nil {
		t.Fatal(err)
	}
	must(t, raw.Close())
	one, err := db.Extract(t.Context(), 7)
	must(t, err)
	defer one.Close()
	for query, want := range map[string]string{
		"SELECT group_concat(name) FROM workflows":          "mine",
		"SELECT group_concat(task) FROM tasks":              "2,3",
		"SELECT group_concat(attempt) FROM attempts":        "3,4,5",
		"SELECT group_concat(DISTINCT workflow) FROM files": "1",
		"SELECT count(*) FROM files":                        "3",
		"SELECT group_concat(text || topic) FROM notes":     "mineof-flow,mineof-task",
		"SELECT count(*) || ' ' || max(at_ns) FROM events":  "1 22000000000",
		"SELECT group_concat(id) FROM submitted":            "7",
		"SELECT counts ->> '$.done' FROM runs":              "1",
		"SELECT command || settings FROM runs": `[]{"policy":"heft","cluster":{"nodes":[{"name":"n1"}]},` +
			`"emulate":true}`,
		"SELECT group_concat(image) FROM images": "mine",
	} {
		if got, err := sqlite.RowOf[string](t.Context(), one, query); err != nil || got != want {
			t.Errorf("%s: %s, not %s (%v)", query, got, want, err)
		}
	}
	for id, want := range map[int64]string{7: "mine/a_0: a doubt of mine", 9: "last/a_0: a doubt of last", 10: ""} {
		all, err := summary.Doubts(t.Context(), db, id)
		got := ""
		for _, d := range all {
			got += d.Workflow + "/" + d.Task + ": " + d.Message
		}
		if err != nil || got != want {
			t.Errorf("doubts of submission %d: %q, %v", id, got, err)
		}
	}
	life, err := one.Task(t.Context(), "7", "mine/a_0")
	must(t, err)
	if len(life.Attempts) != 3 || len(life.Notes) != 2 || !strings.HasPrefix(life.Attempts[1].Outcome, "exit") {
		t.Errorf("%+v", life)
	}
	// The same of the whole log.
	life, err = db.Task(t.Context(), "r", "mine/a_0")
	if err != nil || len(life.Attempts) != 3 || len(life.Notes) != 2 {
		t.Errorf("%+v, %v", life, err)
	}
}
