package sqlite_test

import (
	"bytes"
	"database/sql"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gantry/planner"
	"gantry/sqlite"
	"gantry/sqlite/logtest"
	"gantry/trace"
)

// columnsOf lists tables or views and their columns.
func columnsOf(t *testing.T, path, kind string) map[string][]string {
	t.Helper()
	raw, err := sql.Open("sqlite3", "file:"+path+"?mode=ro")
	must(t, err)
	defer raw.Close()
	reader := &sqlite.Reader{From: raw, Failed: func(err error) error { return err }}
	all, err := sqlite.MapOf[string, []string](t.Context(), reader, `SELECT m.name, json_group_array(c.name)
		FROM sqlite_schema m, pragma_table_info(m.name) c WHERE m.type = ? AND m.name NOT LIKE 'sqlite_%' GROUP BY m.name`,
		kind)
	must(t, err)
	return all
}

func TestFormatNamesEveryTableViewAndColumnAndNoOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	open(t, path, sqlite.Durable)
	text, err := os.ReadFile("FORMAT.md")
	must(t, err)
	check := func(name, section string, columns []string) {
		for _, c := range columns {
			if !regexp.MustCompile(`\b` + regexp.QuoteMeta(c) + `\b`).MatchString(section) {
				t.Errorf("FORMAT.md says nothing of %s.%s", name, c)
			}
		}
	}
	log, _, _ := strings.Cut(string(text), "# Results of experiments")
	tables := columnsOf(t, path, "table")
	for _, m := range regexp.MustCompile(`(?m)^\*\*(\w+)\*\*`).FindAllStringSubmatch(log, -1) {
		if tables[m[1]] == nil {
			t.Errorf("FORMAT.md describes table %s, which there is not", m[1])
		}
	}
	for name, columns := range tables {
		_, section, ok := strings.Cut(string(text), "**"+name+"**")
		if !ok {
			t.Errorf("FORMAT.md says nothing of table %s", name)
			continue
		}
		section, _, _ = strings.Cut(section, "\n**")
		check(name, section, columns)
		if null := query[string](t, path, `SELECT coalesce(group_concat(name), '') FROM pragma_table_info(?)
			WHERE NOT "notnull" AND NOT pk`, name); null != "" && !strings.Contains(section, "NULL") {
			t.Errorf("FORMAT.md does not say when %s of %s are NULL", null, name)
		}
	}
	for name, columns := range columnsOf(t, path, "view") {
		_, section, ok := strings.Cut(string(text), "| `"+name+"` |")
		if !ok {
			t.Errorf("FORMAT.md says nothing of view %s", name)
			continue
		}
		if name == "v_attempts" {
			continue // all of a table, as it says
		}
		section, _, _ = strings.Cut(section, "\n")
		check(name, section, columns)
	}
}

// scanned lists the tables and indices that a query goes through from one end to the other: its program rewinds them.
func scanned(t *testing.T, raw *sql.DB, query string, args ...any) (names []string) {
	t.Helper()
	rows, err := raw.Query("EXPLAIN "+query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	type step struct {
		addr, p1, p2, p3, p5 int
		op                   string
		p4, comment          sql.NullString
	}
	var steps []step
	of := map[int]int{} // pages of tables, by cursor
	for rows.Next() {
		var x step
		must(t, rows.Scan(&x.addr, &x.op, &x.p1, &x.p2, &x.p3, &x.p4, &x.p5, &x.comment))
		steps = append(steps, x)
		if x.op == "OpenRead" && x.p3 == 0 {
			of[x.p1] = x.p2
		}
	}
	for _, x := range steps {
		page, ok := of[x.p1]
		if !ok || x.op != "Rewind" && x.op != "Last" && x.op != "Count" {
			continue
		}
		var name string
		must(t, raw.QueryRow("SELECT name FROM sqlite_schema WHERE rootpage = ?", page).Scan(&name))
		names = append(names, name)
	}
	return names
}

func rawDB(t *testing.T, path string) *sql.DB {
	t.Helper()
	raw, err := sql.Open("sqlite3", "file:"+path)
	must(t, err)
	t.Cleanup(func() { raw.Close() })
	return raw
}

// A file that is no log of this format is refused, to read and to write, and stays as it is.
func TestOtherLogsAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ made, want string }{
		"a gantry of before 0.1.0": {"CREATE TABLE runs(id); PRAGMA user_version = 12", "before release 0.1.0"},
		"a newer gantry": {"CREATE TABLE runs(id); PRAGMA application_id = 0x67616e74; PRAGMA user_version = 2",
			"has format 2, this gantry reads 1: use the gantry that wrote it"},
		"another program": {"CREATE TABLE t(x)", "not a log of gantry's"},
	} {
		path := filepath.Join(t.TempDir(), sqlite.FileName)
		raw := rawDB(t, path)
		if _, err := raw.Exec(c.made); err != nil {
			t.Fatal(err)
		}
		raw.Close()
		before, err := os.ReadFile(path)
		must(t, err)
		for _, mode := range []sqlite.Mode{sqlite.ReadOnly, sqlite.Durable, sqlite.Bulk} {
			db, err := sqlite.Open(path, mode)
			if err == nil {
				db.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, mode %d: %v", name, mode, err)
			}
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s: the file changed: %v", name, err)
		}
	}
}

func TestViewsFindTheRowsOfOneRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	open(t, path, sqlite.Durable)
	raw := rawDB(t, path)
	if all := scanned(t, raw, "SELECT * FROM v_tasks"); len(all) == 0 {
		t.Error("a query of all runs seems to go through no table")
	}
	for name, columns := range columnsOf(t, path, "view") {
		if !slices.Contains(columns, "run") {
			t.Errorf("view %s has no run", name)
			continue
		}
		var run any = "calm-hopper-4f2a"
		if !strings.HasPrefix(name, "v_") {
			run = 1
		}
		query := "SELECT * FROM " + name + " WHERE run = ?"
		if all := scanned(t, raw, query, run); len(all) > 0 {
			t.Errorf("%s goes through all runs in %v", query, all)
		}
	}
}

func TestQueriesOfTheDocumentsRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	logtest.Diamond(t, open(t, path, sqlite.Durable), "calm-hopper-4f2a")
	text, err := os.ReadFile("../docs/log.md")
	must(t, err)
	n := 0
	for _, block := range regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		for q := range strings.SplitSeq(strings.TrimSpace(block[1]), ";\n") {
			n++
			q = strings.NewReplacer("'montage-25'", "'diamond'", "'montage'", "'calm-hopper-4f2a'", "ID00000",
				"split_0").Replace(q)
			rows := query[int](t, path, "SELECT count(*) FROM ("+strings.TrimSuffix(q, ";")+")")
			if rows == 0 && !strings.Contains(q, "v_slowdowns") { // nothing measures this run
				t.Errorf("no rows: %s", q)
			}
		}
	}
	if n < 20 {
		t.Errorf("%d queries", n)
	}
}

// A task is found by its name with an index, although SQLite has no statistics of a log but for this one.
func TestATaskIsFoundByItsName(t *testing.T) {
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	open(t, path, sqlite.Durable)
	rows, err := rawDB(t, path).Query("EXPLAIN QUERY PLAN SELECT * FROM v_tasks WHERE run = 'calm' AND task = 'a'")
	must(t, err)
	defer rows.Close()
	var plan []string
	for rows.Next() {
		var id, parent, unused int
		var detail string
		must(t, rows.Scan(&id, &parent, &unused, &detail))
		plan = append(plan, detail)
	}
	if !slices.Contains(plan, "SEARCH t USING INDEX tasks_by_name (run=? AND name=?)") {
		t.Errorf("%q", plan)
	}
}

// Numbers stand for names that most rows have: tables compute these.
func TestNamesAreComputedFromTheirNumbers(t *testing.T) {
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	open(t, path, sqlite.Durable)
	raw := rawDB(t, path)
	ask := func(insert string, number int, query string) (name sql.NullString) {
		t.Helper()
		if _, err := raw.Exec("DELETE FROM tasks; DELETE FROM attempts; "+insert, number); err != nil {
			t.Fatal(err)
		}
		must(t, raw.QueryRow(query).Scan(&name))
		return name
	}
	for i, want := range append([]string{""}, names(planner.Source.String)...) {
		if got := ask("INSERT INTO attempts(run, attempt, task, try, node, hold_millicores, hold_memory_bytes, "+
			"hold_disk_bps, estimate_source_code) VALUES (1, 0, 0, 1, 0, 0, 0, 0, ?)", i,
			"SELECT estimate_source FROM attempts"); got.String != want || got.Valid != (want != "") {
			t.Errorf("source %d is %+v, want %q", i, got, want)
		}
	}
	const disk = 256
	for bits := range 2 * disk {
		fields := trace.Fields(bits) & (trace.Runtime | trace.Cores | trace.Memory | trace.AvgCPU | trace.Command)
		want := fields.String()
		if bits&disk != 0 {
			want = strings.TrimPrefix(want+",disk", ",")
		}
		if got := ask("INSERT INTO tasks(run, task, workflow, name, kind, stage, imputed_bits, need_millicores, "+
			"need_memory_bytes, need_disk_bps) VALUES (1, 0, 0, '', '', 0, ?, 0, 0, 0)", bits,
			"SELECT imputed FROM tasks"); got.String != want || !got.Valid {
			t.Errorf("%d is %+v, want %q", bits, got, want)
		}
	}
}

// names lists what the values of an enumeration from 1 on are called.
func names[E ~uint8](name func(E) string) (all []string) {
	defer func() { _ = recover() }() // there is no further one
	for e := E(1); ; e++ {
		if text := name(e); text != "" {
			all = append(all, text)
		}
	}
}

func TestFormatListsTheValuesOfEveryEnumeration(t *testing.T) {
	read, err := os.ReadFile("FORMAT.md")
	must(t, err)
	text := strings.Join(strings.Fields(string(read)), " ") // wherever its lines end
	for _, c := range []struct {
		after, until string
		want         []string
	}{
		{"estimate_source (", ")", names(planner.Source.String)},
		{"*how it ended*: outcome (", ";", names(planner.Outcome.String)},
		{"since_ns, reason (", ")", names(planner.ReasonCode.String)},
		{"JSON, for resume); state: ", "; resumes", []string{string(sqlite.Running), string(sqlite.Interrupted),
			string(sqlite.Finished), string(sqlite.Failed)}},
	} {
		_, list, ok := strings.Cut(text, c.after)
		if !ok {
			t.Errorf("FORMAT.md has no %q", c.after)
		}
		list, _, _ = strings.Cut(list, c.until)
		var got []string
		for _, m := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(list, -1) {
			got = append(got, m[1])
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("FORMAT.md after %q: %v, the code has %v", c.after, got, c.want)
		}
	}
	_, list, _ := strings.Cut(text, "comma separated: ")
	for _, f := range trace.Fields(0).Each() {
		imputed := f == trace.Runtime || f == trace.Cores || f == trace.Memory || f == trace.AvgCPU ||
			f == trace.Command
		if said := strings.Contains(list[:min(len(list), 300)], f.String()); said != imputed {
			t.Errorf("FORMAT.md on imputed %s: %v", f, said)
		}
	}
}
