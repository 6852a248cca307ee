package page

import (
	"encoding/json"
	"testing"
	"time"
)

// A live page computes a part once and shows it at each poll.
func TestAComputedPartIsTheSameAtEachPoll(t *testing.T) {
	x := &Extra{Copies: []Copy{{Since: time.Second, Until: 3 * time.Second}, {Since: 2 * time.Second, Until: -1}},
		Changes: []NodeChange{{At: 5 * time.Second, Millicores: 500, Memory: 64_000_000}},
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
