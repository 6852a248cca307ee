package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"maps"
	"slices"

	"gantry/sqlite/sqlite3"

	"gantry/planner"
)

// sums adds up the tasks and attempts of a simulation, as the queries and views that Summary asks of a real run do.
// SQLite would need them as rows first: making 200,000 of these and sorting them by type takes more than a second.
type sums struct {
	clock    int64
	kinds    map[string]*kindSum
	nodes    map[int64]*nodeSum
	outcomes map[string]*Count
	lost     int64
	sources  map[string]*sourceSum

	input, local    int64 // bytes that attempts read, and of these on their nodes
	starting, begun int64 // time until programs began, and for which these held nodes
}

// life is an attempt.
type life struct {
	kind                                    string // of the task
	outcome, source                         string // "": NULL
	node, millicores, lost                  int64
	estimate, ran, input, copied            number
	queued, staged, created, started, ended number
}

// number is NULL if it is not known.
type number struct {
	n     int64
	known bool
}

func numberOf(v driver.Value) number {
	n, ok := v.(int64)
	return number{n, ok}
}

func (v value) number() number { return number{v.n, v.kind == isNumber} }

func (a number) minus(b number) number { return number{a.n - b.n, a.known && b.known} }

func (a number) or(b number) number {
	if a.known {
		return a
	}
	return b
}

// mean is of the numbers that are known.
type mean struct{ sum, count int64 }

func (m *mean) add(x number) {
	if x.known {
		m.sum += x.n
		m.count++
	}
}

func (m *mean) span() *Span {
	if m.count == 0 {
		return nil
	}
	return spanOf(float64(m.sum) / float64(m.count) / 1e9)
}

func spanOf(seconds float64) *Span {
	s := Span(seconds*1e9 + 0.5)
	return &s
}

// total is a sum with what rounding took from it, by Kahan and Babuška as SQLite has it.
type total struct{ sum, rest float64 }

func (t *total) add(x float64) {
	sum := t.sum + x
	if abs(t.sum) > abs(x) {
		t.rest += t.sum - sum + x
	} else {
		t.rest += x - sum + t.sum
	}
	t.sum = sum
}

func (t *total) value() float64 { return t.sum + t.rest }

func abs(x float64) float64 { return max(x, -x) }

type kindSum struct {
	tasks, done, failed, attempts int
	estimated, measured, ran      mean
	shortest, longest             int64 // measured
}

type nodeSum struct {
	attempts int
	held     total // core seconds
}

type sourceSum struct {
	attempts, ratios int
	ratio, off       total
	lowest, highest  float64
}

// at is the entry of a map, which is made if there is none.
func at[K comparable, V any](m map[K]*V, key K) *V {
	v := m[key]
	if v == nil {
		v = new(V)
		m[key] = v
	}
	return v
}

// tasks counts tasks of a type in a state.
func (s *sums) tasks(kind, state string, n int) {
	if state == taskStates[taskContinued] {
		return
	}
	k := at(s.kinds, kind)
	k.tasks += n
	switch state {
	case taskStates[taskDone]:
		k.done += n
	case taskStates[taskFailed]:
		k.failed += n
	}
}

func (s *sums) attempt(l *life) {
	o := at(s.outcomes, cmp.Or(l.outcome, "under-way"))
	o.Count++
	s.lost += l.lost
	away := l.ended.minus(l.started).minus(l.ran)
	frozen := max(0, away.n)
	if !away.known {
		frozen = 0
	}
	node := at(s.nodes, l.node)
	node.attempts++
	if l.queued.known {
		end := l.ended.or(number{s.clock, true})
		node.held.add(float64(l.millicores) / 1e3 * float64(end.n-l.queued.n-frozen) / 1e9)
	}
	if l.started.known && l.input.known {
		s.input += l.input.n
		if l.copied.known {
			s.local += l.input.n - l.copied.n
		}
	}
	if l.ended.known && l.started.known && l.created.known && l.created.n < l.started.n {
		if ready := l.staged.or(l.queued); ready.known {
			s.starting += l.started.n - ready.n
		}
		if l.queued.known && away.known {
			s.begun += l.ended.n - l.queued.n - frozen
		}
	}
	k := at(s.kinds, l.kind)
	k.attempts++
	if l.outcome != planner.OK.String() {
		return
	}
	measured := l.ended.minus(l.staged.or(l.created).or(l.started).or(l.queued))
	measured.n -= frozen
	if measured.known {
		if k.measured.count == 0 {
			k.shortest, k.longest = measured.n, measured.n
		}
		k.shortest, k.longest = min(k.shortest, measured.n), max(k.longest, measured.n)
	}
	k.measured.add(measured)
	k.estimated.add(l.estimate)
	k.ran.add(l.ran)
	if !l.estimate.known {
		return
	}
	src := at(s.sources, l.source)
	src.attempts++
	if measured.known && measured.n > 0 {
		ratio := float64(l.estimate.n) / float64(measured.n)
		if src.ratios++; src.ratios == 1 {
			src.lowest, src.highest = ratio, ratio
		}
		src.lowest, src.highest = min(src.lowest, ratio), max(src.highest, ratio)
		src.ratio.add(ratio)
		src.off.add(abs(ratio - 1))
	}
}

// summable says whether sums has all that Summary wants to know of a run: nothing was preempted, planned ahead or
// measured.
const summable = `SELECT NOT EXISTS (SELECT 1 FROM suspensions WHERE run = ?1) AND
	NOT EXISTS (SELECT 1 FROM notes WHERE run = ?1 AND topic = 'planned') AND
	NOT EXISTS (SELECT 1 FROM main.attempt_rows WHERE run = ?1 AND coalesce(cpu_user_ns, cpu_system_ns,
		peak_memory_bytes, read_bytes, written_bytes) IS NOT NULL)`

// sumsOf adds up a simulation, from its chunks and its rows; nil if that would not be all.
func (db *DB) sumsOf(ctx context.Context, run int64) (*sums, error) {
	s := &sums{kinds: map[string]*kindSum{}, nodes: map[int64]*nodeSum{}, outcomes: map[string]*Count{},
		sources: map[string]*sourceSum{}}
	var all bool
	if err := db.readers.QueryRowContext(ctx, summable, run).Scan(&all); err != nil || !all {
		return nil, err
	}
	if err := db.readers.QueryRowContext(ctx, "SELECT coalesce(at_ns, 0) FROM clocks WHERE run = ?", run).Scan(
		&s.clock); err != nil {
		return nil, err
	}
	c, err := db.readers.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	err = c.Raw(func(conn any) error {
		c := conn.(*sqlite3.SQLiteConn)
		if err := s.rows(c, run); err != nil {
			return err
		}
		return s.chunks(c, run)
	})
	return s, err
}

// rows takes in tasks and attempts that have rows.
func (s *sums) rows(c *sqlite3.SQLiteConn, run int64) error {
	err := eachRow(c, "SELECT kind, state, count(*) FROM main.task_rows WHERE run = ? GROUP BY 1, 2", run,
		func(v []driver.Value) error {
			kind, _ := v[0].(string)
			state, _ := v[1].(string)
			s.tasks(kind, state, int(numberOf(v[2]).n))
			return nil
		})
	if err != nil {
		return err
	}
	return eachRow(c, `SELECT t.kind, a.outcome, a.estimate_source, a.node, a.hold_millicores, a.lost_ns, a.estimate_ns,
		a.ran_ns, a.input_bytes, a.copied_bytes, a.queued_ns, a.staged_ns, a.created_ns, a.started_ns, a.ended_ns
		FROM main.attempt_rows a CROSS JOIN main.task_rows t ON t.run = a.run AND t.task = a.task WHERE a.run = ?`, run,
		func(v []driver.Value) error {
			l := life{node: numberOf(v[3]).n, millicores: numberOf(v[4]).n, lost: numberOf(v[5]).n,
				estimate: numberOf(v[6]), ran: numberOf(v[7]), input: numberOf(v[8]), copied: numberOf(v[9]),
				queued: numberOf(v[10]), staged: numberOf(v[11]), created: numberOf(v[12]), started: numberOf(v[13]),
				ended: numberOf(v[14])}
			l.kind, _ = v[0].(string)
			l.outcome, _ = v[1].(string)
			l.source, _ = v[2].(string)
			s.attempt(&l)
			return nil
		})
}

// chunks takes in tasks that are in chunks, each with its attempt.
func (s *sums) chunks(c *sqlite3.SQLiteConn, run int64) error {
	more := make([]value, 5+len(chunkCounters))
	counter := func(column string) *value {
		return &more[5+slices.IndexFunc(chunkCounters, func(c counter) bool { return c.column == column })]
	}
	input, copied := counter("input_bytes"), counter("copied_bytes")
	return eachRow(c, "SELECT state, outcome, estimate_source, hold_millicores, lost_ns, rows FROM main.task_chunks "+
		"WHERE run = ?", run, func(v []driver.Value) error {
		state, _ := v[0].(string)
		l := life{millicores: numberOf(v[3]).n, lost: numberOf(v[4]).n}
		l.outcome, _ = v[1].(string)
		l.source, _ = v[2].(string)
		return unpackRows(v[5], func(r *scanner) error {
			r.skip(2) // task and name
			l.kind = r.next().text
			r.skip(1) // stage
			traced := r.next().number()
			r.skip(3) // input_bytes, parents and attempt
			l.node, l.queued = r.next().n, r.next().number()
			if l.ran, l.estimate = traced, traced; r.more() {
				l.ran, l.estimate = r.next().number(), r.next().number()
			}
			l.staged, l.created, l.started = l.queued, l.queued, l.queued
			l.ended = number{l.queued.n + l.ran.n, l.queued.known && l.ran.known}
			l.input, l.copied = number{0, true}, number{0, true}
			if r.more() {
				r.list(more, 5)
				l.staged, l.created, l.started = more[0].number(), more[1].number(), more[2].number()
				l.ended, l.input, l.copied = more[3].number(), input.number(), copied.number()
			}
			s.tasks(l.kind, state, 1)
			s.attempt(&l)
			return r.err
		})
	})
}

// read fills in what a summary has of tasks and attempts.
func (s *sums) read(to *Summary, read reading, id int64) {
	for name, o := range s.outcomes {
		to.Attempts += o.Count
		to.Outcomes = append(to.Outcomes, Count{name, o.Count})
	}
	slices.SortFunc(to.Outcomes, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	to.Lost = Span(s.lost)
	to.Locality, to.Starting = percent(s.local, s.input), percent(s.starting, s.begun)
	for name, k := range s.kinds {
		if k.tasks == 0 {
			continue
		}
		x := KindSummary{Kind: name, Tasks: k.tasks, Done: k.done, Failed: k.failed, Attempts: k.attempts,
			Estimated: k.estimated.span(), Measured: k.measured.span(), Runtime: k.ran.span()}
		if k.measured.count > 0 {
			x.Shortest, x.Longest = spanOf(float64(k.shortest)/1e9), spanOf(float64(k.longest)/1e9)
		}
		to.Kinds = append(to.Kinds, x)
	}
	slices.SortFunc(to.Kinds, func(a, b KindSummary) int {
		return cmp.Or(cmp.Compare(b.Tasks, a.Tasks), cmp.Compare(a.Kind, b.Kind))
	})
	for _, name := range slices.Sorted(maps.Keys(s.sources)) {
		src := s.sources[name]
		x := EstimateSummary{Source: name, Attempts: src.attempts}
		if n := float64(src.ratios); n > 0 {
			ratio, off := src.ratio.value()/n, 100*(src.off.value()/n)
			x.Ratio, x.Lowest, x.Highest, x.Error = &ratio, &src.lowest, &src.highest, &off
		}
		to.Estimates = append(to.Estimates, x)
	}
	slices.SortStableFunc(to.Estimates, func(a, b EstimateSummary) int { return cmp.Compare(b.Attempts, a.Attempts) })
	read(func(scan Scan) error {
		n, err := s.scanNode(scan)
		to.Nodes = append(to.Nodes, n)
		return err
	}, nodesQuery, id)
	read(scanFailure(&to.Failures), failures("t.state = 'failed'", "t.state = 'failed'"), id)
	read(scanFailure(&to.Doubts), failures("t.state = 'done' AND a.message IS NOT NULL",
		"t.state = 'done' AND t.message IS NOT NULL"), id)
}

func percent(part, of int64) *float64 {
	if of == 0 {
		return nil
	}
	p := 100 * float64(part) / float64(of)
	return &p
}

// nodesQuery is what a summary has of nodes but for sums of attempts: number, name, cores, speed, and the time that
// counts.
const nodesQuery = `SELECT n.node, n.name, n.capacity_millicores / 1e3, n.speed, coalesce(r.makespan_ns,
	(SELECT k.at_ns FROM clocks k WHERE k.run = r.id)
		- (SELECT min(w.arrived_ns) FROM workflows w WHERE w.run = r.id)) / 1e9
	FROM runs r JOIN nodes n ON n.run = r.id WHERE r.id = ? ORDER BY n.node`

func (s *sums) scanNode(scan Scan) (n NodeSummary, err error) {
	var id int64
	var span *float64
	if err := scan(&id, &n.Node, &n.Cores, &n.Speed, &span); err != nil {
		return n, err
	}
	sum := s.nodes[id]
	if sum == nil {
		sum = new(nodeSum)
	}
	n.Attempts = sum.attempts
	if n.Cores != nil && span != nil && *n.Cores**span != 0 {
		held := 100 * sum.held.value() / (*n.Cores * *span)
		n.Held = &held
	}
	return n, nil
}

// failures is the query for tasks of a simulation: rows of tasks t with attempts a, and chunks t.
func failures(ofRows, ofChunks string) string {
	return `SELECT w.name, t.name, t.kind, coalesce(n.name, ''), coalesce(t.outcome, ''), t.exit_code,
		coalesce(t.message, ''), t.attempts
	FROM (SELECT t.workflow, t.name, t.kind, t.node, t.attempts, a.outcome, a.exit_code, a.message, a.ended_ns
			FROM main.task_rows t LEFT JOIN main.attempt_rows a ON a.run = t.run AND a.attempt = t.attempt
			WHERE t.run = ?1 AND ` + ofRows + `
		UNION ALL SELECT workflow, name, kind, node, attempts, outcome, exit_code, message, ended_ns
			FROM main.chunk_tasks t WHERE t.run = ?1 AND ` + ofChunks + `) t
	JOIN workflows w ON w.run = ?1 AND w.workflow = t.workflow LEFT JOIN nodes n ON n.run = ?1 AND n.node = t.node
	ORDER BY t.ended_ns`
}
