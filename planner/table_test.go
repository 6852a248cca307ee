package planner_test

import (
	"reflect"
	"testing"
	"time"

	"gantry/planner"
	"gantry/planner/unit"
)

// What is known of a task stays known when its workflow and all those beside it have ended, but for its links.
func TestEndedTasksAreKept(t *testing.T) {
	const flows, each = 1200, 5 // some pages of the table of tasks, which workflows straddle
	s := planner.NewState(&planner.Platform{Nodes: []planner.Node{{Speed: 1, Capacity: unit.Vector{1e9, 1 << 40,
		unit.Unlimited}}}}, planner.DefaultRetryRules())
	seq := uint64(0)
	apply := func(b planner.Body) {
		t.Helper()
		seq++
		must(t, s.Apply(planner.Event{Seq: seq, At: planner.Time(seq), Body: b}))
	}
	var want []planner.Task
	attempt := planner.AttemptID(0)
	var began []planner.Time // by attempt
	end := func(w planner.WorkflowID) {
		for i := range planner.TaskID(each) {
			task := planner.TaskID(w)*each + i
			apply(&planner.PlanCommitted{Orders: []planner.Order{{Kind: planner.OrderStart, Attempt: attempt,
				Task: task, Try: 1, Hold: unit.Cores(1), Until: planner.Time(seq) + 9}}})
			apply(planner.AttemptStarted{Attempt: attempt})
			began = append(began, planner.Time(seq))
			apply(&planner.AttemptExited{Attempt: attempt, Outcome: planner.OK, Ran: time.Nanosecond})
			attempt++
		}
	}
	for w := range planner.WorkflowID(flows) {
		b := &planner.WorkflowArrived{Workflow: planner.Workflow{ID: w, Due: unit.Never}}
		for i := range planner.TaskID(each) {
			task := planner.Task{ID: planner.TaskID(w)*each + i, Workflow: w, Kind: planner.KindID(w % 7),
				Stage: int32(i), Need: unit.Cores(1 + int64(w%3)), Retries: int32(w % 4),
				Checkpointable: i%2 == 0, CheckpointSize: unit.Bytes(w), Restartable: i%3 == 0}
			want = append(want, task)
			if i > 0 {
				task.Parents = []planner.TaskID{task.ID - i}
				b.Tasks[0].Children = append(b.Tasks[0].Children, task.ID)
			}
			b.Tasks = append(b.Tasks, task)
			b.Workflow.Tasks = append(b.Workflow.Tasks, task.ID)
		}
		apply(b)
		if w%2 == 1 { // the later one first
			end(w)
			if w > 1 {
				end(w - 3)
			}
		}
	}
	for i := range want {
		if got := *s.View().Task(planner.TaskID(i)); i < (flows-2)*each && !reflect.DeepEqual(got, want[i]) {
			t.Fatalf("task %d is %+v, want %+v", i, got, want[i])
		}
	}
	v := s.View()
	for a := range attempt {
		att := v.Attempt(a)
		if att.Started != began[a] || att.Ordered != began[a]-1 || att.Until != began[a]+7 || !att.Over ||
			att.Hold != unit.Cores(1) || att.Suspended != unit.Never || v.Phase(att.Task) != planner.Done ||
			v.Last(att.Task) != a || v.Tries(att.Task) != 1 {
			t.Fatalf("attempt %d, which began at %v, is %+v of a task that is %s", a, began[a], *att, v.Phase(att.Task))
		}
	}
	if last := s.View().Task(flows*each - each - 1); !reflect.DeepEqual(last.Parents, []planner.TaskID{last.ID - each +
		1}) {
		t.Errorf("a task of a workflow that has not ended has parents %v", last.Parents)
	}
}
