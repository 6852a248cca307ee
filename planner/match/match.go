// Package match assigns tasks to the nodes that hold their data: the matching and the judgment of DLAforBT (3DSF,
// section 6, Algorithms 2 to 4).
package match

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// None marks a task without a node.
const None = -1

// Nodes matches tasks to nodes, one to one, so that the sum of the weights of the matched nodes is largest. edges has
// for every task the nodes it may go to; a weight belongs to a node, whichever task it serves. Among the matchings of
// largest weight it serves tasks in their order, each by the heaviest node (the lowest of equals) that leaves one for
// every later task that is served. Nodes of weight 0 are matched too, last.
//
// With weights of nodes the matching is a transversal matroid, so that taking nodes greedily by weight is optimal
// (Edmonds and Fulkerson 1965); Kuhn's augmenting paths make it O(V·E), where the Kuhn-Munkres algorithm of the paper
// takes O(V³).
func Nodes(weights []int64, edges [][]int) []int {
	byWeight := make([]int, len(weights))
	for n := range byWeight {
		byWeight[n] = n
	}
	slices.SortStableFunc(byWeight, func(a, b int) int { return cmp.Compare(weights[b], weights[a]) })
	rank := make([]int, len(weights))
	for i, n := range byWeight {
		rank[n] = i
	}
	tasksOf := make([][]int, len(weights))
	for t, list := range edges {
		for _, n := range list {
			tasksOf[n] = append(tasksOf[n], t)
		}
	}
	// First which nodes are matched, by weight.
	chosen := kuhn{other: fill(len(edges)), edges: tasksOf, seen: make([]int, len(edges))}
	matched := 0
	taken := make([]bool, len(weights))
	for _, n := range byWeight {
		if chosen.augment(n, n+1) {
			taken[n] = true
			matched++
		}
	}
	// Then which tasks they serve, by the order of the tasks.
	own := make([][]int, len(edges))
	for t, list := range edges {
		for _, n := range list {
			if taken[n] {
				own[t] = append(own[t], n)
			}
		}
		slices.SortFunc(own[t], func(a, b int) int { return rank[a] - rank[b] })
	}
	served := kuhn{other: fill(len(weights)), edges: own, seen: make([]int, len(weights))}
	for t := 0; t < len(edges) && matched > 0; t++ {
		if served.augment(t, t+1) {
			matched--
		}
	}
	out := fill(len(edges))
	for t, list := range own { // and last by which of them each is served
		out[t] = served.prefer(t, len(edges)+t+1, list)
	}
	return out
}

func fill(n int) []int {
	return slices.Repeat([]int{None}, n)
}

// kuhn looks for augmenting paths from one side to the other.
type kuhn struct {
	edges [][]int // from this side
	other []int   // by vertex of the other side: its partner on this one
	seen  []int   // by vertex of the other side: the search that met it last
}

// augment matches vertex v, moving others where it has to. search numbers the searches from 1.
func (k *kuhn) augment(v, search int) bool {
	for _, u := range k.edges[v] {
		if k.other[u] == None { // a free one moves nobody
			k.other[u] = v
			return true
		}
	}
	for _, u := range k.edges[v] {
		if k.seen[u] >= search {
			continue
		}
		k.seen[u] = search
		if k.augment(k.other[u], search) {
			k.other[u] = v
			return true
		}
	}
	return false
}

// prefer gives v, if it is matched, the first of a list from which others can move away, for good, and returns it.
func (k *kuhn) prefer(v, search int, list []int) int {
	old := slices.Index(k.other, v)
	if old == None {
		return None
	}
	k.other[old] = None
	for i := 0; ; i++ { // up to old
		u := list[i]
		if k.seen[u] >= search {
			continue
		}
		k.seen[u] = search
		if k.other[u] == None || k.augment(k.other[u], search) {
			k.other[u], k.seen[u] = v, math.MaxInt
			return u
		}
	}
}

// Edges matches tasks to nodes so that the sum of the weights of the edges taken is largest: weights[t][n] belongs to
// task and node, and 0 is no edge. It is the Kuhn-Munkres algorithm (Munkres 1957) with potentials, O(T²·N) for the
// smaller side T.
func Edges(weights [][]int64) []int {
	out := fill(len(weights))
	if len(weights) == 0 || len(weights[0]) == 0 {
		return out
	}
	nodes := len(weights[0])
	if len(weights) > nodes { // rows have to be the smaller side
		turned := make([][]int64, nodes)
		for n := range turned {
			turned[n] = make([]int64, len(weights))
			for t := range weights {
				turned[n][t] = weights[t][n]
			}
		}
		for n, t := range assign(turned) {
			if t != None && weights[t][n] > 0 {
				out[t] = n
			}
		}
		return out
	}
	for t, n := range assign(weights) {
		if n != None && weights[t][n] > 0 {
			out[t] = n
		}
	}
	return out
}

// assign gives every row a column of its own so that the sum of the weights is largest. There are at least as many
// columns as rows. It is the Hungarian method, in which a cost is a weight below 0: rows enter one by one, each by the
// shortest augmenting path under reduced costs.
func assign(weights [][]int64) []int {
	rows, cols := len(weights), len(weights[0])
	const far = 1 << 62
	u, v := make([]int64, rows+1), make([]int64, cols+1) // potentials; index 0 is the row that enters, or nobody
	row, way := make([]int, cols+1), make([]int, cols+1)
	least, used := make([]int64, cols+1), make([]bool, cols+1)
	for i := 1; i <= rows; i++ {
		row[0] = i
		for j := range least {
			least[j], used[j] = far, false
		}
		j0 := 0
		for {
			used[j0] = true
			i0, delta, j1 := row[j0], int64(far), 0
			for j := 1; j <= cols; j++ {
				if used[j] {
					continue
				}
				if c := -weights[i0-1][j-1] - u[i0] - v[j]; c < least[j] {
					least[j], way[j] = c, j0
				}
				if least[j] < delta {
					delta, j1 = least[j], j
				}
			}
			for j := 0; j <= cols; j++ {
				if used[j] {
					u[row[j]] += delta
					v[j] -= delta
				} else {
					least[j] -= delta
				}
			}
			j0 = j1
			if row[j0] == 0 {
				break
			}
		}
		for j0 != 0 {
			row[j0] = row[way[j0]]
			j0 = way[j0]
		}
	}
	out := fill(rows)
	for j := 1; j <= cols; j++ {
		if row[j] > 0 {
			out[row[j]-1] = j - 1
		}
	}
	return out
}

// Waits is the judgment of Algorithm 4: a task waits for the node that holds its data if that is released before the
// data could be moved; else the data is moved. The test of the algorithm's first line is the other way round in the
// paper.
func Waits(release, transfer time.Duration) bool { return release < transfer }
