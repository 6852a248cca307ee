package sbatch

import (
	"fmt"
	"strings"
)

// State is how far a job is, as Slurm names it.
type State uint8

const (
	Pending State = iota
	Running
	Suspended
	Completed
	Cancelled
	Failed
	Timeout
	NodeFail
	Preempted
	OutOfMemory
)

// states are the names of states, long and compact. Those after the constants never happen here, but may be asked for.
var states = []struct{ long, compact string }{
	{"PENDING", "PD"}, {"RUNNING", "R"}, {"SUSPENDED", "S"}, {"COMPLETED", "CD"}, {"CANCELLED", "CA"}, {"FAILED", "F"},
	{"TIMEOUT", "TO"}, {"NODE_FAIL", "NF"}, {"PREEMPTED", "PR"}, {"OUT_OF_MEMORY", "OOM"},
	{"BOOT_FAIL", "BF"}, {"DEADLINE", "DL"}, {"COMPLETING", "CG"}, {"CONFIGURING", "CF"}, {"RESIZING", "RS"},
	{"RESV_DEL_HOLD", "RD"}, {"REQUEUED", "RQ"}, {"REQUEUE_FED", "RF"}, {"REQUEUE_HOLD", "RH"}, {"REVOKED", "RV"},
	{"SIGNALING", "SI"}, {"SPECIAL_EXIT", "SE"}, {"STAGE_OUT", "SO"}, {"STOPPED", "ST"},
}

func (s State) String() string { return states[s].long }

// Compact is the short name of a state, such as PD.
func (s State) Compact() string { return states[s].compact }

// Ended reports whether a job in that state is over.
func (s State) Ended() bool { return s > Suspended }

// stateSet reads a list of states. All is nil.
func stateSet(text string) (map[State]bool, error) {
	out := map[State]bool{}
	for name := range strings.SplitSeq(text, ",") {
		name = strings.ToUpper(name)
		if name == "ALL" {
			return nil, nil
		}
		at := -1
		for i, s := range states {
			if name == s.long || name == s.compact {
				at = i
			}
		}
		if at < 0 {
			var all []string
			for _, s := range states {
				all = append(all, s.long)
			}
			return nil, fmt.Errorf("state %q is not known; states are %s", name, strings.Join(all, ", "))
		}
		out[State(at)] = true
	}
	return out, nil
}
