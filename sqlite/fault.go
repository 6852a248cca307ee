package sqlite

import "strings"

// Result codes of SQLite.
const (
	errPerm     = 3
	errBusy     = 5
	errLocked   = 6
	errReadOnly = 8
	errIO       = 10
	errCorrupt  = 11
	errFull     = 13
	errCantOpen = 14
	errNotADB   = 26
)

// faults says of result codes whether they come from the place of the log rather than from the data, and gives advice.
var faults = map[int]struct {
	place  bool
	advice string
}{
	errFull: {true, ": the disk or the quota is full; what was logged before is kept: free space there, then " +
		"continue with gantry resume, or with gantry serve if it was a server"},
	errIO: {true, ": the disk does not take or give the data; what was logged before is kept: look at its space and " +
		"health, then continue it with gantry resume"},
	errBusy:     {false, othersWrite},
	errLocked:   {false, othersWrite},
	errNotADB:   {true, damaged},
	errCorrupt:  {true, damaged},
	errCantOpen: {true, inaccessible},
	errReadOnly: {true, inaccessible},
	errPerm:     {true, inaccessible},
}

const (
	othersWrite = ": another process has written to it for 30 s without a pause: end that, or use another --dir"
	damaged     = ": the file is damaged or not a log of gantry's: move it away, or recover what is in it with " +
		"sqlite3's .recover"
	inaccessible = ": see that the directory exists and that you may write to it, or use another --dir"
)

// IsDisk reports whether err comes from the place where the log lies rather than from the data: no space, no
// permission, a fault of the device, a damaged file.
func IsDisk(err error) bool {
	code, _ := fault(err)
	return faults[code].place
}

// DiskFault is SQLite's message about the place where the log lies, "" if err does not come from there (see IsDisk).
func DiskFault(err error) string {
	code, of := fault(err)
	if !faults[code].place {
		return ""
	}
	return of.Error()
}

// malformedJSON finds a row with a text that is no JSON, of those that questions look into.
const malformedJSON = `SELECT * FROM (
	SELECT 'settings of run ' || name FROM runs WHERE NOT json_valid(settings)
	UNION ALL SELECT 'counts of run ' || name FROM runs WHERE NOT json_valid(counts)
	UNION ALL SELECT 'host of run ' || name FROM runs WHERE NOT json_valid(host)
	UNION ALL SELECT 'options of submission ' || id FROM submitted WHERE NOT json_valid(options)
	UNION ALL SELECT printf('parents, inputs or outputs in tasks, run %d, task %d', run, task) FROM tasks
		WHERE NOT (json_valid(parents) AND json_valid(inputs) AND json_valid(outputs))
	UNION ALL SELECT printf('body in events, run %d, seq %d', run, seq) FROM events WHERE NOT json_valid(body)) LIMIT 1`

// malformed names the row of SQLite's error "malformed JSON", which does not; "" of another error.
func (db *DB) malformed(err error) (row string) {
	if _, of := fault(err); of == nil || !strings.Contains(of.Error(), "malformed JSON") || db.readers == nil {
		return ""
	}
	if err := db.readers.QueryRow(malformedJSON).Scan(&row); err != nil {
		return ""
	}
	return ": " + row
}
