package measure

import (
	"gantry/executor"
	"gantry/planner"
	"gantry/planner/policy"
	"gantry/planner/predict"
	"gantry/sqlite"
	"gantry/trace/scenario"
)

// Engine is an engine in this process that plans as gantry does, with the policy, seed, scales and nodes of a run. It
// lacks a runtime, a store and arrivals.
func Engine(info *sqlite.RunInfo) (*executor.Engine, error) {
	pol, err := policy.Parse(info.Policy)
	if err != nil {
		return nil, err
	}
	declared := &predict.Declared{}
	return &executor.Engine{
		Planner: planner.New(&info.Platform, planner.DefaultRetryRules(), pol, declared, uint64(info.Seed)),
		Admit: &executor.Admitter{Platform: &info.Platform, TimeScale: info.TimeScale, SizeScale: info.SizeScale,
			Preempt: scenario.DefaultPreempt(), Declare: declared.Declare}}, nil
}
