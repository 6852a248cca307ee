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

// Counters are what the kernel counted for a group, since it was made. Nothing is subtracted: a container's group also counts what runc
// needs to begin it, some 25 ms of CPU time and 3.5 MiB.
type Counters struct {
	CPU          time.Duration // exact; CPUUser + CPUSystem
	CPUUser      time.Duration
	CPUSystem    time.Duration // on v1 by the kernel's tick samples, so coarse for short times
	Throttled    time.Duration // time that the group's own quota held it back
	Periods      int64         // quota periods in which it was held back
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

// Set tells the counters that could be read.
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

// Max merges two readings of one thing: what either has counted. The parent of a group that is gone knows some of its counters, the
// last reading of the group itself the others.
func (c Counters) Max(d Counters) Counters {
	if d.CPU > c.CPU { // the three belong together
		c.CPU, c.CPUUser, c.CPUSystem = d.CPU, d.CPUUser, d.CPUSystem
	}
	c.Throttled, c.Periods = max(c.Throttled, d.Throttled), max(c.Periods, d.Periods)
	c.PeakMemory, c.OOMKills = max(c.PeakMemory, d.PeakMemory), max(c.OOMKills, d.OOMKills)
	c.ReadBytes, c.WrittenBytes = max(c.ReadBytes, d.ReadBytes), max(c.WrittenBytes, d.WrittenBytes)
	c.ReadOps, c.WriteOps = max(c.ReadOps, d.ReadOps), max(c.WriteOps, d.WriteOps)
	c.ForksRefused = max(c.ForksRefused, d.ForksRefused)
	c.Got |= d.Got
	return c
}

// Outlive are the counters of a group that its parent still has when the group is gone.
func (t *Tree) Outlive() Set {
	if t.mode == Unified {
		return CPU | Memory | OOM | IO | PIDs
	}
	return CPU | Memory
}

// Read reads counters of a group. What is wanted and cannot be read is missing from Got; a group that is not there has none.
func (t *Tree) Read(group string, want Set) Counters {
	if t.mode == Unified {
		return read2(t.Dir("", group))
	}
	var c Counters
	var buf [4096]byte
	// What is lost with the group comes first: a container's group is removed some milliseconds after its last process ended.
	if dir := t.Dir("blkio", group); want&IO != 0 {
		if throttleIO(dir+"/blkio.throttle.io_service_bytes_recursive", &c.ReadBytes, &c.WrittenBytes) &&
			throttleIO(dir+"/blkio.throttle.io_serviced_recursive", &c.ReadOps, &c.WriteOps) {
			c.Got |= IO
		}
	}
	if want&OOM != 0 {
		if b, ok := slurp(t.Dir("memory", group)+"/memory.oom_control", buf[:]); ok {
			c.OOMKills = field(b, "oom_kill")
			c.Got |= OOM
		}
	}
	if want&Throttled != 0 {
		if b, ok := slurp(t.Dir("cpu", group)+"/cpu.stat", buf[:]); ok {
			c.Throttled, c.Periods = time.Duration(field(b, "throttled_time")), field(b, "nr_throttled")
			c.Got |= Throttled
		}
	}
	if want&PIDs != 0 {
		if b, ok := slurp(t.Dir("pids", group)+"/pids.events", buf[:]); ok {
			c.ForksRefused = field(b, "max")
			c.Got |= PIDs
		}
	}
	if want&Memory != 0 {
		if n, ok := number(t.Dir("memory", group)+"/memory.max_usage_in_bytes", buf[:]); ok {
			c.PeakMemory = n
			c.Got |= Memory
		}
	}
	if dir := t.Dir("cpuacct", group); want&CPU != 0 {
		if n, ok := number(dir+"/cpuacct.usage", buf[:]); ok {
			sys, _ := number(dir+"/cpuacct.usage_sys", buf[:])
			c.CPU = time.Duration(n)
			c.CPUSystem = min(max(time.Duration(sys), 0), c.CPU)
			c.CPUUser = c.CPU - c.CPUSystem
			c.Got |= CPU
		}
	}
	return c
}

func read2(dir string) Counters {
	var c Counters
	var buf [8192]byte
	if b, ok := slurp(dir+"/io.stat", buf[:]); ok {
		for line := range bytes.Lines(b) {
			f := strings.Fields(string(line))
			if len(f) == 0 || stacked(f[0]) {
				continue
			}
			for _, kv := range f[1:] {
				k, v, _ := strings.Cut(kv, "=")
				n, _ := strconv.ParseInt(v, 10, 64)
				switch k {
				case "rbytes":
					c.ReadBytes += n
				case "wbytes":
					c.WrittenBytes += n
				case "rios":
					c.ReadOps += n
				case "wios":
					c.WriteOps += n
				}
			}
		}
		c.Got |= IO
	}
	if b, ok := slurp(dir+"/memory.events", buf[:]); ok {
		c.OOMKills = field(b, "oom_kill")
		c.Got |= OOM
	}
	if b, ok := slurp(dir+"/cpu.stat", buf[:]); ok {
		us := func(key string) time.Duration { return time.Duration(field(b, key)) * time.Microsecond }
		c.CPUUser, c.CPUSystem = us("user_usec"), us("system_usec")
		c.CPU = max(us("usage_usec"), c.CPUUser+c.CPUSystem)
		c.Got |= CPU
		if bytes.Contains(b, []byte("throttled_usec")) {
			c.Throttled, c.Periods = us("throttled_usec"), field(b, "nr_throttled")
			c.Got |= Throttled
		}
	}
	if n, ok := number(dir+"/memory.peak", buf[:]); ok { // Linux 5.19
		c.PeakMemory = n
		c.Got |= Memory
	}
	c.Memory, _ = number(dir+"/memory.current", buf[:])
	if b, ok := slurp(dir+"/pids.events", buf[:]); ok {
		c.ForksRefused = field(b, "max")
		c.Got |= PIDs
	}
	return c
}

// Limits reads back what a group is held to. On v1 and v2 alike a limit that the kernel calls unlimited is zero; so is what cannot be
// read. Block I/O limits are those on dev.
func (t *Tree) Limits(group string, dev Device) Limits {
	var buf [4096]byte
	get := func(controller, file string) int64 {
		n, ok := number(t.Dir(controller, group)+"/"+file, buf[:])
		if !ok || n < 0 || n >= 1<<62 { // v1 writes "unlimited" as the largest page-aligned number
			return 0
		}
		return n
	}
	l := Limits{PIDs: get("pids", "pids.max")}
	if t.mode == Unified {
		dir := t.Dir("", group)
		if b, ok := slurp(dir+"/cpu.max", buf[:]); ok {
			f := strings.Fields(string(b))
			if len(f) == 2 && f[0] != "max" {
				q, _ := strconv.ParseInt(f[0], 10, 64)
				p, _ := strconv.ParseInt(f[1], 10, 64)
				l.CPUQuota, l.CPUPeriod = time.Duration(q)*time.Microsecond, time.Duration(p)*time.Microsecond
			}
		}
		l.Memory = get("", "memory.max")
		if b, ok := slurp(dir+"/memory.swap.max", buf[:]); ok && l.Memory > 0 && !bytes.HasPrefix(b, []byte("max")) {
			l.MemorySwap = l.Memory + get("", "memory.swap.max")
		}
		if b, ok := slurp(dir+"/io.max", buf[:]); ok {
			for line := range bytes.Lines(b) {
				f := strings.Fields(string(line))
				if len(f) == 0 || f[0] != dev.String() {
					continue
				}
				l.Device = dev
				for _, kv := range f[1:] {
					k, v, _ := strings.Cut(kv, "=")
					n, _ := strconv.ParseInt(v, 10, 64)
					switch k {
					case "rbps":
						l.ReadBps = n
					case "wbps":
						l.WriteBps = n
					case "riops":
						l.ReadIOPS = n
					case "wiops":
						l.WriteIOPS = n
					}
				}
			}
		}
		return l
	}
	if q := get("cpu", "cpu.cfs_quota_us"); q > 0 {
		l.CPUQuota = time.Duration(q) * time.Microsecond
		l.CPUPeriod = time.Duration(get("cpu", "cpu.cfs_period_us")) * time.Microsecond
	}
	l.Memory, l.MemorySwap = get("memory", "memory.limit_in_bytes"), get("memory", "memory.memsw.limit_in_bytes")
	for file, to := range map[string]*int64{"read_bps_device": &l.ReadBps, "write_bps_device": &l.WriteBps,
		"read_iops_device": &l.ReadIOPS, "write_iops_device": &l.WriteIOPS} {
		b, _ := slurp(t.Dir("blkio", group)+"/blkio.throttle."+file, buf[:])
		if *to = field(b, dev.String()); *to > 0 {
			l.Device = dev
		}
	}
	return l
}

// throttleIO adds up a v1 file of lines "major:minor Read 4096". It reports whether the file was there.
func throttleIO(path string, read, written *int64) bool {
	var buf [8192]byte
	b, ok := slurp(path, buf[:])
	if !ok {
		return false
	}
	for len(b) > 0 {
		line, rest, _ := bytes.Cut(b, []byte{'\n'})
		b = rest
		dev, line, _ := bytes.Cut(line, []byte{' '})
		op, amount, _ := bytes.Cut(line, []byte{' '})
		var to *int64
		switch string(op) {
		case "Read":
			to = read
		case "Write":
			to = written
		default:
			continue
		}
		if n, _ := strconv.ParseInt(string(amount), 10, 64); n > 0 && !stacked(string(dev)) {
			*to += n
		}
	}
	return true
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

// slurp reads a small file of the kernel into buf. It does so by bare system calls, without telling Go's scheduler: these files never
// block for long, a container's group may vanish while the scheduler looks for a place to go on, and it costs half.
func slurp(path string, buf []byte) ([]byte, bool) {
	name, err := unix.BytePtrFromString(path)
	if err != nil {
		return nil, false
	}
	at := unix.AT_FDCWD
	fd, _, errno := unix.RawSyscall6(unix.SYS_OPENAT, uintptr(at), uintptr(unsafe.Pointer(name)), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
	if errno != 0 {
		return nil, false
	}
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
		if k == 0 {
			break
		}
		n += int(k)
	}
	return buf[:n], true
}

func number(path string, buf []byte) (int64, bool) {
	b, ok := slurp(path, buf)
	if !ok {
		return 0, false
	}
	b = bytes.TrimSpace(b)
	if string(b) == "max" {
		return -1, true
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	return n, err == nil
}

// field finds "key value" among lines.
func field(b []byte, key string) int64 {
	for len(b) > 0 {
		line, rest, _ := bytes.Cut(b, []byte{'\n'})
		b = rest
		if k, v, ok := bytes.Cut(line, []byte{' '}); ok && string(k) == key {
			n, _ := strconv.ParseInt(string(bytes.TrimSpace(v)), 10, 64)
			return n
		}
	}
	return 0
}
