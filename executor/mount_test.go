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
	for text, want := range map[string]executor.Mount{"/data:/in": {From: "/data", To: "/in"},
		"/run 12:30/x:/in": {From: "/run 12:30/x", To: "/in"}, "/a:/b:/in": {From: "/a:/b", To: "/in"}} {
		if got := executor.ParseMount(text); got != want {
			t.Errorf("%s is read as %+v", text, got)
		}
	}
}
