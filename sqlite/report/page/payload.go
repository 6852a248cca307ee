package page

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"strconv"

	"github.com/klauspost/compress/gzip"
)

// The data of a page is one JSON object, a payload, compressed by gzip and written as base64. web/data.js reads it.
//
// Numbers that each task or attempt has are columns: the differences from one row to the next as varints (zigzag), as
// base64. A column of zeros is their number. Instants and spans are counted in units of run.unit nanoseconds,
// instants from the beginning of the run; sizes are in kB, CPU in millicores. Texts that repeat are numbers of a list.
type payload struct {
	Written string `json:"written"` // RFC 3339
	Live    bool   `json:"live"`
	Runs    []*run `json:"runs"`
}

// run is a run as the page shows it.
type run struct {
	Name      string          `json:"name"`
	Policy    string          `json:"policy"`
	Runtime   string          `json:"runtime"`
	State     string          `json:"state"`
	Left      bool            `json:"left"` // its state is running, and no gantry holds it
	Started   string          `json:"started"`
	Version   string          `json:"version"`
	Command   []string        `json:"command"`
	Seed      int64           `json:"seed"`
	TimeScale float64         `json:"time_scale"`
	SizeScale float64         `json:"size_scale"`
	Host      json.RawMessage `json:"host,omitempty"`
	Settings  json.RawMessage `json:"settings,omitempty"`
	Resumes   int             `json:"resumes"`

	Unit        int64               `json:"unit"`     // ns
	End         int64               `json:"end"`      // of the last event
	Makespan    *int64              `json:"makespan"` // of the run; null while it is under way
	Predicted   *predicted          `json:"predicted,omitempty"`
	Nodes       []node              `json:"nodes"`
	Kinds       []string            `json:"kinds"`
	Workflows   []workflow          `json:"workflows"`
	Outcomes    []string            `json:"outcomes"`
	Sources     []string            `json:"sources"` // of estimates
	Imputations []string            `json:"imputations"`
	Reasons     []string            `json:"reasons"` // of waits, "code dimension"
	Names       string              `json:"names"`   // of tasks, one a line
	Task        taskColumns         `json:"task"`
	Attempt     attemptColumns      `json:"attempt"`
	Odd         []odd               `json:"odd"`
	Away        awayColumns         `json:"away"` // suspensions
	Wait        waitColumns         `json:"wait"`
	Reused      []reused            `json:"reused"`
	Notes       []note              `json:"notes"`
	Edges       [2]column           `json:"edges"` // child, parent
	Waits       waits               `json:"waits"`
	Answer      answer              `json:"answer"`
	Warnings    []warning           `json:"warnings"`
	Failures    []failure           `json:"failures"`
	Failed      int                 `json:"failed"`  // attempts; failures has the first of them
	Metrics     map[string]*float64 `json:"metrics"` // null: it has no value in this run
	Plans       *plans              `json:"plans"`
	Copies      []move              `json:"copies"`  // of files between nodes
	Changes     []change            `json:"changes"` // of nodes
	Others      *others             `json:"others"`
	Without     []string            `json:"without"` // the parts that the page leaves out, and why
}

// predicted is the makespan that gantry expected last, with its interval of 80 %.
type predicted struct {
	Makespan int64 `json:"makespan"`
	Low      int64 `json:"low"`
	High     int64 `json:"high"`
	Made     int64 `json:"made"` // 0: before the run
}

type node struct {
	Name       string  `json:"name"`
	Group      string  `json:"group,omitempty"`
	Millicores int64   `json:"millicores"`
	Memory     *int64  `json:"memory"` // bytes; null: unlimited
	Disk       *int64  `json:"disk"`   // bytes a second; null: unlimited
	Speed      float64 `json:"speed"`
	Lanes      int     `json:"lanes"` // attempts that were there at once
}

type workflow struct {
	Name    string `json:"name"`
	Tenant  string `json:"tenant,omitempty"`
	Class   string `json:"class"`
	State   string `json:"state"`
	Arrived int64  `json:"arrived"`
	Release int64  `json:"release"`
	Due     *int64 `json:"due"`
	Ended   *int64 `json:"ended"`
	Tasks   int    `json:"tasks"`
}

type taskColumns struct {
	Workflow column `json:"workflow"`
	Kind     column `json:"kind"`
	State    column `json:"state"` // of states
	Cores    column `json:"cores"` // needed
	Memory   column `json:"memory"`
	Disk     column `json:"disk"`  // kB/s
	Limit    column `json:"limit"` // of time; 0: none
	Imputed  column `json:"imputed"`
}

// states are those of tasks, by number.
var states = []string{"waiting", "starting", "running", "suspended", "done", "failed", "skipped", "continued"}

// Bits of attemptColumns.Known.
const (
	knowsStart = 1 << iota
	knowsEnd
	knowsCPU
	knowsMemory
	knowsDisk
	knowsThrottled
	knowsPlan
	knowsEstimate
)

// attemptColumns has a number of each attempt, in the order of their orders.
type attemptColumns struct {
	Task      column `json:"task"`
	Try       column `json:"try"`
	Node      column `json:"node"` // -1: none, for a task without time
	Lane      column `json:"lane"`
	Wait      column `json:"wait"`    // from ready, or the end of the try before, to the order
	Queued    column `json:"queued"`  // instant of the order
	Staging   column `json:"staging"` // from the order until the inputs were there
	Begin     column `json:"begin"`   // from then until the program ran
	Run       column `json:"run"`     // from then to its end, or so far
	Over      column `json:"over"`    // the end less the planned one
	Error     column `json:"error"`   // the estimate less the time from inputs in place to the end
	Spread    column `json:"spread"`  // of the estimate
	Samples   column `json:"samples"`
	Source    column `json:"source"`
	Outcome   column `json:"outcome"` // 0: under way
	Known     column `json:"known"`
	Cores     column `json:"cores"`  // held, less the need of the task
	Memory    column `json:"memory"` // held, less the need of the task
	Disk      column `json:"disk"`   // held, less the need of the task
	CPU       column `json:"cpu"`    // used
	Throttled column `json:"throttled"`
	Peak      column `json:"peak"`
	Read      column `json:"read"`
	Written   column `json:"written"`
	Copied    column `json:"copied"` // inputs from other nodes
	// Limits as the kernel has them; 0: none, or not readable.
	AppliedCores  column `json:"applied_cores"`
	AppliedMemory column `json:"applied_memory"`
	AppliedRead   column `json:"applied_read"` // kB/s
	AppliedWrite  column `json:"applied_write"`
}

// odd has the values that few attempts have.
type odd struct {
	Attempt int      `json:"attempt"`
	Exit    *int64   `json:"exit,omitempty"`
	Message string   `json:"message,omitempty"`
	OOM     *int64   `json:"oom,omitempty"` // kills
	Dropped *int64   `json:"dropped,omitempty"`
	Moved   *int64   `json:"moved,omitempty"`
	Done    *float64 `json:"done,omitempty"` // fractions of the task
	Kept    *float64 `json:"kept,omitempty"`
	Before  *int64   `json:"before,omitempty"`
	Lost    *int64   `json:"lost,omitempty"`
}

type awayColumns struct {
	Attempt column   `json:"attempt"`
	Since   column   `json:"since"`
	Until   column   `json:"until"`
	How     []string `json:"how"`
}

// waitColumns has a row for each change of the reason for which a task waits.
type waitColumns struct {
	Task   column `json:"task"`
	Since  column `json:"since"`
	Reason column `json:"reason"`
	Node   column `json:"node"`  // -1: none
	Until  column `json:"until"` // less Since; 0: none
}

// reused is a task that took over the outputs of an earlier attempt.
type reused struct {
	Task int    `json:"task"`
	At   int64  `json:"at"`
	Run  string `json:"run"` // of that attempt; "" for this one, which was continued
	Ran  int64  `json:"ran"` // the time that it took
}

// note is a statement of the policy on a task or on its workflow.
type note struct {
	At       int64  `json:"at"`
	Workflow int    `json:"workflow"` // -1: none
	Task     int    `json:"task"`     // -1: none
	Topic    string `json:"topic"`
	Text     string `json:"text,omitempty"`
	Instant  *int64 `json:"instant,omitempty"`
}

type warning struct {
	Message string `json:"message"`
	Count   int    `json:"count"`
}

type failure struct {
	Attempt int      `json:"attempt"`
	Task    string   `json:"task"`
	Outcome string   `json:"outcome"`
	Exit    *int64   `json:"exit"`
	Message string   `json:"message"`
	Output  []string `json:"output"` // its last lines
}

// move is a copy of a file to a node.
type move struct {
	File  string `json:"file"`
	Node  int    `json:"node"`
	From  int    `json:"from"`
	Since int64  `json:"since"`
	Until int64  `json:"until"` // -1: not yet
}

// change is a new capacity of a node.
type change struct {
	Node       int   `json:"node"`
	At         int64 `json:"at"`
	Millicores int64 `json:"millicores"` // 0: it was lost
	Memory     int64 `json:"memory"`     // kB
}

// plans is the plan as some rounds of planning left it, each whole.
type plans struct {
	Rounds []int64 `json:"rounds"` // their numbers
	At     column  `json:"at"`     // when they were
	Count  column  `json:"count"`  // segments of each
	Total  int     `json:"total"`  // rounds there were
	Note   string  `json:"note,omitempty"`
	Task   column  `json:"task"` // of all segments, one round after the other
	Node   column  `json:"node"`
	Start  column  `json:"start"`
	End    column  `json:"end"` // less Start
}

// others are simulations of the run with other policies.
type others struct {
	Note     string  `json:"note,omitempty"` // why there are none
	Policies []other `json:"policies"`
}

// other is the run as another policy would have had it.
type other struct {
	Policy      string  `json:"policy"`
	Title       string  `json:"title,omitempty"`
	Own         bool    `json:"own,omitempty"` // the policy of the run itself, simulated alike
	Error       string  `json:"error,omitempty"`
	Makespan    int64   `json:"makespan"`
	Late        int     `json:"late"`
	Due         int     `json:"due"`      // workflows with a deadline
	Lateness    int64   `json:"lateness"` // of the late ones, on average
	Utilisation float64 `json:"utilisation"`
	Lanes       int     `json:"lanes"`
	Lane        column  `json:"lane"` // of bars: stays within one pixel are one bar
	From        column  `json:"from"`
	Length      column  `json:"length"`
	Kind        column  `json:"kind"`
	Workflow    column  `json:"workflow"`
}

// thorough is the level of pages that are kept: the best takes five times as long for three hundredths less.
const thorough = 8

// pack compresses data.
func pack(data []byte, level int) []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, level) // the levels are constants
	_, _ = z.Write(data)                   // into memory
	_ = z.Close()
	return b.Bytes()
}

// column is a list of numbers as the differences from one to the next, each a varint: small differences take a byte.
type column []int64

// MarshalJSON writes the varints as base64.
func (c column) MarshalJSON() ([]byte, error) {
	out := make([]byte, 0, 2*len(c)+16)
	last, any := int64(0), int64(0)
	for _, v := range c {
		out = binary.AppendVarint(out, v-last)
		last = v
		any |= v
	}
	if any == 0 {
		return strconv.AppendInt(nil, int64(len(c)), 10), nil
	}
	text := make([]byte, 0, base64.StdEncoding.EncodedLen(len(out))+2)
	text = append(text, '"')
	text = base64.StdEncoding.AppendEncode(text, out)
	return append(text, '"'), nil
}
