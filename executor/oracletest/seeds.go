package oracletest

import (
	"fmt"
	"iter"
	"os"
	"strconv"
	"testing"
)

var part = 1 // of the instances of a test, one in this many is tried

// Tests try so many times their random instances, from this seed on.
var (
	times = setting("GANTRY_TEST_INSTANCES", 1)
	first = setting("GANTRY_TEST_SEED", 0)
)

func setting(name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		panic(fmt.Sprintf("%s=%s is not a whole number", name, text))
	}
	return n
}

// Times is how many of n random instances a test tries: GANTRY_TEST_INSTANCES times as many, if that is set. Under the
// race detector it is a sixth: simulations run on one goroutine, where the detector finds nothing and takes several
// times as long. make test runs them without it, too.
func Times(n uint64) uint64 { return max(1, n*times/uint64(part)) }

// Seeds are those of n random instances, see Times: from GANTRY_TEST_SEED on, else from 0.
func Seeds(n uint64) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for i := range Times(n) {
			if !yield(first + i) {
				return
			}
		}
	}
}

// Takes reports whether a test that goes through many cases tries case i, counted from 0.
func Takes(i int) bool { return i%part == 0 }

// Sequential skips a test under the race detector that computes for long on one goroutine: the detector finds nothing
// there and takes several times as long. make test runs such tests without it.
func Sequential(t *testing.T) {
	t.Helper()
	if part > 1 {
		t.Skip("it runs on one goroutine: make test runs it without the race detector")
	}
}
