package match_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gantry/planner"
	"gantry/planner/match"
	"gantry/planner/seed/seedtest"
)

func TestPapersThreeTasksOnThreeNodes(t *testing.T) {
	// Idleness .5, .8, .3; blocks of t1 and t2 on the first two nodes, of t3 on the last two. The best node for each
	// task alone would be the second for all.
	got := match.Nodes([]int64{5, 8, 3}, [][]int{{0, 1}, {0, 1}, {1, 2}})
	if !slices.Equal(got, []int{1, 0, 2}) {
		t.Errorf("matching %v, expected t1 on n2, t2 on n1, t3 on n3", got)
	}
}

func TestTasksBeforeOthersAreServedFirst(t *testing.T) {
	for _, c := range []struct {
		name    string
		weights []int64
		edges   [][]int
		want    []int
	}{
		{"more tasks than nodes", []int64{4, 4}, [][]int{{0, 1}, {0, 1}, {0, 1}}, []int{0, 1, match.None}},
		{"a task without data", []int64{1, 2}, [][]int{nil, {0, 1}}, []int{match.None, 1}},
		{"an earlier task makes room", []int64{9, 1}, [][]int{{0, 1}, {0}}, []int{1, 0}},
		{"the heavier node is not left out for an earlier task", []int64{1, 9}, [][]int{{0}, {1}, {0, 1}},
			[]int{0, 1, match.None}},
		{"equal nodes in the order of the tasks", []int64{5, 5, 5}, [][]int{{0, 2}, {0, 1}, {0, 1}}, []int{2, 0, 1}},
		{"heavier nodes for earlier tasks", []int64{2, 4, 6, 6}, [][]int{{1, 3}, {0, 2, 3}, {1, 2}, {2, 3}},
			[]int{3, 0, 1, 2}},
		{"nothing", nil, nil, []int{}},
	} {
		if got := match.Nodes(c.weights, c.edges); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, expected %v", c.name, got, c.want)
		}
	}
}

func TestKuhnMunkresChecks(t *testing.T) {
	for _, c := range []struct {
		weights [][]int64
		best    int64
		best1   []int // 1-based; nil if there are several
		least   int64
		least1  []int
	}{
		{[][]int64{{7, 4, 3}, {6, 8, 5}, {9, 4, 4}}, 20, []int{3, 2, 1}, 13, []int{3, 1, 2}},
		{[][]int64{{5, 9, 1}, {10, 3, 2}, {8, 7, 4}}, 23, []int{2, 1, 3}, 12, nil},
		{[][]int64{{108, 125, 150}, {150, 135, 175}, {122, 148, 250}}, 0, nil, 407, []int{3, 2, 1}},
		{[][]int64{{25, 40, 35}, {40, 60, 35}, {20, 40, 25}}, 0, nil, 95, []int{2, 3, 1}},
		{[][]int64{{82, 83, 69, 92}, {77, 37, 49, 92}, {11, 69, 5, 86}, {8, 9, 98, 23}}, 0, nil, 140,
			[]int{3, 2, 1, 4}},
	} {
		check := func(what string, got []int, sum int64, cols []int) {
			total := int64(0)
			for i, j := range got {
				total += c.weights[i][j]
			}
			one := make([]int, len(got))
			for i := range got {
				one[i] = got[i] + 1
			}
			if total != sum || cols != nil && !slices.Equal(one, cols) {
				t.Errorf("%v: %s %d by columns %v, expected %d by %v", c.weights, what, total, one, sum, cols)
			}
		}
		if c.best > 0 {
			check("largest", match.Edges(c.weights), c.best, c.best1)
		}
		costs := make([][]int64, len(c.weights))
		for i, row := range c.weights {
			for _, w := range row {
				costs[i] = append(costs[i], -w)
			}
		}
		check("least", match.Assign(costs), c.least, c.least1)
	}
}

func TestJudgmentOfThePapersBlock(t *testing.T) {
	// 128 MiB over a TCP window of 64 KiB and a round trip of .5 ms (equation 2): 131.072 MB/s.
	transfer := planner.TransferTime(134_217_728, 131_072_000)
	if transfer != 1024*time.Millisecond {
		t.Fatalf("transfer %v; expected 1.024s", transfer)
	}
	if !match.Waits(10*time.Second-9500*time.Millisecond, transfer) {
		t.Error("a node released in .5 s has to be waited for")
	}
	if match.Waits(10*time.Second-8*time.Second, transfer) {
		t.Error("a node released in 2 s must not be waited for")
	}
}

// sum is the weight of a matching, which has to be one.
func sum(t *rapid.T, got []int, edge func(task, node int) bool, weight func(task, node int) int64) (s int64) {
	seen := map[int]bool{}
	for task, n := range got {
		if n == match.None {
			continue
		}
		if seen[n] || !edge(task, n) {
			t.Fatalf("%v is no matching", got)
		}
		seen[n] = true
		s += weight(task, n)
	}
	return s
}

// best tries all matchings.
func best(tasks, nodes int, edge func(task, node int) bool, weight func(task, node int) int64) int64 {
	used := make([]bool, nodes)
	var try func(task int) int64
	try = func(task int) int64 {
		if task == tasks {
			return 0
		}
		most := try(task + 1)
		for n := range nodes {
			if !used[n] && edge(task, n) {
				used[n] = true
				most = max(most, weight(task, n)+try(task+1))
				used[n] = false
			}
		}
		return most
	}
	return try(0)
}

func TestMatchingsAreTheHeaviest(t *testing.T) {
	seedtest.Check(t, func(t *rapid.T) {
		tasks, nodes := rapid.IntRange(0, 6).Draw(t, "tasks"), rapid.IntRange(1, 5).Draw(t, "nodes")
		weights := rapid.SliceOfN(rapid.Int64Range(1, 20), nodes, nodes).Draw(t, "weights")
		edges, both := make([][]int, tasks), make([][]int64, tasks)
		for i := range edges {
			both[i] = make([]int64, nodes)
			for n := range nodes {
				if rapid.Bool().Draw(t, "edge") {
					edges[i] = append(edges[i], n)
					both[i][n] = rapid.Int64Range(1, 30).Draw(t, "weight")
				}
			}
		}
		edge := func(task, n int) bool { return slices.Contains(edges[task], n) }
		of := func(_, n int) int64 { return weights[n] }
		if got, want := sum(t, match.Nodes(weights, edges), edge, of), best(tasks, nodes, edge, of); got != want {
			t.Fatalf("weight %d, the best is %d", got, want)
		}
		of = func(task, n int) int64 { return both[task][n] }
		if got, want := sum(t, match.Edges(both), edge, of), best(tasks, nodes, edge, of); got != want {
			t.Fatalf("weights of edges: %d, the best is %d", got, want)
		}
	})
}
