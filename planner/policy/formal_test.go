package policy_test

import (
	"slices"
	"testing"

	"gantry/planner/policy"
)

// No policy sees a task without time: the same runs, on the same nodes, at the same instants, as if it were not there.
func TestNoPolicySeesTasksWithoutTime(t *testing.T) {
	for _, row := range policy.Table() {
		spec := row.Name
		if spec == "gbf" { // its draws depend on ids
			spec = "gbf:first"
		}
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			Compare(t, 60, Shape{Tasks: 20, Dummies: true, Sizes: true}, func(in Instance) (string, error) {
				timed, number := joined(in)
				if slices.ContainsFunc(number, func(tasks []int) bool { return len(tasks) == 0 }) {
					return "", nil // without tasks that take time there is no workflow
				}
				with, err := Simulate(in, spec)
				if err != nil {
					return "", err
				}
				without, err := Simulate(timed, spec)
				if err != nil {
					return "", err
				}
				return Difference(with.Stays, renumbered(without.Stays, number), true), nil
			})
		})
	}
}
