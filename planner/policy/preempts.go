package policy

import (
	"gantry/planner"
	"gantry/planner/alloc"
)

// Preempts reports whether a policy may take the place of a running task away.
func Preempts(p planner.Policy) bool {
	switch p := p.(type) {
	case interface{ Preempts() bool }:
		return p.Preempts()
	case *tenancy:
		return p.Allocate.(*alloc.Tenants).Room != alloc.Never
	case *Mixed:
		return p.Allocate.(*alloc.Rigid).Preemption != nil
	}
	return false
}
