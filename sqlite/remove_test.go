package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"gantry/sqlite"
	"gantry/sqlite/logtest"
)

// Of a run that is under way, submissions that ended before an instant go, unless another one is to come after them.
func TestSubmissionsThatEndedAreRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	db := open(t, path, sqlite.Durable)
	l := logtest.New(t, db, logtest.Info("served"))
	l.Arrive(0, "over", []string{"a"}, [][]int32{nil})
	l.Arrive(0, "late", []string{"a"}, [][]int32{nil})
	l.Arrive(0, "open", []string{"a"}, [][]int32{nil})
	raw := rawDB(t, path)
	if _, err := raw.Exec(`UPDATE workflows SET state = 'failed', ended_ns = 1e9 WHERE name = 'over';
		UPDATE workflows SET state = 'done', ended_ns = 9e9 WHERE name = 'late';
		UPDATE workflows SET state = 'running' WHERE name = 'open'`); err != nil {
		t.Fatal(err)
	}
	for i, row := range []string{
		"'over', 'arrived', 0, NULL", "'late', 'arrived', 1, NULL", "'open', 'arrived', 2, NULL",
		`'withdrawn', 'cancelled', NULL, '{"settled_ns":1000000000}'`,
		`'needed', 'refused', NULL, '{"settled_ns":1000000000}'`, `'unknown', 'refused', NULL, NULL`,
		`'waits', 'accepted', NULL, '{"after":[{"id":5}]}'`,
	} {
		if _, err := raw.Exec("INSERT INTO submitted(run, key, position, uid, gid, pid, user, tenant, kind, "+
			"accepted_wall, accepted_ns, at_ns, name, state, workflow, options) VALUES (1, 'k', ?, 0, 0, 0, '', '', "+
			"'workflow', '', 0, 0, "+row+")", i); err != nil {
			t.Fatal(err)
		}
	}
	started := l.Info().Started
	if n, err := db.RemoveSubmitted(started.Add(5 * time.Second)); n != 2 || err != nil {
		t.Errorf("removed %d, %v", n, err)
	}
	const want = "late,needed,open,unknown,waits"
	got := query[string](t, path, "SELECT group_concat(name) FROM (SELECT name FROM submitted ORDER BY name)")
	if got != want {
		t.Errorf("left: %s, want %s", got, want)
	}
}
