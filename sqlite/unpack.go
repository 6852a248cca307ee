package sqlite

import (
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/mattn/go-sqlite3"
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
	for _, name := range chunked {
		if err == nil {
			err = copyRows(keeper, id, name)
		}
	}
	if err == nil {
		err = unpackTasks(keeper, id)
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

// copyRows makes a table like NAME_rows in memory, with the rows that a run has of its own. The number of the task or
// attempt is its key, and what is the same in all rows takes no room: the run, and what none of them knows.
func copyRows(c *sqlite3.SQLiteConn, run int64, name string) error {
	columns, err := stringsOf(c, "SELECT name FROM pragma_table_info('"+name+"_rows')")
	if err != nil {
		return err
	}
	var defined, own []string
	for _, column := range columns {
		switch {
		case column == "run":
			defined = append(defined, fmt.Sprint("run INTEGER AS (", run, ")"))
			continue
		case column == name:
			defined = append(defined, column+" INTEGER PRIMARY KEY")
		case inChunks(column):
			defined = append(defined, column)
		default:
			known, err := stringsOf(c, fmt.Sprintf("SELECT 'one' FROM main.%s_rows WHERE run = %d AND %s IS NOT NULL "+
				"LIMIT 1", name, run, column))
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
	_, err = c.Exec(fmt.Sprintf("CREATE TABLE unpacked.%ss (%s);\nINSERT INTO unpacked.%ss(%s) SELECT %s FROM "+
		"main.%s_rows WHERE run = %d;\n", name, strings.Join(defined, ", "), name, names, names, name, run), nil)
	return err
}

// What rows of chunks have of tasks and of attempts, beside the run.
var (
	unpackedTask    = strings.Replace(taskShared, "run, ", "", 1)
	unpackedAttempt = strings.Replace(strings.Replace(attemptShared, "run, ", "", 1), "done, before_ns, kept, ", "", 1)
)

// inChunks reports whether chunks tell of a column.
func inChunks(column string) bool {
	return slices.Contains(strings.Split(unpackedTask+", "+taskColumns+", "+unpackedAttempt+", "+attemptColumns+
		columnsOf(ownCounters), ", "), column)
}

// unpackTasks makes rows of tasks and attempts of the chunks of a run.
func unpackTasks(c *sqlite3.SQLiteConn, run int64) error {
	var tasks, attempts *inserter
	if err := prepare(c, run, []table{{&tasks, "INSERT OR REPLACE", "unpacked.tasks", unpackedTask, taskColumns},
		{&attempts, "INSERT OR REPLACE", "unpacked.attempts", unpackedAttempt, attemptColumns +
			columnsOf(ownCounters)}}); err != nil {
		return err
	}
	defer tasks.close()
	defer attempts.close()
	more := make([]value, 5+len(chunkCounters))
	// The shared columns of tasks, those of attempts, and what is of the chunk.
	shared := strings.Count(unpackedTask, ",") + 1
	query := "SELECT " + strings.Replace(unpackedTask, "attempts", "1", 1) + ", " + unpackedAttempt +
		", task, workflow, rows FROM main.task_chunks WHERE run = ? ORDER BY task"
	return eachRow(c, query, run, func(v []driver.Value) error {
		own := len(v) - 3
		if err := errors.Join(tasks.share(v[:shared]...), attempts.share(v[shared:own]...)); err != nil {
			return err
		}
		first, _ := v[own].(int64)
		flow, _ := v[own+1].(int64)
		return unpackRows(v[own+2], func(s *scanner) error {
			task := first + s.next().n
			name, kind, stage, traced, input, parents := s.next(), s.next(), s.next(), s.next(), s.next(), s.next()
			attempt, node, queued, ran, estimate := s.next(), s.next(), s.next(), s.next(), s.next()
			plain := !s.more()
			if plain {
				more[0], more[1], more[2] = queued, queued, queued
				more[3], more[4] = plus(queued, ran), plus(queued, estimate)
				for k := range chunkCounters {
					more[5+k] = value{kind: isNumber}
				}
			} else {
				s.list(more, 5)
			}
			placed := node
			if node.n == -1 {
				placed = value{}
			}
			tasks.takeInt(task)
			tasks.takeInt(flow)
			for _, x := range [...]value{name, kind, stage, traced, input, parents, placed, attempt, queued, more[3]} {
				tasks.takeValue(x)
			}
			attempts.takeValue(attempt)
			attempts.takeInt(task)
			for _, x := range [...]value{node, more[4], estimate, ran} {
				attempts.takeValue(x)
			}
			instants, counted := [...]value{queued, more[0], more[1], more[2], more[3]}, 5
			for i, c := range ownCounters {
				if c.instant {
					attempts.takeValue(instants[i])
				} else {
					attempts.takeValue(more[counted])
					counted++
				}
			}
			return errors.Join(s.err, tasks.end(), attempts.end())
		})
	}, tasks, attempts)
}

// eachRow calls f for each row that a query finds of a run, and then has what it inserted written.
func eachRow(c *sqlite3.SQLiteConn, query string, run int64, f func([]driver.Value) error, into ...*inserter) error {
	rows, err := c.Query(query, []driver.Value{run})
	if err != nil {
		return err
	}
	defer rows.Close()
	dest := make([]driver.Value, len(rows.Columns()))
	for {
		if err = rows.Next(dest); err == nil {
			err = f(dest)
		}
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
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

// more says whether the list goes on, and steps over the comma.
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
		if i := strings.IndexAny(rest[:min(len(rest), 24)], ",]"); i > 0 {
			if n, err := strconv.ParseInt(rest[:i], 10, 64); err == nil {
				s.at += i
				return value{kind: isNumber, n: n}
			}
		}
	}
	s.fail()
	return value{}
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
