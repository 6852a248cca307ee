package sqlite

import (
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gantry/sqlite/sqlite3"
)

// Chunks are unpacked here rather than by json_each, which parses a row again for each value that is asked of it.

// fill makes rows of the chunks of a run.
func (u *unpacked) fill(id int64, attach string) error {
	c, err := new(sqlite3.SQLiteDriver).Open(dsn(u.db.path, u.db.query+"&_mutex=no"))
	if err != nil {
		return err
	}
	keeper := c.(*sqlite3.SQLiteConn)
	_, err = keeper.Exec(attach+"PRAGMA unpacked.page_size = 16384; PRAGMA unpacked.journal_mode = OFF; "+
		"PRAGMA unpacked.cache_size = -131072; BEGIN", nil)
	x := unpacker{c: keeper, run: id}
	if err == nil {
		err = x.unpack()
	}
	if err == nil {
		_, err = keeper.Exec("COMMIT", nil)
	}
	if err != nil {
		return errors.Join(err, keeper.Close())
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.keeper = keeper
	return nil
}

// unpacker makes tables tasks and attempts of a run, in memory. What is the same in all rows, or follows from the rest,
// takes no room in them: most simulations say little else of most columns.
type unpacker struct {
	c     *sqlite3.SQLiteConn
	run   int64
	plain bool // no row of a chunk says more than rows of chunks have to
	// derived are columns NAME.COLUMN that follow from others, as expressions.
	derived map[string]string
}

// errNotPlain is of a run whose chunks have rows that say more.
var errNotPlain = errors.New("rows of chunks say more")

func (u *unpacker) unpack() error {
	alone, err := stringsOf(u.c, fmt.Sprintf("SELECT 'alone' WHERE NOT EXISTS (SELECT 1 FROM main.task_rows "+
		"WHERE run = %[1]d) AND NOT EXISTS (SELECT 1 FROM main.attempt_rows WHERE run = %[1]d)", u.run))
	if err != nil {
		return err
	}
	u.plain = len(alone) > 0
	for {
		if u.derived, err = nil, nil; len(alone) > 0 {
			u.derived, err = u.derive()
		}
		for _, name := range chunked {
			if err == nil {
				err = u.copyRows(name)
			}
		}
		if err == nil {
			err = u.unpackTasks()
		}
		if !errors.Is(err, errNotPlain) {
			return err
		}
		u.plain = false
		if _, err = u.c.Exec("DROP TABLE unpacked.tasks; DROP TABLE unpacked.attempts", nil); err != nil {
			return err
		}
	}
}

// derive finds the columns of a run without rows of its own that follow from others.
func (u *unpacker) derive() (map[string]string, error) {
	derived := map[string]string{}
	var names, same []string
	for name, columns := range map[string][]string{"task": unpackedTask, "attempt": unpackedAttempt} {
		for _, column := range columns[1:] { // one of them is a column in any case
			names = append(names, name+"."+column)
			same = append(same, strings.ReplaceAll("CASE WHEN min(?) IS max(?) AND count(?) IN (0, count(*)) THEN "+
				"quote(min(?)) END", "?", inChunk(column)))
		}
	}
	err := eachRow(u.c, "SELECT "+strings.Join(same, ", ")+" FROM main.task_chunks WHERE run = ?", u.run,
		func(v []driver.Value) error {
			for i, name := range names {
				if value, ok := v[i].(string); ok {
					derived[name] = value
				}
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	if u.plain {
		for _, c := range ownCounters {
			derived["attempt."+c.column] = "0"
			if c.instant {
				derived["attempt."+c.column] = "queued_ns"
			}
		}
		delete(derived, "attempt.queued_ns")
		derived["attempt.ended_ns"] = "queued_ns + ran_ns"
		derived["attempt.planned_end_ns"] = "queued_ns + estimate_ns"
	}
	return derived, nil
}

// copyRows makes a table like NAME_rows, with the rows that a run has of its own. The number of the task or attempt is
// its key.
func (u *unpacker) copyRows(name string) error {
	columns, err := stringsOf(u.c, "SELECT name FROM pragma_table_info('"+name+"_rows')")
	if err != nil {
		return err
	}
	var defined, own []string
	for _, column := range columns {
		expression, derived := u.derived[name+"."+column]
		switch {
		case column == "run":
			defined = append(defined, fmt.Sprint("run INTEGER AS (", u.run, ")"))
			continue
		case derived:
			defined = append(defined, column+" AS ("+expression+")")
			continue
		case column == name:
			defined = append(defined, column+" INTEGER PRIMARY KEY")
		case inChunks(column):
			defined = append(defined, column)
		default:
			known, err := stringsOf(u.c, fmt.Sprintf("SELECT 'one' FROM main.%s_rows WHERE run = %d AND %s IS NOT "+
				"NULL LIMIT 1", name, u.run, column))
			if err != nil {
				return err
			}
			if len(known) == 0 {
				defined = append(defined, column+" AS (NULL)")
				continue
			}
			defined = append(defined, column)
		}
		own = append(own, column)
	}
	names := strings.Join(own, ", ")
	_, err = u.c.Exec(fmt.Sprintf("CREATE TABLE unpacked.%ss (%s);\nINSERT INTO unpacked.%ss(%s) SELECT %s FROM "+
		"main.%s_rows WHERE run = %d;\n", name, strings.Join(defined, ", "), name, names, names, name, u.run), nil)
	return err
}

// What rows of chunks have of tasks and of attempts, beside the run: first what those of a chunk share.
var (
	unpackedTask    = strings.Split(strings.Replace(taskShared, "run, ", "", 1), ", ")
	unpackedAttempt = strings.Split(strings.Replace(strings.Replace(attemptShared, "run, ", "", 1),
		"done, before_ns, kept, ", "", 1), ", ")
	unpackedRow = strings.Split(taskColumns+", "+attemptColumns+columnsOf(ownCounters), ", ")
)

// inChunks reports whether chunks tell of a column.
func inChunks(column string) bool {
	return slices.Contains(unpackedTask, column) || slices.Contains(unpackedAttempt, column) ||
		slices.Contains(unpackedRow, column)
}

// inChunk is what table task_chunks has of a column that the rows of a chunk share.
func inChunk(column string) string {
	if column == "attempts" {
		return "1"
	}
	return column
}

// kept are the columns of a list that do not follow from others.
func (u *unpacker) kept(name string, columns []string) (kept []string) {
	for _, column := range columns {
		if _, derived := u.derived[name+"."+column]; !derived {
			kept = append(kept, column)
		}
	}
	return kept
}

// unpackTasks makes rows of tasks and attempts of the chunks of a run.
func (u *unpacker) unpackTasks() error {
	list := func(columns []string) string { return strings.Join(columns, ", ") }
	sharedTask, sharedAttempt := u.kept("task", unpackedTask), u.kept("attempt", unpackedAttempt)
	ofAttempt := u.kept("attempt", strings.Split(attemptColumns+columnsOf(ownCounters), ", "))
	var tasks, attempts *inserter
	if err := prepare(u.c, u.run, []table{
		{&tasks, "INSERT OR REPLACE", "unpacked.tasks", list(sharedTask), taskColumns},
		{&attempts, "INSERT OR REPLACE", "unpacked.attempts", list(sharedAttempt), list(ofAttempt)}}); err != nil {
		return err
	}
	defer tasks.close()
	defer attempts.close()
	tasks.most, attempts.most = bulkChunk, bulkChunk
	more := make([]value, 5+len(chunkCounters))
	var columns []string
	for _, column := range slices.Concat(sharedTask, sharedAttempt) {
		columns = append(columns, inChunk(column))
	}
	own := len(columns)
	query := "SELECT " + list(columns) + ", task, workflow, rows FROM main.task_chunks WHERE run = ? ORDER BY task"
	return eachRow(u.c, query, u.run, func(v []driver.Value) error {
		err := errors.Join(tasks.share(v[:len(sharedTask)]...), attempts.share(v[len(sharedTask):own]...))
		if err != nil {
			return err
		}
		first, _ := v[own].(int64)
		flow, _ := v[own+1].(int64)
		return unpackRows(v[own+2], func(s *scanner) error {
			task := first + s.next().n
			name, kind, stage, traced, input, parents := s.next(), s.next(), s.next(), s.next(), s.next(), s.next()
			attempt, node, queued, ran, estimate := s.next(), s.next(), s.next(), traced, traced
			if s.more() {
				ran, estimate = s.next(), s.next()
			}
			if !s.more() {
				more[0], more[1], more[2] = queued, queued, queued
				more[3], more[4] = plus(queued, ran), plus(queued, estimate)
				for k := range chunkCounters {
					more[5+k] = value{kind: isNumber}
				}
			} else if u.plain {
				return errNotPlain
			} else {
				s.list(more, 5)
			}
			placed := node
			if node.n == -1 {
				placed = value{}
			}
			tasks.takeInt(task)
			tasks.takeInt(flow)
			for _, x := range [...]*value{&name, &kind, &stage, &traced, &input, &parents, &placed, &attempt, &queued,
				&more[3]} {
				tasks.takeValue(x)
			}
			attempts.takeValue(&attempt)
			attempts.takeInt(task)
			attempts.takeValue(&node)
			if u.plain {
				attempts.takeValue(&estimate)
				attempts.takeValue(&ran)
				attempts.takeValue(&queued)
				return errors.Join(s.err, tasks.end(), attempts.end())
			}
			for _, x := range [...]*value{&more[4], &estimate, &ran} {
				attempts.takeValue(x)
			}
			instants, counted := [...]*value{&queued, &more[0], &more[1], &more[2], &more[3]}, 5
			for i, c := range ownCounters {
				if c.instant {
					attempts.takeValue(instants[i])
				} else {
					attempts.takeValue(&more[counted])
					counted++
				}
			}
			return errors.Join(s.err, tasks.end(), attempts.end())
		})
	}, tasks, attempts)
}

// eachRow calls f for each row that a query finds of a run, and then has what it inserted written.
func eachRow(c *sqlite3.SQLiteConn, query string, run int64, f func([]driver.Value) error, into ...*inserter) error {
	if err := written(c, f, query, run); err != nil {
		return err
	}
	for _, in := range into {
		if err := in.flush(); err != nil {
			return err
		}
	}
	return nil
}

// unpackRows calls f for each list in a list of them.
func unpackRows(rows driver.Value, f func(*scanner) error) error {
	text, _ := rows.(string)
	s := &scanner{text: text}
	s.expect('[')
	for s.err == nil && s.more() {
		s.expect('[')
		if err := f(s); err != nil {
			return err
		}
		s.expect(']')
	}
	s.expect(']')
	return s.err
}

// value is one in a row of a chunk.
type value struct {
	kind valueKind
	n    int64
	text string // of a list, JSON
}

type valueKind uint8

const (
	isNull valueKind = iota
	isNumber
	isText
)

// plus is a sum; NULL if a part of it is.
func plus(a, b value) value {
	if a.kind != isNumber || b.kind != isNumber {
		return value{}
	}
	return value{kind: isNumber, n: a.n + b.n}
}

// scanner reads the JSON of chunks: lists of whole numbers, texts, nulls and lists, without space between them.
type scanner struct {
	text string
	at   int
	err  error
}

func (s *scanner) fail() {
	if s.err == nil {
		s.err = fmt.Errorf("a chunk of rows is damaged at byte %d", s.at)
	}
	s.at = len(s.text)
}

func (s *scanner) expect(c byte) {
	if s.at >= len(s.text) || s.text[s.at] != c {
		s.fail()
		return
	}
	s.at++
}

// more says whether the list continues, and steps over the comma.
func (s *scanner) more() bool {
	if s.at >= len(s.text) {
		return false
	}
	if s.text[s.at] == ',' {
		s.at++
	}
	return s.at < len(s.text) && s.text[s.at] != ']'
}

// next reads a value.
func (s *scanner) next() value {
	if !s.more() {
		s.fail()
		return value{}
	}
	rest := s.text[s.at:]
	switch c := rest[0]; {
	case c == '"':
		for i := 1; i < len(rest); i++ {
			switch rest[i] {
			case '\\':
				i++
			case '"':
				s.at += i + 1
				if !strings.Contains(rest[1:i], `\`) {
					return value{kind: isText, text: rest[1:i]}
				}
				v := value{kind: isText}
				if json.Unmarshal([]byte(rest[:i+1]), &v.text) != nil {
					s.fail()
				}
				return v
			}
		}
	case c == '[': // of numbers
		if i := strings.IndexByte(rest, ']'); i > 0 {
			s.at += i + 1
			return value{kind: isText, text: rest[:i+1]}
		}
	case strings.HasPrefix(rest, "null"):
		s.at += len("null")
		return value{}
	default:
		if n, err := strconv.ParseInt(rest[:s.number()], 10, 64); err == nil {
			return value{kind: isNumber, n: n}
		}
	}
	s.fail()
	return value{}
}

// number steps over the characters of a number and returns how many these are.
func (s *scanner) number() int {
	i := s.at
	for i < len(s.text) && s.text[i] != ',' && s.text[i] != ']' {
		i++
	}
	n := i - s.at
	s.at = i
	return n
}

// skip passes over values.
func (s *scanner) skip(n int) {
	for range n {
		if s.more() && (s.text[s.at] == '-' || s.text[s.at] >= '0' && s.text[s.at] <= '9') {
			s.number()
		} else {
			s.next()
		}
	}
}

// list reads a list of at least that many values. NULL are those that it ends before: counters that the gantry that
// wrote it did not have.
func (s *scanner) list(to []value, least int) {
	s.expect('[')
	for i := range to {
		to[i] = value{}
		if i < least || s.more() {
			to[i] = s.next()
		}
	}
	s.expect(']')
}
