package oracletest

import (
	"testing"

	"gantry/planner/seed/seedtest"
)

// Sequential is seedtest.Sequential.
func Sequential(t *testing.T) {
	t.Helper()
	seedtest.Sequential(t)
}
