package calibrate

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strconv"
	"time"
)

// tick is the unit of CPU times below /proc: USER_HZ, which is 100 on every architecture that Go has.
const tick = 10 * time.Millisecond

// HostCPU is the CPU time that the host has used since it started, by anybody; 0 if that cannot be read.
func HostCPU() time.Duration {
	busy, _ := hostTimes()
	return busy
}

// hostTimes reads the first line of /proc/stat: the CPU time used, and the CPU time that a hypervisor gave to others.
func hostTimes() (busy, stolen time.Duration) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	line, _, _ := bytes.Cut(b, []byte("\n"))
	fields := bytes.Fields(line)
	// cpu user nice system idle iowait irq softirq steal; the times of guests are in user's
	for i, f := range fields {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			continue
		}
		switch i {
		case 1, 2, 3, 6, 7:
			busy += time.Duration(n) * tick
		case 8:
			stolen = time.Duration(n) * tick
		}
	}
	return busy, stolen
}

// Load measures the use of the host by others.
type Load struct {
	begun        time.Time
	busy, stolen time.Duration
	own          time.Duration // CPU time that is not of others
}

// Meter begins to measure.
func Meter() *Load {
	l := &Load{begun: time.Now()}
	l.busy, l.stolen = hostTimes()
	return l
}

// Less says that some CPU time was not of others.
func (l *Load) Less(d time.Duration) { l.own += d }

// Read returns the cores that others used since Meter, and the share of one core's time that a hypervisor took.
func (l *Load) Read() (busy, stolen float64) {
	b, s := hostTimes()
	wall := time.Since(l.begun).Seconds()
	if wall <= 0 {
		return 0, 0
	}
	return max(0, (b-l.busy-l.own).Seconds()/wall), max(0, (s-l.stolen).Seconds()/wall)
}

const (
	lull   = 150 * time.Millisecond // the engine clears up after containers that are gone
	glance = 250 * time.Millisecond // how long Others looks: many glances make up for coarse ticks
)

// sleep waits for d, or until ctx ends, whose error it returns.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Others looks for a moment how many cores others use; nothing runs for gantry meanwhile. Engine is the CPU time of the
// container engine since it began.
func Others(ctx context.Context, engine func() time.Duration) float64 {
	_ = sleep(ctx, lull)
	load, of, own := Meter(), engine(), OwnCPU()
	_ = sleep(ctx, glance)
	load.Less(max(0, engine()-of) + OwnCPU() - own)
	busy, _ := load.Read()
	return busy
}

// ProgramsCPU is the CPU time that running programs whose names begin with one of these have used, with that of their
// children that ended.
func ProgramsCPU(names ...string) (sum time.Duration) {
	procs, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	for _, p := range procs {
		if c := p.Name()[0]; c < '0' || c > '9' {
			continue
		}
		b, err := os.ReadFile("/proc/" + p.Name() + "/stat")
		if err != nil {
			continue
		}
		// pid (name) state ppid ... utime stime cutime cstime are fields 14 to 17
		from, to := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
		if from < 0 || to < from {
			continue
		}
		name := b[from+1 : to]
		fields := bytes.Fields(b[to+1:])
		if len(fields) < 15 || !slices.ContainsFunc(names, func(n string) bool {
			return bytes.HasPrefix(name, []byte(n))
		}) {
			continue
		}
		for _, f := range fields[11:15] {
			n, _ := strconv.ParseInt(string(f), 10, 64)
			sum += time.Duration(n) * tick
		}
	}
	return sum
}
