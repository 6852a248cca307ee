package session_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gantry/cmd/internal/session"
	"gantry/executor/sim/hostmodel"
	"gantry/sqlite"
)

// Models of other hosts, and damaged ones, are reported and not used, whatever was done to the log.
func TestHostModelsThatAreNotUsed(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(t.TempDir(), "none.sock")) // which engine there is is asked often
	for _, c := range []struct {
		name, change string // of the row in the log
		want         error  // nil: it is used
		says         string
	}{
		{"as it was measured", "", nil, ""},
		{"of another host", "host = 'elsewhere', model = json_set(model, '$.host.name', 'elsewhere')",
			hostmodel.ErrForeign, "elsewhere"},
		{"of another kernel", "kernel = '2.4.1', model = json_set(model, '$.host.kernel', '2.4.1')",
			hostmodel.ErrForeign, "2.4.1"},
		{"of more cores", "cores = 999, model = json_set(model, '$.host.cores', 999)", hostmodel.ErrForeign, "999"},
		{"of another file system", "model = json_set(model, '$.host.file_system', 'fat')", hostmodel.ErrForeign, "fat"},
		{"with a row of its own mind", "host = 'elsewhere'", hostmodel.ErrDamaged, "elsewhere"},
		{"of a later gantry", "model = json_set(model, '$.format', 99)", hostmodel.ErrDamaged, "99"},
		{"cut short", "model = substr(model, 1, length(model) / 2)", hostmodel.ErrDamaged, "JSON"},
		{"with an absurd rate", "model = json_set(model, '$.disk.read_bytes_per_second', 1e300)",
			hostmodel.ErrDamaged, "disk.read_bytes_per_second"},
		{"of yesterday", "created_wall = 'yesterday'", hostmodel.ErrDamaged, "yesterday"},
		{"of long ago", "created_wall = '2019-05-06T07:08:09Z'", hostmodel.ErrOld, "years ago"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, sqlite.FileName)
		db, err := sqlite.Open(path, sqlite.Durable)
		must(t, err)
		m := hostmodel.Example(4)
		m.Measured.At = time.Now()
		m.Host, _ = session.Here(t.Context(), session.UsualRuntime.Name, dir) // without an engine where there is none
		if _, err := session.KeepHostModel(t.Context(), db, m); err != nil {
			t.Fatal(err)
		}
		if c.change != "" {
			raw, err := sql.Open("sqlite3", "file:"+path)
			if err == nil {
				_, err = raw.Exec("UPDATE host_models SET " + c.change)
				raw.Close()
			}
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
		got, _, err := session.FindHostModel(t.Context(), db, session.UsualRuntime.Name, dir)
		if !errors.Is(err, c.want) || (err == nil) != (got != nil) {
			t.Errorf("a model %s: %v", c.name, err)
		}
		used, text, _ := session.DescribeHostModel(t.Context(), db, session.UsualRuntime.Name, dir)
		if used != (c.want == nil) || !strings.Contains(text, c.says) {
			t.Errorf("a model %s: doctor says %q", c.name, text)
		}
		// an older model of this host counts where a newer row does not fit
		if _, err := session.KeepHostModel(t.Context(), db, m); err != nil {
			t.Fatal(err)
		}
		if _, _, err := session.FindHostModel(t.Context(), db, session.UsualRuntime.Name, dir); err != nil {
			t.Errorf("a good model beside one %s: %v", c.name, err)
		}
		db.Close()
	}
}
