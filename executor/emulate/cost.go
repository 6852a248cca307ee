package emulate

import "time"

// Limits are the limits of a task's container. Zero is no limit.
type Limits struct {
	CPUMillicores     int64 // CPU time over wall time, in thousandths of a core
	ReadBps, WriteBps int64 // bytes per second of block I/O
	// operations per second; the emulator reads and writes up to IOBytes in one
	ReadIOPS, WriteIOPS int64
}

// IOBytes is how much the emulator reads or writes at once. Devices may split it.
const IOBytes = 1 << 20

// Own is the emulator's own overhead, alone on a host at rest. The zero Own has no overhead and a disk without limits.
type Own struct {
	// StartNanos is from the launcher's claim, when the attempt counts as started, until the work begins, and EndNanos
	// from the end of the work until the process has ended. StartCPUNanos is the CPU time of the process until its work
	// begins, the container's set-up included: Spec.CPUNanos includes it.
	StartNanos    int64 `json:"start_nanos"`
	EndNanos      int64 `json:"end_nanos"`
	StartCPUNanos int64 `json:"start_cpu_nanos"`
	// MemoryByteNanos is wall and CPU time for each byte of memory touched.
	MemoryByteNanos float64 `json:"memory_byte_nanos"`
	// CPU time for each byte read or written.
	ReadByteCPUNanos  float64 `json:"read_byte_cpu_nanos"`
	WriteByteCPUNanos float64 `json:"write_byte_cpu_nanos"`
	// Wall time for each file, beside its bytes: opening, creating, syncing.
	ReadFileNanos  int64 `json:"read_file_nanos"`
	WriteFileNanos int64 `json:"write_file_nanos"`
	// Rates of the disk for one task without limits; 0: as much as it likes.
	ReadBytesPerSecond  float64 `json:"read_bytes_per_second"`
	WriteBytesPerSecond float64 `json:"write_bytes_per_second"`
}

// Parts of the work that may take longer than a task was to last, as in Report.LimitedBy.
const (
	LimitedByCPU   = "cpu"
	LimitedByRead  = "read"
	LimitedByWrite = "write"
	LimitedByStart = "start"
)

// Cost is the time that a task takes, alone on its host.
type Cost struct {
	Wall time.Duration // from its start to its end
	CPU  time.Duration // of the whole process, all threads
	// LimitedBy is the part of the work that makes it last longer than Spec.Run; "" if none does.
	LimitedBy string
	Parts     Parts
}

// Parts are those of a Cost. Start, Memory and End come one after the other. Between Memory and End computing, reading
// and writing go side by side, each as fast as its limit allows and no faster than its part of the run; then the task
// waits until Run is over.
type Parts struct {
	Start, Memory, End time.Duration
	Run                time.Duration // that the task is to last, from Start on
	Work               time.Duration // of Run: the work is spread over it
	Compute            Part          // amount in CPU nanoseconds that are left to be spent after Start and Memory
	Read, Write        Part          // amount in bytes
}

// Part is an amount of work and the most that can be done of it in a second, where rate 0 is unlimited. Fixed is the
// time beside the amount: opening and syncing files.
type Part struct {
	Amount, Rate float64
	Fixed        time.Duration
}

// Least is how long a part takes at its full rate.
func (p Part) Least() time.Duration {
	if p.Rate <= 0 || p.Amount <= 0 {
		return p.Fixed
	}
	return p.Fixed + time.Duration(p.Amount/p.Rate*float64(time.Second))
}

// Spread is the part of a run that its work is spread over. The rest makes up for delays.
func Spread(run time.Duration) time.Duration { return run - min(run/10, 500*time.Millisecond) }

// Late is by how much a task has to last longer than its run for that to count.
func Late(run time.Duration) time.Duration { return max(5*time.Millisecond, run/50) }

// Cost returns the time that a task takes within its limits, alone on its host. No other code computes it: gantry's
// simulation and estimates take it from here, and the emulator behaves like it. Inputs of unknown size (Bytes -1) count
// as empty: callers that know the sizes fill them in.
//
// The wall time is start + max(run, memory + max(compute, read, write)) + end. Compute is CPU time over the smaller of
// threads and quota. Read and write are bytes over the smaller of limit and disk's rate, and more for each file. CPU
// time is that of the Spec, or the emulator's own need if that is more.
func (s *Spec) Cost(l Limits, o Own) Cost {
	threads := float64(max(s.Threads, 1))
	if q := float64(l.CPUMillicores) / 1000; q > 0 {
		threads = min(threads, q)
	}
	read, written := total(s.Inputs), total(s.Outputs)
	p := Parts{Start: time.Duration(o.StartNanos), End: time.Duration(o.EndNanos), Run: s.Run(),
		Memory: time.Duration(o.MemoryByteNanos * float64(max(s.MemoryBytes, 0))), Work: Spread(s.Run()),
		Read: Part{Amount: float64(read), Rate: rate(l.ReadBps, l.ReadIOPS, o.ReadBytesPerSecond),
			Fixed: time.Duration(int64(len(s.Inputs)) * o.ReadFileNanos)},
		Write: Part{Amount: float64(written), Rate: rate(l.WriteBps, l.WriteIOPS, o.WriteBytesPerSecond),
			Fixed: time.Duration(int64(len(s.Outputs)) * o.WriteFileNanos)},
	}
	own := time.Duration(o.StartCPUNanos) + p.Memory
	io := time.Duration(o.ReadByteCPUNanos*float64(read) + o.WriteByteCPUNanos*float64(written))
	c := Cost{CPU: max(time.Duration(s.CPUNanos), own+io)}
	p.Compute = Part{Amount: float64(c.CPU - own), Rate: threads * float64(time.Second)}
	c.Parts = p
	work := time.Duration(0)
	for _, w := range []struct {
		part string
		d    time.Duration
	}{{LimitedByRead, p.Read.Least()}, {LimitedByWrite, p.Write.Least()}, {LimitedByCPU, p.Compute.Least()}} {
		if w.d > work {
			work, c.LimitedBy = w.d, w.part
		}
	}
	c.Wall = p.Start + max(p.Run, p.Memory+work) + p.End
	switch late := c.Wall - p.Run; {
	case late <= Late(p.Run) || p.Run == 0:
		c.LimitedBy = ""
	case p.Memory+work <= p.Run:
		c.LimitedBy = LimitedByStart
	}
	return c
}

// total sums up the sizes that are known.
func total(files []File) (bytes int64) {
	for _, f := range files {
		bytes += max(f.Bytes, 0)
	}
	return bytes
}

// rate is the least of the known rates.
func rate(bps, iops int64, disk float64) (r float64) {
	for _, x := range []float64{float64(bps), float64(iops) * IOBytes, disk} {
		if x > 0 && (r == 0 || x < r) {
			r = x
		}
	}
	return r
}
