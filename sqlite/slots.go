package sqlite

import "slices"

// Slots places attempts in rows of their nodes, so that no two of one row overlap.
type Slots [][]int64 // by node: when each row is free again, in nanoseconds

// Take returns the row, from 0, of an attempt that is on a node from one instant to another. Calls come in the order
// of from. Each row counts as used for a nanosecond at least.
func (s *Slots) Take(node int, from, to int64) int {
	for len(*s) <= node {
		*s = append(*s, nil)
	}
	rows := &(*s)[node]
	k := slices.IndexFunc(*rows, func(free int64) bool { return free <= from })
	if k < 0 {
		k = len(*rows)
		*rows = append(*rows, 0)
	}
	(*rows)[k] = max(to, from+1)
	return k
}
