package calibrate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gantry/executor/emulate"
	"gantry/planner/unit"
)

// Cell is a row of the table of the emulator's targets and results: one kind of task, several times.
type Cell struct {
	Run       time.Duration
	CPU       float64 // percent of a core
	Resident  unit.Bytes
	Reads     []unit.Bytes
	Writes    []unit.Bytes
	Rate      int64 // limit of block I/O, bytes per second; 0: none
	Contended bool  // while as many other tasks compute as the host has cores
	Cores     int   // of the host
}

// least is how long the host's cores need for the task.
func (c *Cell) least() time.Duration {
	if c.Cores == 0 {
		return c.Run
	}
	return max(c.Run, time.Duration(float64(c.Run)*c.CPU/float64(100*c.Cores)))
}

func (c *Cell) String() string {
	s := fmt.Sprintf("%v at %g %% CPU", c.Run, c.CPU)
	if c.Resident > 0 {
		s += fmt.Sprintf(", %d MB", c.Resident/1e6)
	}
	if len(c.Reads)+len(c.Writes) > 0 {
		s += fmt.Sprintf(", reading %d and writing %d bytes", sum(c.Reads), sum(c.Writes))
	}
	if c.Contended {
		s += ", contended"
	}
	return s
}

func sum(sizes []unit.Bytes) (n unit.Bytes) {
	for _, s := range sizes {
		n += s
	}
	return n
}

// Achieved is one task of a cell.
type Achieved struct {
	Wall            time.Duration // as the log has it
	CPU             time.Duration // as the control group counted it
	Own             time.Duration // CPU time that was no computing: starting, touching memory, reading, writing
	Resident        unit.Bytes    // at the end; 0: no memory was asked for
	OwnMemory       unit.Bytes    // of it, the emulator's
	Peak            unit.Bytes    // of the control group
	Read, Written   unit.Bytes    // by the program
	KRead, KWritten unit.Bytes    // as the kernel counted them, in whole blocks
	LimitedBy       string
}

// Perform has the emulator do a cell n times, one after the other.
func (l *Lab) Perform(ctx context.Context, c Cell, cores, n int) (out []Achieved, err error) {
	limit := int64(0) // a node allows no more cores than the host has
	if c.CPU > float64(100*cores) {
		limit = int64(1000 * cores)
	}
	do := func() error {
		for range n {
			r, err := l.Run(ctx, Trial{Run: c.Run, CPU: c.CPU, Limit: limit, Resident: c.Resident, Reads: c.Reads,
				Writes: c.Writes, Rate: c.Rate})
			if err != nil {
				return err
			}
			x := &r[0]
			out = append(out, Achieved{Wall: x.Ran, CPU: x.CPUTime(), Own: time.Duration(x.Report.OwnCPUNanos),
				Resident:  unit.Bytes(x.Report.Memory.Achieved),
				OwnMemory: unit.Bytes(x.Report.OwnMemoryBytes), Peak: x.PeakMemory,
				Read: unit.Bytes(x.Report.Read.Achieved), Written: unit.Bytes(x.Report.Write.Achieved),
				KRead: x.ReadBytes, KWritten: x.WrittenBytes, LimitedBy: x.Report.LimitedBy})
		}
		return nil
	}
	if c.Contended {
		_, err = l.Busy(ctx, cores, do)
		return out, err
	}
	return out, do()
}

// Verdict compares the results of a cell with its targets.
type Verdict struct {
	WallOff, WallMost time.Duration // median error of the wall time, and its bar
	CPUOff, CPUMost   time.Duration // the same of the CPU time
	Misses            []string      // bars that were missed
	WallMissed        bool          // whether that of wall time is among them
	CPUMissed         bool          // and that of CPU time
}

// Judge says which bars were missed. Wall time is judged for uncontended cells without a limit of I/O only: the others
// last as long as they must. Tasks that ask for more cores than the host has last as long as its cores require, and say
// so. Ending is the CPU time that ending takes, which no task can measure itself.
func (c *Cell) Judge(all []Achieved, ending time.Duration) Verdict {
	const grain = 5 * time.Millisecond
	median := func(of func(*Achieved) time.Duration) time.Duration {
		var xs []time.Duration
		for i := range all {
			xs = append(xs, of(&all[i]))
		}
		slices.Sort(xs)
		return xs[len(xs)/2]
	}
	asked := time.Duration(float64(c.Run) * c.CPU / 100)
	v := Verdict{WallOff: median(func(a *Achieved) time.Duration { return a.Wall - c.Run }),
		WallMost: max(grain, c.least()/50), CPUOff: median(func(a *Achieved) time.Duration { return a.CPU - asked }),
		CPUMost: max(asked/50, ending+median(func(a *Achieved) time.Duration { return a.Own }))}
	miss := func(format string, args ...any) { v.Misses = append(v.Misses, fmt.Sprintf(format, args...)) }
	// The CPU time of starting counts as the task's, so that it may need less than its cores say.
	late := v.WallOff - (c.least() - c.Run)
	v.WallMissed = !c.Contended && c.Rate == 0 && (v.WallOff < -v.WallMost || late > v.WallMost)
	if v.WallMissed {
		miss("wall time off by %v, more than %v", v.WallOff.Round(100*time.Microsecond), v.WallMost)
	}
	if v.CPUMissed = v.CPUOff.Abs() > v.CPUMost; v.CPUMissed {
		miss("CPU time off by %v, more than %v", v.CPUOff.Round(100*time.Microsecond),
			v.CPUMost.Round(100*time.Microsecond))
	}
	for i := range all {
		a := &all[i]
		// A task does not see the wall time that its container adds: that may take up to the bar. Where others compute
		// it may take longer.
		if !c.Contended && c.least() > c.Run && a.Wall > c.Run+2*v.WallMost && a.LimitedBy != emulate.LimitedByCPU {
			miss("it lasted longer than asked, limited by %q, not %q", a.LimitedBy, emulate.LimitedByCPU)
		}
		least := max(c.Resident, a.OwnMemory)
		if c.Resident > a.OwnMemory && (a.Resident < c.Resident || a.Resident > least+least/20) {
			miss("%d bytes of memory resident, asked %d", a.Resident, c.Resident)
		}
		if a.Read != sum(c.Reads) || a.Written != sum(c.Writes) {
			miss("read %d and wrote %d bytes", a.Read, a.Written)
		}
	}
	return v
}

// Ending is the CPU time of a task that its control group counts and the task itself does not: the most among some that
// ask for no CPU time.
func Ending(all []Achieved) (most time.Duration) {
	for i := range all {
		most = max(most, all[i].CPU-all[i].Own)
	}
	return most
}

// Cells are those of the table: tasks of 10 ms to 60 s at 1 to 400 % CPU, those that hold memory, and those that read
// and write.
func Cells(cores int) (all []Cell) {
	for _, contended := range []bool{false, true} {
		all = append(all, Cell{Run: 10 * time.Millisecond, Contended: contended})
		for _, run := range []time.Duration{10 * time.Millisecond, 30 * time.Millisecond, 100 * time.Millisecond,
			300 * time.Millisecond, time.Second, 3 * time.Second, 10 * time.Second, time.Minute} {
			for _, cpu := range []float64{1, 10, 50, 100, 200, 400} {
				long := run == time.Minute
				if long && cpu != 1 && cpu != 100 || contended && run > time.Second {
					continue
				}
				all = append(all, Cell{Run: run, CPU: cpu, Contended: contended})
			}
		}
	}
	for _, m := range []unit.Bytes{1e6, 16e6, 64e6, 256e6, 1e9} {
		all = append(all, Cell{Run: time.Second, CPU: 50, Resident: m})
	}
	for _, b := range []unit.Bytes{0, 1, 4095, 4097, 1e6, 64e6} {
		all = append(all, Cell{Run: time.Second, CPU: 50, Reads: []unit.Bytes{b}, Writes: []unit.Bytes{b, b}})
	}
	all = append(all, Cell{Run: time.Second, CPU: 50, Reads: []unit.Bytes{20e6}, Writes: []unit.Bytes{20e6},
		Rate: 10e6})
	for i := range all {
		all[i].Cores = cores
	}
	return all
}
