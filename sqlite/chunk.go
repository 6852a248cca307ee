package sqlite

import (
	"cmp"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"gantry/sqlite/sqlite3"

	"gantry/planner"
	"gantry/planner/unit"
)

// Rows of simulations. A row of SQLite takes longer than all that a simulation does for a task, so tasks that had one
// attempt go many to a row, together with it: what they share in columns, what they do not in JSON. The views tasks,
// attempts and waits show them as rows.

// chunkRows is how many tasks or waits are in a chunk at most.
const chunkRows = 512

// text is JSON that is inserted as text.
type text []byte

// single is the only attempt of a task, ended.
type single struct {
	like   *alike // nil: there is none, or its row was written
	id     planner.AttemptID
	node   planner.NodeID
	queued planner.Time
	ended  planner.Time
	ran    int64   // unknown: NULL
	run    int64   // the estimate; unknown: NULL
	more   []int64 // staged, created, started, ended, planned end and the own counters, if they do not follow
}

// unknown is no duration.
const unknown = math.MinInt64

// chunkCounters are the counters that differ between attempts of a chunk.
var chunkCounters = slices.DeleteFunc(slices.Clone(ownCounters), func(c counter) bool { return c.instant })

// packer writes chunks.
type packer struct {
	run          int64
	tasks, waits *inserter
	kin          kin    // of the last chunk of tasks
	shared       *alike // also
	like         *alike // of the last attempt
	groups       []group
	waiting      []waitGroup
	plain        bool // the attempt at hand was not measured, ran as soon as it was ordered, and ended well
}

// group is a chunk of tasks on its way.
type group struct {
	kin   kin
	like  *alike
	first planner.TaskID
	last  planner.TaskID
	n     int
	rows  text
}

// waitGroup is a chunk of waits on its way.
type waitGroup struct {
	code planner.ReasonCode
	dim  string
	seq  uint64  // of the first one
	last waitRow // the row at hand
	n    int     // waits
	rows text
}

// waitRow is what the waits of a row share.
type waitRow struct {
	seq   uint64
	since planner.Time
	node  planner.NodeID
	until planner.Time
}

// chunkShared are what chunks that are written together mostly share.
const chunkShared = "run, need_millicores, need_memory_bytes, need_disk_bps, time_limit_ns, imputed, image, state, " +
	"try, hold_millicores, hold_memory_bytes, hold_disk_bps, estimate_spread_ns, estimate_samples, estimate_source, " +
	"outcome, exit_code, message, lost_ns"

func newPacker(conn *sqlite3.SQLiteConn, run int64) (*packer, error) {
	p := &packer{run: run}
	err := prepare(conn, run, []table{{&p.tasks, "INSERT", "task_chunks", chunkShared,
		"task, last_task, workflow, tasks, rows"},
		{&p.waits, "INSERT", "wait_chunks", "run", "seq, reason, dim, rows"}})
	if err != nil {
		p.close()
		return nil, err
	}
	p.tasks.most, p.waits.most = bulkChunk, bulkChunk
	return p, nil
}

func (p *packer) close() {
	for _, in := range []*inserter{p.tasks, p.waits} {
		if in != nil {
			in.close()
		}
	}
}

// single makes of an attempt what a chunk has of it; false if it has a row of its own.
func (p *packer) single(s *single, a *attempt) bool {
	x, b := a.order, a.exit
	u := &b.Usage
	if x.Try != 1 || !p.plain && (u.Missing != planner.CountersAll || u.Applied != (planner.Limits{})) ||
		a.tally.before != (chain{}) || a.tally.kept != 0 {
		return false
	}
	if p.like == nil || p.like.hold != x.Hold || p.like.outcome != b.Outcome || p.like.code != b.ExitCode ||
		p.like.message != b.Message || p.like.tally != a.tally || p.like.estimate.Spread != x.Est.Spread ||
		p.like.estimate.Samples != x.Est.Samples || p.like.estimate.Source != x.Est.Source {
		p.like = &alike{try: 1, hold: x.Hold, estimate: x.Est, ended: true, outcome: b.Outcome, code: b.ExitCode,
			message: b.Message, tally: a.tally}
	}
	*s = single{like: p.like, id: x.Attempt, node: x.Node, queued: u.Queued, ended: u.Ended, ran: unknown,
		run: unknown}
	if u.Started != unit.Never {
		s.ran = int64(b.Ran)
	}
	if x.Est.Source != 0 {
		s.run = int64(x.Est.Run)
	}
	at := u.Queued
	if !p.plain && *u != plainUsage(u.Ended, b.Ran) || x.Until != at.Add(x.Est.Run) || s.run == unknown {
		s.more = append(make([]int64, 0, 5+len(chunkCounters)), int64(u.Staged), int64(u.Created), int64(u.Started),
			int64(u.Ended), int64(x.Until))
		for _, c := range chunkCounters {
			s.more = append(s.more, reflect.ValueOf(u).Elem().FieldByIndex(c.index).Int())
		}
	}
	return true
}

// addTask adds a task with its only attempt.
func (p *packer) addTask(t *fresh, state taskState, s *single) error {
	spec := t.spec
	kin := kin{t.need, spec.TimeLimit, t.imputed, spec.Image, state, 1}
	var g *group
	for k := range p.groups {
		if p.groups[k].like == s.like && p.groups[k].kin == kin {
			g = &p.groups[k]
			break
		}
	}
	switch {
	case g == nil:
		if n := len(p.groups); n < cap(p.groups) {
			p.groups = p.groups[:n+1] // with its memory
		} else {
			p.groups = append(p.groups, group{})
		}
		g = &p.groups[len(p.groups)-1]
		g.kin, g.like, g.first, g.last = kin, s.like, t.id, t.id
	case g.n == chunkRows:
		if err := p.flushGroup(t.flow, g); err != nil {
			return err
		}
		g.first, g.last = t.id, t.id
	}
	buf := append(g.rows, "[,"[min(g.n, 1)], '[')
	g.n++
	g.last = max(g.last, t.id)
	buf = appendInt(buf, int64(t.id-g.first))
	buf = appendText(append(buf, ','), spec.Name)
	buf = appendText(append(buf, ','), spec.Kind)
	buf = appendInt(append(buf, ','), int64(t.stage))
	run := int64(traced(spec))
	buf = appendKnown(append(buf, ','), run, t.runtime)
	buf = appendInt(append(buf, ','), t.input)
	buf = append(buf, ',')
	if len(t.parents) == 0 {
		buf = append(buf, "null"...)
	} else {
		buf = append(appendParents(buf, t.parents), ']')
	}
	buf = appendInt(append(buf, ','), int64(s.id))
	buf = appendInt(append(buf, ','), int64(s.node))
	buf = appendInt(append(buf, ','), int64(s.queued))
	if s.ran != run || s.run != run || !t.runtime || s.more != nil {
		buf = appendKnown(append(buf, ','), s.ran, s.ran != unknown)
		buf = appendKnown(append(buf, ','), s.run, s.run != unknown)
	}
	if s.more != nil {
		buf = append(buf, ',')
		for k, n := range s.more {
			buf = appendKnown(append(buf, "[,"[min(k, 1)]), n, n != int64(unit.Never))
		}
		buf = append(buf, ']')
	}
	g.rows = append(buf, ']')
	return nil
}

// appendParents appends a JSON array without its end.
func appendParents(buf []byte, parents []planner.TaskID) []byte {
	for j, q := range parents {
		buf = append(buf, "[,"[min(j, 1)])
		buf = appendInt(buf, int64(q))
	}
	return buf
}

func appendKnown(buf []byte, n int64, known bool) []byte {
	if !known {
		return append(buf, "null"...)
	}
	return appendInt(buf, n)
}

func appendMaybe(buf []byte, v driver.Value) []byte {
	n, ok := v.(int64)
	return appendKnown(buf, n, ok)
}

// appendText appends a JSON string.
func appendText(buf []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(strings.ToValidUTF8(s, "\uFFFD")) // no text fails
			return append(buf, quoted...)
		}
	}
	return append(append(append(buf, '"'), s...), '"')
}

// flushGroup inserts a chunk and keeps its memory.
func (p *packer) flushGroup(flow planner.WorkflowID, g *group) error {
	if g.n == 0 {
		return nil
	}
	if k, l := &g.kin, g.like; l != p.shared || *k != p.kin {
		p.kin, p.shared = *k, l
		if err := p.tasks.share(p.run, k.need[unit.CPU], k.need[unit.Memory], k.need[unit.Disk],
			known(int64(k.limit), k.limit != 0), imputedNames(k.imputed), message(k.image), taskStates[k.state],
			int64(l.try), l.hold[unit.CPU], l.hold[unit.Memory], l.hold[unit.Disk],
			known(int64(l.estimate.Spread), l.estimate.Spread != 0),
			known(int64(l.estimate.Samples), l.estimate.Source != 0), name(l.estimate.Source), l.outcome.String(),
			known(int64(l.code), l.code != -1), message(l.message), l.tally.lost); err != nil {
			return err
		}
	}
	for _, n := range [...]int64{int64(g.first), int64(g.last), int64(flow), int64(g.n)} {
		p.tasks.takeInt(n)
	}
	p.tasks.takeBytes(append(g.rows, ']'), true)
	g.n, g.rows = 0, g.rows[:0]
	return p.tasks.end()
}

// flushFlow inserts what was taken of a workflow.
func (p *packer) flushFlow(flow planner.WorkflowID) error {
	for k := range p.groups {
		if err := p.flushGroup(flow, &p.groups[k]); err != nil {
			return err
		}
	}
	p.groups = p.groups[:0]
	return nil
}

// addWait adds a wait. Those that begin together are one row.
func (p *packer) addWait(ev *planner.Event, wait planner.Wait, dim string) error {
	var g *waitGroup
	for k := range p.waiting {
		if p.waiting[k].code == wait.Reason.Code && p.waiting[k].dim == dim {
			g = &p.waiting[k]
			break
		}
	}
	switch {
	case g == nil:
		p.waiting = append(p.waiting, waitGroup{code: wait.Reason.Code, dim: dim})
		g = &p.waiting[len(p.waiting)-1]
	case g.n >= chunkRows && ev.Seq != g.last.seq: // one sequence number begins one chunk
		if err := p.flushWaits(g); err != nil {
			return err
		}
	}
	if g.n == 0 {
		g.seq = ev.Seq
	}
	last := waitRow{ev.Seq, ev.At, wait.Reason.Node, wait.Reason.At}
	switch {
	case g.n == 0:
		g.rows = append(g.rows, "[[["...)
	case g.last == last:
		g.rows = append(g.rows, ',')
	default:
		g.rows = append(g.endRow(), ",[["...)
	}
	g.n++
	g.last, g.rows = last, appendInt(g.rows, int64(wait.Task))
	return nil
}

// endRow ends the row at hand.
func (g *waitGroup) endRow() text {
	buf := strconv.AppendUint(append(g.rows, "],"...), g.last.seq-g.seq, 10)
	buf = appendInt(append(buf, ','), int64(g.last.since))
	if node, until := whereAndWhen(planner.Reason{Code: g.code, Node: g.last.node, At: g.last.until}); node != nil ||
		until != nil {
		buf = appendMaybe(append(buf, ','), node)
		buf = appendMaybe(append(buf, ','), until)
	}
	return append(buf, ']')
}

func (p *packer) flushWaits(g *waitGroup) error {
	if g.n == 0 {
		return nil
	}
	err := p.waits.add(int64(g.seq), g.code.String(), g.dim, append(g.endRow(), ']'))
	g.n, g.rows = 0, g.rows[:0]
	return err
}

// flush inserts all waits that were taken and hands all rows to SQLite.
func (p *packer) flush() error {
	for k := range p.waiting {
		if err := p.flushWaits(&p.waiting[k]); err != nil {
			return err
		}
	}
	if err := p.tasks.flush(); err != nil {
		return err
	}
	return p.waits.flush()
}

// addSingle adds an attempt that was kept for a chunk, and whose task has another one.
func (t *tables) addSingle(id planner.TaskID, s *single) error {
	l := s.like
	est, ran := l.estimate, s.ran
	est.Run = time.Duration(s.run)
	if ran == unknown {
		ran = 0
	}
	if s.run == unknown {
		est.Run = 0
	}
	u := planner.Usage{Queued: s.queued, Staged: s.queued, Created: s.queued, Started: s.queued, Ended: s.ended,
		Missing: planner.CountersAll}
	until := s.queued.Add(est.Run)
	if s.more != nil {
		u.Staged, u.Created, u.Started = planner.Time(s.more[0]), planner.Time(s.more[1]), planner.Time(s.more[2])
		u.Ended, until = planner.Time(s.more[3]), planner.Time(s.more[4])
		for k, c := range chunkCounters {
			reflect.ValueOf(&u).Elem().FieldByIndex(c.index).SetInt(s.more[5+k])
		}
	}
	return t.addAttempt(&attempt{order: &planner.Order{Kind: planner.OrderStart, Attempt: s.id, Task: id, Node: s.node,
		Hold: l.hold, Try: 1, Until: until, Est: est}, queued: s.queued, started: u.Started, tally: l.tally,
		exit: &planner.AttemptExited{Attempt: s.id, Outcome: l.outcome, ExitCode: l.code, Message: l.message,
			Ran: time.Duration(ran), Usage: u}})
}

// Views of rows and of chunks. In a chunk, a row of a task is [task from the first on, name, kind, stage,
// trace_runtime_ns, input_bytes, parents, attempt, node, queued_ns, ran_ns, estimate_ns, more]. It ends before ran_ns
// if that and estimate_ns are trace_runtime_ns; more is left out, or [staged_ns, created_ns, started_ns, ended_ns,
// planned_end_ns, counters...].
var chunkTask = map[string]string{
	"run": "c.run", "task": "c.task + (j.value ->> 0)", "workflow": "c.workflow", "name": "j.value ->> 1",
	"kind": "j.value ->> 2", "stage": "j.value ->> 3", "trace_runtime_ns": "j.value ->> 4",
	"input_bytes": "j.value ->> 5", "parents": "j.value ->> 6", "attempt": "j.value ->> 7",
	"node": "nullif(j.value ->> 8, -1)", "attempts": "1", "queued_ns": "j.value ->> 9", "ended_ns": chunkEnded,
	"identity": "NULL",
}

var chunkAttempt = map[string]string{
	"run": "c.run", "task": "c.task + (j.value ->> 0)", "attempt": "j.value ->> 7", "node": "j.value ->> 8",
	"queued_ns": "j.value ->> 9", "ran_ns": chunkRan, "estimate_ns": chunkEstimate,
	"staged_ns": chunkInstant(0), "created_ns": chunkInstant(1), "started_ns": chunkInstant(2), "ended_ns": chunkEnded,
	"planned_end_ns": "iif(json_array_length(j.value) < 13, (j.value ->> 9) + " + chunkEstimate + ", " +
		"j.value ->> '$[12][4]')",
}

const (
	chunkRan      = "(j.value ->> iif(json_array_length(j.value) = 10, 4, 10))"
	chunkEstimate = "(j.value ->> iif(json_array_length(j.value) = 10, 4, 11))"
	chunkEnded    = "iif(json_array_length(j.value) < 13, (j.value ->> 9) + " + chunkRan + ", j.value ->> '$[12][3]')"
)

func chunkInstant(n int) string {
	return fmt.Sprintf("iif(json_array_length(j.value) < 13, j.value ->> 9, j.value ->> '$[12][%d]')", n)
}

// taskOnly are columns of chunks that are of tasks.
var taskOnly = []string{"need_millicores", "need_memory_bytes", "need_disk_bps", "time_limit_ns", "imputed", "image",
	"state"}

// rowViews are the views of rows, of all tables that chunks have rows of too.
func (db *DB) rowViews() (string, error) {
	shared, err := db.strings("SELECT name FROM pragma_table_info('task_chunks')")
	if err != nil {
		return "", err
	}
	var all strings.Builder
	for _, v := range []struct {
		name, rows string
		of         map[string]string
	}{{"tasks", "task_rows", chunkTask}, {"attempts", "attempt_rows", chunkAttempt}} {
		columns, err := db.strings("SELECT name FROM pragma_table_info('" + v.rows + "')")
		if err != nil {
			return "", err
		}
		var own, of []string
		for _, c := range columns {
			own = append(own, c)
			expression, ok := v.of[c]
			if k := slices.IndexFunc(chunkCounters, func(x counter) bool { return x.column == c }); !ok && k >= 0 {
				expression = fmt.Sprintf("iif(json_array_length(j.value) < 13, 0, j.value ->> '$[12][%d]')", 5+k)
			} else if !ok && slices.Contains(shared, c) {
				expression = "c." + c
			} else if !ok {
				expression = "NULL"
			}
			of = append(of, expression)
		}
		if v.name == "attempts" { // with what is of the task, where the attempt has no column of that name
			both, as := slices.Clone(columns), slices.Clone(of)
			for _, c := range slices.Concat(taskOnly, slices.Sorted(maps.Keys(chunkTask))) {
				if !slices.Contains(both, c) {
					both, as = append(both, c), append(as, cmp.Or(chunkTask[c], "c."+c))
				}
			}
			fmt.Fprintf(&all, "CREATE VIEW chunk_tasks(first, last, %s) AS SELECT c.task, c.last_task, %s "+
				"FROM task_chunks c CROSS JOIN json_each(c.rows) j;\n", strings.Join(both, ", "),
				strings.Join(as, ", "))
		}
		fmt.Fprintf(&all, "CREATE VIEW %s(%s) AS SELECT %s FROM %s UNION ALL\n"+
			"SELECT %s FROM task_chunks c CROSS JOIN json_each(c.rows) j;\n", v.name, strings.Join(columns, ", "),
			strings.Join(own, ", "), v.rows, strings.Join(of, ", "))
	}
	all.WriteString(waitsView)
	return all.String(), nil
}

// Views of the log that most are asked for. As views of rows and chunks they would make SQLite go through all runs, so
// they are two views in one: of rows, and of chunks, where each task is there with its attempt.
const (
	taskReady = `(SELECT CASE WHEN total(p.state <> 'done') = 0 THEN max(w.arrived_ns, w.release_ns, ` +
		`coalesce(max(p.ended_ns), 0)) END
     FROM json_each(t.parents) d CROSS JOIN tasks p ON p.run = t.run AND p.task = d.value)`
	parentOf = `coalesce((SELECT p.%[1]s FROM task_rows p WHERE p.run = t.run AND p.task = d.value), ` +
		`(SELECT p.%[1]s FROM chunk_tasks p WHERE p.run = t.run AND p.first <= d.value AND p.last >= d.value ` +
		`AND p.task = d.value ORDER BY p.first DESC LIMIT 1))`
	tasksOfRun    = "JOIN tasks t ON t.run = r.id AND t.state <> 'continued'"
	attemptOfTask = "  LEFT JOIN attempts a ON a.run = r.id AND a.attempt = t.attempt\n"
	attemptsOfRun = "JOIN attempts a ON a.run = r.id\n"
	taskOfAttempt = "JOIN tasks t ON t.run = r.id AND t.task = a.task\n"
)

// ofRows are the views of connections that see no chunks.
func ofRows(views string) string {
	views = regexp.MustCompile(`(?ms)^--\{$.*?^--\}\n`).ReplaceAllString(views, "")
	return regexp.MustCompile(`\{(\w+)_rows\}`).ReplaceAllString(views, "${1}s")
}

// inParts are the views of the log itself: it makes two views in one of those that are two.
func inParts(views string) (string, error) {
	views = regexp.MustCompile(`(?m)^--[{}]\n`).ReplaceAllString(views, "")
	views = regexp.MustCompile(`\{(\w+_rows)\}`).ReplaceAllString(views, "$1")
	inRows := strings.NewReplacer("JOIN tasks t ", "JOIN task_rows t ", "JOIN attempts a ", "JOIN attempt_rows a ",
		taskReady, "(SELECT CASE WHEN total("+fmt.Sprintf(parentOf, "state")+" <> 'done') = 0 THEN max(w.arrived_ns, "+
			"w.release_ns, coalesce(max("+fmt.Sprintf(parentOf, "ended_ns")+"), 0)) END FROM json_each(t.parents) d)")
	for _, v := range []struct {
		name     string
		from, to []string
		alias    string
		as       string
	}{
		{"v_tasks", []string{tasksOfRun, attemptOfTask, taskReady}, []string{"JOIN chunk_tasks t ON t.run = r.id", "",
			taskReady}, "a", "t"},
		{"v_attempts", []string{attemptsOfRun, taskOfAttempt}, []string{"JOIN chunk_tasks a ON a.run = r.id\n", ""},
			"t", "a"},
	} {
		_, rest, _ := strings.Cut(views, "CREATE VIEW "+v.name+" AS\n")
		body, _, _ := strings.Cut(rest, ";")
		chunks := body
		for i := range v.from {
			if !strings.Contains(body, v.from[i]) {
				return "", fmt.Errorf("view %s does not have %q", v.name, v.from[i])
			}
			chunks = strings.Replace(chunks, v.from[i], v.to[i], 1)
		}
		chunks = regexp.MustCompile(`\b`+v.alias+`\.`).ReplaceAllString(chunks, v.as+".")
		views = strings.Replace(views, body, inRows.Replace(body)+"\nUNION ALL\n"+inRows.Replace(chunks), 1)
	}
	return views, nil
}

const waitsView = "CREATE VIEW waits AS SELECT run, task, seq, since_ns, reason, dim, node, until_ns FROM wait_rows " +
	"UNION ALL\nSELECT c.run, i.value, c.seq + (j.value ->> 1), j.value ->> 2, c.reason, nullif(c.dim, ''), " +
	"j.value ->> 3, j.value ->> 4 FROM wait_chunks c CROSS JOIN json_each(c.rows) j " +
	"CROSS JOIN json_each(j.value, '$[0]') i;\n"
