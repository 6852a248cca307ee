package cmd

import (
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"gantry/executor"
	"gantry/planner/predict"
	"gantry/sqlite"
)

// trainingRun has the samples of one run of a log, or of a trace.
type trainingRun struct {
	Name      string
	Started   time.Time
	Runtime   string // such as docker or sim
	TimeScale float64
	SizeScale float64
	Samples   []predict.Sample // by order of their attempts
	LeftOut   map[string]int   // attempts that tell nothing, by the reason
}

// Reasons to leave an attempt out.
const (
	unwell   = "did not end well"
	partly   = "were preempted, or are of tasks that were"
	timeless = "have no runtime"
	unsized  = "have no size of their inputs"
	resized  = "read inputs of another size than was known beforehand"
	// These are not left out.
	misread  = "have a number that cannot be, such as a size below 0, which is not known then"
	atLimit  = "reached their memory limit, so that their peak counts without a margin"
	heldBack = "were held back by their CPU limit, and tell of nodes of that speed"
	mixed    = "are of types that several programs share: give each a type of its own"
)

// trainingOf reads the measurements of attempts that ended well, in the runs on a kind of runtime ("": on all), in
// order of time. Of a task that was preempted nothing is taken: its last attempt may be a part of it.
func trainingOf(ctx context.Context, db *sqlite.DB, runtime string) ([]trainingRun, error) {
	runs, err := sqlite.RowsOf[trainingRun](ctx, db, `SELECT name, started_wall, runtime, time_scale, size_scale
		FROM runs WHERE ? IN ('', runtime) ORDER BY started_unix_ns, id`, runtime)
	for i := range runs {
		if err == nil {
			err = runs[i].measure(ctx, db)
		}
		if err == nil {
			err = runs[i].countMixed(ctx, db)
		}
	}
	return slices.DeleteFunc(runs, func(r trainingRun) bool { return len(r.Samples)+len(r.LeftOut) == 0 }), err
}

// attemptsToLearnFrom is a query of the attempts of the run of a name in the order of their orders: the columns are
// those of predict.Sample, the position in reasons of the one to leave it out, and whether it met its limits. A runtime
// that a rule filled in is nobody's declaration. An input of another size than declared is left out unless most
// attempts of its type have one: sizes in a workflow may be made up.
const attemptsToLearnFrom = `WITH x AS (
		SELECT a.attempt, a.queued_ns, a.ended_ns, a.ran_ns, a.hold_millicores, a.hold_memory_bytes AS memory,
			coalesce(a.peak_memory_bytes, 0) AS peak, a.cpu_throttled_ns AS throttled, n.speed, t.kind,
			iif(instr(','||t.imputed||',', ',runtime,'), NULL, t.trace_runtime_ns) AS declared, t.input_bytes AS input,
			iif(t.parents IS NULL, a.input_bytes, NULL) AS read, coalesce(a.outcome = 'ok', 0) AS well,
			EXISTS (SELECT 1 FROM attempts b WHERE b.run = a.run AND t.attempts > 1 AND b.task = a.task
				AND b.outcome = 'preempted') AS preempted
		FROM attempts a JOIN tasks t ON t.run = a.run AND t.task = a.task
		JOIN nodes n ON n.run = a.run AND n.node = a.node
		WHERE a.run = (SELECT id FROM runs WHERE name = ?) AND a.queued_ns IS NOT NULL),
	steps AS (SELECT attempt, queued_ns AS at, 1 AS step FROM x WHERE ended_ns > queued_ns
		UNION ALL SELECT NULL, ended_ns, -1 FROM x WHERE ended_ns > queued_ns),
	loads AS (SELECT attempt, sum(step) OVER (ORDER BY at, step) - count(*) OVER (PARTITION BY at, step) AS load
		FROM steps),
	kinds AS (SELECT kind, sum(iif(read <> coalesce(input, 0), 1, -1)) AS resized FROM x WHERE well GROUP BY kind)
	SELECT x.kind, coalesce(input, 0), hold_millicores, memory, speed, coalesce(load, 0),
		coalesce(CAST(declared / max(speed, 1e-9) AS INTEGER), 0), coalesce(ran_ns, 0), peak,
		CASE WHEN preempted THEN 1 WHEN NOT well THEN 2 WHEN coalesce(ran_ns, 0) <= 0 THEN 3
			WHEN coalesce(input, -1) < 0 THEN 4 WHEN read <> input AND resized <= 0 THEN 5 ELSE 0 END,
		coalesce(throttled > 0.1 * ran_ns, 0), memory > 0 AND peak >= memory - memory / 100
	FROM x LEFT JOIN loads USING (attempt) LEFT JOIN kinds USING (kind) ORDER BY queued_ns, attempt`

var reasons = [...]string{1: partly, unwell, timeless, unsized, resized}

func (r *trainingRun) measure(ctx context.Context, db *sqlite.DB) error {
	r.LeftOut = map[string]int{}
	return sqlite.EachRow(ctx, db, func(a *struct {
		predict.Sample
		Reason        int
		Held, AtLimit bool
	}) error {
		if a.Reason > 0 {
			r.LeftOut[reasons[a.Reason]]++
			return nil
		}
		if a.Held {
			r.LeftOut[heldBack]++
		}
		if a.AtLimit {
			r.LeftOut[atLimit]++
		}
		r.Samples = append(r.Samples, a.Sample)
		return nil
	}, attemptsToLearnFrom, r.Name)
}

// countMixed counts the samples of types that have tasks of several programs. Of a run that cannot be admitted again it
// counts none.
func (r *trainingRun) countMixed(ctx context.Context, db *sqlite.DB) error {
	some, err := sqlite.RowOf[bool](ctx, db, "SELECT EXISTS (SELECT 1 FROM runs r JOIN tasks t ON t.run = r.id "+
		"WHERE r.name = ? AND t.image IS NOT NULL)", r.Name)
	if err != nil || !some {
		return err
	}
	programs := map[string]string{} // by type; "" if there are several
	_ = db.Admissions(ctx, r.Name, func(a *executor.Admission) error {
		for _, t := range a.Tasks {
			if t.Emulated() {
				continue
			}
			if is, known := programs[t.Kind]; !known {
				programs[t.Kind] = programOf(t)
			} else if is != programOf(t) {
				programs[t.Kind] = ""
			}
		}
		return nil
	})
	for i := range r.Samples {
		if is, known := programs[r.Samples[i].Kind]; known && is == "" {
			r.LeftOut[mixed]++
		}
	}
	return ctx.Err()
}

// programOf is the program of a command, with its second word where that may be a command of it, as in bwa mem.
func programOf(t *executor.TaskSpec) string {
	words := t.Command
	if t.Shell || t.Expand {
		words = strings.Fields(strings.Join(t.Command, " "))
	}
	name := ""
	for i, w := range words[:min(2, len(words))] {
		if i == 0 {
			name = path.Base(w)
		} else if len(w) > 2 && strings.Trim(w, "abcdefghijklmnopqrstuvwxyz") == "" {
			name += " " + w
		}
	}
	return name
}
