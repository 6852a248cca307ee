package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gantry/executor"
	"gantry/planner"
)

// Kinds of submissions.
const (
	KindWorkflow = "workflow" // a whole workflow
	KindTask     = "task"     // one task of a workflow that grows
)

// States of submissions. Those of ones that arrived are the states of their workflows and tasks.
const (
	Accepted  = "accepted" // it has not arrived yet
	Arrived   = "arrived"
	Refused   = executor.SettledRefused
	Cancelled = executor.SettledCancelled
)

// Submitted is a row of the table of that name: a submission to a server.
type Submitted struct {
	ID         int64
	Run        string // of the server
	Key        string // that the client chose for the request
	Position   int    // in the request
	UID, GID   int    // of the process that handed it in, from the kernel
	PID        int
	User       string // name of UID; "" if it has none
	Tenant     string
	Name       string // of the workflow in the run; of a task: of the task
	Kind       string
	Wall       time.Time    // when it was accepted
	At         planner.Time // the same, on the axis of the run
	Arrival    planner.Time // when it arrives
	State      string
	Message    string // of one that was refused: why
	Workflow   planner.WorkflowID
	Task       planner.TaskID // None: it is a whole workflow
	Options    string         // JSON: instructions beside the definition; "" for none
	Settled    *planner.Time  // when it was refused or cancelled; nil: it was not, or that was not noted
	Definition []byte         // of the submission, as EncodeSubmission has it or as its kind says; nil once it arrived
}

// EncodeSubmission writes a submission as the log keeps it and as a client sends it to a server: JSON, which S2
// compresses. All of it is there: nothing is left to be drawn.
func EncodeSubmission(s *executor.Submission) ([]byte, error) {
	text, err := jsonv2.Marshal(s, submissionJSON)
	if err != nil {
		return nil, err
	}
	return pack(text)
}

// Submission reads the definition of a submission that has not arrived.
func (s *Submitted) Submission() (*executor.Submission, error) {
	text, err := Unpack(s.Definition, math.MaxInt)
	if err != nil {
		return nil, err
	}
	return DecodeSubmission(text)
}

// DecodeSubmission reads the JSON of EncodeSubmission, unpacked. It does not judge the values: see CheckSubmission in
// package server.
func DecodeSubmission(text []byte) (*executor.Submission, error) {
	s := new(executor.Submission)
	err := jsonv2.Unmarshal(text, s, submissionJSON, jsonv2.RejectUnknownMembers(true))
	if err == nil && s.Workflow != nil {
		err = s.Workflow.Link()
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// submissionJSON keeps every byte: a string that is no UTF-8, as a script in Latin-1, is an array of its bytes in
// base64.
var submissionJSON = jsonv2.JoinOptions(logJSON, jsontext.AllowInvalidUTF8(false),
	jsonv2.WithMarshalers(jsonv2.MarshalToFunc(func(to *jsontext.Encoder, s string) error {
		if utf8.ValidString(s) {
			return to.WriteToken(jsontext.String(s))
		}
		return jsonv2.MarshalEncode(to, [1][]byte{[]byte(s)})
	})),
	jsonv2.WithUnmarshalers(jsonv2.JoinUnmarshalers(readVector, jsonv2.UnmarshalFromFunc(func(from *jsontext.Decoder,
		s *string) error {
		if from.PeekKind() != '[' {
			return errors.ErrUnsupported
		}
		var b [1][]byte
		err := jsonv2.UnmarshalDecode(from, &b)
		*s = string(b[0])
		return err
	}))))

// Accept keeps the submissions of one request, whole or not at all: once it returned without an error a crash
// loses none of it. It numbers the rows. Named then gives each its name.
func (r *Run) Accept(rows []Submitted, named func(s *Submitted)) error {
	return r.db.transact(func() (err error) {
		for i := range rows {
			s := &rows[i]
			if s.ID, err = r.db.queryInt("INSERT INTO submitted(run, key, position, uid, gid, pid, user, tenant, "+
				"name, kind, accepted_wall, accepted_ns, at_ns, options, definition) VALUES "+
				"(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, nullif(?, ''), ?) RETURNING id", r.id, s.Key, i, s.UID, s.GID,
				s.PID, s.User, s.Tenant, s.Name, s.Kind, wall(s.Wall), s.At, s.Arrival,
				s.Options, s.Definition); err != nil {
				return err
			}
			s.Run, s.Position, s.State, s.Workflow, s.Task = r.info.Name, i, Accepted, planner.None, planner.None
			named(s)
			if err := r.db.exec("UPDATE submitted SET name = ? WHERE id = ?", s.Name, s.ID); err != nil {
				return err
			}
		}
		return nil
	})
}

const submittedColumns = "SELECT s.id, r.name, s.key, s.position, s.uid, s.gid, s.pid, s.user, s.tenant, s.name, " +
	"s.kind, s.accepted_wall, s.accepted_ns, s.at_ns, s.state, coalesce(s.message, ''), coalesce(s.workflow, -1), " +
	"coalesce(s.task, -1), coalesce(s.options, ''), s.options ->> '$.settled_ns' " +
	"FROM submitted s JOIN runs r ON r.id = s.run "

// Submitted returns a submission of any run of the log.
func (db *DB) Submitted(ctx context.Context, id int64) (*Submitted, error) {
	s, err := RowOf[Submitted](ctx, db, submittedColumns+"WHERE s.id = ?", id)
	if err == nil && s.ID == 0 {
		err = unknownf("there is no submission %d: gantry queue --all lists them", id)
	}
	return &s, err
}

// SubmittedWith returns the submissions of a request; none if it was not accepted.
func (db *DB) SubmittedWith(ctx context.Context, key string) ([]Submitted, error) {
	return RowsOf[Submitted](ctx, db, submittedColumns+"WHERE s.key = ? ORDER BY s.position", key)
}

// SubmittedTo returns the latest submissions to any server of the log, the newest first, at most that many; of these
// users, by number, unless that is nil.
func (db *DB) SubmittedTo(ctx context.Context, users []int, most int) (latest []Submitted, err error) {
	const order = "ORDER BY s.id DESC LIMIT ?"
	if users == nil {
		return RowsOf[Submitted](ctx, db, submittedColumns+order, most)
	}
	for _, user := range users { // one by one they are found by an index, in this order
		of, err := RowsOf[Submitted](ctx, db, submittedColumns+"WHERE s.uid = ? "+order, user, most)
		if err != nil {
			return nil, err
		}
		latest = append(latest, of...)
	}
	slices.SortFunc(latest, func(a, b Submitted) int { return cmp.Compare(b.ID, a.ID) })
	latest = slices.CompactFunc(latest, func(a, b Submitted) bool { return a.ID == b.ID })
	return latest[:min(len(latest), most)], nil
}

// Waiting returns the submissions to the run that have not arrived, by arrival, with their definitions.
func (r *Run) Waiting(ctx context.Context) ([]Submitted, error) {
	return RowsOf[Submitted](ctx, r.db, strings.Replace(submittedColumns, " FROM", ", s.definition FROM", 1)+
		"WHERE s.run = ? AND s.state = 'accepted' ORDER BY s.at_ns, s.id", r.id)
}

// Entered returns the submissions to the run that have arrived or were settled, in order.
func (r *Run) Entered(ctx context.Context) ([]Submitted, error) {
	return RowsOf[Submitted](ctx, r.db,
		submittedColumns+"WHERE s.run = ? AND s.state <> 'accepted' ORDER BY s.id", r.id)
}

// settle notes the outcomes of submissions, within the transaction of a batch.
func (r *Run) settle(b *executor.Batch) error {
	for _, a := range b.Admissions {
		if a.Submission.ID == 0 {
			continue
		}
		var task any // NULL for a whole workflow
		if a.Submission.Joins != nil {
			task = a.Arrived.Tasks[0].ID
		}
		if err := r.db.exec("UPDATE submitted SET state = ?, workflow = ?, task = ?, definition = NULL WHERE id = ?",
			Arrived, a.Spec.ID, task, a.Submission.ID); err != nil {
			return err
		}
	}
	for _, s := range b.Settled {
		if err := r.db.exec("UPDATE submitted SET state = ?, message = nullif(?, ''), definition = NULL, options = "+
			"json_patch(coalesce(options, '{}'), json_object('settled_ns', ?, 'cancelled_by', ?)) WHERE id = ?",
			s.State, s.Message, s.At, s.By, s.ID); err != nil {
			return err
		}
	}
	return nil
}

// Outcome is how a submission stands: its own state, or that of its workflow or task once it arrived.
type Outcome struct {
	Submitted
	Tasks, Done, Failed int           // of the workflow
	Flow                string        // name of the workflow in the run, also of a task; "" until it arrived
	Started, Ended      *planner.Time // on the axis of the run; nil: not yet
	Exit                *int          // of a task that ended: the exit code of its program, if it had one
	Attempt             LastAttempt   // of a task, or of a workflow of one
}

// LastAttempt is the last one of a task; the zero value if there was none.
type LastAttempt struct {
	Outcome string // "" while it is under way
	Node    string
	Peak    int64         // bytes of memory; 0: not known
	CPU     time.Duration // 0: not known
	Signal  int           // that ended its program; 0: none
}

// Over reports whether the submission has reached its end. A cancelled workflow reaches its end with its last running
// attempt.
func (o *Outcome) Over() bool {
	switch o.State {
	case "running": // a workflow whose tasks have failed stays so while its run is under way
		return o.Task == planner.None && o.Tasks > 0 && o.Done+o.Failed == o.Tasks
	case Accepted, Arrived, "waiting", "ready", "starting", "suspended":
		return false
	case Refused:
		return true
	}
	return o.Workflow == planner.None || o.Task != planner.None || o.Done+o.Failed == o.Tasks || o.State == "continued"
}

// Outcome returns how a submission stands.
func (db *DB) Outcome(ctx context.Context, id int64) (*Outcome, error) {
	s, err := db.Submitted(ctx, id)
	if err != nil {
		return nil, err
	}
	return db.OutcomeOf(ctx, s)
}

// OutcomeOf returns how a submission stands whose row was read just now.
func (db *DB) OutcomeOf(ctx context.Context, s *Submitted) (*Outcome, error) {
	o := &Outcome{Submitted: *s}
	if s.Workflow != planner.None {
		const of = "(SELECT count(*) FROM tasks t WHERE t.run = w.run AND " + OfWorkflow + " AND t.state "
		// t is the task of the submission, or the only one of its workflow.
		if err := db.one(ctx, `SELECT iif(?3 < 0, w.state, t.state), iif(?3 < 0, w.tasks, 1),
				CASE WHEN ?3 >= 0 THEN t.state = 'done' WHEN w.state = 'done' THEN w.tasks ELSE `+of+`= 'done') END,
				CASE WHEN ?3 >= 0 THEN t.state IN ('failed', 'skipped') WHEN w.state = 'done' THEN 0
					ELSE `+of+`IN ('failed', 'skipped')) END,
				w.name, iif(?3 < 0, w.started_ns, t.queued_ns),
				iif(?3 < 0 AND a.attempt IS NULL, w.ended_ns, t.ended_ns), a.exit_code, coalesce(a.outcome, ''),
				coalesce(n.name, ''), coalesce(a.peak_memory_bytes, 0), coalesce(a.cpu_user_ns + a.cpu_system_ns, 0),
				coalesce(a.signal, 0)
			FROM runs r JOIN workflows w ON w.run = r.id AND w.workflow = ?2
			LEFT JOIN tasks t ON t.run = r.id
				AND t.task = CASE WHEN ?3 >= 0 THEN ?3 WHEN w.tasks = 1 THEN w.first_task END
			LEFT JOIN attempts a ON a.run = r.id AND a.attempt = t.attempt AND a.node >= 0
			LEFT JOIN nodes n ON n.run = r.id AND n.node = a.node WHERE r.name = ?1`, []any{s.Run, s.Workflow, s.Task},
			&o.State, &o.Tasks, &o.Done, &o.Failed, &o.Flow, &o.Started, &o.Ended, &o.Exit, &o.Attempt.Outcome,
			&o.Attempt.Node, &o.Attempt.Peak, &o.Attempt.CPU, &o.Attempt.Signal); err != nil {
			return nil, err
		}
	}
	if s.State != Arrived {
		if o.State = s.State; o.Ended == nil {
			o.Ended = s.Settled
		}
	}
	return o, nil
}

func (db *DB) insertSubmissions(run int64, subs []executor.Submission) error {
	for i := range subs {
		blob, err := EncodeSubmission(&subs[i])
		if err != nil {
			return fmt.Errorf("submission %s: %w", subs[i].Name, err)
		}
		if err := db.exec("INSERT INTO submissions(run, position, at_ns, name, definition) VALUES (?, ?, ?, ?, ?)", run,
			i, subs[i].At, subs[i].Name, blob); err != nil {
			return err
		}
	}
	return nil
}

// Submissions returns submissions from that position on: the number of workflows that have arrived leaves those
// still to come.
func (r *Run) Submissions(ctx context.Context, from int) ([]executor.Submission, error) {
	var out []executor.Submission
	err := EachRow(ctx, r.db, func(row *struct {
		Name string
		Blob []byte
	}) error {
		sub, err := (&Submitted{Definition: row.Blob}).Submission()
		if err != nil {
			return fmt.Errorf("read log %s: run %s, submission %s: %w", r.db.path, r.info.Name, row.Name, err)
		}
		out = append(out, *sub)
		return nil
	}, "SELECT name, definition FROM submissions WHERE run = ? AND position >= ? ORDER BY position", r.id, from)
	return out, err
}
