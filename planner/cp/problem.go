// Package cp matches and schedules jobs with deadlines by constraint programming: tasks are intervals, tied by
// precedence, that share cumulative resources; as few jobs as possible may end after their deadlines. It is the model
// of MRCP-RM (Lim, Majumdar and Ashwood-Smith, "MRCP-RM: A Technique for Resource Allocation and Scheduling of
// MapReduce Jobs with Deadlines", IEEE TPDS 28(5), 2017), as recalled of it, for any precedences, on one resource that
// sums up all: exact where slots are alike, since intervals of which no more than C overlap can always be given to C
// slots. The solver is complete on small problems, as far as its search steps go; of others it takes the best list
// schedule. The same problem always has the same solution.
package cp

import (
	"time"

	"gantry/planner/unit"
)

// Problem is a set of jobs to be scheduled from Now on. Parents are of the job of their children, and stand before
// them; every task takes some time, and fits.
type Problem struct {
	Now      unit.Time
	Capacity unit.Vector // of the summed resource
	// Nodes, if set, are the capacities of nodes on which tasks are placed instead: for needs of different sizes, or
	// runtimes that differ.
	Nodes []unit.Vector
	Fixed []Stay // tasks that have started: neither moved nor stopped
	Jobs  []Job
	Tasks []Task // parents before children
}

// Stay is the place that a started task holds until its end.
type Stay struct {
	Hold unit.Vector
	End  unit.Time
	Node int32 // among Nodes
}

// Job is a set of tasks with a common deadline.
type Job struct {
	Release unit.Time // earliest start s_j
	Due     unit.Time // deadline d_j; unit.Never if there is none
	Floor   unit.Time // end of its last started task; 0 if none has started
}

// Task is an interval to be placed.
type Task struct {
	Job     int32
	Need    unit.Vector
	Run     time.Duration   // with Nodes: the shortest
	RunOn   []time.Duration // by node; negative where it does not fit
	After   unit.Time       // end of its last started parent; 0 if none has started
	Parents []int32         // among Tasks
	Number  int64           // of equals the lower comes first, then the one that stands first
}

// Solution is a schedule. Late is the objective, sum of N_j; Ends, the sum of the ends of all jobs after Now, decides
// among equals, and orders solutions like the sum of turnarounds.
type Solution struct {
	Start []unit.Time // by task
	On    []int32     // by task, among Nodes
	End   []unit.Time // by job
	Late  int
	Ends  float64 // seconds
	Bound int     // no schedule has fewer late jobs
}
