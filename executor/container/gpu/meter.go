package gpu

import (
	"bufio"
	"context"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	period  = 500 * time.Millisecond // between samples
	mostGap = 10 * time.Second       // between samples of a device that was measured
	stale   = 100 * time.Millisecond // a first sample that comes sooner may be of the time before
	mostBad = 100                    // lines in a row that are no samples
	mostMiB = 1 << 30                // of a device
	idle    = time.Minute            // without a use
)

// Meter measures GPUs of NVIDIA by nvidia-smi, the client of the vendor's library of measurements (NVML). One of it
// runs while anybody uses a device. Where it is not there, hangs or fails, nothing is measured, and no more.
type Meter struct {
	ctx  context.Context
	mu   sync.Mutex
	runs bool
	uses map[*Use]bool
	left time.Time // when the last use ended
}

// Use is the use of some devices by one attempt, which has them for itself.
type Use struct {
	meter   *Meter
	devices []device
}

type device struct {
	name   string
	last   time.Time     // of its last sample, or the begin
	load   int64         // in that sample, percent
	busy   time.Duration // until then
	memory int64         // the most, bytes
	known  bool          // there was a sample
	// A sample did not say how busy it was, or how much memory was used; or too much time passed between samples.
	noLoad, noMemory, gap bool
}

// NewMeter makes a Meter that ends with a context.
func NewMeter(ctx context.Context) *Meter { return &Meter{ctx: ctx, uses: map[*Use]bool{}} }

// Begin begins to measure devices, by their names in CDI.
func (m *Meter) Begin(names []string) *Use {
	u := &Use{meter: m}
	for _, name := range names {
		u.devices = append(u.devices, device{name: name, last: time.Now()})
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.uses[u] = true
	if !m.runs {
		m.runs = true
		go m.run()
	}
	return u
}

// End ends a use that was over at an instant, by the zero Time now. It returns for how long kernels ran on the devices,
// and the most bytes of memory that were used, each added up over the devices. Nil is not measured, as all of a nil Use
// is.
func (u *Use) End(over time.Time) (busy *time.Duration, memory *int64) {
	if u == nil {
		return nil, nil
	}
	u.meter.mu.Lock()
	defer u.meter.mu.Unlock()
	u.meter.left = time.Now()
	delete(u.meter.uses, u)
	if over.IsZero() {
		over = time.Now()
	}
	busy, memory = new(time.Duration), new(int64)
	for i := range u.devices {
		d := &u.devices[i]
		rest := over.Sub(d.last) // below 0: a sample came later
		if !d.known || d.gap || rest > mostGap {
			return nil, nil
		}
		if d.noLoad {
			busy = nil
		}
		if d.noMemory {
			memory = nil
		}
		if busy != nil {
			*busy += max(0, d.busy+rest*time.Duration(d.load)/100)
		}
		if memory != nil {
			*memory += d.memory
		}
	}
	return busy, memory
}

// run has nvidia-smi tell samples until it ends, says too much that is none, or nobody uses a device any more.
func (m *Meter) run() {
	ctx, end := context.WithCancel(m.ctx)
	c := exec.CommandContext(ctx, "nvidia-smi", "--query-gpu=uuid,index,utilization.gpu,memory.used",
		"--format=csv,noheader,nounits", "-lms", strconv.FormatInt(period.Milliseconds(), 10))
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for gantry
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err == nil {
		lines := bufio.NewScanner(out)
		for bad := 0; bad < mostBad && lines.Scan() && m.wanted(); bad++ {
			if m.sample(time.Now(), strings.Split(lines.Text(), ",")) {
				bad = -1
			}
		}
	}
	m.mu.Lock()
	m.runs = false
	m.mu.Unlock()
	end()
	if err == nil {
		_ = c.Wait()
	}
}

// wanted reports whether anybody uses a device, or did lately.
func (m *Meter) wanted() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.uses) > 0 || time.Since(m.left) < idle
}

// sample takes a line of nvidia-smi: the UUID and the number of a device, the percent of the time in which kernels ran,
// and the memory that is used, in MiB. It reports whether the line is one. A device may not tell a value.
func (m *Meter) sample(now time.Time, cells []string) bool {
	if len(cells) != 4 || !strings.HasPrefix(cells[0], "GPU-") {
		return false
	}
	uuid, number := strings.TrimSpace(cells[0]), strings.TrimSpace(cells[1])
	load, noLoad := strconv.ParseUint(strings.TrimSpace(cells[2]), 10, 8)
	mib, noMemory := strconv.ParseUint(strings.TrimSpace(cells[3]), 10, 32)
	m.mu.Lock()
	defer m.mu.Unlock()
	for u := range m.uses {
		for i := range u.devices {
			d := &u.devices[i]
			of, ok := strings.CutPrefix(d.name, "nvidia.com/gpu=")
			past := now.Sub(d.last)
			if !ok || of != uuid && of != number && of != "gpu"+number || !d.known && past < stale {
				continue
			}
			d.noLoad = d.noLoad || noLoad != nil || load > 100
			d.noMemory = d.noMemory || noMemory != nil || mib > mostMiB
			d.gap = d.gap || past > mostGap
			d.busy += past * time.Duration(min(load, 100)) / 100
			d.last, d.load, d.memory, d.known = now, int64(min(load, 100)), max(d.memory, int64(mib)<<20), true
		}
	}
	return true
}
