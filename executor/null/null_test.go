package null_test

import (
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/null"
	"gantry/executor/runtimetest"
	"gantry/planner/unit"
)

func TestContract(t *testing.T) {
	runtimetest.Run(t, func(t *testing.T) runtimetest.Setup {
		return runtimetest.Setup{Runtime: null.New(time.Now()), Capabilities: &null.Capabilities, Nodes: 2,
			Hold: unit.Cores(1),
			Task: func(t *testing.T, w runtimetest.Work) *executor.TaskSpec {
				if w == runtimetest.Short {
					return &executor.TaskSpec{Name: "short"}
				}
				return nil // everything ends well, and at once
			},
			File: func(t *testing.T) *executor.FileSpec { return &executor.FileSpec{ID: 3, Name: "f"} },
		}
	})
}
