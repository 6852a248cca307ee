package planner

// Phase is where a task is in its life:
//
//	Waiting ──► Ready ──► Starting ──► Running ◄──► Suspended
//	   │          ▲ │         │           │             │
//	   │          │ │         ├───────────┴─────────────┤ the attempt ended
//	   │          │ │         ▼                         ▼
//	   │          └─┼──── another try          Done or Failed
//	   └────────────┴──► Skipped (a parent failed, or the workflow was cancelled)
type Phase uint8

const (
	Waiting   Phase = iota // for parents or the release of its workflow
	Ready                  // wants a place
	Starting               // ordered: staging, container creation
	Running                // the program runs
	Suspended              // frozen; wants to continue
	Done
	Failed
	Skipped
)

var phases = [...]string{"waiting", "ready", "starting", "running", "suspended", "done", "failed", "skipped"}

func (p Phase) String() string { return phases[p] }

// Ended reports whether nothing more will happen to the task.
func (p Phase) Ended() bool { return p >= Done }

// Placed reports whether an attempt of the task is under way.
func (p Phase) Placed() bool { return p >= Starting && p <= Suspended }
