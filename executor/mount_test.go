package executor_test

import (
	"testing"

	"gantry/executor"
)

// A directory of a job keeps its name, whatever that has.
func TestMountsInPlaceMayHaveAnyName(t *testing.T) {
	for _, dir := range []string{"/w", "/w/12:30", "/a:/a", "/a:/a:rw", "/x:rw", "/x:in-place", "/x:rw:in-place",
		"/l\n,\"'"} {
		for _, writable := range []bool{true, false} {
			want := executor.Mount{From: dir, To: dir, InPlace: true, Writable: writable}
			if got := executor.ParseMount(executor.InPlace(dir, writable)); got != want {
				t.Errorf("%q is read as %+v", executor.InPlace(dir, writable), got)
			}
		}
	}
	if got, want := executor.ParseMount("/data:/in"), (executor.Mount{From: "/data", To: "/in"}); got != want {
		t.Errorf("/data:/in is read as %+v", got)
	}
}
