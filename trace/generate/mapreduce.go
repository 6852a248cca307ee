package generate

import (
	"time"

	"gantry/trace"
)

// MapReduce has the parameters of a MapReduce job: the synthetic load with which Lim, Majumdar and Ashwood-Smith
// evaluate MRCP-RM (IEEE TPDS 28(5), 2017) and compare RM-DCWF with it (J. Cloud Computing 6(1), 2017, Fig. 18). Its
// distributions are recalled, not verified: no text of the former was at hand.
type MapReduce struct {
	LongestMap time.Duration // e_max: map times are uniform on the whole seconds up to it
	// Slots gives each kind of task slots of its own, as Hadoop does: a map task takes a core and next to no memory, a
	// reduce task ReduceMemory and next to no core. The cores of a node are then its map slots, its memory its reduce
	// slots.
	Slots bool
}

// DefaultMapReduce has the default of the publication, and one kind of slots.
var DefaultMapReduce = MapReduce{LongestMap: 50 * time.Second}

// ReduceMemory is the memory of a reduce task where reduce slots are apart, in bytes.
const ReduceMemory = 1_000_000_000

// mapReduce: n map tasks, and as many reduce tasks or fewer, all equally likely, each of which needs all of the map
// tasks. A reduce task takes three times its share of the map times and DU[1,10] seconds.
func mapReduce(g *dag, n int, p Parameters) {
	m := p.(*MapReduce)
	total := 0.0
	for range n {
		seconds := float64(g.between(1, int64(m.LongestMap/time.Second)+1))
		total += seconds
		g.tasks[g.task("map", seconds)].Phase = 1
	}
	reduces := int32(g.between(1, int64(n)+1))
	for r := range reduces {
		t := g.task("reduce", 3*total/float64(reduces)+float64(g.between(1, 11)))
		g.tasks[t].Phase = 2
		result := g.file(g.about(10e6, 0.5), "result-%d", r)
		for i := range int32(n) {
			g.link(i, t, g.file(1e6, "part-%d-%d", i, r))
		}
		g.writes(t, result)
	}
	for i := range int32(n) {
		g.reads(i, g.file(64e6, "split-%d", i))
	}
	if !m.Slots {
		return
	}
	for i := range g.tasks {
		t := &g.tasks[i]
		t.Known |= trace.Cores | trace.Memory
		if t.Cores, t.MemoryBytes = 1, 1; t.Phase == 2 {
			t.Cores, t.MemoryBytes = 0.001, ReduceMemory
		}
	}
}
