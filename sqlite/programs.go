package sqlite

import (
	"context"
	"encoding/json"
	"time"

	"gantry/planner/unit"
)

// ProgramRun has the time of a real program that ended well, and the conditions under which it ran.
type ProgramRun struct {
	Run, Workflow, Task, Kind string
	Identity                  string        // hash of all that decides its results; "" in older logs
	Input                     unit.Bytes    // sum of the sizes of its inputs, as far as they were known beforehand
	Ran                       time.Duration // the program alone, suspensions not counted
	CPU                       time.Duration // that it used; -1: not measured
	Millicores                int64         // that it could use, speed of the node included; 0: no limit
	Speed                     float64       // of its node
	Startup                   time.Duration // of its container, from inputs in place to the running program
}

// ProgramRuns returns the latest attempts of programs that ended well, the latest first, at most a given number: those
// of one run, or of all runs if run is "", on the runtimes of that name. Emulated tasks are left out.
func (db *DB) ProgramRuns(ctx context.Context, runtimes []string, run string, latest int) ([]ProgramRun, error) {
	names, err := json.Marshal(runtimes)
	if err != nil {
		return nil, err
	}
	return RowsOf[ProgramRun](ctx, db, `SELECT r.name, w.name, t.name, t.kind, coalesce(CAST(t.identity AS TEXT), ''),
		coalesce(t.input_bytes, 0),
			`+wholeRun+`,
			coalesce(a.cpu_user_ns + a.cpu_system_ns, -1), coalesce(a.applied_cpu_millicores, 0), n.speed,
			max(0, a.started_ns - coalesce(a.staged_ns, a.queued_ns))
		FROM runs r JOIN attempts a ON a.run = r.id JOIN tasks t ON t.run = a.run AND t.task = a.task
		JOIN workflows w ON w.run = t.run AND w.workflow = t.workflow JOIN nodes n ON n.run = a.run AND n.node = a.node
		WHERE r.runtime IN (SELECT value FROM json_each(?1)) AND (?2 = '' OR r.name = ?2)
			AND t.image IS NOT NULL AND a.outcome = 'ok' AND a.ran_ns IS NOT NULL
		ORDER BY a.run DESC, a.attempt DESC LIMIT ?3`, string(names), run, latest)
}
