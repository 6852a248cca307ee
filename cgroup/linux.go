//go:build linux

package cgroup

import (
	"cmp"
	"path/filepath"
	"slices"

	"github.com/containerd/cgroups/v3/cgroup1"
	"github.com/containerd/cgroups/v3/cgroup2"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// openPath opens a directory only to open files in it.
const openPath = unix.O_PATH

// Resources are limits in the words of the OCI, as far as the kernel can hold them.
func (t *Tree) Resources(l *Limits) *specs.LinuxResources {
	r := &specs.LinuxResources{}
	if l.CPUQuota > 0 {
		q, p := l.CPUQuota.Microseconds(), uint64(l.CPUPeriod.Microseconds())
		r.CPU = &specs.LinuxCPU{Quota: &q, Period: &p}
	}
	if l.Memory > 0 {
		r.Memory = &specs.LinuxMemory{Limit: &l.Memory}
		if l.MemorySwap > 0 && t.SwapAccounted() {
			r.Memory.Swap = &l.MemorySwap
		}
	}
	if l.PIDs > 0 {
		r.Pids = &specs.LinuxPids{Limit: &l.PIDs}
	}
	if l.Device != (Device{}) && t.Has("blkio") {
		throttle := func(rate int64) []specs.LinuxThrottleDevice {
			if rate <= 0 {
				return nil
			}
			d := specs.LinuxThrottleDevice{Rate: uint64(rate)}
			d.Major, d.Minor = int64(l.Device.Major), int64(l.Device.Minor)
			return []specs.LinuxThrottleDevice{d}
		}
		r.BlockIO = &specs.LinuxBlockIO{ThrottleReadBpsDevice: throttle(l.ReadBps),
			ThrottleWriteBpsDevice: throttle(l.WriteBps), ThrottleReadIOPSDevice: throttle(l.ReadIOPS),
			ThrottleWriteIOPSDevice: throttle(l.WriteIOPS)}
	}
	return r
}

// create makes a group once.
func (t *Tree) create(group string, l Limits) error {
	r := t.Resources(&l)
	if t.mode == Unified {
		return t.create2(group, r)
	}
	// Only the hierarchies that limit or count: Docker makes the others, and knows how to initialise cpuset.
	controllers := []cgroup1.Subsystem{cgroup1.NewCpu(t.root), cgroup1.NewCpuacct(t.root), cgroup1.NewMemory(t.root,
		cgroup1.OptionalSwap())}
	if t.Has("blkio") {
		controllers = append(controllers, cgroup1.NewBlkio(t.root))
	}
	if t.Has("pids") {
		controllers = append(controllers, cgroup1.NewPids(t.root))
	}
	_, err := cgroup1.New(cgroup1.StaticPath(group), r, cgroup1.WithHierarchy(func() ([]cgroup1.Subsystem,
		error) {
		return controllers, nil
	}))
	return err
}

func (t *Tree) create2(group string, limits *specs.LinuxResources) error {
	r := cgroup2.ToResources(limits)
	// Controllers are switched on for the groups below by naming them, limits or not.
	r.CPU, r.Memory = cmp.Or(r.CPU, &cgroup2.CPU{}), cmp.Or(r.Memory, &cgroup2.Memory{})
	r.Pids, r.IO = cmp.Or(r.Pids, &cgroup2.Pids{}), cmp.Or(r.IO, &cgroup2.IO{})
	slices.SortFunc(r.IO.Max, func(a, b cgroup2.Entry) int { return cmp.Compare(a.Type, b.Type) })
	// systemd would take limits away that it does not know; the library passes it no block I/O limits
	if t.systemd {
		if _, err := cgroup2.NewSystemd("/", filepath.Base(group), -1, r); err != nil {
			return err
		}
	}
	_, err := cgroup2.NewManager(t.root, "/"+group, r)
	return err
}

// forget has systemd remove a slice.
func forget(group string) {
	if m, err := cgroup2.LoadSystemd("/", filepath.Base(group)); err == nil {
		_ = m.DeleteSystemd()
	}
}

// Kill sends SIGKILL to all processes in a group and below it, and returns how many those were.
func (t *Tree) Kill(group string) int {
	killed := 0
	fds := map[int]int{}
	for pid := range t.processes(group) {
		if fd, err := unix.PidfdOpen(pid, 0); pid > 0 && err == nil {
			defer unix.Close(fd)
			fds[pid] = fd
		}
	}
	for pid := range t.processes(group) { // no process took over the pid of one that is still there
		if fd, ok := fds[pid]; ok && unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil {
			killed++
		}
	}
	return killed
}
