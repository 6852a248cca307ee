package own

import (
	"encoding/json"
	"strconv"

	"gantry/planner"
	"gantry/planner/unit"
)

// protocol is the version of the messages.
const protocol = 1

// introduction is the first message to a program.
type introduction struct {
	Type       string            `json:"type"` // begin
	Protocol   int               `json:"protocol"`
	Params     map[string]string `json:"params"`
	Seed       uint64            `json:"seed"` // below 2^53
	Resources  []string          `json:"resources"`
	Nodes      []nodeInfo        `json:"nodes"`
	Links      []linkInfo        `json:"links"`
	Overlapped bool              `json:"overlapped"`
}

type nodeInfo struct {
	ID       planner.NodeID `json:"id"`
	Name     string         `json:"name"`
	Group    string         `json:"group"`
	Speed    float64        `json:"speed"`
	Capacity amounts        `json:"capacity"`
}

type linkInfo struct {
	From      string              `json:"from"`
	To        string              `json:"to"`
	Bandwidth unit.BytesPerSecond `json:"bytes_per_s"` // 0: unlimited
	Latency   int64               `json:"latency_ns"`
}

// amounts is an amount of each resource; null is without bound.
type amounts unit.Vector

// MarshalJSON implements json.Marshaler.
func (v amounts) MarshalJSON() ([]byte, error) { return numbers(v[:], unit.Unlimited), nil }

// numbers writes a list as JSON, in which one number stands for null.
func numbers[T ~int64](list []T, null T) []byte {
	out := []byte{'['}
	for i, x := range list {
		if i > 0 {
			out = append(out, ',')
		}
		if x == null {
			out = append(out, "null"...)
		} else {
			out = strconv.AppendInt(out, int64(x), 10)
		}
	}
	return append(out, ']')
}

// greeting answers the introduction.
type greeting struct {
	Protocol int `json:"protocol"`
}

// news is the message of a round.
type news struct {
	Type      string           `json:"type"` // round
	Round     int64            `json:"round"`
	Now       planner.Time     `json:"now_ns"`
	Whole     bool             `json:"whole,omitempty"`
	Arrived   []workflowInfo   `json:"arrived,omitempty"`
	Grown     []workflowInfo   `json:"grown,omitempty"` // whole, with the new tasks
	Ready     []readyInfo      `json:"ready,omitempty"`
	Started   []startedInfo    `json:"started,omitempty"`
	Finished  []endedInfo      `json:"finished,omitempty"`
	Failed    []planner.TaskID `json:"failed,omitempty"` // for good, or skipped
	Suspended []planner.TaskID `json:"suspended,omitempty"`
	Appeared  []planner.FileID `json:"appeared,omitempty"`
	Changed   []changedInfo    `json:"changed,omitempty"`
	Free      []freeInfo       `json:"free,omitempty"`
}

type workflowInfo struct {
	ID      planner.WorkflowID `json:"id"`
	Name    string             `json:"name"`
	Tenant  planner.TenantID   `json:"tenant"`
	Called  string             `json:"tenant_name"`
	Class   string             `json:"class"`
	Arrived planner.Time       `json:"arrived_ns"`
	Release planner.Time       `json:"release_ns"`
	Due     *planner.Time      `json:"due_ns"`
	Tasks   []taskInfo         `json:"tasks"`
	Files   []fileInfo         `json:"files"`
}

type taskInfo struct {
	ID      planner.TaskID   `json:"id"`
	Name    string           `json:"name"`
	Kind    planner.KindID   `json:"kind"`
	Type    string           `json:"type"`
	Need    amounts          `json:"need"`
	Parents []planner.TaskID `json:"parents"`
	Inputs  []planner.FileID `json:"inputs"`
	Outputs []planner.FileID `json:"outputs"`
	Run     json.RawMessage  `json:"run_ns"`
	Rank    int64            `json:"rank_ns"`
	State   string           `json:"state,omitempty"`
}

type fileInfo struct {
	ID       planner.FileID   `json:"id"`
	Bytes    unit.Bytes       `json:"bytes"`
	Producer *planner.TaskID  `json:"producer"`
	Nodes    []planner.NodeID `json:"nodes,omitempty"` // of one from outside: where it is; none: everywhere
}

type readyInfo struct {
	Task planner.TaskID  `json:"task"`
	Try  int             `json:"try"`
	Run  json.RawMessage `json:"run_ns"`
	Stay json.RawMessage `json:"stay_ns"` // with its copies
	Rank int64           `json:"rank_ns"`
}

type startedInfo struct {
	Task  planner.TaskID `json:"task"`
	Node  planner.NodeID `json:"node"`
	Since planner.Time   `json:"since_ns"`
	Until planner.Time   `json:"until_ns"` // estimated
}

type endedInfo struct {
	Task planner.TaskID `json:"task"`
	Node planner.NodeID `json:"node"` // -1: nowhere, its result was there
	Ran  int64          `json:"ran_ns"`
}

type changedInfo struct {
	Node     planner.NodeID `json:"node"`
	Capacity amounts        `json:"capacity"`
}

type freeInfo struct {
	Node planner.NodeID `json:"node"`
	Free amounts        `json:"free"`
}

// answer is what a program says to a round.
type answer struct {
	Keep    bool             `json:"keep"`
	Preempt []preemption     `json:"preempt"`
	Start   []placement      `json:"start"`
	Plan    []placement      `json:"plan"`
	Order   []planner.TaskID `json:"order"`
	Place   string           `json:"place"`
	Wake    *planner.Time    `json:"wake_ns"`
}

type placement struct {
	Task *planner.TaskID `json:"task"`
	Node *planner.NodeID `json:"node"`
	At   *planner.Time   `json:"start_ns"`
}

type preemption struct {
	Task *planner.TaskID `json:"task"`
	How  string          `json:"how"`
}
