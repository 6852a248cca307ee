package oci

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"gantry/cgroup"
	"gantry/cgroup/thread/threadtest"
)

// Programs have the usual priority, also if gantry puts itself before others while one of them is started.
func TestAProgramHasTheUsualPriority(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("makes mount namespaces: needs root")
	}
	tree, err := cgroup.Open(cgroup.Root, false)
	if err != nil {
		t.Skip(err)
	}
	for range 2 { // the second thread begins with the priority that this process has by then
		err := inside{}.do(func() error {
			w, err := tree.NewWatcher(cgroup.Device{}, nil)
			if err != nil {
				return err
			}
			defer w.Close()
			nice, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
			if 20-nice != usualNice || usualNice < 0 {
				t.Errorf("nice value %d, not %d", 20-nice, usualNice)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheFirstThreadKeepsItsNamespaces(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("makes mount namespaces: needs root")
	}
	threadtest.Keeps(t, func() {
		if err := (inside{}).do(func() error {
			network, err := closedNetwork()
			if err == nil {
				err = network.Close()
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	})
}
