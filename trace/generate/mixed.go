package generate

import (
	"math"
	"math/rand/v2"

	"gantry/trace"
)

// Mixed has the parameters of a mixed-parallel workflow: tasks that take several processors each, and cost differently
// on every cluster (Wang, MOWS, sections 4-2-1 and 5-1-2). The formulas of the thesis are lost in its text; where it
// only names their parameters, they are those of Topcuoglu, Hariri and Wu 2002, section 5.2, which the thesis follows
// in name and meaning.
type Mixed struct {
	Shape     float64 // above 0: above 1 short with many tasks side by side, below 1 long
	OutDegree int     // at least 1: most immediate descendants of a task
	CCR       float64 // 0 or more: mean communication cost over mean computation cost
	// 0 to 2: costs on clusters are uniform within this share of the mean cost of the task, half of it either way
	BRange     float64
	WDAG       float64 // seconds, at least 1: mean computation cost
	Processors [2]int  // least and most processors of a task
}

// DefaultMixed is the middle of the values of the thesis; how many processors a task takes it does not say.
var DefaultMixed = Mixed{Shape: 1, OutDegree: 3, CCR: 1, BRange: 0.5, WDAG: 550, Processors: [2]int{1, 4}}

// MixedRate is the bandwidth, in bytes per second, at which the files of mixed-parallel workflows take the time that
// their CCR says.
const MixedRate = 1_000_000

// mixed: an entry task, levels of tasks of which each passes data to some of the next level, and an exit task. The
// number of levels is uniform with mean √n/shape, their widths are uniform with mean √n·shape as far as the number of
// tasks lets them be. A task that no other chose as a descendant gets the one with the fewest in the level before as
// its parent.
func mixed(g *dag, n int, p Parameters) {
	m := p.(*Mixed)
	// Costs and processors have a stream of their own: the same graph with other costs keeps its edges.
	work := rand.New(rand.NewPCG(g.Uint64(), costStream))
	levels := mixedLevels(g, n, m)
	total := 0.0
	for range n {
		seconds := 1 + work.Float64()*(2*m.WDAG-1)
		t := &g.tasks[g.task("task", seconds)]
		t.Cores, t.Known = float64(m.Processors[0]+work.IntN(m.Processors[1]-m.Processors[0]+1)), t.Known|trace.Cores
		total += seconds
	}
	children := make([]int, n)
	parented := make([]bool, n)
	var edges [][2]int32
	link := func(p, c int32) {
		edges = append(edges, [2]int32{p, c})
		children[p]++
		parented[c] = true
	}
	for l := 0; l+2 < len(levels); l++ {
		first, size := levels[l+1], int(levels[l+2]-levels[l+1])
		order := g.Perm(size)
		for p := levels[l]; p < levels[l+1]; p++ {
			k := min(1+g.IntN(m.OutDegree), size)
			if l == 0 {
				k = size // the entry task precedes all
			}
			for i := range k { // the first k of a shuffle that continues from task to task are different
				j := i + g.IntN(size-i)
				order[i], order[j] = order[j], order[i]
				link(p, first+int32(order[i]))
			}
		}
		for c := first; c < first+int32(size); c++ {
			if parented[c] {
				continue
			}
			least := levels[l]
			for p := levels[l]; p < levels[l+1]; p++ {
				if children[p] < children[least] {
					least = p
				}
			}
			link(least, c)
		}
	}
	// Sizes come last, so that another CCR scales them and changes nothing else.
	mean := total / float64(n) * m.CCR * MixedRate
	for i, e := range edges {
		f := int32(-1)
		if size := int64(math.Round(2 * mean * work.Float64())); size > 0 {
			f = g.file(size, "data-%d", i)
		}
		g.link(e[0], e[1], f)
	}
}

// mixedLevels returns the first task of each level, and the end.
func mixedLevels(g *dag, n int, m *Mixed) []int32 {
	switch n {
	case 1:
		return []int32{0, 1}
	case 2:
		return []int32{0, 1, 2}
	}
	middle := n - 2
	root := math.Sqrt(float64(n))
	most := int(math.Round(2*root/m.Shape)) - 1
	height := min(max(1, 1+g.IntN(max(1, most))-2), middle)
	wide := make([]float64, height)
	sum := 0.0
	for i := range wide {
		wide[i] = 1 - g.Float64() // above 0
		sum += wide[i]
	}
	levels := []int32{0, 1}
	// Every level has one task; the widths drawn share the others.
	cumulated := 0.0
	for i := range wide {
		cumulated += wide[i]
		levels = append(levels, int32(1+i+1+int(math.Round(cumulated/sum*float64(middle-height)))))
	}
	return append(levels, int32(n))
}

// MixedCosts returns the costs of task i of a mixed-parallel workflow that takes mean on average: one for each of n
// clusters, uniform on mean (1 ± BRange/2), by draws of their own.
func (m *Mixed) MixedCosts(w *trace.Workflow, n int, seed uint64) [][]int64 {
	r := rand.New(rand.NewPCG(seed, clusterStream))
	costs := make([][]int64, len(w.Tasks))
	for i := range costs {
		costs[i] = make([]int64, n)
		for k := range costs[i] {
			costs[i][k] = max(1, int64(math.Round(float64(w.Tasks[i].Runtime)*(1+m.BRange*(r.Float64()-0.5)))))
		}
	}
	return costs
}
