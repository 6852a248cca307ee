package planner

import (
	"fmt"
	"math/bits"

	"gantry/planner/unit"
)

// MostGPUs is how many GPUs a node may have.
const MostGPUs = 64

// Devices is a set of GPUs of a node: bit i is its GPU i, from 0 on. A policy plans with their number alone. An order
// to start says which they are, so that the log keeps them.
type Devices uint64

// Each yields the numbers of the GPUs.
func (x Devices) Each(yield func(int) bool) {
	for ; x != 0; x &= x - 1 {
		if !yield(bits.TrailingZeros64(uint64(x))) {
			return
		}
	}
}

// freeGPUs returns the first GPUs of node n that no attempt holds, and none that one of the orders starts.
func (s *State) freeGPUs(n NodeID, count int64, orders []Order) (picked Devices) {
	if count == 0 {
		return 0
	}
	free := ^s.gpus[n]
	for i := range orders {
		if orders[i].Kind == OrderStart && orders[i].Node == n {
			free &^= orders[i].GPUs
		}
	}
	for ; count > 0; count-- {
		picked |= free & -free
		free &= free - 1
	}
	return picked
}

// checkGPUs reports that a task is to hold GPUs that others hold, that its node does not have, or another number of
// them than it is to hold.
func (s *State) checkGPUs(o *Order) error {
	has := s.platform.Nodes[o.Node].Capacity[unit.GPU]
	if bits.OnesCount64(uint64(o.GPUs)) != int(o.Hold[unit.GPU]) || o.GPUs&s.gpus[o.Node] != 0 ||
		int64(bits.Len64(uint64(o.GPUs))) > has {
		return fmt.Errorf("it is to hold %d GPUs, the set %b; of %d others hold %b", o.Hold[unit.GPU], o.GPUs, has,
			s.gpus[o.Node])
	}
	return nil
}
