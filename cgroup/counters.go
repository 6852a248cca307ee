package cgroup

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Counters are the kernel's counts for a group, since it was made. Nothing is subtracted: a container's group also
// counts the start of the container by runc, some 25 ms of CPU time and 3.5 MiB.
type Counters struct {
	CPU          time.Duration // exact; CPUUser + CPUSystem
	CPUUser      time.Duration
	CPUSystem    time.Duration // on v1 by the kernel's tick samples, so coarse for short times
	Throttled    time.Duration // time that the group's own quota held it back
	PeakMemory   int64         // bytes
	Memory       int64         // bytes held when they were read
	OOMKills     int64         // of processes in the group; on v1 not of those below it
	ReadBytes    int64         // block I/O of whole disks; on v1 not of groups that are gone
	WrittenBytes int64
	ReadOps      int64
	WriteOps     int64
	ForksRefused int64 // by the pids limit
	Got          Set   // which of them could be read
}

// Set is a set of counters.
type Set uint8

const (
	CPU Set = 1 << iota
	Throttled
	Memory
	OOM
	IO
	PIDs
	Everything = CPU | Throttled | Memory | OOM | IO | PIDs
)

// Max merges two readings of one group: of each counter, the larger value. The parent of a group that is gone knows
// some of its counters, the last reading of the group itself the others.
func (c Counters) Max(d Counters) Counters {
	if d.CPU > c.CPU { // the three belong together
		c.CPU, c.CPUUser, c.CPUSystem = d.CPU, d.CPUUser, d.CPUSystem
	}
	c.Throttled = max(c.Throttled, d.Throttled)
	c.PeakMemory, c.OOMKills = max(c.PeakMemory, d.PeakMemory), max(c.OOMKills, d.OOMKills)
	c.ReadBytes, c.WrittenBytes = max(c.ReadBytes, d.ReadBytes), max(c.WrittenBytes, d.WrittenBytes)
	c.ReadOps, c.WriteOps = max(c.ReadOps, d.ReadOps), max(c.WriteOps, d.WriteOps)
	c.ForksRefused = max(c.ForksRefused, d.ForksRefused)
	c.Got |= d.Got
	return c
}

// Outlive are the counters of a group that its parent still has when the group is gone. Refused forks are counted for
// the group of the process alone, on v2 before Linux 6.11, too.
func (t *Tree) Outlive() Set {
	if t.mode == Unified {
		return CPU | Memory | OOM | IO
	}
	return CPU | Memory
}

// Read reads counters of a group. Wanted counters that cannot be read are missing from Got; a group that is not there
// has none.
func (t *Tree) Read(group string, want Set) Counters {
	g := t.files(group)
	defer g.close()
	return g.counters(want)
}

// files reads the files of one group. Each of its directories, one per v1 hierarchy, is looked up once: for a group
// that is some levels deep that takes longer than reading a file.
type files struct {
	t     *Tree
	group string
	dirs  []directory
}

type directory struct {
	controller string
	fd         int
}

func (t *Tree) files(group string) *files { return &files{t: t, group: group} }

// dir is the open directory of a controller, -1 if there is none.
func (g *files) dir(controller string) int {
	if g.t.mode == Unified {
		controller = ""
	}
	for i := range g.dirs {
		if g.dirs[i].controller == controller {
			return g.dirs[i].fd
		}
	}
	fd, ok := open(unix.AT_FDCWD, g.t.Dir(controller, g.group), openPath|unix.O_DIRECTORY)
	if !ok { // it may come: runc makes one after the other
		return -1
	}
	g.dirs = append(g.dirs, directory{controller, fd})
	return fd
}

func (g *files) close() {
	for _, d := range g.dirs {
		unix.RawSyscall(unix.SYS_CLOSE, uintptr(d.fd), 0, 0)
	}
	g.dirs = nil
}

// slurp reads a file into buf.
func (g *files) slurp(controller, file string, buf []byte) ([]byte, bool) {
	dir := g.dir(controller)
	if dir < 0 {
		return nil, false
	}
	return slurp(dir, file, buf)
}

// number is that of a file with one; -1 for "max".
func number(b []byte) (int64, bool) {
	b = bytes.TrimSpace(b)
	if string(b) == "max" {
		return -1, true
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	return n, err == nil
}

// source is a file with counters. It notes them, and returns those that are whole now.
type source struct {
	of         Set
	controller string
	file       string
	note       func(b []byte, c *Counters) Set
}

// Counters that are lost with the group come first: a container's group is removed some milliseconds after its last
// process ended.
var sources = map[bool][]source{ // by whether it is v2
	false: {
		{IO, "blkio", "blkio.throttle.io_service_bytes_recursive", func(b []byte, c *Counters) Set {
			throttleIO(b, &c.ReadBytes, &c.WrittenBytes)
			return 0
		}},
		{IO, "blkio", "blkio.throttle.io_serviced_recursive", func(b []byte, c *Counters) Set {
			throttleIO(b, &c.ReadOps, &c.WriteOps)
			return IO
		}},
		{OOM, "memory", "memory.oom_control", noteOOM},
		{Throttled, "cpu", "cpu.stat", func(b []byte, c *Counters) Set {
			c.Throttled = time.Duration(field(b, "throttled_time"))
			return Throttled
		}},
		{PIDs, "pids", "pids.events", notePIDs},
		{Memory, "memory", "memory.max_usage_in_bytes", notePeak},
		{CPU, "cpuacct", "cpuacct.usage", func(b []byte, c *Counters) Set {
			n, ok := number(b)
			if !ok {
				return 0
			}
			c.CPU, c.CPUUser = time.Duration(n), time.Duration(n)
			return CPU
		}},
		{CPU, "cpuacct", "cpuacct.usage_sys", func(b []byte, c *Counters) Set {
			n, _ := number(b)
			c.CPUSystem = min(max(time.Duration(n), 0), c.CPU)
			c.CPUUser = c.CPU - c.CPUSystem
			return 0
		}},
	},
	true: {
		{IO, "", "io.stat", func(b []byte, c *Counters) Set {
			pairs(b, func(dev string) bool { return !stacked(dev) }, map[string]*int64{"rbytes": &c.ReadBytes,
				"wbytes": &c.WrittenBytes, "rios": &c.ReadOps, "wios": &c.WriteOps})
			return IO
		}},
		{OOM, "", "memory.events", noteOOM},
		{CPU | Throttled, "", "cpu.stat", func(b []byte, c *Counters) Set {
			us := func(key string) time.Duration { return time.Duration(field(b, key)) * time.Microsecond }
			c.CPUUser, c.CPUSystem = us("user_usec"), us("system_usec")
			c.CPU = max(us("usage_usec"), c.CPUUser+c.CPUSystem)
			if !bytes.Contains(b, []byte("throttled_usec")) {
				return CPU
			}
			c.Throttled = us("throttled_usec")
			return CPU | Throttled
		}},
		{Memory, "", "memory.peak", notePeak}, // Linux 5.19
		{Memory, "", "memory.current", func(b []byte, c *Counters) Set {
			c.Memory, _ = number(b)
			return 0
		}},
		{PIDs, "", "pids.events", notePIDs},
	},
}

func noteOOM(b []byte, c *Counters) Set {
	c.OOMKills = field(b, "oom_kill")
	return OOM
}

func notePIDs(b []byte, c *Counters) Set {
	c.ForksRefused = field(b, "max")
	return PIDs
}

func notePeak(b []byte, c *Counters) Set {
	n, ok := number(b)
	if !ok {
		return 0
	}
	c.PeakMemory = n
	return Memory
}

func (g *files) counters(want Set) Counters {
	var c Counters
	var buf [8192]byte
	for i := range sources[g.t.mode == Unified] {
		s := &sources[g.t.mode == Unified][i]
		if want&s.of == 0 {
			continue
		}
		if b, ok := g.slurp(s.controller, s.file, buf[:]); ok {
			c.Got |= s.note(b, &c)
		}
	}
	return c
}

// limits reads back the limits of the group. One that the kernel calls unlimited, on v1 or v2, is zero; so is one that
// cannot be read. Block I/O limits are those on dev.
func (g *files) limits(dev Device) Limits {
	var buf [4096]byte
	get := func(controller, file string) int64 {
		b, _ := g.slurp(controller, file, buf[:])
		n, ok := number(b)
		if !ok || n < 0 || n >= 1<<62 { // v1 writes "unlimited" as the largest page-aligned number
			return 0
		}
		return n
	}
	l := Limits{PIDs: get("pids", "pids.max")}
	rates := map[string]*int64{"rbps": &l.ReadBps, "wbps": &l.WriteBps, "riops": &l.ReadIOPS, "wiops": &l.WriteIOPS}
	var quota, period int64
	if g.t.mode == Unified {
		b, _ := g.slurp("", "cpu.max", buf[:])
		if f := strings.Fields(string(b)); len(f) == 2 && f[0] != "max" {
			quota, _ = strconv.ParseInt(f[0], 10, 64)
			period, _ = strconv.ParseInt(f[1], 10, 64)
		}
		l.Memory = get("", "memory.max")
		if b, ok := g.slurp("", "memory.swap.max", buf[:]); ok && l.Memory > 0 && !bytes.HasPrefix(b, []byte("max")) {
			l.MemorySwap = l.Memory + get("", "memory.swap.max")
		}
		b, _ = g.slurp("", "io.max", buf[:])
		pairs(b, func(d string) bool { return d == dev.String() }, rates)
	} else {
		if quota = get("cpu", "cpu.cfs_quota_us"); quota > 0 {
			period = get("cpu", "cpu.cfs_period_us")
		}
		l.Memory, l.MemorySwap = get("memory", "memory.limit_in_bytes"), get("memory", "memory.memsw.limit_in_bytes")
		for name, to := range rates {
			file := "blkio.throttle." + map[byte]string{'r': "read", 'w': "write"}[name[0]] + "_" + name[1:] + "_device"
			b, _ := g.slurp("blkio", file, buf[:])
			*to = field(b, dev.String())
		}
	}
	l.CPUQuota, l.CPUPeriod = time.Duration(quota)*time.Microsecond, time.Duration(period)*time.Microsecond
	if l.ReadBps > 0 || l.WriteBps > 0 || l.ReadIOPS > 0 || l.WriteIOPS > 0 {
		l.Device = dev
	}
	return l
}

// pairs adds up the lines of a v2 file, "major:minor key=value key=value", of those devices.
func pairs(b []byte, of func(dev string) bool, to map[string]*int64) {
	for line := range bytes.Lines(b) {
		f := strings.Fields(string(line))
		if len(f) == 0 || !of(f[0]) {
			continue
		}
		for _, kv := range f[1:] {
			k, v, _ := strings.Cut(kv, "=")
			if n, _ := strconv.ParseInt(v, 10, 64); to[k] != nil {
				*to[k] += n
			}
		}
	}
}

// throttleIO adds up the lines of a v1 file, "major:minor Read 4096".
func throttleIO(b []byte, read, written *int64) {
	for line := range bytes.Lines(b) {
		f := strings.Fields(string(line))
		if len(f) != 3 || stacked(f[0]) {
			continue
		}
		n, _ := strconv.ParseInt(f[2], 10, 64)
		switch f[1] {
		case "Read":
			*read += n
		case "Write":
			*written += n
		}
	}
}

var stack sync.Map // "major:minor" to bool

// stacked reports whether a device sits on others (device mapper, RAID): its I/O is counted again below it.
func stacked(dev string) bool {
	if v, ok := stack.Load(dev); ok {
		return v.(bool)
	}
	slaves, _ := os.ReadDir(filepath.Join("/sys/dev/block", dev, "slaves"))
	stack.Store(dev, len(slaves) > 0)
	return len(slaves) > 0
}

// open opens a file by a bare system call, without telling Go's scheduler: the files of control groups never block for
// long, a container's group may vanish while the scheduler looks for a place to continue, and it costs half.
func open(dir int, name string, flags int) (fd int, ok bool) {
	path, err := unix.BytePtrFromString(name)
	if err != nil {
		return -1, false
	}
	n, _, errno := unix.RawSyscall6(unix.SYS_OPENAT, uintptr(dir), uintptr(unsafe.Pointer(path)),
		uintptr(flags|unix.O_CLOEXEC), 0, 0, 0)
	return int(n), errno == 0
}

// whole is the most bytes that the kernel gives at once of a control group's file; a longer file comes in pieces.
const whole = 2048

// slurp reads a small file of the kernel into buf, in the way of open.
func slurp(dir int, name string, buf []byte) ([]byte, bool) {
	opened, ok := open(dir, name, unix.O_RDONLY)
	if !ok {
		return nil, false
	}
	fd := uintptr(opened)
	defer unix.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
	n := 0
	for n < len(buf) {
		k, _, errno := unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&buf[n])), uintptr(len(buf)-n))
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return nil, false
		}
		n += int(k)
		if k == 0 || n <= whole {
			break
		}
	}
	return buf[:n], true
}

// field finds "key value" among lines.
func field(b []byte, key string) int64 {
	for line := range bytes.Lines(b) {
		if k, v, ok := bytes.Cut(line, []byte{' '}); ok && string(k) == key {
			n, _ := strconv.ParseInt(string(bytes.TrimSpace(v)), 10, 64)
			return n
		}
	}
	return 0
}
