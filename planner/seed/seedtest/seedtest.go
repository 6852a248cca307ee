// Package seedtest seeds tests of random instances: from GANTRY_TEST_SEED on, which make test derives from the commit.
// A failure says how to repeat its instance.
package seedtest

import (
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Factor by which tests multiply their random instances, and the first seed.
var (
	times = setting("GANTRY_TEST_INSTANCES", 1)
	first = setting("GANTRY_TEST_SEED", 0)
)

func init() { // before flags are parsed: -rapid.seed is stronger
	for name, value := range map[string]string{"rapid.seed": fmt.Sprint(first + 1), // 0 would be any
		"rapid.nofailfile": "true"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
}

// Part is which of n parts a short test takes: another one for each landing.
func Part(n int) int { return int(first >> 16 % uint64(n)) }

func setting(name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		panic(fmt.Sprintf("%s=%s is no whole number below 2^32", name, text))
	}
	return n
}

// Times is how many of n random instances a test tries: with -short a twelfth of many, and five of fewer, if that is no
// more than a sixth.
func Times(n int) int {
	for _, name := range []string{"GANTRY_TEST_SEED", "GANTRY_TEST_INSTANCES"} {
		os.Getenv(name) // go test keeps results by the variables that it sees tests read, not those of init
	}
	if testing.Short() {
		n = max(1, n/12, min(n/6, 5))
	}
	return n * int(times)
}

// Seeds are those of n random instances, see Times, after those that were found once. If the test fails for one, it
// says how to repeat that.
func Seeds(t testing.TB, n int, found ...uint64) iter.Seq[uint64] { return seeds(t, first, n, found) }

// Same are Seeds from 0 on, at every commit: for tests whose claim does not hold of every instance.
func Same(t testing.TB, n int, found ...uint64) iter.Seq[uint64] { return seeds(t, 0, n, found) }

func seeds(t testing.TB, first uint64, n int, found []uint64) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for _, seed := range found {
			if !try(t, seed, yield) {
				return
			}
		}
		for i := range Times(n) {
			if !try(t, first+uint64(i), yield) {
				return
			}
		}
	}
}

func try(t testing.TB, seed uint64, yield func(uint64) bool) bool {
	failed, ended := t.Failed(), false
	defer func() { // after a panic and t.Fatal, too
		if t.Failed() && !failed || !ended && !t.Skipped() {
			t.Logf("repeat it with: GANTRY_TEST_SEED=%d %s", seed, command(t, ""))
		}
	}()
	more := yield(seed)
	ended = true
	return more
}

// command runs the test alone. The test binary says its package, and whether the race detector watches.
func command(t testing.TB, arguments string) string {
	var flags, path string
	if built, ok := debug.ReadBuildInfo(); ok {
		path = strings.TrimSuffix(built.Path, ".test")
		if slices.Contains(built.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
			flags = " -race"
		}
	}
	if testing.Short() {
		flags += " -short"
	}
	name := "^" + strings.ReplaceAll(regexp.QuoteMeta(t.Name()), "/", "$/^") + "$"
	return fmt.Sprintf("go test%s -run '%s' %s%s", flags, name, path, arguments)
}

// Rand is the source of numbers of a test that draws all its instances from one.
func Rand(t testing.TB) *rand.Rand {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("repeat it with: GANTRY_TEST_SEED=%d %s", first, command(t, ""))
		}
	})
	return rand.New(rand.NewPCG(first, 1))
}

// Takes reports whether a test that goes through many cases tries case i: all of them, but with -short one in six,
// others for seeds that differ by 65536.
func Takes(i int) bool { return !testing.Short() || uint64(i)%6 == first>>16%6 }

// Check is rapid.Check from GANTRY_TEST_SEED on. With -short rapid tries a fifth.
func Check(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	rapid.Check(told{t}, property)
}

// told says how to repeat an instance that rapid reports.
type told struct{ *testing.T }

// Errorf implements rapid.TB.
func (t told) Errorf(format string, args ...any) {
	t.Helper()
	t.T.Errorf(format, args...)
	for _, a := range args {
		if s, ok := a.(string); ok && strings.HasPrefix(s, "-rapid.seed=") {
			t.Logf("repeat it with: %s", command(t, " "+s))
		}
	}
}
