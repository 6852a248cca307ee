package page

import (
	"encoding/json"
	"testing"
	"time"

	"gantry/executor/forecast/rounds"
	"gantry/planner/unit"
)

// A live page computes a part once and shows it at each poll.
func TestAComputedPartIsTheSameAtEachPoll(t *testing.T) {
	x := &Extra{Copies: []rounds.Copy{{Since: 1e9, Until: 3e9}, {Since: 2e9, Until: unit.Never}},
		Changes: []rounds.Change{{At: 5e9, Capacity: unit.Vector{500, 64_000_000}}},
		Others:  []Other{{Policy: "fcfs", Makespan: 9 * time.Second, Bars: []Bar{{To: time.Second}}}}}
	var polls [2]string
	for i := range polls {
		r := &reader{out: &run{Unit: int64(time.Millisecond)}}
		r.add(x)
		data, err := json.Marshal(r.out)
		if err != nil {
			t.Fatal(err)
		}
		polls[i] = string(data)
	}
	if polls[0] != polls[1] {
		t.Errorf("the second poll differs:\n%s\n%s", polls[0], polls[1])
	}
}
