// Package api is the protocol of a gantry server and its clients: JSON over HTTP on a Unix socket in the gantry
// directory. It has the types of both sides, and the client.
package api

import (
	"encoding/json"
	"fmt"
	"net/url"
	"time"
)

// SocketName is the base name of the socket in the gantry directory.
const SocketName = "gantry.sock"

// LockName is the base name of the file whose lock the server of a directory holds.
const LockName = "gantry.sock.lock"

// Prefix begins every path; its last element changes when an older client could misunderstand a server.
const Prefix = "/v2"

// MaxRequest bounds the body of a request, in bytes.
const MaxRequest = 64 << 20

// MaxPaths bounds the paths that a single task reads, and those that it writes; LongestPath is the bytes of each.
const (
	MaxPaths    = 16
	LongestPath = 256
)

// MaxTogether bounds how many submissions one request has.
const MaxTogether = 10_000

// Code is why a request was refused; a client decides by it, people read the message.
type Code string

const (
	Invalid  Code = "invalid"  // the request, or a submission in it, is wrong
	Unknown  Code = "unknown"  // it names something that is not there
	Denied   Code = "denied"   // the caller may not
	Full     Code = "full"     // no room: the disk, or a limit
	Draining Code = "draining" // the server takes no more work
	Ending   Code = "ending"   // the server is about to end; another one may take over
	Failed   Code = "failed"   // a fault of the server's own
)

// Error is the answer to a request that was refused.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

func (e *Error) Error() string { return e.Message }

// Submit hands in work, all of it or nothing.
type Submit struct {
	// Key is random, and another one for each submission: a request that is repeated with its key, since no answer
	// came, is the same submission.
	Key       string     `json:"key"`
	Workflows []Workflow `json:"workflows,omitempty"`
	Tasks     []Task     `json:"tasks,omitempty"` // single ones, numbered after the workflows
	// AtMost is how many of Tasks may be under way at once; 0: all.
	AtMost int `json:"at_most,omitempty"`
	// Secrets are values by name, for all programs of the request. They are in no log.
	Secrets map[string][]byte `json:"secrets,omitempty"`
}

// Task is a single task of a request. It is one of a workflow that grows: tasks of one user, tenant and class that name
// the same workflow are of one, as long as that has not ended.
type Task struct {
	Workflow string `json:"workflow,omitempty"` // "": tasks
	// Definition is a submission of one task in the encoding of the log.
	Definition []byte       `json:"definition"`
	After      []Dependency `json:"after,omitempty"`
	Labels     Labels       `json:"labels,omitempty"` // the client's own, as of a Workflow
	// Reads and Writes are absolute paths of the host that it reads and writes, as far as they are known, at most
	// MaxPaths: from these the server learns which kinds of tasks follow which.
	Reads  []string `json:"reads,omitempty"`
	Writes []string `json:"writes,omitempty"`
}

// Dependency is a submission that has to end before a task starts.
type Dependency struct {
	ID    int64 `json:"id"`
	Ended bool  `json:"ended,omitempty"` // in any way
	// Failed: any way but well. Without Ended and Failed it has to end well.
	Failed bool `json:"failed,omitempty"`
}

// Workflow is one workflow of a request.
type Workflow struct {
	Name string `json:"name"`
	// Definition is the submission in the encoding of the log. Its instants count from when the server accepts it.
	Definition []byte `json:"definition"`
	// Labels are the client's own: they are kept, and are in each Status.
	Labels Labels `json:"labels,omitempty"`
	// RejectLate asks to refuse it if it cannot meet its deadline.
	RejectLate bool `json:"reject_late,omitempty"`
}

// Labels are a client's notes on a submission: at most MaxLabels, of MaxLabelBytes in all. Only clients use them.
type Labels map[string]string

// Bounds of Secrets.
const (
	MaxSecrets     = 64
	MaxSecretBytes = 1 << 20 // of all of a request
)

// Bounds of Labels.
const (
	MaxLabels     = 24
	MaxLabelBytes = 8 << 10
)

// ID is the variable of the environment in which a job that works in a directory of the host finds its number.
const ID = "GANTRY_ID"

// Accepted is the answer to Submit: it is in the log.
type Accepted struct {
	Run string  `json:"run"`
	IDs []int64 `json:"ids"` // consecutive, in the order of the request
	// Names are those that the workflows have in the run.
	Names []string `json:"names"`
}

// Throttled is the Reason of a task that waits only since AtMost others of its request are under way.
const Throttled = "as many tasks of its request are under way as may be"

// Status is how a submission stands. Instants are by the wall clock; nil: not yet, or not known.
type Status struct {
	ID       int64  `json:"id"`
	Run      string `json:"run"`
	Name     string `json:"name"`               // of the workflow in the run; of a single task, of the task
	Kind     string `json:"kind"`               // workflow or task
	Workflow string `json:"workflow,omitempty"` // of a single task: its user's name for its workflow
	User     string `json:"user,omitempty"`
	UID      int    `json:"uid"`
	// Veiled says that it is another user's: only its number, name, user and state are given.
	Veiled bool   `json:"veiled,omitempty"`
	Tenant string `json:"tenant,omitempty"`
	Class  string `json:"class,omitempty"`
	// State is accepted, waiting, running, suspended, done, failed, refused, cancelled, continued or skipped.
	State   string `json:"state"`
	Message string `json:"message,omitempty"` // why it was refused
	// CancelledBy is the user that withdrew it, if that was a single task or had not arrived.
	CancelledBy *int   `json:"cancelled_by,omitempty"`
	Reason      string `json:"reason,omitempty"` // why it waits
	Over        bool   `json:"over"`             // nothing more will happen to it
	// Of a single task: the exit code of its program, and the signal that ended it, 0 for none. Exit is 128 and the
	// signal then, but a program may return such a code itself.
	Exit   *int `json:"exit,omitempty"`
	Signal int  `json:"signal,omitempty"`
	// Of a single task, or of a workflow of one: its last attempt.
	Outcome string        `json:"outcome,omitempty"` // how it ended, such as ok, exit-code or timed-out
	Node    string        `json:"node,omitempty"`
	Peak    int64         `json:"peak,omitempty"` // memory that it used, bytes
	CPU     time.Duration `json:"cpu,omitempty"`  // time that it computed, ns
	Labels  Labels        `json:"labels,omitempty"`

	Tasks   int `json:"tasks,omitempty"`
	Done    int `json:"done,omitempty"`
	Running int `json:"running,omitempty"`
	Failed  int `json:"failed,omitempty"` // failed or skipped

	Submitted time.Time  `json:"submitted"`
	Release   *time.Time `json:"release,omitempty"` // it starts no earlier
	Due       *time.Time `json:"due,omitempty"`
	Started   *time.Time `json:"started,omitempty"`
	Ended     *time.Time `json:"ended,omitempty"`
	// Results is where its results lie, from the gantry directory on; single tasks have none.
	Results  string    `json:"results,omitempty"`
	Expected *Expected `json:"expected,omitempty"`
}

// Expected is when a submission is expected to start and end.
type Expected struct {
	Start *time.Time `json:"start,omitempty"` // nil: it has started
	// StartLow and StartHigh bound the start, as Low and High the end; nil: it has started.
	StartLow  *time.Time `json:"start_low,omitempty"`
	StartHigh *time.Time `json:"start_high,omitempty"`
	End       time.Time  `json:"end,omitzero"` // zero: nobody knows, as Note says
	// Low and High bound the end with a probability of 80 %; the same where nothing varies.
	Low  time.Time `json:"low,omitzero"`
	High time.Time `json:"high,omitzero"`
	// Late says that a policy that plans deadlines does not expect to meet the one that there is; nil: the policy
	// plans none, or there is no deadline.
	Late *bool  `json:"late,omitempty"`
	Note string `json:"note,omitempty"` // a remark of the policy or the prediction
}

// QueueOf says which submissions a list is to have. The zero value is those that are not over.
type QueueOf struct {
	All   bool    `json:"all,omitempty"`   // also the latest of those that are over
	IDs   []int64 `json:"ids,omitempty"`   // only these and others of the same requests, of any age; at most MaxAsked
	Users []int   `json:"users,omitempty"` // only those of these users, by number
	Brief bool    `json:"brief,omitempty"` // nothing is predicted, and no reason explained
}

// MaxAsked bounds the ids and the users of a QueueOf.
const MaxAsked = 500

func (q QueueOf) query() string {
	text, _ := json.Marshal(q) // numbers can be written
	return url.Values{"of": {string(text)}}.Encode()
}

// ReadQueueOf reads the query of a request.
func ReadQueueOf(v url.Values) (q QueueOf, err error) {
	if text := v.Get("of"); text != "" {
		err = json.Unmarshal([]byte(text), &q)
	}
	if n := len(q.IDs) + len(q.Users); err == nil && n > MaxAsked {
		err = fmt.Errorf("it asks for %d submissions and users, and may for %d", n, MaxAsked)
	}
	return q, err
}

// Queue is the answer to a question for submissions.
type Queue struct {
	Server      Server   `json:"server"`
	Submissions []Status `json:"submissions"`
	More        int      `json:"more,omitempty"`  // that are not over and were left out, as there are too many
	Older       bool     `json:"older,omitempty"` // some that are over were left out
}

// Server describes the server.
type Server struct {
	Run       string    `json:"run"`
	PID       int       `json:"pid"`
	Version   string    `json:"version"`
	Policy    string    `json:"policy"`
	Runtime   string    `json:"runtime"`
	TimeScale float64   `json:"time_scale"`      // of emulated tasks
	Image     string    `json:"image,omitempty"` // of commands that name none; "": they are emulated
	Started   time.Time `json:"started"`         // the run
	// Platform is the nodes as the planner knows them, for workloads whose load depends on them.
	Platform  json.RawMessage `json:"platform,omitempty"`
	Draining  bool            `json:"draining,omitempty"`
	Workflows int             `json:"workflows"` // present
	Waiting   int             `json:"waiting"`   // tasks that have not started
	Running   int             `json:"running"`   // attempts under way
}

// Tenants is how the tenants stand.
type Tenants struct {
	Tenants []Tenant `json:"tenants"`
	// Jain is Jain's index of the dominant shares of tenants that have work: from 1 over their number up to 1, when
	// they have the same; 0 if nothing runs.
	Jain float64 `json:"jain"`
}

// Tenant is how one stands now. Times are of its workflows, from arrival or release to the first start.
type Tenant struct {
	Name      string        `json:"name"`
	Workflows int           `json:"workflows"` // that have arrived in the run
	Present   int           `json:"present"`   // of these: that have not ended
	Waiting   int           `json:"waiting"`   // tasks that have not started
	Running   int           `json:"running"`   // attempts under way
	Cores     float64       `json:"cores"`     // that they hold
	Memory    int64         `json:"memory_bytes"`
	Share     float64       `json:"share"`              // dominant share of the capacity of the nodes
	Dominant  string        `json:"dominant,omitempty"` // of which resource that is
	MeanWait  time.Duration `json:"mean_wait_ns"`
	MaxWait   time.Duration `json:"max_wait_ns"`
	Oldest    time.Duration `json:"oldest_ns"` // that one waits which has not started
	// Others marks the sum of all tenants that are not the caller's business.
	Others bool `json:"others,omitempty"`
}

// Node is a node as it is now.
type Node struct {
	Name    string  `json:"name"`
	Cores   float64 `json:"cores"`
	Memory  int64   `json:"memory_bytes,omitempty"` // 0: no limit
	Running int     `json:"running"`
	Drained bool    `json:"drained,omitempty"`
}

// Values of ChangeNode.To.
const (
	NodeDrained = "drained" // nothing more starts on it
	NodeWhole   = "whole"   // all that it had when the run began
	NodeSet     = "set"     // a part of that
)

// ChangeNode changes the capacity of a node for new attempts. Attempts under way continue.
type ChangeNode struct {
	To     string  `json:"to"`
	Cores  float64 `json:"cores,omitempty"`        // 0: as it was when the run began
	Memory int64   `json:"memory_bytes,omitempty"` // 0: as it was when the run began
}

// Drain asks a server to take no more work, and to end when its work is done.
type Drain struct {
	// Now lets running tasks end, and leaves waiting ones to the next server.
	Now bool `json:"now,omitempty"`
}
