package generate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Daggen has the parameters of a random workflow. Field by field they are those of daggen (Suter); its alpha, the part
// of a task that does not run in parallel, is left out, since these tasks use one core.
type Daggen struct {
	Fat     float64 // 0 to 1: a level has about n^Fat tasks; 0 is a chain, 1 a single level
	Density float64 // 0 to 1: share of the level before that a task may have as parents; it always has one
	Regular float64 // 0 to 1: levels differ in size by up to the share 1-Regular
	Jump    int     // how many levels back a parent may be, at least 1
	CCR     int     // 1: work a·d², 2: a·d²·log d, 3: d³ (d²: data, a: 64 to 512); 0: one of them for each task
}

// DefaultDaggen are daggen's defaults.
var DefaultDaggen = Daggen{Fat: 0.5, Density: 0.5, Regular: 0.9, Jump: 1}

// Bounds of the side of the matrix that a task works on, in elements of 8 bytes; it is drawn in steps of 1024.
const leastData, mostData = 2048, 11264

// mostEdges bounds the memory of a random workflow to some gigabytes.
const mostEdges = 50_000_000

// fits refuses workflows with too many edges: their number grows faster than that of the tasks.
func (d *Daggen) fits(n int) error {
	width := math.Pow(float64(n), d.Fat)
	if edges := float64(n) * (1 + d.Density*width/2); width < float64(n) && edges > mostEdges {
		return fmt.Errorf("random workflow: %d tasks with fat %v and density %v have some %.0f million "+
			"dependencies, more than the %d million that are "+
			"made; lower one of them", n, d.Fat, d.Density, edges/1e6, mostEdges/1_000_000)
	}
	return nil
}

// flops is the speed of the machine on which the work of a random task becomes a runtime: a runtime in nanoseconds is
// its work in operations.
const flops = 1e9

// random: levels of tasks; each task depends on some of an earlier level, and passes the matrix it works on to all that
// depend on it.
func random(g *dag, n int, p Parameters) {
	d := p.(*Daggen)
	g.tick = time.Millisecond
	// The tasks' data and work have a stream of their own: the same graph with another ccr keeps its edges.
	work := rand.New(rand.NewPCG(g.Uint64(), costStream))
	width := math.Floor(math.Pow(float64(n), d.Fat) + 1e-9)
	levels := []int32{0} // first task of each level, and the end
	for placed := 0; placed < n; {
		r := (2*g.Float64() - 1) * (1 - d.Regular)
		placed += min(max(1, int(width*(1+r))), n-placed)
		levels = append(levels, int32(placed))
	}
	bytes := make([]int64, n)
	classes := [...]string{"scan", "sort", "multiply"}
	for i := range n {
		side := math.Floor((leastData+work.Float64()*(mostData-leastData))/1024) * 1024
		f := 64 + work.Float64()*(512-64)
		class := d.CCR
		if mixed := 1 + work.IntN(3); class == 0 {
			class = mixed
		}
		cost := side * side * side
		switch class {
		case 1:
			cost = f * side * side
		case 2:
			cost = 2 * f * side * side * math.Log2(side)
		}
		g.task(classes[class-1], cost/flops)
		bytes[i] = int64(8 * side * side)
	}
	data := make([]int32, n)
	for i := range data {
		data[i] = -1
	}
	parents := make([]int32, 0, n)
	parentOf := make([]int32, n) // the last task that this one is a parent of
	for l := 1; l+1 < len(levels); l++ {
		before := int(levels[l] - levels[l-1])
		for t := levels[l]; t < levels[l+1]; t++ {
			parents = parents[:0]
			for range min(1+int(g.Float64()*d.Density*float64(before)), before) {
				from := max(0, l-1-g.IntN(d.Jump))
				first, size := levels[from], int(levels[from+1]-levels[from])
				p := g.IntN(size)
				for range size { // the next one that is no parent yet
					if at := first + int32(p); parentOf[at] != t {
						parentOf[at] = t
						parents = append(parents, at)
						break
					}
					p = (p + 1) % size
				}
			}
			for _, p := range parents {
				if data[p] < 0 && !g.bare {
					data[p] = g.file(bytes[p], "dataID%05d.bin", p)
				}
				g.link(p, t, data[p])
			}
		}
	}
}
