// Package emulation holds the task emulator to its bars, with tasks of many kinds in containers of Docker.
// docs/emulation.md has the figures of a run.
package emulation

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"gantry/executor/container"
	"gantry/executor/container/docker"
	"gantry/executor/emulate"
	"gantry/executor/sim/calibrate"
	"gantry/planner"
	"gantry/planner/unit"
)

var large = flag.Bool("large", false, "do all tasks")

// kind is one kind of task.
type kind struct {
	calibrate.Trial
	contended bool          // while as many other tasks compute as the host has cores
	times     int           // one after the other
	least     time.Duration // that the cores of the host need
}

func (k *kind) String() string {
	s := fmt.Sprintf("%v at %g %% CPU", k.Run, k.CPU)
	if k.Resident > 0 {
		s += fmt.Sprintf(", %d MB", k.Resident/1e6)
	}
	if len(k.Reads) > 0 {
		s += fmt.Sprintf(", reading %d and writing %d bytes", sum(k.Reads), sum(k.Writes))
	}
	if k.Rate > 0 {
		s += fmt.Sprintf(" at %d MB/s", k.Rate/1e6)
	}
	if k.contended {
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

// kinds are tasks of 10 ms to 60 s at 1 to 400 % CPU, those that hold memory, and those that read and write. The first
// ones ask for no CPU time: they tell the time that ending takes, which no task can measure itself.
func kinds(cores int) (all []kind) {
	add := func(contended bool, times int, t calibrate.Trial) {
		k := kind{t, contended, times, max(t.Run, time.Duration(float64(t.Run)*t.CPU/float64(100*cores)))}
		if t.CPU > float64(100*cores) { // a node allows no more cores than the host has
			k.Limit = int64(1000 * cores)
		}
		all = append(all, k)
	}
	const ms = time.Millisecond
	for _, contended := range []bool{false, true} {
		add(contended, 9, calibrate.Trial{Run: 10 * ms})
		for _, run := range []time.Duration{10 * ms, 30 * ms, 100 * ms, 300 * ms, time.Second, 3 * time.Second,
			10 * time.Second, time.Minute} {
			for _, cpu := range []float64{1, 10, 50, 100, 200, 400} {
				if run == time.Minute && cpu != 1 && cpu != 100 || contended && run > time.Second {
					continue
				}
				times := 3
				if run >= 3*time.Second {
					times = 1
				}
				add(contended, times, calibrate.Trial{Run: run, CPU: cpu})
			}
		}
	}
	half := func(t calibrate.Trial) {
		t.Run, t.CPU = time.Second, 50
		add(false, 3, t)
	}
	for _, m := range []unit.Bytes{1e6, 16e6, 64e6, 256e6, 1e9} {
		half(calibrate.Trial{Resident: m})
	}
	for _, b := range []unit.Bytes{0, 1, 4095, 4097, 1e6, 64e6} {
		half(calibrate.Trial{Reads: []unit.Bytes{b}, Writes: []unit.Bytes{b, b}})
	}
	half(calibrate.Trial{Reads: []unit.Bytes{20e6}, Writes: []unit.Bytes{20e6}, Rate: 10e6})
	return all
}

// TestTheEmulatorDoesAsAsked holds wall time to 2 % or 5 ms where nothing disturbs a task, CPU time to 2 % or the time
// that starting, reading, writing and ending cost, memory to 5 % above the amount asked for or the emulator's own, and
// bytes to the digit. Tasks that ask for more cores than the host has last as long as those require, and say so.
func TestTheEmulatorDoesAsAsked(t *testing.T) {
	if !*large {
		t.Skip("it takes ten minutes of a quiet host: make emulation-table runs it")
	}
	lab, cores := open(t), runtime.NumCPU()
	ending := map[bool]time.Duration{}
	fmt.Println("| task | wall time off by | CPU time off by | its own CPU time | resident MB | limited by |")
	fmt.Println("| --- | ---: | ---: | ---: | ---: | --- |")
	for _, k := range kinds(cores) {
		t.Run(k.String(), func(t *testing.T) {
			all := k.perform(t, lab, cores)
			if k.CPU == 0 {
				for i := range all {
					ending[k.contended] = max(ending[k.contended], all[i].CPUTime()-own(&all[i]))
				}
			}
			k.judge(t, all, ending[k.contended])
		})
	}
}

// open makes a runtime of containers in a directory of its own, on the disk of the project.
func open(t *testing.T) *calibrate.Lab {
	binary, err := docker.FindTaskBinary()
	if err != nil {
		t.Fatal(err)
	}
	top, err := filepath.Abs("../../gantry-runs")
	if err == nil {
		err = os.MkdirAll(top, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(top, "emulation-")
	if err != nil {
		t.Fatal(err)
	}
	node := planner.Node{Name: "host", Speed: 1, Capacity: unit.Vector{unit.CPU: int64(runtime.NumCPU()) * 1000,
		unit.Memory: unit.Unlimited, unit.Disk: unit.Unlimited}}
	rt, err := docker.New(t.Context(), "", container.Config{Run: filepath.Base(dir), Dir: dir, TaskBinary: binary,
		Version: "emulation", Platform: &planner.Platform{Nodes: []planner.Node{node}, Groups: []string{""},
			Bandwidth: [][]unit.BytesPerSecond{{0}}, Latency: [][]int64{{0}}}})
	if err != nil {
		os.RemoveAll(dir)
		t.Fatal(err)
	}
	t.Cleanup(func() {
		rt.Discard()
		if err := errors.Join(rt.Close(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	return &calibrate.Lab{Runtime: rt, Dir: dir}
}

func (k *kind) perform(t *testing.T, lab *calibrate.Lab, cores int) (all []calibrate.Result) {
	do := func() error {
		for range k.times {
			r, err := lab.Run(t.Context(), k.Trial)
			if err != nil {
				return err
			}
			all = append(all, r...)
		}
		return nil
	}
	var err error
	if k.contended {
		_, err = lab.Busy(t.Context(), cores, do)
	} else {
		err = do()
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// own is the CPU time of a task that was no computing: starting, touching memory, reading, writing.
func own(r *calibrate.Result) time.Duration { return time.Duration(r.Report.OwnCPUNanos) }

func (k *kind) judge(t *testing.T, all []calibrate.Result, ending time.Duration) {
	median := func(of func(*calibrate.Result) time.Duration) time.Duration {
		var xs []time.Duration
		for i := range all {
			xs = append(xs, of(&all[i]))
		}
		slices.Sort(xs)
		return xs[len(xs)/2]
	}
	asked := time.Duration(float64(k.Run) * k.CPU / 100)
	wall := median(func(r *calibrate.Result) time.Duration { return r.Ran - k.Run })
	cpu := median(func(r *calibrate.Result) time.Duration { return r.CPUTime() - asked })
	its, last := median(own), all[len(all)-1].Report
	fmt.Printf("| %v | %+.1f ms | %+.1f ms | %.1f ms | %.2f | %s |\n", k, wall.Seconds()*1000, cpu.Seconds()*1000,
		its.Seconds()*1000, float64(last.Memory.Achieved)/1e6, last.LimitedBy)
	most := max(5*time.Millisecond, k.least/50)
	// The CPU time of starting counts as the task's, so that it may need less than its cores say.
	if late := wall - (k.least - k.Run); !k.contended && k.Rate == 0 && (wall < -most || late > most) {
		t.Errorf("wall time is off by %v, more than %v", wall, most)
	}
	if most := max(asked/50, ending+its); cpu.Abs() > most {
		t.Errorf("CPU time is off by %v, more than %v", cpu, most)
	}
	for i := range all {
		r := all[i].Report
		// A task does not see the wall time that its container adds: that may take up to the bar.
		if !k.contended && k.least > k.Run && all[i].Ran > k.Run+2*most && r.LimitedBy != emulate.LimitedByCPU {
			t.Errorf("it lasted longer than asked, limited by %q, not %q", r.LimitedBy, emulate.LimitedByCPU)
		}
		resident, its := unit.Bytes(r.Memory.Achieved), unit.Bytes(r.OwnMemoryBytes)
		if k.Resident > its && (resident < k.Resident || resident > k.Resident+k.Resident/20) {
			t.Errorf("%d bytes of memory are resident, asked %d", resident, k.Resident)
		}
		if unit.Bytes(r.Read.Achieved) != sum(k.Reads) || unit.Bytes(r.Write.Achieved) != sum(k.Writes) {
			t.Errorf("it read %d and wrote %d bytes", r.Read.Achieved, r.Write.Achieved)
		}
	}
}
