package cmd

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// The example of mixed-parallel tasks on two clusters, on containers and in a simulation that is fed with what was
// measured: A4 takes the place of A3 on r2 in both; A3 continues from its checkpoint on r1, or, frozen, where it was.
// A3 is longer than in the example, so that the place of a task is worth taking on a busy machine, too.
func TestMixedParallelTasksArePreemptedOnContainersAsInSimulation(t *testing.T) {
	long(t)
	needsDocker(t)
	const example = "../examples/mows/"
	dax, err := filepath.Abs(example + "preemption.dax")
	if err != nil {
		t.Fatal(err)
	}
	dir := writeFiles(t, map[string]string{"costs.csv": "task,node,seconds\nA1,r1,15\nA1,r2,35\nA2,r1,20\nA2,r2,40\n" +
		"A3,r1,100\nA3,r2,100\nA4,r1,200\nA4,r2,18\nA5,r1,2\nA5,r2,18\n",
		"workload.yaml": "preempt: {checkpoint: input}\nworkflows:\n  - {trace: " + dax +
			", name: preemption, costs: costs.csv}\n"})
	for _, c := range []struct{ policy, checkpoint, want string }{
		{"mows", "input", "[A3 by checkpoint on r2, ended on r1]"},
		{"owm-mp+preemptive", "none", "[A3 by freeze on r2, ended on r2]"},
	} {
		t.Run(c.policy, func(t *testing.T) {
			// On a starved host containers that are started together may begin in another order, or tasks of a second
			// end before they are preempted: that is another schedule, and no other decision. Longer tasks help.
			const tries = 3
			for try, scale := 1, 0.05; ; try, scale = try+1, 2*scale {
				home := "--dir=" + t.TempDir()
				expect(t, exitOK, nil, "run", home, "--name=containers", "--policy="+c.policy,
					"--checkpoint="+c.checkpoint, "--oversubscribe", "--time-scale="+fmt.Sprint(scale),
					"--size-scale=0.05", "--cluster="+example+"cluster.yaml", filepath.Join(dir, "workload.yaml"))
				expect(t, exitOK, nil, "simulate", home, "--name=simulation", "--replay=containers")
				differs := otherwise(t, home, c.want)
				if len(differs) == 0 {
					return
				}
				if t.Logf("try %d: %s", try, strings.Join(differs, "; ")); try == tries {
					t.Fatalf("not once in %d tries as in simulation", tries)
				}
			}
		})
	}
}

// otherwise lists what the runs "containers" and "simulation" of the five tasks have otherwise than wanted, or than
// each other.
func otherwise(t *testing.T, home, want string) (differs []string) {
	db := logIn(t, strings.TrimPrefix(home, "--dir="))
	for _, run := range []string{"containers", "simulation"} {
		rows, err := db.Query(t.Context(), `SELECT s.task, s.how, s.node, t.node, t.state, coalesce(s.lost_s, 0)
			FROM v_suspensions s JOIN v_tasks t USING (run, workflow, task) WHERE s.run = ? ORDER BY s.ordered_s`, run)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		var got []string
		for rows.Next() {
			var task, how, on, end, state string
			var lost float64
			if err := rows.Scan(&task, &how, &on, &end, &state, &lost); err != nil {
				t.Fatal(err)
			}
			if got = append(got, fmt.Sprintf("%s by %s on %s, ended on %s", task, how, on, end)); state != "done" ||
				lost != 0 {
				t.Errorf("%s: task %s is %s and lost %g s", run, task, state, lost)
			}
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(got) != want {
			differs = append(differs, fmt.Sprintf("%s: preempted %v, want %s", run, got, want))
		}
	}
	var both struct {
		Error   float64 `json:"makespan_error"`
		Swapped int     `json:"swapped_pairs"`
		Pairs   int     `json:"pairs"`
		Same    int     `json:"tasks_on_same_node"`
	}
	if err := json.Unmarshal([]byte(expect(t, exitOK, nil, "compare", home, "--json", "containers", "simulation")),
		&both); err != nil {
		t.Fatal(err)
	}
	t.Logf("makespan of the simulation %+.2f %%, %d of %d pairs of starts swapped", 100*both.Error, both.Swapped,
		both.Pairs)
	if both.Same != 5 || both.Swapped != 0 {
		differs = append(differs, fmt.Sprintf("%d of 5 tasks on the same node, %d of %d pairs of starts swapped",
			both.Same, both.Swapped, both.Pairs))
	}
	return differs
}
