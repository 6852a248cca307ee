package timeline

import (
	"iter"

	"gantry/planner/unit"
)

// All yields the breakpoints in order of time, each with the amount of the limited resource in use from there on.
// The profile must not be changed meanwhile.
func (p *Profile) All() iter.Seq2[unit.Time, unit.Vector] {
	return func(yield func(unit.Time, unit.Vector) bool) {
		for k := range p.blocks {
			b := &p.blocks[k]
			for i, at := range b.at {
				used := p.value(b, i)
				if (k > 0 || i > 0 || used != unit.Vector{}) && !yield(at, used) {
					return
				}
			}
		}
	}
}
