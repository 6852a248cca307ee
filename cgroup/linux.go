//go:build linux

package cgroup

import (
	"path/filepath"
	"sort"

	"github.com/containerd/cgroups/v3/cgroup1"
	"github.com/containerd/cgroups/v3/cgroup2"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// openPath opens a directory only to open files in it.
const openPath = unix.O_PATH

// create makes a group once.
func (t *Tree) create(group string, l Limits) error {
	if t.mode == Unified {
		return t.create2(group, l)
	}
	return t.create1(group, l)
}

func (t *Tree) create1(group string, l Limits) error {
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
	if l.Device != (Device{}) {
		r.BlockIO = &specs.LinuxBlockIO{}
		for _, x := range []struct {
			rate int64
			to   *[]specs.LinuxThrottleDevice
		}{{l.ReadBps, &r.BlockIO.ThrottleReadBpsDevice}, {l.WriteBps, &r.BlockIO.ThrottleWriteBpsDevice},
			{l.ReadIOPS, &r.BlockIO.ThrottleReadIOPSDevice}, {l.WriteIOPS, &r.BlockIO.ThrottleWriteIOPSDevice}} {
			if x.rate > 0 {
				d := specs.LinuxThrottleDevice{Rate: uint64(x.rate)}
				d.Major, d.Minor = int64(l.Device.Major), int64(l.Device.Minor)
				*x.to = append(*x.to, d)
			}
		}
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

func (t *Tree) create2(group string, l Limits) error {
	// Controllers are switched on for the groups below by naming them, limits or not.
	r := &cgroup2.Resources{CPU: &cgroup2.CPU{}, Memory: &cgroup2.Memory{}, Pids: &cgroup2.Pids{}, IO: &cgroup2.IO{}}
	if l.CPUQuota > 0 {
		q, p := l.CPUQuota.Microseconds(), uint64(l.CPUPeriod.Microseconds())
		r.CPU.Max = cgroup2.NewCPUMax(&q, &p)
	}
	if l.Memory > 0 {
		r.Memory.Max = &l.Memory
		if swap := l.MemorySwap - l.Memory; swap >= 0 && t.SwapAccounted() {
			r.Memory.Swap = &swap
		}
	}
	if l.PIDs > 0 {
		r.Pids.Max = l.PIDs
	}
	if l.Device != (Device{}) {
		for kind, rate := range map[cgroup2.IOType]int64{cgroup2.ReadBPS: l.ReadBps, cgroup2.WriteBPS: l.WriteBps,
			cgroup2.ReadIOPS: l.ReadIOPS, cgroup2.WriteIOPS: l.WriteIOPS} {
			if rate > 0 {
				r.IO.Max = append(r.IO.Max, cgroup2.Entry{Type: kind, Major: int64(l.Device.Major),
					Minor: int64(l.Device.Minor), Rate: uint64(rate)})
			}
		}
		sort.Slice(r.IO.Max, func(i, j int) bool { return r.IO.Max[i].Type < r.IO.Max[j].Type })
	}
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
