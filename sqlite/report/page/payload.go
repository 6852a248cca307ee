package page

import (
	"bytes"
	"encoding/json"

	"github.com/klauspost/compress/gzip"

	"gantry/sqlite/report/history"
)

// The data of a page is one JSON object, a payload, compressed by gzip and written as base64. web/data.js reads it.
//
// Numbers that each task or attempt has are columns: arrays of the differences from one row to the next. Their instants
// and spans are counted in units of run.unit nanoseconds, their sizes are in kB, CPU in millicores, and texts that
// repeat are numbers of a list. Other instants and spans are nanoseconds. Instants count from the beginning of the run.
type payload struct {
	Written string `json:"written"` // RFC 3339
	Live    bool   `json:"live"`
	Runs    []*run `json:"runs"`
}

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

	Unit        int64               `json:"unit"`                 // ns
	End         int64               `json:"end"`                  // of the last event
	Makespan    *int64              `json:"makespan"`             // of the run; null while it is under way
	Ends        *int64              `json:"ends"`                 // as the rest was simulated last; null: not known
	Submission  string              `json:"submission,omitempty"` // number of the one that the page shows
	Predicted   *predicted          `json:"predicted,omitempty"`
	Memory      []memory            `json:"memory"`
	Nodes       []history.Node      `json:"nodes"`
	Kinds       []string            `json:"kinds"`
	Workflows   []history.Workflow  `json:"workflows"`
	Outcomes    []string            `json:"outcomes"`
	Sources     []string            `json:"sources"` // of estimates
	Imputations []string            `json:"imputations"`
	Reasons     []string            `json:"reasons"` // of waits, "code dimension"
	Causes      []string            `json:"causes"`  // the same in words
	Names       string              `json:"names"`   // of tasks, one a line
	Task        taskColumns         `json:"task"`
	Attempt     map[string]column   `json:"attempt"` // attemptColumns writes them
	Odd         []odd               `json:"odd"`
	Away        awayColumns         `json:"away"` // suspensions
	Wait        waitColumns         `json:"wait"`
	Reused      []reused            `json:"reused"`
	Notes       []note              `json:"notes"`
	Edges       [2]column           `json:"edges"` // child, parent
	Ran         []ran               `json:"ran"`   // by task; none of too many
	Results     []Result            `json:"results"`
	More        int                 `json:"more"` // results that are not listed
	Answer      answer              `json:"answer"`
	Warnings    []warning           `json:"warnings"`
	Failures    []failure           `json:"failures"`
	Failed      int                 `json:"failed"`  // attempts; failures has the first of them
	Metrics     map[string]*float64 `json:"metrics"` // null: it has no value in this run
	Copies      []copied            `json:"copies"`
	Changes     []change            `json:"changes"`
	Others      *Others             `json:"others"`
	Without     []string            `json:"without"` // the parts that the page leaves out, and why
}

// predicted is the makespan that gantry expected last, with its interval of 80 %.
type predicted struct {
	Makespan int64 `json:"makespan"`
	Low      int64 `json:"low"`
	High     int64 `json:"high"`
	Made     int64 `json:"made"` // 0: before the run
}

// memory has GB·h by type of task: v_memory.
type memory struct {
	Kind   string  `json:"kind"`
	Held   float64 `json:"held"`
	Used   float64 `json:"used"`
	Wasted float64 `json:"wasted"`
	Saved  float64 `json:"saved"` // against declared
}

type taskColumns struct {
	Workflow column `json:"workflow"`
	Kind     column `json:"kind"`
	State    column `json:"state"` // of history.States
	Cores    column `json:"cores"` // needed
	Memory   column `json:"memory"`
	Disk     column `json:"disk"`  // kB/s
	Limit    column `json:"limit"` // of time; 0: none
	Imputed  column `json:"imputed"`
}

// Bits of column known of attempts.
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
	GPUs    string   `json:"gpus,omitempty"`     // names
	GPU     *int64   `json:"gpu,omitempty"`      // time of GPUs
	GPUPeak *int64   `json:"gpu_peak,omitempty"` // bytes
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

type ran struct {
	Command string   `json:"command,omitempty"`
	Image   string   `json:"image,omitempty"`
	Inputs  []string `json:"inputs,omitempty"`
	Outputs []string `json:"outputs,omitempty"`
	Needs   []string `json:"needs,omitempty"` // besides those of all
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

// copied is a file on its way to a node.
type copied struct {
	File  string `json:"file"`
	Node  int64  `json:"node"`
	From  int64  `json:"from"`
	Since int64  `json:"since"`
	Until *int64 `json:"until"` // null: it did not arrive
}

// change is a new capacity of a node.
type change struct {
	Node       int64 `json:"node"`
	At         int64 `json:"at"`
	Millicores int64 `json:"millicores"` // 0: it was lost
}

// thorough is the level of pages that are kept: the best takes five times as long for three hundredths less.
const thorough = 8

func pack(data []byte, level int) []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, level) // the levels are constants
	_, _ = z.Write(data)                   // into memory
	_ = z.Close()
	return b.Bytes()
}

type column []int64

// MarshalJSON writes the differences from one number to the next: they are small, and compress well.
func (c column) MarshalJSON() ([]byte, error) {
	differences, last := make([]int64, len(c)), int64(0)
	for i, v := range c {
		differences[i], last = v-last, v
	}
	return json.Marshal(differences)
}
