package planner_test

import (
	"encoding/json"
	"testing"

	"gantry/planner"
)

// The log keeps platforms as JSON: links stay shared there.
func TestSharedLinksSurviveTheLog(t *testing.T) {
	p := &planner.Platform{Nodes: []planner.Node{{ID: 0}, {ID: 1, Group: 1}, {ID: 2, Group: 1}},
		Groups: []string{"a", "b"}}
	p.Join(0, 1, 1e6, 0)
	p.Share(0, 1)
	text, err := json.Marshal(p)
	must(t, err)
	back := &planner.Platform{}
	must(t, json.Unmarshal(text, back))
	for _, of := range []*planner.Platform{p, back} {
		_, across := of.SharedLink(1, 0)
		_, within := of.SharedLink(1, 2)
		_, alone := of.SharedLink(1, 1)
		if !across || within || alone {
			t.Errorf("shared across %v, within %v, on one node %v", across, within, alone)
		}
	}
}
