package calibrate

import (
	"bytes"
	"os"
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

// hostTimes reads the first line of /proc/stat: the CPU time used, and that which a hypervisor gave to others.
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

// Load measures what others use of the host.
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
