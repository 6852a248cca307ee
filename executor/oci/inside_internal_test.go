package oci

import (
	"os"
	"testing"

	"gantry/cgroup/thread/threadtest"
)

func TestTheFirstThreadKeepsItsNamespaces(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("makes mount namespaces: needs root")
	}
	threadtest.Keeps(t, func() {
		x := newInside("", false)
		defer x.close()
		if err := x.do(func() error { return nil }); err != nil {
			t.Error(err)
		}
	})
}
