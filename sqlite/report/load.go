package report

import (
	"context"

	"gantry/sqlite"
)

// change is a step of the load of a node.
type change struct {
	Node int
	At   int64 // nanoseconds since the run began
	By   int64
}

// loads are queries of node, instant and change of cores and memory, as they are held and as they are used. ?1 is the
// run. The load of an attempt is added at its beginning and taken away at its end.
var loads = [2][2]string{{
	// millicores; a frozen task holds none
	`WITH away AS (
			SELECT a.node, s.since_ns, min(coalesce(s.until_ns, k.at_ns), coalesce(a.ended_ns, k.at_ns)) AS until,
				a.hold_millicores AS held, coalesce(s.until_ns, a.ended_ns) IS NOT NULL AS over
			FROM clocks k CROSS JOIN suspensions s ON s.run = k.run
			JOIN attempts a ON a.run = s.run AND a.attempt = s.attempt
			WHERE k.run = ?1 AND s.how = 'freeze' AND s.since_ns IS NOT NULL)
		SELECT node, queued_ns AS at, hold_millicores AS change FROM attempts WHERE run = ?1 AND queued_ns IS NOT NULL
		UNION ALL SELECT node, ended_ns, -hold_millicores FROM attempts
			WHERE run = ?1 AND queued_ns IS NOT NULL AND ended_ns IS NOT NULL
		UNION ALL SELECT node, since_ns, -held FROM away WHERE since_ns < until
		UNION ALL SELECT node, until, held FROM away WHERE since_ns < until AND over`,
	// bytes
	`SELECT node, queued_ns AS at, hold_memory_bytes AS change FROM attempts
			WHERE run = ?1 AND queued_ns IS NOT NULL
		UNION ALL SELECT node, ended_ns, -hold_memory_bytes FROM attempts
			WHERE run = ?1 AND queued_ns IS NOT NULL AND ended_ns IS NOT NULL`,
}, {
	// millicores: means between two samples of an attempt, and from the last one to its end
	`WITH readings AS (
			SELECT attempt, started_ns AS at, 0 AS cpu FROM attempts WHERE run = ?1 AND started_ns IS NOT NULL
			UNION ALL SELECT s.attempt, s.at_ns, s.cpu_ns
				FROM samples s JOIN attempts a ON a.run = s.run AND a.attempt = s.attempt
				WHERE s.run = ?1 AND s.cpu_ns IS NOT NULL AND s.at_ns > a.started_ns
				AND (a.ended_ns IS NULL OR s.at_ns < a.ended_ns)
			UNION ALL SELECT attempt, ended_ns, cpu_user_ns + cpu_system_ns FROM attempts
				WHERE run = ?1 AND ended_ns > started_ns AND cpu_user_ns + cpu_system_ns IS NOT NULL),
		spans AS (SELECT attempt, at, lag(at) OVER w AS since, cpu - lag(cpu) OVER w AS more
			FROM readings WINDOW w AS (PARTITION BY attempt ORDER BY at)),
		rates AS (SELECT attempt, since, at, CAST(max(0, 1000.0 * more / (at - since)) AS INTEGER) AS rate
			FROM spans WHERE at > since)
		SELECT a.node, r.since AS at, r.rate AS change
			FROM rates r JOIN attempts a ON a.run = ?1 AND a.attempt = r.attempt
		UNION ALL SELECT a.node, r.at, -r.rate
			FROM rates r JOIN attempts a ON a.run = ?1 AND a.attempt = r.attempt`,
	// bytes: the peaks of the attempts that run
	`WITH peaks AS (SELECT node, started_ns, ended_ns, peak_memory_bytes AS peak FROM attempts
			WHERE run = ?1 AND started_ns IS NOT NULL AND ended_ns IS NOT NULL AND peak_memory_bytes IS NOT NULL)
		SELECT node, started_ns AS at, peak AS change FROM peaks UNION ALL SELECT node, ended_ns, -peak FROM peaks`,
}}

// readLoads reads the changes of all loads, in the order of the instants.
func (t *Timeline) readLoads(ctx context.Context, db *sqlite.DB) error {
	id, _, err := db.Find(ctx, t.Run)
	for i, to := range [...]*[2][]change{&t.held, &t.used} {
		for k := range to {
			if err == nil {
				to[k], err = sqlite.RowsOf[change](ctx, db, `SELECT node, at, sum(change) FROM (`+loads[i][k]+`)
					WHERE node >= 0 GROUP BY at, node HAVING sum(change) <> 0 ORDER BY at, node`, id)
			}
		}
	}
	return err
}
